// net.tcp_retrans_fault on a receiver with lost segments, on their sender, and on nodes that only look so.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "config_of.h"
#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/analysis_settings.h"
#include "postproc/diagnose/rule.h"
#include "rule_recording.h"

namespace reveal::tests::net_tcp_fault_test {
namespace {

using R = RuleRecording;

constexpr std::size_t kSamples = 1200;  // two minutes at 100 ms

struct Receiver {
  double queued = 0;      // segments out of order per step, inside of 50 s to 65 s
  double duplicates = 0;  // segments received twice per step, inside
  double slowed = 0;      // part of the segments that do not come, inside
};

Telemetry record(const Receiver& receiver) {
  Telemetry telemetry{.node = "n2", .samples = kSamples};
  const auto add = [&](const char* metric, double usual, double inside) {
    telemetry.channels.push_back({.metric = metric, .family = "network/netstat", .kind = Kind::counter});
    for (std::size_t t = 0; t < kSamples; ++t) {
      const bool event = t >= 500 && t < 650;
      telemetry.values.push_back((event ? inside : usual) * (1 + 0.1 * static_cast<double>((t * 7) % 5)));
    }
  };
  add("tcpext.TCPOFOQueue", 0.01, receiver.queued);
  add("tcpext.TCPDSACKOldSent", 0.01, receiver.duplicates);
  add("tcp.InSegs", 400, 400 * (1 - receiver.slowed));
  add("tcp.RetransSegs", 0.01, 0.01);
  return telemetry;
}

std::vector<Finding> findings_of(const Telemetry& telemetry) {
  const Snapshot nothing;
  const Detection detection;
  const RuleContext::Node node{telemetry, detection, nothing, nothing, {}};
  const RuleSpec* rule = find_rule("net.tcp_retrans_fault");
  return rule->check(RuleContext(*rule, node, {}, {}));
}

TEST(RuleLoss, NamesTheNodeThatMissesSegments) {
  const auto found = findings_of(record({.queued = 20, .duplicates = 0.2, .slowed = 0.2}));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_EQ(found[0].subsystem, Subsystem::network);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 3, 0.2);
  EXPECT_EQ(found[0].evidence.at(0).metric, "tcpext.TCPOFOQueue");
}

/// The round trip to a peer in ns, inside of 50 s to 65 s and else.
void add_round_trips(Telemetry& telemetry, const std::string& address, double inside, double usual) {
  telemetry.channels.push_back({.metric = "tcp.peer.rtt", .instance = address, .kind = Kind::gauge});
  for (std::size_t t = 0; t < kSamples; ++t) telemetry.values.push_back(t >= 500 && t < 650 ? inside : usual);
}

TEST(RuleLoss, DoesNotRuleOutAFullQueueIfRoundTripsBecameLonger) {
  const auto runner_up = [](double first, double second, double third) {
    Telemetry telemetry = record({.queued = 20, .duplicates = 0.2, .slowed = 0.2});
    add_round_trips(telemetry, "10.0.0.1", first, 0.4e6);
    add_round_trips(telemetry, "10.0.0.3", second, 0.4e6);
    add_round_trips(telemetry, "10.0.0.4", third, 0.4e6);
    add_round_trips(telemetry, "127.0.0.1", 9e6, 0.1e6);
    return findings_of(telemetry).at(0);
  };
  const Finding waited = runner_up(0.4e6, 1.2e6, 1.4e6);
  EXPECT_EQ(waited.runner_up.id, "net.congestion");
  EXPECT_NE(waited.runner_up.why_not.find("3.0 times as long"), std::string::npos) << waited.runner_up.why_not;
  EXPECT_EQ(waited.evidence.back().metric, "tcp.peer.rtt");
  EXPECT_NEAR(waited.evidence.back().observed.value_or(0), 1.2e6, 1e4);
  EXPECT_EQ(runner_up(0.4e6, 0.3e6, 1.4e6).runner_up.id, "net.tcp_retrans_intrinsic") << "one peer of three";
}

/// Lost and sent segments of one peer of the receiver per step; losses inside of 50 s to 65 s, reported two seconds
/// late.
void add_peer(Telemetry& telemetry, const std::string& address, double lost, double sent) {
  const auto add = [&](const char* metric, double usual, double inside) {
    telemetry.channels.push_back(
        {.metric = metric, .instance = address, .family = "network/peer_segments", .kind = Kind::counter});
    for (std::size_t t = 0; t < kSamples; ++t) telemetry.values.push_back(t >= 510 && t < 670 ? inside : usual);
  };
  add("tcp.peer.out_of_order", 0.01, lost);
  add("tcp.peer.segments_received", sent, sent);
}

std::string sentence_with(const std::function<void(Telemetry&)>& add_peers) {
  Telemetry telemetry = record({.queued = 20, .duplicates = 0.2, .slowed = 0.2});
  add_peers(telemetry);
  return findings_of(telemetry).at(0).sentence;
}

TEST(RuleLoss, NamesTheOnlyPeer) {
  const std::string sentence = sentence_with([](Telemetry& telemetry) { add_peer(telemetry, "10.0.0.1", 20, 400); });
  EXPECT_TRUE(sentence.ends_with("(usually 0.0025 %). All of the job's losses were on the path from 10.0.0.1 to n2."))
      << sentence;
}

TEST(RuleLoss, NamesTheWayFromOnePeerOfSeveral) {
  Telemetry telemetry = record({.queued = 20, .duplicates = 0.2, .slowed = 0.2});
  add_peer(telemetry, "10.0.0.1", 0.02, 100);
  add_peer(telemetry, "10.0.0.3", 20, 100);
  add_peer(telemetry, "10.0.0.4", 0, 100);
  add_peer(telemetry, "10.0.0.9", 0, 1);  // hardly a peer
  add_peer(telemetry, "127.0.0.1", 0, 400);
  const Finding found = findings_of(telemetry).at(0);
  EXPECT_TRUE(
      found.sentence.ends_with(" All of the job's losses were on the path from 10.0.0.3 to n2, one "
                               "of 3 peer addresses with significant traffic."))
      << found.sentence;
  EXPECT_EQ(found.evidence.back().metric, "tcp.peer.out_of_order");
  EXPECT_EQ(found.evidence.back().instance, "10.0.0.3");
}

/// Adds the percentage of the peer's segments that is counted.
void count_in_part(Telemetry& telemetry, const std::string& address, double percent) {
  telemetry.channels.push_back(
      {.metric = "tcp.peer.coverage", .instance = address, .family = "network/peer_coverage", .kind = Kind::gauge});
  telemetry.values.insert(telemetry.values.end(), kSamples, percent);
}

TEST(RuleLoss, ComparesPeersOfWhichDifferentPartsAreCounted) {
  // 10.0.0.3 lost eight times as much, but a twentieth of its segments is counted.
  const std::string sentence = sentence_with([](Telemetry& telemetry) {
    add_peer(telemetry, "10.0.0.1", 2.5, 100);
    add_peer(telemetry, "10.0.0.3", 1, 5);
    count_in_part(telemetry, "10.0.0.3", 5);
  });
  EXPECT_TRUE(
      sentence.ends_with(" 89 % of the job's losses were on the path from 10.0.0.3 to n2, one of 2 peer addresses with "
                         "significant traffic."))
      << sentence;
}

TEST(RuleLoss, DoesNotBlameOthersWhereTooFewOfTheJobsSegmentsAreCounted) {
  const auto severity = [](double queued, double percent) {
    Telemetry telemetry = record({.queued = queued, .duplicates = 0.01, .slowed = 0.2});
    add_peer(telemetry, "10.0.0.1", 0, 1);
    count_in_part(telemetry, "10.0.0.1", percent);
    return findings_of(telemetry).at(0).severity;
  };
  EXPECT_EQ(severity(20, 50), Severity::info) << "none of some 1,800 expected was counted";
  EXPECT_EQ(severity(20, 5), Severity::info) << "nor of 180";
  EXPECT_NE(severity(20, 4), Severity::info) << "the part is too small to judge by";
  EXPECT_NE(severity(0.45, 5), Severity::info) << "of 4 expected, none may be there by chance";
}

TEST(RuleLoss, BlamesTheLinkWhereAllPeersAreAffected) {
  const std::string sentence = sentence_with([](Telemetry& telemetry) {
    add_peer(telemetry, "10.0.0.1", 6, 100);
    add_peer(telemetry, "10.0.0.3", 9, 150);
    add_peer(telemetry, "10.0.0.4", 5, 100);
  });
  EXPECT_TRUE(
      sentence.ends_with(" The job's losses came from all 3 peer addresses: if these belong to several "
                         "nodes, the link of n2 loses packets."))
      << sentence;
}

TEST(RuleLoss, NamesSomeOfManyPeers) {
  const std::string sentence = sentence_with([](Telemetry& telemetry) {
    add_peer(telemetry, "10.0.0.1", 10, 100);
    add_peer(telemetry, "10.0.0.3", 10, 100);
    add_peer(telemetry, "10.0.0.4", 0, 100);
    add_peer(telemetry, "10.0.0.5", 0, 100);
  });
  EXPECT_TRUE(
      sentence.ends_with(" Most of the job's losses were on the path from 10.0.0.1, 10.0.0.3 to n2; "
                         "n2 has 4 peer addresses."))
      << sentence;
}

TEST(RuleLoss, NamesNoPeerThatLostNothing) {
  const std::string without = sentence_with([](Telemetry&) {});
  EXPECT_TRUE(without.ends_with("(usually 0.0025 %).")) << without;
  const std::string idle = sentence_with([](Telemetry& telemetry) { add_peer(telemetry, "10.0.0.1", 0.01, 400); });
  EXPECT_EQ(idle.find("10.0.0.1"), std::string::npos) << idle;
}

TEST(RuleLoss, NamesNoWayWhereManyPeersAreNotToldApart) {
  const std::string without = sentence_with([](Telemetry&) {});
  EXPECT_EQ(sentence_with([](Telemetry& telemetry) {
              add_peer(telemetry, "10.0.0.1", 14, 400);
              add_peer(telemetry, "others", 6, 400);
            }),
            without);
  const std::string sentence = sentence_with([](Telemetry& telemetry) {
    add_peer(telemetry, "10.0.0.1", 18, 400);
    add_peer(telemetry, "others", 2, 400);
  });
  EXPECT_TRUE(sentence.ends_with(" 90 % of the job's losses were on the path from 10.0.0.1 to n2.")) << sentence;
}

TEST(RuleLoss, NamesNoWayWhereNoneStandsOut) {
  const std::string without = sentence_with([](Telemetry&) {});
  EXPECT_EQ(sentence_with([](Telemetry& telemetry) {
              for (int i = 1; i <= 24; ++i) add_peer(telemetry, "10.0.0." + std::to_string(i), 1, 100);
            }),
            without)
      << "each has less than a twentieth of the traffic and less than a tenth of the losses";
}

TEST(RuleLoss, NamesNoWayWhereOthersThanTheJobLostThem) {
  const std::string without = sentence_with([](Telemetry&) {});
  EXPECT_EQ(sentence_with([](Telemetry& telemetry) { add_peer(telemetry, "10.0.0.1", 10, 400); }), without)
      << "half of what the node lost";
}

TEST(RuleLoss, TakesTheNodesOwnAddressesForNoPeers) {
  Telemetry telemetry = record({.queued = 20, .duplicates = 0.2, .slowed = 0.2});
  add_peer(telemetry, "10.0.0.1", 20, 100);
  add_peer(telemetry, "10.0.0.2", 0, 100);
  const Snapshot begin = {{"address.eth0", "10.0.0.2 fd00::2"}};
  const Snapshot end;
  const Detection detection;
  const RuleContext::Node node{telemetry, detection, begin, end, {}};
  const RuleSpec* rule = find_rule("net.tcp_retrans_fault");
  const auto found = rule->check(RuleContext(*rule, node, {}, {}));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].sentence.ends_with(" All of the job's losses were on the path from 10.0.0.1 to n2."))
      << found[0].sentence;
}

