#include "hdf5schema/minute_trace.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/layout.h"
#include "hdf5schema/regular_rows.h"
#include "hdf5schema/trace_file.h"
#include "hdf5schema/utc_offset.h"

namespace reveal {
namespace {

constexpr std::chrono::minutes kMinute{1};
constexpr std::int64_t kMinuteNs = std::chrono::nanoseconds(kMinute).count();
constexpr std::int64_t kNoRows = std::numeric_limits<std::int64_t>::max();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// One minute of one channel.
struct Minute {
  double sum = 0;
  double least = kNan;
  double most = kNan;
  double last = kNan;
  std::size_t values = 0;

  void take(double value) noexcept {
    if (std::isnan(value)) return;
    sum += value;
    least = values == 0 ? value : std::min(least, value);
    most = values == 0 ? value : std::max(most, value);
    last = value;
    ++values;
  }
};

double sum_of(const Minute& minute) {
  return minute.values > 0 ? minute.sum : kNan;
}
double mean_of(const Minute& minute) {
  return minute.values > 0 ? minute.sum / static_cast<double>(minute.values) : kNan;
}
double least_of(const Minute& minute) {
  return minute.least;
}
double most_of(const Minute& minute) {
  return minute.most;
}
double last_of(const Minute& minute) {
  return minute.last;
}

/// A family of the minute trace, from the minutes of one of the trace.
struct Aggregate {
  const char* suffix;  // suffix of the path, and with a dot of the metrics
  double (*value)(const Minute&);
  bool fractions;
};
constexpr Aggregate kOfIncrements[] = {{"", sum_of, false}, {"min", least_of, false}, {"max", most_of, false}};
constexpr Aggregate kOfGauges[] = {
    {"", mean_of, true}, {"min", least_of, false}, {"max", most_of, false}, {"last", last_of, false}};
constexpr Aggregate kOfStates[] = {{"", last_of, false}};

std::span<const Aggregate> aggregates_of(Kind kind) {
  if (is_counted(kind)) return kOfIncrements;
  return kind == Kind::state ? std::span<const Aggregate>(kOfStates) : kOfGauges;
}

FamilySpec spec_of(const FamilySpec& spec, const Aggregate& aggregate) {
  FamilySpec minutes = spec;
  minutes.period = kMinute;
  minutes.faster = {};
  if (minutes.longest_rest != std::chrono::nanoseconds(0)) minutes.longest_rest = {};  // stated for its rows
  minutes.real = spec.real || (aggregate.fractions && !stored_as_real(spec.kind, spec.unit));
  if (*aggregate.suffix == '\0') return minutes;
  minutes.path += std::string("_") + aggregate.suffix;
  minutes.kind = Kind::gauge;
  minutes.long_name += std::string(", ") + aggregate.suffix + " of a row in the minute";
  return minutes;
}

std::vector<ChannelKey> keys_of(const TraceReader::Family& family, const Aggregate& aggregate) {
  std::vector<ChannelKey> keys = family.channels;
  if (*aggregate.suffix == '\0') return keys;
  for (ChannelKey& key : keys) key.metric += std::string(".") + aggregate.suffix;
  return keys;
}

std::int64_t stored(double value, bool real) {
  if (real) return std::bit_cast<std::int64_t>(value);
  return std::isnan(value) ? kMissing : std::llround(value);
}

class Summary {
 public:
  Summary(const TraceReader& trace, const std::filesystem::path& to)
      : trace_(trace),
        events_(trace.events()),
        file_(to, trace.header(), TraceFile::Form::closed, {.events = events_.size() + 1}) {
    for (const TraceReader::Family& family : trace.families()) {
      if (!family.time_ns.empty()) begin_ = std::min(begin_, family.time_ns.front());
    }
    if (begin_ < kNoRows) utc_minus_monotonic_ns_ = utc_offset_ns(trace.clocks(), trace.header(), begin_);
  }

