// A job that memory cannot hold, read once: what the detectors say, the channels' totals, and the whole job with longer
// steps, which is what rules, comparisons and timelines look at.
#pragma once

#include <cstddef>
#include <vector>

#include "postproc/analysis/channel_totals.h"
#include "postproc/detect/episode.h"
#include "postproc/telemetry/telemetry.h"
#include "postproc/telemetry/trace_stream.h"

namespace reveal {

/// Is the trace too long to be held at its own resolution?
[[nodiscard]] bool is_long(const TraceStream& stream);

/// Bytes that analysing the trace takes, held or in pieces; not much more for any trace seen.
[[nodiscard]] std::size_t memory_needed(const TraceStream& stream);

struct LongAnalysis {
  Detection detection;  // on the trace's own samples
  TraceTotals totals;
  std::size_t factor = 1;  // the trace's samples in one of `overview`
  Telemetry overview;
};

/// Analyses a long trace with the default pipeline. With more than one thread, a block is scanned while the next one is
/// read.
[[nodiscard]] LongAnalysis analyse_pieces(TraceStream& stream, std::size_t threads);

}  // namespace reveal