TEST(RuleLoss, TakesReorderingForWhatItIs) {
  EXPECT_TRUE(findings_of(record({.queued = 20, .duplicates = 15, .slowed = 0.2})).empty());
}

TEST(RuleLoss, NotesALossFromTheFirstSecondToTheLast) {
  Telemetry telemetry = record({});
  const auto set = [&](std::size_t channel, double level) {
    for (std::size_t t = 0; t < kSamples; ++t) telemetry.series(channel)[t] = level;
  };
  set(0, 8);  // 400 and more per step
  const auto found = findings_of(telemetry);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_EQ(found[0].confidence, Confidence::possible);
  EXPECT_FALSE(found[0].impact.seconds.has_value());
  EXPECT_FALSE(found[0].evidence.at(0).expected.has_value());
  set(1, 7);  // most came twice
  EXPECT_TRUE(findings_of(telemetry).empty());
  set(1, 0);
  set(0, 2);  // less than a hundredth: connections that share a port do that
  EXPECT_TRUE(findings_of(telemetry).empty());
}

/// The same bad cable under a job that exchanges data in bursts: 5 s of every 20 s.
Telemetry in_bursts(double lost, double duplicates) {
  Telemetry telemetry = record({});
  for (std::size_t t = 0; t < kSamples; ++t) {
    const bool burst = t % 200 >= 150;
    const double ripple = 1 + 0.1 * static_cast<double>((t * 7) % 5);
    telemetry.series(0)[t] = (burst ? lost : 0) * ripple;
    telemetry.series(1)[t] = (burst ? duplicates : 0) * ripple;
    telemetry.series(2)[t] = (burst ? 400 : 2) * ripple;
  }
  return telemetry;
}

