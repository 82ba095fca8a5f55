// The processes of a job, and the resources that they used.
#include "core/job/job.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <vector>

#include "core/job/loaded_libraries.h"
#include "core/job/opened_devices.h"
#include "core/job/sub_cgroups.h"
#include "hdf5schema/basics/error.h"
#include "job_on_host.h"

namespace reveal::tests::job_test {
namespace {

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

TEST_F(JobOnHost, CountsFromTheFirstUpdateThatIsNoMereLook) {
  host_.collector_since(200);
  host_.last_pid(900);
  host_.process(500, 1, "launcher", 0, 0, 0, 300);
  host_.process(501, 500, "python3", 40, 10, 0, 300);
  start({.pid = 500}, Job::Count::no);
  ASSERT_NE(job_->find(501), nullptr);
  EXPECT_EQ(job_->cpu_time_ns(), kMissing);
  host_.process(501, 500, "python3", 60, 10, 0, 300);
  step();
  EXPECT_EQ(job_->cpu_time_ns(), 0);  // both began since the collector did
  EXPECT_EQ(job_->find(501)->found_ns, now_);
  step();
  EXPECT_EQ(job_->cpu_time_ns(), 70 * kTick);
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

/// Gives a process of the host its program.
void run_program(const TestHost& host, const std::string& process, const std::string& file) {
  const std::string folder = host.root().string() + "/proc/" + process;
  std::filesystem::create_directories(folder);
  std::filesystem::create_symlink(file, folder + "/exe");
}

TEST_F(JobOnHost, IsNotOurOwnProgramsThatRunBelowIt) {
  host_.last_pid(900);
  run_program(host_, "self", "/opt/reveal/bin/reveal-collect");
  host_.process(500, 1, "bash", 1, 0);
  host_.process(501, 500, "python3", 20, 0);
  host_.process(510, 500, "reveal", 300, 0);  // reveal watch, in a step of its own
  run_program(host_, "510", "/opt/reveal/bin/reveal");
  host_.process(520, 500, "reveal-run", 5, 0);
  host_.process(521, 520, "solver", 40, 0);
  host_.process(530, 500, "reveal-collect", 70, 0, 7);  // started by that reveal-run
  host_.process(531, 530, "reveal-collect", 90, 0);
  host_.process(540, 500, "reveal-witness", 2, 0);
  start({.pid = 500});
  EXPECT_EQ(job_->cpu_time_ns(), 61 * kTick);
  for (const int own : {510, 520, 530, 540}) EXPECT_TRUE(job_->find(own)->launcher) << own;
  EXPECT_EQ(job_->find(531), nullptr);
  EXPECT_FALSE(job_->find(521)->launcher);
}

TEST_F(JobOnHost, KeepsAProgramOfItsOwnThatHasOurName) {
  host_.last_pid(900);
  run_program(host_, "self", "/opt/reveal/bin/reveal-collect");
  host_.process(500, 1, "bash", 1, 0);
  host_.process(510, 500, "reveal", 300, 0);
  run_program(host_, "510", "/home/ada/geology/reveal");
  host_.process(511, 500, "reveal", 7, 0);  // its file cannot be seen
  start({.pid = 500});
  EXPECT_EQ(job_->cpu_time_ns(), 308 * kTick);
}

TEST_F(JobOnHost, CountsAProgramThatTookTheNameOfTheCollector) {
  host_.last_pid(900);
  run_program(host_, "self", "/opt/reveal/bin/reveal-collect");
  host_.process(500, 1, "bash", 1, 0);
  host_.process(510, 500, "reveal-collect", 300, 0);
  run_program(host_, "510", "/home/ada/bin/reveal-collect");
  host_.process(511, 510, "worker", 20, 0);
  run_program(host_, "520", "/opt/reveal/bin/reveal-run");
  host_.process(520, 500, "reveal-run", 5, 0);
  start({.pid = 500});
  EXPECT_EQ(job_->cpu_time_ns(), 321 * kTick);
  host_.remove("/proc/520/exe");
  run_program(host_, "520", "/home/ada/bin/reveal-run");  // executed by ours; its name stays
  step(10);
  host_.process(520, 500, "reveal-run", 45, 0);
  step();
  EXPECT_EQ(job_->cpu_time_ns(), (321 + 40) * kTick);
}

TEST_F(JobOnHost, CountsARootThatExecutesAnotherProgram) {
  host_.write("/run/rank.500", "0\n");
  host_.last_pid(900);
  host_.process(500, 1, "reveal-run", 100, 0);
  start({.directory = host_.root() / "run"});
  EXPECT_EQ(job_->cpu_time_ns(), 0);
  host_.process(500, 1, "solver", 130, 0);
  step();
  EXPECT_EQ(job_->cpu_time_ns(), 30 * kTick);
  EXPECT_FALSE(job_->find(500)->launcher);
}

TEST_F(JobOnHost, CountsTimeOfOurProgramsNeitherAfterTheirParentWaitedForThem) {
  host_.last_pid(900);
  host_.process(500, 1, "bash", 10, 0);
  host_.process(520, 500, "reveal-run", 5, 0);
  host_.process(521, 520, "solver", 40, 0);
  start({.pid = 500});
  EXPECT_EQ(job_->cpu_time_ns(), 50 * kTick);
  host_.remove("/proc/521");
  host_.process(520, 500, "reveal-run", 30, 0, 40);
  step();
  EXPECT_EQ(job_->cpu_time_ns(), 50 * kTick);
  host_.remove("/proc/520");
  host_.process(500, 1, "bash", 10, 0, 70);
  step();
  EXPECT_EQ(job_->cpu_time_ns(), 50 * kTick);
  host_.process(500, 1, "bash", 16, 0, 70);
  step();
  EXPECT_EQ(job_->cpu_time_ns(), 56 * kTick);
}

TEST_F(JobOnHost, CountsTheTimeOfAProcessWhileItIsNoProgramOfOurs) {
  host_.last_pid(900);
  host_.process(500, 1, "bash", 10, 0);
  host_.process(510, 500, "bash", 3, 0);
  host_.process(520, 500, "reveal-run", 5, 0);  // forked by reveal-run a moment ago
  start({.pid = 500});
  EXPECT_EQ(job_->cpu_time_ns(), 13 * kTick);
  host_.process(510, 500, "reveal-run", 9, 0);
  host_.process(520, 500, "solver", 25, 0);
  step();
  EXPECT_EQ(job_->cpu_time_ns(), (13 + 20) * kTick);
  EXPECT_TRUE(job_->find(510)->launcher);
  EXPECT_FALSE(job_->find(520)->launcher);
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

TEST(Job, ReadsProcessesThatNeverRanOnlyNowAndThen) {
  constexpr int kChildren = 60;
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }  // workers that tests before this one abandoned
  std::vector<pid_t> children;
  for (int i = 0; i < kChildren; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (;;) ::pause();
    }
    children.push_back(child);
  }
  KernelTree fs;
  const Host host = Host::look(fs);
  Job job(fs, host, JobSource{.pid = ::getpid()}, 0);
  std::int64_t now = 1'000'000'000;
  const auto look = [&] { job.update({now += kTenth, 0}); };
  const auto asleep = [&job](pid_t child) { return job.find(child) != nullptr && job.find(child)->stat.state == 'S'; };
  for (int i = 0; i < 1000 && !std::all_of(children.begin(), children.end(), asleep); ++i) look();
  std::int64_t reads = 0;
  for (int i = 0; i < 8; ++i) {
    look();
    const auto now_read = [&job](pid_t child) { return job.find(child)->read_at == job.find(::getpid())->read_at; };
    reads += std::count_if(children.begin(), children.end(), now_read);
  }
  // On a loaded machine, some were running when the clock ticked.
  const auto ran = std::count_if(children.begin(), children.end(), [&job](pid_t child) {
    const JobProcess* process = job.find(child);
    return process != nullptr && process->stat.user_ticks + process->stat.system_ticks > 0;
  });
  EXPECT_LT(reads, 8 * (kChildren / 2 + ran));
  EXPECT_GE(reads, kChildren);
  ::kill(children[0], SIGKILL);
  ::waitpid(children[0], nullptr, 0);
  look();
  EXPECT_EQ(job.find(children[0]), nullptr);  // at once
  for (const pid_t child : children) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
}

TEST_F(JobOnHost, HasEndedWithItsRootThoughNobodyWaitsForIt) {
  const auto root = [&](char state, int threads) {
    host_.write("/proc/500/stat", std::string("500 (a) ") + state + " 1 1 1 0 -1 4194304 11 0 22 0 1 0 0 0 20 0 " +
                                      std::to_string(threads) + " 0 100 0 0\n");
  };
  host_.last_pid(500);
  root('S', 2);
  start({.pid = 500});
  EXPECT_FALSE(job_->ended());
  root('Z', 2);  // its first thread has ended
  step();
  EXPECT_FALSE(job_->ended());
  root('Z', 1);
  step();
  EXPECT_TRUE(job_->ended());
  start({.pid = 500});  // it was a zombie from the beginning
  EXPECT_TRUE(job_->ended());
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
  const std::string fields = " (python3) R 500 1 1 0 -1 64 1 0 2 0 6 0 0 0 20 0 3 0 100 1000000 50";
  host_.write("/proc/510/stat", "510" + fields + " 9 1 1 0 0 0 0 0 0 0 0 0 0 -1 1 0 0 0 0 0\n");
  host_.write("/proc/511/stat", "511" + fields + "\n");  // which has it only in another file
  host_.write("/proc/511/status", "Name:\tpython3\nTgid:\t505\n");
  host_.last_pid(511);
  step();
  EXPECT_EQ(job_->find(510), nullptr);
  EXPECT_EQ(job_->find(511), nullptr);
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
  EXPECT_EQ(without.gpus(), "");  // no driver: descriptors are not read
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

TEST_F(JobOnHost, KnowsWhichRenderDevicesItsProcessesHold) {
  host_.last_pid(900);
  host_.process(500, 1, "python3", 3, 1);
  std::filesystem::create_directories(host_.root().string() + "/proc/500/fd");
  for (const char* number : {"128", "129", "130", "131", "132"}) {
    std::filesystem::create_symlink(std::string("/dev/dri/renderD") + number,
                                    host_.root().string() + "/proc/500/fd/" + number);
  }
  host_.write("/sys/class/drm/renderD128/device/uevent", "DRIVER=nvidia\nPCI_SLOT_NAME=0000:01:00.0\n");
  host_.write("/sys/class/drm/renderD129/device/uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:c1:00.0\n");
  host_.write("/sys/class/drm/renderD130/device/uevent", "DRIVER=xe\nPCI_SLOT_NAME=0000:03:00.0\n");
  host_.write("/sys/class/drm/renderD131/device/uevent", "DRIVER=i915\nPCI_SLOT_NAME=0000:00:02.0\n");
  host_.write("/sys/class/drm/renderD132/device/uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:00:02.0\n");
  start({.pid = 500});
  OpenedDevices devices(*fs_);
  devices.look(now_, *job_);
  EXPECT_EQ(devices.gpus(), "129-130,132") << "one belongs to the processor; in a guest, another may have its place";
  EXPECT_EQ(devices.render_gpus(), (std::set<int>{129, 130, 132}));
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

}  // namespace
}  // namespace reveal::tests::job_test
