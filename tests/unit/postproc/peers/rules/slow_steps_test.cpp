// Training steps of ranks that work in step: made up here, so that it is known which rank was late in which of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <random>
#include <set>

#include "hdf5schema/basics/clocks.h"
#include "postproc/analysis/node_summary.h"
#include "postproc/diagnose/causal_links.h"
#include "postproc/peers/job_rule.h"
#include "postproc/report/verdict.h"
#include "rules_tried.h"

namespace reveal::tests::slow_steps_test {
namespace {

constexpr std::string_view kRule = "stack.slow_steps";
constexpr std::int64_t kUtc = 1'700'000'000 * kSecond;
constexpr double kUsual = 0.1;  // s
constexpr double kExtra = 0.031;

/// A job of ranks that wait for each other in each step.
class Training {
 public:
  using Course = std::function<double(int step)>;
  using OfRank = std::function<double(std::size_t rank, int step)>;

  int steps = 1500;
  std::size_t nodes = 2, ranks_of_node = 2;
  Course took = [](int) { return kUsual; };
  OfRank later = [](std::size_t, int) { return 0.0; };                         // begins the step later than the others
  OfRank cpus = [](std::size_t, int) { return 0.8; };                          // that it uses in the step
  OfRank waits = [](std::size_t, int) { return -1.0; };                        // in the step; < 0: not known
  OfRank collects = [](std::size_t, int) { return -1.0; };                     // likewise
  std::function<int(std::size_t)> unseen = [](std::size_t) { return 0; };      // first steps that were not seen
  std::function<double(std::size_t)> clock = [](std::size_t) { return 0.0; };  // error of a node's
  /// Seconds in each second of another part of the step: metric, and the rest of the instance behind the rank.
  struct Part {
    std::string metric, function;
    OfRank rate;
  };
  std::vector<Part> parts;
  double jitter = 0.03;

  [[nodiscard]] static Course slow_from_400_to_600(double extra = kExtra) {
    return [=](int step) { return kUsual + (step >= 400 && step < 600 ? extra : 0); };
  }

  [[nodiscard]] std::vector<NodeTrace> record() const {
    std::mt19937 random(5);
    std::normal_distribution<double> normal(0, 1);
    std::vector<double> begins{2};
    for (int step = 1; step <= steps; ++step)
      begins.push_back(begins.back() + took(step) * std::max(0.5, 1 + jitter * normal(random)));
    std::vector<NodeTrace> traces(nodes);
    for (std::size_t node = 0; node < nodes; ++node) {
      NodeTrace& trace = traces[node];
      Telemetry& telemetry = trace.telemetry;
      telemetry.node = "n" + std::to_string(node + 1);
      telemetry.begin_utc_ns = kUtc;
      telemetry.samples = static_cast<std::size_t>(begins.back() * 10) + 10;
      trace.utc_minus_monotonic_ns = kUtc + std::llround(clock(node) * 1e9);
      for (std::size_t i = 0; i < ranks_of_node; ++i) add_rank(node * ranks_of_node + i, begins, random, trace);
    }
    return traces;
  }