TEST(RuleLoss, NotesALossThatComesWithEachBurstOfTraffic) {
  const auto found = findings_of(in_bursts(12, 0.1));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_NE(found[0].sentence.find("throughout the run: 2.96 % of the TCP segments"), std::string::npos)
      << found[0].sentence;
  EXPECT_TRUE(findings_of(in_bursts(2, 0.1)).empty()) << "half a percent, in each burst: connections that share a port";
  EXPECT_TRUE(findings_of(in_bursts(12, 4)).empty()) << "reordering, in each burst";
}

TEST(RuleLoss, OnlyRemarksALossOnOtherConnectionsThanTheJobs) {
  Telemetry telemetry = record({.queued = 20, .duplicates = 0.2, .slowed = 0.2});
  add_peer(telemetry, "10.0.0.1", 1, 400);
  const Snapshot slurm = {{"env.SLURM_JOB_ID", "4711"}};
  const Snapshot end;
  const Detection detection;
  const RuleContext::Node node{telemetry, detection, slurm, end, {}};
  const RuleSpec* rule = find_rule("net.tcp_retrans_fault");
  const auto found = rule->check(RuleContext(*rule, node, {}, {}));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::info);
  EXPECT_NE(found[0].sentence.find("At most 4 % of them were on the job's connections"), std::string::npos)
      << found[0].sentence;
  EXPECT_FALSE(found[0].impact.seconds.has_value());
  EXPECT_EQ(found[0].impact.how, "not known: few of the losses were on the job's connections");
  EXPECT_EQ(found[0].remedy.user.size(), 1U) << "no node is to be left out for it";
  Telemetry uncounted = record({.queued = 20, .duplicates = 0.2, .slowed = 0.2});
  add_peer(uncounted, "10.0.0.1", std::nan(""), 400);
  for (double& value : uncounted.series(uncounted.channels.size() - 2)) value = std::nan("");
  EXPECT_EQ(findings_of(uncounted).at(0).severity, Severity::warning) << "an older kernel";
  Telemetry half = record({.queued = 20, .duplicates = 0.2, .slowed = 0.2});
  add_peer(half, "10.0.0.1", 10, 400);
  EXPECT_EQ(findings_of(half).at(0).severity, Severity::warning);
}

