#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::job_cgroup_test {
namespace {

TEST(JobCgroup, IsTheJobsThoughTheCollectorAndItsChildrenAreInIt) {
  TestHost host;
  host.process(50, 1, "solver", 10, 5);
  host.process(60, 1, "reveal-collect", 1, 1);
  host.process(61, 60, "reveal-collect", 0, 0);
  host.process(70, 1, "somebody", 1, 1);
  host.last_pid(70);
  host.write("/proc/50/cgroup", "0::/box\n");
  host.write("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
  host.write("/sys/fs/cgroup/box/memory.current", "1000\n");
  host.write("/sys/fs/cgroup/box/cgroup.procs", "50\n60\n61\n");
  const auto coverage = [&host] {
    KernelTree fs(host.root());
    TraceSink sink;
    Sampler sampler(fs, sink, {.probes = {"job_cgroup"}, .job = JobSource{.pid = 50}, .own_pid = 60}, {1, 1});
    sampler.look_first();
    return sampler.coverage().front();
  };
  EXPECT_EQ(coverage().state, Coverage::State::ok) << coverage().reason;
  host.write("/sys/fs/cgroup/box/cgroup.procs", "50\n60\n61\n70\n");
  EXPECT_EQ(coverage().state, Coverage::State::absent);
}

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

}  // namespace
}  // namespace reveal::tests::job_cgroup_test
