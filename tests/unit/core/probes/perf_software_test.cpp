// Counting for real, with the events every kernel has, in all three scopes; and every way in which it is refused.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>

#include "core/pmu/counted_events.h"
#include "hdf5schema/basics/child_process.h"
#include "tests/unit/core/live_probe.h"
#include "tests/unit/core/test_host.h"
#include "tests/unit/core/work_process.h"

namespace reveal::tests::perf_software_test {
namespace {

/// The counts of perf match the cpu time that the kernel charged, except for other work of the process meanwhile:
/// reading its order, forking, reporting. A tick of cpu time of rusage is a microsecond.
void expect_counted(const WorkDone& done, std::int64_t clock, std::int64_t faults) {
  EXPECT_GE(done.cpu_ns, 2 * WorkProcess::kSpinNs);
  EXPECT_GE(clock, done.cpu_ns * 95 / 100);
  EXPECT_LE(clock, done.cpu_ns * 105 / 100 + 20'000'000);
  EXPECT_GE(faults, 2 * WorkProcess::kPages);
  EXPECT_GE(faults, done.minor_faults * 95 / 100);
  EXPECT_LE(faults, done.minor_faults * 105 / 100 + 200);
}

/// Runs `test` in a process of its own, which may give up any privilege; its exit status is the number of the failed
/// step.
int in_child(const std::function<int()>& test) {
  ChildProcess child = fork_child([&] {
    try {
      return test();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    return 125;
  });
  return exit_status(child.wait());
}

void become_nobody() {
  if (::setgid(65534) != 0 || ::setresuid(65534, 65534, 65534) != 0) throw std::runtime_error("still root");
  ::prctl(PR_SET_DUMPABLE, 1);  // as any process of a user: its children may be looked at by its owner
}

/// A control group of version 2 for one test.
class TestCgroup {
 public:
  explicit TestCgroup(const std::string& name) {
    for (const char* mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
      std::error_code error;
      if (!std::filesystem::exists(std::string(mount) + "/cgroup.controllers", error)) continue;
      folder_ = std::string(mount) + "/" + name;
      std::filesystem::create_directories(folder_, error);
      if (error || ::access((folder_ / "cgroup.procs").c_str(), W_OK) != 0) folder_.clear();
    }
  }
  ~TestCgroup() {
    if (!folder_.empty()) ::rmdir(folder_.c_str());
  }
  TestCgroup(const TestCgroup&) = delete;
  TestCgroup& operator=(const TestCgroup&) = delete;
  [[nodiscard]] bool take(int pid) const {
    return !folder_.empty() && static_cast<bool>(std::ofstream(folder_ / "cgroup.procs") << pid << std::flush);
  }

 private:
  std::filesystem::path folder_;
};

TEST(PerfCounting, OfTheJobsCgroupIsWhatTheKernelChargedTheJob) {
  const TestCgroup cgroup("reveal-test-" + std::to_string(::getpid()));
  const WorkProcess job;
  if (::geteuid() != 0 || !cgroup.take(job.pid())) GTEST_SKIP() << "no cgroup of version 2 that we may make";
  if (!perf_is_here()) GTEST_SKIP() << "needs perf_event_open";
  LiveProbe probe("perf_software", job.pid());
  ASSERT_EQ(probe.coverage().state, Coverage::State::ok) << probe.coverage().reason;
  EXPECT_EQ(probe.coverage().reason, "");  // nothing is lost
  const std::int64_t clock = probe.task_clock();
  const std::int64_t faults = probe.minor_faults();
  const std::int64_t switches = probe.value("perf/software", "perf.context_switches");
  const WorkDone done = job.work();
  probe.sample();
  expect_counted(done, probe.task_clock() - clock, probe.minor_faults() - faults);
  EXPECT_GE(probe.value("perf/software", "perf.context_switches") - switches,
            2);  // it waited for its child, and for us
}

TEST(PerfCounting, OfWholeCpusIsTheirTime) {
  if (::geteuid() != 0 || !perf_is_here()) GTEST_SKIP() << "needs root and perf_event_open";
  const std::int64_t before_open = now().monotonic_ns;
  LiveProbe probe("perf_software");
  const std::int64_t after_open = now().monotonic_ns;
  ASSERT_EQ(probe.coverage().state, Coverage::State::ok) << probe.coverage().reason;
  const WorkProcess work;
  const WorkDone done = work.work();
  const std::int64_t before_sample = now().monotonic_ns;
  probe.sample();
  const std::int64_t after_sample = now().monotonic_ns;
  KernelTree fs;
  const auto cpus = static_cast<std::int64_t>(Host::look(fs).cpus_online.size());
  // The sum begins at 1, with the counts from the opening on. NTP slews CLOCK_MONOTONIC by up to 500 ppm, and not the
  // processors' clocks.
  const std::int64_t least = cpus * (before_sample - after_open);
  const std::int64_t most = cpus * (after_sample - before_open) + 1;
  EXPECT_GE(probe.value("perf/cpu_time", "perf.cpu_clock"), least - least / 2000);
  EXPECT_LE(probe.value("perf/cpu_time", "perf.cpu_clock"), most + most / 2000);
  EXPECT_GE(probe.minor_faults(), done.minor_faults);
}

/// The process tree, for a user who may not count anything else: as the user nobody, in a process of our own.
int count_a_tree_as_nobody() {
  become_nobody();
  const WorkProcess job;
  LiveProbe probe("perf_software", job.pid());
  if (probe.coverage().state != Coverage::State::ok) {
    std::fprintf(stderr, "%s\n", probe.coverage().reason.c_str());
    return 77;
  }
  const std::int64_t clock = probe.task_clock();
  const std::int64_t faults = probe.minor_faults();
  const WorkDone done = job.work();
  probe.sample();
  expect_counted(done, probe.task_clock() - clock, probe.minor_faults() - faults);
  if (probe.coverage().reason.find("the job's own processes are counted") == std::string::npos) return 2;
  KernelTree fs;
  const bool hidden = perf_event_paranoid(fs) >= "2";
  // Where the kernel hides itself, a context switch would be counted as none: that is not a measurement.
  const bool missing = probe.value("perf/software", "perf.context_switches") == kMissing;
  const bool said = probe.coverage().reason.find("not counted: perf.context_switches") != std::string::npos;
  if (hidden != missing || hidden != said) return 3;
  return ::testing::Test::HasFailure() ? 1 : 0;
}

TEST(PerfCounting, OfAProcessTreeNeedsNoPrivilege) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become somebody else";
  const int status = in_child(count_a_tree_as_nobody);
  if (status == 77) GTEST_SKIP() << "this kernel lets no user count";
  EXPECT_EQ(status, 0);
}

/// The process tree, counted by hand.
class TreeCount {
 public:
  explicit TreeCount(int pid)
      : host_(Host::look(fs_)),
        job_(fs_, host_, JobSource{.pid = pid}, ::getpid()),
        events_({.fs = fs_, .host = host_, .sink = sink_, .period = std::chrono::hours(1), .job = &job_},
                CountingScope{.kind = CountingScope::Kind::tasks, .open = open_perf_event},
                {{.event = {.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_TASK_CLOCK}},
                 {.event = {.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_PAGE_FAULTS_MIN}}}) {
    events_.open();
    sample();
  }
  void sample() {
    job_.update(now());
    events_.sample();
  }
  CountedEvents& events() { return events_; }

