#include "postproc/analysis/parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <random>
#include <stdexcept>
#include <vector>

#include "hdf5schema/basics/file_text.h"
#include "postproc/analysis/job_report.h"
#include "postproc/history/feedback.h"
#include "postproc/history/run_record.h"
#include "tests/unit/hdf5schema/sample_trace.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::parallel_test {
namespace {

TEST(SideBySide, RunsEveryTaskOnceOnAnyNumberOfThreads) {
  for (const std::size_t threads : {1U, 2U, 3U, 40U}) {
    std::vector<std::atomic<int>> runs(17);
    run_parallel(runs.size(), threads, [&](std::size_t i) { ++runs[i]; });
    for (const auto& times : runs) EXPECT_EQ(times, 1);
  }
  run_parallel(0, 4, [](std::size_t) { FAIL(); });
}

TEST(SideBySide, StopsAtTheFirstThrowAndPassesItOn) {
  std::atomic<int> runs = 0;
  const auto fail = [&](std::size_t i) {
    ++runs;
    if (i == 2) throw std::runtime_error("the third");
  };
  EXPECT_THROW(run_parallel(1000, 1, fail), std::runtime_error);
  EXPECT_EQ(runs, 3);
  EXPECT_THROW(run_parallel(1000, 4, fail), std::runtime_error);
}

TEST(MemoryBudget, LetsThoseInWhoFitAndAnyoneWhoIsAlone) {
  MemoryBudget budget(100, 40);
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  run_parallel(40, 8, [&](std::size_t i) {
    const MemoryBudget::Share share = budget.take(i % 5 == 0 ? 1000 : 40);
    const int now = ++inside;
    most = std::max(most.load(), now);
    EXPECT_LE(now, i % 5 == 0 ? 1 : 2);
    --inside;
  });
  EXPECT_GE(most, 1);
}

TEST(MemoryBudget, TellsWhoIsAlone) {
  EXPECT_TRUE(MemoryBudget(100, 1).take(1).alone());
  EXPECT_TRUE(MemoryBudget(100, 2).take(51).alone());
  EXPECT_FALSE(MemoryBudget(100, 2).take(50).alone());
}

/// A minute and a half of counters and levels of which some never move.
void write_trace(const std::filesystem::path& path, const std::string& node) {
  constexpr std::int64_t kStep = 100'000'000;
  TraceHeader header = sample_header();
  header.node = node;
  header.interval = std::chrono::nanoseconds(kStep);
  TraceWriter writer(path, header);
  FamilySpec counters = counter_family();
  counters.period = std::chrono::nanoseconds(kStep);
  FamilySpec levels = counters;
  levels.path = "memory/levels";
  levels.kind = Kind::gauge;
  constexpr std::size_t kChannels = 12;
  const TraceWriter::FamilyId families[] = {writer.add_family(counters), writer.add_family(levels)};
  for (const auto family : families) {
    for (std::size_t c = 0; c < kChannels; ++c) writer.add_channel(family, {.metric = "m" + std::to_string(c)});
  }
  writer.start();
  std::mt19937 random(static_cast<unsigned>(node.back()));
  std::vector<std::int64_t> values(kChannels);
  for (std::int64_t tick = 0; tick < 900; ++tick) {
    const bool event = node.back() == '2' && tick > 400 && tick < 500;
    for (std::size_t c = 2; c < kChannels; ++c)
      values[c] += static_cast<std::int64_t>(random() % 50) + (event ? 90 : 0);
    for (const auto family : families) writer.append_row(family, kStep + tick * kStep, values);
  }
  writer.close();
}

TEST(JobReport, NamesThePartOfTheRunThatWasNotRecorded) {
  const TemporaryDirectory directory;
  write_trace(directory.path() / "n01.h5", "n01");
  const auto note = [&directory](double lost) {
    std::vector<InputProblem> problems;
    ReportOptions options{.reuse_summaries = false};
    const Report whole = build_report(directory.path(), options, problems);
    options.ran_seconds = static_cast<double>(whole.job.end_utc_ns - whole.job.begin_utc_ns) * 1e-9 + lost;
    return build_report(directory.path(), options, problems).coverage.at(0).note;
  };
  EXPECT_EQ(note(0.5).find("were recorded"), std::string::npos);
  EXPECT_NE(note(600).find("were recorded"), std::string::npos);
}

/// Two minutes of a job on n02, stopped for fifteen seconds.
void write_stopped_job(const std::filesystem::path& path) {
  constexpr std::int64_t kStep = 1'000'000'000;
  TraceHeader header = sample_header();
  header.node = "n02";
  header.run_key = "0123456789abcdef0123456789abcdef";
  header.interval = std::chrono::nanoseconds(kStep);
  TraceWriter writer(path, header);
  FamilySpec levels = counter_family();
  levels.period = std::chrono::nanoseconds(kStep);
  levels.kind = Kind::gauge;
  const auto family = writer.add_family(levels);
  writer.add_channel(family, {.metric = "job.stopped"});
  writer.start();
  for (std::int64_t tick = 0; tick < 120; ++tick) {
    const std::int64_t stopped = tick >= 50 && tick < 65 ? 1 : 0;
    writer.append_row(family, kStep + tick * kStep, std::span(&stopped, 1));
    if (tick % 10 == 9) wait_until_flushed(writer, kStep + tick * kStep);
  }
  writer.close();
}

/// The job's directory, its state directory and the report of both.
class KnownFindings : public testing::Test {
 protected:
  KnownFindings() {
    std::filesystem::create_directory(job_);
    write_stopped_job(job_ / "n02.h5");
  }

