// Training steps: when each began, what it waited, and which of them are missing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/job/process_stat.h"
#include "core/stack/stack_functions.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/trace_reader.h"
#include "tests/unit/core/python_process.h"
#include "tests/unit/core/toy_process.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::stack_steps_test {
namespace {

using namespace toy;

std::vector<TrainingStep> steps_in(const std::filesystem::path& trace) {
  return TraceReader(trace).steps();
}

TraceHeader header_of_steps() {
  return {.node = "n01", .tool_version = "test", .interval = std::chrono::seconds(1)};
}

TEST(Stack, TellsWhenEveryStepBeganAndWhatItWaited) {
  constexpr int kWaited = 10;
  constexpr int kWithin = 5;
  const TemporaryDirectory directory;
  TraceWriter trace(directory.path() / "t.h5", header_of_steps());
  std::vector<std::int64_t> before;
  {
    const ToyProcess toy;
    StackBench bench(toy.pid(), &trace);
    SKIP_WITHOUT_BPF(bench);
    trace.start();
    ASSERT_EQ(toy.ask({.call = Call::load}), 0);
    ASSERT_TRUE(bench.attached(toy, "torch.backward") && bench.attached(toy, "ncclAllReduce"));
    for (int step = 0; step < kWaited; ++step) {
      before.push_back(read_clock(CLOCK_MONOTONIC));
      EXPECT_EQ(toy.ask({.call = Call::step}), 0);
      EXPECT_EQ(toy.ask({.call = Call::step_within, .times = kWithin}), 0);  // parts of it
      EXPECT_EQ(toy.ask({.call = Call::pause}), 0);
    }
    EXPECT_EQ(toy.ask({.call = Call::step}), 0);
    before.push_back(read_clock(CLOCK_MONOTONIC));
    ASSERT_TRUE(bench.steps(kWaited + 1)) << bench.coverage().reason;
    EXPECT_EQ(bench.value_of("stack.steps"), kWaited + 1);
    EXPECT_EQ(bench.value("stack.calls", "torch.backward"), kWaited + 1);
    EXPECT_EQ(bench.coverage().reason, "");
    trace.close();
  }
  const std::vector<TrainingStep> steps = steps_in(directory.path() / "t.h5");
  ASSERT_EQ(steps.size(), static_cast<std::size_t>(kWaited));  // without the one under way
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].rank, "rank0");
    EXPECT_EQ(steps[i].number, static_cast<std::int64_t>(i) + 1);
    EXPECT_GT(steps[i].begin_ns, before[i]);
    EXPECT_LT(steps[i].begin_ns, before[i + 1]);
    EXPECT_EQ(steps[i].bytes, 2 * static_cast<std::int64_t>(kElements)) << i;
    const std::int64_t end = steps[i].begin_ns + steps[i].duration_ns;
    EXPECT_TRUE(i + 1 == steps.size() || end == steps[i + 1].begin_ns) << i;
    EXPECT_GE(steps[i].duration_ns, steps[i].waiting_ns);
    EXPECT_GE(steps[i].waiting_ns, kPause) << i;
  }
}