 private:
  KernelTree fs_;
  Host host_;
  TraceSink sink_;
  Job job_;
  CountedEvents events_;
};

TEST(PerfCounting, OfATreeKeepsWhatItsDeadChildrenDid) {
  if (::geteuid() != 0 || !perf_is_here()) GTEST_SKIP() << "needs perf_event_open for kernel time, too";
  const WorkProcess job;
  TreeCount tree(job.pid());
  const std::int64_t clock = tree.events().total(0);
  const std::int64_t faults = tree.events().total(1);
  ASSERT_NE(clock, kMissing);
  WorkDone sum;
  for (int round = 0; round < 2; ++round) {
    const WorkDone done = job.work();
    sum.cpu_ns += done.cpu_ns;
    sum.minor_faults += done.minor_faults;
    tree.sample();
  }
  // One of the two rounds would be half of it; on a busy machine the two clocks differ by some percent.
  EXPECT_GE(tree.events().total(0) - clock, sum.cpu_ns * 80 / 100);
  EXPECT_LE(tree.events().total(0) - clock, sum.cpu_ns * 120 / 100 + 20'000'000);
  EXPECT_GE(tree.events().total(1) - faults, 4 * WorkProcess::kPages);
}

TEST(PerfCounting, IsMissingWhileItIsClosedAndBeginsAnew) {
  if (::geteuid() != 0 || !perf_is_here()) GTEST_SKIP() << "needs perf_event_open for kernel time, too";
  const WorkProcess job;
  TreeCount tree(job.pid());
  const std::int64_t before = tree.events().total(0);
  tree.events().close();
  tree.sample();
  EXPECT_EQ(tree.events().total(0), kMissing);
  static_cast<void>(job.work());
  tree.events().open();
  tree.sample();
  // The job's work meanwhile is not known: the counter steps back, which the trace stores as one missing increment.
  EXPECT_EQ(tree.events().total(0), before - 1);
  double counted = 0;  // counted work; on a busy machine the two clocks differ now and then
  for (int round = 0; round < 5 && counted < 0.95; ++round) {
    const std::int64_t until_now = tree.events().total(0);
    const WorkDone done = job.work();
    tree.sample();
    counted = static_cast<double>(tree.events().total(0) - until_now) / static_cast<double>(done.cpu_ns);
  }
  EXPECT_GE(counted, 0.95);
}

TEST(PerfCounting, IsOpenedAgainOnTheCpusThatAreOnline) {
  const TestHost machine;
  KernelTree fs(machine.root());
  fs.limit_kept_files(0);
  const Host host = Host::look(fs);
  TraceSink sink;
  std::vector<int> opened;
  CountingScope scope{.kind = CountingScope::Kind::cpus};
  scope.targets = {{.cpu = 0}, {.cpu = 1}};
  scope.open = [&opened](const PerfRequest& request) {
    opened.push_back(request.target.cpu);
    return PerfOpened{Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)), 0};
  };
  CountedEvents events({.fs = fs, .host = host, .sink = sink, .period = std::chrono::hours(1)}, std::move(scope),
                       {{.event = {.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_CPU_CLOCK}}});
  const auto opened_at_next_sample = [&](const char* online) {
    machine.write("/sys/devices/system/cpu/online", online);
    opened.clear();
    events.sample();
    return opened;
  };
  events.open();
  EXPECT_EQ(opened, (std::vector<int>{0, 1}));
  EXPECT_EQ(opened_at_next_sample("0-1\n"), std::vector<int>{});
  EXPECT_EQ(opened_at_next_sample("0\n"), std::vector<int>{0});
  EXPECT_EQ(opened_at_next_sample("0-1\n"), (std::vector<int>{0, 1}));
  EXPECT_EQ(opened_at_next_sample("0-2\n"), (std::vector<int>{0, 1, 2}));  // the job may run on a new one
  EXPECT_EQ(opened_at_next_sample(""), std::vector<int>{});                // not known
  events.close();
  EXPECT_EQ(opened_at_next_sample("0\n"), std::vector<int>{});
}

