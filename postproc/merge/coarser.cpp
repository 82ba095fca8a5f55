#include "postproc/merge/coarser.h"

#include <cmath>

namespace reveal {

double longer_step(std::span<const double> samples, Kind kind) {
  double sum = 0;
  double present = 0;
  for (const double value : samples) {
    if (std::isnan(value)) continue;
    sum += value;
    present += 1;
  }
  const bool counts = kind == Kind::counter || kind == Kind::event;
  return sum / present * (counts ? static_cast<double>(samples.size()) : 1);
}

Telemetry coarser(const Telemetry& telemetry, std::size_t factor) {
  Telemetry coarse{.node = telemetry.node,
                   .step_seconds = telemetry.step_seconds * static_cast<double>(factor),
                   .begin_utc_ns = telemetry.begin_utc_ns,
                   .samples = telemetry.samples / factor,
                   .channels = telemetry.channels,
                   .values = {}};
  coarse.values.reserve(coarse.samples * coarse.channels.size());
  for (std::size_t c = 0; c < coarse.channels.size(); ++c) {
    const auto values = telemetry.series(c);
    for (std::size_t s = 0; s < coarse.samples; ++s) {
      coarse.values.push_back(longer_step(values.subspan(s * factor, factor), coarse.channels[c].kind));
    }
  }
  return coarse;
}

}  // namespace reveal
