// Errors and allocations of the software stack.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::stack_calls_test {
namespace {

using R = RuleRecording;

/// `count` calls that failed at this second, and their event.
void fail(R& node, const std::string& process, const std::string& function, double when, double count,
          const std::string& code) {
  node.counter(
      "stack.errors", process + '/' + function,
      [=](double second) { return std::abs(second - when) < 0.05 ? 10 * count : 0; }, "rank");
  if (!code.empty()) {
    node.events.push_back(
        {static_cast<std::int64_t>(when * 1e9), process, "call_error", function + " returned " + code});
  }
}

TEST(RuleStackErrors, NamesTheFirstOfTheCallsThatFailed) {
  R node;
  fail(node, "rank1", "cudaFree", 70.4, 3, "700");
  fail(node, "rank1", "cudaStreamSynchronize", 70.2, 1, "700");
  const auto found = node.findings("stack.errors");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_EQ(found[0].confidence, Confidence::certain);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank1"});
  EXPECT_NE(found[0].sentence.find("of cudaFree, cudaStreamSynchronize by rank1 on n2 returned the CUDA error 700, "
                                   "cudaErrorIllegalAddress (a kernel used memory that is not its own), first "
                                   "cudaStreamSynchronize at "),
            std::string::npos)
      << found[0].sentence;
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 70.2, 0.2);
  ASSERT_EQ(found[0].evidence.size(), 2U);
  EXPECT_EQ(found[0].evidence[0].metric, "stack.errors");
}

/// The remedy for one error in a job of PyTorch.
Remedy remedy_for_error(const std::string& function, const std::string& code) {
  R node;
  node.end = {{"job.libraries", "cuda torch torch_cuda"}};
  fail(node, "rank0", function, 70, 1, code);
  return node.findings("stack.errors").at(0).remedy;
}

bool has_line(const std::vector<std::string>& lines, const std::string& begin) {
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) { return line.starts_with(begin); });
}

TEST(RuleStackErrors, GivesTheLinesForThatErrorAlone) {
  const Remedy wrong = remedy_for_error("cudaStreamSynchronize", "700");
  EXPECT_TRUE(has_line(wrong.user, "compute-sanitizer "));
  EXPECT_TRUE(has_line(wrong.user, "export CUDA_LAUNCH_BLOCKING=1 "));
  EXPECT_FALSE(has_line(wrong.user, "export NCCL_DEBUG=")) << "PyTorch has NCCL loaded, which did not fail";
  const Remedy memory = remedy_for_error("cudaStreamSynchronize", "214");
  EXPECT_FALSE(has_line(memory.user, "compute-sanitizer ")) << "the memory is at fault, and no kernel";
  EXPECT_TRUE(has_line(memory.advice, "Start again from a checkpoint that is older"));
  EXPECT_TRUE(has_line(memory.admin, "nvidia-smi -q -d ECC"));
  const Remedy full = remedy_for_error("cudaMalloc", "2");
  EXPECT_TRUE(has_line(full.user, "export PYTORCH_CUDA_ALLOC_CONF="));
  EXPECT_TRUE(full.admin.empty()) << "no device failed";
  EXPECT_TRUE(has_line(remedy_for_error("cudaMalloc", "35").user, "nvidia-smi   # on n2"));
  EXPECT_TRUE(has_line(remedy_for_error("cudaLaunchKernel", "209").advice, "Compile for this GPU"));
  EXPECT_TRUE(has_line(remedy_for_error("ncclAllReduce", "2").user, "export NCCL_DEBUG=INFO"));
}

