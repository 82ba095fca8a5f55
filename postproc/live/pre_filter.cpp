#include "postproc/live/pre_filter.h"

#include <algorithm>

namespace reveal {
namespace {

constexpr std::int64_t kWindowNs = 3'000'000'000;  // the detectors' window, and their shortest interval
constexpr int kLearning = 20;                      // windows before a range means something
constexpr double kBeyond = 0.25;                   // share of the range
constexpr double kShare = 0.02;                    // share of the channels that move
constexpr int kLeast = 5;

}  // namespace

bool PreFilter::alarmed_by(const RowStore& rows, std::int64_t until_ns) {
  int beyond = 0;
  int moving = 0;
  rows.means(until_ns - kWindowNs, until_ns, [&](std::size_t family, std::size_t channel, double mean) {
    if (ranges_.size() <= family) ranges_.resize(family + 1);
    std::vector<Range>& channels = ranges_[family];
    if (channels.size() <= channel) channels.resize(channel + 1);
    Range& range = channels[channel];
    if (range.windows++ == 0) range.low = range.high = mean;
    const double width = range.high - range.low;
    if (width > 0) ++moving;
    if (range.windows > kLearning && width > 0 &&
        (mean > range.high + kBeyond * width || mean < range.low - kBeyond * width)) {
      ++beyond;
    }
    range.low = std::min(range.low, mean);
    range.high = std::max(range.high, mean);
  });
  return beyond >= std::max(kLeast, static_cast<int>(kShare * moving));
}

}  // namespace reveal