TEST(RuleLoss, IsStillCalledByItsFormerName) {
  EXPECT_EQ(find_rule("net.tcp_loss"), find_rule("net.tcp_retrans_fault"));
  AnalysisSettings settings =
      analysis_settings(config_of("[rule.\"net.tcp_loss\"]\nenabled = false\nmin_rate = 9\nmin_share = 0.2\n"
                                  "[rule.\"net.tcp_retrans_fault\"]\nmin_rate = 7\n"));
  const RuleSetting* setting = settings.find("net.tcp_retrans_fault");
  ASSERT_NE(setting, nullptr);
  EXPECT_FALSE(setting->enabled);
  const RuleSpec& rule = *find_rule("net.tcp_retrans_fault");
  EXPECT_EQ(threshold_of(rule, setting->thresholds, "min_rate"), 7);
  EXPECT_EQ(threshold_of(rule, setting->thresholds, "min_share"), 0.2);
  EXPECT_EQ(settings.find("net.tcp_loss"), nullptr);
}

/// A node that sends 4,000 segments a second, of which the network changes the order; from 50 s to 65 s some are lost.
struct Sender {
  double recoveries = 5;   // per second, in that time
  double undone = 1.5;     // likewise
  double again = 100;      // segments sent to 10.0.0.1 again per second, in that time
  double needless = 96.5;  // the part of these that had arrived
  double sent = 4000;      // per second, in that time
};

