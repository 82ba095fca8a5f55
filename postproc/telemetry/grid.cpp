#include "postproc/telemetry/grid.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>

#include "hdf5schema/basics/not_measured.h"
#include "postproc/numerics/present_values.h"

namespace reveal {
namespace {

/// Before any row that could be near; far from the end of the type, since it is subtracted.
constexpr std::int64_t kLongAgo = std::numeric_limits<std::int64_t>::min() / 4;

/// A counter is spread over a gap of at most this many of its own periods: beyond it, the time of the events is not
/// known.
constexpr double kSpreadPeriods = 3;
constexpr std::int64_t kSpreadSteps = 20;
/// The same of a gap in which the family was read without this counter, if the family does not state its longest rest:
/// that of GPUs in traces of earlier versions.
constexpr double kRestPeriods = 20;
/// A file may state any rest, and all rows of the longest one are read at once.
constexpr double kMostRestPeriods = 100;
/// A level is believed for at most this many of its own periods.
constexpr double kHoldPeriods = 1.5;
constexpr std::chrono::nanoseconds kFinestStep = std::chrono::milliseconds(100);

std::int64_t rounded_quotient(std::int64_t a, std::int64_t b) {
  const std::int64_t half = a >= 0 ? b / 2 : -(b / 2);
  return (a + half) / b;
}

std::int64_t floored_quotient(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

std::int64_t rounded_up_quotient(std::int64_t a, std::int64_t b) {
  return a / b + (a % b > 0 ? 1 : 0);
}

double period_seconds_of(const FamilySpec& family) {
  return std::chrono::duration<double>(family.period).count();
}

double period_steps(const FamilySpec& family, double step_seconds) {
  return std::max(1.0, period_seconds_of(family) / step_seconds);
}

std::int64_t most_spread_of(double steps) {
  return std::max<std::int64_t>(kSpreadSteps, static_cast<std::int64_t>(std::lround(kSpreadPeriods * steps)));
}

std::int64_t most_rest_of(const FamilySpec& family, double steps) {
  const double stated = family.longest_rest ? static_cast<double>(family.longest_rest->count()) /
                                                  static_cast<double>(family.period.count())
                                            : kRestPeriods;
  const double periods = std::min(stated, kMostRestPeriods);
  return std::max(most_spread_of(steps), static_cast<std::int64_t>(std::lround(periods * steps)));
}

std::int64_t most_held_of(double steps) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::lround(kHoldPeriods * steps)));
}

/// Where each row of a family belongs.
struct Places {
  std::vector<std::int64_t> at;     // samples
  std::vector<std::int64_t> ticks;  // the same finer, from the first sample on
  std::int64_t ticks_in_step = 1;
};

/// Adds the increment of `count` ticks up to `last` to the steps in which they are.
void spread(double increment, std::int64_t last, std::int64_t count, std::int64_t ticks_in_step,
            std::span<double> out) {
  const auto size = static_cast<std::int64_t>(out.size());
  for (std::int64_t first = last - count; first < last;) {
    const std::int64_t step = floored_quotient(first, ticks_in_step);
    const std::int64_t end = std::min(last, (step + 1) * ticks_in_step);
    if (step >= 0 && step < size) {
      double& cell = out[static_cast<std::size_t>(step)];
      // Rows may share a step where the interval is shorter, or after the wall clock moved: increments add up.
      cell = (std::isnan(cell) ? 0 : cell) + increment * static_cast<double>(end - first) / static_cast<double>(count);
    }
    first = end;
  }
}

void lay_channel(const FamilyRows& family, std::size_t channel, const Places& places, double period_steps,
                 std::span<double> out) {
  const std::vector<std::int64_t>& at = places.at;
  const auto rows = std::span(family.values).subspan(channel * at.size(), at.size());
  const ChannelKey& key = family.channels[channel];
  const bool counts = is_counted(family.spec.kind);
  const auto size = static_cast<std::int64_t>(out.size());
  const std::int64_t most_spread = most_spread_of(period_steps) * places.ticks_in_step;
  const std::int64_t most_rest = most_rest_of(family.spec, period_steps) * places.ticks_in_step;
  const std::int64_t most_held = most_held_of(period_steps);
  bool rested = true;  // since the last value, the family was read without a long gap

  // The tick an increment counts from. A missing value's increment is in the next one that is present.
  std::optional<std::int64_t> counted_to;
  if (!family.seen_before.empty() && family.seen_before[channel]) counted_to = kLongAgo;
  for (std::size_t row = 0; row < at.size(); ++row) {
    rested = rested && (row == 0 || places.ticks[row] - places.ticks[row - 1] <= most_spread);
    if (std::isnan(rows[row])) continue;
    if (key.died_ns > 0 && family.time_ns[row] > key.died_ns) break;
    if (counts) {
      const std::vector<std::int64_t>& ticks = places.ticks;
      const std::int64_t previous = counted_to.value_or(row > 0 ? ticks[row - 1] : ticks[row] - 1);
      counted_to = ticks[row];
      const std::int64_t covered = std::max<std::int64_t>(1, ticks[row] - previous);
      if (covered <= (rested ? most_rest : most_spread))
        spread(rows[row], ticks[row], covered, places.ticks_in_step, out);
      rested = true;
    } else {
      std::int64_t until = row + 1 < at.size() ? std::max(at[row + 1], at[row] + 1) : at[row] + most_held;
      until = std::min({until, at[row] + most_held, size});
      for (std::int64_t t = std::max<std::int64_t>(0, at[row]); t < until; ++t)
        out[static_cast<std::size_t>(t)] = rows[row];
    }
  }
}

