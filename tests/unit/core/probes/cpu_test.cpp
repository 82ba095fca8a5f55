#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::cpu_test {
namespace {

TEST(Cpu, CountsNanosecondsPerCpuAndLeavesOutTheSum) {
  TestHost host;
  host.write("/proc/stat",
             "cpu  30 0 20 400 0 0 0 0 0 0\ncpu0 10 1 2 3 4 5 6 7 8 9\ncpu1 20 0 0 100 0 0 0 0 0 0\n"
             "intr 12345 0 1 2\nctxt 777\nbtime 1700000000\nprocesses 99\nprocs_running 3\nprocs_blocked 1\n"
             "softirq 555 1 2 3\n");
  ProbeBench bench(host, "cpu");
  bench.sample();
  EXPECT_EQ(bench.family("cpu/times").channels().size(), 20U);
  EXPECT_EQ(bench.value("cpu/times", "cpu.user", "cpu0"), 100'000'000);
  EXPECT_EQ(bench.value("cpu/times", "cpu.guest_nice", "cpu0"), 90'000'000);
  EXPECT_EQ(bench.value("cpu/times", "cpu.idle", "cpu1"), 1'000'000'000);
  EXPECT_EQ(bench.value("cpu/activity", "cpu.interrupts"), 12345);
  EXPECT_EQ(bench.value("cpu/activity", "cpu.context_switches"), 777);
  EXPECT_EQ(bench.value("cpu/activity", "cpu.forks"), 99);
  EXPECT_EQ(bench.value("cpu/activity", "cpu.softirqs"), 555);
  EXPECT_EQ(bench.value("cpu/run_queue", "cpu.procs_running"), 3);
  EXPECT_EQ(bench.value("cpu/run_queue", "cpu.procs_blocked"), 1);
}

TEST(Cpu, LeavesMissingWhatACutOffTextDoesNotSay) {
  TestHost host;
  host.write("/proc/stat", "cpu0 10 1 2 3 4 5 6 7 8 9\ncpu1 20 0 0 100\n");
  ProbeBench bench(host, "cpu");
  bench.sample();
  EXPECT_EQ(bench.value("cpu/times", "cpu.idle", "cpu1"), 1'000'000'000);
  EXPECT_EQ(bench.value("cpu/times", "cpu.iowait", "cpu1"), kMissing);
  EXPECT_EQ(bench.value("cpu/activity", "cpu.forks"), kMissing);
}

TEST(Cpu, GivesALaterCpuAChannelAndAVanishedOneNothing) {
  TestHost host;
  host.write("/proc/stat", "cpu0 1 0 0 0 0 0 0 0 0 0\n");
  ProbeBench bench(host, "cpu");
  host.write("/proc/stat", "cpu0 1 0 0 0 0 0 0 0 0 0\ncpu7 5 0 0 0 0 0 0 0 0 0\n");
  bench.sample();
  EXPECT_EQ(bench.value("cpu/times", "cpu.user", "cpu7"), 50'000'000);
  host.write("/proc/stat", "cpu7 6 0 0 0 0 0 0 0 0 0\n");
  bench.sample();
  EXPECT_EQ(bench.value("cpu/times", "cpu.user", "cpu0"), kMissing);
  EXPECT_EQ(bench.value("cpu/times", "cpu.user", "cpu7"), 60'000'000);
}

TEST(Cpu, IsAbsentWithAReasonWhereItsTextIsMissing) {
  const TestHost host;
  const ProbeBench bench(host, "cpu");
  EXPECT_EQ(bench.coverage().state, Coverage::State::absent);
  EXPECT_NE(bench.coverage().reason.find("/proc/stat: No such file"), std::string::npos) << bench.coverage().reason;
}

}  // namespace
}  // namespace reveal::tests::cpu_test
