// A child that hangs or dies takes nothing along.
#include "core/sampler/worker_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "test_host.h"

namespace reveal::tests::worker_process_test {
namespace {

std::string repeat_or_hang(const std::string& root, std::string_view request) {
  if (request == "hang") {
    while (true) ::pause();
  }
  if (request == "die") ::raise(SIGKILL);
  if (request == "fail") throw Error("nothing of it");
  return (root.empty() ? "" : "below a root: ") + std::string(request);
}

std::string patient_answer(WorkerProcess& aside) {
  for (int i = 0; i < 2000; ++i) {
    if (const std::string_view text = aside.answer(); !text.empty()) return std::string(text);
    if (aside.state() != WorkerProcess::State::busy) return "";
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return "too late";
}

TEST(WorkerProcess, AnswersOneRequestAfterTheOther) {
  const TestHost host;
  KernelTree fs(host.root());
  WorkerProcess aside(fs, "test", repeat_or_hang);
  EXPECT_EQ(aside.answer(), "");
  ASSERT_TRUE(aside.ask("one"));
  EXPECT_FALSE(aside.ask("two")) << "one is under way";
  EXPECT_EQ(patient_answer(aside), "below a root: one");
  ASSERT_TRUE(aside.ask("fail"));
  EXPECT_EQ(patient_answer(aside), "\n");
  ASSERT_TRUE(aside.ask("three"));
  EXPECT_EQ(patient_answer(aside), "below a root: three");
}

TEST(WorkerProcess, IsBusyWhileItsWorkHangsAndLetsItsOwnerGo) {
  KernelTree fs;
  WorkerProcess aside(fs, "test", repeat_or_hang);
  ASSERT_TRUE(aside.ask("hang"));
  EXPECT_EQ(aside.answer(), "");
  EXPECT_EQ(aside.state(), WorkerProcess::State::busy);
}

TEST(WorkerProcess, IsLostWhenSomebodyKillsIt) {
  KernelTree fs;
  WorkerProcess aside(fs, "test", repeat_or_hang);
  ASSERT_TRUE(aside.ask("die"));
  EXPECT_EQ(patient_answer(aside), "");
  EXPECT_EQ(aside.state(), WorkerProcess::State::lost);
  EXPECT_FALSE(aside.ask("one"));
  EXPECT_TRUE(aside.was_lost());
  EXPECT_FALSE(aside.was_lost()) << "it is told once";
}

}  // namespace
}  // namespace reveal::tests::worker_process_test
