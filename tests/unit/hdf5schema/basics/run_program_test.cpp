#include "hdf5schema/basics/run_program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <stdexcept>

#include "hdf5schema/basics/child_answer.h"
#include "hdf5schema/basics/descriptor.h"

namespace reveal::tests::run_program_test {
namespace {

using namespace std::chrono_literals;

TEST(RunProgram, HearsOneOfItsStreams) {
  const ProgramRun run{.command = {"sh", "-c", "echo out; echo err >&2; exit 3"}, .listen = ProgramRun::Listen::errors};
  const ProgramEnd end = run_program(run);
  EXPECT_EQ(end.output, "err\n");
  ASSERT_TRUE(end.status);
  EXPECT_EQ(exit_status(*end.status), 3);
}

TEST(RunProgram, KeepsNoMoreThanWasAskedFor) {
  const ProgramEnd end =
      run_program({.command = {"sh", "-c", "i=0; while [ $i -lt 9999 ]; do echo $i; i=$((i+1)); done"},
                   .listen = ProgramRun::Listen::output,
                   .output_limit = 10});
  EXPECT_EQ(end.output, "0\n1\n2\n3\n4\n");
  EXPECT_TRUE(end.truncated);
  EXPECT_EQ(end.status, 0) << "it could say all of it";
}

TEST(RunProgram, EndsOneWhoseTimeIsUp) {
  EXPECT_EQ(run_program({.command = {"sleep", "600"}, .limit = 100ms}).status, std::nullopt);
  const ProgramEnd killed = run_program({.command = {"sh", "-c", "kill -9 $$"}, .limit = 60s});
  ASSERT_TRUE(killed.status);
  EXPECT_EQ(exit_status(*killed.status), 128 + 9);
}

TEST(RunProgram, SaysWhyItCouldNotBeStarted) {
  if (std::getenv("REVEAL_EMULATED") != nullptr) GTEST_SKIP() << "vfork is fork there, which tells its parent nothing";
  EXPECT_EQ(run_program({.command = {"no-such-program-anywhere"}}).start_error, ENOENT);
  EXPECT_EQ(run_program({.command = {"/etc/passwd"}}).start_error, EACCES);
}

TEST(AskChild, IsCompleteOnlyWhenAllWasSaid) {
  std::string large(1 << 20, 'x');
  const ChildAnswer whole = query_child([&] { return large; }, 60s, 2 << 20);
  EXPECT_TRUE(whole.complete);
  EXPECT_EQ(whole.text, large);
  const ChildAnswer cut = query_child([&] { return large; }, 60s, 1000);
  EXPECT_FALSE(cut.complete) << "too much";
  EXPECT_EQ(cut.text, "");
  EXPECT_FALSE(query_child([]() -> std::string { throw std::runtime_error("x"); }, 60s, 1000).complete);
}

TEST(AskChild, HoldsNothingOfOursHoweverLongItHangs) {
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const Descriptor ours(::fcntl(null.get(), F_DUPFD_CLOEXEC, 50));  // not the number of its pipe
  ASSERT_TRUE(ours);
  const ChildAnswer answer = query_child(
      [&] { return std::string(::fcntl(ours.get(), F_GETFD) < 0 && errno == EBADF ? "closed" : "open"); }, 60s, 100);
  EXPECT_EQ(answer.text, "closed");
}

TEST(AskChild, DoesNotWaitForOneThatHangs) {
  const ChildAnswer hung = query_child(
      [] {
        ::pause();
        return std::string("late");
      },
      100ms, 1000);
  EXPECT_FALSE(hung.complete);
  EXPECT_EQ(hung.text, "");
}

TEST(AskChild, DoesNotWaitForOneThatStaysBehindItsAnswer) {
  Pipe pipe = open_pipe();
  ASSERT_TRUE(pipe.read);
  ChildProcess child = fork_child([&] {
    static_cast<void>(write_all(pipe.write.get(), "taken over"));
    pipe.write.close();
    ::pause();
    return 0;
  });
  pipe.write.close();
  const ChildAnswer heard = hear_child(child, pipe.read, {.time = 60s, .bytes = 100, .after_answer = 50ms});
  EXPECT_FALSE(heard.ended);
  EXPECT_TRUE(child.wait(60s)) << "it was killed";
}

}  // namespace
}  // namespace reveal::tests::run_program_test
