#include "hdf5schema/basics/descriptor.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/time.h>

#include <csignal>
#include <string>

#include "hdf5schema/basics/call_filter.h"
#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/run_program.h"

namespace reveal::tests::descriptor_test {
namespace {

int g_full_pipe = -1;

/// A write that waits fails with EINTR when this returns, because there is no SA_RESTART.
void make_room(int) {
  char some[4096];
  [[maybe_unused]] const auto got = ::read(g_full_pipe, some, sizeof some);
}

bool writes_into_a_full_pipe() {
  const Pipe pipe = open_pipe(O_NONBLOCK);
  const std::string page(4096, 'x');
  while (::write(pipe.write.get(), page.data(), page.size()) > 0) {
  }
  if (::fcntl(pipe.write.get(), F_SETFL, 0) != 0) return false;
  g_full_pipe = pipe.read.get();
  struct sigaction action {};
  action.sa_handler = make_room;
  ::sigaction(SIGALRM, &action, nullptr);
  const itimerval often{.it_interval = {0, 10'000}, .it_value = {0, 10'000}};
  ::setitimer(ITIMER_REAL, &often, nullptr);
  return write_all(pipe.write.get(), page);
}

TEST(WriteAll, GoesOnAfterASignal) {
  EXPECT_EQ(exit_status(fork_child([] { return writes_into_a_full_pipe() ? 0 : 1; }).wait()), 0);
}

constexpr int kSkipped = 77;

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

/// As before Linux 5.9.
bool refuse_close_range() {
  constexpr int kCloseRange[] = {436};
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  CallFilter filter;
  filter.refuse(kCloseRange);
  return filter.install();
}

enum class Kernel : bool { old, recent };

int close_from_fifty(Kernel kernel) {
  return exit_status(fork_child([kernel] {
                       for (const int fd : {49, 50, 60}) {
                         if (::dup2(STDERR_FILENO, fd) != fd) return 1;
                       }
                       if (kernel == Kernel::old && !refuse_close_range()) return kSkipped;
                       close_descriptors_from(50);
                       return is_open(49) && !is_open(50) && !is_open(60) ? 0 : 2;
                     }).wait());
}

TEST(Descriptors, AreClosedFromANumberOn) {
  EXPECT_EQ(close_from_fifty(Kernel::recent), 0);
}

TEST(Descriptors, AreClosedOneByOneWhereTheKernelDoesNotCloseThemAtOnce) {
  const int status = close_from_fifty(Kernel::old);
  if (status == kSkipped) GTEST_SKIP() << "this kernel has no filters of system calls";
  EXPECT_EQ(status, 0);
}

TEST(Descriptors, ExceptOneAreClosedInAChildThatMayHang) {
  const Pipe pipe = open_pipe();
  ChildProcess child = fork_child([&] {
    const int kept = keep_only_descriptor(pipe.write.get());
    struct stat null {};
    struct stat out {};
    const bool nowhere = ::stat("/dev/null", &null) == 0 && ::fstat(STDOUT_FILENO, &out) == 0 &&
                         out.st_rdev == null.st_rdev && S_ISCHR(out.st_mode);
    return kept == STDERR_FILENO + 1 && nowhere && write_all(kept, "x") ? 0 : 1;
  });
  EXPECT_EQ(exit_status(child.wait()), 0);
  char letter = 0;
  EXPECT_EQ(::read(pipe.read.get(), &letter, 1), 1);
}

}  // namespace
}  // namespace reveal::tests::descriptor_test
