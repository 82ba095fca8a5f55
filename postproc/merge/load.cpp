#include "postproc/merge/load.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/trace_reader.h"
#include "postproc/merge/derived.h"

namespace reveal {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// A counter is spread over a gap of at most this many of its own periods: beyond it, nobody knows when it happened.
constexpr double kSpreadPeriods = 3;
constexpr std::int64_t kSpreadSteps = 20;
/// A level is believed for at most this many of its own periods.
constexpr double kHoldPeriods = 1.5;
/// A month at 100 ms, far beyond any job's time limit at this rate; a broken time axis must not ask for all memory.
constexpr std::size_t kMostSamples = 27'000'000;
/// 8 GiB of numbers.
constexpr std::size_t kMostValues = std::size_t{1} << 30;
constexpr std::size_t kMostLossNotes = 5;
/// Pairs whose offset moves by more than this show a wall clock that was set, not one that drifts.
constexpr std::int64_t kClockStepNs = 50'000'000;

std::int64_t rounded_quotient(std::int64_t a, std::int64_t b) {
  const std::int64_t half = a >= 0 ? b / 2 : -(b / 2);
  return (a + half) / b;
}

void lay_channel(const FamilyRows& family, std::size_t channel, std::span<const std::int64_t> at, double period_steps,
                 std::span<double> out) {
  const auto rows = std::span(family.values).subspan(channel * at.size(), at.size());
  const ChannelKey& key = family.channels[channel];
  const bool counts = family.spec.kind == Kind::counter || family.spec.kind == Kind::event;
  const auto size = static_cast<std::int64_t>(out.size());
  const std::int64_t most_spread =
      std::max<std::int64_t>(kSpreadSteps, static_cast<std::int64_t>(std::lround(kSpreadPeriods * period_steps)));
  const auto most_held = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::lround(kHoldPeriods * period_steps)));

  // The step an increment counts from. A missing value's increment is in the next one that is present.
  std::optional<std::int64_t> counted_to;
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

/// The family that sets the pace: the one with the most rows.
const TraceReader::Family* fastest(const TraceReader& reader) {
  const TraceReader::Family* best = nullptr;
  for (const auto& family : reader.families()) {
    if (family.time_ns.size() < 2) continue;
    if (best == nullptr || family.time_ns.size() > best->time_ns.size()) best = &family;
  }
  return best;
}

void note_clock(const std::vector<ClockPair>& clocks, NodeTrace& trace) {
  for (std::size_t i = 0; i < clocks.size(); ++i) {
    trace.clock_error_seconds = std::max(trace.clock_error_seconds, static_cast<double>(clocks[i].max_error_ns) * 1e-9);
    if (i == 0) continue;
    const std::int64_t moved =
        (clocks[i].utc_ns - clocks[i].monotonic_ns) - (clocks[i - 1].utc_ns - clocks[i - 1].monotonic_ns);
    if (std::abs(moved) <= kClockStepNs) continue;
    trace.notes.push_back(
        fmt::format("the wall clock was set {} by {:.1f} s during the job; times follow the steady clock",
                    moved < 0 ? "back" : "forward", std::abs(static_cast<double>(moved)) * 1e-9));
  }
}

struct Loss {
  std::string_view code;
  std::string_view says;
  bool rows;  // of the trace itself are missing
};

/// The worst first: kMostLossNotes cuts the end.
constexpr Loss kLosses[] = {
    {"rows_lost", "rows were lost", true},
    {"probe_lost", "a probe was lost", false},
    {"events_lost", "events were lost", false},
    {"ticks_missed", "ticks were missed", false},
    {"metrics_selected", "only some metrics were recorded", false},
};

}  // namespace

void note_losses(NodeTrace& trace) {
  std::size_t notes = 0;
  for (const Loss& loss : kLosses) {
    std::map<std::string_view, std::vector<const Event*>> by_object;
    for (const Event& event : trace.events) {
      if (event.code == loss.code) by_object[event.object].push_back(&event);
    }
    if (loss.rows && !by_object.empty()) trace.rows_lost = true;
    for (const auto& [object, events] : by_object) {
      if (notes++ >= kMostLossNotes) return;
      std::string note = fmt::format("{} ({}: {}", loss.says, object, events.front()->text);
      if (events.size() > 1) note += fmt::format(", and {} times more", events.size() - 1);
      trace.notes.push_back(note + ")");
    }
  }
}

