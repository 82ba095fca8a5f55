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

TEST_F(EarlierRuns, AreOfTheSameHardwareAndTaskOfAnArray) {
  const auto keep = [this](std::int64_t begin, const char* array, const char* model) {
    RunRecord record{.run_id = std::to_string(begin), .key = "sweep"};
    record.array = array;
    record.begin_utc_ns = begin;
    record.seconds = static_cast<double>(begin);
    record.accepted = true;
    record.facts = {{"cpu.model", model}};
    RunIndex(state_.directory).put("/runs/" + record.run_id, record);
  };
  keep(100, "10_3", "new");
  keep(110, "10_4", "new");
  keep(200, "20_3", "old");
  keep(300, "30_3", "new");
  keep(400, "40_3", "new");
  ComparedRun before = run_with_key("sweep", 300);
  ComparedRun after = run_with_key("sweep", 400);
  before.report.job.array = "30_3";
  after.report.job.array = "40_3";
  EXPECT_EQ(seconds_of_earlier_runs({before}, {after}, state_), std::vector<double>{100});
  after.report.job.array = "40_4";
  EXPECT_TRUE(seconds_of_earlier_runs({before}, {after}, state_).empty()) << "they do not do the same work";
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
