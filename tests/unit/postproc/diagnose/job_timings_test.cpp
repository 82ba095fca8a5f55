// Durations of the job's own as evidence: which one is told, and when none is.
#include "postproc/diagnose/job_timings.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "hdf5schema/basics/not_measured.h"

namespace reveal::tests::job_timings_test {
namespace {

constexpr TimeSpan kSpan{5'000'000'000, 7'000'000'000};

/// A hundred durations, the ones from 40 to 59 of another length.
JobTiming durations(const char* instance, double usual_ns, double inside_ns) {
  JobTiming timing{.node = "n1",
                   .metric = "stack.step_time",
                   .instance = instance,
                   .feature = "mean",
                   .ns = std::vector<double>(100, usual_ns),
                   .at = {40, 60},
                   .unusual = {},
                   .window = 10};
  for (std::size_t i = timing.at.begin; i < timing.at.end; ++i) timing.ns[i] = inside_ns;
  return timing;
}

TEST(JobTimings, TellTheOneThatGrewMostClearly) {
  const JobTiming timings[] = {durations("rank0", 1e8, 1.2e8), durations("rank1", 1e8, 1.5e8),
                               durations("rank2", 1e8, 1.3e8)};
  const auto grown = grown_timing(timings, kSpan);
  ASSERT_TRUE(grown.has_value());
  EXPECT_EQ(grown->instance, "rank1");
  EXPECT_EQ(grown->node, "n1");
  EXPECT_EQ(grown->metric, "stack.step_time");
  EXPECT_EQ(grown->feature, "mean");
  EXPECT_EQ(grown->unit, "ns");
  EXPECT_DOUBLE_EQ(grown->observed.value_or(0), 1.5e8);
  EXPECT_DOUBLE_EQ(grown->expected.value_or(0), 1e8);
  EXPECT_EQ(grown->span, kSpan);
}

TEST(JobTimings, TellNothingWithoutAClearGrowth) {
  const auto tells = [](const JobTiming& one) { return grown_timing({&one, 1}, kSpan).has_value(); };
  EXPECT_TRUE(tells(durations("rank0", 1e8, 1.2e8)));
  EXPECT_FALSE(tells(durations("rank0", 1e8, 1.05e8))) << "a twentieth";
  EXPECT_FALSE(tells(durations("rank0", 1e8, 0.5e8))) << "shorter";
  EXPECT_FALSE(tells(durations("rank0", 1e8, kNaN))) << "not known in the interval";
  EXPECT_FALSE(tells(durations("rank0", kNaN, 1.2e8))) << "not known outside of it";
  JobTiming whole = durations("rank0", 1e8, 1.2e8);
  whole.at = {0, 100};
  EXPECT_FALSE(tells(whole)) << "there is no usual length";
  JobTiming none = durations("rank0", 1e8, 1.2e8);
  none.at = {50, 50};
  EXPECT_FALSE(tells(none));
  EXPECT_FALSE(grown_timing({}, kSpan).has_value());
  JobTiming elsewhere = durations("rank0", 1e8, 1.2e8);
  for (std::size_t i = 70; i < 90; ++i) elsewhere.ns[i] = 1.2e8;
  EXPECT_FALSE(tells(elsewhere)) << "as long at another time";
  elsewhere.unusual.push_back({70, 90});
  EXPECT_TRUE(tells(elsewhere)) << "which was unusual, too";
  JobTiming half = durations("rank0", 1e8, 1.2e8);
  for (std::size_t i = 40; i < 51; ++i) half.ns[i] = kNaN;
  EXPECT_FALSE(tells(half)) << "known in less than half of it";
}

}  // namespace
}  // namespace reveal::tests::job_timings_test
