#include "hdf5schema/rewrite.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "hdf5schema/disk_space.h"
#include "hdf5schema/joined_trace.h"
#include "hdf5schema/minute_trace.h"
#include "hdf5schema/row_tables.h"
#include "hdf5schema/trace_file.h"
#include "hdf5schema/trace_reader.h"

namespace reveal {
namespace {

/// Seconds in a short form: "30 min", "6.2 h".
std::string in_words(std::int64_t nanoseconds) {
  const double seconds = static_cast<double>(nanoseconds) / 1e9;
  const double number = seconds < 120 ? seconds : seconds < 7200 ? seconds / 60 : seconds / 3600;
  const long tenths = std::lround(number * 10);
  const std::string fraction = tenths % 10 == 0 ? "" : "." + std::to_string(tenths % 10);
  return std::to_string(tenths / 10) + fraction + (seconds < 120 ? " s" : seconds < 7200 ? " min" : " h");
}

struct Axis {
  std::size_t index = 0;
  std::size_t rows_per_chunk = 1;
  std::size_t chunks_in_one = 1;  // chunks of the source in one new chunk
  std::vector<std::int64_t> times;
};
using Axes = std::map<std::string, Axis>;

/// Chunks of the source that one of a closed file holds: so many that all of its are as long.
std::size_t chunks_in_one(std::size_t chunks, std::chrono::nanoseconds time) {
  const auto wanted = static_cast<std::size_t>(std::max<std::int64_t>(kClosedChunkTime / time, 1));
  const std::size_t pieces = std::max<std::size_t>((chunks + wanted - 1) / wanted, 1);
  return std::max<std::size_t>((chunks + pieces - 1) / pieces, 1);
}

Axes axes_of(const std::vector<JoinedFamily>& families, TraceFile::Form form) {
  Axes axes;
  for (const JoinedFamily& family : families) {
    const FamilySpec& spec = family.newest().spec;
    Axis& axis = axes[axis_name(spec)];
    if (family.rows() < axis.times.size()) continue;
    axis.times.assign(family.times().begin(), family.times().end());
    if (form == TraceFile::Form::closed)
      axis.chunks_in_one =
          chunks_in_one(family.chunks(), spec.period * static_cast<std::int64_t>(family.rows_per_chunk()));
    axis.rows_per_chunk = family.rows_per_chunk() * axis.chunks_in_one;
  }
  return axes;
}

void write_family(const JoinedFamily& family, const Axis& axis, std::size_t index, TraceFile& file) {
  file.write_channels(index, 0, family.newest().channels);
  const bool increments = is_counted(family.newest().spec.kind);
  for (std::size_t chunk = 0; chunk < family.chunks(); chunk += axis.chunks_in_one) {
    const std::size_t first = chunk * family.rows_per_chunk();
    const std::size_t count = std::min(axis.rows_per_chunk, family.rows() - first);
    const std::vector<std::int64_t> bases =
        increments ? family.bases(chunk, axis.chunks_in_one) : std::vector<std::int64_t>();
    file.write_rows(index, family.channels(), count, family.read(first, count).data(), bases);
  }
}

struct Span {
  std::int64_t begin = std::numeric_limits<std::int64_t>::max();
  std::int64_t end = std::numeric_limits<std::int64_t>::min();

