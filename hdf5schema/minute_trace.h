// A trace with one row a minute: for sites where disk space matters more than detail.
#pragma once

#include <filesystem>
#include <vector>

#include "hdf5schema/trace_file.h"
#include "hdf5schema/trace_reader.h"

namespace reveal {

/// Families slower than a minute stay as they are. In the others, counters and events become increments per minute,
/// from which every absolute value follows as before; states become the minute's last; gauges become its mean.
/// PATH_min, PATH_max and, of gauges, PATH_last hold the extremes of a row's value (of an increment, where the family
/// has increments) and the last one, under the metrics' names with ".min", ".max", ".last". Returns the contents that a
/// reader must find. Throws Error.
[[nodiscard]] std::vector<TraceFile::Written> write_minute_trace(const TraceReader& trace,
                                                                 const std::filesystem::path& to);

}  // namespace reveal
