// The budget for counting, as arithmetic: a second of the job is a round.
#include "core/stack/call_budget.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace reveal::tests::call_budget_test {
namespace {

/// A job that uses so much cpu time in each round, and calls functions with these costs while they are attached.
class Job {
 public:
  Job(double cpu_ns, std::vector<double> costs_ns, const std::vector<Rests>& order)
      : cpu_ns_(cpu_ns), costs_ns_(std::move(costs_ns)), budget_(order), attached_(order.size(), true) {}

  void run(int rounds) {
    for (const int end = round_ + rounds; round_ < end; ++round_) {
      for (const std::size_t function : budget_.next_turn()) change(function, true);
      budget_.begin(cpu_ns_);
      used_ns_ += cpu_ns_;
      for (std::size_t i = 0; i < costs_ns_.size(); ++i) {
        if (!attached_[i]) continue;
        budget_.spend(i, costs_ns_[i] / 1000, 1000);
        spent_ns_ += costs_ns_[i];
        ++counted[i];
      }
      for (const CallBudget::Excess& excess : budget_.end()) change(excess.function, false);
    }
  }
  void cost(std::size_t function, double ns) { costs_ns_[function] = ns; }
  void use(double cpu_ns) { cpu_ns_ = cpu_ns; }

  [[nodiscard]] double share() const { return spent_ns_ / used_ns_; }
  [[nodiscard]] bool attached(std::size_t function) const { return attached_[function]; }

  double turn_ns = 0;                              // for attaching, and for detaching
  std::vector<std::string> changes;                // "6 -0": in round 6, function 0 was detached
  std::vector<int> counted = std::vector<int>(8);  // rounds, by function

 private:
  void change(std::size_t function, bool attached) {
    attached_[function] = attached;
    changes.push_back(std::to_string(round_) + (attached ? " +" : " -") + std::to_string(function));
    spent_ns_ += turn_ns;
    budget_.spend_on_turn(function, turn_ns);
  }

