#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::snmp_test {
namespace {

TEST(Snmp, PairsNamesWithValuesAndKeepsSettingsOut) {
  TestHost host;
  host.write("/proc/net/snmp",
             "Ip: Forwarding DefaultTTL InReceives\nIp: 2 64 3567\nTcp: MaxConn CurrEstab RetransSegs\nTcp: -1 4 17\n");
  ProbeBench bench(host, "snmp");
  bench.sample();
  EXPECT_EQ(bench.value("network/snmp", "ip.InReceives"), 3567);
  EXPECT_EQ(bench.value("network/snmp", "tcp.RetransSegs"), 17);
  EXPECT_EQ(bench.value("network/snmp_levels", "tcp.CurrEstab"), 4);
  EXPECT_EQ(bench.family("network/snmp").channels().size(), 2U);
  // A protocol that appears, values cut off, and a value line of another protocol.
  host.write("/proc/net/snmp",
             "Udp: InDatagrams RcvbufErrors\nUdp: 3\nTcp: MaxConn CurrEstab RetransSegs\nIp: 9 9 9\n");
  bench.sample();
  EXPECT_EQ(bench.value("network/snmp", "udp.InDatagrams"), 3);
  EXPECT_EQ(bench.value("network/snmp", "udp.RcvbufErrors"), kMissing);
  EXPECT_EQ(bench.value("network/snmp", "tcp.RetransSegs"), kMissing);
}

TEST(Netstat, MatchesValuesToTheNamesOfTheLineAbove) {
  TestHost host;
  host.write("/proc/net/netstat",
             "TcpExt: SyncookiesSent TCPOFOQueue TCPTimeouts\nTcpExt: 0 41 7\nIpExt: InOctets\nIpExt: 123456\n");
  ProbeBench bench(host, "netstat");
  bench.sample();
  EXPECT_EQ(bench.value("network/netstat", "tcpext.TCPOFOQueue"), 41);
  EXPECT_EQ(bench.value("network/netstat", "tcpext.TCPTimeouts"), 7);
  EXPECT_EQ(bench.value("network/netstat", "ipext.InOctets"), 123456);
  host.write("/proc/net/netstat", "TcpExt: SyncookiesSent TCPOFOQueue TCPTimeouts\nTcpExt: 0 42\n");  // cut off
  bench.sample();
  EXPECT_EQ(bench.value("network/netstat", "tcpext.TCPOFOQueue"), 42);
  EXPECT_EQ(bench.value("network/netstat", "tcpext.TCPTimeouts"), kMissing);
}

}  // namespace
}  // namespace reveal::tests::snmp_test
