#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "hdf5schema/basics/clocks.h"
#include "tests/unit/core/test_host.h"

namespace reveal::tests::process_numa_test {
namespace {

TEST(ProcessNuma, SumsThePagesOfAProcessOnEachNode) {
  TestHost host;
  host.write("/sys/devices/system/node/node0/numastat", "numa_hit 1\n");
  host.write("/sys/devices/system/node/node1/numastat", "numa_hit 1\n");
  host.process(50, 1, "solver", 10, 5);
  host.last_pid(50);
  host.write("/proc/50/numa_maps",
             "00400000 default file=/usr/bin/solver mapped=30 mapmax=9 N0=20 N1=10 kernelpagesize_kB=4\n"
             "00600000 default file=/usr/bin/solver anon=3 dirty=3 N0=2 N1=1 kernelpagesize_kB=4\n"
             "7f0000000000 bind:1 anon=2 dirty=2 N1=2 kernelpagesize_kB=2048\n"
             "7ffc00000000 default stack anon=1 dirty=1 N0=1 kernelpagesize_kB=4\n");
  ProbeBench bench(host, "process_numa", JobSource{.pid = 50});
  const Coverage coverage = bench.coverage();
  ASSERT_EQ(coverage.state, Coverage::State::ok) << coverage.reason;
  EXPECT_EQ(bench.answered("process/numa", "process.numa_bytes", "rank0/node0"), 3 * 4096);
  EXPECT_EQ(bench.value("process/numa", "process.numa_bytes", "rank0/node1"), 4096 + 2 * 2'097'152);
}

/// The probe at a pace that the test sets.
class PacedProbe {
 public:
  explicit PacedProbe(const TestHost& host) : fs_(host.root()) {
    job_.update({kSecond, kSecond});
    slots_.update(kSecond);
    for (const ProbeSpec& spec : probes()) {
      if (spec.name == "process_numa") probe_ = spec.open(context_);
    }
  }
  /// Bytes of the solver on node 0 as soon as a child has answered; kMissing if it is not asked at this time.
  std::int64_t value_at(std::int64_t second, ReadingPace pace, int looks) {
    pace_ = pace;
    sink_.set_now(second * kSecond);
    for (int look = 0; look < looks; ++look) {
      probe_->sample();
      const std::int64_t value = sink_.find("process/numa")->value("process.numa_bytes", "rank0/node0");
      if (value != kMissing) return value;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return kMissing;
  }
  /// Seconds until the next reading keeps to a thousandth of a core.
  [[nodiscard]] std::int64_t pause() const {
    return sink_.find("process/numa_walk")->value("process.numa_walk", "rank0") / 1'000'000 + 1;
  }
  [[nodiscard]] const FamilySpec& spec() const { return sink_.find("process/numa")->spec(); }

 private:
  KernelTree fs_;
  TraceSink sink_;
  Host constants_ = Host::look(fs_);
  Job job_{fs_, constants_, JobSource{.pid = 50}, 0};
  ProcessSlots slots_{fs_, job_, sink_};
  ReadingPace pace_;
  ProbeContext context_{.fs = fs_,
                        .host = constants_,
                        .sink = sink_,
                        .period = std::chrono::seconds(10),
                        .job = &job_,
                        .slots = &slots_,
                        .probe = "process_numa",
                        .faster = std::chrono::seconds(1),
                        .pace = &pace_};
  std::unique_ptr<Probe> probe_;
};

class ProcessNumaPace : public testing::Test {
 protected:
  ProcessNumaPace() {
    host_.write("/sys/devices/system/node/node0/numastat", "numa_hit 1\n");
    host_.write("/sys/devices/system/node/node1/numastat", "numa_hit 1\n");
    host_.process(50, 1, "solver", 10, 5);
    host_.last_pid(50);
    has_pages(3);
  }
  void has_pages(int pages) {
    const std::string number = std::to_string(pages);
    host_.write("/proc/50/numa_maps", "00600000 default anon=" + number + " N0=" + number + " kernelpagesize_kB=4\n");
  }

  static constexpr int kPatience = 2000;
  TestHost host_;
};

TEST_F(ProcessNumaPace, RequestsTheNextReadingWithTheAnswerOfTheLastOne) {
  PacedProbe probe(host_);
  EXPECT_EQ(probe.value_at(10, {}, 1), kMissing);
  ASSERT_EQ(probe.value_at(20, {}, kPatience), 3 * 4096);
  EXPECT_EQ(probe.value_at(21, {}, kPatience), 3 * 4096);
}

TEST_F(ProcessNumaPace, IsReadFasterWhileSomethingIsUnusualButNotBeyondItsShareOfACore) {
  PacedProbe probe(host_);
  EXPECT_EQ(probe.spec().faster, std::chrono::seconds(1));
  EXPECT_EQ(probe.spec().clock, "process_numa");
  ASSERT_EQ(probe.value_at(10, {}, kPatience), 3 * 4096);
  const std::int64_t due = 10 + probe.pause();
  EXPECT_EQ(probe.value_at(10, {.faster = true, .extra = true}, 20), kMissing);
  has_pages(5);
  EXPECT_EQ(probe.value_at(due, {.faster = true, .extra = true}, kPatience), 5 * 4096);
}

TEST(ProcessNuma, IsAbsentWhereThereIsNothingToPlace) {
  TestHost host;
  host.write("/sys/devices/system/node/node0/numastat", "numa_hit 1\n");
  host.process(50, 1, "solver", 10, 5);
  host.last_pid(50);
  const ProbeBench bench(host, "process_numa", JobSource{.pid = 50});
  EXPECT_EQ(bench.coverage().reason, "with one NUMA node all memory is on it");
}

}  // namespace
}  // namespace reveal::tests::process_numa_test
