// The mixture per layer: which channels are a layer, which windows are a state of the job and which are not, and layers
// that were not measured.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "listed_metrics.h"
#include "postproc/detect/windows/layers.h"
#include "postproc/detect/windows/robust_windows.h"
#include "postproc/detect/windows/window_detector.h"

namespace reveal::tests::layer_mixture_test {
namespace {

/// Noise at 10 Hz: a job's channels of two layers.
Telemetry noise(std::size_t network, std::size_t memory, std::size_t samples) {
  std::mt19937_64 engine(23);
  std::normal_distribution<double> normal;
  Telemetry t{.samples = samples};
  t.values.resize((network + memory) * samples);
  for (std::size_t c = 0; c < network + memory; ++c) {
    const Subsystem subsystem = c < network ? Subsystem::network : Subsystem::memory;
    t.channels.push_back({.metric = "m" + std::to_string(c), .subsystem = subsystem});
    for (double& v : t.series(c)) v = normal(engine);
  }
  return t;
}

void raise(Telemetry& t, std::size_t channels, std::size_t begin, std::size_t end, double by) {
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t s = begin; s < end; ++s) t.series(c)[s] += by;
  }
}

std::vector<double> score(const Telemetry& t) {
  constexpr Baseline kWhole[] = {Baseline::whole};
  const WindowGrid grid = window_grid(3, 1, 0.1, 0, t.samples);
  const RobustWindows windows = robust_windows(t, grid, kWhole, 0).front();
  const auto& all = window_detectors();
  const auto mixture = std::find_if(
      all.begin(), all.end(), [](const WindowDetector& detector) { return detector.method == Method::layer_mixture; });
  return mixture->score(windows, 0);
}

double highest(const std::vector<double>& scores, std::size_t first, std::size_t last) {
  return *std::max_element(scores.begin() + static_cast<std::ptrdiff_t>(first),
                           scores.begin() + static_cast<std::ptrdiff_t>(last));
}

TEST(Layers, AreSubsystemsAndWhatCallsAreAbout) {
  const auto of = [](const char* metric, const char* instance, Subsystem subsystem) {
    return layer_of({.metric = metric, .instance = instance, .subsystem = subsystem});
  };
  EXPECT_EQ(of("net.rx_bytes", "eth0", Subsystem::network), Layer::network);
  EXPECT_EQ(of("gpu.power", "0", Subsystem::gpu), Layer::gpu);
  EXPECT_EQ(of("process.cpu_time", "rank0", Subsystem::process), Layer::process);
  EXPECT_EQ(of("stack.calls", "rank0/cudaLaunchKernel", Subsystem::process), Layer::cuda);
  EXPECT_EQ(of("stack.time", "rank1/cuLaunchKernel", Subsystem::process), Layer::cuda);
  EXPECT_EQ(of("stack.time", "rank1/ncclAllReduce", Subsystem::process), Layer::collective);
  EXPECT_EQ(of("stack.bytes", "rank1/MPI_Wait", Subsystem::process), Layer::collective);
  EXPECT_EQ(of("stack.calls", "rank0/torch.backward", Subsystem::process), Layer::steps);
  EXPECT_EQ(of("stack.steps", "rank0", Subsystem::process), Layer::steps);
  EXPECT_EQ(of("stack.step_time", "rank0", Subsystem::process), Layer::steps);
  EXPECT_EQ(of("stack.communication", "rank0", Subsystem::process), Layer::collective);
  EXPECT_EQ(of("stack.time", "rank0/python.gc", Subsystem::process), Layer::python);
  EXPECT_EQ(of("stack.calls", "rank0/python.import", Subsystem::process), Layer::python);
  EXPECT_EQ(of("stack.time", "rank0/of_another_version", Subsystem::process), Layer::process);
}

TEST(Layers, HaveARowForEachSubsystem) {
  constexpr std::pair<std::string_view, Layer> kExpected[] = {
      {"cpu", Layer::cpu},         {"gpu", Layer::gpu},         {"memory", Layer::memory}, {"network", Layer::network},
      {"storage", Layer::storage}, {"process", Layer::process}, {"self", Layer::self},
  };
  ASSERT_EQ(std::size(kExpected), static_cast<std::size_t>(Subsystem::self) + 1) << "a subsystem is new";
  for (const auto& [name, layer] : kExpected) {
    const auto subsystem = subsystem_of(name);
    ASSERT_TRUE(subsystem.has_value()) << name;
    EXPECT_EQ(layer_of({.metric = "any.metric", .subsystem = *subsystem}), layer) << name;
  }
}

