// Hangs and stalls of a made-up job, and what looks like them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>

#include "collective_job.h"
#include "hdf5schema/basics/clocks.h"
#include "postproc/analysis/job_report.h"
#include "postproc/diagnose/causal_links.h"
#include "postproc/peers/job_rule.h"
#include "rules_tried.h"

namespace reveal::tests::stack_hang_test {
namespace {

using Job = CollectiveJob;
constexpr std::int64_t kUtc = Job::kUtc;

std::vector<CallHistory> histories_of(const std::vector<NodeTrace>& traces, std::span<const PythonSamples> python = {},
                                      std::span<const StandingProcess> standing = {}) {
  std::vector<CallHistory> histories;
  histories.reserve(traces.size());
  for (const NodeTrace& trace : traces)
    histories.push_back(call_history_of(trace.telemetry, python, trace.utc_minus_monotonic_ns, standing));
  return histories;
}

/// The events of four ranks at 84 s, each with one communicator of all of them.
std::vector<StandingProcess> standing_ranks(const std::function<LastCollectives(std::size_t rank)>& last) {
  std::vector<StandingProcess> all;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    all.push_back({"rank" + std::to_string(rank), 84 * kSecond, last(rank)});
    all.back().last.ranks = 4;
    all.back().last.rank = static_cast<std::int64_t>(rank);
    all.back().last.begin_ns = 80 * kSecond;
  }
  return all;
}

/// So many calls, the last ones with these sizes: the newest first.
LastCollectives collectives(std::int64_t calls, const std::vector<std::int64_t>& bytes, std::int64_t id,
                            const std::string& function = "gloo.allreduce") {
  LastCollectives last{.id = id, .calls = calls, .newest = {}};
  for (const std::int64_t each : bytes) last.newest.push_back({function, each});
  return last;
}

std::vector<Finding> found_in(const std::vector<CallHistory>& histories, double seconds = 150,
                              const std::vector<std::string>& nodes_missing = {}) {
  constexpr std::string_view kRules[] = {"stack.hang", "stack.stall"};
  std::deque<std::string> names;
  std::vector<NodeRanks> ranks;
  for (const CallHistory& history : histories) {
    names.push_back("n" + std::to_string(names.size() + 1));
    ranks.push_back({.node = names.back(), .calls = history});
  }
  const TimeSpan job{kUtc, kUtc + std::llround(seconds * 1e9)};
  return tried(
      kRules,
      run_job_rules({.comparison = {}, .nodes = {}, .job = job, .ranks = ranks, .nodes_missing = nodes_missing}));
}

/// What `reveal watch` is told of, when these are the newest rows.
std::vector<Finding> seen_in(const Job& job, std::span<const StandingProcess> standing = {}) {
  constexpr std::string_view kRules[] = {"stack.hang"};
  const std::vector<CallHistory> histories = histories_of(job.record(), {}, standing);
  std::deque<std::string> names;
  std::vector<NodeRanks> ranks;
  for (const CallHistory& history : histories) {
    names.push_back("n" + std::to_string(names.size() + 1));
    ranks.push_back({.node = names.back(), .calls = history});
  }
  const TimeSpan span{kUtc, kUtc + std::llround(job.seconds * 1e9)};
  return tried(kRules, run_job_rule("stack.hang",
                                    {.comparison = {}, .nodes = {}, .job = span, .ranks = ranks, .goes_on = true}, {}));
}

std::vector<Finding> found_in(const Job& job) {
  return found_in(histories_of(job.record()), job.seconds);
}

void expect_in(const std::string& part, const std::string& sentence) {
  EXPECT_NE(sentence.find(part), std::string::npos) << sentence;
}

bool is_advised(const Finding& finding, const std::string& begin) {
  const auto& advice = finding.remedy.advice;
  return std::any_of(advice.begin(), advice.end(), [&](const std::string& line) { return line.starts_with(begin); });
}

TEST(RuleStackHang, NamesTheRankThatNeverEntered) {
  const auto found = found_in(job_that_hangs());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].id, "stack.hang");
  EXPECT_EQ(found[0].nodes, std::vector<std::string>{"n2"});
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank3"});
  EXPECT_EQ(found[0].severity, Severity::critical);
  EXPECT_EQ(found[0].confidence, Confidence::likely);
  EXPECT_NEAR(Job::second_of(found[0].intervals.at(0).begin_utc_ns), 81, 1);
  EXPECT_NEAR(Job::second_of(found[0].intervals.at(0).end_utc_ns), 150, 0.2);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 69, 1);
  expect_in("in the last 69 s that were recorded, from 22:14:41 UTC (81 s into the job) on: ", found[0].sentence);
  expect_in(
      "rank0 on n1, rank1 on n1, rank2 on n2 waited in gloo.allreduce for rank3 on n2, which did not enter "
      "it and used 0.02 cpus meanwhile.",
      found[0].sentence);
  ASSERT_GE(found[0].evidence.size(), 3U);
  EXPECT_EQ(found[0].evidence[0].metric, "stack.calls");
  EXPECT_EQ(found[0].evidence[0].observed.value_or(0) + 1, found[0].evidence[0].expected.value_or(0));
  EXPECT_EQ(found[0].evidence[2].metric, "stack.in_flight");
  EXPECT_NEAR(found[0].evidence[2].observed.value_or(0), 69e9, 1.5e9);
  EXPECT_TRUE(is_advised(found[0], "Look for a branch that only some ranks take"));
  EXPECT_TRUE(is_advised(found[0], "Give the process group a time limit ")) << "it makes backward passes";
}

