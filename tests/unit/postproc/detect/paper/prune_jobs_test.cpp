#include "postproc/detect/paper/prune_jobs.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "hdf5schema/trace_writer.h"
#include "tests/unit/hdf5schema/sample_trace.h"

namespace reveal::tests::prune_jobs_test {
namespace {

constexpr std::int64_t kTick = 100'000'000;
constexpr std::int64_t kRows = 400;

/// Channels whose eighths tell something else than the whole does.
void write_changing_trace(const std::filesystem::path& path) {
  TraceWriter writer(path, sample_header());
  const auto family = writer.add_family(gauge_family());
  for (const char* metric : {"x.noise", "x.reversed", "x.drift", "x.noisy_drift", "x.brief", "x.ends", "x.period"})
    writer.add_channel(family, {.metric = metric});
  writer.start();
  writer.append_clock({kTick, sample_header().begin_utc_ns, 0});
  std::minstd_rand random(1);
  const auto noise_below = [&random](std::int64_t most) { return static_cast<std::int64_t>(random()) % most; };
  for (std::int64_t row = 1; row <= kRows; ++row) {
    const std::int64_t noise = noise_below(1000);
    const std::array values = {noise,
                               row <= kRows / 2 ? noise : 1000 - noise,
                               10 * row + noise_below(100),
                               10 * row + noise_below(1000),
                               row > 100 && row <= 150 ? noise : 500,
                               row <= 300 ? noise : kMissing,
                               row % 4};
    ASSERT_TRUE(writer.append_row(family, row * kTick, values));
    if (row % 100 == 0) wait_until_flushed(writer, row * kTick);
  }
  writer.close();
}

TEST(PruneJobs, KeepsTheSameOfATraceInPiecesAsOfTheWhole) {
  const TemporaryDirectory directory;
  write_changing_trace(directory.path() / "n01.h5");
  const auto kept_with = [](const PruneOptions& with) {
    const PruneResult result = prune_jobs(with);
    EXPECT_EQ(result.channels.moved, 6U) << "all but the one that repeats itself";
    EXPECT_EQ(result.channels.retained, 4U) << "the noise and the drift are there twice";
    std::ifstream file(with.out);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  PruneOptions options{.directories = {directory.path()}, .out = directory.path() / "kept"};
  const std::string of_whole = kept_with(options);
  EXPECT_NE(of_whole.find("x.brief\n"), std::string::npos) << of_whole;
  options.values_at_once = 1;
  EXPECT_EQ(kept_with(options), of_whole);
}

}  // namespace
}  // namespace reveal::tests::prune_jobs_test
