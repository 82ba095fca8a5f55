// Collectives by communicator, as the kernel records them in processes with exactly known calls. Without the privilege
// for BPF these tests are skipped.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/stack/call_counters.h"
#include "core/stack/call_ledger.h"
#include "core/stack/elf_symbols.h"
#include "core/stack/stack_functions.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "tests/unit/core/toy_process.h"

namespace reveal::tests::communicators_test {
namespace {

using namespace toy;
using Communicator = CallCounters::Communicator;

constexpr int kProcesses = 2;

std::size_t number_of(std::string_view name) {
  const auto functions = stack_functions();
  const auto function =
      std::find_if(functions.begin(), functions.end(), [name](const auto& each) { return each.name == name; });
  return static_cast<std::size_t>(function - functions.begin());
}

/// Counters that are attached to functions of toys.
class Attached {
 public:
  Attached() : counters(kProcesses * stack_functions().size()) {}

  /// `called`: the function that is there in its place; "": itself.
  void attach(const ToyProcess& toy, const char* library, std::string_view name, std::size_t process = 0,
              std::string_view called = {}) {
    const Descriptor file(::open((std::string(STACK_DOUBLES) + '/' + library).c_str(), O_RDONLY | O_CLOEXEC));
    const StackFunction& function = stack_functions()[number_of(name)];
    const StackFunction& there = called.empty() ? function : stack_functions()[number_of(called)];
    const FoundFunctions found = find_functions(reader_of(file.get()), std::span(there.symbols).first(1));
    const CallCounters::Point point{.offset = found.offsets.at(0),
                                    .index = process * stack_functions().size() + number_of(name)};
    CallCounters::Attached attached =
        counters.attach(file.get(), toy.pid(), shape_of(function, true), std::span(&point, 1));
    ASSERT_EQ(attached.error, 0) << name;
    links_.add(std::move(attached.links));
  }
  void attach_nccl(const ToyProcess& toy, std::size_t process = 0) {
    for (const char* name : {"ncclAllReduce", "ncclReduce", "ncclCommInitRank", "ncclCommDestroy"}) {
      attach(toy, "libnccl.so.2", name, process);
    }
  }

  CallCounters counters;

 private:
  CallLinks links_;
};

#define ATTACH_OR_SKIP(attached)                                             \
  if (is_filtered()) GTEST_SKIP() << "the test runs under a seccomp filter"; \
  std::optional<Attached> attached;                                          \
  try {                                                                      \
    attached.emplace();                                                      \
  } catch (const Unavailable& why) {                                         \
    GTEST_SKIP() << why.what();                                              \
  }

/// "ncclAllReduce=2000,ncclReduce=-": the newest first.
std::string words_of(const Communicator& one) {
  std::string text;
  for (const Communicator::Call& call : one.newest) {
    text += (text.empty() ? "" : ",") + std::string(stack_functions()[call.function].name) + '=' +
            (call.bytes ? std::to_string(*call.bytes) : "-");
  }
  return text;
}

TEST(Communicators, HaveTheirNewestCallsAndTheirRanks) {
  const ToyProcess toy;
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ATTACH_OR_SKIP(attached);
  attached->attach_nccl(toy);
  const auto before = static_cast<std::uint64_t>(read_clock(CLOCK_MONOTONIC));
  EXPECT_EQ(toy.ask({.call = Call::make_communicator, .communicator = 7, .rank = 2, .ranks = 4, .id = 1}), 0);
  EXPECT_EQ(toy.ask({.call = Call::reduce_on, .times = 2, .communicator = 7}), 0);
  EXPECT_EQ(toy.ask({.call = Call::reduce_on, .type = 12, .communicator = 7}), 0);  // its size is not known
  EXPECT_EQ(toy.ask({.call = Call::reduce_to_one, .elements = 10, .communicator = 7}), 0);
  EXPECT_EQ(toy.ask({.call = Call::reduce_on, .times = 20, .elements = 30, .communicator = 9}), 0);
  const auto all = attached->counters.communicators(0);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].order, 0U);
  EXPECT_EQ(all[0].ranks, 4U);
  EXPECT_EQ(all[0].rank, 2U);
  EXPECT_NE(all[0].id, 0U);
  EXPECT_EQ(all[0].calls, 4U);
  EXPECT_EQ(words_of(all[0]), "ncclReduce=20,ncclAllReduce=-,ncclAllReduce=2000,ncclAllReduce=2000");
  EXPECT_GT(all[0].begin_ns, before);
  EXPECT_EQ(all[1].order, 1U);
  EXPECT_EQ(all[1].ranks, 0U) << "nobody knows";
  EXPECT_EQ(all[1].id, 0U);
  EXPECT_EQ(all[1].calls, 20U);
  EXPECT_EQ(all[1].newest.size(), 16U);
  EXPECT_GT(all[1].begin_ns, all[0].begin_ns);
  EXPECT_TRUE(attached->counters.communicators(1).empty());
}