TEST(PerfRefused, SaysWhyInOneSentence) {
  for (const std::string paranoid : {"0", "1", "2", "3", "4"}) {
    EXPECT_EQ(why_not_counted(EACCES, paranoid),
              "the kernel does not allow this user to count (kernel.perf_event_paranoid = " + paranoid + ")");
  }
  EXPECT_NE(why_not_counted(ENOENT, "2").find("no such counter"), std::string::npos);
  EXPECT_NE(why_not_counted(ENODEV, "2").find("does not have this event"), std::string::npos);
  EXPECT_NE(why_not_counted(EMFILE, "2").find("RLIMIT_NOFILE"), std::string::npos);
  EXPECT_NE(why_not_counted(ENOSYS, "2").find("seccomp"), std::string::npos);
  EXPECT_NE(why_not_counted(EPERM, "2").find("seccomp"), std::string::npos);
  EXPECT_NE(why_not_counted(EBUSY, "2"), why_not_counted(ENOSPC, "2"));
  EXPECT_FALSE(why_not_counted(EIO, "2").empty());
}

TEST(PerfRefused, AWholeCpuToWhoMayNotLookAtIt) {
  KernelTree fs;
  if (::geteuid() != 0 || perf_event_paranoid(fs) < "1") GTEST_SKIP() << "everybody may count here";
  if (!perf_is_here()) GTEST_SKIP() << "nobody may count here";
  EXPECT_EQ(in_child([] {
              become_nobody();
              return open_perf_event({.event = {.type = PERF_TYPE_SOFTWARE}, .target = {.cpu = 0}}).error;
            }),
            EACCES);
}

