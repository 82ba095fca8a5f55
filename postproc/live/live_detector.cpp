#include "postproc/live/live_detector.h"

#include <algorithm>

#include "hdf5schema/basics/clocks.h"
#include "postproc/detect/pipelines/interval_detection.h"

namespace reveal {
namespace {

constexpr std::int64_t kStride = kSecond;        // a window of the detectors ends every second
constexpr std::int64_t kUrgent = 12 * kSecond;   // after an alarm: an interval needs some seconds to stand out
constexpr std::int64_t kBacklog = 30 * kSecond;  // windows that the pre-filter does not check one by one

Detection detect(const LiveBlock& block, std::size_t blocks_before, bool ended) {
  const Telemetry& telemetry = block.telemetry;
  IntervalDetection detection(
      telemetry, telemetry.samples, {.keep_windows = false},
      {.blocks_before = blocks_before, .starts = block.starts, .running = !ended, .second_opinion = false});
  detection.add(telemetry);
  return detection.finish({});
}

void run_window_detectors(const Telemetry& telemetry, Episode& episode) {
  if (!deserves_second_opinion(episode)) return;
  add_second_opinion(telemetry, 0, surroundings(episode, telemetry.samples, scan_scale(telemetry.step_seconds)), {},
                     SecondOpinion::methods, episode);
}

}  // namespace

bool LiveDetector::due(const RowStore& rows, std::int64_t newest_ns, double now_seconds, CpuBudget& budget) {
  asked_ns_ = std::max(asked_ns_, newest_ns - kBacklog);
  while (newest_ns - asked_ns_ >= kStride) {
    asked_ns_ += kStride;
    if (!pre_filter_.alarmed_by(rows, asked_ns_)) continue;
    urgent_until_ns_ = asked_ns_ + kUrgent;
    ++alarms_;
  }
  if (newest_ns < seen_ns_ + kStride) return false;
  const bool urgent = newest_ns < urgent_until_ns_ || book_.expects_news();
  return budget.allows(urgent ? CpuBudget::Need::urgent : CpuBudget::Need::routine, now_seconds, cost_);
}

std::vector<AlertChange> LiveDetector::advance(const RowStore& rows, const TraceHeader& header,
                                               std::int64_t utc_minus_monotonic_ns, double now_seconds, bool ended,
                                               CpuBudget& budget) {
  const std::int64_t newest_ns = rows.newest_ns();
  if (newest_ns == 0) return {};
  if (first_ns_ == 0) first_ns_ = asked_ns_ = newest_ns;
  if (!due(rows, newest_ns, now_seconds, budget) && !ended) return {};
  const double before = cpu_seconds();
  std::vector<AlertChange> changes;
  if (const auto block = rows.block(header, utc_minus_monotonic_ns)) {
    const auto passed = static_cast<std::size_t>((block->first_ns - std::min(first_ns_, block->first_ns)) /
                                                 std::chrono::nanoseconds(kLiveBlock).count());
    changes = book_.update(detect(*block, passed, ended), *block, ended,
                           [&](Episode& episode) { run_window_detectors(block->telemetry, episode); });
  }
  cost_ = cpu_seconds() - before;
  budget.spend(cost_);
  seen_before_ns_ = seen_ns_;
  seen_ns_ = newest_ns;
  return changes;
}

}  // namespace reveal
