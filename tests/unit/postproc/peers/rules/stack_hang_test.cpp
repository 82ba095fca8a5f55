// Ranks that wait for each other in collectives: made up here, so that it is known which of them never came.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <set>
#include <utility>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/not_measured.h"
#include "postproc/analysis/job_report.h"
#include "postproc/diagnose/causal_links.h"
#include "postproc/peers/job_rule.h"
#include "rules_tried.h"

namespace reveal::tests::stack_hang_test {
namespace {

constexpr std::int64_t kUtc = 1'700'000'000 * kSecond;
constexpr double kCpuOfTick = 1e8;  // ns: of a whole cpu, in a step of the grid

/// From `from` on the absent ranks call nothing; the others make one collective more, and wait in it.
struct Pause {
  double from = 0, to = 0;
  std::set<std::size_t> absent = {};
  double cpus = 0.01;              // that an absent rank uses
  double written = 0;              // bytes a second
  double launches = 0;             // kernels a second
  bool everybody = true;           // the others do wait
  std::string calls_another = {};  // the absent ranks enter this one
};

/// Ranks that reduce something four times a second.
class Job {
 public:
  double seconds = 150;
  std::size_t nodes = 2, ranks_of_node = 2;
  std::vector<Pause> pauses;
  double pace = 0.25;
  bool timed = true;
  std::function<double(std::size_t)> later = [](std::size_t) { return 0.0; };  // it enters each collective
  std::function<int(std::size_t)> unseen = [](std::size_t) { return 0; };      // first calls that were not counted
  std::function<double(std::size_t)> ended = [](std::size_t) { return 1e9; };  // its process, at this time
  std::string inside = "c10d.work";
  double cpus_inside = 0.02;
  bool trains = true;
  double beside = 0;  // cpus that other processes of the job use

  [[nodiscard]] std::vector<NodeTrace> record() const {
    std::vector<NodeTrace> traces(nodes);
    for (std::size_t node = 0; node < nodes; ++node) {
      Telemetry& telemetry = traces[node].telemetry;
      telemetry.node = "n" + std::to_string(node + 1);
      telemetry.begin_utc_ns = kUtc;
      telemetry.samples = static_cast<std::size_t>(seconds * 10);
      traces[node].utc_minus_monotonic_ns = kUtc;
      std::vector<double> job(telemetry.samples, beside * kCpuOfTick);
      for (std::size_t i = 0; i < ranks_of_node; ++i) add_rank(node * ranks_of_node + i, telemetry, job);
      add({.metric = "job.cpu_time", .kind = Kind::counter}, job, telemetry);
    }
    return traces;
  }

 private:
  struct Course {
    std::vector<double> reduced, others, launched;      // when
    std::vector<std::pair<double, double>> inside;      // from, to
    std::vector<std::pair<double, const Pause*>> away;  // since when
  };

  [[nodiscard]] Course course_of(std::size_t rank) const {
    Course course;
    std::size_t next = 0;
    for (double t = 3.02; t < seconds;) {
      if (next == pauses.size() || t < pauses[next].from) {
        course.reduced.push_back(t + later(rank));
        t += pace;
        continue;
      }
      const Pause& pause = pauses[next++];
      const bool absent = pause.absent.contains(rank);
      if (absent) course.away.emplace_back(t, &pause);
      if (absent && !pause.calls_another.empty()) course.others.push_back(t);
      if (!absent && pause.everybody) course.reduced.push_back(t);
      if (pause.everybody && (!absent || !pause.calls_another.empty())) course.inside.emplace_back(t, pause.to);
      for (double at = t; absent && pause.launches > 0 && at < pause.to; at += 1 / pause.launches)
        course.launched.push_back(at);
      t = pause.to;
      if (absent && pause.everybody && t < seconds) course.reduced.push_back(t);
      t += pace;
    }
    return course;
  }

