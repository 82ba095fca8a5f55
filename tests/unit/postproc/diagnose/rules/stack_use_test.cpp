// How a program uses the software stack: small messages, waits for the GPU, waits for the data loader.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "gpu_training.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "rule_recording.h"

namespace reveal::tests::stack_use_test {
namespace {

using R = RuleRecording;

/// Calls of a function, each of which takes so long and has so many bytes (none if below 0).
void call(R& node, const std::string& instance, const R::Course& rate, double seconds_each, double bytes_each = -1) {
  node.counter("stack.calls", instance, rate, "rank");
  node.counter(
      "stack.time", instance, [=](double second) { return rate(second) * seconds_each * 1e9; }, "rank");
  if (bytes_each < 0) return;
  node.counter(
      "stack.bytes", instance, [=](double second) { return rate(second) * bytes_each; }, "rank");
}

/// gloo moves the data in a thread of PyTorch's, in which its time is measured.
R exchanging(double rate, double bytes_each, double seconds_each) {
  R node(300);
  node.counter("stack.calls", "rank0/gloo.allreduce", R::always(rate), "rank");
  node.counter("stack.bytes", "rank0/gloo.allreduce", R::always(rate * bytes_each), "rank");
  call(node, "rank0/c10d.work", R::always(rate), seconds_each);
  return node;
}

TEST(RuleStackSmallMessages, MeasuresTheTimeOfManySmallCollectives) {
  const auto found = exchanging(500, 4096, 200e-6).findings("stack.small_messages");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_EQ(found[0].confidence, Confidence::likely);
  EXPECT_TRUE(found[0].impact.at_most) << "computing may go on meanwhile";
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 0.1 * 240, 2);
  EXPECT_NE(found[0].sentence.find("of 4 KiB each on average"), std::string::npos) << found[0].sentence;
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank0"});
}

/// Known in this part of each minute only: it is counted in turns.
R::Course in_turns(double value, double from, double to) {
  return [=](double second) {
    const double at = std::fmod(second, 60);
    return at >= from && at < to ? value : kNaN;
  };
}

/// 500 messages a second, of which the bytes and the time are known in different parts of each minute.
R exchanging_in_turns(double seconds_each) {
  R node(300);
  node.counter("stack.calls", "rank0/gloo.allreduce", in_turns(500, 0, 40), "rank");
  node.counter("stack.bytes", "rank0/gloo.allreduce", in_turns(500 * 4096, 0, 40), "rank");
  node.counter("stack.calls", "rank0/c10d.work", in_turns(500, 30, 50), "rank");
  node.counter("stack.time", "rank0/c10d.work", in_turns(500 * seconds_each * 1e9, 30, 50), "rank");
  return node;
}

TEST(RuleStackSmallMessages, UsesThePartsInWhichTimeAndBytesWereMeasured) {
  const auto found = exchanging_in_turns(200e-6).findings("stack.small_messages");
  ASSERT_EQ(found.size(), 1U);
  ASSERT_EQ(found[0].evidence.size(), 3U);
  EXPECT_NEAR(found[0].evidence[0].observed.value_or(0), 4096, 1);
  EXPECT_NEAR(found[0].evidence[1].observed.value_or(0), 500, 10);
  EXPECT_NEAR(found[0].evidence[2].observed.value_or(0), 0.1, 0.003);
  EXPECT_NE(found[0].sentence.find("of the time in these calls; measured in 40 of 240 s."), std::string::npos)
      << found[0].sentence;
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 0.1 * 240, 2);
  EXPECT_NE(found[0].impact.how.find("; measured in 40 of 240 s, and taken to be the same in the rest"),
            std::string::npos)
      << found[0].impact.how;
}