TEST(RuleStackHang, NamesItByItsCallsWhereNoneIsTimed) {
  Job job = job_that_hangs();
  job.timed = false;
  const auto found = found_in(job);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank3"});
  job.pauses[0].everybody = false;  // all ranks have made the same calls: they may all compute
  EXPECT_TRUE(found_in(job).empty());
}

TEST(RuleStackHang, NamesItWhereRanksWereFoundLateOrAreAlwaysLate) {
  Job job = job_that_hangs();
  job.unseen = [](std::size_t rank) { return rank == 1 ? 5 : 0; };
  job.later = [](std::size_t rank) { return rank == 2 ? 0.1 : 0; };
  const auto found = found_in(job);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank3"});
}

TEST(RuleStackHang, NamesItByTheCallsUnderWayWhereTheHangComesEarly) {
  Job job = job_that_hangs();
  job.pauses[0].from = 5;
  const auto found = found_in(job);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank3"});
  EXPECT_EQ(found[0].confidence, Confidence::possible);
}

TEST(RuleStackHang, NamesTheRankWhoseProcessEnded) {
  Job job = job_that_hangs();
  job.ended = [](std::size_t rank) { return rank == 3 ? 82.0 : 1e9; };
  job.pauses[0].cpus = 0.9;
  const auto found = found_in(job);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank3"});
  expect_in("for rank3 on n2, whose process ended at 22:14:42 UTC.", found[0].sentence);
  EXPECT_TRUE(is_advised(found[0], "Read the end of the output of rank3 on n2: "));
  EXPECT_FALSE(is_advised(found[0], "Look for a branch ")) << "it did not take another one";
}

TEST(RuleStackHang, DoesNotNameAProcessWithoutWhichTheOthersWentOn) {
  Job job = job_that_hangs();
  job.seconds = 900;
  job.pauses[0].from = 800;
  std::vector<CallHistory> histories = histories_of(job.record());
  QuietTime& of_0 = histories[0].ranks[0].quiet.back();
  of_0.process_ended_utc_ns = kUtc + 799 * kSecond;
  auto found = found_in(histories, job.seconds);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, (std::vector<std::string>{"rank0", "rank3"}));
  of_0.process_ended_utc_ns = of_0.begin_utc_ns = kUtc + 100 * kSecond;
  found = found_in(histories, job.seconds);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank3"});
  expect_in("rank1 on n1, rank2 on n2 waited in gloo.allreduce for rank3 on n2,", found[0].sentence);
  histories[0].ranks[1].quiet.back().begin_utc_ns = of_0.begin_utc_ns;
  found = found_in(histories, job.seconds);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, (std::vector<std::string>{"rank0", "rank3"})) << "rank1 has waited since";
}

TEST(RuleStackHang, TellsOfSeveralRanksWhatHoldsForAllOfThem) {
  Job job = job_that_hangs();
  job.pauses[0].absent = {2, 3};
  std::vector<CallHistory> histories = histories_of(job.record());
  const auto sentence = [&] {
    const auto found = found_in(histories);
    EXPECT_EQ(found.size(), 1U);
    return found.empty() ? "" : found[0].sentence;
  };
  QuietTime& of_2 = histories[1].ranks[0].quiet.back();
  QuietTime& of_3 = histories[1].ranks[1].quiet.back();
  of_3.cpus = 0.15;
  of_2.inside = "cudaMalloc";
  expect_in(
      "waited in gloo.allreduce for rank2 on n2, rank3 on n2, which did not enter it and each used at most 0.15 "
      "cpus meanwhile.",
      sentence());
  of_3.inside = "cudaMalloc";
  expect_in("each used at most 0.15 cpus meanwhile (they were in cudaMalloc).", sentence());
  of_3.process_ended_utc_ns = kUtc + 82 * kSecond;
  expect_in(
      "for rank2 on n2, rank3 on n2, of which 1 ended at 22:14:42 UTC and 1 did not enter it and used 0.02 cpus "
      "meanwhile (it was in cudaMalloc).",
      sentence());
  of_2.process_ended_utc_ns = kUtc + 84 * kSecond;
  expect_in("for rank2 on n2, rank3 on n2, whose processes ended, the first at 22:14:42 UTC.", sentence());
}

