// A child that hangs or dies takes nothing along.
#include "core/sampler/worker_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "hdf5schema/basics/descriptor.h"
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

std::string patient_answer(WorkerProcess& worker) {
  for (int i = 0; i < 2000; ++i) {
    if (const std::string_view text = worker.answer(); !text.empty()) return std::string(text);
    if (worker.state() != WorkerProcess::State::busy) return "";
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return "too late";
}

TEST(WorkerProcess, AnswersOneRequestAfterTheOther) {
  const TestHost host;
  KernelTree fs(host.root());
  WorkerProcess worker(fs, "test", repeat_or_hang);
  EXPECT_EQ(worker.answer(), "");
  ASSERT_TRUE(worker.ask("one"));
  EXPECT_FALSE(worker.ask("two")) << "one is under way";
  EXPECT_EQ(patient_answer(worker), "below a root: one");
  ASSERT_TRUE(worker.ask("fail"));
  EXPECT_EQ(patient_answer(worker), "\n");
  ASSERT_TRUE(worker.ask("three"));
  EXPECT_EQ(patient_answer(worker), "below a root: three");
}

std::string read_kept(const std::string& /*root*/, std::string_view /*request*/) {
  char letter = 0;
  return ::read(WorkerProcess::kKeptFile, &letter, 1) == 1 ? std::string(1, letter) : "nothing";
}

TEST(WorkerProcess, KeepsTheDescriptorThatItIsGiven) {
  KernelTree fs;
  const Pipe pipe = open_pipe();
  ASSERT_EQ(::write(pipe.write.get(), "x", 1), 1);
  WorkerProcess with(fs, "test", read_kept, pipe.read.get());
  ASSERT_TRUE(with.ask("read"));
  EXPECT_EQ(patient_answer(with), "x");
  WorkerProcess without(fs, "test", read_kept);
  ASSERT_TRUE(without.ask("read"));
  EXPECT_EQ(patient_answer(without), "nothing");
}

TEST(WorkerProcess, IsBusyWhileItsWorkHangsAndLetsItsOwnerGo) {
  KernelTree fs;
  WorkerProcess worker(fs, "test", repeat_or_hang);
  ASSERT_TRUE(worker.ask("hang"));
  EXPECT_EQ(worker.answer(), "");
  EXPECT_EQ(worker.state(), WorkerProcess::State::busy);
}

TEST(WorkerProcess, IsLostWhenSomebodyKillsIt) {
  KernelTree fs;
  WorkerProcess worker(fs, "test", repeat_or_hang);
  ASSERT_TRUE(worker.ask("die"));
  EXPECT_EQ(patient_answer(worker), "");
  EXPECT_EQ(worker.state(), WorkerProcess::State::lost);
  EXPECT_FALSE(worker.ask("one"));
  EXPECT_TRUE(worker.was_lost());
  EXPECT_FALSE(worker.was_lost()) << "it is told once";
}

TEST(WorkerProcess, StartsAgainAfterItWasKilled) {
  KernelTree fs;
  WorkerProcess worker(fs, "test", repeat_or_hang);
  EXPECT_FALSE(worker.start_again()) << "it runs";
  ASSERT_TRUE(worker.ask("die"));
  EXPECT_EQ(patient_answer(worker), "");
  ASSERT_TRUE(worker.start_again());
  EXPECT_FALSE(worker.was_lost());
  ASSERT_TRUE(worker.ask("one"));
  EXPECT_EQ(patient_answer(worker), "one");
  ASSERT_TRUE(worker.ask("die"));
  EXPECT_EQ(patient_answer(worker), "");
  EXPECT_TRUE(worker.was_lost()) << "for the second time";
}

}  // namespace
}  // namespace reveal::tests::worker_process_test
