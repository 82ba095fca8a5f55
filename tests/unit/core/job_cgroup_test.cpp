// What the control groups of a job count and limit.
#include <gtest/gtest.h>

#include "test_host.h"

namespace reveal {
namespace {

TEST(Cgroup, SaysWhyASharedGroupIsNotTheJobs) {
  TestHost host;
  host.last_pid(500);
  host.process(500, 1, "root", 1, 0);
  host.write("/proc/500/cgroup", "0::/slurm/job_7\n");
  host.write("/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  host.write("/sys/fs/cgroup/slurm/job_7/cgroup.procs", "500\n1234\n");
  host.write("/sys/fs/cgroup/slurm/job_7/cpu.stat", "usage_usec 5\nnr_throttled 2\nthrottled_usec 7\n");
  const ProbeBench shared(host, "job_cgroup", JobSource{.pid = 500});
  EXPECT_EQ(shared.coverage().state, Coverage::State::absent);
  EXPECT_NE(shared.coverage().reason.find("shares its cgroup /slurm/job_7"), std::string::npos);
  host.write("/sys/fs/cgroup/slurm/job_7/cgroup.procs", "500\n");
  host.write("/sys/fs/cgroup/slurm/job_7/io.stat", "8:0 rbytes=100 wbytes=20 rios=1\n8:16 rbytes=5 wbytes=1\n");
  ProbeBench alone(host, "job_cgroup", JobSource{.pid = 500});
  alone.sample();
  EXPECT_EQ(alone.value("job/cgroup_time", "cgroup.cpu_usage"), 5000);
  EXPECT_EQ(alone.value("job/cgroup_time", "cgroup.cpu_throttled_time"), 7000);
  EXPECT_EQ(alone.value("job/cgroup_events", "cgroup.cpu_throttled_periods"), 2);
  EXPECT_EQ(alone.value("job/cgroup_io", "cgroup.read_bytes"), 105);
  EXPECT_EQ(alone.value("job/cgroup_io", "cgroup.write_bytes"), 21);
}

TEST(Cgroup, ReadsVersion1) {
  TestHost host;
  host.last_pid(500);
  host.process(500, 1, "root", 1, 0);
  host.write("/proc/500/cgroup", "4:memory:/job\n2:cpu,cpuacct:/job\n0::/\n");
  host.write("/proc/self/mountinfo",
             "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
             "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  for (const std::string folder : {"cpu,cpuacct", "memory"}) {
    host.write("/sys/fs/cgroup/" + folder + "/job/cgroup.procs", "500\n");
  }
  host.write("/sys/fs/cgroup/cpu,cpuacct/job/cpuacct.usage", "123456789\n");
  ProbeBench bench(host, "job_cgroup", JobSource{.pid = 500});
  bench.sample();
  EXPECT_EQ(bench.value("job/cgroup_time", "cgroup.cpu_usage"), 123456789);
  const auto write = [&](int rss) {
    host.write("/sys/fs/cgroup/memory/job/memory.stat",
               "rss " + std::to_string(rss / 4) + "\nhierarchical_memory_limit 9\ntotal_rss " + std::to_string(rss) +
                   "\ntotal_dirty 8192\ntotal_pgpgin 77\n");
  };
  const auto write_places = [&](int pages) {
    host.write("/sys/fs/cgroup/memory/job/memory.numa_stat",
               "anon=1 N0=1 N1=0\nhierarchical_anon=" + std::to_string(pages + 2) + " N0=" + std::to_string(pages) +
                   " N1=2\n");
  };
  write(4096);
  write_places(1);
  ProbeBench memory(host, "job_memory", JobSource{.pid = 500});
  for (const int rss : {4096, 8192, 65536}) {  // parsed, compared, and longer
    write(rss);
    memory.sample();
    EXPECT_EQ(memory.value("job/memory", "cgroup.memory_anon"), rss);
    EXPECT_EQ(memory.value("job/memory", "cgroup.memory_dirty"), 8192);
    EXPECT_EQ(memory.value("job/memory_events", "memory_stat.pgpgin"), 77);
  }
  EXPECT_EQ(memory.family("job/memory").channels().size(), 2U);
  for (const int pages : {3, 4, 50}) {
    write_places(pages);
    memory.sample();
    EXPECT_EQ(memory.value("job/memory_numa", "memory_numa.anon", "node0"), pages * memory.sampler().host().page_bytes);
    EXPECT_EQ(memory.value("job/memory_numa", "memory_numa.anon", "node1"), 2 * memory.sampler().host().page_bytes);
  }
}

TEST(Cgroup, KnowsWhatItsMemoryIsMadeOf) {
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

TEST(Quota, IsFollowedIntoTheGroupsAProcessIsMovedTo) {
  TestHost host;
  host.last_pid(500);
  host.process(500, 1, "root", 1, 0);
  host.write("/proc/500/cgroup", "4:memory:/job\n2:cpu,cpuacct:/job\n0::/\n");
  host.write("/proc/self/mountinfo",
             "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n");
  const std::string root = "/sys/fs/cgroup/cpu,cpuacct";
  host.write(root + "/job/cpu.stat", "nr_periods 9\nnr_throttled 2\nthrottled_time 500\n");
  ProbeBench bench(host, "process_quota", JobSource{.pid = 500});
  bench.sample();
  EXPECT_EQ(bench.value("process/quota", "process.throttled_time", "rank0"), 0);  // what was before it is not its own
  host.write(root + "/job/cpu.stat", "nr_periods 9\nnr_throttled 2\nthrottled_time 800\n");
  bench.sample();
  EXPECT_EQ(bench.value("process/quota", "process.throttled_time", "rank0"), 300);
  host.write("/proc/500/cgroup", "4:memory:/job\n2:cpu,cpuacct:/job/limited\n0::/\n");
  host.write(root + "/job/limited/cpu.stat", "nr_periods 1\nthrottled_time 7000\n");
  bench.sample();
  host.write(root + "/job/limited/cpu.stat", "nr_periods 1\nthrottled_time 7050\n");
  host.write(root + "/job/cpu.stat", "nr_periods 9\nnr_throttled 2\nthrottled_time 801\n");
  bench.sample();
  EXPECT_EQ(bench.value("process/quota", "process.throttled_time", "rank0"), 351);
}

TEST(Quota, HoldsNothingBackWhereThereIsNoneAndIsMissingWhereGroupsCannotBeSeen) {
  TestHost host;
  host.last_pid(500);
  host.process(500, 1, "root", 1, 0);
  host.write("/proc/500/cgroup", "0::/\n");
  ProbeBench blind(host, "process_quota", JobSource{.pid = 500});
  blind.sample();
  EXPECT_EQ(blind.value("process/quota", "process.throttled_time", "rank0"), kMissing);
  host.write("/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  host.write("/sys/fs/cgroup/cpu.stat", "usage_usec 5\n");
  ProbeBench bench(host, "process_quota", JobSource{.pid = 500});
  bench.sample();
  EXPECT_EQ(bench.value("process/quota", "process.throttled_time", "rank0"), 0);
}

}  // namespace
}  // namespace reveal
