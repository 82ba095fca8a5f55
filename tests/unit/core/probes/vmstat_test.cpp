#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::vmstat_test {
namespace {

TEST(Vmstat, SeparatesEventsFromLevels) {
  TestHost host;
  host.write("/proc/vmstat",
             "nr_dirty 4\nnr_dirtied 100\nnr_dirty_threshold 50\npgfault 7\nworkingset_nodes 9\nnew_key 1\n");
  ProbeBench bench(host, "vmstat");
  bench.sample();
  EXPECT_EQ(bench.value("memory/vmstat_levels", "vmstat.nr_dirty"), 4);
  EXPECT_EQ(bench.value("memory/vmstat_levels", "vmstat.nr_dirty_threshold"), 50);
  EXPECT_EQ(bench.value("memory/vmstat_levels", "vmstat.workingset_nodes"), 9);
  EXPECT_EQ(bench.value("memory/vmstat", "vmstat.nr_dirtied"), 100);
  EXPECT_EQ(bench.value("memory/vmstat", "vmstat.pgfault"), 7);
  EXPECT_EQ(bench.value("memory/vmstat", "vmstat.new_key"), 1);
}

}  // namespace
}  // namespace reveal::tests::vmstat_test
