// Collectives of ranks that wait for each other in each of them: made up here, so that it is known which rank entered
// which of them how much later.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "hdf5schema/basics/clocks.h"
#include "postproc/analysis/node_summary.h"
#include "postproc/diagnose/causal_links.h"
#include "postproc/peers/job_rule.h"
#include "rules_tried.h"

namespace reveal::tests::late_rank_test {
namespace {

constexpr std::string_view kRule = "stack.late_rank";
constexpr std::int64_t kUtc = 1'700'000'000 * kSecond;
constexpr double kUsual = 0.02;  // s that the ranks compute between two calls
constexpr double kLate = 0.012;
constexpr std::int64_t kId = 7994;

/// A job whose ranks compute and then meet in a collective, again and again. The collector keeps the first three calls
/// of each half second, as it does.
class Solver {
 public:
  using OfRank = std::function<double(std::size_t rank, int call)>;

  int calls = 6000;
  std::size_t nodes = 2, ranks_of_node = 2;
  OfRank computes = [](std::size_t, int) { return kUsual; };
  OfRank longer = [](std::size_t, int) { return 0.0; };
  std::function<double(std::size_t)> clock = [](std::size_t) { return 0.0; };  // error of a node's
  std::function<int(std::size_t)> unseen = [](std::size_t) { return 0; };      // first calls that were not seen
  std::int64_t id = kId, ranks = 4;
  std::string function = "MPI_Allreduce";
  bool waits = true;     // for each other, in each call
  double jitter = 0.02;  // share of the time in which the ranks compute

  [[nodiscard]] std::vector<NodeTrace> record() const {
    std::mt19937 random(5);
    std::normal_distribution<double> normal(0, 1);
    const std::size_t all = nodes * ranks_of_node;
    std::vector<std::vector<double>> entered(all);  // [rank][call]
    std::vector<double> ready(all, 2);
    for (int call = 1; call <= calls; ++call) {
      double last = 0;
      for (std::size_t rank = 0; rank < all; ++rank) {
        const double takes = computes(rank, call) * std::max(0.5, 1 + jitter * normal(random)) + longer(rank, call);
        entered[rank].push_back(ready[rank] + takes);
        last = std::max(last, entered[rank].back());
      }
      for (std::size_t rank = 0; rank < all; ++rank) ready[rank] = waits ? last : entered[rank].back();
    }
    std::vector<NodeTrace> traces(nodes);
    for (std::size_t rank = 0; rank < all; ++rank) add_rank(rank, entered[rank], traces[rank / ranks_of_node]);
    for (std::size_t node = 0; node < nodes; ++node) {
      traces[node].telemetry.node = "n" + std::to_string(node + 1);
      traces[node].utc_minus_monotonic_ns = kUtc + std::llround(clock(node) * 1e9);
    }
    return traces;
  }