R record_sender(const Sender& sender) {
  R node;
  node.counter("tcpext.TCPOFOQueue", "", R::always(0.1), "node")
      .counter("tcp.InSegs", "", R::always(4000), "node")
      .counter("tcp.OutSegs", "", R::event(4000, sender.sent), "node")
      .counter("tcpext.TCPSackRecovery", "", R::event(0.5, sender.recoveries), "node")
      .counter("tcpext.TCPFullUndo", "", R::event(0.25, 0.6 * sender.undone), "node")
      .counter("tcpext.TCPPartialUndo", "", R::event(0.125, 0.2 * sender.undone), "node")
      .counter("tcpext.TCPDSACKUndo", "", R::event(0.125, 0.2 * sender.undone), "node")
      .counter("tcp.peer.retransmits", "10.0.0.1", R::event(40, sender.again))
      .counter("tcp.peer.duplicates", "10.0.0.1", R::event(40, sender.needless))
      .counter("tcp.peer.segments_sent", "10.0.0.1", R::event(4000, sender.sent));
  return node;
}

std::vector<Finding> found_by(const Sender& sender) {
  return record_sender(sender).findings("net.tcp_retrans_fault");
}

TEST(RuleLoss, KnowsASenderOfRareLossesByTheRecoveriesThatItDidNotUndo) {
  const R node = record_sender({});
  const auto found = node.findings("net.tcp_retrans_fault");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].nodes, std::vector<std::string>{"n2"});
  EXPECT_EQ(found[0].severity, Severity::notice) << "as many segments were sent as usual";
  EXPECT_EQ(found[0].confidence, Confidence::likely);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 50, 0.5);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).end_utc_ns), 65, 0.5);
  EXPECT_TRUE(found[0].sentence.starts_with("Packets from n2 were probably lost on the way for 15 s: it recovered 5"))
      << found[0].sentence;
  EXPECT_TRUE(
      found[0].sentence.ends_with(" times from a loss of TCP segments, 0.0875 % of those it sent (usually 0 %)."))
      << found[0].sentence;
  EXPECT_EQ(found[0].evidence.at(0).metric, "tcpext.TCPSackRecovery");
  EXPECT_EQ(found[0].runner_up.id, "net.tcp_retrans_intrinsic");
}

/// A receiver and a sender with lost segments from 50 s to 65 s.
R receiver_of_losses() {
  R node;
  node.counter("tcpext.TCPOFOQueue", "", R::event(0.1, 200), "node")
      .counter("tcpext.TCPDSACKOldSent", "", R::event(0.1, 2), "node")
      .counter("tcp.InSegs", "", R::event(4000, 3200), "node");
  return node;
}
R sender_of_losses() {
  return record_sender({});
}

/// Ten calls a second that take this time each.
void add_calls(R& node, const std::string& instance, double usual_ns, double inside_ns) {
  node.counter("stack.calls", instance, R::always(10), "rank")
      .counter("stack.time", instance, R::event(10 * usual_ns, 10 * inside_ns), "rank");
}