TEST(Layers, HaveARowForEachMetricOfCalls) {
  struct Expected {
    std::string_view metric, instance;
    Layer layer;
  };
  constexpr Expected kExpected[] = {
      {"stack.calls", "rank0/gloo.allreduce", Layer::collective},
      {"stack.bytes", "rank0/cudaMemcpy", Layer::cuda},
      {"stack.time", "rank0/python.gc", Layer::python},
      {"stack.longest", "rank0/python.gc", Layer::python},
      {"stack.in_flight", "rank0/MPI_Recv", Layer::collective},
      {"stack.errors", "rank0/cudaFree", Layer::cuda},
      {"stack.steps", "rank0", Layer::steps},
      {"stack.step_time", "rank0", Layer::steps},
      {"stack.communication", "rank0", Layer::collective},
      {"stack.histogram", "rank0/ncclAllReduce/2^20ns", Layer::process},  // its subsystem, which is self in a trace
  };
  for (const Expected& each : kExpected) {
    EXPECT_EQ(layer_of({.metric = std::string(each.metric),
                        .instance = std::string(each.instance),
                        .subsystem = Subsystem::process}),
              each.layer)
        << each.metric;
  }
  const ListedMetrics listed;
  for (const std::string& metric : listed.patterns()) {
    const bool known = std::any_of(std::begin(kExpected), std::end(kExpected),
                                   [&](const Expected& each) { return each.metric == metric; });
    EXPECT_TRUE(known || !metric.starts_with("stack.")) << metric << " needs a row here, and perhaps in layers.cpp";
  }
}

TEST(LayerMixture, SeesAnEventOfAFewChannelsBesideALargeLayer) {
  Telemetry t = noise(4, 60, 3030);
  raise(t, 4, 1500, 1560, 4);
  const std::vector<double> scores = score(t);
  const double event = highest(scores, 148, 158);
  EXPECT_GT(event, 3);
  EXPECT_GT(event, 1.5 * std::max(highest(scores, 0, 140), highest(scores, 165, scores.size())));
}

TEST(LayerMixture, TakesAStateThatRecursForUsualAndWhatHappensOnceForStrange) {
  Telemetry t = noise(8, 8, 6030);
  for (std::size_t begin = 300; begin < 5900; begin += 800) raise(t, 6, begin, begin + 160, 6);  // validation
  raise(t, 6, 3300, 3400, -6);
  const std::vector<double> scores = score(t);
  const double event = highest(scores, 331, 339);
  EXPECT_GT(event, 3);
  for (std::size_t begin = 300; begin < 5900; begin += 800) {
    for (std::size_t w = begin / 10 + 2; w < begin / 10 + 12; ++w) EXPECT_LT(scores[w], 0.6 * event) << w;
  }
}

TEST(LayerMixture, IsSilentAboutWhatWasNotMeasured) {
  Telemetry t = noise(4, 8, 1030);
  const std::vector<double> before = score(t);
  for (std::size_t c = 0; c < 4; ++c) {
    std::fill(t.series(c).begin(), t.series(c).end(), std::numeric_limits<double>::quiet_NaN());
  }
  const std::vector<double> without = score(t);
  for (const double v : without) EXPECT_TRUE(std::isfinite(v));
  EXPECT_NE(without, before);
  for (std::size_t c = 4; c < 12; ++c) std::fill(t.series(c).begin(), t.series(c).end(), 1.0);
  EXPECT_EQ(score(t), std::vector<double>(before.size())) << "neither measured nor moving: nothing to say";

  Telemetry gap = noise(4, 8, 1030);
  for (std::size_t c = 0; c < 4; ++c) {
    std::fill_n(gap.series(c).begin() + 400, 100, std::numeric_limits<double>::quiet_NaN());
  }
  const std::vector<double> across = score(gap);
  for (std::size_t w = 37; w < 51; ++w) EXPECT_LT(across[w], 3) << "a gap is no event: " << w;
}

}  // namespace
}  // namespace reveal::tests::layer_mixture_test
