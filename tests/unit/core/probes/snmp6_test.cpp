#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::snmp6_test {
namespace {

TEST(Snmp6, NamesFieldsAsTheKernelDoes) {
  TestHost host;
  host.write("/proc/net/snmp6",
             "Ip6InReceives                   \t120\nIcmp6OutType133                 \t1\n"
             "UdpLite6InDatagrams             \t0\nUdp6RcvbufErrors                \t4\nodd 9\n");
  ProbeBench bench(host, "snmp6");
  bench.sample();
  EXPECT_EQ(bench.value("network/snmp6", "ip6.InReceives"), 120);
  EXPECT_EQ(bench.value("network/snmp6", "icmp6.OutType133"), 1);
  EXPECT_EQ(bench.value("network/snmp6", "udplite6.InDatagrams"), 0);
  EXPECT_EQ(bench.value("network/snmp6", "udp6.RcvbufErrors"), 4);
  EXPECT_EQ(bench.family("network/snmp6").channels().size(), 4U);
  host.write("/proc/net/snmp6", "Ip6InReceives                   \t1200\nUdp6InErrors                    \t7\n");
  bench.sample();
  EXPECT_EQ(bench.value("network/snmp6", "ip6.InReceives"), 1200);
  EXPECT_EQ(bench.value("network/snmp6", "udp6.InErrors"), 7);
  EXPECT_EQ(bench.value("network/snmp6", "udp6.RcvbufErrors"), kMissing);
}

}  // namespace
}  // namespace reveal::tests::snmp6_test