TEST(RuleStackHang, NamesTheRankThatNeverMadeAnyCollective) {
  Job job;
  job.pauses = {{.from = 0, .to = 1e6, .absent = {3}}};
  std::vector<NodeTrace> traces = job.record();
  const auto names_it = [&] {
    const auto found = found_in(histories_of(traces));
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank3"});
    expect_in("waited in gloo.allreduce for rank3 on n2, which did not enter it", found[0].sentence);
  };
  names_it();
  for (Channel& channel : traces[1].telemetry.channels) {  // nor any other call that is counted
    if (channel.metric.starts_with("stack.") && channel.instance.starts_with("rank3/")) channel.metric = "another";
  }
  names_it();
  for (Channel& channel : traces[1].telemetry.channels) {
    if (channel.instance == "rank3") channel.instance = "slot3";
  }
  const auto calls_once = [&traces](const std::string& function) {
    std::vector<double> once(traces[1].telemetry.samples, 0.0);
    once[5] = 1;
    traces[1].telemetry.channels.push_back(
        {.metric = "stack.calls", .instance = "slot3/" + function, .kind = Kind::counter});
    traces[1].telemetry.values.insert(traces[1].telemetry.values.end(), once.begin(), once.end());
  };
  auto found = found_in(histories_of(traces));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].instances.empty()) << "a process that may be no rank";
  calls_once("python.gc");
  found = found_in(histories_of(traces));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].instances.empty()) << "a service in Python that keeps logs";
  calls_once("torch.mm");
  found = found_in(histories_of(traces));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].instances.empty()) << "a worker of a data loader";
  calls_once("MPI_Init");
  found = found_in(histories_of(traces));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"slot3"});
}

TEST(RuleStackHang, DoesNotTakeTheShellInFrontOfTheRanksForARank) {
  Job job;
  job.pauses = {{.from = 0, .to = 1e6, .absent = {3}}};
  std::vector<NodeTrace> traces = job.record();
  for (NodeTrace& trace : traces) {
    for (Channel& channel :
         trace.telemetry.channels) {  // rank3 is then the main process, and the others make the calls
      if (channel.instance.starts_with("rank") && !channel.instance.starts_with("rank3")) {
        channel.instance.replace(0, 4, "slot");
      }
    }
  }
  for (const Finding& finding : found_in(histories_of(traces))) {
    EXPECT_TRUE(finding.instances.empty()) << finding.sentence;
  }
}

TEST(RuleStackHang, LeavesOutARankWithWhichTheOthersHaveNeverWorked) {
  Job job = job_that_hangs();
  std::vector<NodeTrace> traces = job.record();
  for (Channel& channel : traces[0].telemetry.channels) {
    if (channel.metric.starts_with("stack.") && channel.instance.starts_with("rank0/")) channel.metric = "another";
  }
  const auto found = found_in(histories_of(traces));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank3"});
  expect_in("rank1 on n1, rank2 on n2 waited in gloo.allreduce for rank3 on n2,", found[0].sentence);
}

TEST(RuleStackHang, TakesNoRankForTheCauseThatDiedFirstWhenTheJobWasEnded) {
  Job job = job_that_hangs();
  job.ended = [](std::size_t rank) { return rank < 2 ? 140.0 : 1e9; };
  const auto found = found_in(job);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank3"});
}

TEST(RuleStackHang, TellsOfRanksThatCalledDifferentThings) {
  Job job = job_that_hangs();
  job.pauses[0].calls_another = "gloo.broadcast";
  const auto found = found_in(job);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].nodes, (std::vector<std::string>{"n1", "n2"}));
  expect_in("rank2 on n2 called gloo.allreduce, and rank3 on n2 called gloo.broadcast: each waits for the others.",
            found[0].sentence);
  const auto& lines = found[0].remedy.user;
  EXPECT_TRUE(std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
    return line.starts_with("export TORCH_DISTRIBUTED_DEBUG=DETAIL");
  }));
}

/// The same calls by MPI, which are not timed.
std::vector<NodeTrace> recorded_of_mpi(const Job& job, const std::string& in_each_step = "MPI_Allreduce") {
  std::vector<NodeTrace> traces = job.record();
  for (NodeTrace& trace : traces) {
    for (Channel& channel : trace.telemetry.channels) {
      const std::string rank = channel.instance.substr(0, channel.instance.find('/') + 1);
      if (channel.instance.ends_with("/gloo.allreduce")) channel.instance = rank + in_each_step;
      if (channel.instance.ends_with("/gloo.broadcast")) channel.instance = rank + "MPI_Bcast";
      if (channel.instance.ends_with("/c10d.work")) channel.metric = "another";
    }
  }
  return traces;
}

// A rank that broadcasts on a communicator of its own, before all compute until the time limit comes.
TEST(RuleStackHang, IsSilentWhereRanksMayComputeBehindDifferentCalls) {
  Job job = job_that_hangs();
  job.timed = false;
  job.pauses[0].calls_another = "MPI_Bcast";
  auto found = found_in(histories_of(recorded_of_mpi(job)));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::critical);
  expect_in("rank2 on n2 called MPI_Allreduce, and rank3 on n2 called MPI_Bcast: ", found[0].sentence);
  job.pauses[0].cpus = 0.9;
  EXPECT_TRUE(found_in(histories_of(recorded_of_mpi(job))).empty());
  job.seconds = 800;
  found = found_in(histories_of(recorded_of_mpi(job)), job.seconds);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_EQ(found[0].confidence, Confidence::possible);
}

