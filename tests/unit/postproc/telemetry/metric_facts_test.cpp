#include "postproc/telemetry/metric_facts.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "listed_metrics.h"
#include "postproc/peers/node_pair.h"
#include "postproc/peers/node_profile.h"

namespace reveal::tests::metric_facts_test {
namespace {

TEST(MetricFacts, AreOfMetricsThatAreMeasured) {
  const ListedMetrics listed;
  for (const MetricFact& row : metric_facts()) {
    const auto is_quotient = [&](const PairMetric& pair) { return !pair.name.empty() && pair.name == row.metric; };
    const bool computed =
        row.metric == kOwnTime || std::any_of(pair_metrics().begin(), pair_metrics().end(), is_quotient);
    if (row.of != MetricFact::Of::ours || computed) continue;
    const bool is_prefix = row.metric.ends_with('*');
    const std::vector<std::string>& all = listed.patterns();
    const bool meets = std::any_of(all.begin(), all.end(), [&](const std::string& name) { return matches(row, name); });
    EXPECT_TRUE(meets || (!is_prefix && listed.has(std::string(row.metric)))) << row.metric << " is no metric of ours";
  }
  EXPECT_FALSE(listed.has("cpu.usr"));
}

TEST(MetricFacts, OfOtherDataMeetNoMetricOfOurs) {
  const ListedMetrics listed;
  for (const MetricFact& row : metric_facts()) {
    EXPECT_EQ(row.of == MetricFact::Of::any_name, row.metric.starts_with('*')) << row.metric;
    if (row.of != MetricFact::Of::other_data) continue;
    for (const std::string& name : listed.patterns()) EXPECT_FALSE(matches(row, name)) << row.metric << ": " << name;
  }
}

TEST(MetricFacts, HaveNoRowWithoutAFact) {
  for (const MetricFact& row : metric_facts()) {
    const bool says = !row.words.empty() || !row.compared.empty() || !row.unit.empty() || !row.shown.empty() ||
                      !row.meter.empty() || row.prune_rank > 0 || row.error_count > 0 || row.summed_in_paper ||
                      row.usual_timeline || row.peers != PeerMeaning::unsaid;
    EXPECT_TRUE(says) << row.metric;
    EXPECT_EQ(row.meter.empty(), row.meter_unit.empty()) << row.metric;
  }
}

TEST(MetricFacts, TakeTheFirstRowThatHasTheFact) {
  EXPECT_EQ(words_for("disk.reads"), "Disk reads");
  EXPECT_EQ(words_for("disk.discards"), "disk.discards");
  EXPECT_EQ(fact_of("disk.reads_merged", &MetricFact::prune_rank), 19);
  EXPECT_EQ(fact_of("NET.RX_DROPPED", &MetricFact::error_count), 10);
  EXPECT_EQ(fact_of("cpu.utilization", &MetricFact::unit), "ratio") << "and not that of cpu.*";
}

TEST(MetricFacts, KeepAReadableMetricOfCorrelatedOnes) {
  for (const char* metric : {"pmu.ipc", "pmu.l3_stall_ratio", "pmu.remote_share", "platform.busy_frequency",
                             "platform.busy", "platform.memory_bandwidth"}) {
    EXPECT_GT(fact_of(metric, &MetricFact::prune_rank), 24) << metric << ": behind those that the paper ranks";
  }
  EXPECT_EQ(fact_of("pmu.instructions", &MetricFact::prune_rank), 0);
}

TEST(MetricFacts, NameWhatIsComparedOfTwoNodes) {
  EXPECT_EQ(compared_words("cpu.steal"), "CPU time taken by the hypervisor");
  EXPECT_EQ(compared_words("pmu.stall_ratio"), "share of cycles that waited for memory or units");
  EXPECT_EQ(compared_words("disk.read_time"), "time of a disk read") << "not the sum of all";
  EXPECT_EQ(compared_words("disk.discards"), "disk.discards");
  for (const PairMetric& row : pair_metrics()) EXPECT_NE(compared_words(row.metric), row.metric);
}

Channel channel(const char* metric, Kind kind, Unit unit) {
  return {.metric = metric, .kind = kind, .unit = unit};
}

TEST(MetricFacts, ShowOneRateInOneUnit) {
  EXPECT_EQ(unit_of(channel("cpu.user", Kind::counter, Unit::nanoseconds)), "ns/s");
  EXPECT_EQ(unit_of(channel("job.outsider_cpu", Kind::gauge, Unit::ratio)), "cpus");
  EXPECT_EQ(unit_of(channel("cpu.frequency", Kind::gauge, Unit::hertz)), "Hz");
  const auto [unit, factor] = shown_unit(channel("cpu.user", Kind::counter, Unit::nanoseconds), 0.1);
  EXPECT_EQ(unit, "cpus");
  EXPECT_DOUBLE_EQ(factor * 98e6, 0.98);
  EXPECT_EQ(quantity_of("cpu.user", 0.98e9, "ns/s"), "0.98 cpus");
  EXPECT_EQ(quantity_of("process.wait_time", 0.98e9, "ns/s"), "0.98 threads waiting");
  EXPECT_EQ(quantity_of("process.wait_time", 0.98, "s/s"), "0.98 threads waiting");
  EXPECT_EQ(quantity_of("process.run_time", 0.98, "s/s"), "0.98 cpus");
  EXPECT_EQ(quantity_of("pressure.io_some", 0.31, "s/s"), "31 % of the time");
  EXPECT_EQ(quantity_of("process.throttled_time", 0.75e9, "ns/s"), "0.75 cpus") << "as its rule calls it";
  EXPECT_EQ(quantity_of("cgroup.cpu_throttled_time", 0.75, "s/s"), "0.75 cpus");
  EXPECT_EQ(quantity_of("throttle.core_time", 0.31e9, "ns/s"), "31 % of the time");
  EXPECT_EQ(quantity_of("vmstat.pgpgin", 2048, "count/s"), "2 MiB/s");
  EXPECT_EQ(quantity_of("energy.package", 140e6, "uJ/s"), "140 W");
  EXPECT_EQ(quantity_of("net.rx_bytes", std::nullopt, "bytes/s"), "not measured");
  EXPECT_EQ(quantities_of("mem.dirty", 3.0 * (1 << 30), 512.0 * (1 << 20), "bytes"),
            std::pair(std::string("3 GiB"), std::string("0.5 GiB")));
}

}  // namespace
}  // namespace reveal::tests::metric_facts_test