/// The lines of evidence by the job's own clock.
std::vector<Evidence> lines_of_the_job(const R& node) {
  const auto found = node.findings("net.tcp_retrans_fault");
  EXPECT_EQ(found.size(), 1U);
  std::vector<Evidence> lines;
  for (const Finding& finding : found) {
    EXPECT_EQ(finding.sentence.find("not measured"), std::string::npos) << finding.sentence;
    for (const Evidence& each : finding.evidence) {
      if (each.metric.starts_with("stack.")) lines.push_back(each);
    }
  }
  return lines;
}

TEST(RuleLoss, TellsHowMuchLongerACollectiveTook) {
  for (const auto& losing : {receiver_of_losses, sender_of_losses}) {
    R node = losing();
    add_calls(node, "rank0/c10d.work", 12e6, 31e6);
    node.gauge("stack.step_time", "rank0", R::event(100e6, 131e6), "rank");
    const auto lines = lines_of_the_job(node);
    ASSERT_EQ(lines.size(), 1U) << "one line, and not of the steps, too";
    EXPECT_EQ(lines[0].metric, "stack.time");
    EXPECT_EQ(lines[0].instance, "rank0/c10d.work");
    EXPECT_EQ(lines[0].node, "n2");
    EXPECT_EQ(lines[0].feature, "mean time of a call");
    EXPECT_EQ(lines[0].unit, "ns");
    EXPECT_NEAR(lines[0].observed.value_or(0), 31e6, 1.5e6);
    EXPECT_NEAR(lines[0].expected.value_or(0), 12e6, 0.5e6);
  }
}

TEST(RuleLoss, TellsHowMuchLongerTheStepsTookWhereNoCollectiveDid) {
  R node = receiver_of_losses();
  add_calls(node, "rank0/c10d.work", 12e6, 12e6);
  add_calls(node, "rank0/ncclAllReduce", 1e4, 5e4);  // it is put into a queue: no time of an exchange
  add_calls(node, "rank0/python.gc", 1e6, 9e6);
  node.gauge("stack.step_time", "rank0", R::event(100e6, 101e6), "rank")
      .gauge("stack.step_time", "rank1", R::event(100e6, 131e6), "rank");
  const auto lines = lines_of_the_job(node);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].metric, "stack.step_time");
  EXPECT_EQ(lines[0].instance, "rank1");
  EXPECT_EQ(lines[0].feature, "mean");
  EXPECT_NEAR(lines[0].observed.value_or(0), 131e6, 0.5e6);
  EXPECT_NEAR(lines[0].expected.value_or(0), 100e6, 0.5e6);
}

TEST(RuleLoss, KnowsStepsThatAreLongerThanTheTimeBetweenTwoRows) {
  R node = receiver_of_losses();
  const auto seen = [](double second, double begin, double length) {  // for a second after the end of each
    return std::fmod(second - begin, length) < 1 ? 1e9 * length : std::nan("");
  };
  node.gauge(
      "stack.step_time", "rank0",
      [&](double second) { return second >= 50 && second < 65 ? seen(second, 50, 3) : seen(second, 0, 2); }, "rank");
  const auto lines = lines_of_the_job(node);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NEAR(lines[0].observed.value_or(0), 3e9, 0.2e9);
  EXPECT_NEAR(lines[0].expected.value_or(0), 2e9, 0.1e9);
}

TEST(RuleLoss, HasNoLineOfTheJobsOwnClockWhereItDidNotChange) {
  const auto lines_with = [](double usual, double inside) {
    R node = receiver_of_losses();
    add_calls(node, "rank0/c10d.work", usual, inside);
    node.gauge("stack.step_time", "rank0", R::event(10 * usual, 10 * inside), "rank");
    return lines_of_the_job(node).size();
  };
  EXPECT_EQ(lines_with(12e6, 12e6), 0U);
  EXPECT_EQ(lines_with(12e6, 12.6e6), 0U) << "a twentieth";
  EXPECT_EQ(lines_with(12e6, 6e6), 0U) << "shorter";
  EXPECT_EQ(lines_with(12e6, 14e6), 1U);
}

