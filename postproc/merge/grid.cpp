#include "postproc/merge/grid.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>

namespace reveal {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
/// Before any row that could be near; far from the end of the type, since it is subtracted.
constexpr std::int64_t kLongAgo = std::numeric_limits<std::int64_t>::min() / 4;

/// A counter is spread over a gap of at most this many of its own periods: beyond it, nobody knows when it happened.
constexpr double kSpreadPeriods = 3;
constexpr std::int64_t kSpreadSteps = 20;
/// A level is believed for at most this many of its own periods.
constexpr double kHoldPeriods = 1.5;

std::int64_t rounded_quotient(std::int64_t a, std::int64_t b) {
  const std::int64_t half = a >= 0 ? b / 2 : -(b / 2);
  return (a + half) / b;
}

double period_steps(double period_seconds, double step_seconds) {
  return std::max(1.0, period_seconds / step_seconds);
}

std::int64_t most_spread_of(double steps) {
  return std::max<std::int64_t>(kSpreadSteps, static_cast<std::int64_t>(std::lround(kSpreadPeriods * steps)));
}

std::int64_t most_held_of(double steps) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::lround(kHoldPeriods * steps)));
}

void lay_channel(const FamilyRows& family, std::size_t channel, std::span<const std::int64_t> at, double period_steps,
                 std::span<double> out) {
  const auto rows = std::span(family.values).subspan(channel * at.size(), at.size());
  const ChannelKey& key = family.channels[channel];
  const bool counts = family.spec.kind == Kind::counter || family.spec.kind == Kind::event;
  const auto size = static_cast<std::int64_t>(out.size());
  const std::int64_t most_spread = most_spread_of(period_steps);
  const std::int64_t most_held = most_held_of(period_steps);

  // The step an increment counts from. A missing value's increment is in the next one that is present.
  std::optional<std::int64_t> counted_to;
  if (!family.seen_before.empty() && family.seen_before[channel]) counted_to = kLongAgo;
  for (std::size_t row = 0; row < at.size(); ++row) {
    if (std::isnan(rows[row])) continue;
    if (key.died_ns > 0 && family.time_ns[row] > key.died_ns) break;
    if (counts) {
      const std::int64_t previous = counted_to.value_or(row > 0 ? at[row - 1] : at[row] - 1);
      counted_to = at[row];
      const std::int64_t covered = std::max<std::int64_t>(1, at[row] - previous);
      if (covered > most_spread) continue;
      for (std::int64_t t = at[row] - covered + 1; t <= at[row]; ++t) {
        if (t < 0 || t >= size) continue;
        double& cell = out[static_cast<std::size_t>(t)];
        // Two rows may fall on one step after the wall clock moved: their increments add up.
        cell = (std::isnan(cell) ? 0 : cell) + rows[row] / static_cast<double>(covered);
      }
    } else {
      std::int64_t until = row + 1 < at.size() ? std::max(at[row + 1], at[row] + 1) : at[row] + most_held;
      until = std::min({until, at[row] + most_held, size});
      for (std::int64_t t = std::max<std::int64_t>(0, at[row]); t < until; ++t)
        out[static_cast<std::size_t>(t)] = rows[row];
    }
  }
}

}  // namespace

Grid::Grid(std::int64_t first_ns, std::int64_t last_ns, std::int64_t utc_minus_monotonic_ns, std::int64_t step_ns)
    : offset_ns_(utc_minus_monotonic_ns), step_ns_(step_ns) {
  begin_utc_ns_ = rounded_quotient(first_ns + offset_ns_, step_ns_) * step_ns_;
  const std::int64_t last = index(last_ns);
  samples_ = last < 0 ? 0 : static_cast<std::size_t>(last) + 1;
}

std::int64_t Grid::index(std::int64_t monotonic_ns) const {
  return rounded_quotient(monotonic_ns + offset_ns_ - begin_utc_ns_, step_ns_) - 1;
}

std::int64_t reach_of(double period_seconds, double step_seconds) {
  const double steps = period_steps(period_seconds, step_seconds);
  return std::max(most_spread_of(steps), most_held_of(steps));
}

void lay_on_grid(const FamilyRows& family, const Grid& grid, Telemetry& telemetry, std::size_t begin) {
  std::vector<std::int64_t> at(family.time_ns.size());
  std::transform(family.time_ns.begin(), family.time_ns.end(), at.begin(),
                 [&](std::int64_t time) { return grid.index(time) - static_cast<std::int64_t>(begin); });
  const double period_seconds = std::chrono::duration<double>(family.spec.period).count();
  const double steps = period_steps(period_seconds, telemetry.step_seconds);
  for (std::size_t i = 0; i < family.channels.size(); ++i) {
    const ChannelKey& key = family.channels[i];
    telemetry.channels.push_back({.metric = key.metric,
                                  .instance = key.instance,
                                  .family = family.spec.path,
                                  .role = key.role,
                                  .kind = family.spec.kind,
                                  .unit = family.spec.unit,
                                  .scope = family.spec.scope,
                                  .subsystem = family.spec.subsystem,
                                  .period_seconds = period_seconds});
    telemetry.values.resize(telemetry.values.size() + telemetry.samples, kNaN);
    lay_channel(family, i, at, steps, telemetry.series(telemetry.channels.size() - 1));
  }
}

}  // namespace reveal
