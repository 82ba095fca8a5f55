#include "hdf5schema/basics/child_process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "hdf5schema/basics/run_program.h"

namespace reveal::tests::child_process_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

template <typename Work>
ChildProcess child_that(Work work) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    work();
    ::_exit(3);
  }
  return ChildProcess(pid);
}

TEST(ChildProcess, RemembersItsStatusAndIsNotSignalledAfterwards) {
  ChildProcess child = child_that([] {});
  ASSERT_TRUE(child.wait(60s));
  EXPECT_EQ(exit_status(*child.status()), 3);
  child.signal(SIGKILL);  // the number may be another's by now
  EXPECT_EQ(exit_status(*child.status()), 3);
}

TEST(ChildProcess, IsWaitedForNoLongerThanItIsSaid) {
  ChildProcess child = child_that([] { ::pause(); });
  const auto begin = Clock::now();
  EXPECT_EQ(child.wait(50ms), std::nullopt);
  EXPECT_GE(Clock::now() - begin, 50ms);
  EXPECT_TRUE(child.kill(60s));
  EXPECT_EQ(exit_status(*child.status()), 128 + SIGKILL);
}

TEST(ChildProcess, EndsWithItsGroup) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ChildProcess child = child_that([&] {
    ::setpgid(0, 0);
    if (::fork() == 0) ::pause();  // holds the pipe, too
    if (::write(ends[1], "+", 1) != 1) ::_exit(1);
    ::pause();
  });
  ::close(ends[1]);
  char byte = 0;
  ASSERT_EQ(::read(ends[0], &byte, 1), 1);
  child.signal_group(SIGKILL);
  EXPECT_EQ(::read(ends[0], &byte, 1), 0) << "the grandchild lives";
  EXPECT_TRUE(child.wait(60s));
  ::close(ends[0]);
}

TEST(ChildProcess, IsNobodyWithoutAProcess) {
  ChildProcess none;
  EXPECT_FALSE(none);
  none.signal(SIGKILL);  // not to everybody
  none.signal_group(SIGKILL);
  EXPECT_TRUE(none.kill(0ms));
  EXPECT_EQ(none.wait(60s), std::nullopt);
}

TEST(ChildProcess, DoesNotWaitForOneThatSomebodyElseReaps) {
  ChildProcess stranger(1);  // init is nobody's child here
  const auto status = stranger.wait(60s);
  ASSERT_TRUE(status);
  EXPECT_FALSE(WIFEXITED(*status) && WEXITSTATUS(*status) == 0) << "an end that nobody saw is no success";
}

}  // namespace
}  // namespace reveal::tests::child_process_test