/// Where the rows of a channel go that has a value in each of them: the same for all such channels of a family.
class WholeChannel {
 public:
  WholeChannel(Kind kind, std::span<const std::int64_t> at, double period_steps, std::size_t samples)
      : counts_(is_counted(kind)), samples_(static_cast<std::int64_t>(samples)) {
    const std::int64_t most = counts_ ? most_spread_of(period_steps) : most_held_of(period_steps);
    for (std::size_t row = 0; row < at.size(); ++row) {
      const bool last = row + 1 == at.size();
      if (row > 0 && at[row] <= at[row - 1]) once_ = false;  // two rows on one step
      if (counts_) {
        const std::int64_t covered = row > 0 ? at[row] - at[row - 1] : 1;
        if (covered <= most) add(row, at[row] - covered + 1, at[row] + 1, static_cast<double>(covered));
      } else {
        add(row, at[row], last ? at[row] + most : std::min(at[row + 1], at[row] + most), 1);
      }
    }
  }

  /// False if this channel needs a closer look. `seen`: an earlier row has a value, so that the first one of these
  /// counts from something unknown.
  [[nodiscard]] bool lay(std::span<const double> rows, bool seen, std::span<double> out) const {
    if (!once_ || (counts_ && any_missing(rows))) return false;
    std::size_t filled = 0;
    for (const Run& run : runs_) {
      std::fill(out.begin() + static_cast<std::ptrdiff_t>(filled), out.begin() + static_cast<std::ptrdiff_t>(run.begin),
                kNaN);
      const auto to = out.subspan(run.begin, run.count);
      if (run.one_each) {
        const auto from = rows.subspan(run.row, run.count);
        std::copy(from.begin(), from.end(), to.begin());
      } else {
        std::fill(to.begin(), to.end(), rows[run.row] / run.divisor);
      }
      filled = run.begin + run.count;
    }
    std::fill(out.begin() + static_cast<std::ptrdiff_t>(filled), out.end(), kNaN);
    if (counts_ && seen && !runs_.empty() && runs_.front().row == 0) out[runs_.front().begin] = kNaN;
    return true;
  }

 private:
  /// Steps that come from one row, or from as many rows that follow each other.
  struct Run {
    std::size_t row;
    std::size_t begin;
    std::size_t count;
    bool one_each;
    double divisor;
  };

  void add(std::size_t row, std::int64_t begin, std::int64_t end, double divisor) {
    begin = std::max<std::int64_t>(begin, 0);
    end = std::min(end, samples_);
    if (begin >= end) return;
    const auto first = static_cast<std::size_t>(begin);
    const auto count = static_cast<std::size_t>(end - begin);
    const bool single = count == 1 && divisor == 1;
    if (single && !runs_.empty()) {
      Run& last = runs_.back();
      if (last.one_each && last.begin + last.count == first && last.row + last.count == row) {
        ++last.count;
        return;
      }
    }
    runs_.push_back({row, first, count, single, divisor});
  }

  bool counts_;
  std::int64_t samples_;
  bool once_ = true;
  std::vector<Run> runs_;
};

/// The places of the family that is laid. Most families of a node have the times of the one before: these are divided
/// into samples once.
class CurrentPlaces {
 public:
  CurrentPlaces(const Grid& grid, std::size_t begin, std::size_t samples)
      : grid_(grid), begin_(static_cast<std::int64_t>(begin)), samples_(samples) {
    places_.ticks_in_step = grid.ticks_in_step();
  }

  const Places& of(const std::vector<std::int64_t>& time_ns) {
    if (time_ns == time_ns_) return places_;
    time_ns_ = time_ns;
    whole_ = {};
    places_.at.clear();
    places_.ticks.clear();
    places_.at.reserve(time_ns.size());
    places_.ticks.reserve(time_ns.size());
    for (const std::int64_t time : time_ns) {
      places_.at.push_back(grid_.index(time) - begin_);
      places_.ticks.push_back(grid_.tick(time) - begin_ * places_.ticks_in_step);
    }
    return places_;
  }

  /// For the times that were given last.
  const WholeChannel& whole(Kind kind, double period_steps) {
    Whole& known = whole_[is_counted(kind) ? 1 : 0];
    if (!known.channel || known.period_steps != period_steps)
      known = {WholeChannel(kind, places_.at, period_steps, samples_), period_steps};
    return *known.channel;
  }