TEST(RuleLoss, HasNoLineOfTheJobsOwnClockWhereItWasNotMeasured) {
  EXPECT_TRUE(lines_of_the_job(receiver_of_losses()).empty());
  EXPECT_TRUE(lines_of_the_job(sender_of_losses()).empty());
  R node = receiver_of_losses();
  const auto rests_inside = [](double second) { return second >= 48 && second < 70 ? std::nan("") : 12e6; };
  node.counter("stack.calls", "rank0/c10d.work", R::always(10), "rank")
      .counter("stack.time", "rank0/c10d.work", rests_inside, "rank")
      .gauge("stack.step_time", "rank0", rests_inside, "rank");
  EXPECT_TRUE(lines_of_the_job(node).empty()) << "not in the interval";
  R wandering = receiver_of_losses();
  wandering.gauge(
      "stack.step_time", "rank0",
      [](double second) { return second >= 50 && second < 65  ? 131e6
                                 : std::fmod(second, 20) < 10 ? 80e6
                                                              : 140e6; },
      "rank");
  EXPECT_TRUE(lines_of_the_job(wandering).empty()) << "as long as at other times";
}

struct Reports {
  double for_each = 10;  // recovery
  double dubious = 0;    // per second: those that the kernel did not believe
  bool again_measured = true;
};

/// The same sender, with reports of duplicates and another order from 50 s to 65 s. Probes for losses were not
/// measured.
std::size_t found_with_reports(const Sender& sender, const Reports& reports) {
  R node = record_sender(sender);
  node.counter("tcp.RetransSegs", "", reports.again_measured ? R::event(40, sender.again) : R::always(std::nan("")),
               "node")
      .counter("tcpext.TCPDSACKRecvSegs", "", R::event(40, sender.needless), "node")
      .counter("tcpext.TCPDSACKRecv", "", R::event(0.5, reports.for_each * sender.recoveries), "node")
      .counter("tcpext.TCPDSACKIgnoredDubious", "", R::event(0, reports.dubious), "node")
      .counter("tcpext.TCPSACKReorder", "", R::event(0.5, 2 * sender.recoveries), "node");
  return node.findings("net.tcp_retrans_fault").size();
}

TEST(RuleLoss, TakesNoRecoveriesForLossesWherePacketsOvertookEachOther) {
  const Sender overtaken{.again = 100, .needless = 93};  // the kernel undid less than a third of the recoveries
  EXPECT_EQ(found_with_reports(overtaken, {}), 0U);
  EXPECT_EQ(found_with_reports(overtaken, {.for_each = 1}), 1U) << "a report or two for each: segments were lost";
  EXPECT_EQ(found_with_reports({.again = 140, .needless = 93}, {}), 1U) << "more was missing than reports leave out";
  EXPECT_EQ(found_with_reports(overtaken, {.again_measured = false}), 1U);
}

TEST(RuleLoss, TakesDuplicatesOfTheNetworksOwnMakingForNoProofThatPacketsOvertookEachOther) {
  const Sender losing{.again = 100, .needless = 60};
  EXPECT_EQ(found_with_reports(losing, {.dubious = 50}), 1U) << "more duplicates than segments sent again";
  EXPECT_EQ(found_with_reports(losing, {.dubious = 30}), 1U) << "a report that is not believed is no arrival";
}

TEST(RuleLoss, TakesNoRecoveriesForLossesThatTheSenderUndid) {
  EXPECT_TRUE(found_by({.recoveries = 5, .undone = 5, .needless = 100}).empty());
  EXPECT_TRUE(found_by({.recoveries = 50, .undone = 30, .needless = 80}).empty()) << "most of them";
  EXPECT_EQ(found_by({.recoveries = 50, .undone = 20, .needless = 70}).size(), 1U) << "less than half of them";
  EXPECT_TRUE(found_by({.recoveries = 0.5, .undone = 0.5, .needless = 40}).empty()) << "nothing happened";
}

