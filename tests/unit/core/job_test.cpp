// Which processes are the job's, and what they used.
#include "core/job/job.h"

#include <gtest/gtest.h>

#include "core/job/cpu_set.h"
#include "core/job/loaded_libraries.h"
#include "core/job/opened_devices.h"
#include "core/job/sub_cgroups.h"
#include "core/snapshot/snapshot.h"
#include "hdf5schema/basics/error.h"
#include "test_host.h"

namespace reveal {
namespace {

constexpr std::int64_t kTick = 10'000'000;
constexpr std::int64_t kTenth = 100'000'000;

class JobOnHost : public testing::Test {
 protected:
  void start(const JobSource& source) {
    fs_ = std::make_unique<RootFs>(host_.root());
    fs_->limit_kept_files(0);  // an open plain file outlives its removal
    machine_ = Host::look(*fs_);
    job_ = std::make_unique<Job>(*fs_, machine_, source, kCollector);
    step();
  }
  void step(int count = 1) {
    for (int i = 0; i < count; ++i) job_->update({now_ += kTenth, 0});
  }

  static constexpr int kCollector = 999;
  TestHost host_;
  std::unique_ptr<RootFs> fs_;
  Host machine_;
  std::unique_ptr<Job> job_;
  std::int64_t now_ = 0;
};

TEST_F(JobOnHost, SumsTheTreeUnderAProcessWithItsReapedChildren) {
  host_.last_pid(900);
  host_.process(500, 1, "launcher", 3, 1, 100);
  host_.process(501, 500, "python3", 40, 10);
  host_.process(502, 501, "worker", 5, 0, 7);
  host_.process(700, 1, "other", 5000, 0);
  start({.pid = 500});
  EXPECT_EQ(job_->cpu_time_ns(), (4 + 100 + 50 + 12) * kTick);
  EXPECT_EQ(job_->processes().size(), 3U);
}

TEST_F(JobOnHost, LeavesOutWhatLaunchersDidThemselvesAndTheCollector) {
  const std::filesystem::path run = host_.root() / "run";
  host_.write("/run/rank.500", "1\n");
  host_.write("/run/rank.600", "0\n");
  host_.write("/run/rank.notanumber", "0\n");
  host_.write("/run/lock", "");
  host_.last_pid(1000);
  host_.process(500, 1, "reveal-run", 1000, 0, 30);
  host_.process(600, 1, "reveal-run", 1000, 0, 0);
  host_.process(501, 500, "a", 1, 0);
  host_.process(601, 600, "b", 2, 0);
  host_.process(kCollector, 600, "reveal-collect", 9000, 0);
  start({.directory = run});
  EXPECT_EQ(job_->cpu_time_ns(), 33 * kTick);
  EXPECT_EQ(job_->find(601)->rank, 0);
  EXPECT_EQ(job_->find(501)->rank, 1);
  EXPECT_EQ(job_->find(kCollector), nullptr);
  EXPECT_FALSE(job_->ended());
}

TEST_F(JobOnHost, GivesNoRankTwice) {
  const std::filesystem::path run = host_.root() / "run";
  host_.last_pid(700);
  for (const int pid : {500, 600, 700}) host_.process(pid, 1, "reveal-run", 1, 0);
  host_.write("/run/rank.600", "");
  host_.write("/run/rank.700", "1\n");
  start({.directory = run});
  EXPECT_EQ(job_->find(700)->rank, 1);
  EXPECT_EQ(job_->find(600)->rank, 2);
  host_.write("/run/rank.500", "");
  step(20);
  ASSERT_NE(job_->find(500), nullptr);
  EXPECT_EQ(job_->find(500)->rank, 3);
  EXPECT_EQ(job_->find(600)->rank, 2);
}

TEST_F(JobOnHost, SeesANewProcessInTheTickThatStartedIt) {
  host_.last_pid(500);
  host_.process(500, 1, "make", 0, 0);
  start({.pid = 500});
  step();
  host_.process(510, 500, "cc1plus", 6, 0);
  host_.last_pid(510);
  step();
  EXPECT_EQ(job_->cpu_time_ns(), 6 * kTick);
  EXPECT_NE(job_->find(510), nullptr);
}

TEST_F(JobOnHost, FindsAProcessWhoseForkTookLongerThanATick) {
  host_.last_pid(500);
  host_.process(500, 1, "make", 0, 0);
  start({.pid = 500});
  host_.last_pid(511);
  host_.process(511, 510, "cc1plus", 2, 0);
  step(3);
  EXPECT_EQ(job_->find(511), nullptr);
  host_.process(510, 500, "g++", 6, 0);
  step();
  EXPECT_NE(job_->find(510), nullptr);
  EXPECT_NE(job_->find(511), nullptr);
  EXPECT_EQ(job_->cpu_time_ns(), 8 * kTick);
}

TEST_F(JobOnHost, FindsAProcessThatWasBeingForkedWhenItLookedFirst) {
  host_.last_pid(510);
  host_.process(500, 1, "make", 0, 0);
  start({.pid = 500});
  host_.process(510, 500, "g++", 6, 0);
  step();
  EXPECT_NE(job_->find(510), nullptr);
}

TEST_F(JobOnHost, DoesNotTakeAThreadForAProcess) {
  host_.last_pid(500);
  host_.process(500, 1, "python3", 1, 0);
  start({.pid = 500});
  host_.process(510, 500, "python3", 6, 0);
  host_.write("/proc/510/status", "Name:\tpython3\nTgid:\t505\n");
  host_.last_pid(510);
  step();
  EXPECT_EQ(job_->find(510), nullptr);
}

TEST_F(JobOnHost, LosesNothingWhenAChildEndsAndIsReaped) {
  host_.last_pid(510);
  host_.process(500, 1, "make", 0, 0, 0);
  host_.process(510, 500, "cc1plus", 80, 20);
  start({.pid = 500});
  EXPECT_EQ(job_->cpu_time_ns(), 100 * kTick);
  host_.remove("/proc/510");
  host_.process(500, 1, "make", 0, 0, 103);
  step();
  EXPECT_EQ(job_->cpu_time_ns(), 103 * kTick);
}

TEST_F(JobOnHost, IsMissingRatherThanWrongWhileTimeIsUnaccountedForAndNeverFalls) {
  host_.last_pid(510);
  host_.process(500, 1, "daemonizer", 5, 0);
  host_.process(510, 500, "orphan", 80, 20);
  start({.pid = 500});
  EXPECT_EQ(job_->cpu_time_ns(), 105 * kTick);
  host_.remove("/proc/510");  // its time went to init
  step();
  EXPECT_EQ(job_->cpu_time_ns(), kMissing);
  step(2);
  EXPECT_EQ(job_->cpu_time_ns(), 105 * kTick);
  host_.process(500, 1, "daemonizer", 9, 0);
  step();
  EXPECT_EQ(job_->cpu_time_ns(), 109 * kTick);
}

TEST_F(JobOnHost, KeepsAProcessWhoseParentLeft) {
  host_.last_pid(510);
  host_.process(500, 1, "root", 1, 0);
  host_.process(510, 500, "middle", 1, 0);
  host_.process(511, 510, "leaf", 1, 0);
  start({.pid = 500});
  host_.remove("/proc/510");
  host_.process(511, 1, "leaf", 10, 0);
  host_.process(500, 1, "root", 1, 0, 1);
  step();
  EXPECT_EQ(job_->cpu_time_ns(), 12 * kTick);
}

TEST_F(JobOnHost, DoesNotFollowAReusedProcessId) {
  host_.last_pid(510);
  host_.process(500, 1, "root", 1, 0);
  host_.process(510, 500, "worker", 1, 0, 0, 100);
  start({.pid = 500});
  host_.process(510, 1, "stranger", 5000, 0, 0, 777);
  host_.process(500, 1, "root", 1, 0, 1);
  step();
  EXPECT_EQ(job_->find(510), nullptr);
  EXPECT_EQ(job_->cpu_time_ns(), 2 * kTick);
}

TEST_F(JobOnHost, EndsWithItsLastRoot) {
  host_.last_pid(510);
  host_.process(500, 1, "root", 1, 0);
  start({.pid = 500});
  EXPECT_FALSE(job_->ended());
  host_.remove("/proc/500");
  step();
  EXPECT_TRUE(job_->ended());
}

TEST_F(JobOnHost, WaitsTenSecondsForALauncherToCome) {
  std::filesystem::create_directories(host_.root() / "run");
  start({.directory = host_.root() / "run"});
  EXPECT_FALSE(job_->ended());
  EXPECT_EQ(job_->cpu_time_ns(), kMissing);
  step(50);
  EXPECT_FALSE(job_->ended());
  host_.process(500, 1, "reveal-run", 1, 0);
  host_.write("/run/rank.500", "");
  host_.last_pid(500);
  step(60);
  EXPECT_FALSE(job_->ended());
  EXPECT_EQ(job_->processes().size(), 1U);
}

TEST_F(JobOnHost, GivesUpWhenNoLauncherComes) {
  std::filesystem::create_directories(host_.root() / "run");
  start({.directory = host_.root() / "run"});
  step(102);
  EXPECT_TRUE(job_->ended());
}

TEST_F(JobOnHost, CountsALargeJobInTurnAndNeverFalls) {
  host_.last_pid(5000);
  host_.process(500, 1, "root", 0, 0);
  for (int i = 0; i < 700; ++i) host_.process(1000 + i, 500, "worker", 10, 0);
  start({.pid = 500});
  EXPECT_EQ(job_->cpu_time_ns(), 7000 * kTick);
  for (int i = 0; i < 700; ++i) host_.process(1000 + i, 500, "worker", 20, 0);
  std::int64_t last = 0;
  for (int i = 0; i < 6; ++i) {
    step();
    EXPECT_GE(job_->cpu_time_ns(), last);
    last = job_->cpu_time_ns();
  }
  EXPECT_EQ(last, 14000 * kTick);
}

TEST_F(JobOnHost, CountsAReapedChildOfALargeJobOnce) {
  host_.last_pid(5000);
  host_.process(500, 1, "root", 0, 0);
  host_.process(501, 500, "shell", 3, 0);
  for (int i = 0; i < 300; ++i) host_.process(1000 + i, 501, "worker", 10, 0);
  start({.pid = 500});
  EXPECT_EQ(job_->cpu_time_ns(), 3003 * kTick);
  int reaped = 0;
  for (int i = 0; i < 12; ++i) {
    host_.remove("/proc/" + std::to_string(1000 + i));
    host_.process(501, 500, "shell", 3, 0, reaped += 10);
    step();
    EXPECT_TRUE(job_->cpu_time_ns() == 3003 * kTick || job_->cpu_time_ns() == kMissing) << i;
  }
  step(3);
  EXPECT_EQ(job_->cpu_time_ns(), 3003 * kTick);
  // The shell ends with its last workers; root waits for it.
  for (int i = 12; i < 20; ++i) host_.remove("/proc/" + std::to_string(1000 + i));
  for (int i = 20; i < 300; ++i) host_.process(1000 + i, 1, "worker", 10, 0);
  host_.remove("/proc/501");
  host_.process(500, 1, "root", 0, 0, 203);
  step();
  EXPECT_EQ(job_->cpu_time_ns(), 3003 * kTick);
}

TEST(JobSource, SaysWhatIsWrong) {
  EXPECT_EQ(JobSource::parse("pid:4711").pid, 4711);
  for (const char* wrong : {"pid:", "pid:0", "pid:x", "4711", "run:", "run:/does/not/exist", ""}) {
    EXPECT_THROW(static_cast<void>(JobSource::parse(wrong)), Error) << wrong;
  }
}

TEST_F(JobOnHost, KnowsWhichDevicesItsProcessesHold) {
  host_.last_pid(900);
  host_.process(500, 1, "python3", 3, 1);
  const auto hold = [this](const std::string& fd, const std::string& device) {
    std::filesystem::create_directories(host_.root().string() + "/proc/500/fd");
    std::filesystem::create_symlink(device, host_.root().string() + "/proc/500/fd/" + fd);
  };
  hold("3", "/dev/nvidiactl");
  hold("4", "/dev/nvidia2");
  start({.pid = 500});
  OpenedDevices without(*fs_);
  without.look(now_, *job_);
  EXPECT_EQ(without.gpus(), "");  // no driver: nobody looks at descriptors
  EXPECT_EQ(without.rdma(), "");

  host_.write("/proc/driver/nvidia/gpus/0000:01:00.0/information", "");
  host_.write("/sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n");
  OpenedDevices devices(*fs_);
  devices.look(now_, *job_);
  EXPECT_EQ(devices.gpus(), "2");
  EXPECT_EQ(devices.rdma(), "none");
  hold("5", "/dev/nvidia3");
  hold("6", "/dev/infiniband/uverbs0");
  devices.look(now_ + kTenth, *job_);
  EXPECT_EQ(devices.gpus(), "2");
  host_.remove("/proc/500/fd/4");
  devices.look(now_ + 200 * kTenth, *job_);
  EXPECT_EQ(devices.gpus(), "2-3");
  EXPECT_EQ(devices.rdma(), "0");
}

TEST_F(JobOnHost, KnowsWhichLibrariesItsProcessesLoaded) {
  host_.last_pid(900);
  host_.process(500, 1, "python3", 3, 1);
  start({.pid = 500});
  LoadedLibraries libraries(*fs_);
  const std::int64_t begin = now_;
  libraries.look(begin, *job_);
  libraries.look(begin + 101 * kTenth, *job_);
  EXPECT_EQ(libraries.seen(), "");  // its maps cannot be read
  host_.process(501, 500, "worker", 3, 1);
  host_.last_pid(901);
  step();
  host_.write("/proc/501/maps",
              "7f00-7f10 r-xp 00000000 fe:00 11 /opt/secret name/libnccl.so.2.18\n"
              "7f10-7f20 r-xp 00000000 fe:00 12 /usr/lib/libmpi.so.40 (deleted)\n"
              "7f20-7f30 rw-p 00000000 00:00 0 \n7f30-7f40 rw-p 00000000 00:00 0 [heap]\n");
  for (int look = 2; look < 5; ++look) libraries.look(begin + look * 101 * kTenth, *job_);
  EXPECT_EQ(libraries.seen(), "mpi nccl");
}

TEST_F(JobOnHost, KnowsTheGroupsOfItsStepsAndContainers) {
  host_.last_pid(900);
  host_.process(400, 1, "slurmstepd", 0, 0);
  host_.write("/proc/400/cmdline", std::string("slurmstepd: [7.0]", 17));
  host_.write("/proc/400/status", "Name:\tslurmstepd\nTgid:\t400\nUid:\t0\t0\t0\t0\n");
  host_.process(500, 400, "python3", 3, 1);
  host_.process(501, 500, "worker", 3, 1);
  host_.write("/proc/500/cgroup", "0::/system.slice/job_7/step_0/user/task_0\n");
  host_.write("/proc/501/cgroup", "0::/system.slice/job_7/step_0/user/task_0/docker-4f.scope\n");
  start({.slurm_job = "7"});
  SubCgroups groups(*fs_);
  groups.look(now_, *job_);
  EXPECT_EQ(groups.seen(), "step_0/user/task_0 step_0/user/task_0/docker-4f.scope");
}

TEST(ProcessStat, ReadsACommandWithBracketsAndBlanks) {
  const auto stat = parse_process_stat(
      "42 (a) b (c)) R 7 1 1 0 -1 4194304 11 0 22 0 33 44 55 66 20 0 3 0 77 1000 88 18446744073709551615 1 1 0 0 0 0 0 "
      "0 "
      "0 0 0 0 17 5 0 0 0 0 0\n");
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->command, "a) b (c)");
  EXPECT_EQ(stat->state, 'R');
  EXPECT_EQ(stat->parent, 7);
  EXPECT_EQ(stat->minor_faults, 11);
  EXPECT_EQ(stat->major_faults, 22);
  EXPECT_EQ(stat->user_ticks, 33);
  EXPECT_EQ(stat->system_ticks, 44);
  EXPECT_EQ(stat->reaped_user_ticks, 55);
  EXPECT_EQ(stat->reaped_system_ticks, 66);
  EXPECT_EQ(stat->threads, 3);
  EXPECT_EQ(stat->start_ticks, 77);
  EXPECT_EQ(stat->resident_pages, 88);
  EXPECT_EQ(stat->last_cpu, 5);
}

TEST(ProcessStat, RefusesWhatIsCutOff) {
  const std::string text = "42 (sh) R 7 1 1 0 -1 4194304 11 0 22 0 33 44 55 66 20 0 3 0 77";
  for (std::size_t size = 0; size < text.size() - 2; ++size) {
    EXPECT_FALSE(parse_process_stat(text.substr(0, size))) << text.substr(0, size);
  }
  EXPECT_TRUE(parse_process_stat(text));
  EXPECT_FALSE(parse_process_stat(")("));
}

TEST(FieldOf, MatchesWholeKeys) {
  const std::string_view text = "Cpus_allowed:\t3\nCpus_allowed_list:\t0-1\nse.nr_migrations    :     12\n";
  EXPECT_EQ(field_of(text, "Cpus_allowed_list"), "0-1");
  EXPECT_EQ(field_of(text, "Cpus_allowed"), "3");
  EXPECT_EQ(field_of(text, "se.nr_migrations"), "12");
  EXPECT_EQ(field_of(text, "Cpus"), "");
}

TEST(CpuSet, ReadsListsAndDropsNonsense) {
  const CpuSet set = CpuSet::of_list("0-3,8,10-x,99999999,7-5\n");
  EXPECT_EQ(set.size(), 5U);
  EXPECT_TRUE(set.contains(8));
  EXPECT_FALSE(set.contains(10));
  EXPECT_EQ(CpuSet::of_list("").size(), 0U);
}

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
  host.write("/sys/fs/cgroup/memory/job/memory.stat", "rss 1\ntotal_rss 4096\ntotal_dirty 8192\n");
  ProbeBench bench(host, "job_cgroup", JobSource{.pid = 500});
  bench.sample();
  EXPECT_EQ(bench.value("job/cgroup_time", "cgroup.cpu_usage"), 123456789);
  EXPECT_EQ(bench.value("job/cgroup_memory", "cgroup.memory_anon"), 4096);
  EXPECT_EQ(bench.value("job/cgroup_memory", "cgroup.memory_dirty"), 8192);
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

TEST(NetworkLinks, TellSteeringQueuesPortsAndNodes) {
  const TestHost host;
  const std::string net = "/sys/class/net/eth0/";
  for (const char* queue : {"rx-0", "rx-1"}) host.write(net + "queues/" + queue + "/rps_cpus", "00000000,00000001\n");
  host.write(net + "queues/tx-0/xps_cpus", "3\n");
  host.write(net + "speed", "100000\n");
  host.write(net + "device/driver", "");
  host.write("/sys/class/net/eth0/numa_node", "1\n");  // of the parent: device/.. here
  host.write("/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  host.write("/sys/class/infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)\n");
  host.write("/sys/devices/system/node/node1/cpulist", "2-3\n");
  host.write("/sys/devices/system/node/node1/distance", "21 10\n");
  RootFs fs(host.root());
  const auto value = [](const Snapshot& facts, std::string_view key) {
    for (const auto& [name, text] : facts) {
      if (name == key) return text;
    }
    return std::string("no such fact");
  };
  const Snapshot links = network_links(fs);
  EXPECT_EQ(value(links, "net.eth0.rps_cpus"), "00000000,00000001");
  EXPECT_EQ(value(links, "net.eth0.rx_queues"), "2");
  EXPECT_EQ(value(links, "net.eth0.speed"), "100000");
  EXPECT_EQ(value(links, "net.eth0.numa_node"), "1");
  const Snapshot ports = rdma_ports(fs);
  EXPECT_EQ(value(ports, "rdma.mlx5_0.1.state"), "ACTIVE");
  EXPECT_EQ(value(ports, "rdma.mlx5_0.1.rate"), "200 Gb/sec (4X HDR)");
  const Snapshot nodes = numa_nodes(fs);
  EXPECT_EQ(value(nodes, "numa.node1.cpus"), "2-3");
  EXPECT_EQ(value(nodes, "numa.node1.distance"), "21 10");
}

TEST(Environment, KeepsExactNamesOnly) {
  using namespace std::literals;
  const auto environ = "OMP_NUM_THREADS=4\0SECRET_TOKEN=x\0OMP_NUM_THREADS_=5\0HF_TOKEN=y\0NCCL_ALGO=Ring\0"sv;
  const Snapshot kept = allowed_environment(environ);
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_EQ(kept[0].second, "4");
  EXPECT_EQ(kept[1].first, "NCCL_ALGO");
}

void step_daemon(const TestHost& host, int pid, const std::string& step, const std::string& cgroup) {
  host.process(pid, 1, "slurmstepd", 7, 0);
  host.write("/proc/" + std::to_string(pid) + "/status",
             "Name:\tslurmstepd\nUid:\t0\t0\t0\t0\nTgid:\t" + std::to_string(pid) + "\n");
  host.write("/proc/" + std::to_string(pid) + "/cmdline", "slurmstepd: [" + step + "]" + std::string(1, '\0'));
  host.write("/proc/" + std::to_string(pid) + "/cgroup", cgroup);
}

TEST_F(JobOnHost, FindsTheStepsOfASlurmJobAndLeavesOthersAlone) {
  host_.last_pid(950);
  step_daemon(host_, 500, "4711.batch", "8:freezer:/slurm_n1/uid_5/job_4711/step_batch\n");
  step_daemon(host_, 600, "4711.0", "8:freezer:/slurm_n2/uid_5/job_4711/step_0\n");
  step_daemon(host_, 700, "47.0", "8:freezer:/slurm_n1/uid_5/job_47/step_0\n");
  for (const int pid : {501, 601, 701}) host_.process(pid, pid - 1, "python3", 10, 0);
  start(JobSource::parse("slurm:4711@n1"));
  EXPECT_NE(job_->find(501), nullptr);
  EXPECT_EQ(job_->find(601), nullptr);  // of another node on this kernel
  EXPECT_EQ(job_->find(701), nullptr);
  EXPECT_EQ(job_->cpu_time_ns(), 10 * kTick);  // without the daemon's own work
  EXPECT_EQ(job_->cgroup_name(), "/job_4711");
  EXPECT_TRUE(job_->saw_other_job());
}

TEST_F(JobOnHost, TakesWhatAStepDaemonForksOrItsThreadForNoStepDaemon) {
  host_.last_pid(400);
  start(JobSource::parse("slurm:4711"));
  const std::string group = "0::/system.slice/slurmstepd.scope/job_4711/step_extern\n";
  for (const int pid : {500, 501, 502}) {
    step_daemon(host_, pid, "4711.extern", group);
    host_.write("/proc/" + std::to_string(pid) + "/comm", "slurmstepd\n");
  }
  host_.process(501, 500, "slurmstepd", 0, 0);
  host_.write("/proc/501/status", "Name:\tslurmstepd\nTgid:\t501\nPPid:\t500\nUid:\t0\t0\t0\t0\n");
  host_.write("/proc/502/status", "Name:\tslurmstepd\nTgid:\t500\nPPid:\t1\nUid:\t0\t0\t0\t0\n");
  host_.last_pid(502);
  step(10);
  host_.process(501, 500, "sleep", 3, 0);
  step(10);
  ASSERT_NE(job_->find(501), nullptr);
  EXPECT_FALSE(job_->find(501)->launcher);
  EXPECT_TRUE(job_->is_keeper(*job_->find(501)));
  EXPECT_EQ(job_->find(502), nullptr);
}

TEST_F(JobOnHost, TakesAStepThatNamesItselfLateAndStaysBetweenSteps) {
  host_.last_pid(400);
  start(JobSource::parse("slurm:4711"));
  EXPECT_TRUE(job_->processes().empty());
  host_.process(500, 1, "slurmstepd", 1, 0);
  host_.write("/proc/500/status", "Uid:\t0\t0\t0\t0\nTgid:\t500\n");
  host_.write("/proc/500/cmdline", "");  // in the middle of its exec
  host_.last_pid(500);
  step(11);
  host_.write("/proc/500/cmdline", std::string("/usr/sbin/slurmstepd\0infinity\0", 30));
  host_.process(501, 500, "sleep", 1, 0);
  host_.last_pid(501);
  step();
  EXPECT_EQ(job_->find(501), nullptr);
  step_daemon(host_, 500, "4711.0", "0::/system.slice/slurmstepd.scope/job_4711/step_0\n");
  step(20);
  EXPECT_NE(job_->find(501), nullptr);
  host_.remove("/proc/500");
  host_.remove("/proc/501");
  step(600);
  EXPECT_FALSE(job_->ended());
  step(6000);
  EXPECT_TRUE(job_->ended());
}

TEST_F(JobOnHost, BelievesNoStepDaemonThatIsNotRoots) {
  host_.last_pid(950);
  step_daemon(host_, 500, "4711.0", "0::/user.slice\n");
  host_.write("/proc/500/status", "Name:\tslurmstepd\nUid:\t1000\t1000\t1000\t1000\nTgid:\t500\n");
  host_.process(501, 500, "sleep", 1, 0);
  start(JobSource::parse("slurm:4711"));
  EXPECT_TRUE(job_->processes().empty());
}

TEST(JobSource, OfSlurmIsANumber) {
  EXPECT_EQ(JobSource::parse("slurm:4711@n1").slurm_node, "n1");
  EXPECT_THROW(static_cast<void>(JobSource::parse("slurm:")), Error);
  EXPECT_THROW(static_cast<void>(JobSource::parse("slurm:47x1")), Error);
}

}  // namespace
}  // namespace reveal
