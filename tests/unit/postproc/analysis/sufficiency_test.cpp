// A job that was not examined is not called healthy.
#include "postproc/analysis/sufficiency.h"

#include <gtest/gtest.h>

#include <cmath>

#include "postproc/analysis/job_report.h"
#include "postproc/analysis/node_analysis.h"
#include "synthetic_node.h"

namespace reveal::tests::sufficiency_test {
namespace {

NodeTrace recorded(const std::vector<std::string>& left_out = {}) {
  NodeTrace trace;
  SyntheticNode node;
  node.left_out = left_out;
  trace.telemetry = node.record(60, SyntheticNode::training);
  trace.header.node = trace.telemetry.node;
  trace.samples_expected = trace.samples_present = static_cast<double>(trace.telemetry.samples);
  return trace;
}

std::string verdict_of(const NodeTrace& trace, VerdictStatus expected) {
  const Report report = merge_summaries({analyse(trace, {})}, {}, {});
  EXPECT_EQ(report.verdict.status, expected) << report.verdict.sentence;
  EXPECT_TRUE(expected != VerdictStatus::insufficient_data || report.episodes.empty());
  return report.verdict.sentence;
}

TEST(Sufficiency, CallsAWholeRecordingEnough) {
  verdict_of(recorded(), VerdictStatus::healthy);
}

TEST(Sufficiency, IsNotReachedByACollectorThatWasStopped) {
  NodeTrace stopped = recorded();
  stopped.samples_present = 200;
  EXPECT_EQ(verdict_of(stopped, VerdictStatus::insufficient_data),
            "Too little was recorded to judge the run: 200 of 600 samples were recorded (33 %), at least 80 % are "
            "needed.");
}

TEST(Sufficiency, IsNotReachedWithoutAnyCpuTime) {
  NodeTrace other = recorded();
  for (Channel& channel : other.telemetry.channels) channel.metric = "self.tick_lateness";
  EXPECT_EQ(verdict_of(other, VerdictStatus::insufficient_data),
            "Too little was recorded to judge the run: neither the cpu time of the job nor that of the node's cpus was "
            "measured.");
}

TEST(Sufficiency, IsNotReachedByValuesThatAreAllMissing) {
  NodeTrace empty = recorded();
  for (double& value : empty.telemetry.values) value = std::nan("");
  verdict_of(empty, VerdictStatus::insufficient_data);
}

TEST(Sufficiency, IsNotReachedByCpuTimeThatIsMissingForMostOfTheRun) {
  NodeTrace part = recorded();
  for (std::size_t i = 0; i < part.telemetry.channels.size(); ++i) {
    const auto series = part.telemetry.series(i);
    std::fill(series.begin() + 300, series.end(), std::nan(""));
  }
  EXPECT_NE(verdict_of(part, VerdictStatus::insufficient_data).find("cpu time is known for 50 % of the run"),
            std::string::npos);
}

TEST(Sufficiency, NeedsTheJobsOrTheNodesCpuTimeOnly) {
  verdict_of(recorded({"job.cpu_time"}), VerdictStatus::healthy);
}

LostPart family(const char* metric, Subsystem subsystem, Kind kind) {
  return {.name = "some/family",
          .words = "some/family: the checksum of a chunk is wrong",
          .holds = LostPart::Holds::channels,
          .channels = {{.metric = metric, .kind = kind, .subsystem = subsystem}}};
}

TEST(Damage, OfWhatNobodyLooksAtLeavesTheVerdictAndIsNamed) {
  NodeTrace trace = recorded();
  trace.lost = {family("self.tick_lateness", Subsystem::self, Kind::gauge),
                family("process.last_cpu", Subsystem::process, Kind::state),
                {.name = "coverage", .words = "coverage: gone", .holds = LostPart::Holds::nothing_judged}};
  EXPECT_NE(verdict_of(trace, VerdictStatus::healthy).find("; part of the data is missing (see coverage)."),
            std::string::npos);
}

TEST(Damage, OfWhatDetectorsOrRulesLookAtLeavesNoJobHealthy) {
  const LostPart parts[] = {
      family("vmstat.pgfault", Subsystem::memory, Kind::counter),
      family("job.cpu_allowed", Subsystem::process, Kind::state),  // job.outsider_cpu is computed from it
      family("self.cpu_time", Subsystem::self, Kind::counter),     // likewise
      {.name = "events", .words = "events: the checksum of a chunk is wrong"},
      {.name = "memory/vmstat", .words = "memory/vmstat: is no longer in the file"}};
  for (const LostPart& part : parts) {
    NodeTrace trace = recorded();
    trace.lost = {part};
    EXPECT_EQ(verdict_of(trace, VerdictStatus::insufficient_data),
              "The run cannot be judged: the trace is damaged (" + part.words + ").");
  }
}

TEST(Damage, LeavesTheFindingsOfTheRest) {
  NodeTrace trace = recorded();
  trace.lost = {family("vmstat.pgfault", Subsystem::memory, Kind::counter)};
  NodeSummary summary = analyse(trace, {});
  Finding finding;
  finding.id = "cpu.outsider";
  finding.sentence = "Others used the cpus.";
  finding.severity = Severity::critical;
  finding.confidence = Confidence::likely;
  finding.nodes = {summary.node};
  summary.part.findings = {finding};
  const Report report = merge_summaries({parse_summary(render_summary(summary))}, {}, {});
  EXPECT_EQ(report.verdict.status, VerdictStatus::finding);
  EXPECT_EQ(report.verdict.sentence, "Others used the cpus; part of the trace is damaged (see coverage).");
}

}  // namespace
}  // namespace reveal::tests::sufficiency_test
