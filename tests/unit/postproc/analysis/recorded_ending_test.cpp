#include "postproc/analysis/recorded_ending.h"

#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <string>

#include "postproc/telemetry/job_files.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::recorded_ending_test {
namespace {

class RecordedEndings : public testing::Test {
 protected:
  void write(const char* file, const std::string& text) const { std::ofstream(directory_.path() / file) << text; }
  void write_earlier_report() const {
    Report report;
    report.report_id = "of before";
    report.job.exit_code = 3;
    report.job.ran_seconds = 60;
    write(kReportFile, render_json(report));
  }
  [[nodiscard]] RecordedEnding read(std::optional<int> exit_code = {}, std::optional<double> ran = {}) const {
    return recorded_ending(directory_.path(), exit_code, ran);
  }
  [[nodiscard]] static ReportJob job_of(const RecordedEnding& ending) {
    ReportJob job;
    apply(ending, job);
    return job;
  }

  const TemporaryDirectory directory_;
};

TEST_F(RecordedEndings, AreNotKnownInAnEmptyDirectory) {
  const RecordedEnding ending = read();
  EXPECT_FALSE(ending.exit_code || ending.ran_seconds || ending.record);
  EXPECT_EQ(ending.supersedes, "");
  EXPECT_FALSE(ended_well(ending));
  EXPECT_EQ(job_of(ending), ReportJob{});
}

TEST_F(RecordedEndings, AreKeptFromTheReportBefore) {
  write_earlier_report();
  const RecordedEnding ending = read();
  EXPECT_EQ(ending.exit_code, 3);
  EXPECT_EQ(ending.ran_seconds, 60);
  EXPECT_EQ(ending.supersedes, "of before");
  EXPECT_EQ(job_of(ending).state, "FAILED");
  write(kReportFile, "{");
  EXPECT_EQ(read().supersedes, "");
  EXPECT_FALSE(read().exit_code);
}

TEST_F(RecordedEndings, AreReadWithoutTheNodesOfTheReportBefore) {
  Report report;
  report.report_id = "of many nodes";
  report.job.exit_code = 3;
  report.totals.resize(2);
  report.totals[1].node = "n01";
  std::string text = render_json(report);
  text.replace(text.find("\"n01\""), 5, "5");
  write(kReportFile, text);
  EXPECT_THROW(static_cast<void>(parse_report(text)), Error);
  EXPECT_EQ(read().supersedes, "of many nodes");
  EXPECT_EQ(read().exit_code, 3);
}

TEST_F(RecordedEndings, AreThoseOfTheCallerWhereItHasThem) {
  write_earlier_report();
  const RecordedEnding ending = read(0, 61);
  EXPECT_EQ(ending.exit_code, 0);
  EXPECT_EQ(ending.ran_seconds, 61);
  EXPECT_TRUE(ended_well(ending));
  EXPECT_EQ(job_of(ending).state, "COMPLETED");
}

TEST_F(RecordedEndings, HaveTheStateOfTheBatchSystem) {
  SlurmJobRecord record;
  record.id = "4711";
  record.state = "TIMEOUT";
  write(kSlurmJobRecordFile, render_slurm_job_record(record));
  const RecordedEnding ending = read(0);
  EXPECT_FALSE(ended_well(ending));
  EXPECT_EQ(job_of(ending).state, "TIMEOUT");
  EXPECT_EQ(job_of(ending).id, "4711");
  EXPECT_EQ(job_of(ending).exit_code, 0);
}

}  // namespace
}  // namespace reveal::tests::recorded_ending_test
