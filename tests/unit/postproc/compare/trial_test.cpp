#include "postproc/compare/trial.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "postproc/compare/timed_command.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::trial_test {
namespace {

Trial concluded(std::vector<double> without, std::vector<double> with) {
  Trial trial{.line = "taskset -c 0", .command = "./train", .warmup = 1};
  trial.without = std::move(without);
  trial.with = std::move(with);
  conclude_trial(trial);
  return trial;
}

TEST(Trial, AlternatesSoThatADriftCountsForBothSides) {
  using enum TrialSide;
  EXPECT_EQ(abba_order(3), (std::vector{without, with, with, without, without, with}));
  // A machine that slows down by a second with every run: two pairs in this order show no difference.
  EXPECT_EQ(concluded({1, 4}, {2, 3}).difference->difference, 0);
}

TEST(Trial, TellsWhetherTheLineHelps) {
  // scipy.stats.ttest_1samp of the differences -1.02, -0.97, -1.10, -0.99, -1.05
  const Trial faster = concluded({3.02, 3.01, 3.10, 3.00, 3.05}, {2.00, 2.04, 2.00, 2.01, 2.00});
  EXPECT_EQ(faster.change, TimeChange::faster);
  EXPECT_EQ(faster.sentence,
            "With the line the run time was 2.01 s instead of 3.04 s: 1.03 s shorter (33.8 %), 95 % confidence "
            "interval of the difference -1.09 s to -0.96 s.");
  EXPECT_EQ(concluded({2, 2.1, 2}, {3, 3, 3.1}).change, TimeChange::slower);
  const Trial same = concluded({2, 3, 2}, {3, 2, 2.1});
  EXPECT_EQ(same.change, TimeChange::same);
  EXPECT_TRUE(same.sentence.starts_with("The line shows no effect on the run time: ")) << same.sentence;
}

TEST(Trial, PrintsNoDigitsThatMeanNothing) {
  EXPECT_EQ(
      concluded({1, 1.0001}, {1.0004, 0.999}).sentence,
      "The line shows no effect on the run time: 1.00 s instead of 1.00 s, a difference of less than 0.01 s, 95 % "
      "confidence interval of the difference -0.01 s to 0.01 s.");
}

TEST(Trial, UsesCompletePairsOnly) {
  const Trial stopped = concluded({3, 3.1, 3.05}, {2, 2.05});
  EXPECT_EQ(stopped.difference->df, 1);
  EXPECT_NEAR(stopped.difference->difference, -1.025, 1e-12);
  EXPECT_EQ(concluded({3}, {2}).change, TimeChange::not_known);
  EXPECT_EQ(concluded({3}, {2}).sentence, "1 pair of runs: at least 2 are needed.");
  EXPECT_EQ(concluded({}, {}).sentence, "0 pairs of runs: at least 2 are needed.");
}

TEST(Trial, PrintsTheMeansThatItCompares) {
  const Trial stopped = concluded({3, 3.1, 9}, {2, 2.05});
  EXPECT_TRUE(stopped.sentence.starts_with("With the line the run time was 2.02 s instead of 3.05 s"))
      << stopped.sentence;
  const std::string text = trial_as_text(stopped, {});
  EXPECT_NE(text.find("  without      3.05 s (3.00, 3.10) and 9.00 s in no pair\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  with         2.02 s (2.00, 2.05)\n"), std::string::npos) << text;
}

TEST(Trial, NamesAMethodOnlyWithAnInterval) {
  const auto one_pair = nlohmann::json::parse(trial_as_json(concluded({3}, {2})));
  EXPECT_TRUE(one_pair.at("interval").is_null());
  EXPECT_TRUE(one_pair.at("method").is_null());
  EXPECT_TRUE(nlohmann::json::parse(trial_as_json(concluded({3, 3.1}, {2, 2.05}))).at("method").is_string());
}

TEST(Trial, PrintsThePatchAsItIs) {
  Trial trial = concluded({3, 3.1}, {2, 2.1});
  trial.keep = "taskset -c 0 ./train";
  trial.patch.diff = "--- job.sh\n+++ job.sh\n@@ -1,1 +1,1 @@\n-./train\n+taskset -c 0 ./train\n";
  EXPECT_EQ(trial_as_text(trial, {}),
            "FASTER  With the line the run time was 2.05 s instead of 3.05 s: 1.00 s shorter\n"
            "        (32.8 %), 95 % confidence interval of the difference -1.00 s to -1.00 s.\n"
            "\n"
            "  line         taskset -c 0\n"
            "  command      ./train\n"
            "  without      3.05 s (3.00, 3.10)\n"
            "  with         2.05 s (2.00, 2.10)\n"
            "  order        ABBA, 2 pairs after 1 run to warm up\n"
            "  method       Student's t of the differences between the two runs of each pair\n"
            "  keep this    taskset -c 0 ./train\n"
            "\n" +
                trial.patch.diff);
  const auto json = nlohmann::json::parse(trial_as_json(trial));
  EXPECT_EQ(json.at("schema"), "reveal.try/1");
  EXPECT_EQ(json.at("patch"), trial.patch.diff);
  EXPECT_EQ(json.at("without").size(), 2U);
}

TEST(ForegroundCommands, TellHowACommandEnded) {
  const ForegroundCommands foreground;
  const std::vector<std::string> environment{"PATH=/usr/bin:/bin", "STATUS=7"};
  EXPECT_EQ(ForegroundCommands::run({"sh", "-c", "exit $STATUS"}, environment, OutputOf::nowhere).status, 7);
  EXPECT_EQ(ForegroundCommands::run({"sh", "-c", "kill -9 $$"}, environment, OutputOf::nowhere).status, 128 + SIGKILL);
  EXPECT_EQ(ForegroundCommands::run({"/no/such/program"}, environment, OutputOf::nowhere).start_error, ENOENT);
  EXPECT_GT(ForegroundCommands::run({"true"}, environment, OutputOf::nowhere).seconds, 0);
}

TEST(ForegroundCommands, KnowWhichRunWasPaused) {
  const ForegroundCommands foreground;
  const std::vector<std::string> environment = {"PATH=/usr/bin:/bin"};
  const auto run = [&](const char* script) {
    return ForegroundCommands::run({"sh", "-c", script}, environment, OutputOf::nowhere);
  };
  const TimedRun paused = run("(while kill -CONT $$ 2>/dev/null; do sleep 0.5; done) & kill -STOP $$");
  EXPECT_TRUE(paused.paused);
  EXPECT_EQ(paused.status, 0);
  EXPECT_FALSE(run("true").paused);
}

TEST(ForegroundCommands, WaitForWhatACommandLeavesBehind) {
  const TemporaryDirectory place;
  const std::filesystem::path last_word = place.path() / "ended";
  const ForegroundCommands foreground;
  const TimedRun run = ForegroundCommands::run({"sh", "-c", "(sleep 0.3; : >" + last_word.string() + ") &"},
                                               {"PATH=/usr/bin:/bin"}, OutputOf::nowhere);
  EXPECT_FALSE(run.left_processes);
  EXPECT_TRUE(std::filesystem::exists(last_word));
}

TEST(ForegroundCommands, PassASignalOnAndRememberIt) {
  const ForegroundCommands foreground;
  EXPECT_EQ(ForegroundCommands::stopped_by(), 0);
  const TimedRun run =
      ForegroundCommands::run({"sh", "-c", "trap 'exit 9' TERM; kill -TERM $PPID; while :; do sleep 0.01; done"},
                              {"PATH=/usr/bin:/bin"}, OutputOf::nowhere);
  EXPECT_EQ(run.status, 9) << "the command ended in its own way";
  EXPECT_EQ(ForegroundCommands::stopped_by(), SIGTERM);
}

TEST(ForegroundCommands, TellOfProcessesThatASignalLeft) {
  const TemporaryDirectory place;
  const std::filesystem::path number = place.path() / "number";
  const ForegroundCommands foreground;
  const TimedRun run = ForegroundCommands::run(
      {"sh", "-c", "sleep 100 & echo $! >" + number.string() + "; kill -TERM $PPID; while :; do sleep 0.01; done"},
      {"PATH=/usr/bin:/bin"}, OutputOf::nowhere);
  EXPECT_EQ(run.status, 128 + SIGTERM);
  EXPECT_TRUE(run.left_processes);
  pid_t left = 0;
  std::ifstream(number) >> left;
  ASSERT_GT(left, 0);
  EXPECT_EQ(::kill(left, SIGKILL), 0);
  EXPECT_EQ(::waitpid(left, nullptr, 0), left);
}

}  // namespace
}  // namespace reveal::tests::trial_test