// A program with a prompt, whose first rank tells the others what to do, until it is cancelled.
TEST(RuleStackHang, IsUnsureWhereRanksMayWaitForTheNextOrder) {
  Job job = job_that_hangs();
  job.timed = job.trains = false;
  job.pauses[0].absent = {0};
  const auto reduces = found_in(histories_of(recorded_of_mpi(job)));
  ASSERT_EQ(reduces.size(), 1U);
  EXPECT_EQ(reduces[0].severity, Severity::critical);
  const auto broadcasts = found_in(histories_of(recorded_of_mpi(job, "MPI_Bcast")));
  ASSERT_EQ(broadcasts.size(), 1U);
  EXPECT_EQ(broadcasts[0].instances, std::vector<std::string>{"rank0"});
  EXPECT_EQ(broadcasts[0].severity, Severity::warning);
  EXPECT_EQ(broadcasts[0].confidence, Confidence::possible);
}

TEST(RuleStackHang, NamesTheCallTheCommunicatorAndItsRanks) {
  const auto standing = standing_ranks([](std::size_t rank) {
    return collectives(rank == 3 ? 309 : 310, {4096, 4096, 4096}, 0);
  });
  const auto found = found_in(histories_of(job_that_hangs().record(), {}, standing));
  ASSERT_EQ(found.size(), 1U);
  expect_in(
      "rank2 on n2 waited in gloo.allreduce (4096 bytes, on communicator 1 with 4 ranks) for rank3 on n2, which did "
      "not "
      "enter it",
      found[0].sentence);
}

TEST(RuleStackHang, NamesTheRankThatIsBehindOnACommunicatorByTheNumberOfItsCalls) {
  const auto standing = standing_ranks([](std::size_t rank) {
    LastCollectives last =
        rank == 3 ? collectives(309, {8, 8}, 77, "ncclAllReduce") : collectives(311, {8, 4096, 8}, 77, "ncclAllReduce");
    last.order = 1;
    return last;
  });
  Job job = job_that_hangs();
  job.timed = false;
  std::vector<NodeTrace> traces = job.record();
  for (std::size_t i = 0; i < traces[1].telemetry.channels.size(); ++i) {  // a pipeline: totals say nothing
    const Channel& channel = traces[1].telemetry.channels[i];
    if (channel.metric != "stack.calls" || channel.instance != "rank3/gloo.allreduce") continue;
    for (double& value : traces[1].telemetry.series(i)) value *= 1.5;
  }
  ASSERT_TRUE(found_in(histories_of(traces)).empty());
  const auto found = found_in(histories_of(traces, {}, standing));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank3"});
  EXPECT_EQ(found[0].confidence, Confidence::likely);
  expect_in(
      "rank2 on n2 waited in ncclAllReduce (4096 bytes, call 310 on communicator 2 with 4 ranks) for rank3 on n2, "
      "which "
      "did not enter it",
      found[0].sentence);
  ASSERT_FALSE(found[0].evidence.empty());
  EXPECT_EQ(found[0].evidence[0].feature, "calls on the communicator until then");
  EXPECT_EQ(found[0].evidence[0].observed.value_or(0), 309);
  EXPECT_EQ(found[0].evidence[0].expected.value_or(0), 311);
  for (const char* const inside : {"ncclRecv", "cudaStreamSynchronize"}) {
    auto histories = histories_of(traces, {}, standing);
    for (QuietTime& quiet : histories[1].ranks[1].quiet) quiet.inside = inside;
    const auto unsure = found_in(histories);
    ASSERT_EQ(unsure.size(), 1U);
    EXPECT_EQ(unsure[0].confidence, Confidence::possible) << "rank3 waits itself in " << inside;
  }
  auto before = standing_ranks([](std::size_t rank) { return collectives(rank == 3 ? 9 : 10, {8}, 77); });
  for (StandingProcess& one : before) one.time_ns = 40 * kSecond;
  EXPECT_TRUE(found_in(histories_of(traces, {}, before)).empty()) << "another time";
}

TEST(RuleStackHang, TellsOfRanksThatCalledWithDifferentSizes) {
  Job job = job_that_hangs();
  job.pauses[0].absent = {};
  job.inside = "cudaStreamSynchronize";  // which has nothing to wait for but the collectives
  const auto found_with = [&](std::int64_t bytes, std::int64_t id) {
    const auto standing = standing_ranks([&](std::size_t rank) {
      return collectives(310, {512, rank == 3 ? bytes : 4096, 512}, id, "ncclAllReduce");
    });
    return found_in(histories_of(job.record(), {}, standing));
  };
  const auto found = found_with(1024, 77);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::critical);
  EXPECT_EQ(found[0].nodes, (std::vector<std::string>{"n1", "n2"}));
  expect_in(
      "rank0 on n1, rank1 on n1, rank2 on n2 called ncclAllReduce (4096 bytes, call 309 on communicator 1 with 4 "
      "ranks), "
      "and rank3 on n2 called ncclAllReduce (1024 bytes, call 309 on communicator 1 with 4 ranks): each waits for the "
      "others.",
      found[0].sentence);
  ASSERT_FALSE(found[0].evidence.empty());
  EXPECT_EQ(found[0].evidence[0].metric, "stack.bytes");
  EXPECT_EQ(found[0].evidence[0].instance, "rank3/ncclAllReduce");
  EXPECT_EQ(found[0].evidence[0].observed.value_or(0), 1024);
  EXPECT_EQ(found[0].evidence[0].expected.value_or(0), 4096);
  EXPECT_TRUE(found_with(4096, 77).empty()) << "their GPUs may compute";
  EXPECT_TRUE(found_with(-1, 77).empty()) << "a size that is not known";
}

