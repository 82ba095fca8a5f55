// The table of derived metrics, each row with numbers worked out by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "postproc/telemetry/derived.h"

namespace reveal::tests::derived_metrics_test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Telemetry with_others(Telemetry telemetry) {
  DerivedChannels(DerivedChannels::Which::others).append_to(telemetry);
  return telemetry;
}

/// Two samples of half a second.
class Node {
 public:
  Node() {
    telemetry_.step_seconds = 0.5;
    telemetry_.samples = 2;
  }
  Node& add(const std::string& metric, double first, double second, const std::string& instance = "") {
    telemetry_.channels.push_back(
        {.metric = metric, .instance = instance, .family = "measured", .kind = Kind::counter});
    telemetry_.values.insert(telemetry_.values.end(), {first, second});
    return *this;
  }
  /// Without the measured channels.
  [[nodiscard]] Telemetry derived() const {
    Telemetry all = with_others(telemetry_);
    all.channels.erase(all.channels.begin(),
                       all.channels.begin() + static_cast<std::ptrdiff_t>(measured().channels.size()));
    all.values.erase(all.values.begin(), all.values.begin() + static_cast<std::ptrdiff_t>(measured().values.size()));
    return all;
  }
  [[nodiscard]] const Telemetry& measured() const { return telemetry_; }

 private:
  Telemetry telemetry_;
};

/// Returns the values of one derived channel; empty if it is not there.
std::vector<double> values(const Telemetry& telemetry, const std::string& metric, const std::string& instance = "") {
  for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
    if (telemetry.channels[i].metric != metric || telemetry.channels[i].instance != instance) continue;
    const auto series = telemetry.series(i);
    return {series.begin(), series.end()};
  }
  return {};
}

TEST(DerivedMetrics, DivideCountersOfTheProcessor) {
  const Telemetry derived = Node()
                                .add("pmu.cycles", 1000, 2000)
                                .add("pmu.instructions", 1500, 500)
                                .add("pmu.reference_cycles", 800, 2500)
                                .add("pmu.branches", 200, 100)
                                .add("pmu.branch_misses", 4, 10)
                                .add("pmu.llc_references", 50, 40)
                                .add("pmu.llc_misses", 10, 30)
                                .add("pmu.l3_stalls", 100, 1400)
                                .add("pmu.backend_stalls", 250, 1500)
                                .add("pmu.loads", 300, 100)
                                .add("pmu.stores", 100, 100)
                                .add("pmu.remote_dram", 1, 24)
                                .derived();
  using Values = std::vector<double>;
  EXPECT_EQ(values(derived, "pmu.ipc"), (Values{1.5, 0.25}));
  EXPECT_EQ(values(derived, "pmu.branch_miss_rate"), (Values{0.02, 0.1}));
  EXPECT_EQ(values(derived, "pmu.cache_miss_ratio"), (Values{0.2, 0.75}));
  EXPECT_EQ(values(derived, "pmu.l3_stall_ratio"), (Values{0.1, 0.7}));
  EXPECT_EQ(values(derived, "pmu.stall_ratio"), (Values{0.25, 0.75}));
  EXPECT_EQ(values(derived, "pmu.occupancy_ratio"), (Values{0.75, 0.25}));
  EXPECT_EQ(values(derived, "pmu.memory_operations_per_cycle"), (Values{0.4, 0.1}));
  EXPECT_EQ(values(derived, "pmu.remote_share"), (Values{0.1, 0.8}));
  EXPECT_EQ(values(derived, "pmu.clock_ratio"), (Values{1.25, 0.8}));
  EXPECT_TRUE(values(derived, "pmu.frontend_stall_ratio").empty());  // not measured
}

TEST(DerivedMetrics, AreMissingWhereAnInputIsAndWhereNothingHappened) {
  const Telemetry derived = Node().add("pmu.cycles", 0, kNaN).add("pmu.instructions", 0, 500).derived();
  const std::vector<double> ipc = values(derived, "pmu.ipc");
  ASSERT_EQ(ipc.size(), 2U);
  EXPECT_TRUE(std::isnan(ipc[0]));
  EXPECT_TRUE(std::isnan(ipc[1]));
}

TEST(DerivedMetrics, AreNoChannelsWithoutTheirInputs) {
  EXPECT_TRUE(Node().add("pmu.cycles", 1, 1).derived().channels.empty());
  EXPECT_TRUE(Node().derived().channels.empty());
}

