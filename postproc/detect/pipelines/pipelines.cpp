#include <memory>
#include <optional>
#include <utility>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/detect/paper/paper_pipeline.h"
#include "postproc/detect/pipeline.h"
#include "postproc/detect/pipelines/interval_detection.h"

namespace reveal {
namespace {

std::unique_ptr<JobDetection> start_intervals(const Telemetry& job, std::size_t samples, const DetectOptions& options) {
  return std::make_unique<IntervalDetection>(job, samples, options, IntervalDetection::Policy{});
}

/// Standardises and ranks over the whole job.
class PaperDetection final : public JobDetection {
 public:
  PaperDetection(std::size_t samples, const DetectOptions& options) : samples_(samples), options_(options) {}

  [[nodiscard]] std::size_t piece_samples() const override { return samples_; }
  void add(const Telemetry& whole_job) override { result_ = detect_as_in_paper(whole_job, options_); }
  [[nodiscard]] Detection finish(const ReadAgain& /*read*/) override { return std::move(result_); }

 private:
  std::size_t samples_;
  DetectOptions options_;
  Detection result_;
};

std::unique_ptr<JobDetection> start_paper(const Telemetry& /*job*/, std::size_t samples, const DetectOptions& options) {
  return std::make_unique<PaperDetection>(samples, options);
}

}  // namespace

const std::vector<Pipeline>& pipelines() {
  static const std::vector<Pipeline> all{
      {.name = "reveal",
       .help =
           "intervals that lie beyond everything outside them (scan statistic); window detectors as a second opinion",
       .start = start_intervals},
      {.name = "paper",
       .help = "arXiv 2510.26008 literally: top 1 % of windows by mean |z|, PCA-Mahalanobis and Isolation Forest",
       .start = start_paper,
       .needs_whole_job = true},
  };
  return all;
}

Detection Pipeline::run(const Telemetry& job, const DetectOptions& options) const {
  const auto detection = start(job, job.samples, options);
  detection->add(job);
  return detection->finish({});
}

const Pipeline& find_pipeline(std::string_view name) {
  std::vector<std::string> names;
  std::string joined;
  for (const Pipeline& pipeline : pipelines()) {
    if (pipeline.name == name) return pipeline;
    names.emplace_back(pipeline.name);
    joined += (joined.empty() ? "" : ", ") + names.back();
  }
  const std::optional<std::string> near = nearest(name, names);
  std::string message = "unknown pipeline \"" + std::string(name) + "\"";
  if (near) {
    message += "; did you mean \"" + *near + "\"?";
  } else {
    message += " (there are: " + joined + ")";
  }
  throw Error(message);
}

}  // namespace reveal