TEST(RuleStackHang, TellsSizesApartWhereCallsHaveNoNumbers) {
  Job job = job_that_hangs();
  job.pauses[0].absent = {};
  const auto sentence_with = [&](const std::vector<std::int64_t>& of_3, std::int64_t calls = 310) {
    const auto standing = standing_ranks([&](std::size_t rank) {
      return rank == 3 ? collectives(calls, of_3, 0) : collectives(310, {4096, 80, 4096, 80}, 0);
    });
    const auto found = found_in(histories_of(job.record(), {}, standing));
    EXPECT_EQ(found.size(), 1U);
    return found.empty() ? "" : found[0].sentence;
  };
  expect_in(
      "rank2 on n2 called gloo.allreduce (4096 bytes, on communicator 1 with 4 ranks), and rank3 on n2 called "
      "gloo.allreduce (1024 bytes, on communicator 1 with 4 ranks): each waits for the others.",
      sentence_with({1024, 80, 2048, 80}));
  expect_in("all 4 ranks were in gloo.allreduce (4096 bytes, on communicator 1 with 4 ranks), and it did not end.",
            sentence_with({4096, 80, 4096, 80}));
  // Two threads of a rank reduce two parts of the gradients in either order.
  expect_in("all 4 ranks were in gloo.allreduce, and it did not end.", sentence_with({80, 4096, 80, 4096}));
  expect_in("all 4 ranks were in gloo.allreduce, and it did not end.", sentence_with({1024, 4096, 80, 4096}));
  expect_in("all 4 ranks were in gloo.allreduce, and it did not end.", sentence_with({1024, 80}));
  expect_in("rank3 on n2 called gloo.allreduce (1024 bytes, ", sentence_with({1024, 80}, 2));
}

TEST(RuleStackHang, SaysThatARankMayBeMissingOfWhichNothingWasRecorded) {
  Job job = job_that_hangs();
  job.pauses[0].absent = {};
  std::vector<CallHistory> histories = histories_of(job.record());
  const auto found = found_in(histories, job.seconds, {"n3"});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].confidence, Confidence::possible);
  expect_in("all 4 recorded ranks were in gloo.allreduce, and it did not end; the ranks of n3 were not recorded.",
            found[0].sentence);
  histories.emplace_back();  // a node whose calls were not counted
  const auto uncounted = found_in(histories, job.seconds);
  ASSERT_EQ(uncounted.size(), 1U);
  expect_in("the ranks of n3 were not recorded.", uncounted[0].sentence);
}

TEST(RuleStackHang, NamesNoRankThatIsNoMemberOfTheCommunicator) {
  Job job = job_that_hangs();
  job.pauses[0].absent = {2, 3};
  auto standing = standing_ranks([](std::size_t /*rank*/) { return collectives(310, {4096}, 0); });
  for (std::size_t rank = 0; rank < 2; ++rank) {
    standing[rank].last.order = 1;
    standing[rank].last.ranks = 2;
  }
  std::vector<CallHistory> histories = histories_of(job.record(), {}, standing);
  const auto found = found_in(histories);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].instances.empty());
  EXPECT_EQ(found[0].nodes, std::vector<std::string>{"n1"});
  expect_in("all 2 ranks were in gloo.allreduce (4096 bytes, on communicator 2 with 2 ranks), and it did not end.",
            found[0].sentence);
  for (RankCalls& rank : histories[0].ranks) rank.quiet.back().inside.clear();
  EXPECT_TRUE(found_in(histories).empty()) << "they have come back";
}

TEST(RuleStackHang, SaysThatARankOfTheCommunicatorMayBeMissing) {
  Job job = job_that_hangs();
  job.pauses[0].absent = {};
  const auto found_with = [&job](std::int64_t ranks) {
    auto standing = standing_ranks([](std::size_t /*rank*/) { return collectives(310, {4096}, 0); });
    for (StandingProcess& one : standing) one.last.ranks = ranks;
    return found_in(histories_of(job.record(), {}, standing));
  };
  auto found = found_with(20);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].confidence, Confidence::possible);
  expect_in(
      "all 4 recorded ranks were in gloo.allreduce (4096 bytes, on communicator 1 with 20 ranks), and it did not end; "
      "16 "
      "others of the communicator were not recorded.",
      found[0].sentence);
  found = found_with(4);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].confidence, Confidence::likely);
}

