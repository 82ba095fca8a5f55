#include <gtest/gtest.h>

#include "hdf5schema/basics/clocks.h"
#include "tests/unit/core/live_probe.h"
#include "tests/unit/core/test_host.h"

namespace reveal::tests::rdma_queues_test {
namespace {

/// A recording of a job of three processes, in which the child's answers are these: the first when the probe opens, one
/// in each tick from the second on.
class RecordedQueues {
 public:
  explicit RecordedQueues(const std::string& first, const std::vector<std::string>& later = {}) {
    put("D/sys/class/infiniband", "mlx5_0\nmlx5_1\n");
    put("@@job/roots", "50 0 0\n");
    put("F/proc/50/stat", stat(50, 1));
    put("F/proc/51/stat", stat(51, 50));
    put("F/proc/52/stat", stat(52, 50));
    put("D/proc", "50\n51\n52\nself\n");
    put("F/proc/loadavg", "0.50 0.40 0.30 2/150 52\n");
    put("@@rdma_queues", first);
    tick();
    for (const std::string& answer : later) {
      tick();
      put("@@rdma_queues", answer);
    }
    tick();
    host_.write("/ticks.rec", text_);
  }
  [[nodiscard]] const std::filesystem::path& root() const { return host_.root(); }

 private:
  static std::string stat(int pid, int parent) {
    return std::to_string(pid) + " (python) S " + std::to_string(parent) +
           " 1 1 0 -1 4194304 11 0 22 0 9 9 0 0 20 0 3 0 100 1000000 50 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 "
           "17 1 0 0 0 0 0\n";
  }
  void put(const std::string& key, const std::string& value) {
    const auto [at, fresh] = numbers_.emplace(key, numbers_.size());
    if (fresh) text_ += "+ " + std::to_string(at->second) + ' ' + key + '\n';
    text_ += "$ " + std::to_string(at->second) + ' ' + std::to_string(value.size()) + '\n' + value + '\n';
  }
  void tick() {
    time_ += kSecond;
    text_ += "= " + std::to_string(time_) + ' ' + std::to_string(time_) + '\n';
  }

  TestHost host_;
  std::string text_ = "reveal recording 1\n";
  std::map<std::string, std::size_t> numbers_;
  std::int64_t time_ = kSecond;
};

class ReplayedQueues {
 public:
  explicit ReplayedQueues(const RecordedQueues& recorded)
      : fs_(recorded.root()), sampler_(fs_, sink_, options(), first(fs_)) {
    sampler_.look_first();
  }
  void next() {
    if (const auto time = fs_.next_tick()) sampler_.sample({.time = *time, .number = 0});
  }
  [[nodiscard]] std::int64_t on(const std::string& device, const std::string& metric = "rdma.qp.count") const {
    return sink_.find("network/rdma_queues")->value(metric, device);
  }
  [[nodiscard]] std::int64_t of(const std::string& process) const {
    return sink_.find("process/rdma_queues")->value("process.rdma_queue_pairs", process);
  }
  [[nodiscard]] const Family& family(const std::string& path) const { return *sink_.find(path); }
  [[nodiscard]] Coverage coverage() const { return sampler_.coverage().front(); }

 private:
  static Sampler::Options options() { return {.probes = {"rdma_queues"}}; }
  static TickTime first(KernelTree& fs) { return *fs.next_tick(); }

