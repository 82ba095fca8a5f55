#include <gtest/gtest.h>

#include "test_host.h"

namespace reveal {
namespace {

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
}  // namespace reveal
