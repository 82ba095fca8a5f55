// Findings of lost segments, and the data of the nodes that sent them.
#include "postproc/analysis/lost_segments.h"

#include <gtest/gtest.h>

#include "config_of.h"
#include "hdf5schema/basics/clocks.h"
#include "postproc/analysis/job_report.h"
#include "postproc/analysis/node_analysis.h"
#include "rule_recording.h"

namespace reveal::tests::lost_segments_test {
namespace {

using R = RuleRecording;

constexpr std::int64_t kBegin = 1'700'000'000 * kSecond;

TimeSpan seconds(std::int64_t begin, std::int64_t end) {
  return {kBegin + begin * kSecond, kBegin + end * kSecond};
}

/// Two nodes of a job of 100 s, of which n2 missed segments of n1 from 50 s to 62 s and received 90,000 a second.
struct Job {
  std::vector<NodeSummary> summaries = std::vector<NodeSummary>(2);
  Finding loss;

  /// Segments that n1 sent to n2 again in that time, and those of them that had arrived.
  Job(double again, double duplicates) {
    for (std::size_t i = 0; i < summaries.size(); ++i) {
      summaries[i].node = "n" + std::to_string(i + 1);
      summaries[i].addresses = {"10.0.0." + std::to_string(i + 1)};
      summaries[i].part.job.begin_utc_ns = kBegin;
      summaries[i].part.job.end_utc_ns = kBegin + 100 * kSecond;
    }
    summaries[0].retransmits = {
        .begin_utc_ns = kBegin, .slot_ns = kSecond, .peers = {{"10.0.0.2", {20, 55}, {5000, again}, {0, duplicates}}}};
    loss.id = "net.tcp_retrans_fault";
    loss.nodes = {"n2"};
    loss.intervals = {seconds(50, 62)};
    loss.sentence = "n2 lost.";
    loss.evidence = {{.metric = "tcp.InSegs", .node = "n2", .observed = 90'000, .unit = "/s"},
                     {.metric = "tcp.peer.out_of_order", .instance = "10.0.0.1", .node = "n2", .observed = 500}};
  }

  /// The same, while packets of n1 overtook each other.
  [[nodiscard]] Job overtaken() const {
    Job job = *this;
    RetransmitsTo& to = job.summaries[0].retransmits.peers[0];
    to.overtaken = {0, to.segments[1]};
    to.overtaken_duplicates = {0, to.duplicates[1]};
    return job;
  }

  [[nodiscard]] std::vector<Finding> findings(const AnalysisSettings& settings = {}) const {
    std::vector<Finding> found = {loss};
    compare_with_senders(summaries, settings, found);
    return found;
  }
};

TEST(LostSegments, AreNoneWhereNearlyAllThatWasSentAgainHadArrived) {
  EXPECT_TRUE(Job(4237, 4117).findings().empty()) << "as measured on a busy link that changes the order";
  EXPECT_TRUE(Job(1526, 1420).findings().empty()) << "the same with a hundred lost ones among a million";
  EXPECT_TRUE(Job(0, 0).findings().empty()) << "what was lost must be sent again";
  EXPECT_TRUE(Job(4, 0).findings().empty()) << "a handful";
}

TEST(LostSegments, AreConfirmedByWhoSentThemAgain) {
  const auto found = Job(289, 52).findings();  // as measured at a loss of 1 %
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence, "n2 lost. n1 had to send at least 237 segments again.");
  ASSERT_EQ(found[0].evidence.size(), 4U);
  EXPECT_EQ(found[0].evidence[2].metric, "tcp.peer.retransmits");
  EXPECT_EQ(found[0].evidence[2].node, "n1");
  EXPECT_EQ(found[0].evidence[2].observed, 289);
  EXPECT_EQ(found[0].evidence[3].metric, "tcp.peer.duplicates");
  EXPECT_EQ(found[0].evidence[3].observed, 52);
}

TEST(LostSegments, AreFoundAmongManyThatOvertookEachOther) {
  EXPECT_EQ(Job(8000, 7000).findings().size(), 1U) << "one of a thousand was lost";
  EXPECT_TRUE(Job(8000, 7700).findings().empty()) << "one of four thousand: reports of duplicates are lost, too";
}

TEST(LostSegments, AreNoneWherePacketsOvertookEachOther) {
  const Job job(11'009, 10'246);  // as measured where none was lost
  EXPECT_EQ(job.findings().size(), 1U) << "763 of a million";
  EXPECT_TRUE(job.overtaken().findings().empty());
}

TEST(LostSegments, AreFoundWhereMoreAreMissingThanReportsLeaveOut) {
  const auto found = Job(12'800, 10'300).overtaken().findings();  // 2,500, of which reports can leave out 1,818
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence,
            "n2 lost. n1 had to send at least 682 segments again, of the 2,500 of which no report says that they "
            "had arrived.");
  EXPECT_EQ(found[0].evidence.at(3).observed, 10'300) << "as it was counted";
  EXPECT_TRUE(Job(12'600, 10'300).overtaken().findings().empty());
  EXPECT_EQ(Job(20'000, 10'246).overtaken().findings().size(), 1U);
}

TEST(LostSegments, AreJudgedByTheSitesThresholds) {
  const auto settings = analysis_settings(config_of("[rule.\"net.tcp_retrans_fault\"]\nmin_missing_share = 0.9\n"));
  EXPECT_EQ(Job(289, 52).findings().size(), 1U);
  EXPECT_TRUE(Job(289, 52).findings(settings).empty());
}

void expect_as_it_was(const Job& job) {
  const auto found = job.findings();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0], job.loss);
}

