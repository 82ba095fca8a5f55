#include "postproc/analysis/job_phases.h"

#include <gtest/gtest.h>

#include <functional>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/not_measured.h"
#include "postproc/analysis/job_totals.h"

namespace reveal::tests::job_phases_test {
namespace {

using PhaseKind = JobPhase::Kind;
using ByTime = std::function<double(int second)>;

constexpr std::int64_t kBegin = 1'700'000'000 * kSecond;
constexpr double kMega = 1e6;

/// A node in steps of a second.
class Recording {
 public:
  explicit Recording(std::size_t seconds) {
    trace.telemetry = {
        .node = "n01", .step_seconds = 1, .begin_utc_ns = kBegin, .samples = seconds, .channels = {}, .values = {}};
  }
  Recording& cpus(const ByTime& used) {
    return add("job.cpu_time", "", Kind::counter, [&](int second) { return 1e9 * used(second); });
  }
  Recording& reads(const ByTime& bytes) { return add("process.read_bytes", "rank0", Kind::counter, bytes); }
  Recording& writes(const ByTime& bytes) { return add("process.write_bytes", "rank0", Kind::counter, bytes); }
  Recording& sends(const ByTime& bytes) { return add("net.tx_bytes", "eth0", Kind::counter, bytes); }
  Recording& add(const std::string& metric, const std::string& instance, Kind kind, const ByTime& value) {
    trace.telemetry.channels.push_back({.metric = metric, .instance = instance, .kind = kind});
    for (std::size_t t = 0; t < trace.telemetry.samples; ++t) {
      trace.telemetry.values.push_back(value(static_cast<int>(t)));
    }
    return *this;
  }
  [[nodiscard]] NodePhases phases(bool shared = false) const {
    TraceTotals totals;
    totals.add(trace.telemetry);
    const Telemetry& telemetry = trace.telemetry;
    const auto seconds = static_cast<double>(telemetry.samples);
    return node_phases(trace, telemetry, totals, shared,
                       node_totals(trace, telemetry.channels, totals, seconds, shared));
  }

