#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::job_test {
namespace {

TEST(JobProbes, CountProcessesAndCpus) {
  TestHost host;
  host.last_pid(510);
  host.process(500, 1, "root", 1, 0);
  host.process(510, 500, "a", 1, 0);
  host.write("/proc/510/status", "Tgid:\t510\nCpus_allowed_list:\t1\n");
  host.write("/proc/500/status", "Tgid:\t500\nCpus_allowed_list:\t1\n");
  ProbeBench job(host, "job", JobSource{.pid = 500});
  job.sample();
  EXPECT_EQ(job.value("job/processes", "job.processes"), 2);
  EXPECT_EQ(job.value("job/processes", "job.threads"), 6);
  EXPECT_EQ(job.value("job/processes", "job.stopped"), 0);
  host.write("/proc/510/stat", "510 (a) T 500 1 1 0 -1 4194304 11 0 22 0 1 0 0 0 20 0 3 0 100 1000000 50\n");
  job.sample();
  EXPECT_EQ(job.value("job/processes", "job.stopped"), 1);
  ProbeBench cpus(host, "job_cpus", JobSource{.pid = 500});
  cpus.sample();
  EXPECT_EQ(cpus.value("job/cpus", "job.cpus_allowed"), 1);
  EXPECT_EQ(cpus.value("job/cpus", "job.cpus_owned"), 2);
  EXPECT_EQ(cpus.value("job/cpu_allowed", "job.cpu_allowed", "cpu0"), 0);
  EXPECT_EQ(cpus.value("job/cpu_allowed", "job.cpu_allowed", "cpu1"), 1);
}

TEST(JobProbes, ReadTheMaskOfAProcessThatIsStillThereAtTheNextLook) {
  TestHost host;
  host.last_pid(500);
  host.process(500, 1, "root", 1, 0);
  host.write("/proc/500/status", "Tgid:\t500\nCpus_allowed_list:\t1\n");
  ProbeBench cpus(host, "job_cpus", JobSource{.pid = 500});
  host.process(510, 500, "new", 1, 0);
  host.last_pid(510);
  cpus.sample();
  EXPECT_EQ(cpus.value("job/cpus", "job.cpus_allowed"), 1);
  cpus.sample();
  EXPECT_EQ(cpus.value("job/cpus", "job.cpus_allowed"), 2);
}

TEST(JobProbes, LeaveTheOwnedCpusMissingWhereTheCpusetCannotBeRead) {
  TestHost host;
  host.last_pid(500);
  host.process(500, 1, "root", 1, 0);
  host.write("/proc/500/cgroup", "0::/job_7\n");
  host.write("/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  host.write("/sys/fs/cgroup/job_7/cpuset.cpus.effective", "1\n");
  ProbeBench bench(host, "job_cpus", JobSource{.pid = 500});
  bench.sample();
  EXPECT_EQ(bench.value("job/cpus", "job.cpus_owned"), 1);
  host.remove("/sys/fs/cgroup/job_7");
  bench.sample();
  EXPECT_EQ(bench.value("job/cpus", "job.cpus_owned"), kMissing);
}

}  // namespace
}  // namespace reveal::tests::job_test
