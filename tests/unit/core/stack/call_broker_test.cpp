// Calls counted for a process without the privilege, by a process with two capabilities; and refused requests.
#include "core/stack/call_broker.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/broker/privileges.h"
#include "core/job/process_stat.h"
#include "core/pmu/perf_broker.h"
#include "core/sampler/worker_process.h"
#include "core/stack/call_counters.h"
#include "core/stack/call_requests.h"
#include "core/stack/call_server.h"
#include "core/stack/elf_symbols.h"
#include "core/stack/first_instruction.h"
#include "core/stack/probed_process.h"
#include "core/stack/process_maps.h"
#include "core/stack/stack_functions.h"
#include "core/stack/stack_worker.h"
#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/request_socket.h"
#include "tests/unit/core/replaced_code.h"
#include "tests/unit/core/stack/hung_file_system.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::call_broker_test {
namespace {

constexpr uid_t kNobody = 65534;
constexpr int kSkipped = 77;
constexpr int kFloat = 7;
constexpr std::size_t kElements = 100;
constexpr std::uint64_t kBehindTheFile = std::uint64_t{1} << 40U;
constexpr std::intptr_t kHour = 3600 * std::intptr_t{1'000'000'000};  // ns

std::size_t places() {
  return 2 * stack_functions().size();
}

std::size_t number_of(std::string_view name) {
  const auto functions = stack_functions();
  return static_cast<std::size_t>(
      std::find_if(functions.begin(), functions.end(), [name](const auto& each) { return each.name == name; }) -
      functions.begin());
}

Descriptor open_library(const std::string& name) {
  return Descriptor(::open((std::string(STACK_DOUBLES) + '/' + name).c_str(), O_RDONLY | O_CLOEXEC));
}

/// A process of a user that calls ncclAllReduce as often as requested; it also has loaded PyTorch, and more.
class Caller {
 public:
  enum class Kept : std::uint8_t { free, filtered };
  explicit Caller(uid_t user = kNobody, Kept kept = Kept::free, const std::vector<std::string>& more = {}) {
    child_ = fork_child([&] {
      const bool loaded = std::all_of(more.begin(), more.end(), [](const std::string& library) {
        return ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr;
      });
      return loaded ? serve(user, kept) : 5;
    });
    order_.read.close();
    report_.write.close();
    EXPECT_NE(call(0), 0);  // it is ready
  }
  ~Caller() { end(); }
  void end() { child_.kill(std::chrono::seconds(10)); }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  [[nodiscard]] pid_t pid() const { return child_.pid(); }
  /// The first byte of the function afterwards.
  [[nodiscard]] int call(int times) const {
    unsigned char byte = 0;
    if (::write(order_.write.get(), &times, sizeof times) != sizeof times ||
        ::read(report_.read.get(), &byte, 1) != 1) {
      return 0;
    }
    return byte;
  }
  void step() const { static_cast<void>(call(kStep)); }
  /// The begin of the function, in its memory.
  void replace() const { EXPECT_NE(call(kReplace), 0); }
  /// From now on it is in a call, which does not return.
  void hang() const {
    EXPECT_EQ(::write(order_.write.get(), &kNever, sizeof kNever), static_cast<ssize_t>(sizeof kNever));
  }
  [[nodiscard]] bool probed() const { return call(0) == 0xcc; }
  [[nodiscard]] bool comes_to_be_probed(bool wanted, int looks = 1000) const {
    for (int i = 0; i < looks; ++i) {
      if (probed() == wanted) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

 private:
  using Reduce = int (*)(const void*, void*, std::size_t, int, int, void*, void*);
  using Backward = int (*)();
  static constexpr int kNever = -1;
  static constexpr int kStep = -2;
  static constexpr int kReplace = -3;

  static void* symbol(const char* library, const char* name) {
    void* const opened = ::dlopen((std::string(STACK_DOUBLES) + '/' + library).c_str(), RTLD_NOW | RTLD_LOCAL);
    return opened == nullptr ? nullptr : ::dlsym(opened, name);
  }

  [[nodiscard]] int serve(uid_t user, Kept kept) {
    order_.write.close();
    report_.read.close();
    const auto reduce = reinterpret_cast<Reduce>(symbol("libnccl.so.2", "ncclAllReduce"));
    const auto backward =
        reinterpret_cast<Backward>(symbol("libtorch_cpu.so", stack_functions()[step_function()].symbols[0].data()));
    if (reduce == nullptr || backward == nullptr || ::setresgid(user, user, user) != 0 ||
        ::setresuid(user, user, user) != 0)
      return 2;
    ::prctl(PR_SET_DUMPABLE, 1);  // as a program that its user started
    if (kept == Kept::filtered) {
      sock_filter allow{.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = SECCOMP_RET_ALLOW};
      const sock_fprog program{.len = 1, .filter = &allow};
      ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
      if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return 3;
    }
    int times = 0;
    while (::read(order_.read.get(), &times, sizeof times) == sizeof times) {
      if (times == kStep) static_cast<void>(backward());
      if (times == kReplace &&
          !replace_code(reinterpret_cast<std::uintptr_t>(reduce), reinterpret_cast<std::uintptr_t>(backward)))
        return 4;
      if (times == kNever) reduce(nullptr, nullptr, kElements, kFloat, 0, reinterpret_cast<void*>(kHour), nullptr);
      for (int i = 0; i < times; ++i) reduce(nullptr, nullptr, kElements, kFloat, 0, nullptr, nullptr);
      const unsigned char byte = *reinterpret_cast<const volatile unsigned char*>(reduce);
      if (::write(report_.write.get(), &byte, 1) != 1) break;
    }
    return 0;
  }

  Pipe order_ = open_pipe(), report_ = open_pipe();
  ChildProcess child_;
};

/// Job 4711 in the folder of Slurm's job groups, and its call server.
class CallRequests : public ::testing::Test {
 protected:
  void SetUp() override {
    ::signal(SIGIO, SIG_IGN);
    ::signal(SIGPIPE, SIG_IGN);
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    for (const std::string mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
      if (::access((mount + "/cgroup.controllers").c_str(), R_OK) == 0) scope_ = mount;
    }
    std::error_code error;
    scope_ += "/reveal-calls-" + std::to_string(::getpid()) + "_slurmstepd.scope";
    if (!std::filesystem::create_directories(scope_ + "/job_4711/step_0", error)) {
      GTEST_SKIP() << "no cgroup can be made";
    }
    library_ = open_library("libnccl.so.2");
    const std::array<std::string_view, 1> wanted = {"ncclAllReduce"};
    offset_ = find_functions(reader_of(library_.get()), wanted).offsets.at(0);
    ASSERT_NE(offset_, 0U);
    index_ = stack_functions().size() + number_of("ncclAllReduce");  // the function's counts in the second process
  }
  void TearDown() override {
    sockets_.sampler.close();
    server_.kill(std::chrono::seconds(10));
    std::error_code error;
    for (const char* folder : {"/job_4711/step_0", "/job_4711", ""}) std::filesystem::remove(scope_ + folder, error);
  }

  void take_in(const Caller& caller) const {
    ASSERT_TRUE(std::ofstream(scope_ + "/job_4711/step_0/cgroup.procs") << caller.pid() << std::flush);
  }
  void serve(const CallLimits& limits = {}, std::optional<rlimit> files = {}) {
    sockets_ = make_request_sockets();
    server_ = fork_child([&] {
      sockets_.sampler.close();
      if (files) ::setrlimit(RLIMIT_NOFILE, &*files);
      become_user(kNobody, kNobody, Programs::none, kCallCapabilities);
      return serve_call_requests(sockets_.broker.get(), "4711", limits);
    });
    sockets_.broker.close();
  }
  /// Null if calls cannot be counted here, or not correctly.
  [[nodiscard]] std::unique_ptr<CallBroker> broker() {
    try {
      return std::make_unique<CallBroker>(Descriptor(::dup(sockets_.sampler.get())), places());
    } catch (const Unavailable& why) {
      why_ = why.what();
      return nullptr;
    }
  }
  [[nodiscard]] CallBroker::Linked link_of(CallBroker& broker, pid_t pid, const CallPoint& point,
                                           bool timed = true) const {
    const AskedPoint asked{.point = point, .timed = timed ? 1U : 0U};
    return broker.attach(library_.get(), pid, std::span(&asked, 1)).at(0);
  }
  [[nodiscard]] int error_of(CallBroker& broker, pid_t pid, const Descriptor& file, std::uint64_t offset,
                             bool timed = true) const {
    const AskedPoint asked{.point = {.offset = offset, .index = index_}, .timed = timed ? 1U : 0U};
    return broker.attach(file.get(), pid, std::span(&asked, 1)).at(0).error;
  }
  /// A place behind the function's first instruction that the kernel would single-step.
  [[nodiscard]] std::uint64_t dear_place() const {
    const ReadFile read = reader_of(library_.get());
    std::array<std::byte, kFirstInstructions> code{};
    std::uint64_t place = offset_ + 1;
    while (read(place, code) && cheap_probe_at(code) == 0) ++place;
    return place;
  }

  /// A worker in a process of its own, which asks about the callers until `holds` is true of an answer, and ends with 0
  /// then. Between it and the server are we: its requests pass `before`, and the answers to them `behind`. `settings`:
  /// the lines behind "open".
  [[nodiscard]] int status_of_worker(std::span<const Caller* const> callers,
                                     const std::function<bool(const std::string&)>& holds,
                                     const std::function<void(const CallQuestion&)>& before,
                                     const std::function<void(const CallQuestion&, const CallAnswer&)>& behind,
                                     const std::string& settings = "") const {
    RequestSockets between = make_request_sockets();
    ChildProcess worker = fork_child([&] {
      between.broker.close();
      if (::dup2(between.sampler.get(), WorkerProcess::kKeptFile) < 0) return 2;
      between.sampler.close();
      if (!query_stack("", "open broker\n" + settings).starts_with("ok ")) return kSkipped;
      std::string request = "calls\n";
      for (std::size_t i = 0; i < callers.size(); ++i) {
        request += "rank" + std::to_string(i) + ' ' + std::to_string(callers[i]->pid()) + ' ' +
                   std::to_string(start_of(callers[i]->pid()).value_or(0)) + " 0\n";
      }
      for (int i = 0; i < 2000; ++i) {
        if (holds(query_stack("", request))) return 0;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      return 3;
    });
    between.sampler.close();
    pass_on(between.broker.get(), before, behind);
    between.broker.close();
    const std::optional<int> end = worker.wait(std::chrono::seconds(10));
    if (!end) worker.kill(std::chrono::seconds(10));
    return end ? exit_status(*end) : -1;
  }

  std::string scope_, why_;
  Descriptor library_;
  std::uint64_t offset_ = 0;
  std::size_t index_ = 0;
  RequestSockets sockets_;
  ChildProcess server_;

 private:
  template <typename Body>
  static bool receive(int socket, Body& body, MessageFiles& files) {
    pollfd ready{socket, POLLIN, 0};
    return ::poll(&ready, 1, 10'000) == 1 && Message<Body>(&body).receive(socket, files) == Message<Body>::Got::message;
  }
  template <typename Body>
  static bool send(int socket, Body& body, const MessageFiles& files) {
    const std::array<int, 2> numbers = {files[0].get(), files[1].get()};
    const auto count = static_cast<std::size_t>(
        std::count_if(files.begin(), files.end(), [](const Descriptor& file) { return static_cast<bool>(file); }));
    return Message<Body>(&body).send(socket, std::span(numbers).first(count));
  }
  void pass_on(int worker, const std::function<void(const CallQuestion&)>& before,
               const std::function<void(const CallQuestion&, const CallAnswer&)>& behind) const {
    const int server = sockets_.sampler.get();
    for (bool goes_on = true; goes_on;) {
      CallQuestion question;
      MessageFiles files;
      if (!receive(worker, question, files)) return;
      before(question);
      if (!send(server, question, files)) return;
      MessageFiles maps;
      if (question.what == CallRequest::pending) {
        PendingCalls calls;
        goes_on = receive(server, calls, maps) && send(worker, calls, maps);
      } else {
        CallAnswer answer;
        goes_on = receive(server, answer, maps);
        if (goes_on) behind(question, answer);
        goes_on = goes_on && send(worker, answer, maps);
      }
    }
  }
};

#define SKIP_WITHOUT(broker) \
  if (!(broker)) GTEST_SKIP() << why_

TEST_F(CallRequests, CountForWhoHasNoPrivilege) {
  constexpr int kCalls = 700;
  const Caller caller;
  take_in(caller);
  serve();
  ChildProcess user = fork_child([&] {
    if (::setresgid(kNobody, kNobody, kNobody) != 0 || ::setresuid(kNobody, kNobody, kNobody) != 0) return 2;
    auto asked = broker();
    if (!asked) return kSkipped;
    CallCounters counters(places(), std::move(asked));
    const CallShape shape = shape_of(stack_functions()[number_of("ncclAllReduce")], true);
    const CallCounters::Point point{.offset = offset_, .index = index_};
    CallCounters::Attached attached = counters.attach(library_.get(), caller.pid(), shape, std::span(&point, 1));
    if (attached.error != 0 || !caller.probed()) return 3;
    static_cast<void>(caller.call(kCalls));
    const CallCounts counts = counters.take(index_);
    if (counts.calls != kCalls || counts.bytes != kCalls * kElements * sizeof(float)) return 4;
    if (counts.returned != kCalls || counts.time_ns == 0 || counts.errors != 0) return 5;
    if (std::accumulate(std::begin(counts.buckets), std::end(counts.buckets), std::uint64_t{0}) != kCalls) return 10;
    if (!counters.pending().empty()) return 6;
    attached.links.detach();
    if (!caller.comes_to_be_probed(false)) return 7;
    static_cast<void>(caller.call(kCalls));
    if (counters.calls(index_) != kCalls) return 8;
    counters.reset(stack_functions().size(), stack_functions().size());
    return counters.calls(index_) == 0 ? 0 : 9;
  });
  const int status = exit_status(user.wait());
  if (status == kSkipped) GTEST_SKIP() << "no calls can be counted here";
  EXPECT_EQ(status, 0);
}

TEST_F(CallRequests, TellSinceWhenACallIsUnderWay) {
  const Caller caller;
  take_in(caller);
  serve();
  auto asked = broker();
  SKIP_WITHOUT(asked);
  CallCounters counters(places(), std::move(asked));
  const CallCounters::Point point{.offset = offset_, .index = index_};
  const CallShape shape = shape_of(stack_functions()[number_of("ncclAllReduce")], true);
  const CallCounters::Attached attached = counters.attach(library_.get(), caller.pid(), shape, std::span(&point, 1));
  ASSERT_EQ(attached.error, 0);
  EXPECT_TRUE(counters.pending().empty());
  const std::int64_t before = read_clock(CLOCK_MONOTONIC);
  caller.hang();
  std::map<std::size_t, std::int64_t> pending;
  for (int i = 0; i < 1000 && pending.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    pending = counters.pending();
  }
  ASSERT_EQ(pending.size(), 1U);
  EXPECT_EQ(pending.begin()->first, index_);
  EXPECT_GT(pending.begin()->second, before);
  EXPECT_LT(pending.begin()->second, read_clock(CLOCK_MONOTONIC));
}

TEST_F(CallRequests, KnowTheProcessesOfTheJob) {
  const Caller caller;
  EXPECT_FALSE(is_process_of_job(caller.pid(), "4711"));
  take_in(caller);
  EXPECT_TRUE(is_process_of_job(caller.pid(), "4711"));
  for (const char* job : {"471", "47110", "4711/step_0", "", "*", "../job_4711"}) {
    EXPECT_FALSE(is_process_of_job(caller.pid(), job)) << job;
  }
  EXPECT_FALSE(is_process_of_job(::getpid(), "4711"));
  EXPECT_FALSE(is_process_of_job(1 << 30, "4711"));
}

TEST_F(CallRequests, AreAnsweredByTheUserWithTwoCapabilities) {
  serve();
  const auto asked = broker();
  SKIP_WITHOUT(asked);
  const std::string status = file_text("/proc/" + std::to_string(server_.pid()) + "/status");
  for (const char* set : {"CapPrm", "CapEff"}) EXPECT_EQ(field_of(status, set), "000000c000000000") << set;
  for (const char* set : {"CapInh", "CapBnd", "CapAmb"}) EXPECT_EQ(field_of(status, set), "0000000000000000") << set;
  EXPECT_NE(status.find("\nUid:\t65534\t65534\t65534\t65534\n"), std::string::npos) << status;
  EXPECT_EQ(field_of(status, "NoNewPrivs"), "1");
}

TEST_F(CallRequests, AttachToNothingButCodeOfTheJobs) {
  const Caller caller;
  const Caller stranger;      // the same user's, in no job
  const Caller foreigner(1);  // another user's, in the job's group
  take_in(caller);
  take_in(foreigner);
  serve();
  const auto asked = broker();
  SKIP_WITHOUT(asked);
  EXPECT_EQ(error_of(*asked, caller.pid(), library_, offset_), 0);
  EXPECT_EQ(error_of(*asked, stranger.pid(), library_, offset_), EPERM);
  EXPECT_EQ(error_of(*asked, foreigner.pid(), library_, offset_), EPERM);
  EXPECT_EQ(error_of(*asked, ::getpid(), library_, offset_), EPERM);
  EXPECT_EQ(error_of(*asked, 1, library_, offset_), EPERM);
  EXPECT_EQ(error_of(*asked, 1 << 30, library_, offset_), ESRCH);  // there is none
  EXPECT_EQ(error_of(*asked, 0, library_, offset_), EINVAL);
  EXPECT_EQ(error_of(*asked, -1, library_, offset_), EINVAL);

  EXPECT_EQ(error_of(*asked, caller.pid(), library_, 0), ENXIO);  // its header, which is no code
  EXPECT_EQ(error_of(*asked, caller.pid(), library_, kBehindTheFile), ENXIO);
  EXPECT_EQ(error_of(*asked, caller.pid(), library_, ~std::uint64_t{0}), ENXIO);
  EXPECT_EQ(error_of(*asked, caller.pid(), library_, dear_place()), EOPNOTSUPP);
  EXPECT_EQ(error_of(*asked, caller.pid(), open_library("libcudart.so.13"), offset_), ENXIO);  // not mapped there

  const Pipe pipe = open_pipe();
  const std::string path = std::string(STACK_DOUBLES) + "/libnccl.so.2";
  EXPECT_EQ(error_of(*asked, caller.pid(), pipe.read, offset_), EBADF);
  EXPECT_EQ(error_of(*asked, caller.pid(), Descriptor(::open("/", O_RDONLY | O_CLOEXEC)), offset_), EBADF);
  EXPECT_EQ(error_of(*asked, caller.pid(), Descriptor(::open("/dev/zero", O_RDONLY | O_CLOEXEC)), offset_), EBADF);
  EXPECT_EQ(error_of(*asked, caller.pid(), Descriptor(::open(path.c_str(), O_PATH | O_CLOEXEC)), offset_), EBADF);

  const std::array<CallPoint, 6> invalid = {{
      {.offset = offset_, .index = places()},
      {.offset = offset_, .index = ~std::uint64_t{0}},
      // A function has no counter that the kernel would change, and no mark is a function.
      {.offset = offset_, .index = index_, .counter = 64},
      {.offset = offset_, .index = index_, .counter = 0, .place = CallPlace::begin},
      {.offset = offset_, .index = number_of("python.gc")},
      // The kernel would change data of the process.
      {.offset = offset_, .index = number_of("python.gc"), .counter = 64, .place = CallPlace::begin},
  }};
  for (const CallPoint& point : invalid) EXPECT_EQ(link_of(*asked, caller.pid(), point).error, EINVAL);
  EXPECT_FALSE(stranger.probed());
  EXPECT_FALSE(foreigner.probed());
}

// Each point has its own answer, and links that are known by it.
TEST_F(CallRequests, AttachToManyPointsAtOnce) {
  constexpr std::size_t kPoints = CallQuestion::kMostPoints + 3;  // two requests
  const Caller caller;
  take_in(caller);
  serve();
  const auto asked = broker();
  SKIP_WITHOUT(asked);
  std::vector<AskedPoint> points(kPoints);
  std::vector<int> expected(kPoints, ENXIO);
  for (std::size_t i = 0; i < kPoints; ++i) {
    points[i].point = {.offset = kBehindTheFile + i, .index = index_};
  }
  for (const std::size_t good : {std::size_t{1}, kPoints - 2}) {
    points[good].point.offset = offset_;
    expected[good] = 0;
  }
  points[5].point.offset = dear_place();
  expected[5] = EOPNOTSUPP;
  const std::vector<CallBroker::Linked> linked = asked->attach(library_.get(), caller.pid(), points);
  ASSERT_EQ(linked.size(), kPoints);
  for (std::size_t i = 0; i < kPoints; ++i) EXPECT_EQ(linked[i].error, expected[i]) << i;
  const std::array<std::uint64_t, 2> links = {linked[1].link, linked[kPoints - 2].link};
  EXPECT_NE(links[0], links[1]);
  EXPECT_TRUE(caller.probed());
  asked->detach(std::span(links).first(1));
  EXPECT_TRUE(caller.probed());
  asked->detach(std::span(links).last(1));
  EXPECT_TRUE(caller.comes_to_be_probed(false));
  const std::vector<std::uint64_t> unknown(2 * CallQuestion::kMostLinks + 1, linked[0].link);
  asked->detach(unknown);
  EXPECT_TRUE(asked->pending().empty()) << "it still answers";
}

TEST_F(CallRequests, AttachAllOfAFunctionOrNothingOfIt) {
  const Caller caller;
  take_in(caller);
  serve();
  auto asked = broker();
  SKIP_WITHOUT(asked);
  CallCounters counters(places(), std::move(asked));
  const CallShape shape = shape_of(stack_functions()[number_of("ncclAllReduce")], true);
  const std::array<CallCounters::Point, 2> half = {
      {{.offset = offset_, .index = index_}, {.offset = kBehindTheFile, .index = index_}}};
  const std::array<CallCounters::Function, 2> functions = {
      {{.shape = shape, .points = half}, {.shape = shape, .points = std::span(half).first(1)}}};
  std::vector<CallCounters::Attached> attached =
      counters.attach(library_.get(), caller.pid(), std::span(functions).first(1));
  ASSERT_EQ(attached.size(), 1U);
  EXPECT_EQ(attached[0].error, ENXIO);
  EXPECT_TRUE(caller.comes_to_be_probed(false)) << "its first point was attached";
  const std::int64_t before = read_clock(CLOCK_MONOTONIC);
  attached = counters.attach(library_.get(), caller.pid(), functions);
  ASSERT_EQ(attached.size(), 2U);
  EXPECT_EQ(attached[0].error, ENXIO);
  EXPECT_EQ(attached[1].error, 0);
  EXPECT_GT(attached[1].since_ns, before);
  EXPECT_LT(attached[1].since_ns, read_clock(CLOCK_MONOTONIC));
  static_cast<void>(caller.call(7));
  EXPECT_EQ(counters.calls(index_), 7U);
}

// Some kernels end such a process when a timed call returns, whatever the sampler reports.
TEST_F(CallRequests, TimeNoProcessUnderASeccompFilter) {
  const Caller caller(kNobody, Caller::Kept::filtered);
  take_in(caller);
  serve();
  const auto asked = broker();
  SKIP_WITHOUT(asked);
  EXPECT_EQ(error_of(*asked, caller.pid(), library_, offset_, true), EOPNOTSUPP);
  EXPECT_FALSE(caller.probed());
  EXPECT_EQ(error_of(*asked, caller.pid(), library_, offset_, false), 0);
}

TEST_F(CallRequests, AreBounded) {
  const Caller caller;
  take_in(caller);
  serve({.links = 2});
  auto asked = broker();
  SKIP_WITHOUT(asked);
  const std::uint64_t first = link_of(*asked, caller.pid(), {.offset = offset_, .index = index_}, false).link;
  EXPECT_EQ(error_of(*asked, caller.pid(), library_, offset_), 0);
  EXPECT_EQ(error_of(*asked, caller.pid(), library_, offset_), EMFILE);
  asked->detach(std::span(&first, 1));
  EXPECT_EQ(error_of(*asked, caller.pid(), library_, offset_), 0);
  asked.reset();
  sockets_.sampler.close();
  server_.wait();
  serve({.attaching = 1e-9, .attaching_later = 0});
  asked = broker();
  SKIP_WITHOUT(asked);
  std::vector<AskedPoint> two_requests(CallQuestion::kMostPoints + 1,
                                       AskedPoint{.point = {.offset = kBehindTheFile, .index = index_}});
  two_requests.front().point.offset = two_requests.back().point.offset = offset_;
  const std::vector<CallBroker::Linked> linked = asked->attach(library_.get(), caller.pid(), two_requests);
  EXPECT_EQ(linked.front().error, 0);
  EXPECT_EQ(linked.back().error, EAGAIN);
}

TEST_F(CallRequests, PrepareTheKernelByALinkOfTheServersOwn) {
  const Caller caller;
  take_in(caller);
  serve({.links = 1});
  auto asked = broker();
  SKIP_WITHOUT(asked);
  const CallBroker::Linked prepared = asked->prepare(true);
  EXPECT_EQ(prepared.error, 0);
  EXPECT_FALSE(caller.probed());
  EXPECT_EQ(asked->prepare(false).error, EMFILE) << "it counts for the limit";
  EXPECT_EQ(error_of(*asked, caller.pid(), library_, offset_), EMFILE);
  asked->detach(std::span(&prepared.link, 1));
  EXPECT_EQ(error_of(*asked, caller.pid(), library_, offset_), 0);
  EXPECT_TRUE(caller.probed());
}

// If it were charged at once, nothing would be left for what it prepares, however long the sampler waits.
TEST_F(CallRequests, ChargePreparingWithTheAttachingThatFollows) {
  const CallLimits nothing_left{.attaching = 1e-9, .attaching_later = 0};
  const Caller caller;
  take_in(caller);
  serve(nothing_left);
  auto asked = broker();
  SKIP_WITHOUT(asked);
  EXPECT_EQ(asked->prepare(true).error, 0);
  EXPECT_EQ(error_of(*asked, caller.pid(), library_, offset_), 0);
  EXPECT_EQ(asked->prepare(true).error, EAGAIN);
  EXPECT_EQ(error_of(*asked, caller.pid(), library_, offset_), EAGAIN);
  asked.reset();
  sockets_.sampler.close();
  server_.wait();
  serve(nothing_left);
  asked = broker();
  SKIP_WITHOUT(asked);
  EXPECT_EQ(asked->prepare(true).error, 0);
  EXPECT_EQ(asked->prepare(true).error, EAGAIN) << "nothing followed the first one";
}

TEST_F(CallRequests, AreBoundedByTheDescriptorsThatTheServerMayHave) {
  const Caller caller;
  take_in(caller);
  serve({}, rlimit{.rlim_cur = 104, .rlim_max = 104});  // 40 beside its own: ten links of four
  auto asked = broker();
  SKIP_WITHOUT(asked);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(error_of(*asked, caller.pid(), library_, offset_), 0) << i;
  EXPECT_EQ(error_of(*asked, caller.pid(), library_, offset_), EMFILE);
  asked.reset();
  sockets_.sampler.close();
  server_.wait();
  serve({}, rlimit{.rlim_cur = 16, .rlim_max = 128});  // the lower limit is not the last word
  asked = broker();
  SKIP_WITHOUT(asked);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(error_of(*asked, caller.pid(), library_, offset_), 0) << i;
  EXPECT_EQ(error_of(*asked, caller.pid(), library_, offset_), EMFILE);
}

// Functions that are refused for the moment are attached later, and the training steps are whole then.
TEST_F(CallRequests, AreSentAgainByTheWorkerIfTheyComeTooFast) {
  const Descriptor reserved(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, WorkerProcess::kKeptFile));
  const Caller caller;
  take_in(caller);
  serve({.attaching = 1e-9, .attaching_later = .1});
  ChildProcess worker = fork_child([&] {
    if (::dup2(sockets_.sampler.get(), WorkerProcess::kKeptFile) < 0) return 2;
    if (!query_stack("", "open broker\n").starts_with("ok ")) return kSkipped;
    const std::string request = "calls\nrank0 " + std::to_string(caller.pid()) + ' ' +
                                std::to_string(start_of(caller.pid()).value_or(0)) + " 0\n";
    std::string answer;
    const auto has = [&answer](std::string_view text) { return answer.find(text) != std::string::npos; };
    const auto comes_to = [&](const auto& holds) {
      for (int i = 0; i < 2000; ++i) {
        answer = query_stack("", request);
        if (holds()) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      return false;
    };
    if (!comes_to([&] { return has("not all functions are attached yet"); })) return 3;
    if (!comes_to([&] { return !has("not all functions are attached yet"); })) return 4;
    if (!answer.starts_with("functions ncclAllReduce ncclReduce ncclCommInitRank ncclCommDestroy gloo.allreduce "
                            "torch.backward c10d.work\n"))
      return 5;
    if (has("is not measured")) return 6;
    caller.step();
    static_cast<void>(caller.call(1));
    caller.step();
    if (!comes_to([&] { return has("step rank0 1 "); })) return 7;
    const std::string step = answer.substr(answer.find("step rank0 1 "));
    return step.substr(0, step.find('\n')).ends_with(" 400 -") ? 0 : 8;  // bytes, and no Python with collections
  });
  const int status = exit_status(worker.wait());
  if (status == kSkipped) GTEST_SKIP() << "no calls can be counted here";
  EXPECT_EQ(status, 0);
}

TEST_F(CallRequests, GiveTurnsToAFunctionThatCostsTooMuch) {
  constexpr int kDear = 200'000;
  const Descriptor reserved(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, WorkerProcess::kKeptFile));
  const Caller caller;
  take_in(caller);
  serve();
  ChildProcess worker = fork_child([&] {
    if (::dup2(sockets_.sampler.get(), WorkerProcess::kKeptFile) < 0) return 2;
    if (!query_stack("", "open broker\n").starts_with("ok ")) return kSkipped;
    const std::string process =
        "calls\nrank0 " + std::to_string(caller.pid()) + ' ' + std::to_string(start_of(caller.pid()).value_or(0)) + ' ';
    std::int64_t cpu_ns = 0;
    std::int64_t more_ns = 60'000'000;  // a job that does not hang
    std::string answer;
    const auto comes_to = [&](const auto& holds) {
      for (int i = 0; i < 2000; ++i) {
        cpu_ns += more_ns;
        answer = query_stack("", process + std::to_string(cpu_ns) + '\n');
        if (holds()) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      return false;
    };
    if (!comes_to([&] { return answer.starts_with("functions ncclAllReduce ") && caller.probed(); })) return 3;
    std::this_thread::sleep_for(std::chrono::milliseconds(400));  // nobody asks: what it prepared by is detached
    static_cast<void>(caller.call(kDear));
    if (!comes_to([&] { return !answer.starts_with("functions ncclAllReduce ") && !caller.probed(); })) return 4;
    static_cast<void>(caller.call(9));
    more_ns = 100'000'000'000;
    if (!comes_to([&] { return answer.starts_with("functions ncclAllReduce ") && caller.probed(); })) return 5;
    static_cast<void>(caller.call(7));
    const std::string count = "count rank0 ncclAllReduce " + std::to_string(kDear + 7) + ' ';
    return comes_to([&] { return answer.find(count) != std::string::npos; }) ? 0 : 6;
  });
  const int status = exit_status(worker.wait());
  if (status == kSkipped) GTEST_SKIP() << "no calls can be counted here";
  EXPECT_EQ(status, 0);
}

constexpr std::string_view kAllOfACaller =
    "ncclAllReduce ncclReduce ncclCommInitRank ncclCommDestroy gloo.allreduce torch.backward c10d.work";

/// The links of some process, and what became of them.
struct LinksOfProcess {
  std::set<std::uint64_t> made, detached;
  [[nodiscard]] std::size_t attached() const {
    return static_cast<std::size_t>(
        std::count_if(made.begin(), made.end(), [this](std::uint64_t link) { return !detached.contains(link); }));
  }
  void look_at(const CallQuestion& question) {
    if (question.what != CallRequest::detach) return;
    detached.insert(question.links.begin(), question.links.begin() + static_cast<std::ptrdiff_t>(question.count));
  }
};

/// At which a worker waits, in its answer, for the test.
class Gate {
 public:
  [[nodiscard]] bool is_passed() {
    pipe_.write.close();
    char byte = 0;
    return ::read(pipe_.read.get(), &byte, 1) == 1;
  }
  void open() const { EXPECT_TRUE(write_all(pipe_.write.get(), ".")); }

 private:
  Pipe pipe_ = open_pipe();
};

#define EXPECT_WORKER_SUCCEEDED(status)                                         \
  do {                                                                          \
    const int ended_with = status;                                              \
    if (ended_with == kSkipped) GTEST_SKIP() << "no calls can be counted here"; \
    EXPECT_EQ(ended_with, 0);                                                   \
  } while (false)

// Functions are compared behind it, and attached at once.
TEST_F(CallRequests, BeginWithTheKernelsWait) {
  const Descriptor reserved(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, WorkerProcess::kKeptFile));
  Gate done;
  const Caller caller;
  take_in(caller);
  serve();
  std::vector<CallRequest> order;
  LinksOfProcess own;
  const std::array<const Caller*, 1> callers = {&caller};
  const auto holds = [&](const std::string& answer) {
    return answer.starts_with("functions " + std::string(kAllOfACaller) + '\n') && done.is_passed();
  };
  const auto before = [&](const CallQuestion& question) {
    if (question.what != CallRequest::pending) order.push_back(question.what);
    own.look_at(question);
    if (!own.made.empty() && own.attached() == 0) done.open();
  };
  const auto behind = [&](const CallQuestion& question, const CallAnswer& answer) {
    if (question.what == CallRequest::prepare && answer.error == 0) own.made.insert(answer.link);
  };
  EXPECT_WORKER_SUCCEEDED(status_of_worker(callers, holds, before, behind));
  ASSERT_GE(order.size(), 3U);
  EXPECT_EQ(order[0], CallRequest::open);
  EXPECT_EQ(order[1], CallRequest::prepare);
  EXPECT_EQ(order[2], CallRequest::attach);
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (order[i] == CallRequest::attach) {
      EXPECT_EQ(order[i - 1], CallRequest::prepare) << i;
    }
  }
  const auto detached = std::find(order.begin(), order.end(), CallRequest::detach);
  EXPECT_EQ(std::count(detached, order.end(), CallRequest::detach), order.end() - detached)
      << "it takes long, so all is attached before";
}

// They use up links and descriptors.
TEST_F(CallRequests, PrepareForManyLibrariesByFewLinksAtOnce) {
  constexpr std::size_t kLibraries = 9;
  const Descriptor reserved(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, WorkerProcess::kKeptFile));
  const TemporaryDirectory directory;
  std::vector<std::string> more(kLibraries - 2);
  for (std::size_t i = 0; i < more.size(); ++i) {
    const std::filesystem::path folder = directory.path() / std::to_string(i);
    std::filesystem::create_directory(folder);
    more[i] = folder / "libnccl.so.2";
    std::filesystem::copy(std::string(STACK_DOUBLES) + "/libnccl.so.2", more[i]);
  }
  Gate done;
  const Caller caller(kNobody, Caller::Kept::free, more);
  take_in(caller);
  serve();
  LinksOfProcess own;
  std::size_t most = 0;
  const std::array<const Caller*, 1> callers = {&caller};
  const auto holds = [&](const std::string& /*answer*/) { return done.is_passed(); };
  const auto before = [&](const CallQuestion& question) {
    own.look_at(question);
    if (own.made.size() == kLibraries && own.attached() == 0) done.open();
  };
  const auto behind = [&](const CallQuestion& question, const CallAnswer& answer) {
    if (question.what == CallRequest::prepare && answer.error == 0) own.made.insert(answer.link);
    most = std::max(most, own.attached());
  };
  EXPECT_WORKER_SUCCEEDED(status_of_worker(callers, holds, before, behind));
  EXPECT_EQ(own.made.size(), kLibraries);
  EXPECT_EQ(most, CallQuestion::kMostLinks);
}

/// Whether it asks to attach to that function.
bool is_to_attach(const CallQuestion& question, std::string_view function) {
  const std::span<const AskedPoint> points = std::span(question.points).first(question.count);
  return question.what == CallRequest::attach &&
         std::any_of(points.begin(), points.end(), [function](const AskedPoint& each) {
           return each.point.index % stack_functions().size() == number_of(function);
         });
}

constexpr std::string_view kReplacedNote =
    "note ncclAllReduce is not measured: its code in memory is not known to be that of its file\n";

/// The caller is a fork of this process, so that this is mapped there, too.
#define SKIP_WITHOUT_MEMORY(caller)                                                          \
  if (!shows_memory((caller).pid(), reinterpret_cast<std::uintptr_t>(kReplacedNote.data()))) \
  GTEST_SKIP() << "the memory of other processes cannot be read here"

// Only the functions of one library are attached, so that the first wait is the one before them.
TEST_F(CallRequests, NameNoFunctionThatIsReplacedDuringTheKernelsWait) {
  const Descriptor reserved(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, WorkerProcess::kKeptFile));
  const Caller caller;
  SKIP_WITHOUT_MEMORY(caller);
  take_in(caller);
  serve();
  int prepared = 0;
  int attached = 0;
  const std::array<const Caller*, 1> callers = {&caller};
  const auto holds = [](const std::string& answer) {
    return answer.starts_with("functions ncclReduce ncclCommInitRank ncclCommDestroy\n") &&
           answer.find(kReplacedNote) != std::string::npos;
  };
  const auto before = [&](const CallQuestion& question) {
    if (question.what == CallRequest::attach) ++attached;
    EXPECT_FALSE(is_to_attach(question, "ncclAllReduce"));
  };
  const auto behind = [&](const CallQuestion& question, const CallAnswer& /*answer*/) {
    if (question.what == CallRequest::prepare && prepared++ == 0) caller.replace();
  };
  EXPECT_WORKER_SUCCEEDED(status_of_worker(callers, holds, before, behind, "without gloo.* torch.* c10d.*\n"));
  EXPECT_EQ(prepared, 1);
  EXPECT_EQ(attached, 1);
  EXPECT_FALSE(caller.probed());
}

// Neither the server nor the kernel compares.
TEST_F(CallRequests, AreTakenBackWhereAFunctionIsReplacedMeanwhile) {
  const Descriptor reserved(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, WorkerProcess::kKeptFile));
  const Caller caller;
  SKIP_WITHOUT_MEMORY(caller);
  take_in(caller);
  serve();
  int replaced = 0;
  const std::array<const Caller*, 1> callers = {&caller};
  const auto holds = [](const std::string& answer) {
    return answer.starts_with("functions ncclReduce ncclCommInitRank ncclCommDestroy ") &&
           answer.find(kReplacedNote) != std::string::npos;
  };
  const auto before = [&](const CallQuestion& question) {
    if (!is_to_attach(question, "ncclAllReduce")) return;
    EXPECT_FALSE(caller.probed());
    caller.replace();
    ++replaced;
  };
  const auto behind = [&](const CallQuestion& question, const CallAnswer& /*answer*/) {
    if (is_to_attach(question, "ncclAllReduce")) {
      EXPECT_TRUE(caller.probed()) << "the breakpoint is in the new code";
    }
  };
  EXPECT_WORKER_SUCCEEDED(status_of_worker(callers, holds, before, behind));
  EXPECT_EQ(replaced, 1);
  EXPECT_FALSE(caller.probed());
}

// The number of the process may be another one's by then.
TEST_F(CallRequests, LeaveNothingOfAProcessThatEndsMeanwhile) {
  const Descriptor reserved(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, WorkerProcess::kKeptFile));
  enum class Ends : bool { before_it_is_attached_to, behind };
  for (const Ends ends : {Ends::before_it_is_attached_to, Ends::behind}) {
    Caller caller;
    const Caller other;
    take_in(caller);
    take_in(other);
    serve();
    LinksOfProcess links;
    std::vector<int> errors;
    const std::array<const Caller*, 2> callers = {&caller, &other};
    const pid_t pid = caller.pid();
    const auto is_about_it = [pid](const CallQuestion& question) {
      return question.what == CallRequest::attach && question.pid == pid;
    };
    const auto holds = [](const std::string& answer) {
      return answer.starts_with("functions " + std::string(kAllOfACaller) + '\n') &&
             answer.find("is not measured") == std::string::npos;
    };
    const auto before = [&](const CallQuestion& question) {
      links.look_at(question);
      if (is_about_it(question) && ends == Ends::before_it_is_attached_to) caller.end();
    };
    const auto behind = [&](const CallQuestion& question, const CallAnswer& answer) {
      if (!is_about_it(question)) return;
      if (ends == Ends::behind) caller.end();
      errors.push_back(answer.error);
      for (std::size_t i = 0; i < question.count; ++i) {
        if (answer.error == 0 && answer.errors[i] == 0) links.made.insert(answer.link + i);
      }
    };
    EXPECT_WORKER_SUCCEEDED(status_of_worker(callers, holds, before, behind));
    EXPECT_EQ(errors, std::vector<int>{ends == Ends::behind ? 0 : ESRCH}) << "and its other libraries are left alone";
    EXPECT_EQ(links.made.empty(), ends == Ends::before_it_is_attached_to);
    EXPECT_EQ(links.attached(), 0U);
    EXPECT_TRUE(other.probed());
    sockets_.sampler.close();
    server_.wait();
  }
}

