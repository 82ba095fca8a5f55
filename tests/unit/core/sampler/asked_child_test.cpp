// The reports of a probe about its child process.
#include "core/sampler/asked_child.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "hdf5schema/trace_reader.h"
#include "test_host.h"

namespace reveal::tests::asked_child_test {
namespace {

/// Dies, answers at once, or waits for a file.
std::string die_or_wait(const std::string& /*root*/, std::string_view request) {
  if (request == "die") ::raise(SIGKILL);
  while (request.starts_with('/') && !std::filesystem::exists(request)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return "answer to " + std::string(request);
}

class ChildOfAProbe {
 public:
  explicit ChildOfAProbe(bool starts_again = true) : starts_again_(starts_again) {
    writer_.start();
    second(1);
  }
  [[nodiscard]] std::string patient_answer() {
    for (int i = 0; i < 2000; ++i) {
      if (const std::string_view text = child.answer(); !text.empty()) return std::string(text);
      if (child.state() != AskedChild::State::busy) return "";
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return "too late";
  }
  void second(std::int64_t number) { sink_.set_now(number * kSecond); }
  /// Closes the trace and returns its events.
  [[nodiscard]] std::vector<std::string> events() {
    writer_.close();
    std::vector<std::string> told;
    for (const Event& event : TraceReader(path()).events()) {
      told.push_back(event.object + ' ' + event.code + ' ' + event.text);
    }
    return told;
  }
  [[nodiscard]] std::filesystem::path file() const { return host_.root() / "file"; }
  void put_file() const { host_.write("/file", ""); }

 private:
  [[nodiscard]] std::filesystem::path path() const {
    host_.write("/traces/here", "");
    return host_.root() / "traces" / "node.h5";
  }

  bool starts_again_;
  TestHost host_;
  KernelTree fs_;
  Host constants_;
  TraceWriter writer_{path(), {.node = "here", .interval = std::chrono::milliseconds(100)}};
  TraceSink sink_{&writer_};
  ProbeContext context_{fs_, constants_, sink_, std::chrono::seconds(1)};

 public:
  AskedChild child{
      context_, die_or_wait, {.probe = "test", .object = "the disk", .text = "sda", .starts_again = starts_again_}};
};

using Events = std::vector<std::string>;

TEST(AskedChild, TellsOnceThatItWasKilled) {
  ChildOfAProbe probe;
  ASSERT_TRUE(probe.child.ask("die"));
  EXPECT_EQ(probe.patient_answer(), "");
  EXPECT_EQ(probe.child.answer(), "");
  EXPECT_THROW(probe.child.need(), Unavailable);
  EXPECT_EQ(probe.child.gaps(), "its child process was killed: there is no data after that");
  EXPECT_EQ(probe.events(), Events{"probe test probe_lost its child process was killed"});
}

TEST(AskedChild, StartsAgainAfterTenSecondsAndStatesTheGap) {
  ChildOfAProbe probe;
  probe.second(100);
  ASSERT_TRUE(probe.child.ask("die"));
  EXPECT_EQ(probe.patient_answer(), "");
  probe.second(109);
  EXPECT_EQ(probe.child.answer(), "");
  EXPECT_FALSE(probe.child.ask("one"));
  EXPECT_FALSE(probe.child.was_restarted());
  probe.second(110);
  EXPECT_EQ(probe.child.answer(), "");
  EXPECT_TRUE(probe.child.was_restarted());
  EXPECT_FALSE(probe.child.was_restarted()) << "it is told once";
  EXPECT_EQ(probe.child.gaps(), "its child process was killed: there is no data after that");
  ASSERT_TRUE(probe.child.ask("one"));
  probe.second(111);
  EXPECT_EQ(probe.patient_answer(), "answer to one");
  EXPECT_EQ(probe.child.gaps(), "its child process was killed: there is no data for 11 s");
  EXPECT_EQ(probe.events(), (Events{"probe test probe_lost its child process was killed",
                                    "probe test probe_restarted its child process was started again"}));
}

TEST(AskedChild, StartsAgainThreeTimesAnHour) {
  ChildOfAProbe probe;
  const auto dies = [&probe](std::int64_t second) {
    probe.second(second);
    ASSERT_TRUE(probe.child.ask("die"));
    EXPECT_EQ(probe.patient_answer(), "");
  };
  const auto starts_again = [&probe](std::int64_t second) {
    probe.second(second);
    static_cast<void>(probe.child.answer());
    return probe.child.state() == AskedChild::State::idle;
  };
  for (const std::int64_t second : {100, 200, 300}) {
    dies(second);
    EXPECT_TRUE(starts_again(second + 10));
  }
  dies(400);
  EXPECT_FALSE(starts_again(410));
  EXPECT_FALSE(starts_again(110 + 3599));
  EXPECT_TRUE(starts_again(110 + 3600));
  ASSERT_TRUE(probe.child.ask("one"));
  EXPECT_EQ(probe.patient_answer(), "answer to one");
  EXPECT_EQ(probe.child.gaps(), "its child process was killed 4 times: there is no data for 3610 s");
  dies(5000);
  EXPECT_EQ(probe.child.gaps(),
            "its child process was killed 5 times: there is no data for 3610 s, and none after the last time");
}

TEST(AskedChild, IsNotStartedAgainWhereItCannotGoOn) {
  ChildOfAProbe probe(false);
  ASSERT_TRUE(probe.child.ask("die"));
  EXPECT_EQ(probe.patient_answer(), "");
  probe.second(5000);
  EXPECT_EQ(probe.child.answer(), "");
  EXPECT_EQ(probe.child.state(), AskedChild::State::lost);
  EXPECT_EQ(probe.child.gaps(), "its child process was killed: there is no data after that");
}

/// It has not answered for 5 s, and then is found killed.
void hang_and_die(ChildOfAProbe& probe) {
  probe.second(100);
  ASSERT_TRUE(probe.child.ask("die"));
  probe.second(105);
  EXPECT_TRUE(probe.child.hangs());
  EXPECT_EQ(probe.patient_answer(), "");
}

TEST(AskedChild, ThatHungWhenItWasKilledAnswersAgainWhenItsSuccessorDoes) {
  ChildOfAProbe probe;
  hang_and_die(probe);
  probe.second(115);
  EXPECT_EQ(probe.child.answer(), "");
  EXPECT_FALSE(probe.child.hangs());
  ASSERT_TRUE(probe.child.ask("one"));
  EXPECT_EQ(probe.child.answer_within(std::chrono::seconds(10)), "answer to one");
  EXPECT_FALSE(probe.child.hangs());
  EXPECT_EQ(probe.events(),
            (Events{"the disk not_answering sda", "probe test probe_lost its child process was killed",
                    "probe test probe_restarted its child process was started again", "the disk answering sda"}));
}

TEST(AskedChild, ThatIsKilledWhileItHangsDoesNotAnswerAgain) {
  ChildOfAProbe probe;
  hang_and_die(probe);
  EXPECT_FALSE(probe.child.hangs());
  EXPECT_EQ(probe.events(),
            (Events{"the disk not_answering sda", "probe test probe_lost its child process was killed"}));
}

TEST(AskedChild, TellsWhenItHangsAndWhenItAnswersAgain) {
  ChildOfAProbe probe;
  probe.second(100);
  ASSERT_TRUE(probe.child.ask(probe.file().string()));
  EXPECT_FALSE(probe.child.hangs());
  probe.second(105);
  EXPECT_EQ(probe.child.answer(), "");
  EXPECT_TRUE(probe.child.hangs());
  probe.second(106);
  EXPECT_TRUE(probe.child.hangs());
  probe.put_file();
  EXPECT_EQ(probe.patient_answer(), "answer to " + probe.file().string());
  EXPECT_FALSE(probe.child.hangs());
  EXPECT_EQ(probe.events(), (Events{"the disk not_answering sda", "the disk answering sda"}));
}

TEST(AskedChild, IsNotDueBeforeItsPauseIsOver) {
  ChildOfAProbe probe;
  EXPECT_TRUE(probe.child.is_due());
  probe.second(100);
  ASSERT_TRUE(probe.child.ask("one"));
  probe.child.pause(20e9);
  probe.child.pause(10e9);
  probe.second(119);
  EXPECT_FALSE(probe.child.is_due());
  probe.second(120);
  EXPECT_TRUE(probe.child.is_due());
  EXPECT_EQ(probe.child.longest_pause_ns(), 20 * kSecond);
  probe.child.pause(1e30);
  EXPECT_EQ(probe.child.longest_pause_ns(), 3600 * kSecond) << "no recording stops it for good";
}

TEST(AskedChild, TellsTheAnswerToTheFirstRequestAgain) {
  ChildOfAProbe probe;
  EXPECT_EQ(probe.child.open("one", std::chrono::seconds(10)), "answer to one");
  EXPECT_EQ(probe.child.answer(), "answer to one");
  EXPECT_EQ(probe.child.answer(), "");
  EXPECT_EQ(ChildOfAProbe().child.open("/nowhere/at/all", std::chrono::milliseconds(1)), "");
}

TEST(AskedChild, CountsAnswersThatWereNotWholeAndTellsEachReasonOnce) {
  ChildOfAProbe probe;
  EXPECT_EQ(probe.child.gaps(), "");
  probe.child.note_gap("  refused\nmore");
  probe.child.note_gap("refused");
  probe.child.note_gap("cut off");
  EXPECT_EQ(probe.child.gaps(), "3 readings were incomplete: cut off");
  EXPECT_EQ(probe.events(), (Events{"probe test gap refused", "probe test gap cut off"}));
}

}  // namespace
}  // namespace reveal::tests::asked_child_test