  /// As a row a second is laid on the grid.
  [[nodiscard]] std::vector<double> rows_of(const std::vector<double>& times, int skipped) const {
    std::vector<double> grid(static_cast<std::size_t>(seconds * 10), 0.0);
    for (std::size_t i = static_cast<std::size_t>(skipped); i < times.size(); ++i) {
      const auto second = static_cast<std::size_t>(times[i]);
      for (std::size_t t = second * 10; t < std::min(grid.size(), second * 10 + 10); ++t) grid[t] += 0.1;
    }
    return grid;
  }

  static void add(Channel channel, const std::vector<double>& values, Telemetry& telemetry) {
    telemetry.channels.push_back(std::move(channel));
    telemetry.values.insert(telemetry.values.end(), values.begin(), values.end());
  }

  void add_rank(std::size_t rank, Telemetry& telemetry, std::vector<double>& job) const {
    const std::string name = "rank" + std::to_string(rank);
    const Course course = course_of(rank);
    const auto counter = [&](const std::string& function, const std::vector<double>& times, int skipped) {
      add({.metric = "stack.calls", .instance = name + '/' + function, .kind = Kind::counter}, rows_of(times, skipped),
          telemetry);
    };
    counter("gloo.allreduce", course.reduced, unseen(rank));
    if (!course.others.empty()) counter("gloo.broadcast", course.others, 0);
    counter(inside, course.reduced, 0);
    counter("cudaLaunchKernel", course.launched, 0);
    if (trains) counter("torch.backward", {1.5, 2.5}, 0);
    std::vector<double> flight(telemetry.samples, 0.0);
    std::vector<double> cpu(telemetry.samples, 0.8 * kCpuOfTick);
    std::vector<double> written(telemetry.samples, 0.0);
    for (const auto& [from, to] : course.inside) {
      for (std::size_t t = 0; t < flight.size(); ++t) {
        const double row = std::floor(static_cast<double>(t) / 10);
        if (row >= from && row < to) flight[t] = (row - from) * 1e9;
        if (row >= from && row < to) cpu[t] = cpus_inside * kCpuOfTick;
      }
    }
    for (const auto& [from, pause] : course.away) {
      for (std::size_t t = 0; t < cpu.size(); ++t) {
        const double row = std::floor(static_cast<double>(t) / 10);
        if (row < from || row >= pause->to) continue;
        cpu[t] = pause->cpus * kCpuOfTick;
        written[t] = pause->written / 10;
      }
    }
    for (std::size_t t = 0; t < cpu.size(); ++t) {
      if (static_cast<double>(t) / 10 >= ended(rank)) cpu[t] = flight[t] = written[t] = kNaN;
      if (!std::isnan(cpu[t])) job[t] += cpu[t];
    }
    if (timed) add({.metric = "stack.in_flight", .instance = name + '/' + inside}, flight, telemetry);
    add({.metric = "process.cpu_time", .instance = name, .kind = Kind::counter}, cpu, telemetry);
    add({.metric = "process.written_by_calls", .instance = name, .kind = Kind::counter}, written, telemetry);
  }
};

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

double second_of(std::int64_t utc_ns) {
  return static_cast<double>(utc_ns - kUtc) * 1e-9;
}

/// Rank 3 goes away at 80 s, and the job is ended at 150 s.
Job that_hangs() {
  Job job;
  job.pauses = {{.from = 80, .to = 1e6, .absent = {3}}};
  return job;
}

/// It comes back at 105 s.
Job that_stalls() {
  Job job;
  job.pauses = {{.from = 80, .to = 105, .absent = {3}}};
  return job;
}

void expect_in(const std::string& part, const std::string& sentence) {
  EXPECT_NE(sentence.find(part), std::string::npos) << sentence;
}

TEST(RuleStackHang, NamesTheRankThatNeverEntered) {
  const auto found = found_in(that_hangs());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].id, "stack.hang");
  EXPECT_EQ(found[0].nodes, std::vector<std::string>{"n2"});
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank3"});
  EXPECT_EQ(found[0].severity, Severity::critical);
  EXPECT_EQ(found[0].confidence, Confidence::likely);
  EXPECT_NEAR(second_of(found[0].intervals.at(0).begin_utc_ns), 81, 1);
  EXPECT_NEAR(second_of(found[0].intervals.at(0).end_utc_ns), 150, 0.2);
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
}

