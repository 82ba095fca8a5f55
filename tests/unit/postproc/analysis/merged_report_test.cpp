#include "postproc/analysis/merged_report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace reveal::tests::merged_report_test {
namespace {

/// Nodes with the lines a, b, c and d in their files. The primary finding names n4, and has its line d as evidence.
class TimelinesInFiles : public testing::Test {
 protected:
  TimelinesInFiles() {
    for (int i = 1; i <= 40; ++i) {
      NodeSummary summary;
      summary.node = "n" + std::to_string(i);
      summary.part.job.begin_utc_ns = i * 1'000'000'000LL;
      summary.part.timeline = lines_of(summary.node);
      leave_points_in_file(summary);
      summaries_.push_back(std::move(summary));
    }
    report_.job.begin_utc_ns = 1'000'000'000;
    Finding finding;
    finding.nodes = {"n4"};
    finding.evidence = {{.metric = "d", .instance = "", .node = "n4"}};
    report_.findings = {finding};
  }

  static std::vector<TimelineChannel> lines_of(const std::string& node) {
    std::vector<TimelineChannel> lines;
    for (const char* name : {"a", "b", "c", "d"}) lines.push_back({.node = node, .name = name, .values = {1, 2}});
    return lines;
  }

  /// The lines as "n4 d".
  std::vector<std::string> drawn(const LinesOfNode& again) {
    draw_timelines(summaries_, again, report_);
    std::vector<std::string> names;
    for (const TimelineChannel& line : report_.timeline) names.push_back(line.node + " " + line.name);
    return names;
  }

  using Names = std::vector<std::string>;
  std::vector<NodeSummary> summaries_;
  Report report_;
};

TEST_F(TimelinesInFiles, AreDrawnInTheOrderOfThoseInMemory) {
  Names read;
  const Names names = drawn([&](const NodeSummary& summary) {
    read.push_back(summary.node);
    return lines_of(summary.node);
  });
  EXPECT_EQ(names,
            (Names{"n4 d", "n4 a", "n4 b", "n4 c", "n1 a", "n1 b", "n1 c", "n1 d", "n2 a", "n2 b", "n2 c", "n2 d"}));
  EXPECT_EQ(read, (Names{"n4", "n1", "n2"})) << "each once";
  for (const TimelineChannel& line : report_.timeline) EXPECT_EQ(line.values.size(), 2U);
  EXPECT_EQ(report_.timeline.front().begin_seconds, 3);
  EXPECT_FALSE(report_.omitted.contains("timelines"));
}

TEST_F(TimelinesInFiles, AreFoundByTheirNames) {
  const Names names = drawn([](const NodeSummary& summary) {
    std::vector<TimelineChannel> lines = lines_of(summary.node);
    std::reverse(lines.begin(), lines.end());
    lines.pop_back();  // a
    return lines;
  });
  EXPECT_EQ(names, (Names{"n4 d", "n4 b", "n4 c", "n1 b", "n1 c", "n1 d", "n2 b", "n2 c", "n2 d"}));
  EXPECT_EQ(report_.omitted.at("timelines"), 3);
}

TEST_F(TimelinesInFiles, AreNotReplacedByThoseOfMoreFiles) {
  for (NodeSummary& summary : summaries_) summary.part.timeline.resize(1);
  report_.findings.clear();
  std::size_t read = 0;
  const Names names = drawn([&read](const NodeSummary& summary) {
    ++read;
    return summary.node == "n12" ? lines_of(summary.node) : std::vector<TimelineChannel>();
  });
  EXPECT_EQ(names, Names{"n12 a"});
  EXPECT_EQ(read, kMostTimelines);
  EXPECT_EQ(report_.omitted.at("timelines"), kMostTimelines - 1);
}

}  // namespace
}  // namespace reveal::tests::merged_report_test