  [[nodiscard]] std::int64_t nanoseconds() const { return end > begin ? end - begin : 0; }
};

Span span_of(const Axes& axes) {
  Span span;
  for (const auto& [name, axis] : axes) {
    if (axis.times.empty()) continue;
    span.begin = std::min(span.begin, axis.times.front());
    span.end = std::max(span.end, axis.times.back());
  }
  return span;
}

enum class Kept : bool { all, last };

std::vector<EventRecord> events_of(const JoinedTrace& source, const Span& kept, Kept rows) {
  std::vector<EventRecord> events;
  if (rows == Kept::last)
    events.push_back(
        record_of({kept.begin, "trace", "rows_dropped",
                   "kept the last " + in_words(kept.nanoseconds()) + "; earlier rows were deleted, as configured"}));
  for (const TraceReader* each : source.in_order()) {
    for (const Event& event : each->events()) events.push_back(record_of(event));
  }
  return events;
}

TableSizes sizes_of_tables(const JoinedTrace& source, std::size_t events) {
  TableSizes sizes{.events = events};
  for (const TraceReader* each : source.in_order()) {
    for_each_table(sizes.tables, [each]<class Row>(RowCount<Row>& table) { table.rows += each->table_size<Row>(); });
  }
  return sizes;
}

/// Piece by piece: a node has no memory to spare for all of them.
template <class Row>
void write_table(const JoinedTrace& source, TraceFile& file) {
  for (const TraceReader* each : source.in_order()) {
    each->read_table<Row>([&](std::span<const Row> rows) {
      std::vector<RowRecord<Row>> records;
      records.reserve(rows.size());
      for (const Row& row : rows) records.push_back(row_record(row));
      file.write_table<Row>(records);
    });
  }
}

/// Nothing is replaced by a file that was not read again from its beginning to its end. Throws Error.
void check_written(const std::filesystem::path& path, const std::vector<TraceFile::Written>& written) {
  const TraceReader reader(path);
  bool whole = reader.damages().empty() && reader.families().size() == written.size();
  for (const TraceReader::Family& family : reader.families()) {
    const auto expected =
        std::find_if(written.begin(), written.end(), [&](const auto& each) { return each.path == family.spec.path; });
    whole = whole && expected != written.end() && family.time_ns.size() == expected->rows &&
            (expected->rows == 0 || family.channels.size() == expected->channels);
    if (!whole) break;
    const JoinedFamily values(reader, family);
    const bool increments = is_counted(family.spec.kind);
    std::uint32_t sum = 0;
    for (std::size_t first = 0; first < expected->rows; first += expected->rows_at_once) {
      const std::size_t count = std::min(expected->rows_at_once, expected->rows - first);
      sum = TraceFile::checksum(values.read(first, count), sum);
      if (increments) sum = TraceFile::checksum(values.bases(first / values.rows_per_chunk(), 1), sum);
    }
    whole = sum == expected->checksum;
  }
  if (!whole) throw Error(path.string() + ": cannot be read back as it was written");
}

/// On the disk, and as it was written.
void finish(const std::filesystem::path& path, const std::vector<TraceFile::Written>& written) {
  DiskSpace(path).finish();
  check_written(path, written);
}

/// Where a trace is written: a file of its own, or a group of one that exists.
struct Target {
  const std::filesystem::path& file;
  TraceFile::Form form = TraceFile::Form::closed;
  std::string group = {};
};

/// Returns the seconds written.
double rewrite(const JoinedTrace& source, const Target& to, bool complete, Kept rows = Kept::all) {
  const TraceFile::Form form = to.form;
  const TraceReader& reader = source.newest();
  const std::vector<JoinedFamily>& families = source.families();
  Axes axes = axes_of(families, form);
  const Span span = span_of(axes);
  const std::vector<EventRecord> events = events_of(source, span, rows);
  TraceFile file(to.file, reader.header(), form, sizes_of_tables(source, events.size()), to.group);
  for (auto& [name, axis] : axes) axis.index = file.add_axis(name, axis.rows_per_chunk);
  for (const JoinedFamily& family : families) {
    const Axis& axis = axes.at(axis_name(family.newest().spec));
    const std::size_t together = form == TraceFile::Form::closed
                                     ? closed_channels_per_chunk(family.channels(), axis.rows_per_chunk)
                                     : std::max<std::size_t>(family.channels(), 1);
    file.add_family(family.newest().spec, axis.index, together, family.channels());
  }
  file.write_snapshot(reader.snapshot_begin(), reader.topology_xml());
  file.start();

  for (std::size_t index = 0; index < families.size(); ++index)
    write_family(families[index], axes.at(axis_name(families[index].newest().spec)), index, file);
  for (const auto& [name, axis] : axes) {
    for (std::size_t first = 0; first < axis.times.size(); first += axis.rows_per_chunk)
      file.write_times(axis.index,
                       std::span(axis.times).subspan(first, std::min(axis.rows_per_chunk, axis.times.size() - first)));
  }
  file.write_events(events);
  write_table<TrainingStep>(source, file);
  write_table<SampledCollective>(source, file);
  for (const TraceReader* each : source.in_order()) file.write_clocks(each->clocks());
  file.write_coverage(reader.coverage());
  file.write_end_snapshot(reader.snapshot_end());
  file.close(complete);
  if (to.group.empty()) finish(to.file, file.written());  // a group has no original that it replaces
  return static_cast<double>(span.nanoseconds()) / 1e9;
}

}  // namespace

double recover(const std::filesystem::path& part, const std::filesystem::path& to) {
  return rewrite(JoinedTrace(part), {to, TraceFile::Form::recovered}, false);
}

void copy_into(const std::filesystem::path& trace, const std::filesystem::path& to, const std::string& group) {
  const JoinedTrace source(trace);
  static_cast<void>(rewrite(source, {to, TraceFile::Form::closed, group}, source.newest().complete()));
}

namespace {

/// The new file replaces the trace, so nothing may be missing in it.
void require_whole(const std::filesystem::path& trace, const TraceReader& reader) {
  if (!reader.damages().empty()) throw Error(trace.string() + ": is damaged: " + reader.damages().front().text());
}

}  // namespace

std::optional<Retention> parse_retention(std::string_view text) {
  constexpr std::string_view kRolling = "rolling=";
  if (text == "full") return Retention{};
  if (text == "summary") return Retention{.form = Retention::Form::summary};
  if (!text.starts_with(kRolling)) return std::nullopt;
  const auto keep = parse_duration(text.substr(kRolling.size()));
  if (!keep || *keep < std::chrono::minutes(1)) return std::nullopt;
  return Retention{.form = Retention::Form::rolling, .keep = *keep};
}

bool compact(const std::filesystem::path& trace, const std::filesystem::path& to, const Retention& retention) {
  if (retention.form == Retention::Form::summary) {
    const TraceReader reader(trace);
    require_whole(trace, reader);
    finish(to, write_minute_trace(reader, to));
    return true;
  }
  JoinedTrace source(trace);
  if (retention.form == Retention::Form::full) {
    source.forget_earlier();
  } else if (!source.left_out().empty()) {
    throw Error(trace.string() + ": " + source.left_out());
  }
  for (const TraceReader* each : source.in_order()) require_whole(trace, *each);
  const Kept rows = source.keep_last(retention.keep) ? Kept::last : Kept::all;
  std::uint64_t values = 0;
  for (const JoinedFamily& family : source.families()) values += family.channels() * family.rows();
  if (values > kCompactValues * source.in_order().size()) return false;
  static_cast<void>(rewrite(source, {to}, source.newest().complete(), rows));
  return true;
}

}  // namespace reveal
