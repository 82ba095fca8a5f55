// The answer of the worker, by the calls that it counted.
#include "core/stack/call_ledger.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/stack/call_counters.h"
#include "core/stack/elf_symbols.h"
#include "core/stack/stack_functions.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "tests/unit/core/toy_process.h"

namespace reveal::tests::call_ledger_test {
namespace {

using namespace toy;

TEST(Stack, NamesNoFunctionThatRests) {
  CallCounters* counters = nullptr;
  try {
    static CallCounters all(2 * stack_functions().size());
    counters = &all;
  } catch (const Unavailable& why) {
    GTEST_SKIP() << why.what();
  }
  CallLedger ledger(*counters, 4096);
  EXPECT_EQ(ledger.answer(), "functions\n");
  ledger.attached("rank0", step_function(), 0, false, read_clock(CLOCK_MONOTONIC));
  EXPECT_EQ(ledger.answer(), "functions torch.backward\n");
  ledger.failed(0, "Permission denied");
  const std::string first(stack_functions().front().name);
  EXPECT_EQ(ledger.answer(), "functions torch.backward\nnote " + first + " is not measured: Permission denied\n");
  ledger.ended("rank0");
  ledger.attached("rank0", step_function(), 1, false, read_clock(CLOCK_MONOTONIC));
  ledger.rest(step_function(), "it costs too much");
  EXPECT_TRUE(ledger.rests(step_function()));
  EXPECT_TRUE(ledger.answer().starts_with("functions\n"));
}

TEST(Stack, TellsForWhichProcessAttachingTookLongest) {
  try {
    CallCounters counters(stack_functions().size());
    CallLedger ledger(counters, 4096);
    ledger.attaching_took("rank0", 1, 200);
    ledger.attaching_took("rank1", 1, 300);
    ledger.attaching_took("rank0", 2, 500);
    ledger.attaching_took("rank1", 2, 400);
    EXPECT_EQ(ledger.answer(), "functions\nattaching rank0 2 500\n");
  } catch (const Unavailable& why) {
    GTEST_SKIP() << why.what();
  }
}

std::size_t number_of(std::string_view name) {
  const auto functions = stack_functions();
  const auto function =
      std::find_if(functions.begin(), functions.end(), [name](const StackFunction& each) { return each.name == name; });
  return static_cast<std::size_t>(function - functions.begin());
}

/// A process of which some functions are counted, for "rank0".
class Counted {
 public:
  explicit Counted(const ToyProcess& process)
      : toy(process), counters(stack_functions().size()), ledger(counters, 4096) {}

  /// `steps`: made before the ledger hears that the function is attached.
  void attach(const char* library, std::string_view name, int steps = 0) {
    const Descriptor file(::open((std::string(STACK_DOUBLES) + '/' + library).c_str(), O_RDONLY | O_CLOEXEC));
    const StackFunction& function = stack_functions()[number_of(name)];
    const FoundFunctions found = find_functions(reader_of(file.get()), std::span(function.symbols).first(1));
    const CallCounters::Point point{.offset = found.offsets.at(0), .index = number_of(name)};
    const CallShape shape = shape_of(function, true);
    CallCounters::Attached attached = counters.attach(file.get(), toy.pid(), shape, std::span(&point, 1));
    ASSERT_EQ(attached.error, 0);
    links_[number_of(name)] = std::move(attached.links);
    make_steps(steps);
    ledger.attached("rank0", number_of(name), 0, shape.timed, attached.since_ns);
  }
  /// `steps`: made before the function is detached.
  void rest(std::string_view name, int steps = 0) {
    ledger.rest(number_of(name), "it costs too much");
    make_steps(steps);
    links_.erase(number_of(name));
    counters.forget_calls(number_of(name));
  }
  void make_steps(int steps) {
    for (int step = 0; step < steps; ++step) {
      EXPECT_EQ(toy.ask({.call = Call::step}) + toy.ask({.call = Call::reduce}), 0);
    }
  }