TEST(RuleStackHang, NamesItByItsCallsWhereNoneIsTimed) {
  Job job = that_hangs();
  job.timed = false;
  const auto found = found_in(job);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank3"});
  job.pauses[0].everybody = false;  // all ranks have made the same calls: they may all compute
  EXPECT_TRUE(found_in(job).empty());
}

TEST(RuleStackHang, NamesItWhereRanksWereFoundLateOrAreAlwaysLate) {
  Job job = that_hangs();
  job.unseen = [](std::size_t rank) { return rank == 1 ? 5 : 0; };
  job.later = [](std::size_t rank) { return rank == 2 ? 0.1 : 0; };
  const auto found = found_in(job);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank3"});
}

TEST(RuleStackHang, NamesItByTheCallsUnderWayWhereTheHangComesEarly) {
  Job job = that_hangs();
  job.pauses[0].from = 5;
  const auto found = found_in(job);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank3"});
  EXPECT_EQ(found[0].confidence, Confidence::possible);
}

TEST(RuleStackHang, NamesTheRankWhoseProcessEnded) {
  Job job = that_hangs();
  job.ended = [](std::size_t rank) { return rank == 3 ? 82.0 : 1e9; };
  job.pauses[0].cpus = 0.9;
  const auto found = found_in(job);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank3"});
  expect_in("for rank3 on n2, whose process ended at 22:14:42 UTC.", found[0].sentence);
}

TEST(RuleStackHang, DoesNotNameAProcessWithoutWhichTheOthersWentOn) {
  Job job = that_hangs();
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
  Job job = that_hangs();
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
  Job job = that_hangs();
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
  Job job = that_hangs();
  job.ended = [](std::size_t rank) { return rank < 2 ? 140.0 : 1e9; };
  const auto found = found_in(job);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank3"});
}

TEST(RuleStackHang, TellsOfRanksThatCalledDifferentThings) {
  Job job = that_hangs();
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
  Job job = that_hangs();
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
  Job job = that_hangs();
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
  const auto found = found_in(histories_of(that_hangs().record(), {}, standing));
  ASSERT_EQ(found.size(), 1U);
  expect_in(
      "rank2 on n2 waited in gloo.allreduce (4096 bytes, on communicator 1 of 4 ranks) for rank3 on n2, which did not "
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
  Job job = that_hangs();
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
      "rank2 on n2 waited in ncclAllReduce (4096 bytes, call 310 on communicator 2 of 4 ranks) for rank3 on n2, which "
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
  Job job = that_hangs();
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
      "rank0 on n1, rank1 on n1, rank2 on n2 called ncclAllReduce (4096 bytes, call 309 on communicator 1 of 4 ranks), "
      "and rank3 on n2 called ncclAllReduce (1024 bytes, call 309 on communicator 1 of 4 ranks): each waits for the "
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
  Job job = that_hangs();
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
      "rank2 on n2 called gloo.allreduce (4096 bytes, on communicator 1 of 4 ranks), and rank3 on n2 called "
      "gloo.allreduce (1024 bytes, on communicator 1 of 4 ranks): each waits for the others.",
      sentence_with({1024, 80, 2048, 80}));
  expect_in("all 4 ranks were in gloo.allreduce (4096 bytes, on communicator 1 of 4 ranks), and it did not end.",
            sentence_with({4096, 80, 4096, 80}));
  // Two threads of a rank reduce two parts of the gradients in either order.
  expect_in("all 4 ranks were in gloo.allreduce, and it did not end.", sentence_with({80, 4096, 80, 4096}));
  expect_in("all 4 ranks were in gloo.allreduce, and it did not end.", sentence_with({1024, 4096, 80, 4096}));
  expect_in("all 4 ranks were in gloo.allreduce, and it did not end.", sentence_with({1024, 80}));
  expect_in("rank3 on n2 called gloo.allreduce (1024 bytes, ", sentence_with({1024, 80}, 2));
}

