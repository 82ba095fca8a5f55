// Time of features and pipelines on one node: `detect_bench [channels] [samples] [scan]`, default 1000 x 6000 (10 min
// at 10 Hz); with `scan` only the default pipeline as the report runs it, without scores of windows. Prints the median
// and the range of five runs on one thread, and the peak memory. The job is noise with recurring phases; one variant
// has an event, which adds the window detectors and the attribution.
#include <spdlog/fmt/fmt.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/detect/pipeline.h"
#include "postproc/features/feature_matrix.h"

using namespace reveal;

namespace {

Telemetry job(std::size_t channels, std::size_t samples) {
  constexpr Subsystem kSubsystems[] = {Subsystem::cpu, Subsystem::memory, Subsystem::network, Subsystem::storage,
                                       Subsystem::process};
  std::mt19937_64 engine(1);
  Telemetry telemetry{.step_seconds = 0.1, .samples = samples};
  telemetry.values.resize(channels * samples);
  for (std::size_t c = 0; c < channels; ++c) {
    telemetry.channels.push_back({.metric = "metric" + std::to_string(c / 2),
                                  .instance = "cpu" + std::to_string(c % 2),
                                  .kind = c % 3 == 0 ? Kind::gauge : Kind::counter,
                                  .subsystem = kSubsystems[c / 2 % 5],
                                  .period_seconds = 0.1});
    for (std::size_t t = 0; t < samples; ++t) {
      const bool phase = (t + c) % 50 < 10 + c % 30;
      telemetry.series(c)[t] = static_cast<double>(engine() % 1000 + (phase ? 500 : 0));
    }
  }
  return telemetry;
}

void measure(const std::string& what, const std::function<std::string()>& work) {
  std::vector<double> milliseconds;
  std::string result;
  for (int run = 0; run < 5; ++run) {
    const std::clock_t begin = std::clock();
    result = work();
    milliseconds.push_back(1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  fmt::print("{:28} {:7.0f} ms ({:.0f}-{:.0f})  {}\n", what, milliseconds[2], milliseconds[0], milliseconds[4], result);
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t channels = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1000;
  const std::size_t samples = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 6000;
  Telemetry telemetry = job(channels, samples);
  const bool scan_only = argc > 3 && std::string_view(argv[3]) == "scan";
  fmt::print("{} channels x {} samples\n", channels, samples);

  std::vector<std::size_t> all(channels);
  for (std::size_t c = 0; c < channels; ++c) all[c] = c;
  const WindowGrid grid = window_grid(3, 1, telemetry.step_seconds, 0, samples);
  const auto episodes = [&](std::string_view pipeline) {
    return fmt::format("{} episodes",
                       find_pipeline(pipeline).run(telemetry, {.keep_windows = !scan_only}).episodes.size());
  };
  if (!scan_only) {
    measure("features, all channels", [&] {
      const FeatureMatrix matrix = feature_matrix(telemetry, all, grid);
      return fmt::format("{} windows x {} features", matrix.values.rows(), matrix.values.cols());
    });
    measure("paper", [&] { return episodes("paper"); });
  }
  measure("reveal, undisturbed", [&] { return episodes("reveal"); });
  for (std::size_t c = 0; c < channels; c += 2) {
    for (std::size_t t = samples / 2; t < samples / 2 + 150; ++t) telemetry.series(c)[t] += 1500;
  }
  measure("reveal, one event", [&] { return episodes("reveal"); });

  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print("peak memory {} MiB, of which {} MiB are the telemetry itself\n", usage.ru_maxrss / 1024,
             channels * samples * sizeof(double) / (1 << 20));
}
