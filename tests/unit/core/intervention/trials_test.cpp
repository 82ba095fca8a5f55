// When a change is tried, kept and taken back, with a kind that only counts.
#include "core/intervention/trials.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/config_keys.h"
#include "job_on_host.h"

namespace reveal::tests::trials_test {
namespace {

using Texts = std::vector<std::string>;

struct Counter {
  SeenFinding sight{.finding = true, .refused = {}};
  Change change{.threads = 4, .text = "changed 4 threads"};
  Change undone{.threads = 4, .text = "changed 4 threads back"};
  int looks = 0;
  int applied = 0;
  int undos = 0;
  bool fails = false;
};
Counter counter;

class CountingKind final : public Intervention {
 public:
  SeenFinding look(const JobLoad& /*load*/) override {
    ++counter.looks;
    return counter.sight;
  }
  Change apply() override {
    ++counter.applied;
    if (counter.fails) throw std::runtime_error("half-way");
    return counter.change;
  }
  Change undo() override {
    ++counter.undos;
    return counter.undone;
  }
};

std::unique_ptr<Intervention> open_counting(const InterventionContext& /*context*/) {
  return std::make_unique<CountingKind>();
}
const RegisteredIntervention entry{{.rule = "test.counting", .open = open_counting}};

class TrialsTest : public JobOnHost {
 protected:
  TrialsTest() {
    counter = {};
    host_.last_pid(900);
    start({.pid = 500});
  }
  void open(const Texts& rules = {"test.counting"}) {
    trials_.emplace(InterventionContext{.fs = *fs_, .job = *job_, .host = machine_, .masks = masks_}, rules,
                    [this](const std::string& rule, const char* code, const std::string& text) {
                      events_.push_back(rule + ' ' + code + ": " + text);
                    });
    seconds(1, 0, 0);  // times are compared with those of the look before
  }
  void seconds(int count, double waiting, double used) {
    for (int i = 0; i < count; ++i) {
      times_.waiting_ns = std::max<std::int64_t>(times_.waiting_ns, 0) + static_cast<std::int64_t>(waiting * kSecond);
      times_.used_ns = std::max<std::int64_t>(times_.used_ns, 0) + static_cast<std::int64_t>(used * kSecond);
      times_.all_waiting_known = all_known_;
      trials_->look(second_ += kSecond, times_);
    }
  }
  void crowded(int count) { seconds(count, 3, 1); }
  void free(int count) { seconds(count, 0, 2); }

