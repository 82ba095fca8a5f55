// A process that does a known amount of work on request, with a child of its own, and reports the cpu time that the
// kernel charged: the counts of perf are compared with that.
#pragma once

#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <stdexcept>

#include "hdf5schema/basics/child_process.h"

namespace reveal {

struct WorkDone {
  std::int64_t cpu_ns = 0;
  std::int64_t minor_faults = 0;
};

class WorkProcess {
 public:
  static constexpr int kPages = 2000;  // touched by the process, and as many by its child
  static constexpr std::int64_t kSpinNs = 150'000'000;

  WorkProcess() {
    if (!order_.read || !report_.read) throw std::runtime_error("no pipe");
    child_ = fork_child([this] { return serve(); });
    if (!child_) throw std::runtime_error("no process");
  }
  ~WorkProcess() {
    if (child_.signal(SIGKILL)) child_.wait();
  }
  WorkProcess(const WorkProcess&) = delete;
  WorkProcess& operator=(const WorkProcess&) = delete;

  [[nodiscard]] int pid() const { return child_.pid(); }
  /// Returns when it is done, its child included.
  [[nodiscard]] WorkDone work() const {
    char order = 'w';
    WorkDone done;
    if (::write(order_.write.get(), &order, 1) != 1 || ::read(report_.read.get(), &done, sizeof done) != sizeof done) {
      throw std::runtime_error("the work process has gone");
    }
    return done;
  }

 private:
  static std::int64_t nanoseconds(const timeval& time) {
    return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::int64_t>(time.tv_usec) * 1000;
  }
  static WorkDone charged() {
    WorkDone sum;
    for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
      rusage usage{};
      ::getrusage(who, &usage);
      sum.cpu_ns += nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime);
      sum.minor_faults += usage.ru_minflt;
    }
    return sum;
  }
  static void touch_and_spin() {
    const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* const memory =
        ::mmap(nullptr, page * kPages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ::madvise(memory, page * kPages, MADV_NOHUGEPAGE);
    for (std::size_t i = 0; i < kPages; ++i) static_cast<volatile char*>(memory)[i * page] = 1;
    ::munmap(memory, page * kPages);
    timespec now{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    const std::int64_t end = now.tv_sec * 1'000'000'000LL + now.tv_nsec + kSpinNs;
    while (now.tv_sec * 1'000'000'000LL + now.tv_nsec < end) ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  }
  [[nodiscard]] int serve() const {
    char order = 0;
    while (::read(order_.read.get(), &order, 1) == 1) {
      const WorkDone before = charged();
      touch_and_spin();
      fork_child([] {
        touch_and_spin();
        return 0;
      }).wait();
      const WorkDone after = charged();
      const WorkDone done{after.cpu_ns - before.cpu_ns, after.minor_faults - before.minor_faults};
      if (::write(report_.write.get(), &done, sizeof done) != sizeof done) break;
    }
    return 0;
  }

  Pipe order_ = open_pipe(), report_ = open_pipe();
  ChildProcess child_;
};

}  // namespace reveal
