// Recordings of real nodes, and the traces that were written while they were made: tests/data/recordings.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <map>

#include "core/collect.h"
#include "hdf5schema/trace_reader.h"

namespace reveal::tests::recorded_node_test {
namespace {

struct Rows {
  std::vector<std::int64_t> times;
  std::map<std::string, std::vector<std::int64_t>> values;  // as stored, by metric and instance
  bool operator==(const Rows&) const = default;
};

Rows rows_of(const TraceReader& trace, const TraceReader::Family& family) {
  Rows rows{.times = {family.time_ns.begin(), family.time_ns.end()}};
  const std::vector<std::int64_t> stored = trace.read_stored(family);
  const auto count = static_cast<std::ptrdiff_t>(family.time_ns.size());
  auto from = stored.begin();
  for (const ChannelKey& channel : family.channels) {
    rows.values[channel.metric + '/' + channel.instance] = {from, from + count};
    from += count;
  }
  return rows;
}

std::map<std::string, Rows> rows_of(const std::filesystem::path& path) {
  const TraceReader trace(path);
  std::map<std::string, Rows> all;
  for (const TraceReader::Family& family : trace.families()) all[family.spec.path] = rows_of(trace, family);
  return all;
}

using Families = std::map<std::string, Rows>;

std::filesystem::path folder_of(const std::string& recording) {
  return std::filesystem::path(TEST_DATA) / "recordings" / recording;
}

/// The trace that a replay of the recording gives.
Families replay(const std::string& recording, std::vector<std::string> probes) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("reveal-replay-" + recording + std::to_string(::getpid()) + ".h5");
  const std::atomic<bool> stop = false;
  CollectOptions options;
  options.output = path;
  options.root = folder_of(recording);
  options.probes = std::move(probes);
  options.header.interval = std::chrono::seconds(1);
  collect(options, stop);
  Families families = rows_of(path);
  std::filesystem::remove(path);
  return families;
}

const Families& soft_roce() {
  static const Families families = replay("soft-roce", {"infiniband", "rdma_queues", "job"});
  return families;
}

const Families& namespaces() {
  static const Families families = replay("namespaces", {"tcp_peers", "network", "qdisc", "job"});
  return families;
}

const Families& gpu_double() {
  static const Families families = replay("gpu-double", {"gpu", "job"});
  return families;
}

std::int64_t sum(const Families& families, const std::string& family, const std::string& channel) {
  std::int64_t total = 0;
  for (const std::int64_t value : families.at(family).values.at(channel)) total += value == kMissing ? 0 : value;
  return total;
}

std::int64_t most(const Families& families, const std::string& family, const std::string& channel) {
  const auto& all = families.at(family).values.at(channel);
  return *std::max_element(all.begin(), all.end());
}

void expect_the_live_trace(const std::string& recording, const Families& replayed, const std::string& needed) {
  const Families live = rows_of(folder_of(recording) / "live.h5");
  ASSERT_TRUE(live.contains(needed));
  for (const auto& [family, rows] : live) {
    ASSERT_TRUE(replayed.contains(family)) << family;
    EXPECT_EQ(replayed.at(family), rows) << family;
  }
}

TEST(RecordedNode, GivesTheTraceAgainThatWasWrittenWhileItWasRecorded) {
  expect_the_live_trace("soft-roce", soft_roce(), "network/rdma_queues");
  expect_the_live_trace("namespaces", namespaces(), "network/peer_segments");
  expect_the_live_trace("gpu-double", gpu_double(), "gpu/utilization");
}

TEST(RecordedNode, HasTheQueuePairsThatIproute2CountedAndThePacketsThatTheKernelDid) {
  const Families& node = soft_roce();
  EXPECT_EQ(most(node, "network/rdma_queues", "rdma.qp.count/mlx5_bond_0"), 8);
  EXPECT_EQ(most(node, "network/rdma_queues", "rdma.cq.count/mlx5_bond_0"), 2);
  EXPECT_EQ(node.at("network/rdma_queues").values.size(), 2U) << "the job has none on the other device";
  EXPECT_EQ(node.at("process/rdma_queues").values.size(), 2U);
  for (const auto& [process, pairs] : node.at("process/rdma_queues").values) {
    EXPECT_EQ(*std::max_element(pairs.begin(), pairs.end()), 4) << process;
  }
  EXPECT_EQ(sum(node, "network/rdma", "rdma.sent_pkts/mlx5_bond_0:1"), 723'273);
  EXPECT_EQ(sum(node, "network/rdma", "rdma.rcvd_pkts/mlx5_bond_0:1"), 723'273);
  EXPECT_EQ(sum(node, "network/rdma", "rdma.sent_pkts/rxe0:1"), 0);
}

TEST(RecordedNode, HasTheCourseThatTheDoubleWasGiven) {
  const Families& node = gpu_double();
  const auto& utilization = node.at("gpu/utilization").values;
  const auto& waiting = utilization.at("gpu.utilization/gpu0");
  const auto stored = [](double percent) { return std::bit_cast<std::int64_t>(percent); };
  EXPECT_NEAR(static_cast<double>(std::count(waiting.begin(), waiting.end(), stored(5))), 6, 1);
  EXPECT_TRUE(std::isnan(std::bit_cast<double>(utilization.at("gpu.utilization/gpu1").back()))) << "it was lost";
  EXPECT_NEAR(static_cast<double>(sum(node, "gpu/reasons", "gpu.reason_power_cap/gpu1")), 6, 1);
  EXPECT_EQ(sum(node, "gpu/reasons", "gpu.reason_power_cap/gpu0"), 0);
  EXPECT_EQ(sum(node, "gpu/xids", "gpu.xid/gpu1"), 1);
  EXPECT_EQ(most(node, "gpu/process_memory", "process.gpu_memory/rank0/gpu0"), 900'000'000);
  EXPECT_EQ(most(node, "gpu/process_utilization", "process.gpu_utilization/rank0/gpu0"), stored(94));
}

TEST(RecordedNode, HasTheValuesOfARealGpu) {
  const Families node = replay("h100", {"gpu", "job"});
  const auto numbers = [&node](const std::string& family, const std::string& channel) {
    std::vector<double> all;
    for (const std::int64_t stored : node.at(family).values.at(channel)) {
      const auto value = std::bit_cast<double>(stored);
      if (!std::isnan(value)) all.push_back(value);
    }
    std::sort(all.begin(), all.end());
    return all;
  };
  const auto median = [&](const std::string& family, const std::string& channel) {
    const std::vector<double> all = numbers(family, channel);
    return all.at(all.size() / 2);
  };
  EXPECT_GT(median("gpu/utilization", "gpu.utilization/gpu0"), 95);
  EXPECT_GT(median("gpu/activity", "gpu.sm_active/gpu0"), 90);
  EXPECT_GT(median("gpu/power", "gpu.power/gpu0"), 500);
  EXPECT_LT(median("gpu/power", "gpu.power/gpu0"), 700);
  EXPECT_GT(median("gpu/power_extremes", "gpu.power_highest/gpu0"), median("gpu/power", "gpu.power/gpu0"));
  EXPECT_GT(median("gpu/temperatures", "gpu.temperature/gpu0"), 30);
  EXPECT_GT(sum(node, "gpu/traffic", "pcie.rx_bytes/gpu0"), 20'000'000) << "7 MB a second";
  EXPECT_EQ(sum(node, "gpu/traffic", "nvlink.tx_bytes/gpu0"), 0);
  EXPECT_EQ(sum(node, "gpu/xids", "gpu.xid/gpu0"), 0);
  EXPECT_EQ(most(node, "gpu/states", "pcie.generation/gpu0"), 5);
  EXPECT_EQ(most(node, "gpu/states", "pcie.width/gpu0"), 16);
  EXPECT_GT(most(node, "gpu/process_memory", "process.gpu_memory/rank0/gpu0"), 1'000'000'000);
}

TEST(RecordedNode, HasThePeerToWhichSegmentsWereLost) {
  const Families& node = namespaces();
  EXPECT_EQ(sum(node, "network/peer_segments", "tcp.peer.retransmits/10.77.0.3"), 183);
  EXPECT_EQ(sum(node, "network/peer_segments", "tcp.peer.retransmits/10.77.0.1"), 2);
  EXPECT_EQ(sum(node, "network/peer_segments", "tcp.peer.retransmits/10.77.0.2"), 0);
}

}  // namespace
}  // namespace reveal::tests::recorded_node_test
