#include "postproc/analysis/faster_readings.h"

#include <gtest/gtest.h>

#include <limits>

#include "hdf5schema/basics/clocks.h"

namespace reveal::tests::faster_readings_test {
namespace {

constexpr std::int64_t kBegin = 1'700'000'000 * kSecond;  // UTC of monotonic 0: 22:13:20

NodeTrace trace_with(std::vector<Event> events) {
  NodeTrace trace;
  trace.telemetry.node = "n01";
  trace.utc_minus_monotonic_ns = kBegin;
  trace.events = std::move(events);
  return trace;
}

TEST(FasterReadings, AreAddedUpFromTheMarksOfATrace) {
  const auto faster =
      faster_reading_of(trace_with({{10 * kSecond, "reveal", "faster_begin", "tcp_peers python"},
                                    {11 * kSecond, "process 7", "process_begin", "rank0 python3"},
                                    {13 * kSecond, "reveal", "faster_end", "3.0 s, 300 additional readings, 12.3 ms"},
                                    {20 * kSecond, "reveal", "faster_begin", "tcp_peers process_numa"},
                                    {21 * kSecond, "reveal", "faster_end", "1.0 s, 80 additional readings, 2.3 ms"}}));
  ASSERT_TRUE(faster.has_value());
  EXPECT_EQ(faster->node, "n01");
  EXPECT_EQ(faster->intervals, 2);
  EXPECT_DOUBLE_EQ(faster->seconds, 4);
  EXPECT_EQ(faster->readings, 380);
  EXPECT_EQ(faster->from_first_to_last, (TimeSpan{kBegin + 10 * kSecond, kBegin + 21 * kSecond}));
  EXPECT_EQ(faster->probes, (std::vector<std::string>{"tcp_peers", "python", "process_numa"}));
}

TEST(FasterReadings, AreNoneWithoutMarks) {
  EXPECT_FALSE(faster_reading_of(trace_with({})).has_value());
  EXPECT_FALSE(faster_reading_of(trace_with({{10 * kSecond, "reveal", "faster_end", "3.0 s"}})).has_value());
  EXPECT_FALSE(faster_reading_of(trace_with({{10 * kSecond, "reveal", "faster_begin", "python"}})).has_value())
      << "the trace was cut off";
}

TEST(FasterReadings, AreBoundedWhateverATraceSays) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const auto faster =
      faster_reading_of(trace_with({{-kMost, "reveal", "faster_begin", "a b c d e f g h i j " + std::string(5000, 'x')},
                                    {kMost, "reveal", "faster_end", "x, 99999999999999999999 additional readings"},
                                    {10, "reveal", "faster_begin", ""},
                                    {11, "reveal", "faster_end", "3.0 s, -5 additional readings"},
                                    {13, "reveal", "faster_begin", ""},
                                    {12, "reveal", "faster_end", ""}}));
  ASSERT_TRUE(faster.has_value());
  EXPECT_EQ(faster->intervals, 2);
  EXPECT_LE(faster->readings, 1e9);
  EXPECT_EQ(faster->probes.size(), 8U);
}

TEST(FasterReadings, AreALineOfTheWholeReportAndNotOfThePage) {
  Report report;
  report.job.nodes = {"n01"};
  report.faster.push_back({.node = "n01",
                           .intervals = 2,
                           .seconds = 4,
                           .readings = 380,
                           .from_first_to_last = {kBegin + 10 * kSecond, kBegin + 21 * kSecond},
                           .probes = {"tcp_peers", "python", "another"}});
  TextStyle style;
  style.width = 300;
  EXPECT_EQ(render_text(report, style).find("read faster"), std::string::npos);
  style.part = TextPart::everything;
  EXPECT_NE(
      render_text(report, style)
          .find("n01 for 4.0 s in 2 intervals from 22:13:30 to 22:13:41 UTC (380 additional readings): TCP by peer, "
                "Python frames, another"),
      std::string::npos)
      << render_text(report, style);
  EXPECT_NE(render_html(report).find("380 additional readings"), std::string::npos);
  const std::string json = render_json(report);
  EXPECT_NE(json.find("\"faster_reading\": ["), std::string::npos);
  EXPECT_EQ(parse_report(json).faster, report.faster);
}

}  // namespace
}  // namespace reveal::tests::faster_readings_test
