#include "postproc/telemetry/coarser.h"

#include <cmath>
#include <cstdint>

#include "postproc/numerics/simd.h"

namespace reveal {
namespace {

REVEAL_VECTOR(Lanes, std::int64_t, 32);

/// Four steps side by side, each with its samples in their order: the sums are those of longer_step(), since adding a
/// zero for a missing sample changes no bit. `n` is a multiple of four.
REVEAL_WIDE void lengthen_fours(const double* values, std::size_t factor, double scale, std::size_t n, double* out) {
  const Wide one = Wide{} + 1;
  for (std::size_t s = 0; s < n; s += kWide) {
    const double* first = values + s * factor;
    Wide sum{};
    Wide present{};
    for (const double* at = first; at < first + factor; ++at) {
      const Wide v{at[0], at[factor], at[2 * factor], at[3 * factor]};
      const Lanes is_present = v == v;  // NOLINT(misc-redundant-expression): NaN is not
      sum += is_present ? v : Wide{};
      present += is_present ? one : Wide{};
    }
    *reinterpret_cast<Wide*>(out + s) = sum / present * scale;
  }
}

double longer_step(std::span<const double> samples, double scale) {
  double sum = 0;
  double present = 0;
  for (const double value : samples) {
    if (std::isnan(value)) continue;
    sum += value;
    present += 1;
  }
  return sum / present * scale;
}

}  // namespace

void lengthen_steps(std::span<const double> values, std::size_t factor, Kind kind, std::span<double> out) {
  const double scale = is_counted(kind) ? static_cast<double>(factor) : 1;
  const std::size_t fours = out.size() - out.size() % kWide;
  lengthen_fours(values.data(), factor, scale, fours, out.data());
  for (std::size_t s = fours; s < out.size(); ++s) {
    out[s] = longer_step(values.subspan(s * factor, factor), scale);
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