TEST(RuleStackHang, TellsOfACollectiveFromWhichNobodyComesBack) {
  Job job = job_that_hangs();
  job.pauses[0].absent = {};
  const auto found = found_in(job);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].instances.empty());
  expect_in("all 4 ranks were in gloo.allreduce, and it did not end.", found[0].sentence);
  EXPECT_TRUE(is_advised(found[0], "Look at the network and the GPUs of n[1-2] before the program: "));
  EXPECT_FALSE(is_advised(found[0], "Look for a branch ")) << "all ranks took the same one";
  job.inside = "cudaStreamSynchronize";  // their GPUs may compute
  EXPECT_TRUE(found_in(job).empty());
}

TEST(RuleStackHang, NamesTheNodeWhereAProcessIsStoppedInsideACollective) {
  Job job = job_that_hangs();
  job.pauses[0].absent = {};
  job.stopped = [](std::size_t node) { return node == 1 ? 1.0 : 0.0; };
  job.stopped_from = 80;
  const auto found = found_in(job);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].nodes, std::vector<std::string>{"n2"});
  expect_in("it did not end; on n2, a signal or a debugger had stopped a process of the job.", found[0].sentence);
  EXPECT_FALSE(is_advised(found[0], "Look at the network and the GPUs "));
  job.stopped_from = 0;
  const auto all_along = found_in(job);
  ASSERT_EQ(all_along.size(), 1U);
  expect_in("and it did not end.", all_along[0].sentence);
}

TEST(RuleStackHang, TellsWherePythonStood) {
  PythonSamples away{.process = "rank3", .places = {"load (data.py:8)"}, .samples = {}, .unread = {}};
  PythonSamples waits{
      .process = "rank0", .places = {"train (train.py:40), in wait (c10d.py:1)"}, .samples = {}, .unread = {}};
  for (int second = 82; second < 150; ++second) {
    away.samples.push_back({.time_ns = second * kSecond, .place = 0});
    waits.samples.push_back({.time_ns = second * kSecond, .place = 0});
  }
  const PythonSamples python[] = {away, waits};
  const auto found = found_in(histories_of(job_that_hangs().record(), python));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(
      found[0].main_threads,
      (std::vector<std::string>{"the main thread of rank3 on n2 was in load (data.py:8)",
                                "the main thread of rank0 on n1 was in train (train.py:40), in wait (c10d.py:1)"}));
}

TEST(RuleStackHang, IsSilentWhileTheRankThatIsWaitedForMayBeAtWork) {
  Job job = job_that_hangs();
  job.pauses[0].cpus = 0.9;
  EXPECT_TRUE(found_in(job).empty()) << "it computes: a validation, a compilation";
  job = job_that_hangs();
  job.pauses[0].written = 50e6;
  EXPECT_TRUE(found_in(job).empty()) << "it writes a checkpoint";
  job = job_that_hangs();
  job.pauses[0].launches = 5;
  EXPECT_TRUE(found_in(job).empty()) << "its GPU computes";
  job = job_that_hangs();
  job.beside = 0.7;
  EXPECT_TRUE(found_in(job).empty()) << "it has started a process that computes";
  Job moves = job_that_hangs();
  moves.pauses[0].absent = {};
  ASSERT_EQ(found_in(moves).size(), 1U);
  moves.cpus_inside = 0.6;
  EXPECT_TRUE(found_in(moves).empty()) << "all ranks are in a collective of much data";
  std::vector<NodeTrace> traces = job.record();
  Telemetry& telemetry = traces[1].telemetry;  // that process is measured by itself, and it runs Python
  telemetry.channels.push_back({.metric = "process.cpu_time", .instance = "slot9", .kind = Kind::counter});
  telemetry.values.insert(telemetry.values.end(), telemetry.samples, 0.7 * Job::kCpuOfTick);
  telemetry.channels.push_back({.metric = "stack.calls", .instance = "slot9/python.gc", .kind = Kind::counter});
  telemetry.values.insert(telemetry.values.end(), telemetry.samples, 0.1);
  EXPECT_TRUE(found_in(histories_of(traces)).empty());
}

TEST(RuleStackHang, IsSilentOnAServiceThatWaitsForRequests) {
  Job job = job_that_hangs();
  job.trains = false;
  EXPECT_TRUE(found_in(job).empty());
  job.pauses[0].to = 105;
  EXPECT_TRUE(found_in(job).empty());
  job = job_that_hangs();
  job.trains = false;
  job.ended = [](std::size_t rank) { return rank == 3 ? 82.0 : 1e9; };
  EXPECT_EQ(found_in(job).size(), 1U) << "the process to which they would come has ended";
}

TEST(RuleStackHang, DoesNotTakeTenMinutesForAValidation) {
  Job job = job_that_hangs();
  job.seconds = 800;
  job.pauses[0].cpus = 0.9;
  const auto found = found_in(job);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_EQ(found[0].confidence, Confidence::possible);
}

TEST(RuleStackHang, IsSilentWhereRanksAlwaysWaitSoLong) {
  Job job;
  job.seconds = 300;
  job.pauses = {{.from = 40, .to = 80, .absent = {0}},
                {.from = 120, .to = 165, .absent = {0}},
                {.from = 230, .to = 1e6, .absent = {0}}};  // when the time limit comes
  EXPECT_TRUE(found_in(job).empty());
}

