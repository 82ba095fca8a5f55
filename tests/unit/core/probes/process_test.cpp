#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::process_test {
namespace {

TEST(Slots, KeepCountingWhenTheirProcessChanges) {
  TestHost host;
  host.last_pid(510);
  host.process(500, 1, "root", 1, 0);
  host.process(510, 500, "step1", 100, 0);
  host.write("/proc/510/task/510/schedstat", "1000 200 3\n");
  ProbeBench bench(host, "process", JobSource{.pid = 500});
  bench.sample();
  EXPECT_EQ(bench.value("process/cpu", "process.cpu_time", "slot1"), 0);
  host.process(510, 500, "step1", 130, 0);
  host.write("/proc/510/task/510/schedstat", "5000 900 3\n");
  bench.sample();
  EXPECT_EQ(bench.value("process/cpu", "process.cpu_time", "slot1"), 30 * kTick);
  EXPECT_EQ(bench.value("process/cpu", "process.wait_time", "slot1"), 700);
  EXPECT_EQ(bench.value("process/cpu", "process.run_time", "slot1"), 4000);
  EXPECT_EQ(bench.value("process/memory", "process.rss", "slot1"), 50 * 4096);
  host.remove("/proc/510");
  host.process(511, 500, "step2", 7000, 0);
  host.last_pid(511);
  host.write("/proc/511/task/511/schedstat", "90000 80000 3\n");
  bench.sample();
  EXPECT_EQ(bench.value("process/cpu", "process.cpu_time", "slot1"), kMissing);
  host.process(511, 500, "step2", 7005, 0);
  host.write("/proc/511/task/511/schedstat", "90010 80001 3\n");
  bench.sample();
  EXPECT_EQ(bench.value("process/cpu", "process.cpu_time", "slot1"), 35 * kTick);
  EXPECT_EQ(bench.value("process/cpu", "process.wait_time", "slot1"), 701);
  EXPECT_EQ(bench.value("process/faults", "process.minor_faults", "rank0"), 0);
}

TEST(Slots, AreLeftByAProcessThatBecomesAProgramOfReveal) {
  TestHost host;
  host.last_pid(511);
  host.process(500, 1, "root", 1, 0);
  host.process(510, 500, "bash", 100, 0);
  ProbeBench bench(host, "process", JobSource{.pid = 500});
  bench.sample();
  EXPECT_EQ(bench.value("process/cpu", "process.cpu_time", "slot1"), 0);
  host.process(510, 500, "reveal-run", 130, 0);
  bench.sample();
  EXPECT_EQ(bench.value("process/cpu", "process.cpu_time", "slot1"), kMissing);
  host.last_pid(512);
  host.process(512, 510, "solver", 40, 0);
  bench.sample();
  host.process(512, 510, "solver", 44, 0);
  bench.sample();
  EXPECT_EQ(bench.value("process/cpu", "process.cpu_time", "slot1"), 4 * kTick);
}

TEST(Slots, FollowWhatTheirProcessReadsAndWrites) {
  TestHost host;
  host.last_pid(500);
  host.process(500, 1, "root", 1, 0);
  const auto write = [&](int bytes) {
    const std::string text = std::to_string(bytes);
    host.write("/proc/500/io", "rchar: " + text + "00\nwchar: 7\nsyscr: " + text + "\nsyscw: 9\nread_bytes: " + text +
                                   "0\nwrite_bytes: 4096\ncancelled_write_bytes: 5\n");
  };
  write(10);
  ProbeBench bench(host, "process", JobSource{.pid = 500});
  bench.sample();  // before it, whatever the process did, it did without us
  write(25);
  bench.sample();
  EXPECT_EQ(bench.value("process/io", "process.read_by_calls", "rank0"), 1500);
  EXPECT_EQ(bench.value("process/io", "process.read_bytes", "rank0"), 150);
  EXPECT_EQ(bench.value("process/io", "process.write_bytes", "rank0"), 0);
  EXPECT_EQ(bench.value("process/io_calls", "process.reads", "rank0"), 15);
  EXPECT_EQ(bench.value("process/io_calls", "process.writes", "rank0"), 0);
}

TEST(Slots, CountOnceWhatAProcessWroteThatItsParentWaitedFor) {
  TestHost host;
  const auto write = [&](int pid, int written) {
    host.write("/proc/" + std::to_string(pid) + "/io", "rchar: 0\nwchar: 0\nsyscr: 0\nsyscw: 0\nread_bytes: 0\n" +
                                                           ("write_bytes: " + std::to_string(written)) + "\n");
  };
  host.last_pid(500);
  host.process(500, 1, "root", 1, 0);
  write(500, 0);
  ProbeBench bench(host, "process", JobSource{.pid = 500});
  bench.sample();
  host.process(510, 500, "dd", 1, 0);
  host.last_pid(510);
  write(510, 4000);
  bench.sample();  // the base of the child: it was not seen to write these
  write(510, 9000);
  bench.sample();
  EXPECT_EQ(bench.value("process/io", "process.write_bytes", "slot1"), 5000);
  EXPECT_EQ(bench.value("process/io", "process.write_bytes", "rank0"), 0);
  // It wrote a little more and was waited for: 5,000 are counted, the rest is not.
  host.remove("/proc/510");
  write(500, 10'000);
  bench.sample();
  EXPECT_EQ(bench.value("process/io", "process.write_bytes", "rank0"), 5000);
  // The parent's own writes count in full.
  write(500, 17'000);
  bench.sample();
  EXPECT_EQ(bench.value("process/io", "process.write_bytes", "rank0"), 12'000);
}

TEST(Slots, CountFromTheirBirthProcessesThatBeganWhileRecorded) {
  TestHost host;
  host.collector_since(200);
  host.process(500, 1, "root", 50, 0, 0, 100);
  host.io(500, 70);
  host.last_pid(500);
  ProbeBench bench(host, "process", JobSource{.pid = 500});
  bench.sample();
  host.process(510, 500, "dd", 6, 1, 0, 300);
  host.write("/proc/510/task/510/schedstat", "64 5 3\n");
  host.io(510, 4000);
  host.last_pid(510);
  bench.sample();
  EXPECT_EQ(bench.value("process/cpu", "process.cpu_time", "slot1"), 7 * kTick);
  EXPECT_EQ(bench.value("process/cpu", "process.run_time", "slot1"), 64);
  EXPECT_EQ(bench.value("process/cpu", "process.wait_time", "slot1"), 5);
  EXPECT_EQ(bench.value("process/io", "process.write_bytes", "slot1"), 4000);
  EXPECT_EQ(bench.value("process/faults", "process.minor_faults", "slot1"), 11);
  EXPECT_EQ(bench.value("process/io", "process.write_bytes", "rank0"), 0);  // it wrote its 70 before
  EXPECT_EQ(bench.value("process/cpu", "process.cpu_time", "rank0"), 0);
  host.remove("/proc/510");
  host.process(511, 500, "dd", 2, 0, 0, 310);
  host.io(511, 1000);
  host.last_pid(511);
  bench.sample();
  EXPECT_EQ(bench.value("process/io", "process.write_bytes", "slot1"), 5000);
  EXPECT_EQ(bench.value("process/cpu", "process.cpu_time", "slot1"), 9 * kTick);
  host.remove("/proc/511");
  host.process(512, 500, "adopted", 90, 0, 0, 199);  // older than the collector
  host.io(512, 9000);
  host.last_pid(512);
  bench.sample();
  EXPECT_EQ(bench.value("process/io", "process.write_bytes", "slot1"), kMissing);
  bench.sample();
  EXPECT_EQ(bench.value("process/io", "process.write_bytes", "slot1"), 5000);
}

TEST(Slots, CountFromTheirBirthContextSwitches) {
  TestHost host;
  host.collector_since(200);
  host.process(500, 1, "root", 1, 0);
  host.last_pid(500);
  ProbeBench bench(host, "process_status", JobSource{.pid = 500});
  host.process(510, 500, "new", 1, 0, 0, 300);
  host.last_pid(510);
  bench.sample();
  EXPECT_EQ(bench.value("process/switches", "process.involuntary_switches", "slot1"), kMissing);  // may end at once
  bench.sample();
  EXPECT_EQ(bench.value("process/switches", "process.involuntary_switches", "slot1"), 7);
  EXPECT_EQ(bench.value("process/switches", "process.involuntary_switches", "rank0"), 0);
}

TEST(Slots, MeasureMemoryThatIsNotOfFiles) {
  TestHost host;
  host.process(500, 1, "root", 1, 0);
  host.last_pid(500);
  ProbeBench bench(host, "process_status", JobSource{.pid = 500});
  bench.sample();
  EXPECT_EQ(bench.value("process/memory_kinds", "process.rss_anon", "rank0"), kMissing) << "an old kernel";
  host.write("/proc/500/status", "VmRSS:\t    5000 kB\nRssAnon:\t    1200 kB\nRssFile:\t    3800 kB\n");
  bench.sample();
  EXPECT_EQ(bench.value("process/memory_kinds", "process.rss_anon", "rank0"), 1200 * 1024);
}

/// The first row of a trace has the start values.
TEST(Slots, BeginAtZeroWithAProcessThatIsThereAtTheFirstLook) {
  TestHost host;
  host.collector_since(200);
  host.process(500, 1, "dd", 8, 0, 0, 200);
  host.write("/proc/500/task/500/schedstat", "80 6 3\n");
  host.io(500, 4000);
  host.last_pid(500);
  ProbeBench job(host, "job", JobSource{.pid = 500});
  ProbeBench bench(host, "process", JobSource{.pid = 500});
  EXPECT_EQ(job.value("job/cpu", "job.cpu_time"), 0);
  EXPECT_EQ(job.value("job/cpu", "job.wait_time"), 0);
  EXPECT_EQ(bench.value("process/cpu", "process.cpu_time", "rank0"), 0);
  EXPECT_EQ(bench.value("process/cpu", "process.run_time", "rank0"), 0);
  EXPECT_EQ(bench.value("process/io", "process.write_bytes", "rank0"), 0);
  job.sample();
  bench.sample();
  EXPECT_EQ(job.value("job/cpu", "job.cpu_time"), 8 * kTick);
  EXPECT_EQ(job.value("job/cpu", "job.wait_time"), 6);
  EXPECT_EQ(bench.value("process/cpu", "process.cpu_time", "rank0"), 8 * kTick);
  EXPECT_EQ(bench.value("process/cpu", "process.run_time", "rank0"), 80);
  EXPECT_EQ(bench.value("process/io", "process.write_bytes", "rank0"), 4000);
}

/// It ends between two looks, and only the launcher gets its counts.
TEST(Slots, CountWhatAProcessDidAfterItWasReadLastBehindItsLauncher) {
  TestHost host;
  host.collector_since(200);
  host.write("/run/rank.500", "0\n");
  host.write("/proc/500/stat", "500 (reveal-run) S 1 1 1 0 -1 4194304 11 0 22 0 1 0 0 0 20 0 1 0 100 1000000 50\n");
  host.process(510, 500, "dd", 1, 0, 0, 300);
  host.io(500, 90);
  host.io(500, 60, "/task/500");  // a child that was none of the job's has 30
  host.io(510, 4000);
  host.last_pid(510);
  ProbeBench bench(host, "process", JobSource{.directory = host.root() / "run"});
  bench.sample();
  EXPECT_EQ(bench.value("process/io", "process.write_bytes", "rank0"), 4000);
  host.remove("/proc/510");
  bench.sample();  // its parent has not waited for it
  EXPECT_EQ(bench.value("process/io", "process.write_bytes", "rank0"), kMissing);
  host.io(500, 90 + 5500 + 5);
  host.io(500, 65, "/task/500");
  bench.sample();
  EXPECT_EQ(bench.value("process/io", "process.write_bytes", "rank0"), 5500);
  bench.sample();
  EXPECT_EQ(bench.value("process/io", "process.write_bytes", "rank0"), kMissing);
}

/// A shell, the make it began, and make's compiler, which has written 4,000 bytes.
class SlotsOfAFamily : public testing::Test {
 protected:
  SlotsOfAFamily() {
    bench_.sample();
    host_.process(510, 500, "make", 1, 0, 0, 300);
    host_.process(511, 510, "cc", 1, 0, 0, 301);
    host_.io(510, 10);
    host_.io(511, 4000);
    host_.last_pid(511);
    bench_.sample();
  }
  static TestHost& with_shell(TestHost& host) {
    host.collector_since(200);
    host.process(500, 1, "sh", 1, 0, 0, 100);
    host.io(500, 0);
    host.last_pid(500);
    return host;
  }

  TestHost host_;
  ProbeBench bench_{with_shell(host_), "process", JobSource{.pid = 500}};
};

TEST_F(SlotsOfAFamily, CountOnceWhatWentThroughSeveralParents) {
  EXPECT_EQ(bench_.value("process/io", "process.write_bytes", "slot2"), 4000);
  host_.remove("/proc/511");
  host_.io(510, 10 + 4100);
  bench_.sample();
  EXPECT_EQ(bench_.value("process/io", "process.write_bytes", "slot1"), 110);
  host_.remove("/proc/510");
  host_.io(500, 4110 + 7);
  bench_.sample();
  EXPECT_EQ(bench_.value("process/io", "process.write_bytes", "rank0"), 7);
}

TEST_F(SlotsOfAFamily, CountOnceWhatAFamilyDidThatEndsBetweenTwoLooks) {
  host_.remove("/proc/510");
  host_.remove("/proc/511");
  host_.io(500, 10 + 50 + 4000 + 50 + 7);
  bench_.sample();
  EXPECT_EQ(bench_.value("process/io", "process.write_bytes", "rank0"), 50 + 50 + 7);
}

TEST(Slots, KeepInTheSumWhatAProcessWaitedThatCannotBeReadAnyMore) {
  TestHost host;
  host.last_pid(510);
  host.process(500, 1, "root", 1, 0);
  host.process(510, 500, "worker", 100, 0);
  host.write("/proc/500/task/500/schedstat", "10 20 3\n");
  host.write("/proc/510/task/510/schedstat", "1000 200 3\n");
  ProbeBench bench(host, "job", JobSource{.pid = 500});
  host.write("/proc/510/task/510/schedstat", "5000 900 3\n");
  bench.sample();
  EXPECT_EQ(bench.value("job/cpu", "job.wait_time"), 700);
  host.remove("/proc/510/task");  // it ends between the reading of its times and of its threads
  host.write("/proc/500/task/500/schedstat", "10 25 3\n");
  bench.sample();
  EXPECT_EQ(bench.value("job/cpu", "job.wait_time"), 705);
  host.remove("/proc/510");
  bench.sample();
  EXPECT_EQ(bench.value("job/cpu", "job.wait_time"), 705);
}

TEST(Slots, DoNotMeasureWaitingWhereTheKernelDoesNot) {
  TestHost host;
  host.last_pid(510);
  host.process(500, 1, "root", 1, 0);
  host.process(510, 500, "worker", 100, 0);
  ProbeBench bench(host, "job", JobSource{.pid = 500});
  host.remove("/proc/510");
  bench.sample();
  bench.sample();
  EXPECT_EQ(bench.value("job/cpu", "job.wait_time"), kMissing);
}

}  // namespace
}  // namespace reveal::tests::process_test