TEST(Stack, KnowsTheGarbageCollectionsOfEachStep) {
  const std::string backward(stack_functions()[step_function()].symbols[0]);
  const TemporaryDirectory directory;
  TraceWriter trace(directory.path() / "t.h5", header_of_steps());
  std::int64_t collected = 0;
  {
    const PythonProcess python(
        "import ctypes, gc, signal\n"
        "gc.disable()\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGUSR2])\n"
        "kept = [[i] for i in range(300000)]\n"
        "step = getattr(ctypes.CDLL('" +
        std::string(STACK_DOUBLES) + "/libtorch_cpu.so'), '" + backward +
        "')\n"
        "print('ready')\n"
        "signal.sigwait([signal.SIGUSR1])\n"
        "for i in range(5):\n"
        "    step()\n"
        "    if i % 2 == 0: gc.collect()\n"
        "step()\n"
        "signal.sigwait([signal.SIGUSR2])\n");
    if (python.line() != "ready" || !has_marks(python)) GTEST_SKIP() << "no python3 with marks for tracing";
    StackBench bench(python.pid(), &trace);
    SKIP_WITHOUT_BPF(bench);
    trace.start();
    ASSERT_TRUE(bench.until([&] {
      const std::string functions = bench.fact("stack.functions");
      return functions.find("python.gc") != std::string::npos && functions.find("torch.backward") != std::string::npos;
    })) << bench.coverage().reason;
    ::kill(python.pid(), SIGUSR1);
    ASSERT_TRUE(bench.steps(6)) << bench.coverage().reason;
    ASSERT_TRUE(bench.until([&] { return bench.value("stack.calls", "python.gc") == 3; }));
    collected = bench.value("stack.time", "python.gc");
    trace.close();
  }
  std::vector<std::int64_t> parts;
  for (const TrainingStep& step : steps_in(directory.path() / "t.h5")) parts.push_back(step.gc_ns);
  ASSERT_EQ(parts.size(), 5U);  // without the one under way
  EXPECT_GT(parts[0], 0);
  EXPECT_EQ(parts[1], 0);
  EXPECT_GT(parts[2], 0);
  EXPECT_EQ(parts[3], 0);
  EXPECT_GT(parts[4], 0);
  EXPECT_EQ(parts[0] + parts[2] + parts[4], collected);
}

TEST(Stack, CountsTheStepsThatItHasNoRoomToList) {
  constexpr std::int64_t kSteps = 10'000;
  const TemporaryDirectory directory;
  TraceWriter trace(directory.path() / "t.h5", header_of_steps());
  std::size_t told = 0;
  {
    const ToyProcess toy;
    StackBench bench(toy.pid(), &trace);
    SKIP_WITHOUT_BPF(bench);
    trace.start();
    ASSERT_EQ(toy.ask({.call = Call::load}), 0);
    ASSERT_TRUE(bench.attached(toy, "torch.backward"));
    EXPECT_EQ(toy.ask({.call = Call::step, .times = kSteps}), 0);
    ASSERT_TRUE(bench.steps(kSteps)) << bench.coverage().reason;
    EXPECT_EQ(bench.value_of("stack.steps"), kSteps);
    const std::string note = bench.coverage().reason;
    EXPECT_NE(note.find(" steps are counted and not listed: they followed each other too fast"), std::string::npos)
        << note;
    told = static_cast<std::size_t>(std::atoll(note.c_str()));
    trace.close();
  }
  const std::vector<TrainingStep> steps = steps_in(directory.path() / "t.h5");
  ASSERT_FALSE(steps.empty());
  EXPECT_EQ(steps.size() + told + 1, static_cast<std::size_t>(kSteps));
  for (std::size_t i = 1; i < steps.size(); ++i) {
    const bool follows = steps[i].number == steps[i - 1].number + 1;
    EXPECT_GT(steps[i].number, steps[i - 1].number);
    EXPECT_EQ(steps[i - 1].duration_ns, follows ? steps[i].begin_ns - steps[i - 1].begin_ns : kMissing);
  }
}

/// A job of seventeen processes, as a collector recorded it, with the answers of the probe's child. Sixteen have a
/// place; the last one takes that of "slot1" once it works.
class CrowdedJob {
 public:
  static constexpr int kSeconds = 30;
  static constexpr int kBusyFrom = 12;  // it has its place within ten seconds

