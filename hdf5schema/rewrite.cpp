#include "hdf5schema/rewrite.h"

#include <algorithm>
#include <limits>
#include <map>

#include "hdf5schema/trace_file.h"
#include "hdf5schema/trace_reader.h"

namespace reveal {
namespace {

std::string axis_name(const FamilySpec& spec) {
  return period_name(spec.period) + (spec.clock.empty() ? "" : "_" + spec.clock);
}

EventRecord record_of(const Event& event) {
  EventRecord record{};
  record.time_ns = event.time_ns;
  copy_text(record.object, event.object);
  copy_text(record.code, event.code);
  copy_text(record.text, event.text);
  return record;
}

/// The base of several chunks in one: the absolute value before their first row, or the channel's first one.
std::vector<std::int64_t> merged_bases(const TraceReader::Bases& bases, std::size_t channels, std::size_t first,
                                       std::size_t count) {
  std::vector<std::int64_t> merged(channels, kMissing);
  for (std::size_t channel = 0; channel < channels; ++channel) {
    for (std::size_t chunk = first; chunk < first + count && merged[channel] == kMissing; ++chunk) {
      merged[channel] = bases.values[channel * bases.chunks + chunk];
    }
  }
  return merged;
}

struct Axis {
  std::size_t index = 0;
  std::size_t rows_per_chunk = 1;
  std::size_t chunks_in_one = 1;  // of the source
  std::span<const std::int64_t> times;
};
using Axes = std::map<std::string, Axis>;

/// Chunks of the source that one of a closed file holds: so many that all of its are as long.
std::size_t chunks_in_one(std::size_t chunks, std::chrono::nanoseconds time) {
  const auto wanted = static_cast<std::size_t>(std::max<std::int64_t>(kClosedChunkTime / time, 1));
  const std::size_t pieces = std::max<std::size_t>((chunks + wanted - 1) / wanted, 1);
  return std::max<std::size_t>((chunks + pieces - 1) / pieces, 1);
}

Axes axes_of(const TraceReader& reader, TraceFile::Form form) {
  Axes axes;
  for (const TraceReader::Family& family : reader.families()) {
    Axis& axis = axes[axis_name(family.spec)];
    const TraceReader::Bases bases = reader.read_bases(family);
    if (family.time_ns.size() >= axis.times.size()) {
      axis.times = family.time_ns;
      axis.rows_per_chunk = bases.rows_per_chunk;
      if (form == TraceFile::Form::closed) {
        axis.chunks_in_one =
            chunks_in_one(bases.chunks, family.spec.period * static_cast<std::int64_t>(bases.rows_per_chunk));
      }
    }
  }
  for (auto& [name, axis] : axes) axis.rows_per_chunk *= axis.chunks_in_one;
  return axes;
}

void write_family(const TraceReader& reader, const TraceReader::Family& family, const Axis& axis, std::size_t index,
                  TraceFile& file) {
  const std::size_t channels = family.channels.size();
  const std::size_t rows = family.time_ns.size();
  file.write_channels(index, 0, family.channels);
  const TraceReader::Bases bases = reader.read_bases(family);
  for (std::size_t chunk = 0; chunk < bases.chunks; chunk += axis.chunks_in_one) {
    const std::size_t first = chunk * bases.rows_per_chunk;
    const std::size_t count = std::min(axis.rows_per_chunk, rows - first);
    const std::vector<std::int64_t> base =
        merged_bases(bases, channels, chunk, std::min(axis.chunks_in_one, bases.chunks - chunk));
    if (stored_as_real(family.spec.kind, family.spec.unit))
      file.write_rows(index, channels, count, reader.read(family, first, count).data(), base);
    else
      file.write_rows(index, channels, count, reader.read_stored(family, first, count).data(), base);
  }
}

/// Returns the seconds written.
double rewrite(const TraceReader& reader, const std::filesystem::path& to, TraceFile::Form form, bool complete) {
  TraceFile file(to, reader.header(), form);
  Axes axes = axes_of(reader, form);
  for (auto& [name, axis] : axes) axis.index = file.add_axis(name, axis.rows_per_chunk);
  for (const TraceReader::Family& family : reader.families()) {
    const Axis& axis = axes.at(axis_name(family.spec));
    const std::size_t channels = family.channels.size();
    const std::size_t together = form == TraceFile::Form::closed
                                     ? closed_channels_per_chunk(channels, axis.rows_per_chunk)
                                     : std::max<std::size_t>(channels, 1);
    file.add_family(family.spec, axis.index, together, channels);
  }
  file.write_snapshot(reader.snapshot_begin(), reader.topology_xml());
  file.start();

  std::int64_t begin = std::numeric_limits<std::int64_t>::max();
  std::int64_t end = std::numeric_limits<std::int64_t>::min();
  for (std::size_t index = 0; index < reader.families().size(); ++index) {
    const TraceReader::Family& family = reader.families()[index];
    write_family(reader, family, axes.at(axis_name(family.spec)), index, file);
    if (family.time_ns.empty()) continue;
    begin = std::min(begin, family.time_ns.front());
    end = std::max(end, family.time_ns.back());
  }
  for (const auto& [name, axis] : axes) {
    for (std::size_t first = 0; first < axis.times.size(); first += axis.rows_per_chunk)
      file.write_times(axis.index, axis.times.subspan(first, std::min(axis.rows_per_chunk, axis.times.size() - first)));
  }
  std::vector<EventRecord> events;
  for (const Event& event : reader.events()) events.push_back(record_of(event));
  file.write_events(events);
  file.write_clocks(reader.clocks());
  file.write_coverage(reader.coverage());
  file.write_end_snapshot(reader.snapshot_end());
  file.close(complete);
  return end > begin ? static_cast<double>(end - begin) / 1e9 : 0.0;
}

}  // namespace

double recover(const std::filesystem::path& part, const std::filesystem::path& to) {
  return rewrite(TraceReader(part), to, TraceFile::Form::live, false);
}

bool compact(const std::filesystem::path& trace, const std::filesystem::path& to) {
  const TraceReader reader(trace);
  std::uint64_t values = 0;
  for (const TraceReader::Family& family : reader.families()) values += family.channels.size() * family.time_ns.size();
  if (values > kCompactValues) return false;
  static_cast<void>(rewrite(reader, to, TraceFile::Form::closed, reader.complete()));
  return true;
}

}  // namespace reveal