TEST(RuleStackHang, IsSilentOnHealthyJobs) {
  EXPECT_TRUE(found_in(Job()).empty());
  Job computes;
  computes.pauses = {{.from = 80, .to = 1e6, .absent = {0, 1, 2, 3}, .cpus = 1, .everybody = false}};
  EXPECT_TRUE(found_in(computes).empty()) << "all ranks compute to the end";
  computes.pauses[0].cpus = 0.01;
  EXPECT_TRUE(found_in(computes).empty()) << "and do not wait in any collective that is known";
  Job late = job_that_hangs();
  late.pauses[0].from = 128;
  EXPECT_TRUE(found_in(late).empty()) << "the last seconds of a job";
  Job alone = job_that_hangs();
  alone.nodes = alone.ranks_of_node = 1;
  EXPECT_TRUE(found_in(alone).empty()) << "a process alone waits for nobody";
}

TEST(RuleStackHang, IsToldWithinFifteenSecondsWhileTheJobGoesOn) {
  Job job = job_that_hangs();
  job.seconds = 91;
  const auto seen = seen_in(job);
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].instances, std::vector<std::string>{"rank3"});
  EXPECT_TRUE(found_in(job).empty()) << "the report's threshold is another";
  const auto standing = standing_ranks([](std::size_t rank) {
    return collectives(310, {rank == 3 ? 1024 : 4096, 80, 80, 80}, 77);
  });
  Job differs = job;
  differs.pauses[0].absent = {};
  const auto differing = seen_in(differs, standing);
  ASSERT_EQ(differing.size(), 1U);
  expect_in("and rank3 on n2 called gloo.allreduce (1024 bytes, call 310 on", differing[0].sentence);
  job.seconds = 88;
  EXPECT_TRUE(seen_in(job).empty()) << "some seconds";
  job.seconds = 91;
  job.pauses[0].absent = {};
  EXPECT_EQ(seen_in(job).size(), 1U) << "all are inside";
}

TEST(RuleStackHang, IsSilentSoEarlyOnHealthyJobs) {
  Job usual = job_that_hangs();
  usual.seconds = 96;
  ASSERT_EQ(seen_in(usual).size(), 1U);
  Job job = usual;
  job.pauses[0].cpus = 0.9;
  EXPECT_TRUE(seen_in(job).empty()) << "it computes: a validation, a compilation";
  job = usual;
  job.pauses[0].written = 50e6;
  EXPECT_TRUE(seen_in(job).empty()) << "it writes a checkpoint";
  job = usual;
  job.pauses[0].launches = 5;
  EXPECT_TRUE(seen_in(job).empty()) << "its GPU computes";
  job = usual;
  job.beside = 0.7;
  EXPECT_TRUE(seen_in(job).empty()) << "it has started a process that computes";
  job = usual;
  job.trains = false;
  EXPECT_TRUE(seen_in(job).empty()) << "a service that waits for requests";
  job = usual;
  job.pauses[0].everybody = false;
  EXPECT_TRUE(seen_in(job).empty()) << "no rank waits";
  job = usual;
  job.pace = 6;
  EXPECT_TRUE(seen_in(job).empty()) << "its steps are long";
  job.seconds = 130;
  EXPECT_EQ(seen_in(job).size(), 1U);
  job = usual;
  job.pauses.insert(job.pauses.begin(), {.from = 60, .to = 65.5, .absent = {3}});
  EXPECT_TRUE(seen_in(job).empty()) << "it has just waited as well, for a while";
  job = usual;
  job.pauses[0].from = 15;
  job.seconds = 31;
  EXPECT_TRUE(seen_in(job).empty()) << "a job that has hardly begun";
}

TEST(RuleStackHang, LeavesOutAProcessThatMadeAFewCollectives) {
  std::vector<CallHistory> histories = histories_of(job_that_hangs().record());
  histories[0].ranks.push_back({.rank = "slot4", .calls = 2, .quiet = {}});
  EXPECT_EQ(found_in(histories).size(), 1U);
}

TEST(RuleStackHang, NamesNoRankOfAPipeline) {
  // Its stages make different numbers of collectives: which of them is behind is unknown.
  Job job = job_that_hangs();
  job.timed = false;
  std::vector<NodeTrace> traces = job.record();
  for (std::size_t i = 0; i < traces[1].telemetry.channels.size(); ++i) {
    const Channel& channel = traces[1].telemetry.channels[i];
    if (channel.metric != "stack.calls" || channel.instance != "rank3/gloo.allreduce") continue;
    for (double& value : traces[1].telemetry.series(i)) value *= 1.5;
  }
  EXPECT_TRUE(found_in(histories_of(traces)).empty());
}

NodeSummary summary_of_node(const NodeTrace& trace, const std::string& state) {
  NodeSummary summary;
  summary.node = trace.telemetry.node;
  summary.seconds = 150;
  summary.calls = call_history_of(trace.telemetry);
  summary.profile = profile_of(trace.telemetry, {});
  summary.part.job.state = state;
  summary.part.job.nodes = {summary.node};
  summary.part.job.begin_utc_ns = kUtc;
  summary.part.job.end_utc_ns = kUtc + 150 * kSecond;
  return parse_summary(render_summary(summary));
}

