#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::interrupts_test {
namespace {

TEST(Interrupts, MakesOneChannelPerSourceAndCpu) {
  TestHost host;
  host.write("/proc/interrupts",
             "           CPU0       CPU1       \n  24:          1          2  IO-APIC   5-edge      eth0 0\n"
             " LOC:      21845      17578   Local timer interrupts\n ERR:          3\n");
  ProbeBench bench(host, "interrupts");
  bench.sample();
  EXPECT_EQ(bench.family("interrupts/per_cpu").channels().size(), 5U);
  EXPECT_EQ(bench.value("interrupts/per_cpu", "irq.24", "cpu1"), 2);
  EXPECT_EQ(bench.value("interrupts/per_cpu", "irq.LOC", "cpu0"), 21845);
  EXPECT_EQ(bench.value("interrupts/per_cpu", "irq.ERR"), 3);  // the sum of all cpus
}

TEST(Interrupts, MakeNoChannelBeforeTheyHappen) {
  TestHost host;
  host.write("/proc/interrupts",
             "           CPU0       CPU1       \n  24:          0          2  eth0\n MIS:          0\n");
  ProbeBench bench(host, "interrupts");
  EXPECT_EQ(bench.family("interrupts/per_cpu").channels().size(), 1U);
  host.write("/proc/interrupts",
             "           CPU0       CPU1       \n  24:          5          2  eth0\n MIS:          1\n");
  bench.sample();
  EXPECT_EQ(bench.family("interrupts/per_cpu").channels().size(), 3U);
  EXPECT_EQ(bench.value("interrupts/per_cpu", "irq.24", "cpu0"), 5);
  EXPECT_EQ(bench.value("interrupts/per_cpu", "irq.MIS"), 1);
}

TEST(Interrupts, FollowsACpuThatGoesOffLine) {
  TestHost host;
  host.write("/proc/softirqs", "                    CPU0       CPU1\n      NET_RX:       10         20\n");
  ProbeBench bench(host, "softirqs");
  host.write("/proc/softirqs", "                    CPU1\n      NET_RX:       25\n");
  bench.sample();
  EXPECT_EQ(bench.value("interrupts/softirqs", "softirq.NET_RX", "cpu0"), kMissing);
  EXPECT_EQ(bench.value("interrupts/softirqs", "softirq.NET_RX", "cpu1"), 25);
  EXPECT_EQ(bench.family("interrupts/softirqs").channels().size(), 2U);
}

}  // namespace
}  // namespace reveal::tests::interrupts_test