  /// `flags`: flags of all processes but the first, their parent, in the rows from `from` on, so many of them.
  /// `command`: name of the second one.
  explicit CrowdedJob(const std::function<std::string(int second)>& answer, std::int64_t flags = 0, int from = 0,
                      int rows = kSeconds, const char* command = "train")
      : flags_(flags), from_(from), rows_(rows), command_(command) {
    host_.process(kFirst, 1, "train", 0, 0);
    write_children(0);
    host_.last_pid(kLast);
    record(answer);
    KernelTree fs(host_.root() / "record");
    const std::filesystem::path path = host_.root() / "t.h5";
    TraceWriter trace(path, header_of_steps());
    TraceSink sink(&trace);
    Sampler sampler(fs, sink, {.probes = {"stack"}, .job = JobSource{.pid = kFirst}}, time_of(0));
    sampler.look_first();
    trace.start();
    while (const auto time = fs.next_tick()) {
      sampler.sample({.time = *time, .number = 0});
      const Family& histogram = *sink.find("stack/histogram");
      for (std::size_t i = 0; i < histogram.channels().size(); ++i) {
        if (histogram.row()[i] != kMissing) histogram_[histogram.channels()[i].get().instance] = histogram.row()[i];
      }
    }
    coverage_ = sampler.coverage().front();
    trace.close();
    events_ = TraceReader(path).events();
  }

  [[nodiscard]] const Coverage& coverage() const { return coverage_; }
  /// The last values of stack.histogram, by instance.
  [[nodiscard]] const std::map<std::string, std::int64_t>& histogram() const { return histogram_; }
  [[nodiscard]] std::vector<Event> events_of(std::string_view code) const {
    std::vector<Event> some;
    for (const Event& event : events_) {
      if (event.code == code) some.push_back(event);
    }
    return some;
  }
  [[nodiscard]] std::vector<std::string> why_steps_are_missing() const {
    std::vector<std::string> why;
    for (const Event& event : events_) {
      if (event.code == "steps_incomplete") why.push_back(event.text);
    }
    return why;
  }

 private:
  static constexpr int kFirst = 100;
  static constexpr int kLast = 116;

  void write_children(int second) const {
    const std::int64_t flags = second >= from_ && second < from_ + rows_ ? flags_ : 0;
    for (int pid = kFirst + 1; pid <= kLast; ++pid) {
      host_.process(pid, kFirst, pid == kFirst + 1 ? command_ : "train", pid == kLast && second >= kBusyFrom ? 5000 : 0,
                    0, 0, 100, flags);
    }
  }

