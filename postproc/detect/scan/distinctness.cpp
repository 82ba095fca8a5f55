#include "postproc/detect/scan/distinctness.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "postproc/detect/scan/series_scan.h"
#include "postproc/numerics/median.h"

namespace reveal {

namespace {

// bench/detection/few_channels.py measures how often wandering series pass them.
constexpr double kLeastGap = 1;         // in deviations of the series's own piece means
constexpr double kLeastGapOneEdge = 3;  // ... where the other edge is not known: one move is enough for that
constexpr double kLeastAtEdges = 0.6;   // share of the distance; a ramp that ends in a jump has a half
constexpr double kEdgeSeconds = 2;      // on either side of an edge

constexpr std::size_t kPieces = 10;                          // the longest piece is a tenth of the samples
constexpr std::size_t kStepsPerPiece = 8;                    // between neighbouring pieces that are compared
const double kDeviations = kSpreadOverMad / std::sqrt(2.0);  // in the median distance of two normal variables

/// The interval in one series.
struct SeriesShift {
  double gap = 0;       // in deviations of its own piece means
  double distance = 0;  // distance of the mean inside from the mean outside
  double at_edges = 0;  // how much of it
};

/// Measures one interval in one series after the other, in the same memory.
class ShiftMeter {
 public:
  ShiftMeter(std::size_t begin, std::size_t end, std::size_t samples, const ScanScale& scale)
      : begin_(begin),
        end_(end),
        samples_(samples),
        reference_length_(std::min(scale.samples(kReferenceSeconds), end - begin)),
        reach_(std::min(scale.samples(kEdgeSeconds), end - begin)) {}

  [[nodiscard]] bool knows_edge(std::size_t at) const { return at >= reach_ && at + reach_ <= samples_; }
  [[nodiscard]] double least_gap() const {
    return knows_edge(begin_) && knows_edge(end_) ? kLeastGap : kLeastGapOneEdge;
  }

  SeriesShift measure(std::span<const float> scores, const ScanSeries& series) {
    scan_.assign(scores, series.variance, series.hold);
    scan_.set_reference_length(reference_length_);
    const double gap = scan_.gap(begin_, end_);  // in deviations of white noise
    if (gap <= 0) return {};
    prefix_ = scan_.sums();
    const std::size_t piece = std::clamp<std::size_t>(samples_ / kPieces, 1, end_ - begin_);
    const double white = std::sqrt(series.variance * series.hold / static_cast<double>(piece));
    const auto rest = static_cast<double>(samples_ - (end_ - begin_));
    const double distance = mean(begin_, end_) - (prefix_[samples_] - prefix_[end_] + prefix_[begin_]) / rest;
    return {.gap = gap * white / std::max(white, deviation(piece)),
            .distance = std::abs(distance),
            .at_edges = at_edges(distance)};
  }

 private:
  [[nodiscard]] double mean(std::size_t begin, std::size_t end) const {
    return (prefix_[end] - prefix_[begin]) / static_cast<double>(end - begin);
  }

  /// Standard deviation of the means of pieces, from the differences of neighbours outside the interval, or of all
  /// where no two are outside. It takes the median: an event elsewhere is not usual.
  double deviation(std::size_t piece) {
    differences_.clear();
    add_differences(piece, begin_, end_);
    if (differences_.empty()) add_differences(piece, 0, 0);
    return kDeviations * upper_median(std::span(differences_));
  }
  void add_differences(std::size_t piece, std::size_t begin, std::size_t end) {
    const std::size_t step = std::max<std::size_t>(1, piece / kStepsPerPiece);
    for (std::size_t s = 0; s + 2 * piece <= samples_; s += step) {
      if (s + 2 * piece > begin && s < end) continue;
      differences_.push_back(std::abs(mean(s + piece, s + 2 * piece) - mean(s, s + piece)));
    }
  }

  /// How far the series moves away where the interval begins and back where it ends: mean of the edges that are known,
  /// none of which counts for more than the distance.
  [[nodiscard]] double at_edges(double distance) const {
    double sum = 0;
    int known = 0;
    const auto add = [&](std::size_t at, double sign) {
      if (!knows_edge(at)) return;
      const double jump = sign * (mean(at, at + reach_) - mean(at - reach_, at));
      sum += std::clamp(jump, -std::abs(distance), std::abs(distance));
      ++known;
    };
    const double away = distance < 0 ? -1 : 1;
    add(begin_, away);
    add(end_, -away);
    return known == 0 ? 0 : sum / known;
  }

  std::size_t begin_;
  std::size_t end_;
  std::size_t samples_;
  std::size_t reference_length_;
  std::size_t reach_;
  SeriesScan scan_;
  std::span<const double> prefix_;
  std::vector<double> differences_;
};

}  // namespace

bool is_distinct(const ScanInput& input, const ScoredInterval& interval, std::span<const ScoredInterval> others,
                 const ScanScale& scale) {
  std::size_t before = 0;
  std::size_t samples = input.samples;
  for (const ScoredInterval& other : others) {
    before += other.begin < interval.begin ? other.end - other.begin : 0;
    samples -= other.end - other.begin;
  }
  ShiftMeter meter(interval.begin - before, interval.end - before, samples, scale);
  std::vector<SeriesShift> shifts;
  std::vector<float> rest;
  for (std::size_t i = 0; i < input.series.size(); ++i) {
    if (!input.series[i].detects) continue;
    shifts.push_back(meter.measure(cut_out(input.of(i), others, rest), input.series[i]));
  }
  const std::size_t combined = combined_series(shifts.size(), input.of_what);
  const std::size_t most = std::min(combined, shifts.size());
  std::partial_sort(shifts.begin(), shifts.begin() + static_cast<std::ptrdiff_t>(most), shifts.end(),
                    [](const SeriesShift& a, const SeriesShift& b) { return a.gap > b.gap; });
  double gaps = 0;
  double distance = 0;
  double at_edges = 0;
  for (const SeriesShift& shift : std::span(shifts).first(most)) {
    gaps += shift.gap;
    distance += shift.gap * shift.distance;
    at_edges += shift.gap * shift.at_edges;
  }
  return gaps >= meter.least_gap() * static_cast<double>(combined) && at_edges >= kLeastAtEdges * distance;
}

}  // namespace reveal
