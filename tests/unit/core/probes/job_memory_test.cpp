#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::job_memory_test {
namespace {

TEST(JobMemory, IsSplitIntoItsKinds) {
  TestHost host;
  host.last_pid(500);
  host.process(500, 1, "root", 1, 0);
  host.write("/proc/500/cgroup", "0::/slurm/job_7\n");
  host.write("/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  host.write("/sys/fs/cgroup/slurm/job_7/cgroup.procs", "500\n1234\n");
  host.write("/sys/fs/cgroup/slurm/job_7/memory.stat",
             "anon 4096\nfile 100\nfile_dirty 8192\nanon_thp 7\npgfault 11\nworkingset_refault_file 12\npgscan 13\n"
             "thp_fault_alloc 14\n");
  host.write("/sys/fs/cgroup/slurm/job_7/memory.numa_stat",
             "anon N0=4096 N1=8192\nfile N0=0 N1=1\nworkingset_refault_anon N0=1 N1=2\n");
  const ProbeBench shared(host, "job_memory", JobSource{.pid = 500});
  EXPECT_NE(shared.coverage().reason.find("shares its cgroup /slurm/job_7"), std::string::npos);
  host.write("/sys/fs/cgroup/slurm/job_7/cgroup.procs", "500\n");
  ProbeBench bench(host, "job_memory", JobSource{.pid = 500});
  bench.sample();
  EXPECT_EQ(bench.value("job/memory", "cgroup.memory_anon"), 4096);
  EXPECT_EQ(bench.value("job/memory", "cgroup.memory_dirty"), 8192);
  EXPECT_EQ(bench.value("job/memory", "memory_stat.anon_thp"), 7);
  EXPECT_EQ(bench.value("job/memory_events", "cgroup.page_faults"), 11);
  EXPECT_EQ(bench.value("job/memory_events", "memory_stat.workingset_refault_file"), 12);
  EXPECT_EQ(bench.value("job/memory_events", "memory_stat.pgscan"), 13);
  EXPECT_EQ(bench.value("job/memory_events", "memory_stat.thp_fault_alloc"), 14);
  EXPECT_EQ(bench.value("job/memory_numa", "memory_numa.anon", "node1"), 8192);
  EXPECT_EQ(bench.family("job/memory_numa").channels().size(), 4U);
}

}  // namespace
}  // namespace reveal::tests::job_memory_test
