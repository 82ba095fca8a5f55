// The lines of a report of traces that are analysed anew, or were by the report before.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "postproc/analysis/job_report.h"
#include "postproc/analysis/job_summaries.h"
#include "postproc/telemetry/node_folders.h"
#include "tests/unit/hdf5schema/sample_trace.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::report_lines_test {
namespace {

namespace fs = std::filesystem;

class ReportLines : public testing::Test {
 protected:
  /// Two channels of n01 that each report draws.
  void write_trace(const std::string& name, std::int64_t seconds) const {
    constexpr std::int64_t kStep = 1'000'000'000;
    const fs::path path = directory_.path() / name;
    fs::create_directories(path.parent_path());
    TraceHeader header = sample_header();
    header.interval = std::chrono::nanoseconds(kStep);
    header.begin_utc_ns += seconds * kStep;  // another recording, another begin
    const fs::path whole = directory_.path() / "new" / "n01.h5";
    fs::create_directory(whole.parent_path());
    TraceWriter writer(whole, header);
    FamilySpec levels = gauge_family("job/levels", std::chrono::nanoseconds(kStep));
    levels.unit = Unit::ratio;
    const auto family = writer.add_family(levels);
    for (const char* metric : {"cpu.utilization", "job.cpu_time"}) writer.add_channel(family, {.metric = metric});
    writer.start();
    for (std::int64_t tick = 0; tick <= seconds; ++tick) {
      writer.append_row(family, kStep + tick * kStep, std::vector<std::int64_t>{tick % 7, tick % 5});
      if (tick % 10 == 9) wait_until_flushed(writer, kStep + tick * kStep);
    }
    writer.close();
    fs::rename(whole, path);
  }

  /// The summary that the report takes.
  [[nodiscard]] NodeSummary longest() const {
    std::vector<InputProblem> problems;
    const std::vector<NodeSummary> summaries = summaries_of(list_traces(directory_.path()), options_, problems);
    return *std::max_element(summaries.begin(), summaries.end(),
                             [](const NodeSummary& a, const NodeSummary& b) { return a.seconds < b.seconds; });
  }

  void expect_lines(std::size_t seconds) const {
    for (int report = 1; report <= 4; ++report) {
      std::vector<InputProblem> problems;
      const Report built = build_report(directory_.path(), options_, problems);
      ASSERT_EQ(built.timeline.size(), 2U) << "report " << report;
      for (const TimelineChannel& line : built.timeline) EXPECT_EQ(line.values.size(), seconds) << "report " << report;
      EXPECT_FALSE(built.omitted.contains("timelines"));
    }
  }

  const TemporaryDirectory directory_;
  const ReportOptions options_{.threads = 1};
};

TEST_F(ReportLines, OfOneTraceAreReadAgainFromItsSummary) {
  write_trace("n01.h5", 120);
  for (const char* when : {"analysed anew", "stored"}) {
    const std::vector<TimelineChannel> lines = longest().part.timeline;
    ASSERT_EQ(lines.size(), 2U) << when;
    for (const TimelineChannel& line : lines) EXPECT_TRUE(line.values.empty()) << when;
  }
  expect_lines(120);
}

TEST_F(ReportLines, StayInMemoryWhereTheSummaryIsNotWritten) {
  write_trace("n01.h5", 120);
  std::vector<InputProblem> problems;
  const ReportOptions options{.publish = false, .threads = 1};
  const std::vector<TimelineChannel> lines = build_report(directory_.path(), options, problems).timeline;
  ASSERT_EQ(lines.size(), 2U);
  for (const TimelineChannel& line : lines) EXPECT_EQ(line.values.size(), 120U);
}

TEST_F(ReportLines, OfTwoTracesThatShareASummaryAreNotLost) {
  write_trace("n01.h5", 120);
  write_trace("n01.h5.part", 60);
  expect_lines(120);
}

TEST_F(ReportLines, OfATraceThatIsInAFolderTooAreNotLost) {
  write_trace("n01.h5", 60);
  write_trace(node_folder("n01") + "/n01.h5", 120);
  expect_lines(120);
}

TEST_F(ReportLines, AreNotLostWhereASecondTraceCameAfterAPartOfAMerge) {
  write_trace("n01.h5.part", 120);
  std::vector<InputProblem> problems;
  ASSERT_EQ(write_merge_part(directory_.path(), {}, options_, problems), 1U);
  write_trace("n01.h5", 60);
  expect_lines(120);
}

}  // namespace
}  // namespace reveal::tests::report_lines_test