TEST(LostSegments, StayTheReceiversWordWhereNobodyKnowsBetter) {
  const Job known(4237, 4117);
  ASSERT_TRUE(known.findings().empty());
  Job job = known;
  job.summaries.erase(job.summaries.begin());
  expect_as_it_was(job);  // the sender is no node of the job
  job = known;
  job.summaries[1].addresses.push_back("10.0.0.1");
  expect_as_it_was(job);  // two nodes have its address
  job = known;
  job.summaries[0].retransmits = {};
  expect_as_it_was(job);  // it did not count
  job = known;
  job.summaries[0].part.job.end_utc_ns = kBegin + 55 * kSecond;
  expect_as_it_was(job);  // its recording ends before
  job = known;
  job.loss.evidence.pop_back();
  expect_as_it_was(job);  // others than the job's connections lost them
  job = known;
  job.loss.evidence.push_back({.metric = "tcp.peer.out_of_order", .instance = "10.0.0.9", .node = "n2"});
  expect_as_it_was(job);  // one of two senders is unknown
}

TEST(LostSegments, AreNotNumberedByLongerTimesThanTheirs) {
  Job job(289, 52);
  job.summaries[0].retransmits.slot_ns = 16 * kSecond;
  job.summaries[0].retransmits.peers[0].slots = {0, 3};
  expect_as_it_was(job);
  job.summaries[0].retransmits.peers[0].duplicates = {0, 289};
  EXPECT_TRUE(job.findings().empty()) << "in all of the sixteen seconds hardly any was lost";
}

TEST(LostSegments, AreNobodyElsesFindings) {
  Job job(4237, 4117);
  job.loss.id = "net.congestion";
  expect_as_it_was(job);
}

/// The same, as n1 found it by its own recoveries.
Finding found_by_sender(const Job& job) {
  Finding loss = job.loss;
  loss.nodes = {"n1"};
  loss.sentence = "n1 lost.";
  loss.evidence = {{.metric = "tcpext.TCPSackRecovery", .node = "n1", .observed = 20, .unit = "/s"}};
  return loss;
}

std::vector<Finding> merged_findings(const Job& job, std::vector<Finding> findings) {
  compare_with_senders(job.summaries, {}, findings);
  return findings;
}

TEST(LostSegments, OfASenderAreThoseOfTheNodeToWhichTheyWereSent) {
  const Job job(4237, 4117);
  const auto found = merged_findings(job, {found_by_sender(job)});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].nodes, std::vector<std::string>{"n2"});
  EXPECT_EQ(found[0].sentence,
            "n1 lost. All of the job's losses were on the path from n1 to n2. n1 had to send at least 120 segments "
            "again.");
  ASSERT_EQ(found[0].evidence.size(), 3U);
  EXPECT_EQ(found[0].evidence[1].metric, "tcp.peer.retransmits");
  EXPECT_EQ(found[0].evidence[1].observed, 4237);
}

TEST(LostSegments, AreToldOnceWhereBothNodesFoundThem) {
  Job job(289, 52);
  const auto once = merged_findings(job, {job.loss, found_by_sender(job)});
  ASSERT_EQ(once.size(), 1U);
  EXPECT_TRUE(once[0].sentence.starts_with("n2 lost. ")) << once[0].sentence;
  job.loss.intervals = {seconds(50, 56)};
  Finding longer = found_by_sender(job);
  longer.intervals = {seconds(50, 62)};
  const auto whole = merged_findings(job, {job.loss, longer});
  ASSERT_EQ(whole.size(), 1U) << "the receiver saw a part of it";
  EXPECT_TRUE(whole[0].sentence.starts_with("n1 lost. ")) << whole[0].sentence;
  job.loss.intervals = {seconds(20, 26)};
  EXPECT_EQ(merged_findings(job, {job.loss, longer}).size(), 2U) << "another time";
}

