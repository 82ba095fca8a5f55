#include <optional>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/detect/paper/paper_pipeline.h"
#include "postproc/detect/pipeline.h"
#include "postproc/detect/pipelines/interval_detection.h"

namespace reveal {

const std::vector<Pipeline>& pipelines() {
  static const std::vector<Pipeline> all{
      {"reveal", "intervals that lie beyond everything outside them (gap scan); window detectors as a second opinion",
       detect_intervals, true},
      {"paper", "arXiv 2510.26008 literally: top 1 % of windows by mean |z|, PCA-Mahalanobis and Isolation Forest",
       detect_as_in_paper},
  };
  return all;
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
