// A pipeline turns one node's telemetry into episodes. `reveal` is the default, `paper` reproduces arXiv 2510.26008
// literally. Same seed, same result, on any number of threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/detect/episode.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

struct DetectOptions {
  double window_seconds = 3;
  double stride_seconds = 1;
  std::uint64_t seed = 0;
  double prune_above = 0.5;    // mean |r| beyond which `paper` keeps one channel of several; 1 and more: it keeps all
  bool keep_windows = true;    // fill Detection::windows
  bool every_channel = false;  // reasons name all channels, not only the first kMaxReasons; windows have reasons too
};

struct Pipeline {
  std::string_view name;
  std::string_view help;
  Detection (*run)(const Telemetry&, const DetectOptions&);
  bool in_pieces = false;  // a job that memory cannot hold may go through IntervalDetection in pieces
};

/// Throws Error naming the near one for an unknown name.
[[nodiscard]] const Pipeline& find_pipeline(std::string_view name);
[[nodiscard]] const std::vector<Pipeline>& pipelines();

}  // namespace reveal