  Report report(const AnalysisSettings& settings = {}) {
    ReportOptions options{.settings = settings};
    options.history.enabled = true;
    options.history.state.directory = state_;
    return build_report(job_, options, problems_);
  }

  const TemporaryDirectory directory_;
  const std::filesystem::path job_ = directory_.path() / "job", state_ = directory_.path() / "state";
  std::vector<InputProblem> problems_;
};

TEST_F(KnownFindings, AreObservationsOnceTheirOwnerSaidSo) {
  const Report before = report();
  ASSERT_FALSE(before.findings.empty()) << render_text(before);
  const Finding found = before.findings.front();
  ASSERT_GE(found.severity, Severity::notice);
  Feedback said{.key = before.history.key, .job = "job", .rule = found.id, .fingerprint = "", .words = "ours"};
  if (said.key.empty()) said.key = parse_run(file_text((job_ / kRunRecordFile).string())).key;
  add_feedback(state_, said);
  const Report after = report();
  EXPECT_EQ(after.findings.front().severity, Severity::info);
  EXPECT_NE(after.findings.front().sentence.find("Your feedback of 1970-01-01: ours."), std::string::npos);
  EXPECT_NE(after.verdict.primary, found.id);
  EXPECT_TRUE(take_back_feedback(state_, said));
  EXPECT_EQ(report().findings.front(), found);
  std::ofstream(state_ / kFeedbackFile) << "damaged";
  EXPECT_EQ(report().findings.front(), found) << "a report is made in any case";
  ASSERT_FALSE(problems_.empty());
  EXPECT_NE(problems_.back().text.find("your feedback on earlier findings could not be read"), std::string::npos);
}

TEST_F(KnownFindings, AreListedAsMuted) {
  const Finding found = report().findings.front();
  AnalysisSettings settings;
  settings.mutes = {parse_mute(found.id + "@n02")};
  const Report muted = report(settings);
  ASSERT_EQ(muted.muted.size(), 1U);
  EXPECT_EQ(muted.muted[0].id, found.id);
  EXPECT_EQ(muted.muted[0].nodes, found.nodes);
  EXPECT_EQ(muted.verdict.primary, "");
  settings.mutes = {parse_mute(found.id + "@n03")};
  EXPECT_TRUE(report(settings).muted.empty());
}

TEST(JobReport, IsTheSameOnAnyNumberOfThreads) {
  const TemporaryDirectory directory;
  for (const char* node : {"n01", "n02", "n03"}) write_trace(directory.path() / (std::string(node) + ".h5"), node);
  std::vector<std::string> reports;
  for (const std::size_t threads : {1U, 3U}) {
    std::vector<InputProblem> problems;
    ReportOptions options{.reuse_summaries = false, .now_utc_ns = 1'800'000'000'000'000'000, .threads = threads};
    reports.push_back(render_json(build_report(directory.path(), options, problems)));
    EXPECT_TRUE(problems.empty());
  }
  EXPECT_EQ(reports[0], reports[1]);
  EXPECT_NE(reports[0].find("n02"), std::string::npos);
}

}  // namespace
}  // namespace reveal::tests::parallel_test
