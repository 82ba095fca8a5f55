#include "postproc/analysis/overview.h"

#include "postproc/numerics/present_values.h"
#include "postproc/telemetry/coarser.h"

namespace reveal {
namespace {

constexpr std::size_t kMostValues = 16'000'000;
/// Divisors of every piece.
constexpr std::size_t kFactors[] = {2, 5, 10, 20, 50, 100, 200, 500, 1000};

}  // namespace

void Overview::begin() {
  for (const std::size_t factor : kFactors) {
    factor_ = factor;
    if (samples_ / factor * job_.channels.size() <= kMostValues) break;
  }
  longer_ = {.node = job_.node,
             .step_seconds = job_.step_seconds * static_cast<double>(factor_),
             .begin_utc_ns = job_.begin_utc_ns,
             .samples = samples_ / factor_,
             .channels = job_.channels,
             .values = {}};
  longer_.values.resize(longer_.samples * longer_.channels.size());
}

void Overview::add(const Telemetry& piece) {
  if (piece.samples == samples_) {
    whole_ = &piece;
    return;
  }
  if (filled_ == 0) begin();
  const std::size_t count = piece.samples / factor_;
  series_.resize(count);
  for (std::size_t c = 0; c < piece.channels.size(); ++c) {
    lengthen_steps(piece.series(c), factor_, piece.channels[c].kind, series_);
    copy_onto_zeros(series_, longer_.series(c).subspan(filled_, count));
  }
  filled_ += count;
}

}  // namespace reveal