 private:
  struct Whole {
    std::optional<WholeChannel> channel;
    double period_steps = 0;
  };

  const Grid& grid_;
  std::int64_t begin_;
  std::size_t samples_;
  std::vector<std::int64_t> time_ns_;
  Places places_;
  std::array<Whole, 2> whole_;  // levels, counters
};

/// Lays the family's channels one after the other: `place(i, lay)` calls `lay` with the place.
template <typename Place>
void lay_values(const FamilyRows& family, const Grid& grid, CurrentPlaces& current, const Place& place) {
  const Places& places = current.of(family.time_ns);
  const std::size_t rows_of_one = places.at.size();
  const double steps = period_steps(family.spec, static_cast<double>(grid.step_ns()) * 1e-9);
  const WholeChannel& whole = current.whole(family.spec.kind, steps);
  for (std::size_t i = 0; i < family.channels.size(); ++i) {
    const auto rows = std::span(family.values).subspan(i * rows_of_one, rows_of_one);
    const bool seen = !family.seen_before.empty() && family.seen_before[i];
    place(i, [&](std::span<double> out) {
      if (family.channels[i].died_ns > 0 || !whole.lay(rows, seen, out)) {
        std::fill(out.begin(), out.end(), kNaN);
        lay_channel(family, i, places, steps, out);
      }
    });
  }
}

}  // namespace

std::int64_t ticks_in_step(std::chrono::nanoseconds interval) {
  return rounded_up_quotient(kFinestStep.count(), interval.count());
}

Grid::Grid(std::int64_t first_ns, std::int64_t last_ns, std::int64_t utc_minus_monotonic_ns,
           std::chrono::nanoseconds interval)
    : offset_ns_(utc_minus_monotonic_ns),
      interval_ns_(interval.count()),
      ticks_in_step_(reveal::ticks_in_step(interval)) {
  begin_ = rounded_up_quotient(tick(first_ns), ticks_in_step_) * ticks_in_step_;
  const std::int64_t whole = tick(last_ns) / ticks_in_step_;
  samples_ = whole < 0 ? 0 : static_cast<std::size_t>(whole);
}

std::int64_t Grid::tick(std::int64_t monotonic_ns) const {
  return rounded_quotient(monotonic_ns + offset_ns_, interval_ns_) - begin_;
}

std::int64_t Grid::index(std::int64_t monotonic_ns) const {
  return rounded_up_quotient(tick(monotonic_ns), ticks_in_step_) - 1;
}

std::int64_t reach_of(const FamilySpec& family, double step_seconds) {
  const double steps = period_steps(family, step_seconds);
  return std::max(most_rest_of(family, steps), most_held_of(steps));
}

void append_channels(const FamilyRows& family, Telemetry& telemetry) {
  for (const ChannelKey& key : family.channels) {
    telemetry.channels.push_back({.metric = key.metric,
                                  .instance = key.instance,
                                  .family = family.spec.path,
                                  .role = key.role,
                                  .kind = family.spec.kind,
                                  .unit = family.spec.unit,
                                  .scope = family.spec.scope,
                                  .subsystem = family.spec.subsystem,
                                  .period_seconds = period_seconds_of(family.spec)});
  }
}

void lay_on_grid(const Grid& grid, std::size_t begin, std::size_t samples, std::size_t families, const RowsOf& rows_of,
                 Telemetry& telemetry) {
  telemetry.step_seconds = static_cast<double>(grid.step_ns()) * 1e-9;
  telemetry.begin_utc_ns = grid.begin_utc_ns() + static_cast<std::int64_t>(begin) * grid.step_ns();
  telemetry.samples = samples;
  CurrentPlaces current(grid, begin, samples);
  std::size_t channels = 0;
  for (std::size_t f = 0; f < families; ++f) {
    const FamilyRows* rows = rows_of(f);
    if (rows == nullptr) continue;
    const std::size_t first = channels;
    channels += rows->channels.size();
    if (telemetry.channels.size() < channels) append_channels(*rows, telemetry);
    telemetry.values.resize(channels * samples);
    lay_values(*rows, grid, current, [&](std::size_t i, const auto& lay) { lay(telemetry.series(first + i)); });
  }
  telemetry.channels.resize(channels);  // derived channels are computed again
}

void lay_part_on_grid(const Grid& grid, std::size_t begin, std::size_t samples, std::size_t families,
                      const RowsOf& rows_of, std::size_t at, Telemetry& zeros) {
  std::vector<double> laid(samples);
  CurrentPlaces current(grid, begin, samples);
  std::size_t first = 0;
  for (std::size_t f = 0; f < families; ++f) {
    const FamilyRows* rows = rows_of(f);
    if (rows == nullptr) continue;
    lay_values(*rows, grid, current, [&](std::size_t i, const auto& lay) {
      lay(std::span(laid));
      copy_onto_zeros(laid, zeros.series(first + i).subspan(at, samples));
    });
    first += rows->channels.size();
  }
}

}  // namespace reveal
