#include "hdf5schema/rewrite.h"

#include <algorithm>
#include <limits>
#include <map>

#include "hdf5schema/trace_file.h"
#include "hdf5schema/trace_reader.h"

namespace reveal {
namespace {

/// Rows of one chunk cut out of [channel][time].
template <typename Number>
std::vector<Number> cut_out(const std::vector<Number>& all, std::size_t channels, std::size_t rows, std::size_t begin,
                            std::size_t count) {
  std::vector<Number> part(channels * count);
  for (std::size_t channel = 0; channel < channels; ++channel)
    std::copy_n(all.data() + channel * rows + begin, count, part.data() + channel * count);
  return part;
}

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

/// `chunks_in_one`: of the source. Returns the seconds written.
double rewrite(const TraceReader& reader, const std::filesystem::path& to, std::size_t chunks_in_one,
               TraceFile::Form form, bool complete) {
  TraceFile file(to, reader.header(), form);
  struct Axis {
    std::size_t index = 0;
    std::size_t rows_per_chunk = 1;
    std::span<const std::int64_t> times;
  };
  std::map<std::string, Axis> axes;
  for (const TraceReader::Family& family : reader.families()) {
    Axis& axis = axes[axis_name(family.spec)];
    axis.rows_per_chunk = reader.read_bases(family).rows_per_chunk * chunks_in_one;
    if (family.time_ns.size() > axis.times.size()) axis.times = family.time_ns;
  }
  for (auto& [name, axis] : axes) axis.index = file.add_axis(name, axis.rows_per_chunk);
  for (const TraceReader::Family& family : reader.families())
    file.add_family(family.spec, axes.at(axis_name(family.spec)).index,
                    std::max<std::size_t>(family.channels.size(), 1));
  file.write_snapshot(reader.snapshot_begin(), reader.topology_xml());
  file.start();

  std::int64_t begin = std::numeric_limits<std::int64_t>::max();
  std::int64_t end = std::numeric_limits<std::int64_t>::min();
  for (std::size_t index = 0; index < reader.families().size(); ++index) {
    const TraceReader::Family& family = reader.families()[index];
    const std::size_t channels = family.channels.size();
    const std::size_t rows = family.time_ns.size();
    file.write_channels(index, 0, family.channels);
    const TraceReader::Bases bases = reader.read_bases(family);
    const bool real = stored_as_real(family.spec.kind, family.spec.unit);
    const std::vector<double> reals = real ? reader.read(family) : std::vector<double>();
    const std::vector<std::int64_t> stored = real ? std::vector<std::int64_t>() : reader.read_stored(family);
    for (std::size_t chunk = 0; chunk < bases.chunks; chunk += chunks_in_one) {
      const std::size_t first = chunk * bases.rows_per_chunk;
      const std::size_t count = std::min(bases.rows_per_chunk * chunks_in_one, rows - first);
      const std::vector<std::int64_t> base =
          merged_bases(bases, channels, chunk, std::min(chunks_in_one, bases.chunks - chunk));
      if (real)
        file.write_rows(index, channels, count, cut_out(reals, channels, rows, first, count).data(), base);
      else
        file.write_rows(index, channels, count, cut_out(stored, channels, rows, first, count).data(), base);
    }
    if (rows == 0) continue;
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
  return rewrite(TraceReader(part), to, 1, TraceFile::Form::live, false);
}

void compact(const std::filesystem::path& trace, const std::filesystem::path& to) {
  constexpr std::size_t kChunksInOne = 6;  // a minute
  const TraceReader reader(trace);
  static_cast<void>(rewrite(reader, to, kChunksInOne, TraceFile::Form::closed, reader.complete()));
}

}  // namespace reveal
