#include "postproc/diagnose/busiest_disk.h"

#include "postproc/diagnose/signals.h"

namespace reveal {

BusiestDisk busiest_disk(const RuleContext& context, Interval at) {
  BusiestDisk busiest;
  for (const std::size_t channel : context.channels("disk.io_time")) {
    const double busy = mean_inside(channel_rate(context, channel, 1e-9, "s/s").values, at);
    if (busy > busiest.busy) busiest = {context.telemetry.channels[channel].instance, busy};
  }
  return busiest;
}

}  // namespace reveal