 private:
  void add_rank(std::size_t rank, const std::vector<double>& entered, NodeTrace& trace) const {
    const std::string name = "rank" + std::to_string(rank);
    double next_period = 0;
    int left = 0;
    for (int call = unseen(rank) + 1; call <= calls; ++call) {
      const double at = entered[static_cast<std::size_t>(call) - 1];
      if (at >= next_period) {
        next_period = (std::floor(at * 2) + 1) / 2;
        left = 3;
      }
      const bool kept = left > 0 || call == calls;
      if (!kept) continue;
      --left;
      trace.collectives.push_back({.rank = name,
                                   .function = function,
                                   .communicator = 0,
                                   .ranks = ranks,
                                   .id = id,
                                   .number = call - (id > 0 ? 0 : unseen(rank)),
                                   .begin_ns = std::llround(at * 1e9),
                                   .last = call == calls ? 1 : 0});
    }
  }
};

std::vector<Finding> found_in(const std::vector<NodeTrace>& traces, double clock_error = 0,
                              const AnalysisSettings& settings = {}, JobOutcome end = JobOutcome::not_known) {
  constexpr std::string_view kRules[] = {kRule};
  std::deque<CollectiveHistory> histories;
  std::vector<NodeRanks> ranks;
  for (const NodeTrace& trace : traces) {
    histories.push_back(collective_history_of(trace));
    ranks.push_back(
        {.node = trace.telemetry.node, .clock_error_seconds = clock_error, .collectives = histories.back()});
  }
  const TimeSpan job{kUtc, kUtc + 160 * kSecond};
  return tried(kRules,
               run_job_rules({.comparison = {}, .nodes = {}, .job = job, .ranks = ranks, .end = end}, settings));
}

std::vector<Finding> found_in(const Solver& job) {
  return found_in(job.record());
}

bool is_late_call(int call) {
  return call >= 2000 && call < 4000;
}

Solver with_a_late_rank(std::size_t late) {
  Solver job;
  job.longer = [late](std::size_t rank, int call) { return rank == late && is_late_call(call) ? kLate : 0; };
  return job;
}

Solver with_a_rank_that_is_always_late(double by = kLate) {
  Solver job;
  job.longer = [by](std::size_t rank, int) { return rank == 3 ? by : 0; };
  return job;
}

TEST(RuleLateRank, NamesTheRankForWhichTheOthersWaitForAWhile) {
  const auto found = found_in(with_a_late_rank(3));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].nodes, std::vector<std::string>{"n2"});
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank3"});
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 2000 * kLate, 3);
  EXPECT_FALSE(found[0].impact.at_most);
  const double begin = 2 + 2000 * kUsual;
  EXPECT_NEAR(static_cast<double>(found[0].intervals.at(0).begin_utc_ns - kUtc) * 1e-9, begin, 4);
  EXPECT_NEAR(static_cast<double>(found[0].intervals.at(0).end_utc_ns - kUtc) * 1e-9, begin + 2000 * (kUsual + kLate),
              4);
  EXPECT_TRUE(found[0].sentence.starts_with("rank3 on n2 entered MPI_Allreduce 1")) << found[0].sentence;
  EXPECT_NE(found[0].sentence.find(" ms later than the middle rank in "), std::string::npos) << found[0].sentence;
  EXPECT_NE(found[0].sentence.find(" UTC (usually "), std::string::npos) << found[0].sentence;
  ASSERT_FALSE(found[0].remedy.advice.empty());
  EXPECT_TRUE(found[0].remedy.advice[0].starts_with("Compare the work of rank3 on n2 with "))
      << found[0].remedy.advice[0];
  ASSERT_FALSE(found[0].remedy.user.empty());
  EXPECT_TRUE(found[0].remedy.user[0].ends_with("other processes on the cpus (column psr) of rank3"))
      << found[0].remedy.user[0];
  ASSERT_FALSE(found[0].remedy.admin.empty());
  EXPECT_TRUE(found[0].remedy.admin[0].starts_with("journalctl -S @17000000")) << found[0].remedy.admin[0];
  ASSERT_EQ(found[0].evidence.size(), 1U);
  EXPECT_NEAR(found[0].evidence[0].observed.value_or(0), kLate * 1e9, 1e6);
  EXPECT_NEAR(found[0].evidence[0].expected.value_or(1e9), 0, 1e6);
}

TEST(RuleLateRank, NamesItAmongTwoRanks) {
  Solver two = with_a_late_rank(0);
  two.ranks_of_node = 1;
  two.ranks = 2;
  const auto found = found_in(two);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank0"});
  EXPECT_NE(found[0].sentence.find(" later than the other rank in "), std::string::npos) << found[0].sentence;
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 2000 * kLate, 3);
}

TEST(RuleLateRank, NamesAllRanksOfALateNode) {
  Solver job = with_a_late_rank(0);
  job.longer = [](std::size_t rank, int call) { return rank < 2 && is_late_call(call) ? kLate : 0; };
  const auto found = found_in(job);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].nodes, std::vector<std::string>{"n1"});
  EXPECT_EQ(found[0].instances, (std::vector<std::string>{"rank0", "rank1"}));
}

TEST(RuleLateRank, NamesARankThatIsLateFromTheFirstCallToTheLastIfItCosts) {
  const auto found = found_in(with_a_rank_that_is_always_late());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank3"});
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 6000 * kLate, 3);
  EXPECT_NE(found[0].sentence.find(" recorded calls, from the first to the last. The others waited for it."),
            std::string::npos)
      << found[0].sentence;
  EXPECT_TRUE(found_in(with_a_rank_that_is_always_late(0.0015)).empty()) << "7 % of the time between two calls";
  AnalysisSettings dearer;
  dearer.rules.push_back({.rule = std::string(kRule), .thresholds = {{"min_cost", 80}}});
  EXPECT_TRUE(found_in(with_a_rank_that_is_always_late().record(), 0, dearer).empty());
}