  KernelThreadMasks masks_;
  std::optional<Trials> trials_;
  Texts events_;
  JobTimes times_;
  bool all_known_ = true;
  std::int64_t second_ = 1'000 * kSecond;
};

TEST_F(TrialsTest, KeepAChangeThatHelped) {
  open();
  crowded(9);
  EXPECT_EQ(counter.applied, 0);
  crowded(1);
  EXPECT_EQ(counter.applied, 1);
  counter.sight = {};
  crowded(2);  // it takes effect
  free(9);
  EXPECT_EQ(events_, Texts{"test.counting intervention_tried: changed 4 threads"});
  free(1);
  EXPECT_EQ(events_.back(), "test.counting intervention_kept: waiting 3.00 -> 0.00, cpus used 1.00 -> 2.00");
  free(100);
  EXPECT_EQ(events_.size(), 2U);
  EXPECT_EQ(counter.undos, 0);
}

TEST_F(TrialsTest, KeepAChangeThatHelpedFewOfManyThreads) {
  open();
  seconds(10, 99, 1);
  seconds(12, 98, 2);
  EXPECT_EQ(events_.back(), "test.counting intervention_kept: waiting 99.00 -> 98.00, cpus used 1.00 -> 2.00");
}

TEST_F(TrialsTest, TakeAChangeBackThatDidNotHelpAndTryItNoMore) {
  open();
  crowded(10);
  seconds(12, 0.1, 1.05);  // less waiting, but hardly more work
  EXPECT_EQ(events_, (Texts{"test.counting intervention_tried: changed 4 threads",
                            "test.counting intervention_undone: changed 4 threads back; waiting 3.00 -> 0.10, cpus "
                            "used 1.00 -> 1.05"}));
  EXPECT_EQ(counter.undos, 1);
  crowded(100);
  EXPECT_EQ(counter.applied, 1);
}

TEST_F(TrialsTest, TakeAChangeBackThatOnlyMovedTheWaiting) {
  open();
  crowded(10);
  seconds(12, 2.9, 2);
  EXPECT_EQ(counter.undos, 1);
}

TEST_F(TrialsTest, BeginAnewWhereTheFindingWasInterrupted) {
  open();
  crowded(9);
  counter.sight.finding = false;
  crowded(1);
  counter.sight.finding = true;
  crowded(9);
  EXPECT_EQ(counter.applied, 0);
  crowded(1);
  EXPECT_EQ(counter.applied, 1);
}

TEST_F(TrialsTest, ChangeTheSameThingThreeTimesAtMost) {
  open();
  for (int i = 0; i < 4; ++i) {
    crowded(10);
    free(12);
  }
  EXPECT_EQ(counter.applied, 3);
  EXPECT_EQ(events_.back(), "test.counting intervention_refused: it was done 3 times in this job");
  const std::size_t told = events_.size();
  const int looks = counter.looks;
  crowded(100);
  EXPECT_EQ(counter.looks, looks) << "the threads of the job are read no more";
  EXPECT_EQ(events_.size(), told);
}

TEST_F(TrialsTest, GoOnWhereTheProcessesEndedMeanwhile) {
  open();
  counter.undone = {.threads = 0, .text = {}};
  crowded(10);
  seconds(61, 0, 0);
  EXPECT_EQ(events_.back(), "test.counting intervention_ended: its processes ended, or changed it themselves");
  crowded(10);
  EXPECT_EQ(counter.applied, 2);
}

TEST_F(TrialsTest, RecordARefusalOnceAndOnlyIfItLasts) {
  open();
  counter.sight.refused = "they are bound";
  crowded(5);
  counter.sight.refused = "";
  crowded(1);
  counter.sight.refused = "they are bound";
  crowded(10);
  EXPECT_TRUE(events_.empty());
  crowded(50);
  EXPECT_EQ(events_, Texts{"test.counting intervention_refused: they are bound"});
  EXPECT_EQ(counter.applied, 0);
}

TEST_F(TrialsTest, RecordWhyNothingCouldBeChanged) {
  open();
  counter.change = {.threads = 0, .text = "the kernel refused it"};
  crowded(50);
  EXPECT_EQ(events_, Texts{"test.counting intervention_refused: the kernel refused it"});
}

TEST_F(TrialsTest, TakeAChangeBackWhoseEffectCannotBeMeasured) {
  open();
  crowded(10);
  for (int i = 0; i < 61; ++i) trials_->look(second_ += kSecond, {});
  EXPECT_EQ(events_.back(),
            "test.counting intervention_withdrawn: changed 4 threads back; its effect could not be measured");
  crowded(11);
  EXPECT_EQ(counter.applied, 2) << "it may have helped";
}

TEST_F(TrialsTest, ExpectNoMoreReliefThanThereWasWaiting) {
  open();
  seconds(10, 1, 1);
  seconds(12, 0.1, 60);
  EXPECT_EQ(events_.back(), "test.counting intervention_kept: waiting 1.00 -> 0.10, cpus used 1.00 -> 60.00");
}

TEST_F(TrialsTest, JudgeByCpuTimeAloneWhereThreadsAreLeftOut) {
  all_known_ = false;
  open();
  seconds(10, 15, 1);
  seconds(12, 15, 8);
  EXPECT_EQ(events_.back(),
            "test.counting intervention_kept: cpus used 1.00 -> 8.00, waiting of all threads not known");
}

TEST_F(TrialsTest, DoNotMeasureAJobThatIsStopped) {
  open();
  crowded(12);
  free(5);
  seconds(30, 0, 0);
  free(9);
  EXPECT_EQ(events_.size(), 1U);
  free(1);
  EXPECT_EQ(events_.back(), "test.counting intervention_kept: waiting 3.00 -> 0.00, cpus used 1.00 -> 2.00");
}

TEST_F(TrialsTest, TakeAChangeBackWhenTheRecordingEnds) {
  open();
  trials_->end("the recording ended");
  EXPECT_TRUE(events_.empty());
  crowded(15);
  trials_->end("the recording ended");
  EXPECT_EQ(counter.undos, 1);
  EXPECT_EQ(events_.back(), "test.counting intervention_withdrawn: changed 4 threads back; the recording ended");
}

TEST_F(TrialsTest, KeepAChangeWhenTheRecordingEndsLater) {
  open();
  crowded(12);
  free(10);
  trials_->end("the recording ended");
  EXPECT_EQ(counter.undos, 0);
}

TEST_F(TrialsTest, TakeAChangeBackThatFailedHalfWay) {
  open();
  counter.fails = true;
  EXPECT_THROW(crowded(10), std::runtime_error);
  trials_->end("it failed");
  EXPECT_EQ(events_, Texts{"test.counting intervention_withdrawn: changed 4 threads back; it failed"});
}

TEST_F(TrialsTest, LookOnceASecond) {
  open();
  crowded(9);
  EXPECT_FALSE(trials_->is_due(second_ + kSecond - 1));
  EXPECT_TRUE(trials_->is_due(second_ + kSecond));
  for (int i = 0; i < 9; ++i) trials_->look(second_ + i * kTenth, times_);
  EXPECT_EQ(counter.applied, 0);
}

TEST(Refusals, AreAllWordsThatDoNotAllowIt) {
  for (const char* word : {"off", "no", "0", "false", "nein", "cpu.affinity_too_narrow"}) EXPECT_TRUE(refuses(word));
  for (const char* word : {"", "on", "yes", "1", "true"}) EXPECT_FALSE(refuses(word));
}

TEST_F(TrialsTest, AreNotMadeForOtherRules) {
  open({"test.unknown"});
  crowded(50);
  EXPECT_EQ(events_, Texts{"test.unknown intervention_refused: this version of reveal cannot act on it"});
  EXPECT_EQ(mistake_in(config_key("intervention", "rules"), {"cpu.affinity_too_narow"}),
            ": reveal cannot act on rule \"cpu.affinity_too_narow\"; did you mean \"cpu.affinity_too_narrow\"?");
}

}  // namespace
}  // namespace reveal::tests::trials_test
