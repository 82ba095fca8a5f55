#include "postproc/telemetry/load.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "hdf5schema/utc_offset.h"
#include "postproc/telemetry/trace_stream.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

constexpr std::size_t kMostLossNotes = 5;

struct Loss {
  std::string_view code;
  std::string_view text;
  bool rows = false;               // rows of the trace itself are missing
  std::string_view of_one = text;  // after the number 1
};

/// The worst first: kMostLossNotes cuts the end.
constexpr Loss kLosses[] = {
    {"rows_lost", "rows were lost", true, "row was lost"},
    {"probe_lost", "a probe was lost"},
    {"events_lost", "events were lost", false, "event was lost"},
    {"steps_lost", "training steps are not in the trace", false, "training step is not in the trace"},
    {"collectives_lost", "sampled collectives are not in the trace", false, "sampled collective is not in the trace"},
    {"ticks_missed", "samples were missed", false, "sample was missed"},
    {"rows_dropped", "rows were dropped", false, "row was dropped"},
    {"metrics_selected", "only some metrics were recorded"},
};

/// Adds the numbers in the texts of events that count losses.
std::optional<std::int64_t> sum_of(const std::vector<const Event*>& events) {
  std::int64_t sum = 0;
  for (const Event* event : events) {
    const auto count = parse_int(event->text);
    if (!count || *count < 0 || sum > INT64_MAX - *count) return std::nullopt;
    sum += *count;
  }
  return sum;
}

}  // namespace

std::string in_one_sentence(std::span<const LostPart> lost) {
  constexpr std::size_t kNamed = 3;
  std::string sentence;
  for (std::size_t i = 0; i < std::min(kNamed, lost.size()); ++i) sentence += (i > 0 ? "; " : "") + lost[i].words;
  if (lost.size() > kNamed) sentence += fmt::format("; and {} more", lost.size() - kNamed);
  return sentence;
}

void note_clock(const std::vector<ClockPair>& clocks, NodeTrace& trace) {
  for (std::size_t i = 0; i < clocks.size(); ++i) {
    trace.clock_error_seconds = std::max(trace.clock_error_seconds, static_cast<double>(clocks[i].max_error_ns) * 1e-9);
    if (i == 0) continue;
    const std::int64_t moved =
        (clocks[i].utc_ns - clocks[i].monotonic_ns) - (clocks[i - 1].utc_ns - clocks[i - 1].monotonic_ns);
    if (std::abs(moved) <= kClockStepNs) continue;
    trace.notes.push_back(
        fmt::format("the wall clock was set {} by {} during the job; times are those of the steady clock",
                    moved < 0 ? "back" : "forward", duration(std::abs(static_cast<double>(moved)) * 1e-9)));
  }
}

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
      if (const auto total = sum_of(events)) {
        trace.notes.push_back(fmt::format("{} {}", *total, *total == 1 ? loss.of_one : loss.text));
        continue;
      }
      std::string note = fmt::format("{} ({}: {}", loss.text, object, events.front()->text);
      if (events.size() > 1) note += fmt::format(", and {} more times", events.size() - 1);
      trace.notes.push_back(note + ")");
    }
  }
}

NodeTrace load_trace(const std::filesystem::path& path) {
  TraceStream stream(path);
  stream.read_tables();
  std::optional<Telemetry> telemetry;
  if (stream.samples() > 0) telemetry = stream.read(0, stream.samples());
  NodeTrace trace = std::move(stream).trace();
  if (telemetry) trace.telemetry = *std::move(telemetry);
  return trace;
}

}  // namespace reveal