TEST(LostSegments, KeepTheCostThatTheirReceiverFound) {
  Job job(289, 52);
  job.loss.intervals = {seconds(50, 56)};
  job.loss.severity = Severity::warning;
  Finding longer = found_by_sender(job);
  longer.intervals = {seconds(50, 62)};
  longer.severity = Severity::notice;
  const auto costly = merged_findings(job, {job.loss, longer});
  ASSERT_EQ(costly.size(), 1U);
  EXPECT_EQ(costly[0].severity, Severity::warning);
  EXPECT_TRUE(costly[0].sentence.starts_with("n2 lost. ")) << costly[0].sentence;
  job.loss.intervals = {seconds(50, 62)};
  job.loss.severity = Severity::info;  // nearly all on other connections than the job's
  const auto of_job = merged_findings(job, {job.loss, longer});
  ASSERT_EQ(of_job.size(), 1U);
  EXPECT_TRUE(of_job[0].sentence.starts_with("n1 lost. ")) << of_job[0].sentence;
}

TEST(LostSegments, OfASenderStayItsOwnWhereTheyWereNotTheJobs) {
  const Job job(289, 52);
  Finding remark = found_by_sender(job);
  remark.severity = Severity::info;
  const auto found = merged_findings(job, {remark});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0], remark) << "n2 had a few of them";
}

TEST(LostSegments, OfSeveralSendersToOneNodeAreOneFinding) {
  Job job(289, 52);
  job.summaries.push_back(job.summaries[0]);
  job.summaries[2].node = "n3";
  job.summaries[2].addresses = {"10.0.0.3"};
  Finding other = found_by_sender(job);
  other.nodes = {"n3"};
  auto found = merged_findings(job, {found_by_sender(job), other});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].nodes, std::vector<std::string>{"n2"});
  EXPECT_TRUE(found[0].sentence.ends_with(" Packets from n3 to it were lost, too.")) << found[0].sentence;
  other.severity = Severity::warning;
  found = merged_findings(job, {found_by_sender(job), other});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning) << "that of the sender which lost time";
  EXPECT_TRUE(found[0].sentence.ends_with(" Packets from n1 to it were lost, too.")) << found[0].sentence;
}

TEST(LostSegments, StayThoseOfTheirSenderWhereTheyWentToNoSingleNodeOfTheJob) {
  const Job known(289, 52);
  const auto expect_at_sender = [](const Job& job) {
    const Finding loss = found_by_sender(job);
    const auto found = merged_findings(job, {loss});
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0], loss);
  };
  Job job = known;
  job.summaries[1].addresses.clear();
  expect_at_sender(job);  // the receiver is no node of the job
  job = known;
  job.summaries[0].retransmits = {};
  expect_at_sender(job);  // peers were not counted
  job = known;
  job.summaries[0].retransmits.peers[0].duplicates = {0, 286};
  expect_at_sender(job);  // they had arrived
  job = known;
  job.summaries[0].retransmits.peers.push_back({"10.0.0.9", {55}, {100}, {0}});
  expect_at_sender(job);  // a third of them went to another one: the link of n1 is bad
}

/// The losses of n2, a limit of its port at the same time, and n1, which sent to it, throttled by a quota meanwhile.
struct SlowSender : Job {
  Finding limit, throttled;

  SlowSender() : Job(289, 52) {
    limit = loss;
    limit.id = "net.congestion";
    limit.subsystem = loss.subsystem = Subsystem::network;
    limit.impact = loss.impact = {.seconds = 6, .percent = 6, .how = "less arrived"};
    throttled.id = "cpu.cfs_throttled";
    throttled.severity = Severity::warning;
    throttled.nodes = {"n1"};
    throttled.intervals = {seconds(51, 62)};
  }

  [[nodiscard]] std::vector<Finding> found(std::vector<Finding> findings) const {
    compare_with_senders(summaries, {}, findings);
    return findings;
  }
};

TEST(LostSegments, AreNoLimitOfThePortWhereTheirSenderWasSlowItself) {
  const SlowSender job;
  const auto found = job.found({job.limit, job.throttled, job.loss});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0], job.throttled);
  EXPECT_EQ(found[1].id, "net.tcp_retrans_fault");
  EXPECT_EQ(found[1].runner_up.id, "net.congestion");
  EXPECT_EQ(found[1].runner_up.why_not, "the lower rate needs no slow port: n1 was slow itself (cpu.cfs_throttled)");
  EXPECT_FALSE(found[1].impact.seconds.has_value());
  EXPECT_EQ(found[1].impact.how,
            "not known: n1 was slow itself (cpu.cfs_throttled), and sent less for that reason, too");
}

