#include <gtest/gtest.h>

#include <span>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::cpu_steal_test {
namespace {

using R = RuleRecording;

std::vector<Finding> of(const R::Course& steal) {
  R node;
  node.counter("cpu.steal", "cpu0", [=](double second) { return 1e9 * steal(second); });
  node.counter("cpu.user", "cpu0", R::always(1.8e9)).counter("cpu.system", "cpu0", R::always(0.1e9));
  return node.findings("cpu.steal");
}

TEST(RuleSteal, SaysHowMuchTheHypervisorTook) {
  const auto found = of(R::event(0, 0.5));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].confidence, Confidence::certain);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 15 * 0.5 / 2.4, 0.4);
  EXPECT_NE(found[0].sentence.find("0.4"), std::string::npos) << found[0].sentence;
}

TEST(RuleSteal, FindsAHostThatIsOvercommittedAllTheTime) {
  ASSERT_EQ(of(R::always(0.3)).size(), 1U);
}

TEST(RuleSteal, IsSilentBelowItsShare) {
  EXPECT_TRUE(of(R::always(0)).empty());
  EXPECT_TRUE(of(R::always(0.01)).empty());
}

TEST(RuleSteal, CountsTheTimeOfAJobThatRunsNice) {
  R node;
  node.counter("cpu.steal", "cpu0", R::always(0.004e9));
  node.counter("cpu.user", "cpu0", R::always(0.05e9)).counter("cpu.system", "cpu0", R::always(0.05e9));
  EXPECT_EQ(node.findings("cpu.steal").size(), 1U);
  node.counter("cpu.nice", "cpu0", R::always(15.9e9));
  EXPECT_TRUE(node.findings("cpu.steal").empty());
}

TEST(RuleSteal, CostsNoMoreThanTheTimeThatWasTaken) {
  R node;
  node.counter("cpu.steal", "cpu0", R::always(0.02e9));
  node.counter("cpu.user", "cpu0", R::always(0.1e9)).counter("cpu.system", "cpu0", R::always(0.08e9));
  const auto found = node.findings("cpu.steal");
  ASSERT_EQ(found.size(), 1U) << "a job that mostly waits for its GPU";
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 0.02 * 120, 0.1);
}

/// Two cpus of a virtual machine under a job, from its kernel: hundredths of a second in each second.
struct Recorded {
  std::span<const int> steal, user, system;
};

std::vector<Finding> of(const Recorded& recorded) {
  R node(static_cast<double>(recorded.steal.size()));
  const auto add = [&](const char* metric, std::span<const int> ticks) {
    node.counter(
        metric, "cpu0", [ticks](double second) { return 1e7 * ticks[static_cast<std::size_t>(second)]; }, "node");
  };
  add("cpu.steal", recorded.steal);
  add("cpu.user", recorded.user);
  add("cpu.system", recorded.system);
  return node.findings("cpu.steal");
}

TEST(RuleSteal, SaysWhatAHypervisorTookWhileARealJobRan) {
  constexpr int kSteal[] = {3,  4,  0,  2,  4,  3,  4, 2, 4, 10, 15, 28, 15, 13, 45, 22, 57, 41, 43, 57,
                            47, 48, 30, 55, 24, 10, 6, 3, 3, 2,  2,  1,  1,  4,  4,  4,  6,  2,  2,  0};
  constexpr int kUser[] = {142, 73,  109, 109, 87, 98, 60,  93, 102, 95,  87,  81,  93,  96,
                           85,  93,  68,  89,  96, 76, 44,  90, 97,  94,  103, 110, 103, 86,
                           96,  107, 108, 122, 92, 91, 111, 96, 112, 104, 118, 128};
  constexpr int kSystem[] = {42, 57, 25, 29, 41, 49, 18, 53, 41, 37, 46, 46, 60, 65, 27, 25, 16, 20, 29, 25,
                             15, 32, 33, 16, 40, 33, 47, 56, 46, 50, 44, 29, 56, 47, 23, 45, 23, 36, 25, 23};
  const auto found = of({kSteal, kUser, kSystem});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_NEAR(found[0].evidence.at(0).observed.value_or(0), 0.44, 0.04);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 3, 0.5);
}

TEST(RuleSteal, IsSilentOnTheMomentsThatAHypervisorTookFromAnother) {
  constexpr int kSteal[] = {0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                            0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0, 0, 0, 1, 1};
  constexpr int kUser[] = {163, 174, 178, 172, 171, 174, 175, 172, 168, 172, 171, 169, 172, 171,
                           171, 170, 172, 170, 169, 176, 174, 175, 168, 172, 174, 169, 175, 175,
                           176, 173, 172, 176, 173, 172, 168, 176, 167, 171, 177, 165};
  constexpr int kSystem[] = {55, 25, 23, 27, 29, 26, 26, 27, 31, 30, 27, 32, 28, 28, 29, 29, 29, 29, 31, 26,
                             24, 25, 31, 29, 25, 31, 24, 25, 25, 27, 28, 25, 25, 27, 29, 24, 32, 30, 23, 35};
  EXPECT_TRUE(of({kSteal, kUser, kSystem}).empty());
}

TEST(RuleSteal, SaysWhatWasNotMeasured) {
  EXPECT_THROW(static_cast<void>(R().findings("cpu.steal")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::cpu_steal_test