TEST(RuleStackSmallMessages, IsSilentOnPartsThatAreShortOrDoNotMeet) {
  EXPECT_TRUE(exchanging_in_turns(60e-6).findings("stack.small_messages").empty()) << "little time";
  for (const double measured_until : {62.0, 68.0}) {  // 60 s are the start
    R node(300);
    node.counter("stack.calls", "rank0/gloo.allreduce", R::always(500), "rank");
    node.counter("stack.bytes", "rank0/gloo.allreduce", R::always(500 * 4096), "rank");
    node.counter(
        "stack.time", "rank0/c10d.work", [=](double second) { return second < measured_until ? 0.1e9 : kNaN; }, "rank");
    EXPECT_EQ(node.findings("stack.small_messages").empty(), measured_until < 65) << measured_until;
  }
  R apart(300);
  apart.counter("stack.calls", "rank0/gloo.allreduce", in_turns(500, 0, 30), "rank");
  apart.counter("stack.bytes", "rank0/gloo.allreduce", in_turns(500 * 4096, 0, 30), "rank");
  apart.counter("stack.time", "rank0/c10d.work", in_turns(0.1e9, 30, 60), "rank");
  EXPECT_TRUE(apart.findings("stack.small_messages").empty()) << "never at the same time";
}

TEST(RuleStackSmallMessages, DoesNotWaitForAFunctionThatWasNotCalledYet) {
  R node = exchanging(500, 4096, 200e-6);
  const R::Course late = [](double second) { return second < 250 ? kNaN : 1; };
  node.counter("stack.calls", "rank0/gloo.broadcast", late, "rank");
  node.counter("stack.bytes", "rank0/gloo.broadcast", late, "rank");
  const auto found = node.findings("stack.small_messages");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence.find("measured in"), std::string::npos) << found[0].sentence;
}

TEST(RuleStackSmallMessages, KnowsNoCostOfThoseOfNccl) {
  R node(300);
  call(node, "rank1/ncclAllReduce", R::always(3000), 20e-6, 2048);
  const auto found = node.findings("stack.small_messages");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_FALSE(found[0].impact.seconds);
  EXPECT_EQ(found[0].confidence, Confidence::possible);
}

/// 400 messages a second of two steps, each of 5 ms; the longest of each second takes this long.
R exchanging_slowly(double longest) {
  R node = exchanging(400, 4096, 5e-3);
  node.counter("stack.steps", "rank0", R::always(2), "rank");
  node.gauge("stack.longest", "rank0/c10d.work", R::always(longest * 1e9), "rank");
  return node;
}

TEST(RuleStackSmallMessages, TellsSlowMessagesFromWaitsForALateRank) {
  const auto found = exchanging_slowly(20e-3).findings("stack.small_messages");
  ASSERT_EQ(found.size(), 1U) << "a late rank holds up four of the calls, for 80 ms of the 2 s";
  EXPECT_EQ(found[0].confidence, Confidence::possible);
  EXPECT_TRUE(exchanging_slowly(0.49).findings("stack.small_messages").empty()) << "four waits take all but 40 ms";
  R alone = exchanging(400, 4096, 5e-3);
  EXPECT_TRUE(alone.findings("stack.small_messages").empty()) << "no step is known";
}

TEST(RuleStackSmallMessages, IsSilentOnWhatJobsDo) {
  EXPECT_TRUE(exchanging(20, 25e6, 20e-3).findings("stack.small_messages").empty()) << "large ones";
  EXPECT_TRUE(exchanging(10, 4096, 200e-6).findings("stack.small_messages").empty()) << "a few";
  EXPECT_TRUE(exchanging(200, 4096, 100e-6).findings("stack.small_messages").empty()) << "little time";
  EXPECT_TRUE(exchanging(150, 4096, 5e-3).findings("stack.small_messages").empty()) << "they wait for a late rank";
  R grouped(300);
  call(grouped, "rank0/ncclSend", R::always(3000), 1e-6, 2048);
  call(grouped, "rank0/ncclGroupEnd", R::always(30), 3e-3);
  EXPECT_TRUE(grouped.findings("stack.small_messages").empty()) << "NCCL joins the calls of a group";
  R phase(300);
  call(
      phase, "rank0/ncclAllReduce", [](double second) { return second > 100 && second < 160 ? 3000.0 : 0; }, 100e-6,
      2048);
  EXPECT_TRUE(phase.findings("stack.small_messages").empty()) << "a phase";
  R unsized(300);
  call(unsized, "rank0/MPI_Allreduce", R::always(3000), 30e-6);
  EXPECT_TRUE(unsized.findings("stack.small_messages").empty()) << "the bytes of MPI are not known";
  R none(300);
  none.counter("job.cpu_time", "", R::always(1e9));
  EXPECT_THROW(static_cast<void>(none.findings("stack.small_messages")), Unavailable);
}

