// node.clock_drift on clocks that nothing keeps right, and on those of a chrony that does not set the kernel's state.
#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::node_clock_test {
namespace {

std::vector<Finding> of(const char* synchronised, const char* error_ns, const char* offset_ns,
                        const char* nodes = "4") {
  RuleRecording node;
  node.begin = {{"job.cpus_allowed", "0-7"},
                {"env.SLURM_JOB_NUM_NODES", nodes},
                {"clock.synchronised", synchronised},
                {"clock_state.max_error_ns", error_ns},
                {"clock_state.offset_ns", offset_ns}};
  return node.findings("node.clock_drift");
}

TEST(RuleClockDrift, NamesAClockThatNothingKeepsRight) {
  const auto found = of("no", "16000000000", "0");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_EQ(found[0].sentence,
            "The clock of n2 is not synchronised: it may be wrong by 16 s or more; its error was not measured.");
  EXPECT_NE(of("no", "5000000000", "0").at(0).sentence.find("may be wrong by up to 5 s;"), std::string::npos);
}

TEST(RuleClockDrift, NamesAClockThatIsKnownToBeWrong) {
  const auto found = of("yes", "20000000", "-35000000");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("is 35 ms off"), std::string::npos) << found[0].sentence;
  EXPECT_EQ(of("no", "16000000000", "35000000").at(0).sentence, found[0].sentence) << "the known error, not the bound";
}

std::vector<Finding> after(const std::vector<std::string>& steps, const char* nodes = "4") {
  RuleRecording node;
  node.begin = {{"job.cpus_allowed", "0-7"}, {"env.SLURM_JOB_NUM_NODES", nodes}, {"clock.synchronised", "yes"}};
  for (const std::string& step : steps) node.events.push_back({30'000'000'000, "clock", "clock_step", step});
  return node.findings("node.clock_drift");
}

TEST(RuleClockDrift, NamesAClockThatWasSetWhileTheJobRan) {
  const auto found = after({"+0.500 s", "-10800.000 s"});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence, "The clock of n2 was set back by 3 h 0 min during the job.");
  EXPECT_EQ(found[0].confidence, Confidence::certain);
  ASSERT_EQ(found[0].evidence.size(), 1U);
  EXPECT_DOUBLE_EQ(found[0].evidence[0].observed.value_or(0), -10'800);
  EXPECT_EQ(after({"+0.500 s"}).at(0).sentence, "The clock of n2 was set forward by 0.5 s during the job.");
}

TEST(RuleClockDrift, IsSilentAboutAStepTooSmallToMatterOrUnreadable) {
  EXPECT_TRUE(after({}).empty());
  EXPECT_TRUE(after({"-0.004 s", "", "+"}).empty());
  EXPECT_THROW(static_cast<void>(after({"-10800.000 s"}, "1")), Unavailable);
}

TEST(RuleClockDrift, IsSilentWhereSomethingKeepsItRight) {
  EXPECT_TRUE(of("yes", "12000000", "40000").empty());
  EXPECT_TRUE(of("yes", "1100000000", "0").empty()) << "half an hour after timesyncd asked last";
  EXPECT_TRUE(of("no", "15000000", "0").empty()) << "chrony without rtcsync";
}

TEST(RuleClockDrift, DoesNotAnswerForAJobOnOneNode) {
  EXPECT_THROW(static_cast<void>(of("no", "16000000000", "0", "1")), Unavailable);
}

TEST(RuleClockDrift, DoesNotCallItOneNodeWhereTheNumberIsNotKnown) {
  const auto why = [](const char* nodes) -> std::string {
    try {
      static_cast<void>(of("no", "16000000000", "0", nodes));
    } catch (const Unavailable& missing) {
      return missing.what();
    }
    return "";
  };
  EXPECT_EQ(why(""), "the number of the job's nodes is not known (no Slurm); this needs two or more");
  EXPECT_EQ(why("1"), "the job ran on one node; this needs two or more");
}

TEST(RuleClockDrift, LooksAtANodeWithoutAJob) {
  RuleRecording node;
  node.begin = {{"clock.synchronised", "no"}, {"clock_state.max_error_ns", "16000000000"}};
  EXPECT_EQ(node.findings("node.clock_drift").size(), 1U);
}

TEST(RuleClockDrift, SaysWhatItCouldNotMeasure) {
  EXPECT_THROW(static_cast<void>(RuleRecording().findings("node.clock_drift")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::node_clock_test