  static TickTime time_of(int second) { return {(second + 1) * kSecond, (second + 1'700'000'000) * kSecond}; }

  void record(const std::function<std::string(int second)>& answer) {
    KernelTree fs(host_.root());
    fs.limit_kept_files(0);  // plain files are written anew
    fs.record_to(host_.root() / "record");
    static_cast<void>(fs.fact("@stack/open", [] { return std::string("ok recorded"); }));
    TraceSink sink;
    Sampler sampler(fs, sink, {.probes = {"process"}, .job = JobSource{.pid = kFirst}}, time_of(0));
    sampler.look_first();
    for (int second = 1; second <= kSeconds; ++second) {
      write_children(second);
      fs.mark_tick(time_of(second));
      sampler.sample({.time = time_of(second), .number = 0});
      static_cast<void>(fs.fact("@stack", [&] { return answer(second); }));
    }
    fs.end_recording();
  }

  TestHost host_;
  std::int64_t flags_;
  int from_, rows_;
  const char* command_;
  Coverage coverage_;
  std::vector<Event> events_;
  std::map<std::string, std::int64_t> histogram_;
};

constexpr const char* kClockOnly = "functions torch.backward\n";

TEST(StackOfACrowdedJob, MissesNoStepsOfAProcessThatKeepsItsPlace) {
  const CrowdedJob job([](int second) { return kClockOnly + ("steps rank0 " + std::to_string(second) + '\n'); });
  EXPECT_EQ(job.coverage().state, Coverage::State::ok) << job.coverage().reason;
  EXPECT_TRUE(job.why_steps_are_missing().empty());
}

TEST(StackOfACrowdedJob, SaysThatAProcessWithStepsLostItsPlace) {
  const CrowdedJob job([](int) { return kClockOnly + std::string("steps slot1 7\n"); });
  EXPECT_EQ(job.why_steps_are_missing(),
            std::vector<std::string>{"a process that made some lost its place to a busier one"});
}

TEST(StackOfACrowdedJob, SaysThatAProcessWithStepsWaitedForItsPlace) {
  const CrowdedJob job([](int second) { return kClockOnly + std::string(second < 25 ? "" : "steps slot1 3\n"); });
  EXPECT_EQ(job.why_steps_are_missing(),
            std::vector<std::string>{"a process waited for a place before its calls were counted"});
}

TEST(StackOfACrowdedJob, SaysThatItHasMoreFunctionsThanAreMeasured) {
  const auto counts = [](int functions) {
    return [functions](int) {
      std::string text = kClockOnly;
      for (int i = 0; i < functions; ++i) text += "count rank0 f" + std::to_string(i) + " 5\n";
      return text;
    };
  };
  EXPECT_EQ(CrowdedJob(counts(512)).coverage().reason, "");
  EXPECT_EQ(CrowdedJob(counts(513)).coverage().reason, "only the first 512 functions of processes are measured");
}

TEST(StackOfACrowdedJob, SaysThatTheJobsOwnProfilerKeptItFromCounting) {
  const auto steps = [](int second) { return kClockOnly + ("steps rank0 " + std::to_string(second) + '\n'); };
  const CrowdedJob job(steps, 0, 0, CrowdedJob::kSeconds, "perf");
  EXPECT_EQ(job.coverage().reason, "while the job's own profiler ran, no function was attached");
  EXPECT_EQ(job.why_steps_are_missing(), std::vector<std::string>{"the job's own profiler ran"});
}

/// The answer in which the parent of the others has made so many calls.
std::string calls_of_first(int calls) {
  return kClockOnly + ("count rank0 f " + std::to_string(calls) + '\n');
}

// They have copies of its breakpoints.
TEST(StackOfACrowdedJob, SaysThatForkedProcessesWithoutAPlaceAreInNoBudget) {
  EXPECT_EQ(
      CrowdedJob(calls_of_first, kForkedOnly).coverage().reason,
      "calls of processes that measured ones forked are in no count and not in the limit of .5 %: 1 at once had no "
      "place of their own");
  EXPECT_EQ(CrowdedJob(calls_of_first).coverage().reason, "") << "they execute a program of their own";
  const auto none = [](int) { return std::string(kClockOnly); };
  EXPECT_EQ(CrowdedJob(none, kForkedOnly).coverage().reason, "") << "their parent calls nothing that is counted";
  const auto earlier = [](int) { return calls_of_first(5); };
  EXPECT_EQ(CrowdedJob(earlier, kForkedOnly, 5).coverage().reason, "") << "by an earlier process in that place";
  const auto first = [](int second) { return second < 4 ? calls_of_first(second) : std::string(kClockOnly); };
  EXPECT_EQ(CrowdedJob(first, kForkedOnly, 5).coverage().reason, "") << "the function rests, so it has no breakpoint";
  EXPECT_EQ(CrowdedJob(calls_of_first, kForkedOnly, 5, 1).coverage().reason, "")
      << "it executes a program a moment later";
  EXPECT_NE(CrowdedJob(calls_of_first, kForkedOnly, 5, 2).coverage().reason, "");
}

TEST(StackOfACrowdedJob, KeepsTheNewestCollectivesOfEachRank) {
  const CrowdedJob job([](int second) {
    std::string answer = kClockOnly;
    for (int rank = 0; second == 5 && rank < 600; ++rank) {
      answer += "standing rank" + std::to_string(rank) + " comm=0 calls=3 begin=5 ncclAllReduce=8x3\n";
    }
    return answer;
  });
  EXPECT_EQ(job.events_of("last_collectives").size(), 600U);
}

TEST(StackOfACrowdedJob, CountsCallsByTheirDuration) {
  const CrowdedJob job([](int second) {
    return kClockOnly + ("durations rank0 ncclAllReduce 10:7 24:" + std::to_string(second < 9 ? 3 : 9) +
                         "\ndurations rank1 python.gc 41:1 9:5 42:5 24 :3 24: x:4\ndurations\ndurations rank2\n");
  });
  EXPECT_EQ(job.histogram(),
            (std::map<std::string, std::int64_t>{
                {"rank0/ncclAllReduce/2^10ns", 7}, {"rank0/ncclAllReduce/2^24ns", 9}, {"rank1/python.gc/2^41ns", 1}}));
}

TEST(StackOfACrowdedJob, HasEventsOfCommunicatorsAndCollections) {
  const CrowdedJob job([](int second) {
    std::string answer = kClockOnly;
    if (second == 5) answer += "rare rank0 gc_pause begin=5 duration=1000000\nrare rank1 communicator_end at=7 id=3\n";
    if (second == 6) answer += "rare\nrare rank0\nrare rank0 probe_lost x\n";
    return answer;
  });
  ASSERT_EQ(job.events_of("gc_pause").size(), 1U);
  EXPECT_EQ(job.events_of("gc_pause")[0].object, "rank0");
  EXPECT_EQ(job.events_of("gc_pause")[0].text, "begin=5 duration=1000000");
  ASSERT_EQ(job.events_of("communicator_end").size(), 1U);
  EXPECT_EQ(job.events_of("communicator_end")[0].object, "rank1");
  EXPECT_EQ(job.events_of("communicator_end")[0].text, "at=7 id=3");
  EXPECT_TRUE(job.events_of("probe_lost").empty()) << "no answer makes any other event";
}

TEST(StackOfACrowdedJob, KeepsTheNewestCollectivesOfARankThatStandsStill) {
  const CrowdedJob job([](int second) {
    return kClockOnly + std::string(second == 5 ? "standing rank0 comm=0 calls=3 begin=5 ncclAllReduce=8x3\n" : "") +
           (second == 6 ? "standing\nstanding rank0\nstanding rank0 \n" : "");
  });
  const std::vector<Event> events = job.events_of("last_collectives");
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].object, "rank0");
  EXPECT_EQ(events[0].text, "comm=0 calls=3 begin=5 ncclAllReduce=8x3");
}

TEST(Stack, SaysThatStepsWereMissedSinceTheirCountingRested) {
  const TemporaryDirectory directory;
  TraceWriter trace(directory.path() / "t.h5", header_of_steps());
  {
    const ToyProcess toy;
    StackBench bench(toy.pid(), &trace);
    SKIP_WITHOUT_BPF(bench);
    trace.start();
    ASSERT_EQ(toy.ask({.call = Call::load}), 0);
    ASSERT_TRUE(bench.attached(toy, "torch.backward"));
    EXPECT_EQ(toy.ask({.call = Call::step, .times = 5}), 0);
    ASSERT_TRUE(bench.steps(5));
    EXPECT_EQ(toy.ask({.call = Call::step, .times = 300'000}), 0);
    ASSERT_TRUE(bench.until([&] {
      return bench.coverage().reason.find("torch.backward was counted in turns, ") != std::string::npos;
    })) << bench.coverage().reason;
    bench.sample();
    trace.close();
  }
  const std::vector<Event> events = TraceReader(directory.path() / "t.h5").events();
  EXPECT_TRUE(std::any_of(events.begin(), events.end(), [](const Event& event) {
    return event.object == "probe stack" && event.code == "steps_incomplete";
  }));
  std::vector<std::string> turns;
  for (const Event& event : events) {
    if (event.object == "torch.backward") turns.push_back(event.code);
  }
  ASSERT_GE(turns.size(), 2U);
  EXPECT_EQ(turns[0], "function_counted");
  EXPECT_EQ(turns[1], "function_rests");
}

}  // namespace
}  // namespace reveal::tests::stack_steps_test
