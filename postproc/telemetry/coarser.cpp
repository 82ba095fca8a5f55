#include "postproc/telemetry/coarser.h"

#include <cmath>

namespace reveal {
namespace {

double longer_step(std::span<const double> samples, Kind kind) {
  double sum = 0;
  double present = 0;
  for (const double value : samples) {
    if (std::isnan(value)) continue;
    sum += value;
    present += 1;
  }
  return sum / present * (is_counted(kind) ? static_cast<double>(samples.size()) : 1);
}

}  // namespace

void lengthen_steps(std::span<const double> values, std::size_t factor, Kind kind, std::span<double> out) {
  for (std::size_t s = 0; s < out.size(); ++s) {
    out[s] = longer_step(values.subspan(s * factor, factor), kind);
  }
}

void make_coarser(const Telemetry& telemetry, std::size_t factor, Telemetry& coarse) {
  coarse.node = telemetry.node;
  coarse.step_seconds = telemetry.step_seconds * static_cast<double>(factor);
  coarse.begin_utc_ns = telemetry.begin_utc_ns;
  coarse.samples = telemetry.samples / factor;
  if (coarse.channels.empty()) coarse.channels = telemetry.channels;
  coarse.values.resize(coarse.samples * coarse.channels.size());
  for (std::size_t c = 0; c < coarse.channels.size(); ++c) {
    lengthen_steps(telemetry.series(c), factor, coarse.channels[c].kind, coarse.series(c));
  }
}

Telemetry coarser(const Telemetry& telemetry, std::size_t factor) {
  Telemetry coarse;
  make_coarser(telemetry, factor, coarse);
  return coarse;
}

}  // namespace reveal
