// A trace with one row a minute: what is left of it where disk matters more than detail.
#pragma once

#include <filesystem>
#include <vector>

#include "hdf5schema/trace_file.h"
#include "hdf5schema/trace_reader.h"

namespace reveal {

/// Families slower than a minute stay as they are. Of the others: counters and events as increments per minute, from
/// which every absolute value follows as before; states as the minute's last; gauges as its mean. PATH_min, PATH_max
/// and, of gauges, PATH_last hold the extremes of a row's value (of an increment, where the family has increments) and
/// the last one, under the metrics' names with ".min", ".max", ".last". Returns what a reader must find. Throws Error.
[[nodiscard]] std::vector<TraceFile::Written> write_minute_trace(const TraceReader& trace,
                                                                 const std::filesystem::path& to);

}  // namespace reveal
