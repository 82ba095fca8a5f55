#include "postproc/report/channel_totals.h"

#include <algorithm>
#include <cmath>

namespace reveal {
namespace {

constexpr double kLateNs = 10e6;

}  // namespace

void ChannelTotals::add(std::span<const double> values) {
  for (const double value : values) {
    if (std::isnan(value)) continue;
    ++present;
    sum += value;
    low = std::min(low, value);
    high = std::max(high, value);
    late += value > kLateNs ? 1 : 0;
    if (!std::isnan(last) && value != last) ++changes;
    last = value;
  }
}

void add_to(std::vector<ChannelTotals>& totals, const Telemetry& piece) {
  totals.resize(piece.channels.size());
  for (std::size_t c = 0; c < totals.size(); ++c) totals[c].add(piece.series(c));
}

}  // namespace reveal