TEST(DerivedMetrics, JoinInputsByInstance) {
  const Telemetry derived = Node()
                                .add("platform.mperf", 300, 400, "cpu0")
                                .add("platform.tsc", 1000, 1000, "cpu0")
                                .add("platform.aperf", 450, 400, "cpu0")
                                .add("platform.mperf", 500, 0, "cpu1")
                                .add("platform.tsc", 1000, 1000, "cpu1")
                                .derived();
  EXPECT_EQ(values(derived, "platform.busy", "cpu0"), (std::vector<double>{30, 40}));
  EXPECT_EQ(values(derived, "platform.busy", "cpu1"), (std::vector<double>{50, 0}));
  EXPECT_EQ(values(derived, "platform.busy_frequency", "cpu0"), (std::vector<double>{3000, 2000}));
  EXPECT_TRUE(values(derived, "platform.busy_frequency", "cpu1").empty());
}

TEST(DerivedMetrics, TurnIncrementsIntoRatesAndShares) {
  const Telemetry derived = Node()
                                .add("mem.available", 25, 50)
                                .add("mem.total", 100, 100)
                                .add("net.rx_bytes", 1000, 0, "eth0")
                                .add("net.tx_bytes", 500, 250, "eth0")
                                .add("net.speed", 32'000, 32'000, "eth0")
                                .add("disk.io_time", 250e6, 500e6, "sda")
                                .add("platform.energy_package", 50e6, 100e6, "package1")
                                .add("platform.memory_read", 600, 0, "package0")
                                .add("platform.memory_written", 400, 500, "package0")
                                .add("perf.task_clock", 1e9, 0.25e9)
                                .derived();
  using Values = std::vector<double>;
  EXPECT_EQ(values(derived, "mem.utilization"), (Values{0.75, 0.5}));
  EXPECT_EQ(values(derived, "net.rx_throughput", "eth0"), (Values{2000, 0}));
  EXPECT_EQ(values(derived, "net.tx_throughput", "eth0"), (Values{1000, 500}));
  EXPECT_EQ(values(derived, "net.utilization", "eth0"), (Values{0.5, 0.125}));
  EXPECT_EQ(values(derived, "disk.utilization", "sda"), (Values{0.5, 1}));
  EXPECT_EQ(values(derived, "platform.package_power", "package1"), (Values{100, 200}));
  EXPECT_EQ(values(derived, "platform.memory_bandwidth", "package0"), (Values{2000, 1000}));
  EXPECT_EQ(values(derived, "perf.cpus_used"), (Values{2, 0.5}));
}

TEST(DerivedMetrics, KnowHowBusyTheNodeAndEachCpuWere) {
  Node node;
  for (const auto& [cpu, busy] : {std::pair("cpu0", 0.1e9), std::pair("cpu1", 0.4e9)}) {
    node.add("cpu.user", busy, kNaN, cpu).add("cpu.nice", 0, 0, cpu).add("cpu.system", 0, 0, cpu);
    node.add("cpu.idle", 0.4e9 - busy, 0.1e9, cpu).add("cpu.iowait", 0.1e9, 0, cpu);
  }
  node.add("cpu.user", 7, 7, "cpu2");  // nothing else is known of it
  Telemetry telemetry = node.measured();
  append_derived(telemetry);
  ASSERT_EQ(telemetry.channels.size(), 12U) << "the detectors look at the node alone";
  EXPECT_EQ(telemetry.channels[11].scope, Scope::node);
  EXPECT_EQ(values(telemetry, "cpu.utilization")[0], 0.5);
  EXPECT_TRUE(std::isnan(values(telemetry, "cpu.utilization")[1]));
  telemetry = with_others(telemetry);
  EXPECT_EQ(telemetry.channels.size(), 14U);
  EXPECT_EQ(values(telemetry, "cpu.utilization", "cpu0")[0], 0.2);
  EXPECT_EQ(values(telemetry, "cpu.utilization", "cpu1")[0], 0.8);
}

