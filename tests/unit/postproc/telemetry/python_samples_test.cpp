#include "postproc/telemetry/python_samples.h"

#include <gtest/gtest.h>

#include "hdf5schema/basics/clocks.h"

namespace reveal::tests::python_samples_test {
namespace {

Event row(std::int64_t seconds, std::string process, std::string text) {
  return {seconds * kSecond, std::move(process), "python_frames", std::move(text)};
}

TEST(PythonSamples, AreALetterForEachSecondBeforeTheEvent) {
  const std::vector<Event> events = {
      row(110, "rank1", "1s aab-? a=load(data.py:88) b=train(train.py:40)>wait(threading.py:320)"),
      row(120, "rank0", "1s a a=<module>(<string>:1)"),
      row(122, "rank1", "500ms ba a=load(data.py:88) b=step(train.py:41)"),
      {130 * kSecond, "process 7", "process_begin", "1s a a=load(data.py:88)"},
  };
  const std::vector<PythonSamples> found = python_samples(events);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].process, "rank0");
  EXPECT_EQ(found[0].places, std::vector<std::string>{"<module> (<string>:1)"});
  EXPECT_EQ(found[0].samples.at(0).time_ns, 119 * kSecond);
  const PythonSamples& rank = found[1];
  EXPECT_EQ(rank.places,
            (std::vector<std::string>{"load (data.py:88)", "train (train.py:40), in wait (threading.py:320)",
                                      "step (train.py:41)"}));
  ASSERT_EQ(rank.samples.size(), 6U);
  EXPECT_EQ(rank.unread, std::vector<std::int64_t>{108 * kSecond});
  const std::int64_t times[] = {105'000, 106'000, 107'000, 109'000, 121'000, 121'500};  // ms
  const std::int32_t places[] = {0, 0, 1, PythonSamples::kElsewhere, 2, 0};
  for (std::size_t i = 0; i < rank.samples.size(); ++i) {
    EXPECT_EQ(rank.samples[i].time_ns, times[i] * 1'000'000) << i;
    EXPECT_EQ(rank.samples[i].place, places[i]) << i;
  }
}

/// Two minutes of one second in "load" after another in "step", and from 60 s to 70 s only "load". These ten seconds
/// are a letter each, or a letter each tenth.
std::vector<Event> two_minutes(bool faster) {
  std::string usual(60, 'a');
  for (std::size_t i = 1; i < usual.size(); i += 2) usual[i] = 'b';
  const std::string places = " a=load(data.py:88) b=step(train.py:40)";
  std::vector<Event> events = {row(60, "rank0", "1s " + usual + places)};
  if (faster) {
    events.push_back(row(65, "rank0", "100ms " + std::string(50, 'a') + places));
    events.push_back(row(70, "rank0", "100ms " + std::string(50, 'a') + places));
  } else {
    events.push_back(row(70, "rank0", "1s aaaaaaaaaa" + places));
  }
  events.push_back(row(120, "rank0", "1s " + usual.substr(0, 50) + places));
  return events;
}

TEST(PythonSamples, WeighAsMuchAsTheTimeForWhichTheyStand) {
  for (const bool faster : {false, true}) {
    const std::vector<PythonSamples> found = python_samples(two_minutes(faster));
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].samples.size(), faster ? 210U : 120U);
    double load = 0;
    double all = 0;
    for (const PythonSamples::Sample& sample : found[0].samples) {
      all += sample.weight;
      if (sample.place == 0) load += sample.weight;
    }
    EXPECT_NEAR(all, 120, 1e-9) << faster;
    EXPECT_NEAR(load, 65, 1e-9) << faster;
  }
}

TEST(PythonSamples, ThatFollowEachOtherFastWeighNoMoreThanTheTimeToTheNext) {
  const auto found = python_samples(
      std::vector<Event>{row(10, "rank0", "1s aaa a=f(x.py:1)"), row(10, "rank0", "500ms a- a=f(x.py:1)")});
  ASSERT_EQ(found.at(0).samples.size(), 4U);
  const double weights[] = {1, 1, 0, 0.5};  // at 7 s, 8 s, 9 s and 9 s
  for (std::size_t i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(found[0].samples[i].weight, weights[i]) << i;
}

TEST(PythonSamples, OfADamagedTraceAreLeftOut) {
  for (const char* text : {"", "1s", "a a=f(x.py:1)", "0s a a=f(x.py:1)", "-1s a a=f(x.py:1)", "100h a a=f(x.py:1)",
                           "1s ---", "1s - a=f(x.py:1)"}) {
    EXPECT_TRUE(python_samples(std::vector<Event>{row(5, "rank0", text)}).empty()) << text;
  }
  EXPECT_TRUE(python_samples(std::vector<Event>{row(5, "", "1s a a=f(x.py:1)")}).empty());
  for (const std::int64_t time : {INT64_MIN, INT64_MAX}) {
    EXPECT_TRUE(python_samples(std::vector<Event>{{time, "rank0", "python_frames", "1h a a=f(x.py:1)"}}).empty());
  }
  // The text that the collector appends when it left rows out is no place.
  const auto found = python_samples(std::vector<Event>{row(5, "rank0", "1s ab a=f(x.py:1) (3 before it left out)")});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].places, std::vector<std::string>{"f (x.py:1)"});
  EXPECT_EQ(found[0].samples.at(1).place, PythonSamples::kElsewhere);
}

TEST(PythonSamples, ShowNoTerminalWhatItMustNotSee) {
  EXPECT_EQ(shown_place("f\x1b[2J(x.py:1)").find('\x1b'), std::string::npos);
  EXPECT_EQ(shown_place("no brackets"), "no brackets");
  EXPECT_EQ(shown_place(""), "");
}

}  // namespace
}  // namespace reveal::tests::python_samples_test
