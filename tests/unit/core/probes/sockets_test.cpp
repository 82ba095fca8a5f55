#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::sockets_test {
namespace {

TEST(Sockets, CountsThemAndTheirMemoryInBytes) {
  TestHost host;
  host.write("/proc/net/sockstat",
             "sockets: used 11\nTCP: inuse 4 orphan 1 tw 2 alloc 6 mem 277\nUDP: inuse 3 mem 2\nUDPLITE: inuse 0\n"
             "FRAG: inuse 1 memory 640\n");
  ProbeBench bench(host, "sockets");
  bench.sample();
  EXPECT_EQ(bench.value("network/sockets", "sockets.used"), 11);
  EXPECT_EQ(bench.value("network/sockets", "sockets.tcp_orphan"), 1);
  EXPECT_EQ(bench.value("network/sockets", "sockets.tcp_tw"), 2);
  EXPECT_EQ(bench.value("network/socket_memory", "sockets.tcp_mem"), 277 * bench.sampler().host().page_bytes);
  EXPECT_EQ(bench.value("network/socket_memory", "sockets.frag_memory"), 640);
  EXPECT_EQ(bench.family("network/sockets").channels().size(), 8U);
  // IPv6 comes later, TCP's line is cut off, and a text that repeats is not parsed.
  host.write("/proc/net/sockstat6", "TCP6: inuse 5\nFRAG6: inuse 0 memory 0\n");
  host.write("/proc/net/sockstat", "sockets: used 12\nTCP: inuse 4 orphan");
  bench.sample();
  EXPECT_EQ(bench.value("network/sockets", "sockets.used"), 12);
  EXPECT_EQ(bench.value("network/sockets", "sockets.tcp_inuse"), 4);
  EXPECT_EQ(bench.value("network/sockets", "sockets.tcp_orphan"), kMissing);
  EXPECT_EQ(bench.value("network/sockets", "sockets.tcp6_inuse"), 5);
  host.write("/proc/net/sockstat", "sockets: used 13\nTCP: inuse 5 orphan");
  bench.sample();
  EXPECT_EQ(bench.value("network/sockets", "sockets.used"), 13);
  EXPECT_EQ(bench.value("network/sockets", "sockets.tcp6_inuse"), 5);
}

}  // namespace
}  // namespace reveal::tests::sockets_test