TEST(RuleStackHang, SaysThatARankMayBeMissingOfWhichNothingWasRecorded) {
  Job job = that_hangs();
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
  Job job = that_hangs();
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
  expect_in("all 2 ranks were in gloo.allreduce (4096 bytes, on communicator 2 of 2 ranks), and it did not end.",
            found[0].sentence);
  for (RankCalls& rank : histories[0].ranks) rank.quiet.back().inside.clear();
  EXPECT_TRUE(found_in(histories).empty()) << "they have come back";
}

TEST(RuleStackHang, SaysThatARankOfTheCommunicatorMayBeMissing) {
  Job job = that_hangs();
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
      "all 4 recorded ranks were in gloo.allreduce (4096 bytes, on communicator 1 of 20 ranks), and it did not end; 16 "
      "others of the communicator were not recorded.",
      found[0].sentence);
  found = found_with(4);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].confidence, Confidence::likely);
}

TEST(RuleStackHang, TellsOfACollectiveFromWhichNobodyComesBack) {
  Job job = that_hangs();
  job.pauses[0].absent = {};
  const auto found = found_in(job);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].instances.empty());
  expect_in("all 4 ranks were in gloo.allreduce, and it did not end.", found[0].sentence);
  job.inside = "cudaStreamSynchronize";  // their GPUs may compute
  EXPECT_TRUE(found_in(job).empty());
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
  const auto found = found_in(histories_of(that_hangs().record(), python));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(
      found[0].main_threads,
      (std::vector<std::string>{"the main thread of rank3 on n2 was in load (data.py:8)",
                                "the main thread of rank0 on n1 was in train (train.py:40), in wait (c10d.py:1)"}));
}

TEST(RuleStackHang, IsSilentWhileTheRankThatIsWaitedForMayBeAtWork) {
  Job job = that_hangs();
  job.pauses[0].cpus = 0.9;
  EXPECT_TRUE(found_in(job).empty()) << "it computes: a validation, a compilation";
  job = that_hangs();
  job.pauses[0].written = 50e6;
  EXPECT_TRUE(found_in(job).empty()) << "it writes a checkpoint";
  job = that_hangs();
  job.pauses[0].launches = 5;
  EXPECT_TRUE(found_in(job).empty()) << "its GPU computes";
  job = that_hangs();
  job.beside = 0.7;
  EXPECT_TRUE(found_in(job).empty()) << "it has started a process that computes";
  Job moves = that_hangs();
  moves.pauses[0].absent = {};
  ASSERT_EQ(found_in(moves).size(), 1U);
  moves.cpus_inside = 0.6;
  EXPECT_TRUE(found_in(moves).empty()) << "all ranks are in a collective of much data";
  std::vector<NodeTrace> traces = job.record();
  Telemetry& telemetry = traces[1].telemetry;  // that process is measured by itself, and it runs Python
  telemetry.channels.push_back({.metric = "process.cpu_time", .instance = "slot9", .kind = Kind::counter});
  telemetry.values.insert(telemetry.values.end(), telemetry.samples, 0.7 * kCpuOfTick);
  telemetry.channels.push_back({.metric = "stack.calls", .instance = "slot9/python.gc", .kind = Kind::counter});
  telemetry.values.insert(telemetry.values.end(), telemetry.samples, 0.1);
  EXPECT_TRUE(found_in(histories_of(traces)).empty());
}

TEST(RuleStackHang, IsSilentOnAServiceThatWaitsForRequests) {
  Job job = that_hangs();
  job.trains = false;
  EXPECT_TRUE(found_in(job).empty());
  job.pauses[0].to = 105;
  EXPECT_TRUE(found_in(job).empty());
  job = that_hangs();
  job.trains = false;
  job.ended = [](std::size_t rank) { return rank == 3 ? 82.0 : 1e9; };
  EXPECT_EQ(found_in(job).size(), 1U) << "the process to which they would come has ended";
}