TEST(RuleStackErrors, JudgesByTheGravestOfAFunctionsErrors) {
  R node;
  fail(node, "rank0", "cudaMalloc", 50, 101, "2");
  node.events.push_back({60'000'000'000, "rank0", "call_error", "cudaMalloc returned 700"});
  fail(node, "rank0", "cudaEventQuery", 50, 9, "600");
  node.events.push_back({60'000'000'000, "rank0", "call_error", "cudaEventQuery returned 719"});
  const auto found = node.findings("stack.errors");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_NE(found[0].sentence.find("returned errors: the gravest is the CUDA error 700, cudaErrorIllegalAddress (a "
                                   "kernel used memory that is not its own), the others are 2; first cudaMalloc at "),
            std::string::npos)
      << found[0].sentence;
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_NE(found[1].sentence.find("the CUDA error 719"), std::string::npos) << found[1].sentence;
}

TEST(RuleStackErrors, CountsEachErrorOfAFunctionByItself) {
  R node;
  node.counter(
      "stack.errors", "rank0/cudaMalloc",
      [](double second) { return std::abs(second - 50) < 0.05   ? 450
                                 : std::abs(second - 60) < 0.05 ? 620
                                                                : 0; },
      "rank");
  const auto returned = [&](double second, const std::string& code) {
    node.events.push_back(
        {static_cast<std::int64_t>(second * 1e9), "rank0", "call_error", "cudaMalloc returned " + code});
  };
  returned(50, "2 (40 calls so far)");
  returned(50, "600 (5 calls so far)");
  returned(60, "2 (101 calls so far)");
  returned(60, "700 (1 calls so far) (3 before it left out)");
  const auto found = node.findings("stack.errors");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_NE(found[0].sentence.find("101 calls of cudaMalloc by the job's process on n2 returned the CUDA error 2, "
                                   "cudaErrorMemoryAllocation (no memory was left), first cudaMalloc at "),
            std::string::npos)
      << found[0].sentence;
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_NE(found[1].sentence.find("1 call of cudaMalloc by the job's process on n2 returned the CUDA error 700, "
                                   "cudaErrorIllegalAddress (a kernel used memory that is not its own) at "),
            std::string::npos)
      << found[1].sentence;
  EXPECT_EQ(found[1].severity, Severity::warning);
  EXPECT_EQ(found[1].evidence.at(0).observed.value_or(0), 1);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 50, 0.3);
  EXPECT_NEAR(node.second_of(found[1].intervals.at(0).begin_utc_ns), 60, 0.3);
}

TEST(RuleStackErrors, TellsErrorsOfNcclFromThoseOfCuda) {
  R node;
  fail(node, "rank0", "ncclAllReduce", 40, 1, "2");
  fail(node, "rank0", "cudaMalloc", 50, 1, "2");
  const auto found = node.findings("stack.errors");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_NE(found[0].sentence.find("the CUDA error 2, cudaErrorMemoryAllocation (no memory was left)"),
            std::string::npos)
      << found[0].sentence;
  EXPECT_EQ(found[0].severity, Severity::notice) << "an allocator tries again";
  EXPECT_NE(found[1].sentence.find("the NCCL result 2, ncclSystemError (a call of the operating system failed"),
            std::string::npos)
      << found[1].sentence;
  EXPECT_EQ(found[1].severity, Severity::warning);
}

TEST(RuleStackErrors, CountsAnErrorOfTheDriverOnceThatTheRuntimePassedOn) {
  R node;
  fail(node, "rank0", "cudaMalloc", 50, 10, "2");
  fail(node, "rank0", "cuMemcpy", 50, 10, "2");
  auto found = node.findings("stack.errors");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("9.5 calls of cudaMalloc by rank0"), std::string::npos) << found[0].sentence;
  fail(node, "rank1", "cuMemcpy", 60, 3, "2");  // a program without the runtime
  found = node.findings("stack.errors");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("12.3 calls of cuMemcpy, cudaMalloc by rank0, rank1"), std::string::npos)
      << found[0].sentence;
}

TEST(RuleStackErrors, InventsNoNumber) {
  R node;
  fail(node, "rank0", "cudaMalloc", 50, 1, "");
  fail(node, "rank0", "cudaMemcpy", 60, 1, "4711");
  node.events.push_back({1, "rank0", "call_error", "cudaMalloc returned"});
  node.events.push_back({1, "rank0", "call_error", "cudaMalloc returned x"});
  node.events.push_back({1, "rank0", "call_error", "cudaMalloc returned x (7 calls so far)"});
  node.events.push_back({1, "rank0", "call_error", "cudaMemcpy returned 4711 (-7 calls so far)"});
  const auto found = node.findings("stack.errors");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_NE(found[0].sentence.find("returned an error at "), std::string::npos) << found[0].sentence;
  EXPECT_NE(found[1].sentence.find("the CUDA error 4711 at "), std::string::npos) << found[1].sentence;
}

TEST(RuleStackErrors, IsSilentOnWhatHealthyProgramsGet) {
  R node;
  fail(node, "rank0", "cudaMalloc", 50, 0, "");
  EXPECT_TRUE(node.findings("stack.errors").empty()) << "calls, and no errors";
  fail(node, "rank0", "cudaFree", 119, 20, "4");
  fail(node, "rank0", "cudaEventSynchronize", 60, 5, "600");
  EXPECT_TRUE(node.findings("stack.errors").empty()) << "not ready yet, and the end of the program";
  R without;
  without.counter("job.cpu_time", "", R::always(1e9));
  EXPECT_THROW(static_cast<void>(without.findings("stack.errors")), Unavailable);
}

/// A process that is `share` of the time in cudaFree, from this second on.
R allocating(double share, const R::Course& calls) {
  R node(300);
  for (const char* function : {"cudaMalloc", "cudaFree"}) {
    const std::string instance = std::string("rank0/") + function;
    node.counter("stack.calls", instance, calls, "rank");
    node.counter(
        "stack.time", instance, [=](double second) { return calls(second) > 0 ? share * 0.5e9 : 0; }, "rank");
  }
  return node;
}

TEST(RuleStackAllocChurn, LosesNoMoreThanTheRunWhereThreadsAllocateSideBySide) {
  const auto found = allocating(2.5, R::always(40)).findings("stack.alloc_churn");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_LE(found[0].impact.seconds.value_or(999), 240.5);
  EXPECT_NE(found[0].sentence.find("was in 2.48 of these calls at a time, on average"), std::string::npos)
      << found[0].sentence;
}

TEST(RuleStackAllocChurn, MeasuresTheTimeInAllocations) {
  const auto found = allocating(0.2, R::always(40)).findings("stack.alloc_churn");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 0.2 * 240, 3);
  EXPECT_TRUE(found[0].impact.at_most) << "cudaFree waits for the GPU";
  EXPECT_NE(found[0].sentence.find("rank0 on n2 allocated and freed memory of the GPU 79"), std::string::npos)
      << found[0].sentence;
}

TEST(RuleStackAllocChurn, IsSilentOnWhatJobsDo) {
  EXPECT_TRUE(allocating(0.02, R::always(40)).findings("stack.alloc_churn").empty()) << "little time";
  EXPECT_TRUE(
      allocating(0.9, [](double second) { return second < 55 ? 100.0 : 0; }).findings("stack.alloc_churn").empty())
      << "at the start";
  EXPECT_TRUE(allocating(0.9, [](double second) { return second > 200 && second < 230 ? 100.0 : 0; })
                  .findings("stack.alloc_churn")
                  .empty())
      << "a phase that allocates anew";
  EXPECT_TRUE(allocating(0.9, R::always(0.3)).findings("stack.alloc_churn").empty()) << "a few long ones";
  R other(300);
  other.counter("stack.time", "rank0/cudaStreamSynchronize", R::always(0.9e9), "rank");
  EXPECT_TRUE(other.findings("stack.alloc_churn").empty()) << "it waits for its GPU";
  R none(300);
  none.counter("job.cpu_time", "", R::always(1e9));
  EXPECT_THROW(static_cast<void>(none.findings("stack.alloc_churn")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::stack_calls_test
