// The report of a job with folders of nodes, in a directory that is called like one, and with one that cannot be read.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>

#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/error.h"
#include "postproc/analysis/job_report.h"
#include "postproc/analysis/job_summaries.h"
#include "postproc/analysis/node_analysis.h"
#include "postproc/telemetry/node_folders.h"
#include "spmd_job.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::unread_folder_test {
namespace {

namespace fs = std::filesystem;

/// Four nodes, of which the second lies in a folder. All is in summaries.
class UnreadNodes : public testing::Test {
 protected:
  UnreadNodes() {
    SpmdJob job{.nodes = 4, .own_time = true};
    for (NodeProfile& profile : job.record()) {
      const fs::path folder = profile.node == "n0002" ? folder_ : job_;
      fs::create_directories(folder);
      std::ofstream(folder / (profile.node + ".h5")) << "the trace of " << profile.node;
      const ListedTrace trace = traces_of_node(job_, profile.node).at(0);
      NodeSummary summary;
      summary.node = profile.node;
      summary.config_hash = config_hash(options_.settings);
      summary.trace = trace.path.filename().string();
      summary.trace_bytes = trace.bytes;
      summary.trace_mtime_ns = trace.mtime_ns;
      summary.seconds = profile.seconds();
      summary.boot_id = "boot of " + profile.node;
      summary.expected_nodes = expected_;
      summary.part.job.begin_utc_ns = profile.begin_utc_ns;
      summary.part.job.end_utc_ns = profile.end_utc_ns;
      summary.part.timeline = {{.node = profile.node, .name = "cpu.user", .unit = "cpus", .values = {1, 2}}};
      summary.profile = std::move(profile);
      publish_summary(trace.path, summary);
    }
  }

  [[nodiscard]] Report report() const {
    std::vector<InputProblem> problems;
    return build_report(job_, options_, problems);
  }

  /// The notes of the coverage, and the missing nodes.
  [[nodiscard]] static std::string notes(const Report& report) {
    std::string text;
    for (const NodeCoverage& coverage : report.coverage) text += coverage.note + "\n";
    for (const std::string& node : report.job.nodes_missing) text += "missing: " + node + "\n";
    return text;
  }

  /// The result of `check` where the folder cannot be read, even by root.
  [[nodiscard]] bool holds_without_folder(const std::function<bool()>& check) const {
    constexpr uid_t kNobody = 65534;
    ::chmod(directory_.path().c_str(), 0755);
    ::chmod(job_.c_str(), 0755);
    if (::geteuid() == 0 && ::chown(job_.c_str(), kNobody, kNobody) != 0) return false;
    for (const auto& entry : fs::directory_iterator(job_)) {
      ::chmod(entry.path().c_str(), entry.is_directory() ? 0 : 0644);
    }
    ChildProcess child = fork_child([&] {
      if (::geteuid() == 0 && ::setresuid(kNobody, kNobody, kNobody) != 0) return 2;
      try {
        return check() ? 0 : 1;
      } catch (const Error&) {
        return 3;
      }
    });
    const int status = child.wait();
    ::chmod(folder_.c_str(), 0755);
    return status == 0;
  }

  const TemporaryDirectory directory_;
  const fs::path job_ = directory_.path() / "nodes-3f";
  const fs::path folder_ = job_ / node_folder("n0002");
  const std::string gap_ = "n0002 was not read: " + node_folder("n0002") + ": Permission denied\nmissing: n0002\n";
  std::string expected_ = "n[0001-0004]";
  ReportOptions options_{.now_utc_ns = 1'800'000'000'000'000'000, .threads = 1};
};

TEST_F(UnreadNodes, HaveTheirFilesNamedFromTheJobsDirectory) {
  const auto files = report().files;
  const auto has = [&files](const std::string& path) {
    return std::any_of(files.begin(), files.end(), [&path](const auto& file) { return file.second == path; });
  };
  EXPECT_TRUE(has("n0001.h5")) << "not nodes-3f/n0001.h5: that is the name of the job's directory";
  EXPECT_TRUE(has(node_folder("n0002") + "/n0002.h5"));
}

TEST_F(UnreadNodes, HaveTheirLinesInTheReport) {
  const std::vector<TimelineChannel> lines = report().timeline;
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[1].node, "n0002");
  EXPECT_EQ(lines[1].values, (std::vector<double>{1, 2}));
}

TEST_F(UnreadNodes, AreAGapOfTheReport) {
  EXPECT_EQ(notes(report()).find("missing"), std::string::npos) << "it can be read";
  EXPECT_TRUE(holds_without_folder([this] { return notes(report()).find(gap_) != std::string::npos; }));
}

TEST_F(UnreadNodes, AreLeftOutOfAPartOfAMerge) {
  EXPECT_TRUE(holds_without_folder([this] {
    std::vector<InputProblem> problems;
    return write_merge_part(job_, {1, 1}, options_, problems) == 3;
  }));
}

TEST_F(UnreadNodes, AreAGapOfATrialOfOtherThresholds) {
  EXPECT_TRUE(holds_without_folder([this] {
    const AnalysisSettings variants[] = {AnalysisSettings{}};
    return notes(try_settings(job_, variants, options_).at(0)).find(gap_) != std::string::npos;
  }));
}

}  // namespace
}  // namespace reveal::tests::unread_folder_test
