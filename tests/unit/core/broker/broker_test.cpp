// Decisions of a Slurm job's collector without Slurm: its cpus, its interval, its spool space, and whether the job is
// over.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <functional>

#include "core/broker/extern_step.h"
#include "core/broker/job_spool.h"
#include "core/broker/ledger_lines.h"
#include "core/broker/privileges.h"
#include "core/broker/slurm_sampler.h"
#include "core/broker/user_cgroup.h"
#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/error.h"
#include "test_host.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::broker_test {
namespace {

namespace fs = std::filesystem;

CpuSet cpus(std::string_view list) {
  return CpuSet::of_list(list);
}

/// Lists those of the first eight cpus that are in the set.
std::string listed(const CpuSet& set) {
  std::string text;
  for (int cpu = 0; cpu < 8; ++cpu) text += set.contains(cpu) ? std::to_string(cpu) : "";
  return text;
}

TEST(SamplerCpus, AreTheJobsOwnWhereSlurmConfinesIt) {
  EXPECT_EQ(listed(cpus_for_sampler({.online = cpus("0-7"), .allocated = cpus("0-3"), .tasks = cpus("0-2")})), "3");
  EXPECT_EQ(listed(cpus_for_sampler({.online = cpus("0-7"), .allocated = cpus("0-3"), .tasks = cpus("0-3")})), "0123");
}

TEST(SamplerCpus, AreThoseOfTheTasksOnANodeThatOthersUse) {
  EXPECT_EQ(
      listed(cpus_for_sampler({.online = cpus("0-7"), .allocated = cpus("0-7"), .tasks = cpus("0-2"), .shared = true})),
      "012");
}

TEST(SamplerCpus, AreOthersOnlyOnANodeOfTheJobAlone) {
  EXPECT_EQ(listed(cpus_for_sampler({.online = cpus("0-7"), .allocated = cpus("0-7"), .tasks = cpus("0-2")})), "34567");
  EXPECT_EQ(listed(cpus_for_sampler({.online = cpus("0-7"), .allocated = cpus("0-7"), .tasks = cpus("0-7")})),
            "01234567");
  EXPECT_EQ(listed(cpus_for_sampler({.online = cpus("0-7")})), "01234567");
}

class Site : public testing::Test {
 protected:
  [[nodiscard]] std::string config(const std::string& text) const {
    std::ofstream((base_ / "conf").string()) << text;
    return base_ / "conf";
  }
  [[nodiscard]] Config site(const std::string& text) const {
    Config read;
    read.read_file(config(text), ConfigOwner::site);
    return read;
  }
  TemporaryDirectory directory_of_test_;
  const fs::path base_ = directory_of_test_.path();
};

TEST_F(Site, BoundsTheIntervalThatUsersAskFor) {
  const std::string floor = config("[slurm]\nmin_interval = \"200ms\"\ninterval = \"1s\"\n");
  EXPECT_EQ(read_sampling(floor, "interval=10ms").interval, "200ms");
  EXPECT_EQ(read_sampling(floor, "interval=500ms").interval, "500ms");
  EXPECT_EQ(read_sampling(floor, "interval=nonsense").interval, "1s");
  EXPECT_EQ(read_sampling(floor, "").interval, "1s");
  EXPECT_EQ(read_sampling(config(""), "interval=10ms").interval, "10ms");
}

TEST_F(Site, LetsUsersChooseWhetherCallsAreCounted) {
  const std::string ask = config("");
  EXPECT_FALSE(read_sampling(ask, "").stack);
  EXPECT_TRUE(read_sampling(ask, "interval=1s,stack=on").stack);
  EXPECT_TRUE(read_sampling(ask, "stack").stack);
  EXPECT_FALSE(read_sampling(ask, "stack=nonsense").stack);
  EXPECT_TRUE(read_sampling(ask, "", "on").stack);
  EXPECT_FALSE(read_sampling(ask, "stack=off", "on").stack);
  EXPECT_FALSE(read_sampling(ask, "", "nonsense").stack);
  EXPECT_FALSE(read_sampling(config("[run]\nstack = true\n"), "").stack);  // a key of reveal-run
  const std::string on = config("[slurm]\nstack = \"on\"\n");
  EXPECT_TRUE(read_sampling(on, "").stack);
  EXPECT_FALSE(read_sampling(on, "stack=off").stack);
  EXPECT_FALSE(read_sampling(on, "", "off").stack);
  EXPECT_FALSE(read_sampling(on, "").stack_forbidden);
  const std::string never = config("[slurm]\nstack = \"never\"\n");
  EXPECT_TRUE(read_sampling(never, "stack=on").stack_forbidden);
  EXPECT_TRUE(read_sampling(never, "probes=python").stack_forbidden);
}

TEST_F(Site, BoundsTheCostOfCountedCallsAndLeavesFunctionsOut) {
  EXPECT_EQ(parse_number(read_sampling(config(""), "").stack_budget), kDefaultStackBudget);
  EXPECT_EQ(read_sampling(config(""), "").stack_without, "");
  const std::string set = config("[slurm]\nstack_budget = 2\nstack_without = [\"c10d.wait\", \"torch.*\"]\n");
  EXPECT_EQ(read_sampling(set, "").stack_budget, "2");
  EXPECT_EQ(read_sampling(set, "").stack_without, "c10d.wait,torch.*");
  const std::string wrong = config("[slurm]\nstack_budget = 20\nstack_without = \"c10d.wiat\"\n");
  EXPECT_EQ(parse_number(read_sampling(wrong, "").stack_budget), kDefaultStackBudget);
  EXPECT_EQ(read_sampling(wrong, "").stack_without, "");
  EXPECT_EQ(read_sampling(config("[run]\nstack_budget = 2\n"), "").stack_budget, "0.5");  // a key of reveal-run
}

TEST_F(Site, AloneAllowsInterventionsWhichUsersMayRefuse) {
  EXPECT_EQ(read_sampling(config(""), "").interventions, "");
  EXPECT_EQ(read_sampling(config(""), "intervene=on").interventions, "");
  EXPECT_EQ(read_sampling(config("[run]\nintervene = true\n"), "").interventions, "");
  EXPECT_EQ(read_sampling(config("[intervention]\nrules = [\"cpu.outsider\"]\n"), "").interventions, "");
  const std::string allowed = config("[intervention]\nrules = [\"cpu.affinity_too_narrow\"]\n");
  EXPECT_EQ(read_sampling(allowed, "interval=1s").interventions, "cpu.affinity_too_narrow");
  EXPECT_EQ(read_sampling(allowed, "intervene=on").interventions, "cpu.affinity_too_narrow");
  EXPECT_EQ(read_sampling(allowed, "intervene=off").interventions, "");
  EXPECT_EQ(read_sampling(allowed, "intervene=never").interventions, "");
}

TEST_F(Site, DecidesWhetherProbesAreReadFaster) {
  EXPECT_TRUE(read_sampling(config(""), "").faster_reading);
  EXPECT_FALSE(read_sampling(config("[slurm]\nfaster_reading = false\n"), "").faster_reading);
}

TEST_F(Site, BoundsATraceAlsoWhereItSaysNothing) {
  EXPECT_EQ(read_sampling(config(""), "").max_bytes, 2'000'000'000U);
  EXPECT_EQ(read_sampling(config("[slurm]\nspool_max = \"1MB\"\n"), "").max_bytes, 1'000'000U);
}

TEST_F(Site, NeverReadsAMistakeAsNoLimit) {
  for (const char* value : {"0", "lots", "99999999999TB", "-1", "[]"}) {
    const std::string text = std::string("[slurm]\nspool_max = ") + value + "\nspool_total_max = " + value + "\n";
    EXPECT_EQ(read_sampling(config(text), "").max_bytes, 2'000'000'000U) << value;
    EXPECT_EQ(spool_limits(base_, site(text)).run, 2'000'000'000U) << value;
    EXPECT_LE(spool_limits(base_, site(text)).total, 10'000'000'000U) << value;
    EXPECT_EQ(site(text).problems_of({"slurm"}).size(), 2U) << value;
  }
}

TEST_F(Site, TakesNoNewRunIntoAFullSpool) {
  if (::geteuid() != 0) GTEST_SKIP() << "of a user, half of the spool counts at most";
  const fs::path spool = base_ / "spool";
  fs::create_directories(spool / "4711");
  std::ofstream(spool / "4711/n1.h5") << std::string(100'000, 'x');
  const SpoolLimits roomy = spool_limits(spool, site("[slurm]\nspool_total_max = \"1MB\"\n"));
  EXPECT_EQ(roomy.total, 1'000'000U);
  EXPECT_NO_THROW(require_room(spool, roomy, 0));
  try {
    require_room(spool, spool_limits(spool, site("[slurm]\nspool_total_max = \"10KB\"\n")), 0);
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("more than spool_total_max (0 MB)"), std::string::npos) << text;
    EXPECT_NE(text.find("the oldest undelivered run is 4711"), std::string::npos) << text;
  }
  const SpoolLimits standard = spool_limits(spool, site(""));
  EXPECT_GT(standard.total, 0U);
  EXPECT_LE(standard.total, 10'000'000'000U);
}

TEST_F(Site, CountsTheSpoolBehindAFolderThatCannotBeListed) {
  if (::geteuid() == 0) GTEST_SKIP() << "root can list every folder";
  const fs::path spool = base_ / "spool";
  for (const char* run : {"1", "2", "3", "4", "5"}) {
    fs::create_directories(spool / run / "closed");
    fs::permissions(spool / run / "closed", fs::perms::none);
    std::ofstream(spool / (run + std::string("0"))) << std::string(100'000, 'x');
  }
  EXPECT_THROW(require_room(spool, {.total = 800'000}, ::geteuid()), Error) << "more than half of it";
  EXPECT_NO_THROW(require_room(spool, {.total = 4'000'000}, ::geteuid()));
  for (const char* run : {"1", "2", "3", "4", "5"}) fs::permissions(spool / run / "closed", fs::perms::owner_all);
}

TEST_F(Site, LetsTheFilesOfOneUserEndHisRecordingsOnly) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  const fs::path spool = base_ / "spool";
  const SpoolLimits limits{.total = 1'000'000};
  const auto put = [&](const char* run, uid_t user, std::size_t bytes) {
    fs::create_directories(spool / run);
    std::ofstream(spool / run / "n1.h5") << std::string(bytes, 'x');
    for (const fs::path& path : {spool / run, spool / run / "n1.h5"}) ASSERT_EQ(::chown(path.c_str(), user, user), 0);
  };
  put("1", 1001, 3'000'000);
  EXPECT_NO_THROW(require_room(spool, limits, 1002));
  EXPECT_THROW(require_room(spool, limits, 1001), Error);
  if (seal_job_spool(spool / "1", 1001, 10'000'000)) {
    EXPECT_THROW(require_room(spool, limits, 1001), Error) << "root's by now, and still this user's";
    EXPECT_NO_THROW(require_room(spool, limits, 1002));
  }
  put("2", 1002, 400'000);
  put("3", 1003, 400'000);
  try {
    require_room(spool, limits, 1002);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the largest part, 3 MB, belongs to user 1001"), std::string::npos)
        << error.what();
  }
}

TEST_F(Site, LooksIntoNoFileSystemThatAUserMountedInTheSpool) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root mounts without more";
  const fs::path spool = base_ / "spool";
  for (const char* run : {"1/inner", "2"}) fs::create_directories(spool / run);
  ASSERT_EQ(::chown((spool / "1").c_str(), 1001, 1001), 0);
  ASSERT_EQ(::chown((spool / "2").c_str(), 1002, 1002), 0);
  for (const fs::path& place : {spool / "1/inner", spool / "2"}) {
    if (::mount("tmpfs", place.c_str(), "tmpfs", 0, "size=4m") != 0) {
      ::umount((spool / "1/inner").c_str());
      GTEST_SKIP() << "this root may not mount a tmpfs";
    }
    std::ofstream(place / "n1.h5") << std::string(2'000'000, 'x');
  }
  const SpoolLimits limits{.total = 1'000'000};
  EXPECT_NO_THROW(require_room(spool, limits, 1003)) << "nothing of it counts for others";
  EXPECT_THROW(require_room(spool, limits, 1001), Error);
  for (const fs::path& place : {spool / "1/inner", spool / "2"}) EXPECT_EQ(::umount(place.c_str()), 0);
  EXPECT_NO_THROW(require_room(spool, limits, 1001));
}

TEST_F(Site, GivesTheUserNoFileOfOthersWhichHeMovedIntoTheSpool) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  const fs::path folder = base_ / "spool/1";
  fs::create_directories(folder);
  for (const char* name : {"own.h5", "others.h5", "roots.h5"}) std::ofstream(folder / name) << "x";
  for (const fs::path& path : {folder, folder / "own.h5"}) ASSERT_EQ(::chown(path.c_str(), 1001, 1001), 0);
  ASSERT_EQ(::chown((folder / "others.h5").c_str(), 1002, 1002), 0);
  if (!seal_job_spool(folder, 1001, 1000)) GTEST_SKIP() << "no access control lists here";
  struct stat status {};
  ASSERT_EQ(::stat((folder / "own.h5").c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 0U);
  EXPECT_EQ(status.st_mode & 0777, 0640U) << "the user's right to read shows as the group's";
  EXPECT_FALSE(fs::exists(folder / "others.h5"));
  EXPECT_FALSE(fs::exists(folder / "roots.h5"));
  // The same job runs again: what is sealed already stays.
  ASSERT_EQ(::chown(folder.c_str(), 1001, 1001), 0);
  EXPECT_TRUE(seal_job_spool(folder, 1001, 1000));
  EXPECT_TRUE(fs::exists(folder / "own.h5"));
}

class ExternSteps : public testing::Test {
 protected:
  void daemon(int pid, const std::string& title, const std::string& uid = "0") const {
    const std::string folder = "/proc/" + std::to_string(pid);
    host_.process(pid, 1, "slurmstepd", 0, 0);
    host_.write(folder + "/comm", "slurmstepd\n");
    host_.write(folder + "/status", "Uid:\t" + uid + "\t0\t0\t0\nTgid:\t" + std::to_string(pid) + "\nPPid:\t1\n");
    host_.write(folder + "/cmdline", "slurmstepd: [" + title + "]" + std::string(1, '\0'));
    host_.write(folder + "/cgroup", "8:freezer:/slurm_n1/uid_5/job_4711/step_extern\n");
  }
  /// Looks until it is gone; the number of looks, 0 if it never was within many.
  int looks_until_gone(const std::string& node = "n1") {
    KernelTree fs(host_.root());
    ExternStep step(fs, "4711", node);
    for (int look = 1; look <= 20; ++look) {
      if (look == 3) host_.remove("/proc/500");
      if (step.update()) return look;
    }
    return 0;
  }
  TestHost host_;
};

TEST_F(ExternSteps, AreGoneAWhileAfterTheirDaemonIs) {
  daemon(400, "4712.extern");
  daemon(401, "4711.0");
  daemon(500, "4711.extern");
  EXPECT_EQ(looks_until_gone(), 8);
}

TEST_F(ExternSteps, AreNotGoneWhereNoneWasSeen) {
  daemon(401, "4711.0");
  EXPECT_EQ(looks_until_gone(), 0);
  daemon(500, "4711.extern", "1000");  // any user's process can have that name
  EXPECT_EQ(looks_until_gone(), 0);
  daemon(500, "4711.extern");
  EXPECT_EQ(looks_until_gone("n2"), 0);  // another node on this kernel
}

TEST(UserCgroup, IsNotNeeded) {
  const TemporaryDirectory nothing;
  const UserCgroup cgroup("4711.n1", nothing.path() / "missing");
  cgroup.leave_foreign_groups();
  cgroup.join();
  cgroup.set_cpu_share(UserCgroup::CpuShare::least);
  cgroup.deny_devices();
  cgroup.kill_all();
}

TEST(UserCgroup, IsMadeInTheHierarchiesThatLimitAndRemovedAgain) {
  const TemporaryDirectory root;
  for (const char* name : {"memory", "pids", "cpu,cpuacct", "cpuset", "perf_event"}) {
    fs::create_directory(root.path() / name);
  }
  const std::string group = "reveal/4711.n1." + std::to_string(::getpid());
  {
    const UserCgroup cgroup("4711.n1", root.path());
    for (const char* name : {"memory", "pids", "cpu,cpuacct"})
      EXPECT_TRUE(fs::exists(root.path() / name / group)) << name;
    for (const char* name : {"cpuset", "perf_event"}) EXPECT_FALSE(fs::exists(root.path() / name / "reveal")) << name;
  }
  for (const char* name : {"memory", "pids", "cpu,cpuacct"}) EXPECT_FALSE(fs::exists(root.path() / name / "reveal"));
}

/// In `hierarchy`, a process in a session of its own, without its parent.
void expect_that_nothing_outlives_it(const fs::path& root, const fs::path& hierarchy) {
  const UserCgroup cgroup("4711.test", root);
  if (!fs::exists(hierarchy / ("reveal/4711.test." + std::to_string(::getpid())))) {
    GTEST_SKIP() << "no control group can be made in " << hierarchy;
  }
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    cgroup.join();
    if (::fork() == 0) {
      ::setsid();
      const pid_t own = ::getpid();
      static_cast<void>(::write(ends[1], &own, sizeof own) < 0);
      while (true) ::pause();
    }
    ::_exit(0);
  }
  ::close(ends[1]);
  pid_t left = 0;
  ASSERT_EQ(::read(ends[0], &left, sizeof left), static_cast<ssize_t>(sizeof left));
  ASSERT_EQ(::waitpid(parent, nullptr, 0), parent);
  cgroup.kill_all();
  pollfd closed{ends[0], POLLIN, 0};
  if (::poll(&closed, 1, 5000) != 1) {
    ADD_FAILURE() << "it goes on";
    ::kill(left, SIGKILL);
  }
  ::close(ends[0]);
}

TEST(UserCgroup, KillsNoProcessThatIsNoMemberAnyMore) {
  ChildProcess child = fork_child([]() -> int {
    while (true) ::pause();
  });
  ASSERT_TRUE(child);
  EXPECT_FALSE(kill_member(child.pid(), [](pid_t) { return false; }));
  EXPECT_FALSE(child.status()) << "its number may be that of another process by now";
  EXPECT_TRUE(kill_member(child.pid(), [&](pid_t pid) { return pid == child.pid(); }));
  EXPECT_EQ(exit_status(child.wait()), 128 + SIGKILL);
  EXPECT_FALSE(kill_member(child.pid(), [](pid_t) { return true; })) << "it has ended";
}

TEST(UserCgroup, IsLeftByNoProcessInVersionOne) {
  expect_that_nothing_outlives_it("/sys/fs/cgroup", "/sys/fs/cgroup/pids");
}

TEST(UserCgroup, IsLeftByNoProcessInVersionTwo) {
  const bool hybrid = fs::exists("/sys/fs/cgroup/unified/cgroup.controllers");
  const fs::path root = hybrid ? "/sys/fs/cgroup/unified" : "/sys/fs/cgroup";
  if (!fs::exists(root / "cgroup.controllers")) GTEST_SKIP() << "this machine has version 1 only";
  expect_that_nothing_outlives_it(root, root);
}

/// The errno of a call in a child process that has given up the calls which such a process does not make.
int error_in(UserProcess process, const std::function<long()>& call) {
  ChildProcess child = fork_child([&] {
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    refuse_system_calls(process);
    return call() < 0 ? errno : 0;
  });
  return WEXITSTATUS(child.wait());
}

/// The same without that.
int error_of(const std::function<long()>& call) {
  ChildProcess child = fork_child([&] { return call() < 0 ? errno : 0; });
  return WEXITSTATUS(child.wait());
}

constexpr struct {
  const char* name;
  long (*call)();
} kCallsOfNoUserProcess[] = {
    {"ptrace", [] { return ::syscall(SYS_ptrace, 0, 0, 0, 0); }},
    {"mount", [] { return ::syscall(SYS_mount, "none", "/", "tmpfs", 0, nullptr); }},
    {"fsopen", [] { return ::syscall(430, "tmpfs", 0); }},
    {"add_key", [] { return ::syscall(SYS_add_key, "user", "k", "x", 1, -3); }},
    {"userfaultfd", [] { return ::syscall(SYS_userfaultfd, -1); }},
    {"init_module", [] { return ::syscall(SYS_init_module, nullptr, 0, nullptr); }},
    {"unshare", [] { return ::syscall(SYS_unshare, 0); }},
};

TEST(LedgerLines, TakeNoMoreThanAMegabyte) {
  const Descriptor file = make_ledger_lines();
  ASSERT_TRUE(file);
  EXPECT_FALSE(has_ledger_lines(file));
  EXPECT_FALSE(has_ledger_lines(Descriptor()));
  EXPECT_FALSE(write_all(file.get(), std::string(2 << 20, '{')));
  EXPECT_NE(::ftruncate(file.get(), 2 << 20), 0);
  struct stat status {};
  ASSERT_EQ(::fstat(file.get(), &status), 0);
  EXPECT_EQ(status.st_size, 1'048'576);
  EXPECT_TRUE(has_ledger_lines(file));
}

TEST(LedgerLines, AreNeverExecuted) {
  constexpr int kNeverExecuted = 0x20;  // F_SEAL_EXEC
  const Descriptor other(::memfd_create("other", MFD_CLOEXEC | 8 /* MFD_NOEXEC_SEAL */));
  if (!other) GTEST_SKIP() << "this kernel has no such files in memory (Linux 6.3)";
  const Descriptor file = make_ledger_lines();
  EXPECT_NE(::fcntl(file.get(), F_GET_SEALS) & kNeverExecuted, 0) << "refused where vm.memfd_noexec is 2";
}

TEST(SystemCallsOfASampler, StartNoProgramAndTraceAndMountNothing) {
  if (::prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0) GTEST_SKIP() << "this kernel has no filters of system calls";
  char program[] = "/bin/true";
  char* const words[] = {program, nullptr};
  char* const nothing[] = {nullptr};
  const auto start = [&] { return ::syscall(SYS_execve, program, words, nothing); };
  EXPECT_EQ(error_in(UserProcess::sampler, start), EPERM);
  for (const auto& [name, call] : kCallsOfNoUserProcess) EXPECT_EQ(error_in(UserProcess::sampler, call), EPERM) << name;
  EXPECT_EQ(error_in(UserProcess::sampler, [] { return ::syscall(SYS_getppid); }), 0);
}

TEST(SystemCallsOfADeliverer, StartProgramsAndTraceAndMountNothing) {
  if (::prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0) GTEST_SKIP() << "this kernel has no filters of system calls";
  const UserProcess deliverer = UserProcess::deliverer;
  for (const auto& [name, call] : kCallsOfNoUserProcess) EXPECT_EQ(error_in(deliverer, call), EPERM) << name;
  EXPECT_EQ(error_in(deliverer, [] { return ::syscall(SYS_perf_event_open, nullptr, 0, -1, -1, 0); }), EPERM);
  EXPECT_EQ(error_in(deliverer, [] { return ::syscall(SYS_bpf, 0, nullptr, 0); }), EPERM);
  EXPECT_EQ(error_in(deliverer, [] { return ::syscall(425, 0, nullptr); }), EPERM) << "io_uring_setup";
  EXPECT_EQ(error_in(deliverer, [] { return ::syscall(SYS_setns, -1, 0); }), EPERM);
  constexpr int kGetKeyring = 0;
  constexpr int kJoinKeyring = 1;
  EXPECT_EQ(error_in(deliverer, [] { return ::syscall(SYS_keyctl, kGetKeyring, -3, 0); }), EPERM);
  const auto join = [] { return ::syscall(SYS_keyctl, kJoinKeyring, nullptr); };
  EXPECT_EQ(error_in(deliverer, join), error_of(join)) << "as become_user() does";

  // A program that it starts is no freer.
  char shell[] = "/bin/sh";
  char option[] = "-c";
  char script[] = "test \"$(grep -c '^Seccomp:.*2$' /proc/self/status)\" = 1";
  char* const words[] = {shell, option, script, nullptr};
  char path[] = "PATH=/usr/bin:/bin";
  char* const environment[] = {path, nullptr};
  EXPECT_EQ(error_in(deliverer, [&] { return ::syscall(SYS_execve, shell, words, environment); }), 0);
}

}  // namespace
}  // namespace reveal::tests::broker_test
