#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::network_tables_test {
namespace {

TEST(NetworkTables, AddUpTheCpusAndReadHexadecimal) {
  TestHost host;
  const std::string arp = "/proc/net/stat/arp_cache";
  host.write(arp, "entries  allocs   table_fulls\n0000000a 0000025f 00000000\n0000000a 00000001 00000002\n");
  host.write("/proc/net/stat/nf_conntrack", "entries  clashres found drop\n00000002 00000000 00000000 ffffffff\n");
  ProbeBench bench(host, "network_tables");
  bench.sample();
  EXPECT_EQ(bench.value("network/table_entries", "arp_cache.entries"), 10) << "the same in each line";
  EXPECT_EQ(bench.value("network/tables", "arp_cache.allocs"), 0x25f + 1);
  EXPECT_EQ(bench.value("network/tables", "arp_cache.table_fulls"), 2);
  EXPECT_EQ(bench.value("network/tables", "nf_conntrack.drop"), 0xffffffff);
  // A column that is new, one that is gone, and a line that is cut off.
  host.write(arp, "entries  allocs   news\n0000000b 00000260 00000007\n0000000b 0000");
  bench.sample();
  EXPECT_EQ(bench.value("network/table_entries", "arp_cache.entries"), 11);
  EXPECT_EQ(bench.value("network/tables", "arp_cache.allocs"), 0x260);
  EXPECT_EQ(bench.value("network/tables", "arp_cache.news"), kMissing) << "of one cpu of two";
  EXPECT_EQ(bench.value("network/tables", "arp_cache.table_fulls"), kMissing);
  EXPECT_EQ(bench.value("network/tables", "nf_conntrack.drop"), 0xffffffff);
}

}  // namespace
}  // namespace reveal::tests::network_tables_test