 private:
  void add_rank(std::size_t rank, const std::vector<double>& begins, std::mt19937& random, NodeTrace& trace) const {
    std::normal_distribution<double> normal(0, 0.001);
    const std::string name = "rank" + std::to_string(rank);
    for (const Part& part : parts) add_part(rank, begins, trace.telemetry, part);
    add_part(rank, begins, trace.telemetry, {"process.cpu_time", "", cpus});
    const auto at = [&](int step) {
      const auto place = static_cast<std::size_t>(step);
      return std::llround((begins[place - 1] + later(rank, step) + normal(random)) * 1e9);
    };
    std::int64_t begin = at(1);
    for (int step = 1; step < steps; ++step) {
      const std::int64_t next = at(step + 1);
      const double waited = waits(rank, step);
      const double collected = collects(rank, step);
      if (step > unseen(rank)) {
        trace.steps.push_back({.rank = name,
                               .number = step - unseen(rank),
                               .begin_ns = begin,
                               .duration_ns = next - begin,
                               .waiting_ns = waited < 0 ? kMissing : std::llround(waited * 1e9),
                               .gc_ns = collected < 0 ? kMissing : std::llround(collected * 1e9)});
      }
      begin = next;
    }
  }
  void add_part(std::size_t rank, const std::vector<double>& begins, Telemetry& telemetry, const Part& part) const {
    telemetry.channels.push_back(
        {.metric = part.metric, .instance = "rank" + std::to_string(rank) + part.function, .kind = Kind::counter});
    std::vector<double> values(telemetry.samples, 0.0);
    for (int step = 1; step < steps; ++step) {
      for (auto t = static_cast<std::size_t>(begins[static_cast<std::size_t>(step) - 1] * 10);
           t <= static_cast<std::size_t>(begins[static_cast<std::size_t>(step)] * 10) && t < values.size(); ++t)
        values[t] = part.rate(rank, step) * 1e8;
    }
    telemetry.values.insert(telemetry.values.end(), values.begin(), values.end());
  }
};

std::vector<Finding> found_in(const std::vector<NodeTrace>& traces, double clock_error = 0,
                              std::span<const PythonSamples> python = {}) {
  constexpr std::string_view kRules[] = {kRule};
  std::deque<StepHistory> histories;
  std::vector<NodeRanks> ranks;
  for (const NodeTrace& trace : traces) {
    histories.push_back(step_history_of(trace, trace.telemetry, EffectiveRule(kRule, {}), python));
    ranks.push_back({.node = trace.telemetry.node, .clock_error_seconds = clock_error, .steps = histories.back()});
  }
  const TimeSpan job{kUtc, kUtc + 160 * kSecond};
  return tried(kRules, run_job_rules({.comparison = {}, .nodes = {}, .job = job, .ranks = ranks}));
}

std::vector<Finding> found_in(const Training& job) {
  return found_in(job.record());
}

bool is_slow(int step) {
  return step >= 400 && step < 600;
}

/// A rank that computes longer before its backward pass: the others sleep until it has come.
Training with_a_late_rank(std::size_t late) {
  Training job;
  job.took = Training::slow_from_400_to_600();
  job.later = [=](std::size_t rank, int step) { return rank == late && is_slow(step) ? kExtra : 0; };
  job.cpus = [=](std::size_t rank, int step) {
    return is_slow(step) && rank != late ? 0.8 * kUsual / (kUsual + kExtra) : 0.8;
  };
  return job;
}

/// All ranks sleep until the network has brought their data.
Training that_waits() {
  Training job;
  job.took = Training::slow_from_400_to_600();
  job.cpus = [](std::size_t, int step) { return is_slow(step) ? 0.8 * kUsual / (kUsual + kExtra) : 0.8; };
  return job;
}

TEST(RuleSlowSteps, NamesTheRankForWhichTheOthersWait) {
  const auto found = found_in(with_a_late_rank(3));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].nodes, std::vector<std::string>{"n2"});
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank3"});
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_EQ(found[0].confidence, Confidence::likely);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 200 * kExtra, 0.5);
  EXPECT_NEAR(static_cast<double>(found[0].intervals.at(0).begin_utc_ns - kUtc) * 1e-9, 2 + 399 * kUsual, 1.5);
  EXPECT_NEAR(static_cast<double>(found[0].intervals.at(0).end_utc_ns - kUtc) * 1e-9, 2 + 399 * kUsual + 200 * 0.131,
              1.5);
  EXPECT_NE(found[0].sentence.find("from step "), std::string::npos) << found[0].sentence;
  EXPECT_NE(found[0].sentence.find(", while rank3 on n2 was late, "), std::string::npos) << found[0].sentence;
  EXPECT_NE(found[0].sentence.find("The other ranks waited for rank3 on n2, which began each backward pass 3"),
            std::string::npos)
      << found[0].sentence;
  ASSERT_FALSE(found[0].evidence.empty());
  EXPECT_EQ(found[0].evidence[0].metric, "stack.step_time");
  EXPECT_NEAR(found[0].evidence[0].observed.value_or(0), (kUsual + kExtra) * 1e9, 3e6);
  EXPECT_NEAR(found[0].evidence[0].expected.value_or(0), kUsual * 1e9, 2e6);
}

/// Whether one of the lines has these words.
bool has(const std::vector<std::string>& lines, std::string_view words) {
  return std::any_of(lines.begin(), lines.end(),
                     [words](const std::string& line) { return line.find(words) != std::string::npos; });
}

TEST(RuleSlowSteps, ShowsTheLateRankFirstAndHowMuchLaterItBegan) {
  const auto found = found_in(with_a_late_rank(3));
  ASSERT_EQ(found.size(), 1U);
  ASSERT_GE(found[0].evidence.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(found[0].evidence[i].node, "n2") << i;
    EXPECT_EQ(found[0].evidence[i].instance, "rank3") << i;
  }
  EXPECT_EQ(found[0].evidence[1].feature, "begin of each step, later than usual");
  EXPECT_NEAR(found[0].evidence[1].observed.value_or(0), kExtra * 1e9, 5e6);
  EXPECT_FALSE(found[0].evidence[1].expected.has_value());
  EXPECT_EQ(found[0].evidence[2].metric, "process.cpu_time");
}