/// A process that waits for its GPU, which is busy for a part of the time.
R waiting(double rate, double share, double use) {
  R node(300);
  call(node, "rank0/cudaStreamSynchronize", R::always(rate), share / rate);
  call(node, "rank0/cuStreamSynchronize", R::always(rate), 0.9 * share / rate);
  call(node, "rank0/cudaMemcpyAsync", R::always(500), 5e-6, 4);
  node.gauge("gpu.utilization", "gpu0", R::always(use));
  return node;
}

TEST(RuleStackSyncBound, BoundsTheCostByTheTimeInWhichTheGpuHasNoWork) {
  const auto found = waiting(200, 0.5, 60).findings("stack.sync_bound");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_TRUE(found[0].impact.at_most);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 0.4 * 240, 1);
  EXPECT_NE(found[0].sentence.find("rank0 on n2 waited for its GPU 19"), std::string::npos)
      << "a call of the runtime is no second one of the driver: " << found[0].sentence;
  EXPECT_TRUE(found[0].remedy.user.at(0).starts_with("nsys profile -t cuda,osrt -y 120 -d 30 "))
      << found[0].remedy.user.at(0);
}

TEST(RuleStackSyncBound, SaysInWhichPartOfTheTimeTheCallsWereMeasured) {
  R node(300);
  node.counter("stack.calls", "rank0/cudaStreamSynchronize", in_turns(200, 0, 15), "rank");
  node.counter("stack.time", "rank0/cudaStreamSynchronize", in_turns(0.5e9, 0, 15), "rank");
  node.gauge("gpu.utilization", "gpu0", R::always(60));
  const auto found = node.findings("stack.sync_bound");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("% of the time in all, and"), std::string::npos) << found[0].sentence;
  EXPECT_NE(found[0].sentence.find("until the next launch; measured in 60 of 240 s."), std::string::npos)
      << found[0].sentence;
  EXPECT_NEAR(found[0].evidence[0].observed.value_or(0), 0.5, 0.01);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 0.4 * 240, 1) << "the GPU's use was measured all the time";
}

TEST(RuleStackSyncBound, IsSilentOnWhatJobsDo) {
  EXPECT_TRUE(waiting(200, 0.9, 95).findings("stack.sync_bound").empty()) << "the GPU is busy";
  EXPECT_TRUE(waiting(4, 0.7, 60).findings("stack.sync_bound").empty()) << "one wait for each step";
  EXPECT_TRUE(waiting(200, 0.05, 40).findings("stack.sync_bound").empty()) << "it waits for its data, not for the GPU";
  R no_gpu(300);
  call(no_gpu, "rank0/cudaDeviceSynchronize", R::always(100), 5e-3);
  EXPECT_THROW(static_cast<void>(no_gpu.findings("stack.sync_bound")), Unavailable) << "the cost is not known";
}

TEST(RuleGpuStarvedInput, IsSilentOnAProcessThatPollsForItsGpu) {
  GpuTraining training;
  training.set("gpu.utilization", GpuTraining::while_it_works(55, 2));
  training.set("process.cpu_time", R::always(1e9));
  training.node.counter("net.tx_bytes", "eth0", R::always(0));
  const auto alone = training.findings("gpu.starved_input");
  ASSERT_EQ(alone.size(), 1U) << "one process takes a whole cpu";
  Finding sync;
  sync.id = "stack.sync_bound";
  EXPECT_TRUE(training.findings("gpu.starved_input", std::span(&sync, 1)).empty());
}