TEST(RuleLoss, CountsNoRecoveriesOfASenderThatWereNotMeasured) {
  R node = record_sender({.recoveries = 5, .undone = 0});
  for (std::size_t i = 0; i < node.telemetry.channels.size(); ++i) {
    const std::string& metric = node.telemetry.channels[i].metric;
    if (metric != "tcpext.TCPSackRecovery" && !metric.ends_with("Undo")) continue;
    for (std::size_t t = 550; t < 590; ++t) node.telemetry.series(i)[t] = std::nan("");
  }
  const auto found = node.findings("net.tcp_retrans_fault");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].runner_up.why_not.find("the sender undid 0 recoveries"), std::string::npos)
      << found[0].runner_up.why_not;
}

TEST(RuleLoss, TakesNoRecoveriesOfASenderForLossesThatAreTooFew) {
  EXPECT_TRUE(found_by({.recoveries = 0.9, .undone = 0.2}).empty()) << "ten of them";
  EXPECT_TRUE(found_by({.recoveries = 5, .undone = 0, .sent = 40'000}).empty()) << "one of 8,000 segments";
}

TEST(RuleLoss, DoesNotRuleOutBurstsOfTheSendersOwnTraffic) {
  const auto found = found_by({.recoveries = 9, .undone = 1, .sent = 8000});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].confidence, Confidence::possible);
  EXPECT_EQ(found[0].runner_up.id, "net.tcp_retrans_intrinsic");
  EXPECT_TRUE(found[0].runner_up.why_not.starts_with("not ruled out: bursts of its own traffic"))
      << found[0].runner_up.why_not;
}

/// Findings of a sender that recovers so often, and undoes nothing.
std::size_t found_with(const R::Course& recoveries, const Sender& sender = {}) {
  R node = record_sender(sender);
  for (std::size_t i = 0; i < node.telemetry.channels.size(); ++i) {
    const std::string& metric = node.telemetry.channels[i].metric;
    const bool recovered = metric == "tcpext.TCPSackRecovery";
    if (!recovered && !metric.ends_with("Undo")) continue;
    for (std::size_t t = 0; t < node.telemetry.samples; ++t) {
      node.telemetry.series(i)[t] = recovered ? 0.1 * recoveries(0.1 * static_cast<double>(t)) : 0;
    }
  }
  return node.findings("net.tcp_retrans_fault").size();
}

TEST(RuleLoss, TakesLossesOfASenderThatComeAgainAndAgainForItsHabit) {
  EXPECT_EQ(found_with(R::habit(0, 30)), 0U);
  EXPECT_EQ(found_with(R::event(0, 30)), 1U);
  EXPECT_EQ(found_with([](double second) { return second >= 50 && second < 52 ? 30.0 : 0.0; }), 0U) << "too short";
  const auto burst = [](double second) { return std::fmod(second, 20) < 0.5 ? 40.0 : 0.0; };
  EXPECT_EQ(found_with([=](double second) { return second >= 50 && second < 59 ? 3.0 : burst(second); }), 0U)
      << "one of many bursts";
}

TEST(RuleLoss, TakesAsManyRecoveriesInLessTrafficForThoseOfOtherConnections) {
  EXPECT_EQ(found_with(R::always(2), {.sent = 400}), 0U);
  EXPECT_EQ(found_with(R::event(2, 12), {.sent = 400}), 1U) << "six times as many";
}

TEST(RuleLoss, OnlyRemarksLossesOfASenderOnOtherConnectionsThanTheJobs) {
  const auto found = found_by({.again = 100, .needless = 99.9});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::info);
  EXPECT_NE(found[0].sentence.find(" of them were on the job's connections"), std::string::npos) << found[0].sentence;
}

TEST(RuleLoss, IsSilentOnAHealthyReceiver) {
  EXPECT_TRUE(findings_of(record({.queued = 0.02})).empty());
}

TEST(RuleLoss, OnlyNotesALossThatSlowedNothing) {
  const auto found = findings_of(record({.queued = 20}));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_FALSE(found[0].impact.seconds.has_value());
}

TEST(RuleLoss, SaysWhatItCouldNotMeasure) {
  Telemetry nothing{.node = "n2", .samples = kSamples};
  EXPECT_THROW(findings_of(nothing), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::net_tcp_fault_test
