#include "wrapper/process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "hdf5schema/basics/child_answer.h"
#include "hdf5schema/basics/child_process.h"
#include "wrapper/closing_report.h"

namespace reveal::tests::process_test {
namespace {

using namespace std::chrono_literals;

/// In a process of its own: the signals of the test program stay as they are.
template <typename Work>
bool in_another_process(Work&& work) {
  return exit_status(fork_child([&] { return work() ? 0 : 1; }).wait()) == 0;
}

bool pending(int signal) {
  sigset_t set;
  return ::sigpending(&set) == 0 && sigismember(&set, signal) == 1;
}

TEST(SignalledProcess, IsNoLaterOneWithItsNumber) {
  ChildProcess child = fork_child([]() -> int {
    while (true) ::pause();
  });
  ASSERT_TRUE(child);
  const auto start = process_start_time(child.pid());
  ASSERT_TRUE(start);
  EXPECT_FALSE(signal_process(child.pid(), *start - 1, SIGKILL));
  EXPECT_FALSE(child.status());
  EXPECT_TRUE(signal_process(child.pid(), start, SIGKILL));
  EXPECT_EQ(exit_status(child.wait()), 128 + SIGKILL);
  EXPECT_FALSE(signal_process(child.pid(), start, SIGKILL)) << "it has ended";
}

TEST(EarlySignals, KeepsWhatWasSentAndDropsWhatTheWrapperRaised) {
  EXPECT_TRUE(in_another_process([] {
    const BlockedSignals blocked;
    int ends[2];
    if (::pipe(ends) != 0) return false;
    ::close(ends[0]);
    if (::write(ends[1], "x", 1) >= 0 || !pending(SIGPIPE)) return false;
    ::kill(::getpid(), SIGUSR1);
    const EarlySignals early;
    if (pending(SIGPIPE) || pending(SIGUSR1)) return false;
    early.pass_on(::getpid());
    return pending(SIGUSR1) && !pending(SIGPIPE);
  }));
}

TEST(StartProgram, TellsWhatIsMissingFromWhatCannotRun) {
  EXPECT_TRUE(in_another_process([] {
    const BlockedSignals blocked;
    const StartedProgram missing = start_program({"/no/such/program"}, {}, blocked);
    return missing.pid < 0 && missing.error_number == ENOENT && !missing.no_room;
  }));
}

TEST(AskChild, IsLeftWhenItDoesNotAnswer) {
  const ChildAnswer answer = query_child(
      [] {
        ::pause();
        return std::string("never");
      },
      10ms, 100);
  EXPECT_FALSE(answer.complete);
  EXPECT_EQ(answer.text, "");
}

TEST(ClosingReportMemory, GrowsWithTheTraces) {
  EXPECT_LT(memory_of_report(1 << 20), memory_of_report(4 << 20));
  EXPECT_EQ(memory_of_report(std::uint64_t{1} << 40), (std::uint64_t{96} << 20) + (std::uint64_t{1} << 30));
}

}  // namespace
}  // namespace reveal::tests::process_test
