// Probes that follow the job's processes.
#include <gtest/gtest.h>

#include "test_host.h"

namespace reveal {
namespace {

TEST(Slots, KeepCountingWhenTheirProcessChanges) {
  TestHost host;
  host.last_pid(510);
  host.process(500, 1, "root", 1, 0);
  host.process(510, 500, "step1", 100, 0);
  host.write("/proc/510/task/510/schedstat", "1000 200 3\n");
  ProbeBench bench(host, "process", JobSource{.pid = 500});
  bench.sample();
  EXPECT_EQ(bench.value("process/cpu", "process.cpu_time", "slot1"), 0);
  host.process(510, 500, "step1", 130, 0);
  host.write("/proc/510/task/510/schedstat", "5000 900 3\n");
  bench.sample();
  EXPECT_EQ(bench.value("process/cpu", "process.cpu_time", "slot1"), 30 * kTick);
  EXPECT_EQ(bench.value("process/cpu", "process.wait_time", "slot1"), 700);
  EXPECT_EQ(bench.value("process/cpu", "process.run_time", "slot1"), 4000);
  EXPECT_EQ(bench.value("process/memory", "process.rss", "slot1"), 50 * 4096);
  host.remove("/proc/510");
  host.process(511, 500, "step2", 7000, 0);
  host.last_pid(511);
  host.write("/proc/511/task/511/schedstat", "90000 80000 3\n");
  bench.sample();
  EXPECT_EQ(bench.value("process/cpu", "process.cpu_time", "slot1"), kMissing);
  host.process(511, 500, "step2", 7005, 0);
  host.write("/proc/511/task/511/schedstat", "90010 80001 3\n");
  bench.sample();
  EXPECT_EQ(bench.value("process/cpu", "process.cpu_time", "slot1"), 35 * kTick);
  EXPECT_EQ(bench.value("process/cpu", "process.wait_time", "slot1"), 701);
  EXPECT_EQ(bench.value("process/faults", "process.minor_faults", "rank0"), 0);
}

TEST(Slots, FollowWhatTheirProcessReadsAndWrites) {
  TestHost host;
  host.last_pid(500);
  host.process(500, 1, "root", 1, 0);
  const auto write = [&](int bytes) {
    const std::string text = std::to_string(bytes);
    host.write("/proc/500/io", "rchar: " + text + "00\nwchar: 7\nsyscr: " + text + "\nsyscw: 9\nread_bytes: " + text +
                                   "0\nwrite_bytes: 4096\ncancelled_write_bytes: 5\n");
  };
  write(10);
  ProbeBench bench(host, "process", JobSource{.pid = 500});
  bench.sample();  // before it, whatever the process did, it did without us
  write(25);
  bench.sample();
  EXPECT_EQ(bench.value("process/io", "process.read_by_calls", "rank0"), 1500);
  EXPECT_EQ(bench.value("process/io", "process.read_bytes", "rank0"), 150);
  EXPECT_EQ(bench.value("process/io", "process.write_bytes", "rank0"), 0);
  EXPECT_EQ(bench.value("process/io_calls", "process.reads", "rank0"), 15);
  EXPECT_EQ(bench.value("process/io_calls", "process.writes", "rank0"), 0);
}

TEST(Slots, CountOnceWhatAProcessWroteThatItsParentWaitedFor) {
  TestHost host;
  const auto write = [&](int pid, int written) {
    host.write("/proc/" + std::to_string(pid) + "/io", "rchar: 0\nwchar: 0\nsyscr: 0\nsyscw: 0\nread_bytes: 0\n" +
                                                           ("write_bytes: " + std::to_string(written)) + "\n");
  };
  host.last_pid(500);
  host.process(500, 1, "root", 1, 0);
  write(500, 0);
  ProbeBench bench(host, "process", JobSource{.pid = 500});
  bench.sample();
  host.process(510, 500, "dd", 1, 0);
  host.last_pid(510);
  write(510, 4000);
  bench.sample();  // the base of the child: it was not seen to write these
  write(510, 9000);
  bench.sample();
  EXPECT_EQ(bench.value("process/io", "process.write_bytes", "slot1"), 5000);
  EXPECT_EQ(bench.value("process/io", "process.write_bytes", "rank0"), 0);
  // It wrote a little more and was waited for: 5,000 are counted, the rest is not.
  host.remove("/proc/510");
  write(500, 10'000);
  bench.sample();
  EXPECT_EQ(bench.value("process/io", "process.write_bytes", "rank0"), 5000);
  // What the parent writes itself counts in full.
  write(500, 17'000);
  bench.sample();
  EXPECT_EQ(bench.value("process/io", "process.write_bytes", "rank0"), 12'000);
}

TEST(Slots, KeepInTheSumWhatAProcessWaitedThatCannotBeReadAnyMore) {
  TestHost host;
  host.last_pid(510);
  host.process(500, 1, "root", 1, 0);
  host.process(510, 500, "worker", 100, 0);
  host.write("/proc/500/task/500/schedstat", "10 20 3\n");
  host.write("/proc/510/task/510/schedstat", "1000 200 3\n");
  ProbeBench bench(host, "job", JobSource{.pid = 500});
  host.write("/proc/510/task/510/schedstat", "5000 900 3\n");
  bench.sample();
  EXPECT_EQ(bench.value("job/cpu", "job.wait_time"), 700);
  host.remove("/proc/510/task");  // it ends between the reading of its times and of its threads
  host.write("/proc/500/task/500/schedstat", "10 25 3\n");
  bench.sample();
  EXPECT_EQ(bench.value("job/cpu", "job.wait_time"), 705);
  host.remove("/proc/510");
  bench.sample();
  EXPECT_EQ(bench.value("job/cpu", "job.wait_time"), 705);
}

TEST(Slots, DoNotMeasureWaitingWhereTheKernelDoesNot) {
  TestHost host;
  host.last_pid(510);
  host.process(500, 1, "root", 1, 0);
  host.process(510, 500, "worker", 100, 0);
  ProbeBench bench(host, "job", JobSource{.pid = 500});
  host.remove("/proc/510");
  bench.sample();
  bench.sample();
  EXPECT_EQ(bench.value("job/cpu", "job.wait_time"), kMissing);
}

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

TEST(Namespaces, MeasureEachNetworkOfTheJobOnce) {
  TestHost host;
  host.last_pid(520);
  const std::string header = "h\nh\n";
  for (const int pid : {500, 510, 520}) {
    host.process(pid, pid == 500 ? 1 : 500, "rank", 1, 0);
    const std::filesystem::path folder = host.root() / "proc" / std::to_string(pid) / "ns";
    std::filesystem::create_directories(folder);
    std::filesystem::create_symlink(pid == 520 ? "net:[2]" : "net:[1]", folder / "net");
    host.write("/proc/" + std::to_string(pid) + "/net/dev",
               header + " eth0: " + std::to_string(pid) + " 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0\n");
  }
  ProbeBench bench(host, "network", JobSource{.pid = 500});
  bench.sample();
  EXPECT_EQ(bench.value("network/bytes", "net.rx_bytes", "eth0"), 500);
  EXPECT_EQ(bench.value("network/bytes", "net.rx_bytes", "ns2/eth0"), 520);
  EXPECT_EQ(bench.family("network/bytes").channels().size(), 4U);
  host.remove("/proc/520/stat");  // its namespace lives on
  bench.sample();
  EXPECT_EQ(bench.value("network/bytes", "net.rx_bytes", "ns2/eth0"), kMissing);
  EXPECT_EQ(bench.value("network/bytes", "net.rx_bytes", "eth0"), 500);
}

}  // namespace
}  // namespace reveal
