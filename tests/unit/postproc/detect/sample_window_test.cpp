#include "postproc/detect/pipelines/sample_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace reveal::tests::sample_window_test {
namespace {

Telemetry job_of(std::size_t channels) {
  return {.node = "n1", .step_seconds = 0.1, .channels = std::vector<Channel>(channels)};
}

/// Mostly zeros, in long stretches; other values in each round, and in each of them other channels that are zero.
double value_at(std::size_t round, std::size_t channel, std::size_t sample) {
  if ((channel + round) % 4 == 0) return 0;
  return (channel + sample / 700 + round) % 3 == 0 ? static_cast<double>(1000 * round + channel + sample % 7) : 0;
}

void fill(std::size_t round, std::size_t from, SampleWindow& window) {
  constexpr std::size_t kPiece = 300;
  for (std::size_t at = from; at < window.telemetry().samples; at += kPiece) {
    for (std::size_t c = 0; c < window.telemetry().channels.size(); ++c) {
      std::vector<double> values(std::min(kPiece, window.telemetry().samples - at));
      for (std::size_t t = 0; t < values.size(); ++t) values[t] = value_at(round, c, at + t);
      window.put(c, at, values);
    }
  }
}

void expect_round(std::size_t round, std::size_t from, std::size_t moved, const SampleWindow& window) {
  for (std::size_t c = 0; c < window.telemetry().channels.size(); ++c) {
    const auto row = window.telemetry().series(c);
    for (std::size_t t = from; t < row.size(); ++t) ASSERT_EQ(row[t], value_at(round, c, t + moved)) << c << " " << t;
  }
}

TEST(SampleWindow, HoldsItsOwnSamplesInMemoryOfOthersOfAnyShape) {
  WindowPool pool;
  std::size_t round = 1;
  struct Shape {
    std::size_t channels, samples;
  };
  for (const auto [channels, samples] : {Shape{10, 5000},
                                         {10, 5000},
                                         {11, 5000},
                                         {9, 5000},
                                         {10, 5001},
                                         {40, 1200},
                                         {45, 1200},
                                         {10, 5000},
                                         {3, 700},
                                         {200, 5000},
                                         {190, 5000}}) {
    SampleWindow window(pool, job_of(channels), 1, samples);
    fill(round, 0, window);
    expect_round(round, 0, 0, window);
    pool.give(std::move(window));
    ++round;
  }
}

TEST(SampleWindow, KeepsItsLastSamplesForTheNextBlock) {
  WindowPool pool;
  SampleWindow window(pool, job_of(10), 10, 5000);
  EXPECT_EQ(window.telemetry().step_seconds, 1);
  fill(1, 0, window);
  window.keep_last(1400);
  for (std::size_t c = 0; c < 10; ++c) {
    const auto row = window.telemetry().series(c);
    for (std::size_t t = 0; t < 1400; ++t) ASSERT_EQ(row[t], value_at(1, c, 3600 + t)) << c << " " << t;
  }
  fill(2, 1400, window);
  expect_round(2, 1400, 0, window);
}

TEST(SampleWindow, FindsNothingInThePoolOfWindowsThatAreMuchLarger) {
  WindowPool pool;
  pool.give(SampleWindow(pool, job_of(100), 1, 5000));
  const SampleWindow small(pool, job_of(1), 1, 5000);
  EXPECT_LT(small.telemetry().values.capacity(), 10'000U);
}

}  // namespace
}  // namespace reveal::tests::sample_window_test
