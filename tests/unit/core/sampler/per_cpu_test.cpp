// Hosts with too many cpus for one channel each: few channels that keep the sum, the spread and the extreme cpu.
#include "core/sampler/per_cpu.h"

#include <gtest/gtest.h>

#include <functional>

#include "core/sampler/pace.h"
#include "test_host.h"

namespace reveal::tests::per_cpu_test {
namespace {

constexpr int kCpus = 128;

std::string column_heads(int cpus) {
  std::string text = "          ";
  for (int cpu = 0; cpu < cpus; ++cpu) text += " CPU" + std::to_string(cpu);
  return text + '\n';
}

std::string row(const std::string& name, int cpus, const std::function<int(int)>& value) {
  std::string text = name + ':';
  for (int cpu = 0; cpu < cpus; ++cpu) text += ' ' + std::to_string(value(cpu));
  return text + '\n';
}

void of_size(const TestHost& host, int cpus) {
  host.write("/sys/devices/system/cpu/online", "0-" + std::to_string(cpus - 1) + '\n');
}

void packets(const TestHost& host, int each, int of_cpu_5) {
  host.write("/proc/softirqs",
             column_heads(kCpus) + row("NET_RX", kCpus, [&](int cpu) { return cpu == 5 ? of_cpu_5 : each; }));
}

std::int64_t packets_of(const ProbeBench& bench, const std::string& metric, const std::string& instance) {
  return bench.value("interrupts/softirqs", "softirq.NET_RX" + metric, instance);
}

TEST(PerCpu, OnManyCpusIsTheSumTheSpreadAndTheBusiest) {
  TestHost host;
  of_size(host, kCpus);
  packets(host, 100, 100);
  ProbeBench bench(host, "softirqs");
  packets(host, 101, 150);
  bench.sample();
  EXPECT_EQ(packets_of(bench, "", "other_cpus"), 127 + 50);
  EXPECT_EQ(packets_of(bench, "_max", "other_cpus"), 50);
  EXPECT_EQ(packets_of(bench, "_spread", "other_cpus"), 4);  // root mean square of 127 ones and a fifty: 4.31
  EXPECT_EQ(bench.value("interrupts/softirq_places", "softirq.NET_RX_max_cpu", "other_cpus"), 5);
}

TEST(PerCpu, TheSumOverAllChannelsOfAMetricStaysTheNodesWhenTheBusiestGetsItsOwn) {
  TestHost host;
  of_size(host, kCpus);
  packets(host, 100, 100);
  ProbeBench bench(host, "softirqs");
  packets(host, 101, 150);
  bench.sample();
  EXPECT_EQ(packets_of(bench, "", "cpu5"), 150);
  packets(host, 103, 160);
  bench.sample();
  EXPECT_EQ(packets_of(bench, "", "cpu5"), 160);                       // 10 more
  EXPECT_EQ(packets_of(bench, "", "other_cpus"), 127 + 50 + 2 * 127);  // 254 more: of the others
  EXPECT_EQ(packets_of(bench, "_max", "other_cpus"), 50 + 10);         // over all cpus
  EXPECT_EQ(bench.value("interrupts/softirq_places", "softirq.NET_RX_max_cpu", "other_cpus"), 5);
}

TEST(PerCpu, WhereNothingHappenedNobodyWasTheBusiest) {
  TestHost host;
  of_size(host, kCpus);
  packets(host, 100, 100);
  ProbeBench bench(host, "softirqs");
  packets(host, 100, 101);
  bench.sample();
  bench.sample();  // the same again
  EXPECT_EQ(packets_of(bench, "_max", "other_cpus"), 1);
  EXPECT_EQ(bench.value("interrupts/softirq_places", "softirq.NET_RX_max_cpu", "other_cpus"), kMissing);
}

TEST(PerCpu, ACpuThatWasAwayOrFellBackAddsNothing) {
  TestHost host;
  of_size(host, kCpus);
  const auto stat = [&](int away, int fallen, int ticks) {
    std::string text;
    for (int cpu = 0; cpu < kCpus; ++cpu) {
      if (cpu == away) continue;
      text += "cpu" + std::to_string(cpu) + ' ' + std::to_string(cpu == fallen ? 1 : ticks) + " 0 0 0 0 0 0 0 0 0\n";
    }
    host.write("/proc/stat", text);
  };
  stat(-1, -1, 100);
  ProbeBench bench(host, "cpu");
  stat(7, -1, 101);
  bench.sample();
  EXPECT_EQ(bench.value("cpu/times", "cpu.user", "other_cpus"), 127 * 10'000'000LL);
  stat(-1, -1, 102);  // cpu 7 is back: its work meanwhile is not known
  bench.sample();
  EXPECT_EQ(bench.value("cpu/times", "cpu.user", "other_cpus"), 2 * 127 * 10'000'000LL);
  stat(-1, 9, 103);
  bench.sample();
  EXPECT_EQ(bench.value("cpu/times", "cpu.user", "other_cpus"), 3 * 127 * 10'000'000LL);
  EXPECT_EQ(bench.value("cpu/times", "cpu.user_spread", "other_cpus"), 0);
  host.write("/proc/stat", "");
  bench.sample();
  EXPECT_EQ(bench.value("cpu/times", "cpu.user", "other_cpus"), kMissing);
}

TEST(PerCpu, TheJobsCpusKeepTheirOwnChannels) {
  TestHost host;
  of_size(host, kCpus);
  host.process(50, 1, "solver", 10, 5);
  host.last_pid(50);
  host.write("/proc/50/cgroup", "0::/job\n");
  host.write("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
  host.write("/sys/fs/cgroup/job/cpuset.cpus.effective", "0-1\n");
  std::string text;
  for (int cpu = 0; cpu < kCpus; ++cpu) text += "cpu" + std::to_string(cpu) + " 7 0 0 0 0 0 0 0 0 0\n";
  host.write("/proc/stat", text);
  ProbeBench bench(host, "cpu", JobSource{.pid = 50});
  bench.sample();
  EXPECT_EQ(bench.value("cpu/times", "cpu.user", "cpu1"), 70'000'000);
  EXPECT_EQ(bench.value("cpu/times", "cpu.user", "cpu2"), kMissing);
  EXPECT_EQ(bench.value("cpu/times", "cpu.user", "other_cpus"), 0);
  for (const ChannelKey& key : bench.family("cpu/times").channels()) {
    EXPECT_EQ(key.role, key.instance == "other_cpus" ? "node" : "job") << key.metric;
  }
}

TEST(PerCpu, AJobOnAllCpusOfALargeHostIsOneGroupInTimesAndInItsMask) {
  TestHost host;
  of_size(host, kCpus);
  host.process(50, 1, "solver", 10, 5);
  host.write("/proc/50/status", "Name:\tsolver\nTgid:\t50\nCpus_allowed_list:\t0-127\n");
  host.last_pid(50);
  ProbeBench mask(host, "job_cpus", JobSource{.pid = 50});
  mask.sample();
  EXPECT_EQ(mask.family("job/cpu_allowed").channels().size(), 1U);
  EXPECT_EQ(mask.value("job/cpu_allowed", "job.cpu_allowed", "job_cpus"), 1);
  EXPECT_EQ(mask.value("job/cpus", "job.cpus_allowed"), 128);
  host.write("/proc/50/status", "Name:\tsolver\nTgid:\t50\nCpus_allowed_list:\t0-63\n");
  mask.sample();
  EXPECT_EQ(mask.value("job/cpu_allowed", "job.cpu_allowed", "job_cpus"), kMissing) << "some of them";
  EXPECT_EQ(mask.value("job/cpus", "job.cpus_allowed"), 64);
}

TEST(PerCpu, LevelsHaveAMeanAndBothExtremes) {
  TestHost host;
  of_size(host, kCpus);
  for (int cpu = 0; cpu < kCpus; ++cpu) {
    host.write("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cpufreq/scaling_cur_freq",
               cpu == 3 ? "800000\n" : "2600000\n");
  }
  ProbeBench bench(host, "cpu_frequency");
  bench.sample();
  EXPECT_EQ(bench.value("cpu/frequency", "cpu.frequency", "other_cpus"), 2'585'937'500);
  EXPECT_EQ(bench.value("cpu/frequency", "cpu.frequency_min", "other_cpus"), 800'000'000);
  EXPECT_EQ(bench.value("cpu/frequency", "cpu.frequency_max", "other_cpus"), 2'600'000'000);
  EXPECT_EQ(bench.value("cpu/frequency_places", "cpu.frequency_min_cpu", "other_cpus"), 3);
}

TEST(PerCpu, AHundredThousandInterruptCellsBecomeAFewThousandChannels) {
  constexpr int kMany = 1152;
  constexpr int kVectors = 600;
  TestHost host;
  of_size(host, kMany);
  const auto write = [&](int tick) {
    std::string text = column_heads(kMany);
    for (int vector = 0; vector < kVectors; ++vector) {
      text += row(std::to_string(100 + vector), kMany,
                  [&](int cpu) { return cpu == (vector + tick) % kMany ? 9 * tick : 0; });
    }
    text += row("LOC", kMany, [&](int cpu) { return 100 * tick + cpu; });
    host.write("/proc/interrupts", text);
  };
  write(1);
  ProbeBench bench(host, "interrupts");
  for (int tick = 2; tick < 8; ++tick) {
    write(tick);
    bench.sample();
  }
  const Family& counts = bench.family("interrupts/per_cpu");
  EXPECT_LE(counts.channels().size(), 256U * (3 + 4) + 3 + 256 + 32);  // whatever happens
  EXPECT_GE(counts.channels().size(), 256U * 3);                       // each of them moved from cpu to cpu
  EXPECT_GT(bench.value("interrupts/per_cpu", "irq.others", "other_cpus"), 0);
  EXPECT_NE(bench.value("interrupts/places", "irq.others_max_cpu", "other_cpus"), kMissing);
}

TEST(PerCpu, AllFamiliesOfALargeHostStayBelowAFewThousandChannels) {
  constexpr int kMany = 1152;
  TestHost host;
  of_size(host, kMany);
  const auto write = [&](int tick) {
    std::string stat, softnet;
    for (int cpu = 0; cpu < kMany; ++cpu) {
      stat += "cpu" + std::to_string(cpu);
      for (int use = 0; use < 10; ++use) stat += ' ' + std::to_string(tick * (cpu % 7 + use + 1));
      stat += '\n';
      softnet += "0000000" + std::to_string(tick) + " 00000000 00000000\n";
    }
    host.write("/proc/stat", stat);
    host.write("/proc/net/softnet_stat", softnet);
    std::string softirqs = column_heads(kMany);
    for (const char* kind :
         {"HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"}) {
      softirqs += row(kind, kMany, [&](int cpu) { return tick * (cpu % 5 + 1); });
    }
    host.write("/proc/softirqs", softirqs);
  };
  write(1);
  KernelTree fs(host.root());
  fs.limit_kept_files(0);
  TraceSink sink;
  Sampler sampler(fs, sink, {.probes = {"cpu", "softirqs", "softnet"}}, {1, 1});
  sampler.look_first();
  for (int tick = 2; tick < 6; ++tick) {
    write(tick);
    sampler.sample({.time = {tick, tick}, .number = tick * 100});
  }
  EXPECT_GT(sink.channels(), 40U);
  EXPECT_LT(sink.channels(), 400U);
}

TEST(Pace, KeepsATextWithinItsShareOfACore) {
  using namespace std::chrono_literals;
  EXPECT_EQ(paced(2, 10us), 100ms);
  EXPECT_EQ(paced(30, 10us), 100ms);
  EXPECT_EQ(paced(128, 10us), 500ms);   // 1.28 ms each: 0.26 %
  EXPECT_EQ(paced(1152, 10us), 5s);     // 11.5 ms each: 0.23 %
  EXPECT_EQ(paced(100'000, 1ms), 30s);  // and never less often
}

}  // namespace
}  // namespace reveal::tests::per_cpu_test
