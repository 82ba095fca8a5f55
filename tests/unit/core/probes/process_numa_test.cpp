#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::process_numa_test {
namespace {

TEST(ProcessNuma, SumsThePagesOfAProcessOnEachNode) {
  TestHost host;
  host.write("/sys/devices/system/node/node0/numastat", "numa_hit 1\n");
  host.write("/sys/devices/system/node/node1/numastat", "numa_hit 1\n");
  host.process(50, 1, "solver", 10, 5);
  host.last_pid(50);
  host.write("/proc/50/numa_maps",
             "00400000 default file=/usr/bin/solver mapped=30 mapmax=9 N0=20 N1=10 kernelpagesize_kB=4\n"
             "00600000 default file=/usr/bin/solver anon=3 dirty=3 N0=2 N1=1 kernelpagesize_kB=4\n"
             "7f0000000000 bind:1 anon=2 dirty=2 N1=2 kernelpagesize_kB=2048\n"
             "7ffc00000000 default stack anon=1 dirty=1 N0=1 kernelpagesize_kB=4\n");
  ProbeBench bench(host, "process_numa", JobSource{.pid = 50});
  const Coverage coverage = bench.coverage();
  ASSERT_EQ(coverage.state, Coverage::State::ok) << coverage.reason;
  EXPECT_EQ(bench.answered("process/numa", "process.numa_bytes", "rank0/node0"), 3 * 4096);
  EXPECT_EQ(bench.value("process/numa", "process.numa_bytes", "rank0/node1"), 4096 + 2 * 2'097'152);
}

TEST(ProcessNuma, IsAbsentWhereThereIsNothingToPlace) {
  TestHost host;
  host.write("/sys/devices/system/node/node0/numastat", "numa_hit 1\n");
  host.process(50, 1, "solver", 10, 5);
  host.last_pid(50);
  const ProbeBench bench(host, "process_numa", JobSource{.pid = 50});
  EXPECT_EQ(bench.coverage().reason, "with one NUMA node all memory is on it");
}

}  // namespace
}  // namespace reveal::tests::process_numa_test