TEST(RuleSlowSteps, AdvisesByThePartThatGrew) {
  const auto computes = found_in(with_a_late_rank(3));
  ASSERT_EQ(computes.size(), 1U);
  EXPECT_NE(computes[0].sentence.find(" more cpu time in each step: it computed longer."), std::string::npos)
      << computes[0].sentence;
  EXPECT_TRUE(has(computes[0].remedy.advice, "Compare the work of rank3 on n2 in these steps"));
  EXPECT_TRUE(has(computes[0].remedy.user, "other processes on the cpus (column psr) of rank3"));
  EXPECT_TRUE(has(computes[0].remedy.admin, "journalctl -S @17000000"));
  Training stopped = with_a_late_rank(3);
  stopped.cpus = [](std::size_t, int step) { return is_slow(step) ? 0.8 * kUsual / (kUsual + kExtra) : 0.8; };
  const auto delayed = found_in(stopped);
  ASSERT_EQ(delayed.size(), 1U);
  EXPECT_NE(delayed[0].sentence.find(" It used hardly more cpu time: it waited for something else."), std::string::npos)
      << delayed[0].sentence;
  EXPECT_TRUE(has(delayed[0].remedy.advice, "Find the cause of the delay of rank3 on n2"));
  Training exchange = that_waits();
  exchange.waits = [](std::size_t, int step) { return is_slow(step) ? 0.04 : 0.01; };
  const auto waited = found_in(exchange);
  ASSERT_EQ(waited.size(), 1U);
  EXPECT_TRUE(has(waited[0].remedy.advice, "Look at the network between n[1-2]"));
  EXPECT_TRUE(has(waited[0].remedy.user, "TcpRetransSegs"));
  EXPECT_FALSE(has(waited[0].remedy.admin, "journalctl"));
  const auto unknown = found_in(that_waits());
  ASSERT_EQ(unknown.size(), 1U);
  EXPECT_TRUE(has(unknown[0].remedy.advice, "did not compute longer"));
  EXPECT_TRUE(has(unknown[0].remedy.user, "grep . /proc/pressure/"));
  EXPECT_FALSE(has(waited[0].remedy.user, "/proc/pressure/"));
}

TEST(RuleSlowSteps, NamesItWhereMostStepsWereSlow) {
  for (const int last : {1200, 1500}) {  // to the end, too
    Training job = with_a_late_rank(2);
    const auto slow = [last](int step) { return step >= 400 && step < last; };
    job.took = [=](int step) { return kUsual + (slow(step) ? kExtra : 0); };
    job.later = [=](std::size_t rank, int step) { return rank == 2 && slow(step) ? kExtra : 0; };
    job.cpus = [=](std::size_t rank, int step) {
      return slow(step) && rank != 2 ? 0.8 * kUsual / (kUsual + kExtra) : 0.8;
    };
    const auto found = found_in(job);
    ASSERT_EQ(found.size(), 1U) << last;
    EXPECT_EQ(found[0].nodes, std::vector<std::string>{"n2"});
    EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank2"});
    EXPECT_NEAR(*found[0].impact.seconds, kExtra * (last - 400), 0.1 * kExtra * (last - 400));
  }
}

TEST(RuleSlowSteps, TellsOfEachLateRankByItself) {
  Training job = with_a_late_rank(2);
  const auto later_one = [](int step) { return step >= 900 && step < 1100; };
  job.took = [=](int step) { return kUsual + (is_slow(step) || later_one(step) ? kExtra : 0); };
  job.later = [=](std::size_t rank, int step) {
    return (rank == 2 && is_slow(step)) || (rank == 0 && later_one(step)) ? kExtra : 0;
  };
  job.cpus = [](std::size_t, int) { return 0.6; };
  const auto found = merge_findings(found_in(job));
  ASSERT_EQ(found.size(), 2U);
  std::set<std::string> ranks;
  for (const Finding& finding : found) ranks.insert(finding.nodes.at(0) + " " + finding.instances.at(0));
  EXPECT_EQ(ranks, (std::set<std::string>{"n1 rank0", "n2 rank2"}));
}

