// A recording of a real node, and the trace that was written while it was made: tests/data/recordings.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>

#include "core/collect.h"
#include "hdf5schema/trace_reader.h"

namespace reveal::tests::recorded_node_test {
namespace {

const std::filesystem::path kRecorded = std::filesystem::path(TEST_DATA) / "recordings/soft-roce";

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

class SoftRoceNode : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("reveal-replay-" + std::to_string(::getpid()) + ".h5");
    const std::atomic<bool> stop = false;
    CollectOptions options;
    options.output = path;
    options.root = kRecorded;
    options.probes = {"infiniband", "rdma_queues", "job"};
    options.header.interval = std::chrono::seconds(1);
    collect(options, stop);
    replayed_ = rows_of(path);
    std::filesystem::remove(path);
  }
  [[nodiscard]] static const std::vector<std::int64_t>& values(const std::string& family, const std::string& channel) {
    return replayed_.at(family).values.at(channel);
  }
  [[nodiscard]] static std::int64_t sum(const std::string& channel) {
    std::int64_t total = 0;
    for (const std::int64_t value : values("network/rdma", channel)) total += value == kMissing ? 0 : value;
    return total;
  }
  [[nodiscard]] static std::int64_t most(const std::string& family, const std::string& channel) {
    const auto& all = values(family, channel);
    return *std::max_element(all.begin(), all.end());
  }

  static std::map<std::string, Rows> replayed_;
};
std::map<std::string, Rows> SoftRoceNode::replayed_;

TEST_F(SoftRoceNode, GivesTheTraceAgainThatWasWrittenWhileItWasRecorded) {
  const std::map<std::string, Rows> live = rows_of(kRecorded / "live.h5");
  ASSERT_TRUE(live.contains("network/rdma_queues"));
  for (const auto& [family, rows] : live) {
    ASSERT_TRUE(replayed_.contains(family)) << family;
    EXPECT_EQ(replayed_.at(family), rows) << family;
  }
}

TEST_F(SoftRoceNode, HasTheQueuePairsThatIproute2CountedAndThePacketsThatTheKernelDid) {
  EXPECT_EQ(most("network/rdma_queues", "rdma.qp.count/mlx5_bond_0"), 8);
  EXPECT_EQ(most("network/rdma_queues", "rdma.cq.count/mlx5_bond_0"), 2);
  EXPECT_EQ(replayed_.at("network/rdma_queues").values.size(), 2U) << "the job has none on the other device";
  EXPECT_EQ(replayed_.at("process/rdma_queues").values.size(), 2U);
  for (const auto& [process, pairs] : replayed_.at("process/rdma_queues").values) {
    EXPECT_EQ(*std::max_element(pairs.begin(), pairs.end()), 4) << process;
  }
  EXPECT_EQ(sum("rdma.sent_pkts/mlx5_bond_0:1"), 723'273);
  EXPECT_EQ(sum("rdma.rcvd_pkts/mlx5_bond_0:1"), 723'273);
  EXPECT_EQ(sum("rdma.sent_pkts/rxe0:1"), 0);
}

}  // namespace
}  // namespace reveal::tests::recorded_node_test