TEST(RuleLateRank, KnowsWhatALateCallAmongShortOnesCosts) {
  // Ten calls come together: the first one of them is looked at more often than it is made.
  Solver job = with_a_late_rank(3);
  job.calls = 30'000;
  const auto is_first = [](int call) { return call % 10 == 0; };
  job.computes = [=](std::size_t, int call) { return is_first(call) ? kUsual : 0.0002; };
  job.longer = [=](std::size_t rank, int call) {
    return rank == 3 && is_first(call) && call >= 10'000 && call < 20'000 ? kLate : 0;
  };
  const auto found = found_in(job);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank3"});
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 1000 * kLate, 2);
  EXPECT_TRUE(found[0].sentence.starts_with("rank3 on n2 entered MPI_Allreduce 1")) << found[0].sentence;
}

TEST(RuleLateRank, StatesNothingWithinThreeErrorsOfTheClocks) {
  Solver off;
  off.clock = [](std::size_t node) { return node == 1 ? 0.005 : 0; };
  EXPECT_TRUE(found_in(off.record(), 0.001).empty()) << "two errors of a millisecond each, three times";
  const auto known = found_in(off.record(), 0.0001);
  ASSERT_EQ(known.size(), 1U) << "then it is the ranks that are late";
  EXPECT_EQ(known[0].instances, (std::vector<std::string>{"rank2", "rank3"}));
  EXPECT_TRUE(found_in(with_a_late_rank(3).record(), std::numeric_limits<double>::infinity()).empty());
  std::vector<NodeTrace> one_node = with_a_late_rank(3).record();
  for (const SampledCollective& call : one_node[1].collectives) one_node[0].collectives.push_back(call);
  one_node.pop_back();
  EXPECT_EQ(found_in(one_node, std::numeric_limits<double>::infinity()).size(), 1U) << "they have one clock";
}

TEST(RuleLateRank, IsSilentOnHealthyJobs) {
  EXPECT_TRUE(found_in(Solver()).empty()) << "jitter";
  Solver restless;
  restless.jitter = 0.25;
  EXPECT_TRUE(found_in(restless).empty()) << "a lot of it";
  Solver two;
  two.ranks_of_node = 1;
  two.ranks = 2;
  two.jitter = 0.25;
  EXPECT_TRUE(found_in(two).empty()) << "of two ranks";
  Solver pipeline;
  pipeline.longer = [](std::size_t rank, int) { return 0.004 * static_cast<double>(rank); };
  EXPECT_TRUE(found_in(pipeline).empty()) << "each rank is later than the one before";
  Solver start;
  start.longer = [](std::size_t rank, int call) { return rank == 0 && call < 1000 ? kLate : 0; };
  EXPECT_TRUE(found_in(start).empty()) << "a rank that sets up";
  Solver saves;
  saves.longer = [](std::size_t rank, int call) { return rank == 0 && call % 500 == 0 ? 3 : 0; };
  EXPECT_TRUE(found_in(saves).empty()) << "a rank that writes from time to time";
  Solver habit;
  habit.calls = 15'000;
  habit.longer = [](std::size_t rank, int call) { return rank == 0 && call % 3000 > 2200 ? kLate : 0; };
  EXPECT_TRUE(found_in(habit).empty()) << "a part of the program that comes again and again";
  Solver few = with_a_late_rank(0);
  few.longer = [](std::size_t rank, int call) { return rank == 0 && call >= 2000 && call < 2100 ? kLate : 0; };
  EXPECT_TRUE(found_in(few).empty()) << "three seconds";
}

TEST(RuleLateRank, IsSilentWhereNobodyWaits) {
  Solver apart = with_a_rank_that_is_always_late();
  apart.waits = false;
  EXPECT_TRUE(found_in(apart).empty()) << "the others run ahead";
  Solver slack;  // the others have less to do, and rank 3 as much as before
  slack.computes = [](std::size_t rank, int call) { return rank != 3 && is_late_call(call) ? kUsual - kLate : kUsual; };
  EXPECT_TRUE(found_in(slack).empty()) << "no call comes later than usual";
}