  double cpu_ns_;
  std::vector<double> costs_ns_;
  CallBudget budget_;
  std::vector<bool> attached_;
  int round_ = 0;
  double used_ns_ = 0, spent_ns_ = 0;
};

constexpr double kMs = 1e6;
constexpr double kCpu = 1e9;  // ns in a round: 5 ms of it may be spent

TEST(CallBudget, LetsTheDearestRestOnceItsShareIsSpent) {
  CallBudget budget({Rests::by_cost, Rests::by_cost, Rests::by_cost});
  budget.begin(kCpu);
  budget.spend(0, 4'000, 1000);
  EXPECT_TRUE(budget.end().empty());
  budget.begin(kCpu);
  budget.spend(0, 4'000, 1000);
  budget.spend(1, 60'000, 1000);
  budget.spend(2, 100, 1000);
  const auto resting = budget.end();
  ASSERT_EQ(resting.size(), 1U) << "the others cost less than their share";
  EXPECT_EQ(resting[0].function, 1U);
  EXPECT_DOUBLE_EQ(resting[0].calls, 60'000);
  EXPECT_DOUBLE_EQ(resting[0].spent_ns, 60 * kMs);
  EXPECT_DOUBLE_EQ(resting[0].cpu_ns, kCpu);
  for (int round = 0; round < 100; ++round) {
    budget.begin(kCpu);
    budget.spend(0, 4'900, 1000);
    EXPECT_TRUE(budget.end().empty()) << "what the other one spent is not its debt";
  }
}

TEST(CallBudget, JudgesBetweenTwoReadingsOfTheCpuTimeOnlyABurst) {
  CallBudget budget({Rests::by_cost, Rests::by_cost});
  budget.begin(kCpu);
  budget.spend(0, 52'000, 1000);
  EXPECT_EQ(budget.end().size(), 1U);
  budget.begin(0);
  budget.spend(1, 4'000, 1000);
  EXPECT_TRUE(budget.end().empty()) << "what was earned meanwhile is not known";
  budget.begin(0);
  budget.spend(1, 50'000, 1000);
  EXPECT_EQ(budget.end().size(), 1U);
}

TEST(CallBudget, IsTheShareThatTheSiteHasSet) {
  for (const auto& [share, rests] : {std::pair{0.0005, true}, std::pair{0.005, true}, std::pair{0.05, false}}) {
    CallBudget budget({Rests::by_cost}, share);
    int resting = 0;
    for (int round = 0; round < 100; ++round) {
      budget.begin(kCpu);
      budget.spend(0, 7'000, 1000);
      resting += static_cast<int>(budget.end().size());
    }
    EXPECT_EQ(resting > 0, rests) << share;
  }
  EXPECT_EQ(percent_of(0.005), ".5 %");
  EXPECT_EQ(percent_of(0.0005), ".05 %");
  EXPECT_EQ(percent_of(0.05), "5 %");
  EXPECT_EQ(percent_of(0.0125), "1.25 %");
}

TEST(CallBudget, GrowsWithTheCpuTimeOfTheJob) {
  Job job(16 * kCpu, {79 * kMs}, {Rests::by_cost});
  job.run(100);
  EXPECT_TRUE(job.changes.empty()) << job.changes.front();
}

TEST(CallBudget, KeepsItsShareOverAnHourAndCountsInAPartOfIt) {
  for (const double turn_ns : {0.0, 30 * kMs}) {
    Job job(kCpu, {7 * kMs, 3 * kMs}, {Rests::by_cost, Rests::by_cost});
    job.turn_ns = turn_ns;
    job.run(3600);
    EXPECT_LE(job.share(), 0.005 * 1.005) << "with the first burst";
    EXPECT_GE(job.share(), 0.0049);
    EXPECT_GE(job.counted[0], 850) << "a quarter of the time without the cost of attaching: 2 of 7 ms";
    EXPECT_EQ(job.counted[1], 3600);
    EXPECT_LE(job.changes.size(), 40U) << "attaching is rare";
  }
}

TEST(CallBudget, KeepsItsShareWithAFunctionThatCostsAsMuchAsTheJob) {
  Job job(kCpu, {700 * kMs}, {Rests::by_cost});
  job.turn_ns = 30 * kMs;
  job.run(3600);
  EXPECT_LE(job.share(), 0.0055);
  EXPECT_LE(job.counted[0], 26);
}

TEST(CallBudget, DoublesARestThatFollowsSoonUpToItsLongest) {
  Job job(kCpu, {20 * kMs}, {Rests::by_cost});
  job.run(1500);
  std::vector<int> rests;
  for (std::size_t i = 0; i + 1 < job.changes.size(); i += 2) {
    rests.push_back(std::stoi(job.changes[i + 1]) - std::stoi(job.changes[i]));
  }
  EXPECT_EQ(rests, (std::vector<int>{21, 42, 84, 168, 168, 168, 168, 168, 168}));
}

TEST(CallBudget, BeginsWithAShortRestAgainAfterALongTurn) {
  Job job(kCpu, {20 * kMs}, {Rests::by_cost});
  job.run(200);
  job.cost(0, 1 * kMs);
  job.run(500);
  ASSERT_EQ(job.changes.back(), "362 +0");
  job.cost(0, 80 * kMs);
  job.run(50);
  ASSERT_EQ(job.changes.size(), 11U);
  EXPECT_EQ(job.changes[8], "710 -0");
  EXPECT_EQ(job.changes[9], "731 +0");
}

TEST(CallBudget, LetsThoseRestFirstThatNoRuleNeedsAndTheStepsLast) {
  Job job(kCpu, {1 * kMs, 7 * kMs, 9 * kMs, 2 * kMs}, {Rests::last, Rests::by_cost, Rests::by_cost, Rests::first});
  job.run(7);
  EXPECT_EQ(job.changes, (std::vector<std::string>{"3 -3", "3 -2", "3 -1"}));
  EXPECT_TRUE(job.attached(0));
  job.run(3600);
  EXPECT_EQ(job.counted[0], 3607) << "the steps are always counted";
  EXPECT_GE(job.counted[1], 800);
  EXPECT_EQ(job.counted[1], job.counted[2]) << "they rest together, and are counted together";
  EXPECT_EQ(job.counted[3], 4) << "it waits until none of the others has to rest";
}

TEST(CallBudget, LetsTheStepsRestIfTheyAloneCostTooMuch) {
  Job job(kCpu, {60 * kMs, 1 * kMs}, {Rests::last, Rests::by_cost});
  job.run(2);
  EXPECT_EQ(job.changes, (std::vector<std::string>{"0 -1", "0 -0"}));
}

TEST(CallBudget, CountsAllAgainWhenTheRateHasFallen) {
  Job job(kCpu, {7 * kMs, 2 * kMs}, {Rests::by_cost, Rests::first});
  job.run(60);
  job.cost(0, 1 * kMs);
  job.run(400);
  EXPECT_TRUE(job.attached(0) && job.attached(1));
}

TEST(CallBudget, GivesAJobThatHangsATurnOnCredit) {
  Job job(kCpu, {60 * kMs}, {Rests::by_cost});
  job.run(1);
  ASSERT_FALSE(job.attached(0));
  job.use(0);
  job.cost(0, 0);
  job.run(20);
  EXPECT_FALSE(job.attached(0)) << "a rest has its least length";
  job.run(5);
  EXPECT_TRUE(job.attached(0)) << "it earns nothing, but its calls cost nothing";
  job.run(1000);
  EXPECT_EQ(job.changes.size(), 2U);
}

TEST(CallBudget, PaysTheFunctionsThatNoRuleNeedsInAJobOfManyCpus) {
  Job job(16 * kCpu, {10 * kMs, 300 * kMs}, {Rests::by_cost, Rests::first});
  job.run(10);
  EXPECT_FALSE(job.attached(1));
  job.cost(1, 10 * kMs);
  job.run(400);
  EXPECT_TRUE(job.attached(1));
}

}  // namespace
}  // namespace reveal::tests::call_budget_test
