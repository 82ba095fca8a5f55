#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::numa_test {
namespace {

TEST(Numa, ReadsBothFilesOfEachNode) {
  TestHost host;
  for (const std::string node : {"node0", "node1"}) {
    host.write("/sys/devices/system/node/" + node + "/numastat", "numa_hit 5\nnuma_miss 2\nlocal_node 4\n");
    host.write("/sys/devices/system/node/" + node + "/meminfo",
               "Node 0 MemFree:        10 kB\nNode 0 Active(file):   3 kB\nNode 0 HugePages_Total:     4\n");
  }
  host.write("/sys/devices/system/node/node1/numastat", "numa_hit 50\n");
  ProbeBench pages(host, "numa");
  pages.sample();
  EXPECT_EQ(pages.value("memory/numa_pages", "numa_hit", "node0"), 5);
  EXPECT_EQ(pages.value("memory/numa_pages", "numa_hit", "node1"), 50);
  EXPECT_EQ(pages.value("memory/numa_pages", "numa_local_node", "node0"), 4);
  ProbeBench memory(host, "numa_memory");
  memory.sample();
  EXPECT_EQ(memory.value("memory/numa_meminfo", "numa_mem.free", "node1"), 10240);
  EXPECT_EQ(memory.value("memory/numa_meminfo", "numa_mem.active_file", "node0"), 3072);
}

TEST(NumaVmstat, SaysWhatOtherTextsDoNotAndOnlyWhereThereAreSeveralNodes) {
  TestHost host;
  host.write("/sys/devices/system/node/node0/vmstat", "nr_free_pages 5\nnr_dirtied 7\npgpromote_success 2\n");
  const ProbeBench alone(host, "numa_vmstat");
  EXPECT_EQ(alone.coverage().state, Coverage::State::absent);
  host.write("/sys/devices/system/node/node1/vmstat", "nr_free_pages 5\nnr_dirtied 9\npgpromote_suc");
  ProbeBench bench(host, "numa_vmstat");
  bench.sample();
  EXPECT_EQ(bench.value("memory/numa_vmstat", "numa_vm.nr_dirtied", "node0"), 7);
  EXPECT_EQ(bench.value("memory/numa_vmstat", "numa_vm.nr_dirtied", "node1"), 9);
  EXPECT_EQ(bench.value("memory/numa_vmstat", "numa_vm.pgpromote_success", "node0"), 2);
  EXPECT_EQ(bench.family("memory/numa_vmstat").channels().size(), 3U);
}

}  // namespace
}  // namespace reveal::tests::numa_test