TEST(LostSegments, LeaveALimitPossibleWhereOnlyTheLimitWasSeenBesideASlowSender) {
  const SlowSender job;
  const auto found = job.found({job.limit, job.throttled});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].confidence, Confidence::possible);
  EXPECT_EQ(found[0].runner_up.id, "cpu.cfs_throttled");
}

TEST(LostSegments, KeepTheLimitBesideASlowNodeThatSentNothingOrWasSlowAtAnotherTime) {
  SlowSender job;
  const auto expect_kept = [&] {
    const auto found = job.found({job.limit, job.throttled, job.loss});
    ASSERT_EQ(found.size(), 3U);
    EXPECT_EQ(found[0], job.limit);
  };
  job.throttled.nodes = {"n3"};
  expect_kept();
  job.throttled.nodes = {"n1"};
  job.throttled.intervals = {seconds(58, 70)};
  expect_kept();
  job.throttled.intervals = {seconds(51, 62)};
  job.throttled.severity = Severity::notice;
  expect_kept();
  job.throttled.severity = Severity::warning;
  job.throttled.id = "node.noisy_neighbour";
  job.throttled.nodes = {"n2"};
  expect_kept();
}

/// A receiver that misses segments of n1 from 50 s to 65 s, hardly any of which come twice as it counts.
NodeTrace receiver() {
  R node;
  node.counter("tcpext.TCPOFOQueue", "", R::event(0.1, 200), "node")
      .counter("tcpext.TCPDSACKOldSent", "", R::event(0.1, 28), "node")
      .counter("tcp.InSegs", "", R::always(50'000), "node")
      .counter("tcp.peer.out_of_order", "10.0.0.1", R::event(0.1, 300))
      .counter("tcp.peer.segments_received", "10.0.0.1", R::always(50'000));
  NodeTrace trace;
  trace.telemetry = node.telemetry;
  trace.begin = {{"address.eth0", "10.0.0.2"}};
  return trace;
}

/// `reports`: for each recovery.
NodeTrace sender(double again, double duplicates, double reports) {
  R node;
  node.counter("tcp.peer.retransmits", "10.0.0.2", R::event(0, again))
      .counter("tcp.peer.duplicates", "10.0.0.2", R::event(0, duplicates))
      .counter("tcp.peer.segments_sent", "10.0.0.2", R::always(50'000))
      .counter("tcp.RetransSegs", "", R::event(0, again), "node")
      .counter("tcpext.TCPSackRecovery", "", R::event(0, 5), "node")
      .counter("tcpext.TCPSACKReorder", "", R::event(0, reports > 0 ? 5 : 0), "node")
      .counter("tcpext.TCPDSACKRecv", "", R::event(0, 5 * reports), "node");
  NodeTrace trace;
  trace.telemetry = node.telemetry;
  trace.telemetry.node = "n1";
  trace.begin = {{"address.eth0", "10.0.0.1"}};
  return trace;
}

std::string losses_reported(double again, double duplicates, double reports = 0) {
  std::vector<NodeSummary> summaries;
  for (NodeTrace trace : {sender(again, duplicates, reports), receiver()}) {
    trace.telemetry.begin_utc_ns = kBegin;
    trace.samples_expected = trace.samples_present = static_cast<double>(trace.telemetry.samples);
    summaries.push_back(parse_summary(render_summary(analyse(trace, {}))));
  }
  std::string text;
  for (const Finding& finding : merge_summaries(summaries, {}, {}).findings) {
    if (finding.id == "net.tcp_retrans_fault") text += finding.sentence;
  }
  return text;
}

TEST(LostSegments, AreDistinguishedFromOvertakingOnesInTheReportOfAJob) {
  EXPECT_EQ(losses_reported(300, 295), "");
  const std::string text = losses_reported(60, 1);
  EXPECT_NE(text.find("losses were on the path from n1 to n2. n1 had to send at least "), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with(" segments again.")) << text;
  EXPECT_NE(losses_reported(600, 560, 2), "") << "eight of ten thousand";
  EXPECT_EQ(losses_reported(600, 560, 10), "") << "packets overtook each other";
  EXPECT_NE(losses_reported(600, 460, 10), "") << "they did, and some were lost";
}

}  // namespace
}  // namespace reveal::tests::lost_segments_test
