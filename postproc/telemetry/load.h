// One trace, read and laid on the regular grid of its node: everything later stages need of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "hdf5schema/sampled_collective.h"
#include "hdf5schema/trace.h"
#include "hdf5schema/training_step.h"
#include "postproc/telemetry/grid.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

/// A damaged part of a trace, which is left out.
struct LostPart {
  enum class Holds : std::uint8_t { evidence, nothing_judged, channels };

  std::string name;   // "memory/vmstat", "events"
  std::string words;  // the same with the reason
  Holds holds = Holds::evidence;
  std::vector<Channel> channels = {};  // if it holds them
};

struct NodeTrace {
  TraceHeader header;
  bool complete = true;
  Telemetry telemetry;
  Snapshot begin;
  Snapshot end;
  std::vector<Event> events;
  std::vector<TrainingStep> steps;
  std::vector<SampledCollective> collectives;
  std::int64_t utc_minus_monotonic_ns = 0;  // offset for the times of these three
  std::vector<Coverage> coverage;
  double samples_expected = 0;  // ticks between the first and the last row
  double samples_present = 0;   // rows of the fastest family
  std::vector<LostPart> lost;
  bool rows_lost = false;  // the collector could not write all it measured
  double clock_error_seconds = 0;
  std::vector<std::string> notes;  // sentences for the reader: clock stepped, rows lost
};

/// The first few with their reasons, and how many more there are.
[[nodiscard]] std::string in_one_sentence(std::span<const LostPart> lost);

/// Adds notes about a wall clock that was set, and the largest clock error.
void note_clock(const std::vector<ClockPair>& clocks, NodeTrace& trace);

/// Turns events about lost rows, events, probes and ticks into notes, a few at most, and sets rows_lost.
void note_losses(NodeTrace& trace);

/// Throws Error with one line when the file is not a trace this version can read, or holds no samples.
[[nodiscard]] NodeTrace load_trace(const std::filesystem::path& path);

}  // namespace reveal
