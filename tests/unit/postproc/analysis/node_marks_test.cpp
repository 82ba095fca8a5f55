#include "postproc/analysis/node_marks.h"

#include <gtest/gtest.h>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/not_measured.h"

namespace reveal::tests::node_marks_test {
namespace {

using MarkKind = ReportMark::Kind;

constexpr std::int64_t kBegin = 1'700'000'000 * kSecond;  // UTC of monotonic 0

NodeTrace trace_with(std::vector<Event> events) {
  NodeTrace trace;
  trace.telemetry.node = "n01";
  trace.telemetry.begin_utc_ns = kBegin;
  trace.telemetry.step_seconds = 1;
  trace.utc_minus_monotonic_ns = kBegin;
  trace.events = std::move(events);
  return trace;
}

std::vector<std::string> texts_of(const std::vector<ReportMark>& marks) {
  std::vector<std::string> texts;
  for (const ReportMark& mark : marks) {
    texts.push_back(std::to_string((mark.span.begin_utc_ns - kBegin) / kSecond) + " " +
                    std::string(name_of(mark.kind)) + ": " + mark.text);
  }
  return texts;
}

TEST(NodeMarks, AreRanksDevicesServicesAndSteps) {
  const NodeTrace trace = trace_with({{1 * kSecond, "process 7", "process_begin", "rank0 python3"},
                                      {1 * kSecond + 1, "process 8", "process_begin", "rank1 python3"},
                                      {2 * kSecond, "process 9", "process_begin", "slot1 bash"},
                                      {3 * kSecond, "step 0", "step_begin", ""},
                                      {4 * kSecond, "gpu0", "xid", "79: GPU has fallen off the bus"},
                                      {5 * kSecond, "file servers", "not_answering", "/scratch"},
                                      {6 * kSecond, "clock", "ticks_missed", "3"},
                                      {7 * kSecond, "clock", "clock_step", "-3600.000 s"},
                                      {8 * kSecond, "cpus", "cpus_online", "0,2-3"},
                                      {9 * kSecond, "process 7", "process_end", "rank0"}});
  EXPECT_EQ(texts_of(node_marks(trace, trace.telemetry)),
            (std::vector<std::string>{"1 process: rank[0-1] began", "3 step: step 0 begins",
                                      "4 device: gpu0 NVIDIA driver error 79: GPU has fallen off the bus",
                                      "5 service: file servers does not answer: /scratch",
                                      "7 service: clock set by -3600.000 s", "8 configuration: cpus online: 0,2-3",
                                      "9 process: rank0 ended"}));
}

TEST(NodeMarks, AreNotRevealsOwnProgramsInTheEnvironmentOfARank) {
  const NodeTrace trace = trace_with({{1 * kSecond, "process 7", "process_begin", "rank0 python3"},
                                      {8 * kSecond, "process 7", "process_end", "rank0"},
                                      {9 * kSecond, "process 8", "process_begin", "rank0 reveal-run"},
                                      {11 * kSecond, "process 8", "process_end", "rank0"}});
  EXPECT_EQ(texts_of(node_marks(trace, trace.telemetry)),
            (std::vector<std::string>{"1 process: rank0 began", "8 process: rank0 ended"}));
}

TEST(NodeMarks, AreKillsForMemoryWhenTheCounterRose) {
  NodeTrace trace = trace_with({});
  trace.telemetry.channels = {{.metric = "vmstat.oom_kill", .kind = Kind::counter}};
  trace.telemetry.samples = 4;
  trace.telemetry.values = {0, kNaN, 1, 0};
  EXPECT_EQ(texts_of(node_marks(trace, trace.telemetry)),
            (std::vector<std::string>{"2 memory: the kernel ended a process because memory was full"}));
}

TEST(NodeMarks, AreSettingsThatChangedDuringTheJob) {
  NodeTrace trace = trace_with({});
  trace.telemetry.samples = 60;
  trace.begin = {{"cpu.governor", "performance"}, {"mem.thp", "always"}, {"irq.30.cpus", "1"}};
  trace.end = {{"cpu.governor", "powersave"}, {"mem.thp", "always"}, {"irq.30.cpus", "2"}, {"new.key", "1"}};
  EXPECT_EQ(
      texts_of(node_marks(trace, trace.telemetry)),
      (std::vector<std::string>{"60 configuration: cpu.governor was performance at the begin, powersave at the end"}));
}

TEST(NodeMarks, AreFewHoweverManyEventsATraceHas) {
  std::vector<Event> events;
  for (int i = 0; i < 5000; ++i) {
    events.push_back({i * 10 * kSecond, "gpu0", "xid", std::string(5000, 'x')});
    events.push_back({i * 10 * kSecond, "file servers", "answering", "/" + std::to_string(i)});
    events.push_back({i * 10 * kSecond, "process", "process_begin", "rank" + std::to_string(i) + " a"});
  }
  events.push_back({INT64_MAX, "gpu0", "gpu_lost", ""});
  const NodeTrace trace = trace_with(events);
  const std::vector<ReportMark> marks = node_marks(trace, trace.telemetry);
  EXPECT_EQ(marks.size(), 30U);
  for (const ReportMark& mark : marks) EXPECT_LE(mark.text.size(), 120U);
}

NodeSummary summary_with(const std::string& node, std::vector<ReportMark> marks) {
  NodeSummary summary;
  summary.node = node;
  for (ReportMark& mark : marks) mark.node = node;
  summary.part.marks = std::move(marks);
  return summary;
}

ReportMark mark(MarkKind kind, std::int64_t second, const std::string& text) {
  return {kind, "", {kBegin + second * kSecond, kBegin + second * kSecond}, text};
}

TEST(JobMarks, AreOneWhereNodesHaveTheSameAtTheSameTime) {
  const std::vector<ReportMark> marks =
      job_marks({summary_with("n01", {mark(MarkKind::process, 1, "rank0 began"), mark(MarkKind::device, 7, "gpu0")}),
                 summary_with("n02", {mark(MarkKind::process, 2, "rank0 began")}),
                 summary_with("n03", {mark(MarkKind::process, 30, "rank0 began")})});
  EXPECT_EQ(texts_of(marks), (std::vector<std::string>{"1 process: rank0 began on n[01-02]", "7 device: gpu0",
                                                       "30 process: rank0 began"}));
  EXPECT_EQ(marks[0].node, "");
  EXPECT_EQ(marks[1].node, "n01");
  EXPECT_EQ(marks[2].node, "n03");
}

TEST(JobMarks, AreTwoHundredAtMostAndFaultsStayLongest) {
  std::vector<NodeSummary> summaries;
  for (int i = 0; i < 300; ++i) {
    summaries.push_back(summary_with("n" + std::to_string(i), {mark(MarkKind::process, 10 * i, "rank ended"),
                                                               mark(MarkKind::device, 10 * i, "gpu0 lost")}));
  }
  const std::vector<ReportMark> marks = job_marks(summaries);
  EXPECT_EQ(marks.size(), 200U);
  for (const ReportMark& one : marks) EXPECT_EQ(one.kind, MarkKind::device);
}

TEST(JobMarks, TakeAFewStepsOfATrainingFromOneNode) {
  StepTrend rank;
  rank.rank = "rank0";
  rank.point_steps = 4;
  rank.begin_utc_ns = kBegin;
  for (int i = 0; i < 99; ++i) rank.begins += "1000000 ";
  std::vector<NodeSummary> summaries{summary_with("n01", {}), summary_with("n02", {}), summary_with("n03", {})};
  summaries[1].steps.ranks = {rank};
  summaries[2].steps.ranks = {rank};
  const std::vector<ReportMark> marks = job_marks(summaries);
  ASSERT_EQ(marks.size(), 34U);
  EXPECT_EQ(texts_of(marks)[0], "0 training: step 1");
  EXPECT_EQ(texts_of(marks)[1], "3 training: step 13");
  for (const ReportMark& one : marks) EXPECT_EQ(one.node, "n02");
}

}  // namespace
}  // namespace reveal::tests::node_marks_test