TEST(PerfRefused, BySeccompIsAReasonNotAnError) {
  if (::prctl(PR_GET_SECCOMP) < 0) GTEST_SKIP() << "this kernel, or its emulation, has no seccomp";
  for (const int denied : {EPERM, ENOSYS}) {
    EXPECT_EQ(in_child([denied] {
                sock_filter program[] = {
                    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
                    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(denied)),
                    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
                };
                const sock_fprog filter{.len = 4, .filter = program};
                if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 2;
                if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) return 3;
                for (const char* name : {"perf_software", "perf_hardware"}) {
                  const LiveProbe probe(name, ::getppid());
                  if (probe.coverage().state != Coverage::State::absent) return 4;
                  if (probe.coverage().reason.find("seccomp") == std::string::npos) return 5;
                }
                return 0;
              }),
              0);
  }
}

TEST(PerfRefused, WithTooFewFilesCountsWhatFitsAndSaysSo) {
  if (::geteuid() != 0 || !perf_is_here()) GTEST_SKIP() << "needs root and perf_event_open";
  EXPECT_EQ(in_child([] {
              KernelTree fs;
              const Host host = Host::look(fs);
              TraceSink sink;
              CountingScope scope{.kind = CountingScope::Kind::cpus, .open = open_perf_event};
              for (const int cpu : host.cpus_online) scope.targets.push_back({.cpu = cpu});
              std::vector<WantedEvent> wanted;
              for (std::size_t group = 0; group < 2; ++group) {
                wanted.push_back({{.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_CPU_CLOCK}, group});
                wanted.push_back({{.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_PAGE_FAULTS}, group});
              }
              CountedEvents events({.fs = fs, .host = host, .sink = sink, .period = std::chrono::hours(1)},
                                   std::move(scope), wanted);
              // Enough descriptors for the first group on every cpu and for a part of the second.
              rlimit limit{};
              ::getrlimit(RLIMIT_NOFILE, &limit);
              const std::size_t room = files_for_counters();
              limit.rlim_cur -= room - (2 * host.cpus_online.size() + 1);
              ::setrlimit(RLIMIT_NOFILE, &limit);
              events.open();
              events.sample();
              if (events.error(0) != 0 || events.total(0) == kMissing) return 2;
              if (events.error(2) != EMFILE || events.total(2) != kMissing) return 3;
              const std::string losses = events.losses({"a", "b", "c", "d"});
              return losses.find("not counted: c, d (too many open files") == std::string::npos ? 4 : 0;
            }),
            0);
}

}  // namespace
}  // namespace reveal::tests::perf_software_test