  const ToyProcess& toy;
  CallCounters counters;
  CallLedger ledger;

 private:
  std::map<std::size_t, CallLinks> links_;
};

#define COUNT_OR_SKIP(counted, toy)                                          \
  ASSERT_EQ((toy).ask({.call = Call::load}), 0);                             \
  if (is_filtered()) GTEST_SKIP() << "the test runs under a seccomp filter"; \
  std::optional<Counted> counted;                                            \
  try {                                                                      \
    counted.emplace(toy);                                                    \
  } catch (const Unavailable& why) {                                         \
    GTEST_SKIP() << why.what();                                              \
  }

/// "2000", or "-" where they are not known.
std::vector<std::string> bytes_of_steps(const std::string& answer) {
  constexpr int kBefore = 6;  // "step rank0 NUMBER BEGIN DURATION WAITING"
  std::vector<std::string> bytes;
  std::string_view rest = answer;
  std::string_view line;
  while (next_line(rest, line)) {
    if (!line.starts_with("step rank0 ")) continue;
    for (int i = 0; i < kBefore; ++i) static_cast<void>(next_word(line));
    bytes.emplace_back(next_word(line));
    EXPECT_EQ(next_word(line), "-") << "there is no Python in it that collects garbage";
  }
  return bytes;
}

/// The rest of the first line that begins so; "" without one.
std::string behind(const std::string& answer, const std::string& begin) {
  const std::size_t at = answer.find('\n' + begin);
  if (at == std::string::npos) return "";
  const std::size_t from = at + 1 + begin.size();
  return answer.substr(from, answer.find('\n', from) - from);
}

// The kernel's arithmetic, by the duration of each call as the kernel measured it.
TEST(Stack, CountsEachCallByItsDuration) {
  constexpr std::uintptr_t kSleeps[] = {1, 1, 100'000, 2'000'000, 20'000'000, 40'000'000};  // ns
  const ToyProcess toy;
  COUNT_OR_SKIP(counted, toy);
  counted->attach("libnccl.so.2", "ncclAllReduce");
  EXPECT_EQ(behind(counted->ledger.answer(CallLedger::With::durations), "durations "), "") << "none so far";
  std::map<int, int> expected;
  std::uint64_t before = 0;
  for (const std::uintptr_t sleep : kSleeps) {
    EXPECT_EQ(toy.ask({.call = Call::reduce_on, .communicator = sleep}), 0);
    const std::uint64_t time = counted->counters.take(number_of("ncclAllReduce")).time_ns;
    const std::uint64_t duration = time - std::exchange(before, time);
    EXPECT_GE(duration, sleep);
    ++expected[std::clamp(static_cast<int>(std::bit_width(duration)), 10, 41)];
  }
  std::string words;
  for (const auto& [bits, calls] : expected) words += ' ' + std::to_string(bits) + ':' + std::to_string(calls);
  const auto told = [&] {
    return behind(counted->ledger.answer(CallLedger::With::durations), "durations rank0 ncclAllReduce");
  };
  EXPECT_EQ(told(), words);
  EXPECT_EQ(behind(counted->ledger.answer(), "durations "), "") << "nobody asked";
  counted->rest("ncclAllReduce");
  EXPECT_EQ(told(), words) << "it has been counted so far";
  counted->ledger.ended("rank0");
  EXPECT_EQ(told(), words) << "its process has";
}

TEST(Stack, TellsWhenCommunicatorsBeginAndEnd) {
  const ToyProcess toy;
  COUNT_OR_SKIP(counted, toy);
  counted->attach("libnccl.so.2", "ncclCommInitRank");
  counted->attach("libnccl.so.2", "ncclCommDestroy");
  const auto begin = static_cast<std::uint64_t>(read_clock(CLOCK_MONOTONIC));
  EXPECT_EQ(toy.ask({.call = Call::make_communicator, .communicator = 7, .rank = 2, .ranks = 4, .id = 1}), 0);
  EXPECT_EQ(toy.ask({.call = Call::make_communicator, .communicator = 0, .ranks = -1}), 4) << "it fails";
  const std::string id = std::to_string(counted->counters.communicators(0).at(0).id);
  EXPECT_EQ(toy.ask({.call = Call::end_communicator, .communicator = 7}), 0);
  EXPECT_EQ(toy.ask({.call = Call::end_communicator, .communicator = 7}), 0) << "it is not there any more";
  const auto end = static_cast<std::uint64_t>(read_clock(CLOCK_MONOTONIC));
  const std::string answer = counted->ledger.answer();
  std::uint64_t last = begin;
  for (const char* const code : {"communicator_begin", "communicator_end"}) {
    const std::string text = behind(answer, std::string("rare rank0 ") + code + " at=");
    const std::size_t blank = std::min(text.find(' '), text.size());
    EXPECT_EQ(text.substr(blank), " ranks=4 rank=2 id=" + id) << answer;
    const auto at = std::strtoull(text.c_str(), nullptr, 10);
    EXPECT_GT(at, last);
    last = at;
  }
  EXPECT_LT(last, end);
  EXPECT_EQ(answer.find("rare", answer.find("communicator_end")), std::string::npos) << answer;
  EXPECT_EQ(counted->ledger.answer().find("rare"), std::string::npos) << "they were told";
}

TEST(Stack, CountsTheEventsForWhichThereIsNoRoom) {
  constexpr int kMade = 100;
  const ToyProcess toy;
  COUNT_OR_SKIP(counted, toy);
  counted->attach("libnccl.so.2", "ncclCommInitRank");
  EXPECT_EQ(toy.ask({.call = Call::make_communicator, .times = kMade, .communicator = 7, .ranks = 4, .id = 1}), 0);
  static_cast<void>(counted->ledger.answer());
  const std::string note = behind(counted->ledger.answer(), "note ");
  EXPECT_EQ(note, "36 garbage collections or communicators have no event: there are too many");
}

// A step that began before all was attached has waited longer than was measured.
TEST(Stack, DoesNotGuessTheSumsOfStepsThatWereCountedInPart) {
  const ToyProcess toy;
  COUNT_OR_SKIP(counted, toy);
  counted->attach("libtorch_cpu.so", "torch.backward");
  counted->attach("libnccl.so.2", "ncclAllReduce");
  counted->ledger.delay("rank0", true);
  counted->make_steps(2);
  EXPECT_NE(counted->ledger.answer().find("note not all functions are attached yet"), std::string::npos);
  counted->make_steps(1);
  counted->ledger.delay("rank0", false);
  counted->make_steps(2);
  const std::string answer = counted->ledger.answer();
  EXPECT_EQ(answer.find("not all functions"), std::string::npos) << answer;
  EXPECT_EQ(bytes_of_steps(answer), (std::vector<std::string>{"-", "-", "2000"})) << answer;  // 2 and 3 of steps 1 to 4
}

TEST(Stack, KnowsNoSumsOfStepsWithoutAFunctionThatIsLeftOut) {
  const ToyProcess toy;
  COUNT_OR_SKIP(counted, toy);
  const std::size_t left_out = number_of("ncclReduce");
  counted->ledger.leave_out(std::span(&left_out, 1));
  counted->attach("libtorch_cpu.so", "torch.backward");
  counted->attach("libnccl.so.2", "ncclAllReduce");
  counted->make_steps(3);
  const std::string answer = counted->ledger.answer();
  EXPECT_NE(answer.find("note never counted, by stack_without: ncclReduce\n"), std::string::npos) << answer;
  EXPECT_EQ(bytes_of_steps(answer), (std::vector<std::string>{"-", "-"})) << answer;
}

TEST(Stack, KnowsNoSumsOfStepsInWhichAFunctionRested) {
  const ToyProcess toy;
  COUNT_OR_SKIP(counted, toy);
  counted->attach("libtorch_cpu.so", "torch.backward");
  counted->attach("libnccl.so.2", "ncclAllReduce");
  counted->make_steps(2);
  counted->rest("ncclAllReduce");
  counted->make_steps(2);
  const std::string resting = counted->ledger.answer();
  EXPECT_TRUE(resting.starts_with("functions torch.backward\nnote ncclAllReduce was counted in turns, ")) << resting;
  EXPECT_NE(resting.find(" % of the time: it costs too much\n"), std::string::npos) << resting;
  EXPECT_NE(resting.find("steps rank0 4\n"), std::string::npos) << resting;
  EXPECT_EQ(resting.find("count rank0 ncclAllReduce"), std::string::npos) << resting;
  EXPECT_EQ(bytes_of_steps(resting), (std::vector<std::string>{"2000", "-", "-"})) << resting;
  counted->ledger.resume(number_of("ncclAllReduce"));
  EXPECT_EQ(counted->ledger.answer().find("count rank0 ncclAllReduce"), std::string::npos) << "it is not attached yet";
  counted->attach("libnccl.so.2", "ncclAllReduce");
  counted->make_steps(2);
  const std::string again = counted->ledger.answer();
  EXPECT_NE(again.find("count rank0 ncclAllReduce 4 8000 "), std::string::npos) << again;
  EXPECT_EQ(bytes_of_steps(again), (std::vector<std::string>{"-", "2000"})) << again;
}

/// "5", "6 without a duration": the numbers of the steps that were told.
std::vector<std::string> numbers_of_steps(const std::string& answer) {
  std::vector<std::string> steps;
  std::string_view rest = answer;
  std::string_view line;
  while (next_line(rest, line)) {
    if (!line.starts_with("step rank0 ")) continue;
    line.remove_prefix(std::string_view("step rank0 ").size());
    const std::string number(next_word(line));
    static_cast<void>(next_word(line));
    steps.push_back(number + (next_word(line) == "-" ? " without a duration" : ""));
  }
  return steps;
}

TEST(Stack, TakesNoRestOfTheClockForALongStep) {
  const ToyProcess toy;
  COUNT_OR_SKIP(counted, toy);
  counted->attach("libtorch_cpu.so", "torch.backward");
  counted->make_steps(2);
  counted->rest("torch.backward", 2);
  counted->make_steps(3);
  counted->ledger.resume(step_function());
  counted->attach("libtorch_cpu.so", "torch.backward");
  counted->make_steps(2);
  const std::string answer = counted->ledger.answer();
  EXPECT_EQ(numbers_of_steps(answer), (std::vector<std::string>{"1", "2 without a duration", "5"})) << answer;
}

// It hears of all functions of a library together.
TEST(Stack, ListsTheStepsSinceTheirClockWasAttachedThoughItHearsOfThatLater) {
  const ToyProcess toy;
  COUNT_OR_SKIP(counted, toy);
  counted->attach("libtorch_cpu.so", "torch.backward");
  counted->make_steps(1);
  counted->rest("torch.backward", 1);
  counted->ledger.resume(step_function());
  counted->attach("libtorch_cpu.so", "torch.backward", 2);
  counted->make_steps(1);
  const std::string answer = counted->ledger.answer();
  EXPECT_EQ(numbers_of_steps(answer), (std::vector<std::string>{"1 without a duration", "3", "4"})) << answer;
}

TEST(Stack, ForgetsTheCallsThatWereUnderWayWhenAFunctionBeganToRest) {
  constexpr auto kTogether = static_cast<std::uint64_t>(10 * kPause);
  const ToyProcess toy;
  COUNT_OR_SKIP(counted, toy);
  counted->attach("libtorch_cpu.so", "c10d.work");
  std::thread caller([&toy] { static_cast<void>(toy.ask({.call = Call::work_side_by_side})); });
  for (int i = 0; i < 1000 && counted->counters.pending().empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_FALSE(counted->counters.pending().empty());
  counted->rest("c10d.work");
  EXPECT_TRUE(counted->counters.pending().empty());
  caller.join();
  const std::uint64_t before = counted->counters.communication_ns(0);
  std::this_thread::sleep_for(std::chrono::nanoseconds(2 * kTogether));
  counted->ledger.resume(number_of("c10d.work"));
  counted->attach("libtorch_cpu.so", "c10d.work");
  EXPECT_EQ(toy.ask({.call = Call::work_side_by_side}), 0);
  const std::uint64_t together = counted->counters.communication_ns(0) - before;
  EXPECT_GE(together, kTogether);
  EXPECT_LT(together, 2 * kTogether) << "the rest is no communication";
}

// Without a row before, the time of the first calls would not be known.
TEST(Stack, TellsTheSumsOfAFunctionOnceBeforeItIsCountedAgain) {
  const ToyProcess toy;
  COUNT_OR_SKIP(counted, toy);
  const auto line = [&] {
    const std::string answer = counted->ledger.answer();
    const std::size_t begin = answer.find("count rank0 ncclAllReduce ");
    return begin == std::string::npos ? "" : answer.substr(begin, answer.find('\n', begin) - begin);
  };
  counted->attach("libnccl.so.2", "ncclAllReduce");
  EXPECT_EQ(toy.ask({.call = Call::reduce, .times = 3}), 0);
  counted->rest("ncclAllReduce");
  EXPECT_EQ(line(), "");
  const std::array<std::size_t, 1> due = {number_of("ncclAllReduce")};
  counted->ledger.announce(due);
  EXPECT_FALSE(counted->ledger.is_told(due[0]));
  const std::string announced = line();
  EXPECT_TRUE(counted->ledger.is_told(due[0]));
  EXPECT_TRUE(announced.starts_with("count rank0 ncclAllReduce 3 ")) << announced;
  EXPECT_NE(announced.find(" - - 0 0"), std::string::npos) << "its longest call is none of this time: " << announced;
  EXPECT_EQ(line(), "");
  EXPECT_FALSE(counted->ledger.is_told(due[0])) << "not by the newest answer";
  counted->ledger.announce(due);
  EXPECT_EQ(line(), announced) << "it was not attached in time";
  EXPECT_TRUE(counted->ledger.is_told(due[0]));
  counted->ledger.resume(due[0]);
  EXPECT_FALSE(counted->ledger.is_told(due[0])) << "its next rest begins anew";
  EXPECT_EQ(line(), "") << "it is not attached yet";
  counted->attach("libnccl.so.2", "ncclAllReduce");
  EXPECT_EQ(toy.ask({.call = Call::reduce, .times = 2}), 0);
  EXPECT_TRUE(line().starts_with("count rank0 ncclAllReduce 5 "));
}

TEST(Stack, TellsNoCollectivesOfAProcessWhileTheirFunctionRests) {
  const ToyProcess toy;
  COUNT_OR_SKIP(counted, toy);
  counted->attach("libnccl.so.2", "ncclAllReduce");
  EXPECT_EQ(toy.ask({.call = Call::reduce_on, .times = 3, .communicator = 7}), 0);
  counted->rest("ncclAllReduce");
  std::this_thread::sleep_for(std::chrono::milliseconds(3100));
  EXPECT_EQ(counted->ledger.answer().find("standing"), std::string::npos) << "others may have been made";
  counted->ledger.resume(number_of("ncclAllReduce"));
  counted->attach("libnccl.so.2", "ncclAllReduce");
  EXPECT_EQ(counted->ledger.answer().find("standing"), std::string::npos) << "also before it was attached again";
  EXPECT_EQ(toy.ask({.call = Call::reduce_on, .communicator = 7}), 0);
  EXPECT_EQ(counted->ledger.answer().find("standing"), std::string::npos);
  std::this_thread::sleep_for(std::chrono::milliseconds(3100));
  EXPECT_NE(counted->ledger.answer().find("standing rank0 comm=0 calls=4 "), std::string::npos);
}

}  // namespace
}  // namespace reveal::tests::call_ledger_test