  KernelTree fs_;
  TraceSink sink_;
  Sampler sampler_;
};

TEST(RdmaQueuesProbe, CountsTheJobsQueuePairsByDeviceAndProcess) {
  const RecordedQueues recorded(
      "ok 1000 5000\ndevice mlx5_0 0\nend\n",
      {"ok 1000 5000\ndevice mlx5_0 0\nprocess 51 mlx5_0 8 4\nprocess 52 mlx5_0 2 2\nprocess 999 mlx5_0 70 70\n"
       "device mlx5_1 0\nprocess 52 mlx5_1 1 1\nend\n",
       "\n", "ok 1000 5000\ndevice mlx5_0 0\nprocess 52 mlx5_0 2 2\ndevice mlx5_1 0\nend\n"});
  ReplayedQueues replayed(recorded);
  ASSERT_EQ(replayed.coverage().state, Coverage::State::ok) << replayed.coverage().reason;
  EXPECT_EQ(replayed.on("mlx5_0"), kMissing) << "the job has none so far";
  replayed.next();
  EXPECT_EQ(replayed.on("mlx5_0"), 10) << "without those of another job";
  EXPECT_EQ(replayed.on("mlx5_0", "rdma.cq.count"), 6);
  EXPECT_EQ(replayed.on("mlx5_1"), 1);
  EXPECT_EQ(replayed.of("slot1/mlx5_0") + replayed.of("slot2/mlx5_0"), 10);
  EXPECT_EQ(replayed.family("process/rdma_queues").channels().size(), 3U);
  EXPECT_EQ(replayed.family("process/rdma_queues").spec().period, std::chrono::seconds(10));
  replayed.next();
  replayed.next();
  EXPECT_EQ(replayed.on("mlx5_0"), 2);
  EXPECT_EQ(replayed.on("mlx5_1"), 0) << "it has closed them";
  EXPECT_EQ(replayed.coverage().reason, "");
}

TEST(RdmaQueuesProbe, StatesAGapWhereTheKernelDidNotTellAll) {
  const std::string good =
      "ok 1000 5000\ndevice mlx5_0 0\nprocess 51 mlx5_0 8 4\ndevice mlx5_1 0\nprocess 51 mlx5_1 3 3\nend\n";
  const RecordedQueues recorded(
      good,
      {"ok 1000 5000\ndevice mlx5_0 2\nprocess 51 mlx5_0 8 4\nlost mlx5_1 Invalid argument\nend\n",
       "gap 1000 5000 Operation not permitted\n", "ok 1000 5000\ndevice mlx5_0 0\nprocess 51 mlx5_0", "ok", good});
  ReplayedQueues replayed(recorded);
  EXPECT_EQ(replayed.on("mlx5_1"), 3);
  replayed.next();
  EXPECT_EQ(replayed.on("mlx5_0"), 8);
  EXPECT_EQ(replayed.on("mlx5_1"), kMissing) << "the device has gone";
  replayed.next();
  EXPECT_EQ(replayed.on("mlx5_0"), kMissing);
  replayed.next();
  EXPECT_EQ(replayed.on("mlx5_0"), kMissing) << "the answer is cut off";
  replayed.next();
  EXPECT_EQ(replayed.on("mlx5_0"), kMissing);
  replayed.next();
  EXPECT_EQ(replayed.on("mlx5_1"), 3);
  EXPECT_EQ(replayed.coverage().reason,
            "the owner of up to 2 queue pairs on one device is not known (their threads have ended, or are in a "
            "container's own pid namespace); 3 readings were incomplete: the answer was cut off");
}

TEST(RdmaQueuesProbe, SaysWhereItLooksLessOften) {
  // The first look takes half a second, because the child is loaded; a later one takes two of the adapter.
  const RecordedQueues recorded("ok 500000000 500000000\ndevice mlx5_0 0\nend\n",
                                {"ok 1000 5000\ndevice mlx5_0 0\nend\n"});
  ReplayedQueues usual(recorded);
  usual.next();
  EXPECT_EQ(usual.coverage().reason, "");
  const RecordedQueues slow("ok 1000 5000\ndevice mlx5_0 0\nend\n", {"ok 1000 2000000000\ndevice mlx5_0 0\nend\n"});
  ReplayedQueues slowed(slow);
  slowed.next();
  EXPECT_EQ(slowed.coverage().reason,
            "queue pairs were read only every 20 s at times, because reading all of them takes long");
}

TEST(RdmaQueuesProbe, BelievesNoRecordingThatALookTookAges) {
  const RecordedQueues recorded("ok 1000 5000\ndevice mlx5_0 0\nend\n",
                                {"ok 9223372036854775807 9223372036854775807\ndevice mlx5_0 0\nend\n"});
  ReplayedQueues replayed(recorded);
  replayed.next();
  EXPECT_EQ(replayed.coverage().reason,
            "queue pairs were read only every 3600 s at times, because reading all of them takes long");
}

TEST(RdmaQueuesProbe, SaysThatItLeftDevicesOut) {
  std::string devices = "ok 1000 5000\n";
  for (int i = 0; i < 65; ++i) {
    const std::string name = "mlx5_" + std::to_string(i);
    devices.append("device ").append(name).append(" 0\nprocess 51 ").append(name).append(" 1 1\n");
  }
  const RecordedQueues recorded(devices + "end\n");
  const ReplayedQueues replayed(recorded);
  EXPECT_EQ(replayed.on("mlx5_63"), 1);
  EXPECT_EQ(replayed.on("mlx5_64"), kMissing);
  EXPECT_EQ(replayed.coverage().reason, "only the first 64 devices are measured");
}

TEST(RdmaQueuesProbe, IsAbsentWhereNothingCanBeAskedFor) {
  const TestHost host;
  host.process(50, 1, "solver", 10, 5);
  host.last_pid(50);
  EXPECT_EQ(ProbeBench(host, "rdma_queues", JobSource{.pid = 50}).coverage().reason,
            "a copied tree has no queue pairs");
  EXPECT_EQ(ProbeBench(host, "rdma_queues").coverage().reason, "no job was named (--job)");
  EXPECT_EQ(ReplayedQueues(RecordedQueues("gap 1000 5000 Protocol not supported\n")).coverage().reason,
            "the kernel does not report queue pairs (Protocol not supported)");
}

TEST(RdmaQueuesProbe, AsksTheKernelOfThisHost) {
  KernelTree fs;
  TraceSink sink;
  Sampler sampler(fs, sink, {.probes = {"rdma_queues"}, .job = JobSource{.pid = ::getpid()}}, now());
  sampler.look_first();
  const Coverage coverage = sampler.coverage().front();
  if (coverage.state != Coverage::State::ok) GTEST_SKIP() << coverage.reason;
  EXPECT_TRUE(sink.find("network/rdma_queues")->channels().empty()) << "this test has no queue pair";
}

}  // namespace
}  // namespace reveal::tests::rdma_queues_test