TEST(RuleSlowSteps, NamesItAmongTwoAndWithClocksThatDiffer) {
  Training two = with_a_late_rank(0);
  two.ranks_of_node = 1;
  two.clock = [](std::size_t node) { return node == 1 ? 0.04 : 0; };
  const auto found = found_in(two);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].nodes, std::vector<std::string>{"n1"});
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank0"});
}

TEST(RuleSlowSteps, NamesItWhereTheFirstStepsOfARankWereNotSeen) {
  Training job = with_a_late_rank(1);
  job.unseen = [](std::size_t rank) { return rank == 2 ? 7 : 0; };
  const auto found = found_in(job);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank1"});
  const auto unsure = found_in(job.record(), 1);  // its clock may be off by seven steps as well
  ASSERT_EQ(unsure.size(), 1U);
  EXPECT_TRUE(unsure[0].instances.empty());
  EXPECT_NE(unsure[0].sentence.find("It is not known which rank was late"), std::string::npos) << unsure[0].sentence;
}

TEST(RuleSlowSteps, NamesNoRankWhereAllOfThemWaited) {
  const auto found = found_in(that_waits());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].nodes, (std::vector<std::string>{"n1", "n2"}));
  EXPECT_TRUE(found[0].instances.empty());
  EXPECT_EQ(found[0].confidence, Confidence::possible);
  EXPECT_NE(found[0].sentence.find("No rank was late, and the ranks did not compute longer"), std::string::npos)
      << found[0].sentence;
}

TEST(RuleSlowSteps, TellsHowLongCallsWaited) {
  Training job = that_waits();
  job.waits = [](std::size_t, int step) { return is_slow(step) ? 0.04 : 0.01; };
  const auto found = found_in(job);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("30 ms were spent in calls that wait for other ranks."), std::string::npos)
      << found[0].sentence;
  job.waits = [](std::size_t, int step) { return is_slow(step) ? 0.08 : 0.01; };  // several threads wait
  ASSERT_EQ(found_in(job).size(), 1U);
  EXPECT_EQ(found_in(job)[0].sentence.find("70 ms"), std::string::npos);
}

TEST(RuleSlowSteps, TellsThatTheExchangeOfDataTookLonger) {
  Training job = that_waits();
  const auto part = [](double usual, double inside) {
    return [=](std::size_t, int step) { return is_slow(step) ? inside / (kUsual + kExtra) : usual / kUsual; };
  };
  job.parts = {{"stack.communication", "", part(0.04, 0.07)}};
  const auto found = found_in(job);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("more passed with a collective of gloo under way: the ranks exchanged their data "
                                   "more slowly."),
            std::string::npos)
      << found[0].sentence;
  EXPECT_TRUE(std::any_of(found[0].evidence.begin(), found[0].evidence.end(), [](const Evidence& each) {
    return each.metric == "stack.communication" && std::abs(each.observed.value_or(0) - 70e6) < 3e6 &&
           std::abs(each.expected.value_or(0) - 40e6) < 3e6;
  }));
  job.parts = {{"stack.communication", "", part(0.04, 0.042)}};
  EXPECT_EQ(found_in(job).at(0).sentence.find("collective"), std::string::npos) << "it took as long as usual";
}

TEST(RuleSlowSteps, TellsThatPythonCollectedGarbage) {
  Training job;  // a collection computes
  job.took = Training::slow_from_400_to_600();
  EXPECT_TRUE(found_in(job).empty()) << "more to do";
  job.parts = {{"stack.time", "/python.gc",
                [](std::size_t, int step) { return is_slow(step) ? 0.03 / (kUsual + kExtra) : 0.001 / kUsual; }}};
  const auto found = found_in(job);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("were spent in Python's garbage collector."), std::string::npos)
      << found[0].sentence;
}

TEST(RuleSlowSteps, KnowsTheCollectionsOfTheStepsThemselves) {
  Training job;
  job.took = Training::slow_from_400_to_600();
  // In every second of the slow steps, and what the grid has is not used.
  job.collects = [](std::size_t, int step) { return is_slow(step) && step % 2 == 0 ? 2 * 0.03 : 0; };
  job.parts = {{"stack.time", "/python.gc", [](std::size_t, int) { return 0.0; }}};
  const auto found = found_in(job);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("were spent in Python's garbage collector."), std::string::npos)
      << found[0].sentence;
  EXPECT_TRUE(std::any_of(found[0].evidence.begin(), found[0].evidence.end(), [](const Evidence& each) {
    return each.feature == "garbage collections in each step" && std::abs(each.observed.value_or(0) - 30e6) < 3e6 &&
           std::abs(each.expected.value_or(1e9)) < 1e6;
  }));
  job.collects = [](std::size_t, int) { return 0.0; };
  job.parts = {{"stack.time", "/python.gc",
                [](std::size_t, int step) { return is_slow(step) ? 0.03 / (kUsual + kExtra) : 0.001 / kUsual; }}};
  EXPECT_TRUE(found_in(job).empty()) << "more to do";
}