TEST_F(CallRequests, SurviveWhatIsNoRequest) {
  const Caller caller;
  take_in(caller);
  serve();
  const auto asked = broker();
  SKIP_WITHOUT(asked);
  const int socket = sockets_.sampler.get();
  const auto error = [socket] {
    CallAnswer answer{.error = -1};
    MessageFiles files;
    pollfd ready{socket, POLLIN, 0};
    if (::poll(&ready, 1, 10'000) == 1) static_cast<void>(Message<CallAnswer>(&answer).receive(socket, files));
    EXPECT_FALSE(files[0]);
    return answer.error;
  };
  std::array<char, 4096> rubbish{};
  for (const std::size_t size : {std::size_t{1}, sizeof(CallQuestion) - 1, sizeof(CallQuestion) + 1, rubbish.size()}) {
    ASSERT_EQ(::send(socket, rubbish.data(), size, 0), static_cast<ssize_t>(size));
    EXPECT_EQ(error(), EINVAL) << size;
  }
  const auto error_with = [&](CallQuestion question, std::size_t files) {
    const std::array<int, 3> all = {library_.get(), library_.get(), library_.get()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof all)> control{};
    iovec part{&question, sizeof question};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (files > 0) {
      header.msg_control = control.data();
      header.msg_controllen = CMSG_SPACE(files * sizeof(int));
      cmsghdr* const head = CMSG_FIRSTHDR(&header);
      head->cmsg_level = SOL_SOCKET;
      head->cmsg_type = SCM_RIGHTS;
      head->cmsg_len = CMSG_LEN(files * sizeof(int));
      std::memcpy(CMSG_DATA(head), all.data(), files * sizeof(int));
    }
    EXPECT_EQ(::sendmsg(socket, &header, 0), static_cast<ssize_t>(sizeof question));
    return error();
  };
  CallQuestion good{.what = CallRequest::attach, .pid = caller.pid(), .count = 1};
  good.points[0].point = {.offset = offset_, .index = index_};
  EXPECT_EQ(error_with(good, 0), EINVAL);
  EXPECT_EQ(error_with(good, 2), EINVAL);
  EXPECT_EQ(error_with(good, 3), EINVAL);
  for (const std::uint32_t what : {0U, 8U, ~0U}) {
    EXPECT_EQ(error_with({.what = static_cast<CallRequest>(what)}, 0), EINVAL) << what;
  }
  EXPECT_EQ(error_with({.what = CallRequest::open, .count = places()}, 0), EINVAL);  // once
  EXPECT_EQ(error_with({.what = CallRequest::pending}, 1), EINVAL);
  EXPECT_EQ(error_with({.what = CallRequest::prepare}, 1), EINVAL);
  EXPECT_EQ(error_with({.what = CallRequest::prepare, .count = 2}, 0), EINVAL);
  EXPECT_EQ(error_with({.what = CallRequest::prepare, .count = ~std::uint64_t{0}}, 0), EINVAL);
  EXPECT_EQ(error_with({.what = CallRequest::detach, .count = 1, .links = {99}}, 0), ENOENT);
  EXPECT_EQ(error_with({.what = CallRequest::forget, .index = places()}, 0), EINVAL);
  EXPECT_EQ(error_with({.what = CallRequest::forget, .index = places() - 1}, 0), 0);
  EXPECT_EQ(error_with({.what = CallRequest::reset, .count = places(), .index = 1}, 0), EINVAL);
  EXPECT_EQ(error_with({.what = CallRequest::reset, .count = 2, .index = ~std::uint64_t{0}}, 0), EINVAL);
  EXPECT_EQ(error_with({.what = CallRequest::reset, .count = ~std::uint64_t{0}, .index = 2}, 0), EINVAL);
  for (const std::uint64_t count : {std::uint64_t{0}, CallQuestion::kMostPoints + 1, ~std::uint64_t{0}}) {
    CallQuestion longer = good;
    longer.count = count;
    EXPECT_EQ(error_with(longer, 1), EINVAL) << count;
  }
  for (const std::uint64_t count : {std::uint64_t{0}, CallQuestion::kMostLinks + 1, ~std::uint64_t{0}}) {
    EXPECT_EQ(error_with({.what = CallRequest::detach, .count = count}, 0), EINVAL) << count;
  }
  CallQuestion partly_bad = good;
  partly_bad.count = 2;
  partly_bad.points[1].point = {.offset = offset_, .index = places()};
  EXPECT_EQ(error_with(partly_bad, 1), EINVAL) << "a point that is no point leaves the others out, too";
  EXPECT_FALSE(caller.probed());
  EXPECT_EQ(error_with(good, 1), 0);
  EXPECT_TRUE(caller.probed());
}

TEST_F(CallRequests, OpenNoMoreThanThereIs) {
  serve();
  const int socket = sockets_.sampler.get();
  const auto error_of_question = [socket](CallQuestion question) {
    CallAnswer answer{.error = -1};
    MessageFiles files;
    pollfd ready{socket, POLLIN, 0};
    EXPECT_TRUE(Message<CallQuestion>(&question).send(socket, {}));
    EXPECT_EQ(::poll(&ready, 1, 10'000), 1);
    EXPECT_EQ(Message<CallAnswer>(&answer).receive(socket, files), Message<CallAnswer>::Got::message);
    return answer.error;
  };
  for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32U, ~std::uint64_t{0}}) {
    EXPECT_EQ(error_of_question({.what = CallRequest::open, .count = count}), EINVAL) << count;
  }
  EXPECT_EQ(error_of_question({.what = CallRequest::prepare}), EINVAL) << "nothing is open";
}

TEST_F(CallRequests, LeaveNothingAttachedWhenEitherSideIsKilled) {
  const Caller caller;
  take_in(caller);
  serve();
  auto asked = broker();
  SKIP_WITHOUT(asked);
  ASSERT_EQ(error_of(*asked, caller.pid(), library_, offset_), 0);
  EXPECT_TRUE(caller.probed());
  server_.signal(SIGKILL);
  EXPECT_TRUE(caller.comes_to_be_probed(false));
  EXPECT_THROW(static_cast<void>(asked->pending()), Unavailable);
  EXPECT_THROW(static_cast<void>(error_of(*asked, caller.pid(), library_, offset_)), Unavailable);
  const std::uint64_t link = 1;
  asked->detach(std::span(&link, 1));  // has nothing to do

  server_.wait();
  serve();
  asked = broker();
  ASSERT_TRUE(asked) << why_;
  ASSERT_EQ(error_of(*asked, caller.pid(), library_, offset_), 0);
  EXPECT_TRUE(caller.probed());
  asked.reset();
  sockets_.sampler.close();  // as the end of the sampler and of its worker does
  EXPECT_TRUE(caller.comes_to_be_probed(false));
  EXPECT_EQ(server_.wait(), 0);
}

// It hangs or was stopped: then it keeps no budget either.
TEST_F(CallRequests, LeaveNothingAttachedWhenNobodyAsks) {
  const Caller caller;
  take_in(caller);
  serve({.silence_ms = 500});
  const auto asked = broker();
  SKIP_WITHOUT(asked);
  ASSERT_EQ(error_of(*asked, caller.pid(), library_, offset_), 0);
  EXPECT_TRUE(caller.comes_to_be_probed(false));
  EXPECT_EQ(server_.wait(), 0);
}

// Before it is attached to, the kernel is asked about the file. What is attached elsewhere would stay so, without a
// budget.
TEST_F(CallRequests, LeaveNothingAttachedWhereAFileSystemDoesNotAnswer) {
  const Caller caller;
  take_in(caller);
  serve({.with_a_file = 1});
  const auto asked = broker();
  SKIP_WITHOUT(asked);
  ASSERT_EQ(error_of(*asked, caller.pid(), library_, offset_), 0);
  EXPECT_TRUE(caller.probed());
  {
    const HungFileSystem hung;
    if (!hung.file()) GTEST_SKIP() << "no file system of a user (FUSE) can be mounted here";
    EXPECT_THROW(static_cast<void>(error_of(*asked, caller.pid(), hung.file(), offset_)), Unavailable);
    EXPECT_TRUE(caller.comes_to_be_probed(false)) << "while it does not answer";
  }
  const std::optional<int> end = server_.wait(std::chrono::seconds(10));
  EXPECT_EQ(end ? exit_status(*end) : 0, 128 + SIGALRM);
}

// The broker sends this signal at the end of the job, and the kernel at the broker's. To detach takes some ten
// milliseconds for each link: longer than a second for all.
TEST_F(CallRequests, LeaveNothingOfManyLinksAttachedByASignalWhileAFileSystemDoesNotAnswer) {
  constexpr int kLinks = 150;
  constexpr int kLooks = 12'000;  // each of five milliseconds
  const Caller caller;
  take_in(caller);
  serve({.attaching = 600, .with_a_file = 600});
  const auto asked = broker();
  SKIP_WITHOUT(asked);
  int links = 0;
  int error = 0;
  while (links < kLinks && error == 0) {
    error = error_of(*asked, caller.pid(), library_, offset_);
    if (error == 0) ++links;
  }
  EXPECT_TRUE(error == 0 || error == EMFILE) << std::strerror(error);  // few open files are allowed here
  ASSERT_GT(links, 0);
  EXPECT_TRUE(caller.probed());
  {
    const HungFileSystem hung;
    if (!hung.file()) GTEST_SKIP() << "no file system of a user (FUSE) can be mounted here";
    CallQuestion question{.what = CallRequest::attach, .pid = caller.pid(), .count = 1};
    question.points[0] = {.point = {.offset = offset_, .index = index_}, .timed = 1};
    const int file = hung.file().get();
    ASSERT_TRUE(Message<CallQuestion>(&question).send(sockets_.sampler.get(), std::span(&file, 1)));
    ASSERT_TRUE(hung.comes_to_be_asked());
    EXPECT_TRUE(server_.signal(SIGALRM));
    EXPECT_TRUE(caller.comes_to_be_probed(false, kLooks)) << links << " links";
  }
  const std::optional<int> end = server_.wait(std::chrono::seconds(10));
  EXPECT_EQ(end ? exit_status(*end) : 0, 128 + SIGALRM);
}

TEST(CallBroker, TellsAMessageThatLostItsFileFromRubbish) {
  ::signal(SIGIO, SIG_IGN);
  const RequestSockets sockets = make_request_sockets();
  const Pipe pipe = open_pipe();
  const int file = pipe.read.get();
  CallQuestion question;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(Message<CallQuestion>(&question).send(sockets.sampler.get(), std::span(&file, 1)));
  }
  using Got = Message<CallQuestion>::Got;
  const auto receive = [&] {
    MessageFiles files;
    return Message<CallQuestion>(&question).receive(sockets.broker.get(), files);
  };
  ChildProcess full = fork_child([&] {
    const rlimit none{.rlim_cur = 0, .rlim_max = 0};
    return ::setrlimit(RLIMIT_NOFILE, &none) == 0 && receive() == Got::without_files ? 0 : 1;
  });
  EXPECT_EQ(exit_status(full.wait()), 0);
  EXPECT_EQ(receive(), Got::message);
}

TEST(CallBroker, ThatHasGoneIsNotWaitedFor) {
  ::signal(SIGIO, SIG_IGN);
  RequestSockets sockets = make_request_sockets();
  sockets.broker.close();
  EXPECT_THROW(CallBroker(std::move(sockets.sampler), places()), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::call_broker_test
