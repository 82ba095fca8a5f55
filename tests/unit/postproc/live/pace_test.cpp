#include "postproc/live/pace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "postproc/analysis/estimated_iterations.h"

namespace reveal::tests::pace_test {
namespace {

constexpr double kGap = std::numeric_limits<double>::quiet_NaN();

/// Five minutes at 10 Hz.
class Node {
 public:
  Node() { telemetry.samples = 3000; }
  template <typename Course>
  Node& add(const std::string& metric, const std::string& instance, const Course& course) {
    telemetry.channels.push_back({.metric = metric, .instance = instance, .kind = Kind::counter});
    for (std::size_t t = 0; t < telemetry.samples; ++t)
      telemetry.values.push_back(course(0.1 * static_cast<double>(t)));
    return *this;
  }
  Telemetry telemetry;
};

/// Four cpus work for 0.8 s, and then wait for 0.4 s.
double works(double second) {
  return std::fmod(second, 1.2) < 0.8 ? 0.4e9 : 0.02e9;
}

TEST(Pace, IsThatOfTheRankThatMadeTheMostSteps) {
  Node node;
  node.add("stack.steps", "rank0", [](double second) { return second < 250 ? 0.5 : 0.25; });
  node.add("stack.steps", "rank1", [](double second) { return second < 290 ? 0.26 : kGap; });
  node.add("stack.calls", "rank0/cudaMalloc", [](double) { return 7; });
  const auto pace = counted_pace(node.telemetry);
  ASSERT_TRUE(pace);
  EXPECT_FALSE(pace->estimated);
  EXPECT_NEAR(pace->per_second, 2.6, 0.01) << "of the last 20 s";
  Node none;
  none.add("stack.calls", "rank0/cudaMalloc", [](double) { return 7; });
  EXPECT_FALSE(counted_pace(none.telemetry));
}

TEST(Pace, IsEstimatedFromTheRhythmOfTheJob) {
  Node node;
  node.add("job.cpu_time", "", works);
  const auto pace = estimated_pace(node.telemetry, true);
  ASSERT_TRUE(pace);
  EXPECT_TRUE(pace->estimated);
  EXPECT_NEAR(pace->per_second, 1 / 1.2, 0.01);
  Node steady;
  steady.add("job.cpu_time", "", [](double) { return 0.4e9; });
  EXPECT_FALSE(estimated_pace(steady.telemetry, true));
}

TEST(Pace, CountsEstimatedIterationsFromTheFirstOneOn) {
  const auto prepares_for_a_minute = [](double second) { return second < 60 ? 0.3e9 : works(second); };
  Node node;
  node.add("job.cpu_time", "", prepares_for_a_minute);
  const auto pace = estimated_pace(node.telemetry, true);
  ASSERT_TRUE(pace);
  EXPECT_NEAR(pace->done, 240 / 1.2, 4);
  const auto later = estimated_pace(node.telemetry, false);
  ASSERT_TRUE(later);
  EXPECT_TRUE(std::isnan(later->done)) << "the begin of the job is not in the block";
}

TEST(Pace, SaysWhatIsLeftOfTheJob) {
  Pace pace{.per_second = 1.2, .estimated = false, .done = 840, .planned = 3000};
  EXPECT_EQ(words_of_progress(pace), "iteration 840 of 3000, 1.2 /s, about 30 min left");
  pace.estimated = true;
  EXPECT_EQ(words_of_progress(pace), "iteration 840 of 3000 (estimated), 1.2 /s, about 30 min left");
  pace.done = 3001;
  EXPECT_EQ(words_of_progress(pace), "") << "the plan was wrong";
  pace.done = kGap;
  EXPECT_EQ(words_of_progress(pace), "");
  EXPECT_EQ(words_of_progress({.per_second = 1.2, .done = 840}), "") << "no plan";
  EXPECT_EQ(words_of_progress({.per_second = 0, .done = 840, .planned = 3000}), "");
}

TEST(EstimatedIterations, ComeFromTheClearestChannel) {
  Node node;
  node.add("job.cpu_time", "", [](double second) { return works(second) + 2e9 * std::fmod(second * 7.3, 1.0); });
  node.add("net.tx_bytes", "eth0", [](double second) { return std::fmod(second, 1.2) < 0.4 ? 1e9 : 0; });
  node.add("net.tx_bytes", "lo", [](double) { return 1000; });
  const auto found = estimated_iterations(node.telemetry);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->metric, "net.tx_bytes");
  EXPECT_NEAR(found->seconds, 1.2, 0.01);
}

TEST(EstimatedIterations, AreNotEstimatedWhereStepsWereCounted) {
  Node node;
  node.add("job.cpu_time", "", works);
  JobTotals totals;
  put_iterations(node.telemetry, totals);
  EXPECT_NEAR(totals.iteration_seconds.value_or(0), 1.2, 0.01);
  EXPECT_TRUE(
      totals.notes.at("iteration_seconds").starts_with("estimated from the rhythm of job.cpu_time, standard error"))
      << totals.notes.at("iteration_seconds");
  JobTotals counted;
  counted.steps = 100;
  put_iterations(node.telemetry, counted);
  EXPECT_FALSE(counted.iteration_seconds);
  JobTotals none;
  put_iterations(Node().telemetry, none);
  EXPECT_FALSE(none.iteration_seconds);
  EXPECT_EQ(none.notes.at("iteration_seconds"), "no steady rhythm was found in the job's cpu time and network traffic");
}

}  // namespace
}  // namespace reveal::tests::pace_test