TEST(RuleSlowSteps, TellsThatTheLateRankCollectedGarbage) {
  Training job = with_a_late_rank(3);
  EXPECT_EQ(found_in(job).at(0).sentence.find("garbage"), std::string::npos);
  job.parts = {{"stack.time", "/python.gc", [](std::size_t rank, int step) {
                  return rank == 3 && is_slow(step) ? kExtra / (kUsual + kExtra) : 0.001 / kUsual;
                }}};
  const auto found = found_in(job);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank3"});
  EXPECT_NE(found[0].sentence.find(" of that in Python's garbage collector."), std::string::npos) << found[0].sentence;
  ASSERT_EQ(found[0].remedy.advice.size(), 1U);
  EXPECT_NE(found[0].remedy.advice[0].find("gc.freeze()"), std::string::npos);
}

std::vector<NodeTrace> with_channel(std::vector<NodeTrace> traces, const std::string& metric,
                                    const std::string& instance) {
  for (NodeTrace& trace : traces) {
    trace.telemetry.channels.push_back({.metric = metric, .instance = instance});
    trace.telemetry.values.insert(trace.telemetry.values.end(), trace.telemetry.samples, 0.0);
  }
  return traces;
}

/// Ten samples of a rank's main thread in each second, from the begin to the end. `waits`: share of them that wait for
/// the loader, usually and in the slow steps.
PythonSamples main_thread(const std::string& rank, double usual, double slow) {
  PythonSamples python{.process = rank,
                       .places = {"train (train.py:40), in select (selectors.py:415)", "train (train.py:44)"},
                       .samples = {},
                       .unread = {}};
  double due = 0;
  for (std::int64_t tick = 20; tick < 1500; ++tick) {
    const double second = static_cast<double>(tick) / 10 - 2;
    due += second > 399 * kUsual && second < 399 * kUsual + 200 * (kUsual + 2 * kUsual) ? slow : usual;
    python.samples.push_back({.time_ns = tick * kSecond / 10, .place = due >= 1 ? 0 : 1});
    due -= due >= 1 ? 1 : 0;
  }
  return python;
}

TEST(RuleSlowSteps, TellsThatTheMainThreadWaitedForItsData) {
  Training job;
  job.took = Training::slow_from_400_to_600(2 * kUsual);
  job.ranks_of_node = job.nodes = 1;
  EXPECT_TRUE(found_in(job).empty()) << "more to do";
  const auto with = [&](const std::vector<NodeTrace>& traces, double usual, double slow) {
    const PythonSamples python[] = {main_thread("rank0", usual, slow)};
    return found_in(traces, 0, python);
  };
  const auto found = with(job.record(), 0.02, 0.66);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("f this time, at least 1"), std::string::npos) << found[0].sentence;
  EXPECT_NE(found[0].sentence.find(" ms were waits of the main thread for its data loader."), std::string::npos)
      << found[0].sentence;
  EXPECT_TRUE(std::any_of(found[0].evidence.begin(), found[0].evidence.end(), [](const Evidence& each) {
    return each.metric == "python.samples" && std::abs(each.observed.value_or(0) - 198e6) < 15e6 &&
           std::abs(each.expected.value_or(0) - 2e6) < 2e6;
  }));
  EXPECT_EQ(with(with_channel(job.record(), "gpu.power", "gpu0"), 0.02, 0.66).size(), 1U) << "it does not compute then";
  EXPECT_TRUE(with(job.record(), 0.3, 0.3).empty()) << "it waits as it always does, and has more to do";
  EXPECT_TRUE(with(job.record(), 0.02, 0.2).empty()) << "a small part of it";
  Training late = with_a_late_rank(3);
  late.took = Training::slow_from_400_to_600(2 * kUsual);
  late.later = [](std::size_t rank, int step) { return rank == 3 && is_slow(step) ? 2 * kUsual : 0; };
  const PythonSamples of_rank[] = {main_thread("rank3", 0, 0.66), main_thread("rank0", 0, 0)};
  const auto named = found_in(late.record(), 0, of_rank);
  ASSERT_EQ(named.size(), 1U);
  EXPECT_EQ(named[0].instances, std::vector<std::string>{"rank3"});
  EXPECT_NE(named[0].sentence.find(" ms later than usual. It waited at least 1"), std::string::npos)
      << named[0].sentence;
  EXPECT_TRUE(has(named[0].remedy.advice, "Give the data loader on n2 more workers"));
  EXPECT_EQ(found_in(late.record(), 0, std::span(of_rank).last(1)).at(0).sentence.find("data loader"),
            std::string::npos);
}

