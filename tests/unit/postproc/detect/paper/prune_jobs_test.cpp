#include "postproc/detect/paper/prune_jobs.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "hdf5schema/trace_writer.h"
#include "tests/unit/hdf5schema/sample_trace.h"

namespace reveal::tests::prune_jobs_test {
namespace {

TEST(PruneJobs, TakesThePiecesOfALongTraceAsNodes) {
  constexpr std::int64_t kTick = 100'000'000;
  constexpr std::int64_t kRows = 400;
  const TemporaryDirectory directory;
  {
    TraceWriter writer(directory.path() / "n01.h5", sample_header());
    const auto family = writer.add_family(gauge_family());
    for (const char* metric : {"mem.free", "mem.cached"}) writer.add_channel(family, {.metric = metric});
    writer.start();
    writer.append_clock({kTick, sample_header().begin_utc_ns, 0});
    std::minstd_rand random(1);
    for (std::int64_t row = 1; row <= kRows; ++row) {
      const auto noise = static_cast<std::int64_t>(random() % 1000);
      // Together, and then in opposite directions.
      writer.append_row(family, row * kTick, std::array{noise, row <= kRows / 2 ? noise : 1000 - noise});
      if (row % 100 == 0) wait_until_flushed(writer, row * kTick);
    }
    writer.close();
  }
  PruneOptions options{.directories = {directory.path()}, .out = directory.path() / "kept"};
  EXPECT_EQ(prune_jobs(options).channels.retained, 2U) << "the whole does not correlate";
  options.values_at_once = 1;
  EXPECT_EQ(prune_jobs(options).channels.retained, 1U) << "each piece does";
}

}  // namespace
}  // namespace reveal::tests::prune_jobs_test