  std::vector<TraceFile::Written> write() {
    for (const TraceReader::Family& family : trace_.families()) add(family);
    file_.write_snapshot(trace_.snapshot_begin(), trace_.topology_xml());
    file_.start();
    std::size_t next = 0;
    for (const TraceReader::Family& family : trace_.families()) {
      if (is_slow(family)) {
        write_as_it_is(family, next++);
      } else {
        write_minutes(family, next);
      }
    }
    for (const auto& [name, axis] : axes_) file_.write_times(axis.index, axis.times);
    write_records();
    file_.close(trace_.complete());
    return file_.written();
  }

 private:
  struct Axis {
    std::size_t index = 0;
    std::vector<std::int64_t> times;
  };

  static bool is_slow(const TraceReader::Family& family) { return family.spec.period >= kMinute; }

  [[nodiscard]] std::size_t minute_of(std::int64_t time_ns) const {
    return static_cast<std::size_t>((time_ns - begin_) / kMinuteNs);
  }

  /// Times of its rows in the summary: of the last in every minute that has one.
  [[nodiscard]] std::vector<std::int64_t> times_of(const TraceReader::Family& family) const {
    const std::span<const std::int64_t> times = family.time_ns;
    if (is_slow(family)) return {times.begin(), times.end()};
    std::vector<std::int64_t> last;
    for (std::size_t row = 0; row < times.size(); ++row) {
      if (row + 1 == times.size() || minute_of(times[row]) != minute_of(times[row + 1])) last.push_back(times[row]);
    }
    return last;
  }

  void add(const TraceReader::Family& family) {
    const std::vector<std::int64_t> times = times_of(family);
    FamilySpec slow = family.spec;
    // Families of different periods end their minutes at different times: each such axis stays one of its own.
    if (!is_slow(family)) {
      slow.period = kMinute;
      slow.clock = axis_name(family.spec);
    }
    const std::string name = axis_name(slow);
    const auto [at, fresh] = axes_.try_emplace(name);
    if (fresh) at->second = {file_.add_axis(name, std::max<std::size_t>(longest_like(family), 1)), {}};
    if (times.size() > at->second.times.size()) at->second.times = times;
    const std::size_t width =
        closed_channels_per_chunk(family.channels.size(), std::max<std::size_t>(longest_like(family), 1));
    if (is_slow(family)) {
      file_.add_family(family.spec, at->second.index, width, family.channels.size());
      return;
    }
    for (const Aggregate& aggregate : aggregates_of(family.spec.kind)) {
      FamilySpec spec = spec_of(family.spec, aggregate);
      spec.clock = slow.clock;
      file_.add_family(spec, at->second.index, width, family.channels.size());
    }
  }

  /// Rows of the longest family that shares this one's axis: they are one chunk.
  [[nodiscard]] std::size_t longest_like(const TraceReader::Family& family) const {
    std::size_t rows = 0;
    for (const TraceReader::Family& each : trace_.families()) {
      if (axis_name(each.spec) == axis_name(family.spec)) rows = std::max(rows, times_of(each).size());
    }
    return rows;
  }

  void write_as_it_is(const TraceReader::Family& family, std::size_t index) {
    const std::size_t rows = family.time_ns.size();
    file_.write_channels(index, 0, family.channels);
    if (rows == 0) return;
    if (stored_as_real(family.spec))
      file_.write_rows(index, family.channels.size(), rows, trace_.read(family).data(), {});
    else
      file_.write_rows(index, family.channels.size(), rows, trace_.read_stored(family).data(), bases_of(family));
  }