TEST(RuleSlowSteps, TakesLongerWorkOfAGpuForTheJobsOwn) {
  // A stage with longer sequences, in the middle or to the end: the cpus sleep until the GPU is done.
  Training job = that_waits();
  job.waits = [](std::size_t, int step) { return is_slow(step) ? 0.04 : 0.01; };
  EXPECT_EQ(found_in(job).size(), 1U) << "no GPU";
  EXPECT_TRUE(found_in(with_channel(job.record(), "gpu.power", "gpu0")).empty());
  EXPECT_TRUE(found_in(with_channel(job.record(), "stack.calls", "rank0/cudaStreamSynchronize")).empty());
  EXPECT_EQ(found_in(with_channel(job.record(), "stack.calls", "rank0/gloo.allreduce")).size(), 1U);
  job.took = [](int step) { return kUsual + (step >= 1000 ? kExtra : 0); };
  job.cpus = [](std::size_t, int step) { return step >= 1000 ? 0.8 * kUsual / (kUsual + kExtra) : 0.8; };
  EXPECT_TRUE(found_in(with_channel(job.record(), "gpu.power", "gpu0")).empty());
  EXPECT_EQ(found_in(with_channel(with_a_late_rank(3).record(), "gpu.power", "gpu0")).size(), 1U) << "a late rank";
}

TEST(RuleSlowSteps, NamesNoStageOfAPipeline) {
  // A stage begins its passes a part of the step behind the first one: with longer steps, longer.
  for (const std::vector<double>& places :
       {std::vector<double>{0, .2, .4, .6}, std::vector<double>{0, 0, .3, -.3}, std::vector<double>{0, .3, .6, .9}}) {
    Training job;
    job.took = Training::slow_from_400_to_600();
    job.later = [&](std::size_t rank, int step) { return places[rank] * job.took(step); };
    EXPECT_TRUE(found_in(job).empty()) << places[3] << ": more to do";
    job.cpus = that_waits().cpus;
    const auto found = found_in(job);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_TRUE(found[0].instances.empty()) << places[3] << ' ' << found[0].sentence;
  }
  Training late = with_a_late_rank(3);
  late.later = [&](std::size_t rank, int step) {
    return .2 * static_cast<double>(rank) * late.took(step) + (rank == 3 && is_slow(step) ? kExtra : 0);
  };
  const auto found = found_in(late);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank3"}) << "a stage that is late";
}

TEST(RuleSlowSteps, IsSilentWhereTheCpuTimeOfTheIntervalIsNotKnown) {
  std::vector<NodeTrace> traces = that_waits().record();
  for (NodeTrace& trace : traces) trace.telemetry.channels.front().metric = "process.other";
  for (NodeTrace& trace : traces) trace.telemetry.channels.back().metric = "process.other";
  EXPECT_TRUE(found_in(traces).empty());
  traces = that_waits().record();
  for (NodeTrace& trace : traces) {  // as of a day: the interval has no three whole steps of the grid
    Telemetry& telemetry = trace.telemetry;
    constexpr std::size_t kFold = 100;
    std::vector<double> values;
    for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
      for (std::size_t t = 0; t < telemetry.samples / kFold; ++t)
        values.push_back(telemetry.values[i * telemetry.samples + t * kFold] * kFold);
    }
    telemetry.samples /= kFold;
    telemetry.step_seconds *= kFold;
    telemetry.values.assign(values.begin(), values.end());
  }
  EXPECT_TRUE(found_in(traces).empty());
}

TEST(RuleSlowSteps, IsSilentOnOneOfTwoTrainingsBesideEachOther) {
  Training job = that_waits();
  job.nodes = 1;
  EXPECT_EQ(found_in(job).size(), 1U);
  std::vector<NodeTrace> two = job.record();
  Training healthy;
  healthy.nodes = 1;
  std::vector<NodeTrace> other = healthy.record();
  std::erase_if(two[0].steps, [](const TrainingStep& step) { return step.rank == "rank1"; });
  for (const TrainingStep& step : other[0].steps) {
    if (step.rank == "rank1") two[0].steps.push_back(step);
  }
  EXPECT_TRUE(found_in(two).empty());
}