TEST(Communicators, HaveTheSameIdInAllProcesses) {
  const ToyProcess one;
  const ToyProcess other;
  ASSERT_EQ(one.ask({.call = Call::load}) + other.ask({.call = Call::load}), 0);
  ATTACH_OR_SKIP(attached);
  attached->attach_nccl(one, 0);
  attached->attach_nccl(other, 1);
  constexpr unsigned char kIds[] = {1, 2};
  for (const unsigned char id : kIds) {
    const auto number = static_cast<std::uintptr_t>(20 + id);
    for (const ToyProcess* toy : {&one, &other}) {
      EXPECT_EQ(toy->ask({.call = Call::make_communicator, .communicator = number, .ranks = 2, .id = id}), 0);
    }
  }
  const auto of_one = attached->counters.communicators(0);
  const auto of_other = attached->counters.communicators(1);
  ASSERT_EQ(of_one.size(), 2U);
  ASSERT_EQ(of_other.size(), 2U);
  EXPECT_EQ(of_one[0].id, of_other[0].id);
  EXPECT_EQ(of_one[1].id, of_other[1].id);
  EXPECT_NE(of_one[0].id, of_one[1].id);
  EXPECT_EQ(of_one[0].calls, 0U);
  EXPECT_GT(of_one[0].begin_ns, 0U) << "a rank that never made a call is seen, too";
}

TEST(Communicators, BeginAnewWhereOneEnded) {
  const ToyProcess toy;
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ATTACH_OR_SKIP(attached);
  attached->attach_nccl(toy);
  EXPECT_EQ(toy.ask({.call = Call::make_communicator, .communicator = 7, .ranks = 4, .id = 1}), 0);
  EXPECT_EQ(toy.ask({.call = Call::reduce_on, .times = 5, .communicator = 7}), 0);
  EXPECT_EQ(toy.ask({.call = Call::end_communicator, .communicator = 7}), 0);
  EXPECT_TRUE(attached->counters.communicators(0).empty());
  EXPECT_EQ(toy.ask({.call = Call::reduce_on, .communicator = 7}), 0);  // made in a way that is not seen
  auto all = attached->counters.communicators(0);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].id, 0U);
  EXPECT_EQ(all[0].ranks, 0U);
  EXPECT_EQ(all[0].calls, 1U);
  EXPECT_EQ(toy.ask({.call = Call::make_communicator, .communicator = 7, .ranks = 2, .id = 3}), 0);
  all = attached->counters.communicators(0);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].ranks, 2U);
  EXPECT_EQ(all[0].calls, 0U);
  EXPECT_NE(all[0].id, 0U);
  EXPECT_EQ(toy.ask({.call = Call::make_communicator, .communicator = 0, .ranks = -1}), 4) << "it fails";
  EXPECT_EQ(attached->counters.communicators(0).size(), 1U);
  attached->counters.reset(0, stack_functions().size());
  EXPECT_TRUE(attached->counters.communicators(0).empty());
}

TEST(Communicators, AreCountedOnceByThreadsThatBeginTogether) {
  const ToyProcess toy;
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ATTACH_OR_SKIP(attached);
  attached->attach_nccl(toy);
  for (std::uintptr_t number = 1; number <= 20; ++number) {
    EXPECT_EQ(toy.ask({.call = Call::reduce_on_by_threads, .times = 5, .communicator = number}), 0);
  }
  const auto all = attached->counters.communicators(0);
  ASSERT_EQ(all.size(), 20U);
  for (const Communicator& one : all) EXPECT_EQ(one.calls, 40U) << one.order;
}

