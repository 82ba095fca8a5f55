#include "postproc/report/channel_totals.h"

#include <algorithm>
#include <cmath>

#include "postproc/merge/present_values.h"

namespace reveal {
namespace {

constexpr double kLateNs = 10e6;

bool is_late(double value) {
  return value > kLateNs;
}

}  // namespace

void ChannelTotals::add(std::span<const double> values) {
  const PresentValues all = present_values(values);
  if (all.present == 0) return;
  present += all.present;
  sum += all.sum;
  low = std::min(low, all.low);
  high = std::max(high, all.high);
  if (all.high > kLateNs) late += static_cast<std::size_t>(std::count_if(values.begin(), values.end(), is_late));
  if (all.constant()) {
    if (!std::isnan(last) && last != all.low) ++changes;
    last = all.low;
    return;
  }
  changes += changes_in(values, last);
  last = *std::find_if(values.rbegin(), values.rend(), [](double value) { return !std::isnan(value); });
}

void add_to(std::vector<ChannelTotals>& totals, const Telemetry& piece) {
  totals.resize(piece.channels.size());
  for (std::size_t c = 0; c < totals.size(); ++c) totals[c].add(piece.series(c));
}

}  // namespace reveal