TEST(DerivedMetrics, AreChannelsOfTheNodeForDetectorsWhereTheyCombineSeveral) {
  Node node;
  node.add("pmu.cycles", 100, 300, "rank0").add("pmu.instructions", 50, 300, "rank0");
  node.add("pmu.cycles", 100, 100, "rank1").add("pmu.instructions", 150, 300, "rank1");
  for (const auto& [cpu, active] : {std::pair("cpu0", 450), std::pair("cpu1", 250)}) {
    node.add("platform.aperf", active, 0, cpu).add("platform.mperf", 300, 0, cpu).add("platform.tsc", 1000, 1000, cpu);
  }
  for (const char* package : {"package0", "package1"}) node.add("platform.memory_traffic", 500, 100, package);
  node.add("disk.io_time", 1e8, 0, "sda");
  Telemetry telemetry = node.measured();
  append_derived(telemetry);
  EXPECT_EQ(values(telemetry, "pmu.ipc"), (std::vector<double>{1, 1.5}));
  EXPECT_EQ(values(telemetry, "platform.busy"), (std::vector<double>{30, 0}));
  EXPECT_EQ(values(telemetry, "platform.busy_frequency").at(0), 700.0 / 600 * 1000 / 0.5) << "the mean of the cpus";
  EXPECT_EQ(values(telemetry, "platform.memory_bandwidth"), (std::vector<double>{2000, 400})) << "of both packages";
  EXPECT_TRUE(values(telemetry, "disk.utilization").empty()) << "disk.io_time, which detectors see, by another name";
  EXPECT_EQ(telemetry.channels.size(), node.measured().channels.size() + 4);
  EXPECT_EQ(telemetry.channels.back().scope, Scope::node);
}

TEST(DerivedMetrics, TakeTheFirstRowWhoseInputsWereMeasured) {
  const Telemetry one = Node().add("platform.memory_traffic", 500, 100, "package0").derived();
  EXPECT_EQ(values(one, "platform.memory_bandwidth", "package0"), (std::vector<double>{1000, 200}));
  const Telemetry both =
      Node().add("energy.package", 1e6, 2e6, "package0").add("platform.energy_package", 7e6, 7e6, "package0").derived();
  EXPECT_EQ(values(both, "platform.package_power", "package0"), (std::vector<double>{2, 4}));
  EXPECT_EQ(both.channels.size(), 1U);
}

TEST(DerivedMetrics, AreAppendedAsChannelsOfTheDerivedFamily) {
  Node node;
  node.add("pmu.cycles", 10, 10).add("pmu.instructions", 20, 5);
  const Telemetry telemetry = with_others(node.measured());
  ASSERT_EQ(telemetry.channels.size(), 3U);
  EXPECT_EQ(telemetry.channels[2].family, "derived");
  EXPECT_EQ(telemetry.channels[2].kind, Kind::gauge);
  EXPECT_EQ(values(telemetry, "pmu.ipc"), (std::vector<double>{2, 0.5}));
  EXPECT_EQ(with_others(telemetry).channels.size(), 3U)
      << "nothing is derived from what was derived, and nothing twice";
}

TEST(DerivedMetrics, AreComputedOfEachPieceOfAJob) {
  DerivedChannels derived;
  Node node;
  node.add("pmu.cycles", 10, 10).add("pmu.instructions", 20, 5);
  Telemetry piece = node.measured();
  derived.append_to(piece);
  EXPECT_EQ(values(piece, "pmu.ipc"), (std::vector<double>{2, 0.5}));
  piece = node.measured();
  piece.values[0] = 40;
  derived.append_to(piece);
  EXPECT_EQ(values(piece, "pmu.ipc"), (std::vector<double>{0.5, 0.5}));
}

TEST(DerivedMetrics, SayUnitFormulaInputsAndSource) {
  std::set<std::pair<std::string_view, std::string_view>> rows;
  for (const DerivedMetric& metric : derived_metrics()) {
    EXPECT_FALSE(metric.unit_text.empty() || metric.formula.empty() || metric.source.empty()) << metric.metric;
    const auto words = 1 + std::count(metric.inputs.begin(), metric.inputs.end(), ' ');
    EXPECT_FALSE(metric.inputs.empty()) << metric.metric;
    EXPECT_TRUE(metric.series != nullptr || static_cast<std::size_t>(words) <= kMostDerivedInputs) << metric.metric;
    EXPECT_NE(metric.series == nullptr, metric.compute == nullptr) << metric.metric;
    EXPECT_TRUE(rows.emplace(metric.metric, metric.inputs).second) << metric.metric;
  }
}

}  // namespace
}  // namespace reveal::tests::derived_metrics_test