  /// So many rows from `first` on, and the rest of the last one's period: the part of a period would count as one. Any
  /// file may have any number of rows in a period: not more than twice as many.
  [[nodiscard]] std::size_t whole_periods(const TraceReader::Family& family, std::size_t first,
                                          std::size_t rows) const {
    const std::span<const std::int64_t> times = family.time_ns.subspan(first);
    std::size_t count = std::min(rows, times.size());
    if (family.spec.faster.count() <= 0) return count;
    while (count < std::min(2 * rows, times.size()) &&
           in_one_period(times[count - 1], times[count], utc_minus_monotonic_ns_, family.spec.period,
                         family.spec.faster)) {
      ++count;
    }
    return count;
  }

  void write_minutes(const TraceReader::Family& family, std::size_t& next) {
    const std::size_t channels = family.channels.size();
    const std::vector<std::int64_t> times = times_of(family);
    std::vector<Minute> minutes(channels * times.size());
    // A chunk of the trace at a time: a family of hours would be hundreds of megabytes.
    constexpr std::size_t kRowsAtOnce = 6000;
    std::size_t minute = 0;
    std::size_t count = 0;
    for (std::size_t first = 0; first < family.time_ns.size(); first += count) {
      count = whole_periods(family, first, kRowsAtOnce);
      const std::span<const std::int64_t> read = family.time_ns.subspan(first, count);
      std::vector<std::int64_t> rows(read.begin(), read.end());
      std::vector<double> values = trace_.read(family, first, count);
      merge_extra_rows(family.spec, utc_minus_monotonic_ns_, rows, values);
      for (std::size_t row = 0; row < rows.size(); ++row) {
        while (rows[row] > times[minute]) ++minute;
        for (std::size_t channel = 0; channel < channels; ++channel)
          minutes[channel * times.size() + minute].take(values[channel * rows.size() + row]);
      }
    }
    for (const Aggregate& aggregate : aggregates_of(family.spec.kind)) {
      const FamilySpec spec = spec_of(family.spec, aggregate);
      const std::size_t index = next++;
      file_.write_channels(index, 0, keys_of(family, aggregate));
      if (times.empty()) continue;
      std::vector<std::int64_t> row(minutes.size());
      std::transform(minutes.begin(), minutes.end(), row.begin(),
                     [&](const Minute& each) { return stored(aggregate.value(each), stored_as_real(spec)); });
      file_.write_rows(index, channels, times.size(), row.data(),
                       is_counted(spec.kind) ? bases_of(family) : std::vector<std::int64_t>());
    }
  }

  /// The value each channel counts from: its first base.
  [[nodiscard]] std::vector<std::int64_t> bases_of(const TraceReader::Family& family) const {
    if (!is_counted(family.spec.kind)) return {};
    std::vector<std::int64_t> first(family.channels.size(), kMissing);
    TraceReader::Bases bases;
    do {
      bases = trace_.read_bases(family, bases.first + bases.chunks, 1);
      for (std::size_t channel = 0; channel < first.size(); ++channel) {
        for (std::size_t chunk = 0; chunk < bases.chunks && first[channel] == kMissing; ++chunk)
          first[channel] = bases.values[channel * bases.chunks + chunk];
      }
    } while (bases.chunks > 0 && std::find(first.begin(), first.end(), kMissing) != first.end());
    return first;
  }

  void write_records() {
    std::vector<EventRecord> events{
        record_of({begin_, "trace", "summary", "reduced to one row per minute, as configured"})};
    for (const Event& event : events_) events.push_back(record_of(event));
    file_.write_events(events);
    file_.write_clocks(trace_.clocks());
    file_.write_coverage(trace_.coverage());
    file_.write_end_snapshot(trace_.snapshot_end());
  }

  const TraceReader& trace_;
  std::vector<Event> events_;
  TraceFile file_;
  std::int64_t begin_ = kNoRows;
  std::int64_t utc_minus_monotonic_ns_ = 0;
  std::map<std::string, Axis> axes_;
};

}  // namespace

std::vector<TraceFile::Written> write_minute_trace(const TraceReader& trace, const std::filesystem::path& to) {
  return Summary(trace, to).write();
}

}  // namespace reveal
