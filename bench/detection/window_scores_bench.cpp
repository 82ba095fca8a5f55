// The result of one way of scoring windows: `window_scores_bench WAY PATH WINDOW STRIDE`, both in seconds. PATH is a
// job's directory or a series as `reveal score` reads it. Prints CSV, one line per node and window: times in seconds,
// score, and whether the way flags it; and the node's time at 0 s. For bench/detection/windows.py, pruning.py and
// detectors.py. Ways:
//   paper      the paper's pipeline: a window that any of its detectors puts into the top 1 %
//   unpruned   the same on all channels that move
//   windows    the window detectors of the default pipeline without its interval scan; the top 1 % of their ranking
//   R-Z,KNN    the same with these window detectors alone (`window_scores_bench names` prints them all)
//   reveal     the default pipeline: windows of strong and weak intervals
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hdf5schema/basics/text.h"
#include "postproc/detect/pipeline.h"
#include "postproc/detect/scan/scan_scale.h"
#include "postproc/detect/windows/ensemble.h"
#include "postproc/numerics/percentile.h"
#include "postproc/score/score.h"
#include "postproc/telemetry/job.h"
#include "postproc/telemetry/load.h"

using namespace reveal;

namespace {

constexpr double kNoPruning = 2;  // no |r| is above
constexpr double kFlaggedPercentile = 99;
constexpr double kStartSeconds = 5;
constexpr double kEndSeconds = 2.5;

std::vector<WindowScore> of_pipeline(std::string_view name, const Telemetry& node, const DetectOptions& options) {
  return find_pipeline(name).run(node, options).windows;
}

std::vector<WindowScore> paper(const Telemetry& node, const DetectOptions& options) {
  return of_pipeline("paper", node, options);
}

std::vector<WindowScore> unpruned(const Telemetry& node, const DetectOptions& options) {
  DetectOptions all = options;
  all.prune_above = kNoPruning;
  return of_pipeline("paper", node, all);
}

std::vector<WindowScore> reveal_windows(const Telemetry& node, const DetectOptions& options) {
  return of_pipeline("reveal", node, options);
}

std::vector<WindowScore> ranking_by(std::span<const WindowDetector> detectors, const Telemetry& node,
                                    const DetectOptions& options) {
  // Imports and tear-down are no news, to the default pipeline.
  const ScanScale scale = scan_scale(node.step_seconds);
  const std::size_t begin = scale.has_start_and_end ? scale.samples(kStartSeconds) : 0;
  const std::size_t rest = begin + (scale.has_start_and_end ? scale.samples(kEndSeconds) : 0);
  if (node.samples <= rest) return {};
  const WindowGrid grid =
      window_grid(options.window_seconds, options.stride_seconds, node.step_seconds, begin, node.samples - rest);
  if (grid.count < kLeastWindows) return {};
  const WindowRanking ranking = rank_windows(node, grid, options.seed, Explain::no, detectors);
  const double threshold = percentile(ranking.score, kFlaggedPercentile);
  std::vector<WindowScore> windows;
  for (std::size_t w = 0; w < grid.count; ++w) {
    windows.push_back({.begin = grid.first_sample(w), .end = grid.end_sample(w), .score = ranking.score[w]});
    if (ranking.score[w] > threshold) windows.back().tier = Tier::weak;
  }
  return windows;
}

std::vector<WindowScore> ranking_alone(const Telemetry& node, const DetectOptions& options) {
  return ranking_by(window_detectors(), node, options);
}

using Way = std::function<std::vector<WindowScore>(const Telemetry&, const DetectOptions&)>;

/// None for a name that is unknown.
Way way_of(std::string_view name) {
  if (name == "paper") return paper;
  if (name == "unpruned") return unpruned;
  if (name == "windows") return ranking_alone;
  if (name == "reveal") return reveal_windows;
  std::vector<WindowDetector> detectors;
  for (const std::string& wanted : split_names(name)) {
    const auto& all = window_detectors();
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const WindowDetector& each) { return name_of(each.method) == wanted; });
    if (found == all.end()) return nullptr;
    detectors.push_back(*found);
  }
  if (detectors.empty()) return nullptr;
  return
      [detectors](const Telemetry& node, const DetectOptions& options) { return ranking_by(detectors, node, options); };
}

std::vector<Telemetry> nodes_of(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return {telemetry_of(read_series_file(path))};
  std::vector<Telemetry> nodes;
  for (const ListedTrace& file : list_traces(path)) nodes.push_back(load_trace(file.path).telemetry);
  return nodes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "names") {
    for (const WindowDetector& detector : window_detectors()) fmt::print("{}\n", name_of(detector.method));
    return 0;
  }
  const Way way = argc == 5 ? way_of(argv[1]) : nullptr;
  DetectOptions options;
  if (way) {
    options.window_seconds = std::strtod(argv[3], nullptr);
    options.stride_seconds = std::strtod(argv[4], nullptr);
  }
  if (!way || !(options.window_seconds > 0) || !(options.stride_seconds > 0)) {
    fmt::print(stderr, "usage: window_scores_bench paper|unpruned|windows|DETECTORS|reveal PATH WINDOW STRIDE\n");
    return 2;
  }
  options.every_channel = std::string_view(argv[1]) == "reveal";  // else it does not rank them
  fmt::print("node,begin,end,score,flagged,start_utc_ns\n");
  for (const Telemetry& node : nodes_of(argv[2])) {
    for (const WindowScore& window : way(node, options)) {
      fmt::print("{},{:.6g},{:.6g},{:.6g},{},{}\n", node.node, static_cast<double>(window.begin) * node.step_seconds,
                 static_cast<double>(window.end) * node.step_seconds, window.score, window.tier == Tier::none ? 0 : 1,
                 node.begin_utc_ns);
    }
  }
  return 0;
}
