// Prepares telemetry for the interval scan: every channel becomes one or more series of normal scores (its increments
// or rate, its level where that does not drift, its contrast against the same quantity of other ranks, cpus,
// namespaces).
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "postproc/detect/scan/scan_scale.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

/// Instances that are peers of each other when only their number differs; two disks or network cards are not.
inline constexpr std::array<std::string_view, 5> kPeerNames{"cpu", "rank", "node", "gpu", "n"};

enum class SeriesForm : std::uint8_t { rate, level, contrast };

struct ScanSeries {
  std::size_t channel = 0;  // index into Telemetry::channels
  std::size_t peer = 0;     // contrast of two: the other member; else equal to `channel`
  SeriesForm form = SeriesForm::rate;
  Subsystem subsystem = Subsystem::cpu;
  double variance = 0;   // variance of the scores
  double hold = 1;       // samples over which one measurement is held: divides the effective number of samples
  bool detects = false;  // not a near copy of an earlier series of its subsystem
};

enum class ScanOf : std::uint8_t { job, stream };  // see ScanScale::has_start_and_end

struct ScanInput {
  std::size_t samples = 0;
  ScanOf of_what = ScanOf::job;
  std::vector<ScanSeries> series;
  std::vector<std::vector<float>> scores;  // [series][sample], mean 0; one by one, so that the next block reuses them

  [[nodiscard]] std::span<const float> of(std::size_t index) const { return scores[index]; }
};

/// Memory levels move in steps by the mere existence of another process (kernel stacks, page tables, anonymous pages),
/// a dozen of them at once: they neither detect nor attribute. Their changes do.
[[nodiscard]] inline bool is_memory_level(const ScanSeries& series) {
  return series.form == SeriesForm::level && series.subsystem == Subsystem::memory;
}

/// Samples [begin, begin + samples) of the telemetry. Channels of reveal itself, of kind state, with less than a fifth
/// present or with fewer than six samples away from their median give no series, nor do such contrasts. Missing values
/// stand at the median.
[[nodiscard]] ScanInput scan_input(const Telemetry& telemetry, std::size_t begin, std::size_t samples,
                                   const ScanScale& scale);

/// Correlation of two series, on one-second means for long jobs.
class SeriesCorrelation {
 public:
  SeriesCorrelation(const ScanInput& input, const ScanScale& scale);
  [[nodiscard]] std::span<const float> unit_vector(std::size_t index) const {
    return std::span(vectors_).subspan(index * length_, length_);
  }
  [[nodiscard]] std::size_t length() const { return length_; }
  [[nodiscard]] double between(std::size_t a, std::size_t b) const;

 private:
  std::size_t length_ = 0;
  std::vector<float> vectors_;  // [series][length_], Euclidean norm 1
};

/// Sets ScanSeries::detects: walks the series in order and leaves out near copies inside a subsystem (|r| > 0.9), and
/// memory levels.
void mark_detecting(ScanInput& input, const SeriesCorrelation& correlation);

}  // namespace reveal
