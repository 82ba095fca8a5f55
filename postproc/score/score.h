// `reveal score`: runs a detection pipeline on any multivariate series and writes the result as CSV.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "hdf5schema/series_file.h"
#include "postproc/detect/episode.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

struct ScoreOptions {
  std::filesystem::path input;
  std::filesystem::path windows_csv;   // --out
  std::filesystem::path episodes_csv;  // --episodes; empty: not written
  std::size_t window = 30;             // samples
  std::size_t stride = 10;
  std::string pipeline = "reveal";
  std::uint64_t seed = 0;
};

struct ScoreResult {
  std::size_t samples = 0, channels = 0;
  double interval_seconds = 0;
  std::size_t windows = 0, strong = 0, weak = 0;
  std::string insufficient;  // why nothing was judged, or ""
  std::string strongest;     // strongest of all intervals: "samples 500 to 600 (50 s to 60 s), c0, c1, c2"
};

/// Throws Error: unreadable input, unwritable output, unknown pipeline, no whole window.
ScoreResult run_score(const ScoreOptions& options);

/// "1000 samples x 20 channels at 0.1 s: 1 strong interval, 0 weak; strongest: ..."
[[nodiscard]] std::string as_line(const ScoreResult& result);

/// Names show which channels are peers ("cpu.user/cpu1", "rank0.utime", "net.n0.rxb/eth0"). Without a kind in the file,
/// a channel is a gauge: increments cannot be distinguished from levels.
[[nodiscard]] Telemetry telemetry_of(const SeriesFile& file);

/// begin,end,score,flagged,tier,agreement,top_channels; flagged: part of a strong interval.
[[nodiscard]] std::string windows_csv(const Detection& detection, const SeriesFile& file);

/// begin,end,score,tier,labels,subsystem,top_channels; only strong and weak ones.
[[nodiscard]] std::string episodes_csv(const Detection& detection, const SeriesFile& file);

}  // namespace reveal
