// The answer of the worker, by the calls that it counted.
#include "core/stack/call_ledger.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "core/stack/call_counters.h"
#include "core/stack/elf_symbols.h"
#include "core/stack/stack_functions.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "tests/unit/core/toy_process.h"

namespace reveal::tests::call_ledger_test {
namespace {

using namespace toy;

TEST(Stack, NamesNoFunctionThatIsOff) {
  CallCounters* counters = nullptr;
  try {
    static CallCounters all(2 * stack_functions().size());
    counters = &all;
  } catch (const Unavailable& why) {
    GTEST_SKIP() << why.what();
  }
  CallLedger ledger(*counters, 4096);
  EXPECT_EQ(ledger.answer(), "functions\n");
  ledger.attached("rank0", step_function(), 0, false);
  EXPECT_EQ(ledger.answer(), "functions torch.backward\n");
  ledger.failed(0, "Permission denied");
  const std::string first(stack_functions().front().name);
  EXPECT_EQ(ledger.answer(), "functions torch.backward\nnote " + first + " is not measured: Permission denied\n");
  ledger.ended("rank0");
  ledger.attached("rank0", step_function(), 1, false);
  ledger.switch_off(step_function());
  EXPECT_TRUE(ledger.answer().starts_with("functions\n"));
}

// A step that began before all was attached has waited longer than was measured.
TEST(Stack, DoesNotGuessTheSumsOfStepsThatWereCountedInPart) {
  const ToyProcess toy;
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  try {
    CallCounters counters(stack_functions().size());
    CallLedger ledger(counters, 4096);
    std::vector<CallLink> links;
    const auto attach = [&](const char* library, std::string_view name) {
      const Descriptor file(::open((std::string(STACK_DOUBLES) + '/' + library).c_str(), O_RDONLY | O_CLOEXEC));
      const auto functions = stack_functions();
      const auto function = std::find_if(functions.begin(), functions.end(),
                                         [name](const StackFunction& each) { return each.name == name; });
      const auto index = static_cast<std::size_t>(function - functions.begin());
      const FoundFunctions found = find_functions(reader_of(file.get()), std::span(function->symbols).first(1));
      const CallCounters::Point point{.offset = found.offsets.at(0), .index = index};
      const CallShape shape = shape_of(*function, true);
      CallCounters::Attached attached = counters.attach(file.get(), toy.pid(), shape, std::span(&point, 1));
      ASSERT_EQ(attached.error, 0);
      std::move(attached.links.begin(), attached.links.end(), std::back_inserter(links));
      ledger.attached("rank0", index, 0, shape.timed);
    };
    attach("libtorch_cpu.so", "torch.backward");
    attach("libnccl.so.2", "ncclAllReduce");
    const auto make_steps = [&toy](int steps) {
      for (int step = 0; step < steps; ++step) {
        EXPECT_EQ(toy.ask({.call = Call::step}) + toy.ask({.call = Call::reduce}), 0);
      }
    };
    ledger.delay("rank0", true);
    make_steps(2);
    EXPECT_NE(ledger.answer().find("note not all functions are attached yet"), std::string::npos);
    make_steps(1);
    ledger.delay("rank0", false);
    make_steps(2);
    const std::string answer = ledger.answer();
    EXPECT_EQ(answer.find("not all functions"), std::string::npos) << answer;
    std::vector<std::string> sums;
    std::string_view rest = answer;
    std::string_view line;
    while (next_line(rest, line)) {
      if (line.starts_with("step rank0 ")) sums.emplace_back(line.substr(line.rfind(' ')));
    }
    EXPECT_EQ(sums, (std::vector<std::string>{" -", " -", " 2000"})) << answer;  // 2 and 3 of steps 1 to 4
  } catch (const Unavailable& why) {
    GTEST_SKIP() << why.what();
  }
}

}  // namespace
}  // namespace reveal::tests::call_ledger_test
