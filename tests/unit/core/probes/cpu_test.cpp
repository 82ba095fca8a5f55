#include <gtest/gtest.h>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/trace_reader.h"
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

TEST(Cpu, TellsOnceWhichCpusAreOnlineWhenOneGoesOrComes) {
  const TestHost host;
  const auto show = [&host](const std::string& cpus) {
    std::string text = "cpu  9 0 0 0 0 0 0 0 0 0\n";
    for (const char cpu : cpus) text += std::string("cpu") + cpu + " 1 0 0 0 0 0 0 0 0 0\n";
    host.write("/proc/stat", text + "ctxt 777\n");
  };
  show("0123");
  const std::filesystem::path path = host.root() / "n01.h5";
  {
    TraceWriter writer(path, {.node = "n01", .interval = std::chrono::seconds(1)}, {.waits = true});
    TraceSink sink(&writer);
    KernelTree fs(host.root());
    fs.limit_kept_files(0);
    Sampler sampler(fs, sink, {.interval = std::chrono::seconds(1), .probes = {"cpu"}}, {kSecond, kSecond});
    sampler.look_first();
    writer.start();
    std::int64_t second = 1;
    for (const char* cpus : {"0123", "023", "023", "", "023", "0123"}) {
      show(cpus);
      sampler.sample({.time = {.monotonic_ns = ++second * kSecond}, .number = second});
    }
    sampler.close();
    writer.close();
  }
  std::vector<std::string> told;
  for (const Event& event : TraceReader(path).events())
    told.push_back(event.object + ' ' + event.code + ' ' + event.text);
  EXPECT_EQ(told, (std::vector<std::string>{"cpus cpus_online 0,2-3", "cpus cpus_online 0-3"}));
}

TEST(Cpu, IsAbsentWithAReasonWhereItsTextIsMissing) {
  const TestHost host;
  const ProbeBench bench(host, "cpu");
  EXPECT_EQ(bench.coverage().state, Coverage::State::absent);
  EXPECT_NE(bench.coverage().reason.find("/proc/stat: No such file"), std::string::npos) << bench.coverage().reason;
}

}  // namespace
}  // namespace reveal::tests::cpu_test