TEST(RuleStackHang, DoesNotTakeTenMinutesForAValidation) {
  Job job = that_hangs();
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
  Job late = that_hangs();
  late.pauses[0].from = 128;
  EXPECT_TRUE(found_in(late).empty()) << "the last seconds of a job";
  Job alone = that_hangs();
  alone.nodes = alone.ranks_of_node = 1;
  EXPECT_TRUE(found_in(alone).empty()) << "a process alone waits for nobody";
}

TEST(RuleStackHang, IsToldWithinFifteenSecondsWhileTheJobGoesOn) {
  Job job = that_hangs();
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
  Job usual = that_hangs();
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
  std::vector<CallHistory> histories = histories_of(that_hangs().record());
  histories[0].ranks.push_back({.rank = "slot4", .calls = 2, .quiet = {}});
  EXPECT_EQ(found_in(histories).size(), 1U);
}

TEST(RuleStackHang, NamesNoRankOfAPipeline) {
  // Its stages make different numbers of collectives: which of them is behind is unknown.
  Job job = that_hangs();
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
  const std::vector<NodeTrace> traces = that_hangs().record();
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
    std::vector<Finding> all = found_in(that_hangs());
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
  const std::vector<CallHistory> good = histories_of(that_hangs().record());
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
  const auto found = found_in(that_stalls());
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
  Job job = that_stalls();
  job.pauses[0].absent = {};
  const auto found = found_in(job);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].instances.empty());
  expect_in("all 4 ranks were in gloo.allreduce", found[0].sentence);
}

TEST(RuleStackStall, IsSilentOnWhatJobsDo) {
  Job job = that_stalls();
  job.pauses[0].cpus = 0.5;
  EXPECT_TRUE(found_in(job).empty()) << "a validation by one rank";
  job = that_stalls();
  job.pauses[0].written = 1e8;
  EXPECT_TRUE(found_in(job).empty()) << "a checkpoint";
  job = that_stalls();
  job.pauses[0].absent = {};
  job.cpus_inside = 0.6;
  EXPECT_TRUE(found_in(job).empty()) << "a collective of much data";
  job = that_stalls();
  job.pauses[0].from = 20;
  job.pauses[0].to = 45;
  EXPECT_TRUE(found_in(job).empty()) << "start-up";
  job = that_stalls();
  job.pauses.push_back({.from = 120, .to = 135, .absent = {3}});
  EXPECT_TRUE(found_in(job).empty()) << "it comes again";
  job = that_stalls();
  job.pauses[0].everybody = false;
  EXPECT_TRUE(found_in(job).empty()) << "ranks that do not wait";
  job = that_stalls();
  job.pauses[0].to = 88;
  EXPECT_TRUE(found_in(job).empty()) << "some seconds";
}

TEST(CallHistory, IsKeptInTheSummaryOfTheNode) {
  const NodeTrace trace = that_stalls().record()[1];
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
  summary.calls.ranks[0].quiet[0].communicators = {collectives(310, {4096, -1}, 77)};
  const NodeSummary again = parse_summary(render_summary(summary));
  EXPECT_EQ(again.calls.ranks.size(), 2U);
  EXPECT_EQ(again.calls.ranks[1].quiet[0].calls, absent.quiet[0].calls);
  EXPECT_EQ(again.calls.ranks[1].quiet[0].before, absent.quiet[0].before);
  EXPECT_EQ(again.calls.ranks[1].quiet[0].begin_utc_ns, absent.quiet[0].begin_utc_ns);
  EXPECT_EQ(again.calls.ranks[0].quiet[0].communicators, summary.calls.ranks[0].quiet[0].communicators);
}

TEST(CallHistory, TakesALongGapInTheRowsForNoQuietTime) {
  NodeTrace trace = that_stalls().record()[1];
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
  telemetry.begin_utc_ns = kUtc;
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
  EXPECT_NEAR(second_of(history.ranks[0].quiet[0].begin_utc_ns), 90, 0.2);
}

}  // namespace
}  // namespace reveal::tests::stack_hang_test
