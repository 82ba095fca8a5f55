#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::process_quota_test {
namespace {

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
  EXPECT_EQ(bench.value("process/quota", "process.throttled_time", "rank0"), 0);  // earlier time is not its own
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
}  // namespace reveal::tests::process_quota_test
