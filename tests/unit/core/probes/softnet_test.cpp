#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::softnet_test {
namespace {

TEST(Softnet, ReadsHexadecimalColumnsWithAndWithoutTheCpuNumber) {
  TestHost host;
  host.write("/proc/net/softnet_stat",
             "000000ff 00000001 00000002 0 0 0 0 0 0 0 0 0 00000000\n"
             "00000010 00000000 00000000 0 0 0 0 0 0 0 0 0 00000005\n");
  ProbeBench bench(host, "softnet");
  bench.sample();
  EXPECT_EQ(bench.value("interrupts/softnet", "softnet.processed", "cpu0"), 255);
  EXPECT_EQ(bench.value("interrupts/softnet", "softnet.time_squeeze", "cpu0"), 2);
  EXPECT_EQ(bench.value("interrupts/softnet", "softnet.processed", "cpu5"), 16);
  host.write("/proc/net/softnet_stat", "00000100 0 0\n00000011 0 0\n");
  bench.sample();
  EXPECT_EQ(bench.value("interrupts/softnet", "softnet.processed", "cpu0"), 256);
  EXPECT_EQ(bench.value("interrupts/softnet", "softnet.processed", "cpu1"), 17);
}

TEST(Softnet, CountsSteeredAndLimitedPacketsAndTheBacklog) {
  TestHost host;
  // Linux 6.18: the cpu's number and its two queues at the end.
  host.write("/proc/net/softnet_stat",
             "1737d0fb 00000409 00000014 00000000 00000000 00000000 00000000 00000000 00000000 00003c53 00000002 "
             "00000007 00000000 00000004 00000003\n");
  ProbeBench bench(host, "softnet");
  bench.sample();
  EXPECT_EQ(bench.value("interrupts/softnet", "softnet.received_rps", "cpu0"), 0x3c53);
  EXPECT_EQ(bench.value("interrupts/softnet", "softnet.flow_limited", "cpu0"), 2);
  EXPECT_EQ(bench.value("interrupts/backlog", "softnet.backlog", "cpu0"), 7);
  host.write("/proc/net/softnet_stat", "00000001 00000000 00000000 0 0 0 0 0 0 0 00000000\n0 0 0\n");  // before 5.14
  bench.sample();
  EXPECT_EQ(bench.value("interrupts/softnet", "softnet.flow_limited", "cpu0"), 0);
  EXPECT_EQ(bench.value("interrupts/backlog", "softnet.backlog", "cpu0"), kMissing);
}

TEST(Softnet, GivesNoCpuThePacketsOfAnotherWhenOneGoesOffLine) {
  TestHost host;
  const std::string online = "/sys/devices/system/cpu/online";
  const auto lines = [&host](const std::vector<std::string>& processed) {  // before 5.14
    std::string text;
    for (const std::string& number : processed) text += number + " 0 0 0 0 0 0 0 0 0 0\n";
    host.write("/proc/net/softnet_stat", text);
  };
  host.write(online, "0-3\n");
  lines({"1000", "2000", "3000", "4000"});
  ProbeBench bench(host, "softnet");
  const auto processed = [&bench](const char* cpu) {
    return bench.value("interrupts/softnet", "softnet.processed", cpu);
  };
  bench.sample();
  EXPECT_EQ(processed("cpu1"), 0x2000);
  lines({"1000", "3010", "4010"});
  bench.sample();
  EXPECT_EQ(processed("cpu1"), kMissing) << "three lines, and four cpus";
  EXPECT_EQ(processed("cpu2"), kMissing);
  host.write(online, "0,2-3\n");
  bench.sample();
  EXPECT_EQ(processed("cpu2"), kMissing) << "in which of the two readings it changed is not known";
  bench.sample();
  EXPECT_EQ(processed("cpu0"), 0x1000);
  EXPECT_EQ(processed("cpu1"), kMissing);
  EXPECT_EQ(processed("cpu2"), 0x3010);
  EXPECT_EQ(processed("cpu3"), 0x4010);
}

}  // namespace
}  // namespace reveal::tests::softnet_test
