// The report of one node alone.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "hdf5schema/basics/error.h"
#include "postproc/analysis/job_report.h"
#include "postproc/analysis/node_analysis.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::node_report_test {
namespace {

namespace fs = std::filesystem;

class NodeReport : public testing::Test {
 protected:
  void write_node(const std::string& node) {
    std::ofstream(directory_.path() / (node + ".h5")) << "the trace of " << node;
    const ListedTrace trace = traces_of_node(directory_.path(), node).at(0);
    NodeSummary summary;
    summary.node = node;
    summary.config_hash = config_hash(options_.settings);
    summary.trace = trace.path.filename().string();
    summary.trace_bytes = trace.bytes;
    summary.trace_mtime_ns = trace.mtime_ns;
    summary.seconds = 60;
    summary.expected_nodes = "n[01-03]";
    summary.part.job.begin_utc_ns = 1'700'000'000'000'000'000;
    summary.part.job.end_utc_ns = 1'700'000'060'000'000'000;
    summary.profile.block_ns = summary.profile.sparkline_step_ns = 1'000'000'000;
    publish_summary(trace.path, summary);
  }

  const TemporaryDirectory directory_;
  ReportOptions options_{.now_utc_ns = 1'800'000'000'000'000'000, .threads = 1};
};

TEST_F(NodeReport, IsMadeWithoutTheFilesOfOtherNodes) {
  write_node("n01");
  for (const char* unreadable : {"n02.h5", "n02.summary.json", "n03.h5.part"}) {
    ASSERT_EQ(::mkfifo((directory_.path() / unreadable).c_str(), 0600), 0);
  }
  std::vector<InputProblem> problems;
  const Report report = build_node_report(directory_.path(), "n01", options_, problems);
  EXPECT_EQ(report.job.nodes, std::vector<std::string>{"n01"});
  EXPECT_TRUE(report.job.nodes_missing.empty()) << "it does not look for other nodes";
  EXPECT_TRUE(problems.empty());
  EXPECT_FALSE(fs::exists(directory_.path() / "report.json")) << "it is not the job's";
}

TEST_F(NodeReport, OfANodeWithoutATraceIsNone) {
  write_node("n01");
  std::vector<InputProblem> problems;
  EXPECT_THROW(static_cast<void>(build_node_report(directory_.path(), "n02", options_, problems)), Error);
  std::ofstream(directory_.path() / "n02.h5") << "no trace";
  EXPECT_THROW(static_cast<void>(build_node_report(directory_.path(), "n02", options_, problems)), Error);
}

TEST_F(NodeReport, IsStoredIfTheReportIsYoungerThanTheFilesOfTheNode) {
  write_node("n01");
  write_node("n02");
  EXPECT_FALSE(report_is_fresh(directory_.path(), "n01"));
  std::ofstream(directory_.path() / "report.json") << "{}";
  const auto written = fs::last_write_time(directory_.path() / "report.json");
  fs::last_write_time(directory_.path() / "n02.summary.json", written + std::chrono::seconds(1));
  EXPECT_TRUE(report_is_fresh(directory_.path(), "n01"));
  EXPECT_FALSE(report_is_fresh(directory_.path(), "n02"));
  EXPECT_FALSE(report_is_fresh(directory_.path()));
  EXPECT_TRUE(report_is_fresh(directory_.path(), "n03")) << "it has no file here";
}

TEST_F(NodeReport, IsForJobsOfMoreNodesThanANumber) {
  EXPECT_FALSE(has_more_traces_than(directory_.path(), 0));
  for (const char* name : {"n01.h5", "n02.h5.part", "n01.summary.json", "report.json"}) {
    std::ofstream(directory_.path() / name) << "";
  }
  EXPECT_TRUE(has_more_traces_than(directory_.path(), 1));
  EXPECT_FALSE(has_more_traces_than(directory_.path(), 2));
  EXPECT_THROW(static_cast<void>(has_more_traces_than(directory_.path() / "none", 0)), Error);
}

}  // namespace
}  // namespace reveal::tests::node_report_test
