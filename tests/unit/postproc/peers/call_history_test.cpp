// The times in which the ranks of a made-up job call nothing.
#include "postproc/peers/call_history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "collective_job.h"
#include "hdf5schema/basics/not_measured.h"
#include "postproc/analysis/node_summary.h"

namespace reveal::tests::call_history_test {
namespace {

TEST(CallHistory, IsKeptInTheSummaryOfTheNode) {
  const NodeTrace trace = job_that_stalls().record()[1];
  NodeSummary summary;
  summary.node = "n2";
  summary.profile = profile_of(trace.telemetry, {});
  summary.calls = call_history_of(trace.telemetry);
  ASSERT_EQ(summary.calls.ranks.size(), 2U);
  const RankCalls& absent = summary.calls.ranks[1];
  EXPECT_EQ(absent.rank, "rank3");
  ASSERT_EQ(absent.quiet.size(), 1U);
  EXPECT_EQ(calls_before(absent.quiet[0]).size(), 32U);
  EXPECT_EQ(absent.quiet[0].last, "gloo.allreduce");
  EXPECT_TRUE(absent.quiet[0].timed);
  EXPECT_EQ(absent.quiet[0].inside, "");
  EXPECT_EQ(summary.calls.ranks[0].quiet.at(0).inside, "c10d.work");
  summary.calls.ranks[0].quiet[0].communicators = {
      LastCollectives{.id = 77, .calls = 310, .newest = {{"gloo.allreduce", 4096}, {"gloo.allreduce", -1}}}};
  const NodeSummary again = parse_summary(render_summary(summary));
  EXPECT_EQ(again.calls.ranks.size(), 2U);
  EXPECT_EQ(again.calls.ranks[1].quiet[0].calls, absent.quiet[0].calls);
  EXPECT_EQ(again.calls.ranks[1].quiet[0].before, absent.quiet[0].before);
  EXPECT_EQ(again.calls.ranks[1].quiet[0].begin_utc_ns, absent.quiet[0].begin_utc_ns);
  EXPECT_EQ(again.calls.ranks[0].quiet[0].communicators, summary.calls.ranks[0].quiet[0].communicators);
}

TEST(CallHistory, TakesALongGapInTheRowsForNoQuietTime) {
  NodeTrace trace = job_that_stalls().record()[1];
  for (std::size_t i = 0; i < trace.telemetry.channels.size(); ++i) {
    if (trace.telemetry.channels[i].metric != "stack.calls") continue;
    const auto series = trace.telemetry.series(i);
    std::fill(series.begin() + 850, series.begin() + 1100, kNaN);
  }
  for (const RankCalls& rank : call_history_of(trace.telemetry).ranks) {
    for (const QuietTime& quiet : rank.quiet) EXPECT_LT(quiet.seconds(), 10);
  }
}

/// A rank that once called a broadcast, and else an allreduce, with so many calls in each tenth of a second.
Telemetry reducing(const std::function<double(double second)>& calls) {
  Telemetry telemetry;
  telemetry.node = "n1";
  telemetry.begin_utc_ns = CollectiveJob::kUtc;
  telemetry.samples = 1500;
  for (const char* function : {"rank0/gloo.broadcast", "rank0/gloo.allreduce"}) {
    telemetry.channels.push_back({.metric = "stack.calls", .instance = function, .kind = Kind::counter});
  }
  for (std::size_t t = 0; t < telemetry.samples; ++t) telemetry.values.push_back(t == 30 ? 1 : 0);
  for (std::size_t t = 0; t < telemetry.samples; ++t) {
    telemetry.values.push_back(calls(static_cast<double>(t) * telemetry.step_seconds));
  }
  return telemetry;
}

// Another function, which is seldom called, is counted meanwhile.
TEST(CallHistory, TakesTheRestOfAFunctionForNoQuietTime) {
  const auto history =
      call_history_of(reducing([](double second) { return second >= 60 && second < 90 ? kNaN : 0.4; }));
  ASSERT_EQ(history.ranks.size(), 1U);
  EXPECT_TRUE(history.ranks[0].quiet.empty());
}

TEST(CallHistory, SeesARankStandStillFromTheEndOfARestOn) {
  const auto history = call_history_of(reducing([](double second) {
    return second < 60 ? 0.4 : second < 90 ? kNaN : 0;
  }));
  ASSERT_EQ(history.ranks.size(), 1U);
  ASSERT_EQ(history.ranks[0].quiet.size(), 1U);
  EXPECT_TRUE(history.ranks[0].quiet[0].to_the_end);
  EXPECT_NEAR(CollectiveJob::second_of(history.ranks[0].quiet[0].begin_utc_ns), 90, 0.2);
}

}  // namespace
}  // namespace reveal::tests::call_history_test