TEST(RuleLateRank, KnowsWhichCallsEndWhenTheOthersHaveCome) {
  Solver always = with_a_rank_that_is_always_late();
  for (const char* const function : {"ncclAllReduce", "MPI_Iallreduce"}) {
    always.function = function;
    EXPECT_TRUE(found_in(always).empty()) << function;
    Solver for_a_while = with_a_late_rank(3);
    for_a_while.function = function;
    EXPECT_EQ(found_in(for_a_while).size(), 1U) << "the pace of all ranks shows that they wait";
  }
  EXPECT_FALSE(found_in(with_a_rank_that_is_always_late()).at(0).impact.at_most);
  for (const char* const function : {"gloo.allreduce", "MPI_Reduce"}) {
    always.function = function;
    const auto found = found_in(always);
    ASSERT_EQ(found.size(), 1U) << function;
    EXPECT_TRUE(found[0].impact.at_most) << function;
  }
}

TEST(RuleLateRank, TakesNoRankThatIsBehindAnywayForALateOneWhereCallsAreQueued) {
  Solver job;  // all steps take longer for a while, and rank 3 prints something in each
  const auto longer = [](int call) { return is_late_call(call) ? 1.5 : 1.0; };
  job.computes = [longer](std::size_t, int call) { return longer(call) * kUsual; };
  job.longer = [longer](std::size_t rank, int call) { return rank == 3 ? longer(call) * kUsual / 2 : 0; };
  EXPECT_EQ(found_in(job).size(), 1U) << "the others wait longer for it";
  job.function = "ncclAllReduce";
  EXPECT_TRUE(found_in(job).empty()) << "the others may be ahead by what is in their queues";
}

TEST(RuleLateRank, MatchesCallsWithoutAnIdByTheirNumberOrTheirEnd) {
  Solver job = with_a_late_rank(3);
  job.id = 0;
  EXPECT_EQ(found_in(job).size(), 1U) << "gloo: all ranks are known, and all made as many calls";
  job.ranks = 0;
  EXPECT_EQ(found_in(job).size(), 1U) << "MPI";
  job.unseen = [](std::size_t rank) { return rank == 1 ? 7 : 0; };
  EXPECT_TRUE(found_in(job).empty()) << "which calls are the same is not known";
  const auto found = found_in(job.record(), 0, {}, JobOutcome::well);
  ASSERT_EQ(found.size(), 1U) << "all made the same last call";
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank3"});
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 2000 * kLate, 3);
  std::vector<NodeTrace> killed = job.record();
  killed[1].collectives.back().last = 0;
  EXPECT_TRUE(found_in(killed, 0, {}, JobOutcome::well).empty()) << "the collector of a rank did not see its end";
  job.ranks = 5;
  EXPECT_TRUE(found_in(job.record(), 0, {}, JobOutcome::well).empty())
      << "a rank is not known, so that there may be several communicators";
}

TEST(RuleLateRank, LeavesOutAProcessBesideTheJob) {
  Solver job = with_a_late_rank(3);
  job.id = job.ranks = 0;
  std::vector<NodeTrace> traces = job.record();
  traces[0].collectives.push_back({.rank = "slot4", .function = "MPI_Barrier", .number = 1, .begin_ns = 5 * kSecond});
  EXPECT_EQ(found_in(traces).size(), 1U);
}

TEST(RuleLateRank, IsFoldedIntoItsCauseAndIntoSlowSteps) {
  for (const char* const id : {"cpu.cfs_throttled", "stack.slow_steps"}) {
    std::vector<Finding> all = found_in(with_a_late_rank(3));
    ASSERT_EQ(all.size(), 1U);
    Finding cause;
    cause.id = id;
    cause.nodes = {"n2"};
    cause.intervals = {{kUtc + 38 * kSecond, kUtc + 112 * kSecond}};
    all.push_back(cause);
    find_causes(all);
    EXPECT_EQ(all[0].caused_by, id);
  }
}