TEST(Communicators, AreLeftOutWhereThereAreTooMany) {
  const ToyProcess toy;
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ATTACH_OR_SKIP(attached);
  attached->attach_nccl(toy);
  for (std::uintptr_t number = 1; number <= 32; ++number) {
    EXPECT_EQ(toy.ask({.call = Call::reduce_on, .communicator = number}), 0);
  }
  EXPECT_EQ(toy.ask({.call = Call::end_communicator, .communicator = 50}), 0);
  EXPECT_EQ(attached->counters.communicators(0).size(), 32U);
  EXPECT_EQ(toy.ask({.call = Call::reduce_on, .communicator = 33}), 0);
  EXPECT_TRUE(attached->counters.communicators(0).empty()) << "which of them is called is not known";
  EXPECT_EQ(attached->counters.calls(number_of("ncclAllReduce")), 33U);
}

TEST(Communicators, TakeThePlacesOfThoseThatHaveEnded) {
  const ToyProcess toy;
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ATTACH_OR_SKIP(attached);
  attached->attach_nccl(toy);
  EXPECT_EQ(toy.ask({.call = Call::reduce_on, .times = 3, .communicator = 60}), 0);
  for (std::uintptr_t number = 1; number <= 40; ++number) {
    EXPECT_EQ(toy.ask({.call = Call::make_communicator, .communicator = number, .ranks = 4, .id = 1}), 0);
    EXPECT_EQ(toy.ask({.call = Call::reduce_on, .times = 2, .communicator = number}), 0);
    EXPECT_EQ(toy.ask({.call = Call::end_communicator, .communicator = number}), 0);
    EXPECT_EQ(toy.ask({.call = Call::end_communicator, .communicator = number + 100}), 0) << "not known";
  }
  EXPECT_EQ(toy.ask({.call = Call::reduce_on, .communicator = 61}), 0);
  EXPECT_EQ(toy.ask({.call = Call::end_communicator, .communicator = 60}), 0);
  EXPECT_EQ(toy.ask({.call = Call::reduce_on, .communicator = 61}), 0);
  const auto all = attached->counters.communicators(0);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].order, 1U);
  EXPECT_EQ(all[0].id, 0U);
  EXPECT_EQ(all[0].ranks, 0U);
  EXPECT_EQ(words_of(all[0]), "ncclAllReduce=2000,ncclAllReduce=2000") << "found behind a free place";
}

TEST(Communicators, OfGlooTellTheirRanks) {
  const ToyProcess toy;
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ATTACH_OR_SKIP(attached);
  attached->attach(toy, "libgloo.so.0", "gloo.allreduce");
  EXPECT_EQ(toy.ask({.call = Call::gloo_on, .times = 3, .elements = 5, .rank = 6, .ranks = 8}), 0);
  auto all = attached->counters.communicators(0);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].ranks, 8U);
  EXPECT_EQ(all[0].rank, 6U);
  EXPECT_EQ(all[0].calls, 3U);
  EXPECT_EQ(words_of(all[0]), "gloo.allreduce=20,gloo.allreduce=20,gloo.allreduce=20");
  EXPECT_EQ(toy.ask({.call = Call::gloo_on, .times = 2, .rank = 1, .ranks = 4}), 0);
  all = attached->counters.communicators(0);
  ASSERT_EQ(all.size(), 1U) << "another context has the same address";
  EXPECT_EQ(all[0].ranks, 4U);
  EXPECT_EQ(all[0].rank, 1U);
  EXPECT_EQ(all[0].calls, 2U);
  // An address that cannot be read, as of another version, has no ranks; nor has one with numbers that cannot be right.
  EXPECT_EQ(toy.ask({.call = Call::gloo_on, .communicator = 16}), 0);
  all = attached->counters.communicators(0);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[1].ranks, 0U);
  attached->counters.reset(0, stack_functions().size());
  EXPECT_EQ(toy.ask({.call = Call::gloo_on, .rank = 9, .ranks = 8}), 0);
  all = attached->counters.communicators(0);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].ranks, 0U);
}

TEST(Communicators, KnowNoSizeOfACallWhoseOptionsDoNotHaveIt) {
  const ToyProcess toy;
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ATTACH_OR_SKIP(attached);
  attached->attach(toy, "libgloo.so.0", "gloo.allgather", 0, "gloo.allreduce");
  EXPECT_EQ(toy.ask({.call = Call::gloo_on, .times = 2, .elements = 5, .rank = 6, .ranks = 8}), 0);
  const auto all = attached->counters.communicators(0);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].ranks, 8U);
  EXPECT_EQ(words_of(all[0]), "gloo.allgather=-,gloo.allgather=-");
  const CallCounts counts = attached->counters.take(number_of("gloo.allgather"));
  EXPECT_EQ(counts.calls, 2U);
  EXPECT_EQ(counts.unsized, 2U);
  EXPECT_EQ(counts.bytes, 0U);
}

