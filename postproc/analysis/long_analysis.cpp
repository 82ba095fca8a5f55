#include "postproc/analysis/long_analysis.h"

#include <algorithm>

#include "postproc/detect/pipelines/interval_detection.h"
#include "postproc/numerics/present_values.h"
#include "postproc/telemetry/coarser.h"

namespace reveal {
namespace {

/// 400 MB of numbers: an hour of 1,400 channels at 100 ms.
constexpr std::size_t kMostHeld = 50'000'000;
constexpr std::size_t kMostOverview = 16'000'000;
/// Divisors of every piece.
constexpr std::size_t kFactors[] = {2, 5, 10, 20, 50, 100, 200, 500, 1000};

/// Appends to a telemetry of known length.
class Overview {
 public:
  Overview(const Telemetry& job, std::size_t samples, LongAnalysis& result) : result_(result) {
    for (const std::size_t factor : kFactors) {
      result.factor = factor;
      if (samples / factor * job.channels.size() <= kMostOverview) break;
    }
    Telemetry& overview = result.overview;
    overview.node = job.node;
    overview.step_seconds = job.step_seconds * static_cast<double>(result.factor);
    overview.begin_utc_ns = job.begin_utc_ns;
    overview.samples = samples / result.factor;
    overview.channels = job.channels;
    overview.values.resize(overview.samples * overview.channels.size());
  }

  void add(const Telemetry& piece) {
    const std::size_t count = piece.samples / result_.factor;
    for (std::size_t c = 0; c < piece.channels.size(); ++c) {
      longer_.resize(count);
      lengthen_steps(piece.series(c), result_.factor, piece.channels[c].kind, longer_);
      copy_onto_zeros(longer_, result_.overview.series(c).subspan(at_, count));
    }
    at_ += count;
  }

 private:
  LongAnalysis& result_;
  std::size_t at_ = 0;
  std::vector<double> longer_;
};

}  // namespace

bool is_long(const TraceStream& stream) {
  return stream.samples() * stream.trace().telemetry.channels.size() > kMostHeld;
}

std::size_t memory_needed(const TraceStream& stream) {
  constexpr std::size_t kAnyway = 40'000'000;
  constexpr std::size_t kBlockSamples = 15'000;  // that are scanned at once
  constexpr std::size_t kPerScanned = 8;         // two series of single precision
  constexpr std::size_t kInPieces = 600'000'000;
  if (is_long(stream)) return kInPieces;
  const std::size_t channels = stream.trace().telemetry.channels.size();
  // A quarter of the channels counts nothing in any job seen (most often half), and takes no memory.
  const std::size_t held = stream.samples() * channels * sizeof(double) / 4 * 3;
  return kAnyway + held + std::min(stream.samples(), kBlockSamples) * channels * kPerScanned;
}

LongAnalysis analyse_pieces(TraceStream& stream, std::size_t threads) {
  const Telemetry& job = stream.trace().telemetry;
  LongAnalysis result;
  IntervalDetection detection(job, stream.samples(), {.keep_windows = false},
                              {.scanning = threads > 1 ? std::launch::async : std::launch::deferred});
  Overview overview(job, stream.samples(), result);
  Telemetry piece;
  for (std::size_t begin = 0; begin < stream.samples(); begin += detection.piece_samples()) {
    stream.read(begin, std::min(detection.piece_samples(), stream.samples() - begin), piece);
    result.totals.add(piece);
    overview.add(piece);
    detection.add(piece);
  }
  result.detection =
      detection.finish([&](std::size_t begin, std::size_t samples) { return stream.read(begin, samples); });
  return result;
}

}  // namespace reveal