TEST(RuleStackHang, IsOnlyOfJobsThatDidNotEndWell) {
  const std::vector<NodeTrace> traces = job_that_hangs().record();
  for (const char* state : {"TIMEOUT", "FAILED", "", "COMPLETED"}) {
    const Report report =
        merge_summaries({summary_of_node(traces[0], state), summary_of_node(traces[1], state)}, {}, {});
    const bool ended_well = std::string_view(state) == "COMPLETED";
    EXPECT_EQ(report.findings.size(), ended_well ? 0U : 1U) << state;
    EXPECT_EQ(report.verdict.primary, ended_well ? "" : "stack.hang") << state;
  }
}

TEST(RuleStackHang, IsFoldedIntoItsCauseOnTheNode) {
  for (const char* id : {"job.stopped", "mem.oom_killed"}) {
    std::vector<Finding> all = found_in(job_that_hangs());
    ASSERT_EQ(all.size(), 1U);
    Finding cause;
    cause.id = id;
    cause.nodes = {"n2"};
    cause.severity = Severity::warning;
    const std::int64_t end = std::string_view(id) == "job.stopped" ? 150 : 83;
    cause.intervals = {{kUtc + 80 * kSecond, kUtc + end * kSecond}};
    all.push_back(cause);
    find_causes(all);
    EXPECT_EQ(all[0].caused_by, id);
  }
}

TEST(RuleStackHang, BelievesNoSummary) {
  constexpr std::int64_t kLarge = INT64_MAX;
  const std::vector<CallHistory> good = histories_of(job_that_hangs().record());
  for (const std::int64_t number : {kLarge, -kLarge, std::int64_t{0}, std::int64_t{-1}}) {
    std::vector<CallHistory> histories = good;
    QuietTime& quiet = histories[0].ranks[0].quiet[0];
    quiet.before_utc_s = number;
    static_cast<void>(found_in(histories));
    quiet = good[0].ranks[0].quiet[0];
    quiet.calls = {{"gloo.allreduce", number}, {"ncclAllReduce", number}};
    quiet.before = "7 x -1 99999999999999999999";
    quiet.process_ended_utc_ns = number;
    static_cast<void>(found_in(histories));
    quiet.begin_utc_ns = quiet.end_utc_ns = number;
    EXPECT_TRUE(found_in(histories).empty());
    for (std::int64_t LastCollectives::*const field :
         {&LastCollectives::order, &LastCollectives::ranks, &LastCollectives::rank, &LastCollectives::id,
          &LastCollectives::calls, &LastCollectives::begin_ns}) {
      histories = good;
      LastCollectives last = collectives(5, {number, 8}, 7);
      last.*field = number;
      for (RankCalls& rank : histories[0].ranks) rank.quiet[0].communicators = {last, last};
      static_cast<void>(found_in(histories));
    }
  }
}

TEST(RuleStackStall, NamesTheRankForWhichAllWaited) {
  const auto found = found_in(job_that_stalls());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].id, "stack.stall");
  EXPECT_EQ(found[0].nodes, std::vector<std::string>{"n2"});
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank3"});
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 24, 1.2);
  expect_in("UTC, 81 s into the job, the ranks made no progress for 2", found[0].sentence);
  expect_in("waited in gloo.allreduce for rank3 on n2, which entered it only then and used 0.04 cpus meanwhile.",
            found[0].sentence);
}

TEST(RuleStackStall, TellsThatAllRanksWereInOneCollective) {
  Job job = job_that_stalls();
  job.pauses[0].absent = {};
  const auto found = found_in(job);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].instances.empty());
  expect_in("all 4 ranks were in gloo.allreduce", found[0].sentence);
}

TEST(RuleStackStall, IsSilentOnWhatJobsDo) {
  Job job = job_that_stalls();
  job.pauses[0].cpus = 0.5;
  EXPECT_TRUE(found_in(job).empty()) << "a validation by one rank";
  job = job_that_stalls();
  job.pauses[0].written = 1e8;
  EXPECT_TRUE(found_in(job).empty()) << "a checkpoint";
  job = job_that_stalls();
  job.pauses[0].absent = {};
  job.cpus_inside = 0.6;
  EXPECT_TRUE(found_in(job).empty()) << "a collective of much data";
  job = job_that_stalls();
  job.pauses[0].from = 20;
  job.pauses[0].to = 45;
  EXPECT_TRUE(found_in(job).empty()) << "start-up";
  job = job_that_stalls();
  job.pauses.push_back({.from = 120, .to = 135, .absent = {3}});
  EXPECT_TRUE(found_in(job).empty()) << "it comes again";
  job = job_that_stalls();
  job.pauses[0].everybody = false;
  EXPECT_TRUE(found_in(job).empty()) << "ranks that do not wait";
  job = job_that_stalls();
  job.pauses[0].to = 88;
  EXPECT_TRUE(found_in(job).empty()) << "some seconds";
}

}  // namespace
}  // namespace reveal::tests::stack_hang_test