Grid::Grid(std::int64_t first_ns, std::int64_t last_ns, std::int64_t utc_minus_monotonic_ns, std::int64_t step_ns)
    : offset_ns_(utc_minus_monotonic_ns), step_ns_(step_ns) {
  begin_utc_ns_ = rounded_quotient(first_ns + offset_ns_, step_ns_) * step_ns_;
  const std::int64_t last = index(last_ns);
  samples_ = last < 0 ? 0 : static_cast<std::size_t>(last) + 1;
}

std::int64_t Grid::index(std::int64_t monotonic_ns) const {
  return rounded_quotient(monotonic_ns + offset_ns_ - begin_utc_ns_, step_ns_) - 1;
}

std::int64_t utc_offset_ns(const std::vector<ClockPair>& clocks, const TraceHeader& header, std::int64_t first_ns) {
  if (clocks.empty()) return header.begin_utc_ns - first_ns;
  std::vector<std::int64_t> offsets;
  offsets.reserve(clocks.size());
  for (const ClockPair& pair : clocks) offsets.push_back(pair.utc_ns - pair.monotonic_ns);
  // The lower median: with two pairs around a step, the one the job began with.
  const auto middle = offsets.begin() + static_cast<std::ptrdiff_t>((offsets.size() - 1) / 2);
  if (offsets.size() == 2) return offsets.front();
  std::nth_element(offsets.begin(), middle, offsets.end());
  return *middle;
}

void lay_on_grid(const FamilyRows& family, const Grid& grid, Telemetry& telemetry) {
  std::vector<std::int64_t> at(family.time_ns.size());
  std::transform(family.time_ns.begin(), family.time_ns.end(), at.begin(),
                 [&](std::int64_t time) { return grid.index(time); });
  const double period_seconds = std::chrono::duration<double>(family.spec.period).count();
  const double period_steps = std::max(1.0, period_seconds / telemetry.step_seconds);
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
    lay_channel(family, i, at, period_steps, telemetry.series(telemetry.channels.size() - 1));
  }
}

NodeTrace load_trace(const std::filesystem::path& path) {
  TraceReader reader(path);
  NodeTrace trace;
  trace.header = reader.header();
  trace.complete = reader.complete();
  trace.begin = reader.snapshot_begin();
  trace.end = reader.snapshot_end();
  trace.events = reader.events();
  trace.coverage = reader.coverage();
  const std::vector<ClockPair> clocks = reader.clocks();
  note_clock(clocks, trace);
  note_losses(trace);

  const std::int64_t step_ns = trace.header.interval.count();
  if (step_ns <= 0) throw Error(path.string() + ": the trace names no sampling interval");
  Telemetry& telemetry = trace.telemetry;
  telemetry.node = trace.header.node;
  telemetry.step_seconds = static_cast<double>(step_ns) * 1e-9;

  const TraceReader::Family* pace = fastest(reader);
  if (pace == nullptr) {
    telemetry.begin_utc_ns = trace.header.begin_utc_ns;
    trace.notes.emplace_back("the trace holds fewer than two samples");
    return trace;
  }
  std::int64_t first = pace->time_ns.front();
  std::int64_t last = pace->time_ns.back();
  const Grid grid(first, last, utc_offset_ns(clocks, trace.header, first), step_ns);
  if (grid.samples() > kMostSamples) {
    throw Error(fmt::format("{}: the time axis spans {} samples, which no job has", path.string(), grid.samples()));
  }
  telemetry.begin_utc_ns = grid.begin_utc_ns();
  telemetry.samples = grid.samples();
  trace.samples_expected = static_cast<double>(grid.samples());
  trace.samples_present = static_cast<double>(pace->time_ns.size() - 1);

  std::size_t channels = 0;
  for (const auto& family : reader.families()) channels += family.time_ns.empty() ? 0 : family.channels.size();
  if ((channels + kDerivedChannels) * telemetry.samples > kMostValues) {
    throw Error(fmt::format("{}: {} channels of {} samples are more than can be analysed", path.string(), channels,
                            telemetry.samples));
  }
  telemetry.channels.reserve(channels + kDerivedChannels);
  telemetry.values.reserve((channels + kDerivedChannels) * telemetry.samples);
  for (const auto& family : reader.families()) {
    if (family.time_ns.empty() || family.channels.empty()) continue;
    FamilyRows rows{family.spec, family.channels, family.time_ns, reader.read(family)};
    lay_on_grid(rows, grid, telemetry);
  }
  append_derived(telemetry);
  return trace;
}

}  // namespace reveal
