// The file that pruning of several jobs writes for the next one.
#include "postproc/detect/paper/retained_metrics.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "postproc/telemetry/derived.h"

namespace reveal::tests::retained_metrics_test {
namespace {

using Lines = std::vector<std::string>;
using Unmoved = RetainedMetrics::Unmoved;

struct Course {
  Channel channel;
  std::function<double(std::size_t)> value;
};

Telemetry node(const std::vector<Course>& courses) {
  Telemetry t{.samples = 200};
  for (const Course& course : courses) {
    t.channels.push_back(course.channel);
    for (std::size_t s = 0; s < t.samples; ++s) t.values.push_back(course.value(s));
  }
  return t;
}

/// Noise of a generator's own: of two numbers, two courses that are strangers.
std::function<double(std::size_t)> noise(std::uint64_t number) {
  return [engine = std::mt19937_64(number)](std::size_t) mutable { return static_cast<double>(engine() % 1000); };
}

std::function<double(std::size_t)> still() {
  return [](std::size_t) { return 7.0; };
}

Channel on(const std::string& metric, const std::string& instance = "", Scope scope = Scope::node) {
  return {.metric = metric, .instance = instance, .scope = scope};
}

TEST(RetainedMetrics, AreOneOfThoseThatMoveTogetherAndWhatNeverMoved) {
  RetainedMetrics retained;
  retained.add_workload({node({{on("irq.LOC"), noise(1)}, {on("cpu.user"), noise(1)}, {on("net.errors"), still()}})});
  EXPECT_EQ(retained.lines(Unmoved::kept), (Lines{"cpu.user", "net.errors"}));
  EXPECT_EQ(retained.lines(Unmoved::dropped), Lines{"cpu.user"});
  EXPECT_EQ(retained.count().moved, 2U);
  EXPECT_EQ(retained.count().retained, 1U);
  EXPECT_EQ(retained.count().unmoved, 1U);
}

TEST(RetainedMetrics, AreTheUnionOverWorkloads) {
  RetainedMetrics retained;
  retained.add_workload({node({{on("irq.LOC"), noise(1)}, {on("cpu.user"), noise(1)}})});
  retained.add_workload({node({{on("irq.LOC"), noise(1)}, {on("cpu.user"), noise(2)}})});
  EXPECT_EQ(retained.lines(Unmoved::kept), (Lines{"cpu.user", "irq.LOC"}));
}

TEST(RetainedMetrics, ForgetNothingThatMovedInOneWorkloadAndWasRedundantThere) {
  RetainedMetrics retained;
  retained.add_workload({node({{on("irq.LOC"), still()}, {on("cpu.user"), noise(1)}})});
  retained.add_workload({node({{on("irq.LOC"), noise(1)}, {on("cpu.user"), noise(1)}})});
  EXPECT_EQ(retained.lines(Unmoved::kept), Lines{"cpu.user"});
}

TEST(RetainedMetrics, AverageTheCorrelationOverTheNodes) {
  const Telemetry together = node({{on("irq.LOC"), noise(1)}, {on("cpu.user"), noise(1)}});
  const Telemetry apart = node({{on("irq.LOC"), noise(1)}, {on("cpu.user"), noise(2)}});
  RetainedMetrics most;  // mean |r| about two thirds
  most.add_workload({together, together, apart});
  EXPECT_EQ(most.lines(Unmoved::kept), Lines{"cpu.user"});
  RetainedMetrics few;  // about a third
  few.add_workload({together, apart, apart});
  EXPECT_EQ(few.lines(Unmoved::kept), (Lines{"cpu.user", "irq.LOC"}));
}

TEST(RetainedMetrics, NameInstancesWhereOnlySomeAreKept) {
  RetainedMetrics retained;
  retained.add_workload({node({{on("cpu.user", "cpu0", Scope::cpu), noise(1)},
                               {on("cpu.user", "cpu1", Scope::cpu), noise(1)},
                               {on("cpu.idle", "cpu0", Scope::cpu), noise(2)},
                               {on("cpu.idle", "cpu1", Scope::cpu), noise(3)}})});
  EXPECT_EQ(retained.lines(Unmoved::kept), (Lines{"cpu.idle", "cpu.user/cpu0"}));
}

TEST(RetainedMetrics, NeverNameOneRankOfAJob) {
  RetainedMetrics retained;
  retained.add_workload({node({{on("process.rss", "rank0", Scope::process), noise(1)},
                               {on("process.rss", "rank1", Scope::process), noise(1)},
                               {on("process.run_time", "rank0", Scope::process), noise(1)}})});
  EXPECT_EQ(retained.lines(Unmoved::kept), Lines{"process.rss"});
}

TEST(RetainedMetrics, LeaveRevealItselfOut) {
  Channel own = on("self.cpu");
  own.subsystem = Subsystem::self;
  RetainedMetrics retained;
  retained.add_workload({node({{own, noise(1)}, {on("cpu.user"), noise(1)}})});
  EXPECT_EQ(retained.lines(Unmoved::kept), Lines{"cpu.user"});
}

TEST(RetainedMetrics, LeaveOutWhatIsComputedFromOtherChannels) {
  Channel computed = on("cpu.utilization");
  computed.family = kDerivedFamily;
  RetainedMetrics retained;
  retained.add_workload({node({{computed, noise(1)}, {on("mem.dirty"), noise(1)}})});
  EXPECT_EQ(retained.lines(Unmoved::kept), Lines{"mem.dirty"});
}

TEST(RetainedMetrics, OfNothingAreNothing) {
  RetainedMetrics retained;
  EXPECT_TRUE(retained.lines(Unmoved::kept).empty());
  retained.add_workload({});
  EXPECT_TRUE(retained.lines(Unmoved::kept).empty());
}

}  // namespace
}  // namespace reveal::tests::retained_metrics_test