/// A minute of samples, one for each second, of a training: 'w' waits for the loader.
void samples(R& node, const std::string& process, double until, const std::string& letters,
             const std::string& wait = "train(train.py:40)>select(selectors.py:416)") {
  node.events.push_back({static_cast<std::int64_t>(until * 1e9), process, "python_frames",
                         "1s " + letters + " c=backward(train.py:44) w=" + wait});
}

std::string minute(int waiting) {
  std::string letters(60, 'c');
  for (int i = 0; i < waiting; ++i) letters[static_cast<std::size_t>(i * 60 / waiting)] = 'w';
  return letters;
}

R training(int waiting_of_sixty) {
  R node(300);
  node.counter("stack.steps", "rank0", R::always(5), "rank");
  for (const double until : {60.0, 120.0, 180.0, 240.0, 300.0}) samples(node, "rank0", until, minute(waiting_of_sixty));
  return node;
}

TEST(RuleStackInputWait, NamesTheLineThatWaitsForTheLoader) {
  const auto found = training(24).findings("stack.input_wait");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_TRUE(found[0].impact.at_most);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 0.4 * 240, 2);
  EXPECT_NE(found[0].sentence.find("waited for its next batch in 40 % of 240 samples (34 to 46 %), "),
            std::string::npos)
      << found[0].sentence;
  EXPECT_NE(found[0].sentence.find("mostly in train (train.py:40)."), std::string::npos) << found[0].sentence;
}

TEST(RuleStackInputWait, AsksForOneWorkerFewerThanTheRankHasCpus) {
  const auto advice = [](double cpus) {
    R node = training(24);
    node.gauge("job.cpus_allowed", "", R::always(cpus));
    return node.findings("stack.input_wait").at(0).remedy.advice.at(0);
  };
  EXPECT_NE(advice(8).find("num_workers=7,"), std::string::npos) << advice(8);
  EXPECT_NE(advice(1).find("num_workers=N,"), std::string::npos) << advice(1);
}

TEST(RuleStackInputWait, WeighsSamplesByTheirTime) {
  R node = training(15);  // a quarter of the time
  node.events.pop_back();
  samples(node, "rank0", 290, minute(15).substr(0, 50));
  for (const double until : {296.0, 300.0}) {  // all of ten seconds, read ten times a second
    node.events.push_back(
        {static_cast<std::int64_t>(until * 1e9), "rank0", "python_frames",
         "100ms " + std::string(until == 296.0 ? 60 : 40, 'w') + " w=train(train.py:40)>select(selectors.py:416)"});
  }
  const auto found = node.findings("stack.input_wait");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("waited for its next batch in 28 % of 240 samples"), std::string::npos)
      << found[0].sentence;
}

TEST(RuleStackInputWait, IsSilentOnWhatJobsDo) {
  EXPECT_TRUE(training(6).findings("stack.input_wait").empty()) << "little more than nothing";
  R starts = training(1);
  starts.events.erase(starts.events.begin());
  samples(starts, "rank0", 60, minute(60));
  EXPECT_TRUE(starts.findings("stack.input_wait").empty()) << "the start of the workers";
  R watcher = training(1);
  for (const double until : {120.0, 180.0, 240.0}) samples(watcher, "slot3", until, minute(60));
  EXPECT_TRUE(watcher.findings("stack.input_wait").empty()) << "a launcher that watches its ranks";
  R computes = training(1);
  for (const double until : {120.0, 180.0, 240.0}) {
    samples(computes, "rank0", until, minute(60), "train(train.py:40)>conv2d(functional.py:99)");
  }
  EXPECT_TRUE(computes.findings("stack.input_wait").empty()) << "it computes in a library";
  R few = training(0);
  few.events.clear();
  samples(few, "rank0", 120, "wwwwwwwwwwwwwwwwwwww");
  EXPECT_TRUE(few.findings("stack.input_wait").empty()) << "too few samples";
  R none(300);
  EXPECT_THROW(static_cast<void>(none.findings("stack.input_wait")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::stack_use_test
