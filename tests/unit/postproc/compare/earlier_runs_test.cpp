#include "postproc/compare/earlier_runs.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/unit/temporary_directory.h"

namespace reveal::tests::earlier_runs_test {
namespace {

ComparedRun run_with_key(const std::string& key, std::int64_t begin) {
  ComparedRun run;
  run.report.history.key = key;
  run.report.job.begin_utc_ns = begin;
  return run;
}

void keep_in(const std::filesystem::path& state, const std::string& key, std::int64_t begin, double seconds,
             const std::string& why_not = "") {
  RunRecord record;
  record.run_id = std::to_string(begin);
  record.key = key;
  record.begin_utc_ns = begin;
  record.seconds = seconds;
  record.accepted = why_not.empty();
  record.why_not = why_not;
  RunIndex(state).put("/runs/" + record.run_id, record);
}

class EarlierRuns : public testing::Test {
 protected:
  TemporaryDirectory directory_;
  StatePlace state_{directory_.path() / "reveal", ""};
};

TEST_F(EarlierRuns, AreNormalOnesOfTheSameCommandWithoutTheComparedOnes) {
  keep_in(state_.directory, "solver", 100, 80);
  keep_in(state_.directory, "solver", 200, 81);
  keep_in(state_.directory, "solver", 300, 300, "it failed");
  keep_in(state_.directory, "solver", 350, 98, "it had a finding: history.slower");
  keep_in(state_.directory, "solver", 360, 99, "it had a finding: cpu.outsider");
  keep_in(state_.directory, "solver", 400, 94);
  keep_in(state_.directory, "train", 500, 7);
  const auto seconds = seconds_of_earlier_runs({run_with_key("solver", 400)}, {run_with_key("solver", 600)}, state_);
  EXPECT_EQ(seconds, (std::vector<double>{80, 81, 98}));
}

TEST_F(EarlierRuns, AreNoneOfAnotherCommandOnOneSide) {
  keep_in(state_.directory, "solver", 100, 80);
  EXPECT_TRUE(seconds_of_earlier_runs({run_with_key("solver", 400)}, {run_with_key("train", 600)}, state_).empty());
  EXPECT_TRUE(seconds_of_earlier_runs({run_with_key("", 400)}, {run_with_key("", 600)}, state_).empty());
}

TEST_F(EarlierRuns, AreNoneWithoutAHistoryAndNoneIsMade) {
  const auto seconds = seconds_of_earlier_runs({run_with_key("solver", 400)}, {run_with_key("solver", 600)}, state_);
  EXPECT_TRUE(seconds.empty());
  EXPECT_FALSE(std::filesystem::exists(state_.directory));
  EXPECT_TRUE(
      seconds_of_earlier_runs({run_with_key("solver", 400)}, {run_with_key("solver", 600)}, {"", "none"}).empty());
}

}  // namespace
}  // namespace reveal::tests::earlier_runs_test
