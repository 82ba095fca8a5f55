#include "postproc/analysis/node_analysis.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "postproc/analysis/overview.h"
#include "postproc/telemetry/coarser.h"
#include "tests/unit/postproc/synthetic_node.h"

namespace reveal::tests::node_analysis_test {
namespace {

Telemetry disturbed_job(double seconds) {
  return SyntheticNode().record(seconds, [](double second, SyntheticNode::Demand& demand) {
    SyntheticNode::training(second, demand);
    if (second >= 300 && second < 315) demand.outsider[1] = 1;
  });
}

NodeTrace trace_of(Telemetry job) {
  NodeTrace trace;
  trace.telemetry = std::move(job);
  trace.samples_expected = trace.samples_present = static_cast<double>(trace.telemetry.samples);
  return trace;
}

std::vector<std::string> ids_of(const NodeSummary& summary) {
  std::vector<std::string> ids;
  ids.reserve(summary.part.findings.size());
  for (const Finding& finding : summary.part.findings) ids.push_back(finding.id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

TEST(NodeAnalysis, KnowsTheTaskOfAnArrayFromTheEnvironmentOfTheJob) {
  NodeTrace trace = trace_of(disturbed_job(60));
  trace.end = {{"env.SLURM_ARRAY_JOB_ID", "4710"}, {"env.SLURM_ARRAY_TASK_ID", "3"}};
  EXPECT_EQ(analyse(trace, {}).part.job.array, "") << "outside a batch system";
  trace.header.job_id = "4713";
  EXPECT_EQ(analyse(trace, {}).part.job.array, "4710_3");
  trace.end[1].second = "three";
  EXPECT_EQ(analyse(trace, {}).part.job.array, "");
}

TEST(NodeAnalysis, SaysTheSameOfAJobInPieces) {
  const NodeTrace trace = trace_of(disturbed_job(650));
  const NodeSummary whole = analyse(trace, {});
  ASSERT_FALSE(whole.part.episodes.empty());
  ASSERT_FALSE(whole.part.findings.empty());

  NodeTrace without_samples = trace;
  without_samples.telemetry = cut(trace.telemetry, 0, 0);
  std::size_t pieces = 0;
  const auto read = [&](std::size_t begin, std::size_t count, Telemetry& piece) {
    piece = cut(trace.telemetry, begin, count);
    ++pieces;
  };
  const AnalysisSettings settings;
  const NodeSummary in_pieces =
      analyse(without_samples, {.count = trace.telemetry.samples, .in_one_piece = false, .read = read}, {&settings, 1},
              {.in_background = true})[0];
  EXPECT_GT(pieces, 7U) << "seven pieces, and the minutes around an episode again";
  EXPECT_NE(in_pieces.part.coverage.at(0).note.find("rules used means of 0.2 s"), std::string::npos);
  EXPECT_EQ(in_pieces.seconds, whole.seconds);
  EXPECT_EQ(ids_of(in_pieces), ids_of(whole));
  ASSERT_EQ(in_pieces.part.episodes.size(), whole.part.episodes.size());
  for (std::size_t i = 0; i < whole.part.episodes.size(); ++i) {
    const ReportEpisode& expected = whole.part.episodes[i];
    const ReportEpisode& got = in_pieces.part.episodes[i];
    EXPECT_EQ(got.span.begin_utc_ns, expected.span.begin_utc_ns);
    EXPECT_EQ(got.span.end_utc_ns, expected.span.end_utc_ns);
    EXPECT_EQ(got.tier, expected.tier);
    EXPECT_EQ(got.methods, expected.methods);
    EXPECT_EQ(got.claim, expected.claim);
  }
  ASSERT_EQ(in_pieces.profile.channels.size(), whole.profile.channels.size());
  for (std::size_t i = 0; i < whole.profile.channels.size(); ++i) {
    EXPECT_EQ(in_pieces.profile.channels[i].name, whole.profile.channels[i].name);
  }
}

TEST(NodeAnalysis, AsksForAllSamplesAtOnceWhereThePipelineNeedsThem) {
  const NodeTrace trace = trace_of(disturbed_job(400));
  const std::size_t count = trace.telemetry.samples;
  std::vector<std::size_t> asked;
  const auto read = [&](std::size_t begin, std::size_t samples, Telemetry& piece) {
    piece = cut(trace.telemetry, begin, samples);
    asked.push_back(samples);
  };
  AnalysisSettings settings;
  settings.pipeline = "paper";
  const NodeSummary summary =
      analyse(trace, {.count = count, .in_one_piece = false, .read = read}, {&settings, 1}, {})[0];
  EXPECT_EQ(asked, std::vector<std::size_t>{count});
  EXPECT_FALSE(summary.part.episodes.empty());
}

TEST(NodeAnalysis, ReadsTheSamplesOnceForAllSettings) {
  const NodeTrace trace = trace_of(disturbed_job(400));
  std::size_t pieces = 0;
  const auto read = [&](std::size_t /*begin*/, std::size_t /*count*/, Telemetry& piece) {
    piece = trace.telemetry;
    ++pieces;
  };
  AnalysisSettings without;
  without.rules = {{.rule = "cpu.outsider", .enabled = false, .thresholds = {}}};
  const std::vector<AnalysisSettings> both = {{}, without};
  const auto summaries = analyse(trace, {.count = trace.telemetry.samples, .read = read}, both, {});
  ASSERT_EQ(summaries.size(), 2U);
  EXPECT_EQ(pieces, 1U);
  EXPECT_NE(ids_of(summaries[0]), ids_of(summaries[1]));
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(render_summary(summaries[i]) == render_summary(analyse(trace, both[i]))) << i;
  }
}

TEST(NodeAnalysis, SaysThatNoSampleWasRecorded) {
  EXPECT_EQ(analyse(trace_of(cut(disturbed_job(10), 0, 0)), {}).insufficient, "no sample was recorded");
}

TEST(Overview, IsTheJobItselfWhereItIsOnePiece) {
  const Telemetry job = disturbed_job(100);
  Overview overview(job, job.samples);
  overview.add(job);
  EXPECT_EQ(overview.telemetry().values.data(), job.values.data());
  EXPECT_EQ(overview.factor(), 1U);
}

TEST(Overview, HasLongerStepsWhereTheJobComesInPieces) {
  const Telemetry job = disturbed_job(250);
  const Telemetry shape = cut(job, 0, 0);
  Overview overview(shape, job.samples);
  for (std::size_t begin = 0; begin < job.samples; begin += 1000) {
    overview.add(cut(job, begin, std::min<std::size_t>(1000, job.samples - begin)));
  }
  const Telemetry expected = coarser(job, 2);
  EXPECT_EQ(overview.factor(), 2U);
  EXPECT_EQ(overview.telemetry().samples, expected.samples);
  EXPECT_EQ(overview.telemetry().step_seconds, expected.step_seconds);
  EXPECT_TRUE(overview.telemetry().values == expected.values);
}

}  // namespace
}  // namespace reveal::tests::node_analysis_test