  NodeTrace trace;
};

ByTime always(double value) {
  return [value](int /*second*/) { return value; };
}

/// "20 reading, 60 computing": each with its end in seconds.
std::string words(const NodePhases& phases) {
  std::string text;
  std::int64_t begin = kBegin;
  for (const JobPhase& phase : phases.phases) {
    EXPECT_EQ(phase.span.begin_utc_ns, begin) << "no gap, no overlap";
    begin = phase.span.end_utc_ns;
    if (!text.empty()) text += ", ";
    text += std::to_string((phase.span.end_utc_ns - kBegin) / kSecond) + " " + std::string(name_of(phase.kind));
  }
  return text;
}

/// It reads for 20 s, computes on four cpus, writes a checkpoint of five seconds each minute, and is idle from 380 s
/// on.
Recording job_with_checkpoints() {
  const auto writes = [](int second) { return second >= 60 && second < 380 && second % 60 < 5; };
  Recording node(420);
  node.cpus([=](int second) { return second < 20 ? 0.2 : second >= 380 ? 0.01 : writes(second) ? 0.5 : 4; });
  node.reads([](int second) { return second < 20 ? 50 * kMega : 0; });
  node.writes([=](int second) { return writes(second) ? 400 * kMega : 0; });
  node.sends(always(1000));
  return node;
}

TEST(JobPhases, AreStartComputationCheckpointsAndTheIdleEnd) {
  const NodePhases phases = job_with_checkpoints().phases();
  EXPECT_EQ(words(phases),
            "20 reading, 60 computing, 65 writing, 120 computing, 125 writing, 180 computing, 185 writing, "
            "240 computing, 245 writing, 300 computing, 305 writing, 360 computing, 365 writing, 380 computing, "
            "420 waiting");
  EXPECT_EQ(phases.resolution_seconds, 1);
  EXPECT_EQ(phases.nodes, std::vector<std::string>{"n01"});
  EXPECT_EQ(phases.note, "");
  EXPECT_EQ(phases.first_step_utc_ns, 0);
}

TEST(JobPhases, AreNotInventedWhereTheJobWasNotMeasured) {
  Recording node(100);
  node.add("cpu.user", "cpu0", Kind::counter, always(1e9));
  node.trace.coverage = {{"job", Coverage::State::absent, "no job was named (--job)"}};
  EXPECT_EQ(words(node.phases()), "");
  EXPECT_EQ(node.phases().note, "the job's cpu time was not measured: no job was named (--job)");
}

TEST(JobPhases, KeepGapsAsGaps) {
  Recording node(100);
  node.cpus([](int second) { return second >= 40 && second < 60 ? kNaN : 2; });
  EXPECT_EQ(words(node.phases()), "40 computing, 60 not_measured, 100 computing");
}

TEST(JobPhases, NameTheActivitiesThatWereNotMeasured) {
  Recording node(100);
  node.cpus(always(2));
  node.trace.coverage = {{"process", Coverage::State::failed, "too many files"}};
  EXPECT_EQ(node.phases(true).note,
            "not measured: communicating (other jobs use the node); reading, writing (too many files)");
}

TEST(JobPhases, AreNoneInAFewSeconds) {
  const NodePhases phases = Recording(9).cpus(always(2)).phases();
  EXPECT_EQ(words(phases), "");
  EXPECT_EQ(phases.note, "the recording is shorter than 10 s");
}

TEST(JobPhases, AreOfLongerPartsWhereThereWouldBeMany) {
  Recording node(600);
  const auto writes = [](int second) { return second < 560 && second % 4 == 3; };
  node.cpus([=](int second) { return second >= 560 ? 0 : writes(second) ? 0.5 : 4; });
  node.writes([=](int second) { return writes(second) ? 400 * kMega : 0; });
  const NodePhases phases = node.phases();
  EXPECT_EQ(words(phases), "560 computing, 600 waiting");
  EXPECT_EQ(phases.resolution_seconds, 2);
}

TEST(JobPhases, AreFewHoweverAJobChanges) {
  std::uint64_t state = 42;
  std::vector<double> used(20'000);
  for (double& value : used) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    value = static_cast<double>(state >> 60) / 4;
  }
  Recording node(used.size());
  node.cpus([&used](int second) { return used[static_cast<std::size_t>(second)]; });
  const NodePhases phases = node.phases();
  EXPECT_GE(phases.phases.size(), 1U);
  EXPECT_LE(phases.phases.size(), 24U);
  EXPECT_EQ(phases.phases.back().span.end_utc_ns, kBegin + 20'000 * kSecond);
}

/// The first 50 s are as given, the second ones busy on four cpus.
std::string first_of(double cpus, double read, double sent, bool shared = false, double gpu = 0) {
  const auto first = [](double value, double later) { return [=](int second) { return second < 50 ? value : later; }; };
  Recording node(100);
  node.cpus(first(cpus, 4)).reads(first(read, 0)).writes(always(0)).sends(first(sent, 0));
  node.add("gpu.utilization", "gpu0", Kind::gauge, first(gpu, 0));
  const NodePhases phases = node.phases(shared);
  return phases.phases.empty() ? "" : std::string(name_of(phases.phases.front().kind));
}

TEST(JobPhases, AreToldApartByCpusBytesAndGpus) {
  EXPECT_EQ(first_of(2.1, 0, 0), "computing");
  EXPECT_EQ(first_of(1, 0, 0), "few_cpus");
  EXPECT_EQ(first_of(0.05, 0, 0), "waiting");
  EXPECT_EQ(first_of(0.3, 40 * kMega, 0), "reading");
  EXPECT_EQ(first_of(0.3, 20 * kMega, 0), "few_cpus") << "it computes with what it reads";
  EXPECT_EQ(first_of(0.001, 0.5 * kMega, 0), "waiting") << "next to nothing is read";
  EXPECT_EQ(first_of(0.3, 0, 50 * kMega), "communicating");
  EXPECT_EQ(first_of(0.001, 0, 50 * kMega), "waiting") << "others sent it: the job slept";
  EXPECT_EQ(first_of(0.3, 40 * kMega, 42 * kMega), "reading") << "from a file server";
  EXPECT_EQ(first_of(0.3, 40 * kMega, 90 * kMega), "communicating");
  EXPECT_EQ(first_of(0.3, 0, 50 * kMega, true), "few_cpus") << "another job may have sent it";
  EXPECT_EQ(first_of(0.05, 0, 50 * kMega, false, 80), "computing") << "on the GPU";
}

TEST(JobPhases, CountWhatAnRdmaPortMoves) {
  Recording node(100);
  node.cpus([](int second) { return second < 50 ? 0.1 : 4; });
  node.add("ib.xmit_bytes", "mlx5_0:1", Kind::counter, [](int second) { return second < 50 ? 900 * kMega : 0; });
  EXPECT_EQ(words(node.phases()), "50 communicating, 100 computing");
}

TEST(JobPhases, HaveTheFirstAndTheLastTrainingStep) {
  Recording node = job_with_checkpoints();
  node.trace.utc_minus_monotonic_ns = kBegin;
  node.trace.steps = {{.rank = "rank1", .number = 1, .begin_ns = 22 * kSecond, .duration_ns = kSecond},
                      {.rank = "rank0", .number = 1, .begin_ns = 21 * kSecond, .duration_ns = kSecond},
                      {.rank = "rank0", .number = 90, .begin_ns = 377 * kSecond, .duration_ns = 2 * kSecond},
                      {.rank = "rank1", .number = 90, .begin_ns = 378 * kSecond}};
  const NodePhases phases = node.phases();
  EXPECT_EQ(phases.first_step_utc_ns, kBegin + 21 * kSecond);
  EXPECT_EQ(phases.last_step_utc_ns, kBegin + 379 * kSecond);
  node.trace.steps = {{.rank = "rank0", .begin_ns = INT64_MIN, .duration_ns = INT64_MAX},
                      {.rank = "rank0", .begin_ns = INT64_MAX, .duration_ns = INT64_MAX}};
  EXPECT_EQ(node.phases().first_step_utc_ns, kBegin) << "a damaged trace";
  EXPECT_EQ(node.phases().last_step_utc_ns, kBegin + 420 * kSecond);
}

NodeSummary node_with(const std::string& node, std::int64_t change_ns, PhaseKind last = PhaseKind::waiting) {
  NodeSummary summary;
  summary.node = node;
  summary.part.phases = {{.nodes = {node},
                          .resolution_seconds = 1,
                          .phases = {{PhaseKind::computing, {kBegin, kBegin + change_ns}},
                                     {last, {kBegin + change_ns, kBegin + 100 * kSecond}}}}};
  return summary;
}

TEST(JobPhases, AreSharedByNodesThatDoTheSame) {
  std::map<std::string, double> omitted;
  const std::vector<NodePhases> phases =
      job_phases({node_with("n01", 50 * kSecond), node_with("n02", 70 * kSecond), node_with("n03", 71 * kSecond),
                  node_with("n04", 70 * kSecond, PhaseKind::writing), NodeSummary{.node = "n05"}},
                 omitted);
  ASSERT_EQ(phases.size(), 3U);
  EXPECT_EQ(phases[0].nodes, (std::vector<std::string>{"n02", "n03"}));
  EXPECT_EQ(phases[1].nodes, std::vector<std::string>{"n01"});
  EXPECT_EQ(phases[2].nodes, std::vector<std::string>{"n04"});
  EXPECT_TRUE(omitted.empty());
}

TEST(JobPhases, AreThoseOfFourGroupsOfNodesAtMost) {
  std::vector<NodeSummary> nodes;
  for (int i = 0; i < 40; ++i) nodes.push_back(node_with("n" + std::to_string(i), (10 + 4 * (i / 2)) * kSecond));
  std::map<std::string, double> omitted;
  EXPECT_EQ(job_phases(nodes, omitted).size(), 4U);
  EXPECT_EQ(omitted, (std::map<std::string, double>{{"nodes with other phases", 32}}));
}

}  // namespace
}  // namespace reveal::tests::job_phases_test