TEST(RuleSlowSteps, LeavesOutAProcessThatMadeAFewPasses) {
  std::vector<NodeTrace> traces = with_a_late_rank(3).record();
  for (std::int64_t number = 1; number <= 2; ++number) {
    traces[0].steps.push_back({.rank = "slot4",
                               .number = number,
                               .begin_ns = number * kSecond,
                               .duration_ns = kSecond,
                               .waiting_ns = kMissing});
  }
  const auto found = found_in(traces);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank3"});
}

TEST(RuleSlowSteps, SaysNothingOfOtherRanksWhereThereIsOne) {
  Training job = that_waits();
  job.nodes = job.ranks_of_node = 1;
  const auto found = found_in(job);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("The process did not compute longer"), std::string::npos) << found[0].sentence;
}

TEST(RuleSlowSteps, TellsOfARankThatRepeatsItsPasses) {
  // The others wait for its repetitions: three passes of it are one of theirs.
  Training job;
  job.nodes = 3;
  job.ranks_of_node = 1;
  job.took = Training::slow_from_400_to_600(0.2);
  job.cpus = [](std::size_t rank, int step) { return rank != 2 && is_slow(step) ? 0.3 : 0.8; };
  std::vector<NodeTrace> traces = job.record();
  std::vector<TrainingStep> repeated;
  for (const TrainingStep& step : traces[2].steps) {
    const int times = is_slow(static_cast<int>(step.number)) ? 3 : 1;
    for (int i = 0; i < times; ++i) {
      TrainingStep part = step;
      part.number = std::ssize(repeated) + 1;
      part.begin_ns += i * step.duration_ns / times;
      part.duration_ns = step.duration_ns / times;
      repeated.push_back(part);
    }
  }
  traces[2].steps = repeated;
  const auto found = found_in(traces);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].nodes, std::vector<std::string>{"n3"});
  EXPECT_NE(found[0].sentence.find("rank2 on n3 made "), std::string::npos) << found[0].sentence;
  EXPECT_NE(found[0].sentence.find(" backward passes for each one of the other ranks'"), std::string::npos)
      << found[0].sentence;
  EXPECT_TRUE(has(found[0].remedy.advice, "Compare the data of rank2 on n3"));
  EXPECT_TRUE(found[0].remedy.admin.empty());
}

TEST(RuleSlowSteps, IsSilentOnHealthyTraining) {
  EXPECT_TRUE(found_in(Training()).empty()) << "jitter";
  Training restless;
  restless.jitter = 0.2;
  EXPECT_TRUE(found_in(restless).empty()) << "a lot of it";
  Training warm_up;
  warm_up.took = [](int step) { return kUsual * (step < 150 ? 2 - step / 150.0 : 1); };
  EXPECT_TRUE(found_in(warm_up).empty()) << "warm-up";
  Training checkpoints;
  checkpoints.took = [](int step) { return step % 100 == 0 ? 3 : kUsual; };
  EXPECT_TRUE(found_in(checkpoints).empty()) << "a checkpoint every hundred steps";
  Training epochs;
  epochs.took = [](int step) { return step % 300 == 0 ? 20 : step % 300 < 3 ? 2 * kUsual : kUsual; };
  EXPECT_TRUE(found_in(epochs).empty()) << "validation, and first batches that are read anew";
  Training habit;
  habit.took = [](int step) { return step % 250 >= 190 ? 1.3 * kUsual : kUsual; };
  EXPECT_TRUE(found_in(habit).empty()) << "a part of each epoch that is longer";
  Training accumulating;
  accumulating.took = [](int step) { return step % 4 == 0 ? 3 * kUsual : kUsual; };
  EXPECT_TRUE(found_in(accumulating).empty()) << "gradients of four passes are exchanged at once";
}

TEST(RuleSlowSteps, TakesMoreToDoInEachStepForTheJobsOwn) {
  Training job;
  job.took = Training::slow_from_400_to_600();  // all ranks use their cpus as before
  EXPECT_TRUE(found_in(job).empty());
}

