#include "hdf5schema/basics/child_process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

namespace reveal::tests::child_process_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

TEST(ChildProcess, RemembersItsStatusAndIsNotSignalledAfterwards) {
  ChildProcess child = fork_child([] { return 3; });
  ASSERT_TRUE(child.wait(60s));
  EXPECT_EQ(exit_status(*child.status()), 3);
  child.signal(SIGKILL);  // the number may be another's by now
  EXPECT_EQ(exit_status(*child.status()), 3);
}

TEST(ChildProcess, IsWaitedForNoLongerThanItIsSaid) {
  ChildProcess child = fork_child([] { return ::pause(); });
  const auto begin = Clock::now();
  EXPECT_EQ(child.wait(50ms), std::nullopt);
  EXPECT_GE(Clock::now() - begin, 50ms);
  EXPECT_TRUE(child.kill(60s));
  EXPECT_EQ(exit_status(*child.status()), 128 + SIGKILL);
  EXPECT_FALSE(child.signal(SIGKILL));
}

TEST(ChildProcess, FailsWhenItsWorkThrows) {
  ChildProcess child = fork_child([]() -> int { throw std::runtime_error("not caught"); });
  EXPECT_EQ(exit_status(child.wait()), 1);
}

TEST(ChildProcess, TellsAnEndThatNobodySawFromAnExitStatus) {
  EXPECT_NE(fork_child([] { return 255; }).wait(), ChildProcess::kUnknownEnd);
  EXPECT_EQ(ChildProcess().wait(), ChildProcess::kUnknownEnd);
  EXPECT_EQ(ChildProcess(1).wait(), ChildProcess::kUnknownEnd);  // init is no child of this process
}

TEST(ChildProcess, EndsWithItsParent) {
  Pipe held = open_pipe();
  ChildProcess parent = fork_child([] {
    const Pipe ready = open_pipe();
    const pid_t pid = ::getpid();
    const ChildProcess child = fork_child([&] {
      end_with_parent(pid);
      return ::write(ready.write.get(), "+", 1) == 1 ? ::pause() : 1;
    });
    char byte = 0;
    return child && ::read(ready.read.get(), &byte, 1) == 1 ? 0 : 1;
  });
  held.write.close();
  EXPECT_EQ(exit_status(parent.wait()), 0);
  char byte = 0;
  EXPECT_EQ(::read(held.read.get(), &byte, 1), 0) << "the grandchild lives";
  ChildProcess orphan = fork_child([] {
    end_with_parent(-1);  // as if that had ended before
    return 0;
  });
  EXPECT_EQ(exit_status(orphan.wait()), 128 + SIGKILL);
}

TEST(ChildProcess, EndsWithItsGroup) {
  Pipe pipe = open_pipe();
  ChildProcess child = fork_child([&] {
    ::setpgid(0, 0);
    if (::fork() == 0) ::pause();  // holds the pipe, too
    return ::write(pipe.write.get(), "+", 1) == 1 ? ::pause() : 1;
  });
  pipe.write.close();
  char byte = 0;
  ASSERT_EQ(::read(pipe.read.get(), &byte, 1), 1);
  child.signal_group(SIGKILL);
  EXPECT_EQ(::read(pipe.read.get(), &byte, 1), 0) << "the grandchild lives";
  EXPECT_TRUE(child.wait(60s));
}

TEST(ChildProcess, IsNobodyWithoutAProcess) {
  ChildProcess none;
  EXPECT_FALSE(none);
  none.signal(SIGKILL);  // not to all processes
  none.signal_group(SIGKILL);
  EXPECT_TRUE(none.kill(0ms));
  EXPECT_EQ(none.wait(60s), std::nullopt);
}

TEST(ChildProcess, DoesNotWaitForOneThatSomebodyElseReaps) {
  ChildProcess stranger(1);  // init is no child of this process
  const auto status = stranger.wait(60s);
  ASSERT_TRUE(status);
  EXPECT_FALSE(WIFEXITED(*status) && WEXITSTATUS(*status) == 0) << "an end that nobody saw is no success";
}

}  // namespace
}  // namespace reveal::tests::child_process_test