TEST(Communicators, AreToldOnceWhenNoOtherCallComes) {
  const ToyProcess toy;
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ATTACH_OR_SKIP(attached);
  attached->attach_nccl(toy);
  CallLedger ledger(attached->counters, 32768);
  ledger.attached("rank0", number_of("ncclAllReduce"), 0, true, read_clock(CLOCK_MONOTONIC));
  const auto standing = [&ledger] {
    const std::string answer = ledger.answer();
    const std::size_t at = answer.find("standing ");
    return at == std::string::npos ? "" : answer.substr(at);
  };
  EXPECT_EQ(toy.ask({.call = Call::reduce_on, .times = 2, .elements = 4, .communicator = 7}), 0);
  EXPECT_EQ(toy.ask({.call = Call::reduce_on, .times = 3, .communicator = 7}), 0);
  EXPECT_EQ(standing(), "");
  std::string told;
  for (int i = 0; i < 200 && told.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    told = standing();
  }
  const auto all = attached->counters.communicators(0);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(told,
            "standing rank0 comm=0 calls=5 begin=" + std::to_string(all[0].begin_ns) + " ncclAllReduce=2000x3,8x2\n");
  EXPECT_GE(static_cast<std::uint64_t>(read_clock(CLOCK_MONOTONIC)) - all[0].begin_ns, 3'000'000'000U);
  EXPECT_EQ(standing(), "") << "once";
  ledger.ended("rank0");
  EXPECT_EQ(standing(), "");
}

TEST(Communicators, HaveNoIdWhereACallMayBeMissing) {
  const ToyProcess toy;
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ATTACH_OR_SKIP(attached);
  attached->attach_nccl(toy);
  EXPECT_EQ(toy.ask({.call = Call::make_communicator, .communicator = 7, .ranks = 4, .id = 1}), 0);
  CallLedger whole(attached->counters, 32768);
  CallLedger detached(attached->counters, 32768);
  CallLedger failed(attached->counters, 32768);
  CallLedger others_unseen(attached->counters, 32768);
  for (CallLedger* ledger : {&whole, &detached, &failed, &others_unseen}) {
    ledger->attached("rank0", number_of("ncclAllReduce"), 0, true, read_clock(CLOCK_MONOTONIC));
  }
  detached.rest(number_of("ncclReduce"), "it costs too much");
  detached.resume(number_of("ncclReduce"));
  failed.failed(number_of("ncclAllGather"), "no reason");
  others_unseen.failed(number_of("ncclCommInitRankConfig"), "no reason");
  std::this_thread::sleep_for(std::chrono::milliseconds(3100));
  EXPECT_NE(whole.answer().find("standing rank0 comm=0 ranks=4 rank=0 id="), std::string::npos);
  EXPECT_NE(detached.answer().find("standing rank0 comm=0 ranks=4 rank=0 calls=0"), std::string::npos);
  EXPECT_NE(failed.answer().find("standing rank0 comm=0 ranks=4 rank=0 calls=0"), std::string::npos);
  EXPECT_NE(others_unseen.answer().find("standing rank0 comm=0 ranks=4 rank=0 id="), std::string::npos)
      << "a communicator that is made in another way has no id itself";
}

/// "called rank0 ncclAllReduce 0 4 7994 12 5000 0": function, order, ranks, id, number and begin of each, and whether
/// it was the last one.
struct Listed {
  std::string function;
  std::int64_t order = 0, ranks = 0, id = 0, number = 0, begin_ns = 0, last = 0;
};
std::vector<Listed> listed_in(const std::string& answer) {
  std::vector<Listed> all;
  std::string_view rest = answer;
  std::string_view line;
  while (next_line(rest, line)) {
    if (next_word(line) != "called" || next_word(line) != "rank0") continue;
    Listed one{.function = std::string(next_word(line))};
    for (std::int64_t* const number : {&one.order, &one.ranks, &one.id, &one.number, &one.begin_ns, &one.last}) {
      *number = parse_int(next_word(line)).value_or(-1);
    }
    all.push_back(std::move(one));
  }
  return all;
}

std::vector<std::int64_t> numbers_of(const std::vector<Listed>& all) {
  std::vector<std::int64_t> numbers;
  for (const Listed& one : all) numbers.push_back(one.number);
  return numbers;
}

/// The next half second of the wall clock has begun.
void wait_for_next_samples() {
  constexpr std::int64_t kPeriod = CommunicatorCalls::kSamplePeriodNs;
  std::this_thread::sleep_for(std::chrono::nanoseconds(kPeriod - read_clock(CLOCK_REALTIME) % kPeriod + 1'000'000));
}

TEST(Communicators, KeepTheFirstCallsOfEachHalfSecondAndTheNewest) {
  const ToyProcess toy;
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ATTACH_OR_SKIP(attached);
  attached->attach_nccl(toy);
  CallLedger ledger(attached->counters, 32768);
  EXPECT_EQ(toy.ask({.call = Call::make_communicator, .communicator = 7, .rank = 2, .ranks = 4, .id = 1}), 0);
  EXPECT_EQ(toy.ask({.call = Call::reduce_on, .times = 20, .communicator = 7}), 0);
  ledger.attached("rank0", number_of("ncclAllReduce"), 0, true, read_clock(CLOCK_MONOTONIC));
  EXPECT_TRUE(listed_in(ledger.answer()).empty()) << "before all was attached";
  wait_for_next_samples();
  const std::int64_t begin = read_clock(CLOCK_MONOTONIC);
  EXPECT_EQ(toy.ask({.call = Call::reduce_on, .times = 30, .communicator = 7}), 0);
  EXPECT_EQ(toy.ask({.call = Call::reduce_to_one, .communicator = 7}), 0);
  const std::int64_t end = read_clock(CLOCK_MONOTONIC);
  std::vector<Listed> first = listed_in(ledger.answer());
  // If the calls took longer than a half second, some more are kept.
  ASSERT_GE(first.size(), 4U);
  EXPECT_EQ(first.front().number, 21);
  EXPECT_EQ(first[1].number, 22);
  EXPECT_EQ(first[2].number, 23);
  EXPECT_EQ(first.back().number, 51);
  EXPECT_EQ(first.front().function, "ncclAllReduce");
  EXPECT_EQ(first.back().function, "ncclReduce");
  std::int64_t before = begin;
  for (const Listed& one : first) {
    EXPECT_EQ(one.order, 0);
    EXPECT_EQ(one.ranks, 4);
    EXPECT_EQ(one.id, static_cast<std::int64_t>(attached->counters.communicators(0).at(0).id));
    EXPECT_GE(one.begin_ns, before);
    before = one.begin_ns;
  }
  EXPECT_LE(before, end);
  EXPECT_TRUE(listed_in(ledger.answer()).empty()) << "once";
  EXPECT_EQ(toy.ask({.call = Call::reduce_on, .communicator = 7}), 0);
  ledger.ended("rank0");
  EXPECT_EQ(numbers_of(listed_in(ledger.answer())), std::vector<std::int64_t>{52}) << "those of before";
}

TEST(Communicators, TellTheLastCallOfAProcessThatHasEnded) {
  const ToyProcess toy;
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ATTACH_OR_SKIP(attached);
  attached->attach_nccl(toy);
  CallLedger ledger(attached->counters, 32768);
  ledger.attached("rank0", number_of("ncclAllReduce"), 0, true, read_clock(CLOCK_MONOTONIC));
  EXPECT_EQ(toy.ask({.call = Call::reduce_on, .times = 9, .communicator = 7}), 0);
  const std::vector<Listed> before = listed_in(ledger.answer());
  ASSERT_FALSE(before.empty());
  EXPECT_EQ(before.back().last, 0);
  ledger.process_ended("rank0");
  const std::vector<Listed> last = listed_in(ledger.answer());
  ASSERT_EQ(last.size(), 1U) << "again, as it is the last one";
  EXPECT_EQ(last[0].number, 9);
  EXPECT_EQ(last[0].last, 1);
  EXPECT_TRUE(listed_in(ledger.answer()).empty());
  ledger.ended("rank0");
  EXPECT_TRUE(listed_in(ledger.answer()).empty());
}

TEST(Communicators, KeepNeighbouringCallsInAllProcesses) {
  const ToyProcess one;
  const ToyProcess other;
  ASSERT_EQ(one.ask({.call = Call::load}) + other.ask({.call = Call::load}), 0);
  ATTACH_OR_SKIP(attached);
  attached->attach_nccl(one, 0);
  attached->attach_nccl(other, 1);
  attached->counters.begin_sampling(0);
  attached->counters.begin_sampling(1);
  std::uint64_t next[] = {0, 0};
  for (int period = 0; period < 3; ++period) {
    wait_for_next_samples();
    for (int call = 0; call < 5; ++call) {
      for (const ToyProcess* toy : {&one, &other}) {
        EXPECT_EQ(toy->ask({.call = Call::reduce_on, .communicator = 7}), 0);
      }
    }
    std::vector<std::uint64_t> kept[2];
    for (std::size_t process = 0; process < 2; ++process) {
      for (const auto& sample : attached->counters.take_samples(process, next[process])) {
        next[process] = sample.number + 1;
        EXPECT_EQ(sample.call.handle, 7U);
        EXPECT_EQ(sample.call.index, process * stack_functions().size() + number_of("ncclAllReduce"));
        kept[process].push_back(sample.call.number);
      }
      ASSERT_GE(kept[process].size(), 3U);
      EXPECT_EQ(kept[process][0], static_cast<std::uint64_t>(5 * period));
    }
  }
}

TEST(Communicators, KeepNoCallBehindARestOfAFunction) {
  const ToyProcess toy;
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ATTACH_OR_SKIP(attached);
  attached->attach_nccl(toy);
  CallLedger ledger(attached->counters, 32768);
  ledger.attached("rank0", number_of("ncclAllReduce"), 0, true, read_clock(CLOCK_MONOTONIC));
  EXPECT_EQ(toy.ask({.call = Call::reduce_on, .times = 2, .communicator = 7}), 0);
  ledger.rest(number_of("ncclAllReduce"), "it costs too much");
  EXPECT_EQ(listed_in(ledger.answer()).back().number, 2) << "those before it";
  ledger.resume(number_of("ncclAllReduce"));
  ledger.attached("rank0", number_of("ncclAllReduce"), 0, true, read_clock(CLOCK_MONOTONIC));
  EXPECT_EQ(toy.ask({.call = Call::reduce_on, .times = 2, .communicator = 7}), 0);
  EXPECT_TRUE(listed_in(ledger.answer()).empty()) << "some may be missing between them";
  ledger.ended("rank0");
  attached->counters.reset(0, stack_functions().size());
  ledger.attached("rank0", number_of("ncclAllReduce"), 0, true, read_clock(CLOCK_MONOTONIC));
  EXPECT_EQ(toy.ask({.call = Call::reduce_on, .communicator = 7}), 0);
  EXPECT_EQ(numbers_of(listed_in(ledger.answer())), std::vector<std::int64_t>{1}) << "another process";
}

TEST(Communicators, CountTheCallsThatWereNotTakenInTime) {
  const ToyProcess toy;
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ATTACH_OR_SKIP(attached);
  attached->attach_nccl(toy);
  CallLedger ledger(attached->counters, 32768);
  ledger.attached("rank0", number_of("ncclAllReduce"), 0, true, read_clock(CLOCK_MONOTONIC));
  for (int period = 0; period < 4; ++period) {  // 3 calls of each of 30 communicators in each of them
    wait_for_next_samples();
    for (std::uintptr_t number = 1; number <= 30; ++number) {
      EXPECT_EQ(toy.ask({.call = Call::reduce_on, .times = 3, .communicator = number}), 0);
    }
  }
  EXPECT_GE(listed_in(ledger.answer()).size(), 250U);
  const std::string later = ledger.answer();
  EXPECT_NE(later.find(" collectives are counted and not listed: there are too many\n"), std::string::npos) << later;
}

TEST(TimeWithoutCall, IsLongAgainstTheOnesBefore) {
  constexpr std::uint64_t kS = 1'000'000'000;
  TimeWithoutCall time;
  EXPECT_FALSE(time.is_long(100 * kS, 102 * kS));
  EXPECT_TRUE(time.is_long(100 * kS, 104 * kS));
  EXPECT_FALSE(time.is_long(100 * kS, 105 * kS)) << "once";
  EXPECT_FALSE(time.is_long(90 * kS, 106 * kS)) << "its newest communicator has ended";
  EXPECT_FALSE(time.is_long(100 * kS, 120 * kS));
  EXPECT_FALSE(time.is_long(120 * kS, 149 * kS)) << "it made none for 20 s before";
  EXPECT_TRUE(time.is_long(120 * kS, 151 * kS));
  EXPECT_FALSE(time.is_long(120 * kS, 1000 * kS));
  EXPECT_FALSE(time.is_long(1000 * kS, 1059 * kS)) << "it made none for 880 s before";
  EXPECT_TRUE(time.is_long(1000 * kS, 1061 * kS)) << "a minute is always long";
}

}  // namespace
}  // namespace reveal::tests::communicators_test