TEST(RuleSlowSteps, IsSilentOnAFewStepsAndOnOneRankAmongMany) {
  Training few = with_a_late_rank(0);
  few.took = [](int step) { return kUsual + (step >= 400 && step < 415 ? kExtra : 0); };
  EXPECT_TRUE(found_in(few).empty());
  std::vector<NodeTrace> one = Training().record();
  std::vector<NodeTrace> slow = with_a_late_rank(0).record();
  one[0] = slow[0];
  std::erase_if(one[0].steps, [](const TrainingStep& step) { return step.rank != "rank0"; });
  EXPECT_TRUE(found_in(one).empty()) << "ranks that do not wait for each other";
}

TEST(RuleSlowSteps, IsFoldedIntoItsCauseOnTheNode) {
  std::vector<Finding> all = found_in(with_a_late_rank(3));
  ASSERT_EQ(all.size(), 1U);
  Finding cause;
  cause.id = "cpu.cfs_throttled";
  cause.nodes = {"n2"};
  cause.intervals = {{kUtc + 41 * kSecond, kUtc + 69 * kSecond}};
  all.push_back(cause);
  find_causes(all);
  EXPECT_EQ(all[0].caused_by, "cpu.cfs_throttled");
}

TEST(RuleSlowSteps, BelievesNoTable) {
  std::vector<NodeTrace> traces = with_a_late_rank(0).record();
  constexpr std::int64_t kLarge = INT64_MAX;
  for (const std::int64_t number : {kLarge, -kLarge, std::int64_t{0}, std::int64_t{700}}) {
    for (const std::int64_t time : {kLarge, -kLarge, kMissing, std::int64_t{0}}) {
      traces[0].steps.push_back({"rank0", number, time, time, time, time});
      traces[1].steps.push_back({"rank" + std::to_string(number), number, 5 * kSecond, time, time, time});
    }
  }
  const auto found = found_in(traces);
  EXPECT_LE(found.size(), 1U);
  StepTrend course{.rank = "r", .begin_utc_ns = kLarge, .begins = "5 - 99999999999999999999 x -7 1"};
  EXPECT_EQ(begins_of(course).size(), 7U);
  StepHistory foreign{.ranks = {course, {.rank = "s", .point_steps = 3, .begin_utc_ns = 1, .begins = "1 1"}},
                      .slow = {{.rank = "r", .first = -kLarge, .last = kLarge, .seconds = 1}}};
  const NodeRanks ranks[] = {{.node = "n1", .steps = foreign}};
  static_cast<void>(run_job_rules({.comparison = {}, .nodes = {}, .job = {}, .ranks = ranks}));
}

TEST(StepHistory, KeepsWhenPointsOfStepsBegan) {
  const std::vector<NodeTrace> traces = Training().record();
  const StepHistory history = step_history_of(traces[0], traces[0].telemetry, EffectiveRule(kRule, {}));
  ASSERT_EQ(history.ranks.size(), 2U);
  const StepTrend& course = history.ranks[0];
  EXPECT_EQ(course.rank, "rank0");
  EXPECT_EQ(course.steps, 1499);
  EXPECT_EQ(course.point_steps, 2);
  const std::vector<double> begins = begins_of(course);
  ASSERT_EQ(begins.size(), 749U);
  for (std::size_t point = 0; point < begins.size(); ++point) {
    const TrainingStep& first = traces[0].steps[2 * point];
    const TrainingStep& second = traces[0].steps[2 * point + 1];
    const double mean = (static_cast<double>(first.begin_ns) + static_cast<double>(second.begin_ns)) / 2e9;
    EXPECT_NEAR(begins[point] - 1'700'000'000, mean, 3e-6) << point;
  }
}

TEST(StepHistory, IsKeptInTheSummaryOfTheNode) {
  NodeSummary summary;
  summary.node = "n1";
  const std::vector<NodeTrace> traces = with_a_late_rank(0).record();
  summary.profile = profile_of(traces[0].telemetry, {});
  summary.steps = step_history_of(traces[0], traces[0].telemetry, EffectiveRule(kRule, {}));
  ASSERT_EQ(summary.steps.slow.size(), 2U);
  const std::string text = render_summary(summary);
  EXPECT_LT(text.size(), kLargestSummary / 2);
  EXPECT_EQ(parse_summary(text).steps.ranks, summary.steps.ranks);
  EXPECT_EQ(parse_summary(text).steps.slow.size(), 2U);
  summary.steps = {};
  EXPECT_EQ(parse_summary(render_summary(summary)).steps, StepHistory{});
}

}  // namespace
}  // namespace reveal::tests::slow_steps_test
