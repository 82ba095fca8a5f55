#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::job_groups_test {
namespace {

void add_group(const TestHost& host, const std::string& folder, int current, const std::string& limit, int killed) {
  host.write(folder + "/memory.current", std::to_string(current) + '\n');
  host.write(folder + "/memory.max", limit + '\n');
  host.write(folder + "/memory.events",
             "low 0\nhigh 2\nmax 7\noom 1\noom_kill " + std::to_string(killed) + "\noom_group_kill 0\n");
  host.write(folder + "/pids.current", "9\n");
  host.write(folder + "/pids.max", "max\n");
  host.write(folder + "/cgroup.procs", "50\n");
}
TEST(JobGroups, SaysLimitsAndTheirEventsOfTheJobAndItsTasks) {
  TestHost host;
  host.process(50, 1, "launcher", 10, 5);
  host.process(51, 50, "solver", 10, 5);
  host.last_pid(51);
  host.write("/proc/50/cgroup", "0::/box\n");
  host.write("/proc/51/cgroup", "0::/box/step_0/task_1\n");
  host.write("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
  const std::string job = "/sys/fs/cgroup/box";
  add_group(host, job, 1000, "4096", 3);
  add_group(host, job + "/step_0/task_1", 900, "max", 0);
  host.write(job + "/cpu.max", "150000 100000\n");
  ProbeBench bench(host, "job_groups", JobSource{.pid = 50});
  bench.sample();
  EXPECT_EQ(bench.value("job/group_memory", "group.memory", "job"), 1000);
  EXPECT_EQ(bench.value("job/group_memory", "group.memory_limit", "job"), 4096);
  EXPECT_EQ(bench.value("job/group_events", "group.killed_for_memory", "job"), 3);
  EXPECT_EQ(bench.value("job/group_events", "group.memory_limit_hits", "job"), 7);
  EXPECT_EQ(bench.value("job/group_tasks", "group.tasks", "job"), 9);
  EXPECT_EQ(bench.value("job/group_tasks", "group.tasks_limit", "job"), kMissing);
  EXPECT_EQ(bench.value("job/group_cpu", "group.cpu_quota", "job"), 1'500'000'000);
  EXPECT_EQ(bench.value("job/group_memory", "group.memory", "step_0/task_1"), 900);
  EXPECT_EQ(bench.value("job/group_memory", "group.memory_limit", "step_0/task_1"), kMissing);
  host.remove(job + "/step_0/task_1");
  bench.sample();
  EXPECT_EQ(bench.value("job/group_memory", "group.memory", "step_0/task_1"), kMissing);
}

TEST(JobGroups, ReadsVersionOneAndItsWayOfSayingNoLimit) {
  TestHost host;
  host.process(50, 1, "solver", 10, 5);
  host.last_pid(50);
  host.write("/proc/50/cgroup", "5:memory:/box\n4:cpu,cpuacct:/box\n");
  host.write("/proc/self/mountinfo",
             "34 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
             "35 31 0:33 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n");
  host.write("/sys/fs/cgroup/memory/box/memory.usage_in_bytes", "5000\n");
  host.write("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "9223372036854771712\n");
  host.write("/sys/fs/cgroup/memory/box/memory.failcnt", "4\n");
  host.write("/sys/fs/cgroup/memory/box/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  host.write("/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "-1\n");
  host.write("/sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
  ProbeBench bench(host, "job_groups", JobSource{.pid = 50});
  bench.sample();
  EXPECT_EQ(bench.value("job/group_memory", "group.memory", "job"), 5000);
  EXPECT_EQ(bench.value("job/group_memory", "group.memory_limit", "job"), kMissing);
  EXPECT_EQ(bench.value("job/group_events", "group.memory_limit_hits", "job"), 4);
  EXPECT_EQ(bench.value("job/group_events", "group.killed_for_memory", "job"), 2);
  EXPECT_EQ(bench.value("job/group_cpu", "group.cpu_quota", "job"), kMissing);
  host.write("/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "50000\n");
  bench.sample();
  EXPECT_EQ(bench.value("job/group_cpu", "group.cpu_quota", "job"), 500'000'000);
}

}  // namespace
}  // namespace reveal::tests::job_groups_test
