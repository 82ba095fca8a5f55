// A counter that only root may open, handed to a process of a user; and refused requests.
#include "core/pmu/perf_broker.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "core/pmu/counter_group.h"
#include "hdf5schema/basics/request_socket.h"
#include "work_process.h"

namespace reveal::tests::perf_broker_test {
namespace {

constexpr PerfEvent kPageFaults{.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_PAGE_FAULTS_MIN};
constexpr PerfEvent kClock{.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_TASK_CLOCK};

/// job_4711 where Slurm makes the groups of jobs, beside a job that is not ours and a group that only has the name.
class PerfBroker : public ::testing::Test {
 protected:
  void SetUp() override {
    ::signal(SIGIO, SIG_IGN);
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    // The jobs of one test are other jobs of this node to the next, which may run at the same time.
    one_at_a_time_ = Descriptor(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(::flock(one_at_a_time_.get(), LOCK_EX), 0);
    if (open_perf_event({.event = kClock, .target = {.cpu = 0}}).error == ENOSYS) GTEST_SKIP() << "no perf_event_open";
    for (const std::string mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
      if (::access((mount + "/cgroup.controllers").c_str(), R_OK) == 0) mount_ = mount;
    }
    std::error_code error;
    scope_ = mount_ + "/reveal-test-" + std::to_string(::getpid()) + "_slurmstepd.scope";
    fake_ = mount_ + "/reveal-test-" + std::to_string(::getpid());
    for (const std::string& folder : {scope_ + "/job_4711", fake_ + "/job_4711"}) {
      if (mount_.empty() || !std::filesystem::create_directories(folder, error))
        GTEST_SKIP() << "no cgroup can be made";
    }
    ours_ = Descriptor(::open((scope_ + "/job_4711").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  void TearDown() override {
    std::error_code error;
    for (const std::string& folder : {scope_ + "/job_4711", scope_ + "/job_4712", fake_ + "/job_4711", scope_, fake_}) {
      std::filesystem::remove(folder, error);
    }
  }

  /// Serves until the sampler's end is closed.
  void serve_in_a_process() {
    sockets_ = make_request_sockets();  // not before the work process: it would keep the sampler's end open
    broker_ = ::fork();
    if (broker_ != 0) {
      sockets_.broker.close();
      return;
    }
    sockets_.sampler.close();
    while (true) {
      pollfd ready{sockets_.broker.get(), POLLIN, 0};
      ::poll(&ready, 1, -1);
      serve_perf_requests(sockets_.broker.get(), "4711");
      if ((ready.revents & POLLHUP) != 0) ::_exit(0);
    }
  }
  void end_broker() {
    sockets_.sampler.close();
    int status = -1;
    ::waitpid(broker_, &status, 0);
    EXPECT_EQ(status, 0);
  }

  Descriptor one_at_a_time_;
  std::string mount_, scope_, fake_;
  Descriptor ours_;
  RequestSockets sockets_;
  pid_t broker_ = -1;
};

TEST_F(PerfBroker, OpensAGroupOfCountersThatTheUserMayNotOpen) {
  const WorkProcess job;
  ASSERT_TRUE(std::ofstream(scope_ + "/job_4711/cgroup.procs") << job.pid() << std::flush);
  serve_in_a_process();
  const pid_t user = ::fork();
  if (user == 0) {
    if (::setresgid(65534, 65534, 65534) != 0 || ::setresuid(65534, 65534, 65534) != 0) ::_exit(2);
    const OpenPerf ask = perf_broker_client(sockets_.sampler.get());
    std::vector<CounterGroup> cpus;
    for (int cpu = 0; cpu < static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)); ++cpu) {
      const PerfTarget target{.cpu = cpu, .cgroup_fd = ours_.get()};
      if (open_perf_event({.event = kClock, .target = target}).error == 0) ::_exit(77);  // any user may, here
      cpus.emplace_back(target);
      if (cpus.back().add(ask, kClock, false) != 0 || cpus.back().add(ask, kPageFaults, false) != 0) ::_exit(3);
      cpus.back().start();
    }
    const WorkDone done = job.work();
    std::int64_t clock = 0;
    std::int64_t faults = 0;
    for (CounterGroup& cpu : cpus) {
      if (!cpu.read()) ::_exit(4);
      clock += static_cast<std::int64_t>(cpu.reading().values[0]);
      faults += static_cast<std::int64_t>(cpu.reading().values[1]);
    }
    if (clock < done.cpu_ns * 95 / 100 || clock > done.cpu_ns * 105 / 100 + 20'000'000) ::_exit(5);
    ::_exit(faults >= 2 * WorkProcess::kPages && faults >= done.minor_faults * 95 / 100 ? 0 : 6);
  }
  int status = -1;
  ::waitpid(user, &status, 0);
  end_broker();
  if (status == 77 << 8) GTEST_SKIP() << "everybody may count here";
  EXPECT_EQ(status, 0) << "exit " << WEXITSTATUS(status);
}

TEST_F(PerfBroker, OpensNothingButTheJobsOwn) {
  std::filesystem::create_directory(scope_ + "/job_4712");
  serve_in_a_process();
  const OpenPerf ask = perf_broker_client(sockets_.sampler.get());
  const auto error_of = [&](const std::string& folder, const PerfEvent& event) {
    const Descriptor file(::open(folder.c_str(), O_RDONLY | O_CLOEXEC));
    return ask({.event = event, .target = {.cpu = 0, .cgroup_fd = file.get()}}).error;
  };
  EXPECT_EQ(error_of(scope_ + "/job_4711", kClock), 0);
  EXPECT_EQ(error_of(scope_ + "/job_4712", kClock), EPERM);  // another job
  EXPECT_EQ(error_of(scope_, kClock), EPERM);                // all jobs
  EXPECT_EQ(error_of(fake_ + "/job_4711", kClock), EPERM);   // the name alone
  EXPECT_EQ(error_of("/", kClock), EPERM);
  EXPECT_EQ(error_of("/dev/null", kClock), EPERM);
  EXPECT_EQ(error_of("/does/not/exist", kClock), EPERM);
  EXPECT_EQ(error_of(scope_ + "/job_4711", {.type = PERF_TYPE_TRACEPOINT, .config = 1}), EPERM);
  EXPECT_EQ(error_of(scope_ + "/job_4711", {.type = PERF_TYPE_BREAKPOINT}), EPERM);
#if defined(__x86_64__)
  EXPECT_EQ(error_of(scope_ + "/job_4711", {.type = PERF_TYPE_RAW, .config = 0x20'003c}), EPERM);  // "any thread"
#endif
  EXPECT_EQ(error_of(scope_ + "/job_4711", {.type = 30}), EPERM);  // a PMU of the whole node
  EXPECT_EQ(ask({.event = kClock, .target = {.cpu = 99'999, .cgroup_fd = ours_.get()}}).error, EINVAL);
  end_broker();
}

TEST_F(PerfBroker, OpensThePlatformsEventsWhileTheJobIsAlone) {
  std::uint32_t msr = 0;
  if (!(std::ifstream("/sys/bus/event_source/devices/msr/type") >> msr)) GTEST_SKIP() << "no msr PMU";
  if (!is_only_job("4711")) GTEST_SKIP() << "Slurm runs other jobs here";
  serve_in_a_process();
  const OpenPerf ask = perf_broker_client(sockets_.sampler.get());
  const PerfEvent tsc{.type = msr};
  const auto error_of = [&](const PerfEvent& event) { return ask({.event = event, .target = {.cpu = 0}}).error; };
  CounterGroup group({.cpu = 0});
  ASSERT_EQ(group.add(ask, tsc, false), 0);
  ASSERT_EQ(group.add(ask, tsc, false), 0);  // joins the first
  group.start();
  ASSERT_TRUE(group.read());
  EXPECT_GT(group.reading().values[0], 0U);
  EXPECT_EQ(error_of(kClock), EPERM);  // whole cpus, other users included
  EXPECT_EQ(error_of({.type = PERF_TYPE_RAW, .config = 0x3c}), EPERM);
  EXPECT_EQ(error_of({.type = PERF_TYPE_TRACEPOINT, .config = 1}), EPERM);
  std::filesystem::create_directory(scope_ + "/job_4712");
  EXPECT_FALSE(is_only_job("4711"));
  EXPECT_EQ(error_of(tsc), EPERM);
  end_broker();
}

TEST_F(PerfBroker, SurvivesWhatIsNoRequest) {
  serve_in_a_process();
  const int socket = sockets_.sampler.get();
  std::array<char, 4096> rubbish{};
  for (const std::size_t size : {std::size_t{1}, std::size_t{47}, rubbish.size()}) {
    ASSERT_EQ(::send(socket, rubbish.data(), size, 0), static_cast<ssize_t>(size));
    std::array<std::int32_t, 4> reply{};  // the number of the question, the error
    ASSERT_EQ(::recv(socket, reply.data(), sizeof reply, 0), static_cast<ssize_t>(sizeof reply));
    EXPECT_EQ(reply[2], EINVAL) << size;
  }
  const OpenPerf ask = perf_broker_client(socket);
  EXPECT_EQ(ask({.event = kClock, .target = {.cpu = 0, .cgroup_fd = ours_.get()}}).error, 0);
  end_broker();
}

TEST_F(PerfBroker, ThatAnswersTooLateIsNotMisunderstood) {
  serve_in_a_process();
  const int socket = sockets_.sampler.get();
  const std::array<char, 3> rubbish{};
  ASSERT_EQ(::send(socket, rubbish.data(), rubbish.size(), 0), 3);  // its answer waits when the next request is sent
  const OpenPerf ask = perf_broker_client(socket);
  const PerfOpened opened = ask({.event = kClock, .target = {.cpu = 0, .cgroup_fd = ours_.get()}});
  EXPECT_EQ(opened.error, 0);
  EXPECT_TRUE(opened.fd);
  end_broker();
}

TEST_F(PerfBroker, ThatHasGoneIsAnError) {
  sockets_ = make_request_sockets();
  const OpenPerf ask = perf_broker_client(sockets_.sampler.get());
  sockets_.broker.close();
  EXPECT_EQ(ask({.event = kClock, .target = {.cpu = 0, .cgroup_fd = ours_.get()}}).error, EPIPE);
}

TEST_F(PerfBroker, IsWokenByASignalOfItsOwn) {
  sockets_ = make_request_sockets();
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGIO);
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &set, &before);
  ::signal(SIGIO, SIG_DFL);
  const std::array<char, 8> message{};
  ASSERT_EQ(::send(sockets_.sampler.get(), message.data(), message.size(), 0), 8);
  const timespec limit{10, 0};
  EXPECT_EQ(::sigtimedwait(&set, nullptr, &limit), SIGIO);
  ::signal(SIGIO, SIG_IGN);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace
}  // namespace reveal::tests::perf_broker_test