TEST(RuleLateRank, BelievesNoTableAndNoSummary) {
  std::vector<NodeTrace> traces = with_a_late_rank(3).record();
  constexpr std::int64_t kLarge = INT64_MAX;
  for (const std::int64_t number : {kLarge, -kLarge, std::int64_t{0}, std::int64_t{700}}) {
    for (const std::int64_t time : {kLarge, -kLarge, kMissing, std::int64_t{0}}) {
      traces[0].collectives.push_back({"rank0", "", number, number, number, number, time});
      traces[1].collectives.push_back({"rank" + std::to_string(number), "x", 0, 4, kId, number, time});
    }
  }
  EXPECT_LE(found_in(traces).size(), 1U);
  CollectiveHistory foreign;
  for (const std::int64_t number : {kLarge, -kLarge, std::int64_t{0}, std::int64_t{1}}) {
    for (const char* const points : {"", "1:1", "9223372036854775807:9223372036854775807 1:1", ":", "-5:3 x 1:", "1"}) {
      foreign.trends.push_back({.rank = "r" + std::to_string(foreign.trends.size()),
                                .function = "f",
                                .communicator = number,
                                .ranks = number,
                                .id = number,
                                .last = number,
                                .first = number,
                                .begin_utc_ns = number,
                                .points = points});
    }
  }
  for (const CollectiveTrend& trend : foreign.trends) {
    for (const EnteredCall& call : entered_calls(trend)) EXPECT_LT(call.seconds, 5e9) << trend.points;
  }
  CollectiveTrend far{.rank = "r", .first = 1, .begin_utc_ns = kUtc, .points = "1:1 1:9000000000000000 1:1"};
  EXPECT_EQ(entered_calls(far).size(), 2U);
  const NodeRanks ranks[] = {{.node = "n1", .collectives = foreign}, {.node = "n2", .collectives = foreign}};
  static_cast<void>(run_job_rules({.comparison = {}, .nodes = {}, .job = {}, .ranks = ranks}));
}

TEST(CollectiveHistory, IsSmallAndKeptInTheSummaryOfTheNode) {
  Solver job = with_a_late_rank(0);
  job.calls = 40'000;
  job.ranks_of_node = 16;
  job.nodes = 1;
  NodeSummary summary;
  summary.node = "n1";
  Telemetry telemetry{.node = "n1", .begin_utc_ns = kUtc, .samples = 600, .channels = {}, .values = {}};
  summary.profile = profile_of(telemetry, {});
  const std::vector<NodeTrace> traces = job.record();
  summary.collectives = collective_history_of(traces[0]);
  ASSERT_EQ(summary.collectives.trends.size(), 16U);
  std::size_t bytes = 0;
  for (const CollectiveTrend& trend : summary.collectives.trends) {
    EXPECT_EQ(trend.last, 40'000);
    EXPECT_LE(entered_calls(trend).size(), 128U);
    EXPECT_GE(entered_calls(trend).size(), 60U);
    bytes += trend.points.size();
  }
  EXPECT_LT(bytes, 30'000U);
  EXPECT_EQ(parse_summary(render_summary(summary)).collectives, summary.collectives);
  summary.collectives = {};
  EXPECT_EQ(parse_summary(render_summary(summary)).collectives, CollectiveHistory{});
}

TEST(CollectiveHistory, KeepsWhenEachCallWasEntered) {
  const std::vector<NodeTrace> traces = Solver().record();
  const CollectiveHistory history = collective_history_of(traces[0]);
  ASSERT_EQ(history.trends.size(), 2U);
  const CollectiveTrend& trend = history.trends[1];
  EXPECT_EQ(trend.rank, "rank1");
  EXPECT_EQ(trend.function, "MPI_Allreduce");
  EXPECT_EQ(trend.id, kId);
  EXPECT_EQ(trend.last, 6000);
  const std::vector<EnteredCall> entered = entered_calls(trend);
  ASSERT_GE(entered.size(), 256U);
  std::size_t at = 0;
  for (const EnteredCall& call : entered) {
    while (at < traces[0].collectives.size() &&
           (traces[0].collectives[at].rank != "rank1" || traces[0].collectives[at].number != call.number)) {
      ++at;
    }
    ASSERT_LT(at, traces[0].collectives.size()) << call.number;
    EXPECT_NEAR(call.seconds - 1'700'000'000, static_cast<double>(traces[0].collectives[at].begin_ns) * 1e-9, 3e-6);
  }
}

TEST(CollectiveHistory, BeginsAnewWithAnotherProcess) {
  NodeTrace trace;
  trace.utc_minus_monotonic_ns = kUtc;
  for (const std::int64_t number : {5, 6, 7, 1, 2}) {
    const auto at = static_cast<std::int64_t>(trace.collectives.size()) + 10;
    trace.collectives.push_back(
        {.rank = "rank0", .function = "gloo.allreduce", .number = number, .begin_ns = at * kSecond});
  }
  const CollectiveHistory history = collective_history_of(trace);
  ASSERT_EQ(history.trends.size(), 1U);
  EXPECT_EQ(history.trends[0].first, 1);
  EXPECT_EQ(history.trends[0].last, 2);
  EXPECT_EQ(history.trends[0].points, "1:1000000");
}

}  // namespace
}  // namespace reveal::tests::late_rank_test
