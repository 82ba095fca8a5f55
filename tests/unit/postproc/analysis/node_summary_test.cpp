#include "postproc/analysis/node_summary.h"

#include <gtest/gtest.h>

#include <set>

#include "config_of.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/zlib_text.h"
#include "postproc/analysis/job_report.h"
#include "postproc/analysis/node_analysis.h"
#include "postproc/diagnose/analysis_settings.h"
#include "postproc/json/json_fields.h"
#include "postproc/report/verdict.h"
#include "postproc/report/wording.h"
#include "synthetic_node.h"

namespace reveal::tests::node_summary_test {
namespace {

NodeTrace trace(const std::string& node, double seconds, double outsider_begin = -1, double pause_begin = -1) {
  NodeTrace trace;
  trace.telemetry = SyntheticNode{}.record(seconds, [&](double second, SyntheticNode::Demand& demand) {
    SyntheticNode::training(second, demand);
    if (pause_begin >= 0 && second >= pause_begin && second < pause_begin + 15) demand.job[0] = demand.job[1] = 0.02;
    if (outsider_begin >= 0 && second >= outsider_begin && second < outsider_begin + 15) demand.outsider[1] = 1;
  });
  trace.telemetry.node = node;
  trace.header.node = node;
  trace.header.job_id = "4711";
  trace.samples_expected = trace.samples_present = static_cast<double>(trace.telemetry.samples);
  return trace;
}

NodeSummary summary(const std::string& node, double outsider_begin = -1) {
  NodeSummary summary = analyse(trace(node, 120, outsider_begin), {});
  summary.trace = node + ".h5";
  return summary;
}

TEST(Summary, ComparesNodesByTheModelsOfTheirGpus) {
  NodeTrace one = trace("n01", 120);
  one.begin = {{"gpu.gpu0.name", "H100"}, {"gpu.gpu1.name", "H100"}};
  one.end = {{"gpu.gpu2.name", "A100"}, {"gpu.gpu3.name", ""}};
  const NodeSummary summary = analyse(one, {});
  EXPECT_EQ(summary.profile.facts, (SharedPairs{{"gpu.models", "A100, H100"}})) << "the numbers of GPUs are no setting";
}

TEST(Summary, ComesBackAsItWasWritten) {
  const NodeSummary written = summary("n01", 50);
  const NodeSummary read = parse_summary(render_summary(written));
  EXPECT_EQ(read.node, "n01");
  EXPECT_EQ(read.config_hash, written.config_hash);
  EXPECT_EQ(read.seconds, 120);
  ASSERT_FALSE(read.part.findings.empty());
  EXPECT_EQ(read.part.findings[0].id, "cpu.outsider");
  EXPECT_EQ(read.part.findings[0].sentence, written.part.findings[0].sentence);
  EXPECT_EQ(read.part.findings[0].intervals[0].begin_utc_ns, written.part.findings[0].intervals[0].begin_utc_ns);
  EXPECT_EQ(read.profile, written.profile);
  EXPECT_EQ(read.part.timeline.size(), written.part.timeline.size());
}

TEST(Summary, StaysBelowItsLimit) {
  NodeSummary large = summary("n01");
  for (int i = 0; i < 100; ++i) {
    TimelineChannel line = large.part.timeline.at(0);
    line.name += std::to_string(i);
    line.values.assign(1200, 1234.5678 + i);
    large.part.timeline.push_back(line);
  }
  const std::string text = render_summary(large);
  EXPECT_LE(text.size(), kLargestSummary);
  EXPECT_NO_THROW(static_cast<void>(parse_summary(text)));
}

TEST(Summary, IsReadFromItsCompressedText) {
  const NodeSummary written = summary("n01");
  const std::string stored = zlib_text(render_summary(written));
  EXPECT_EQ(stored.front(), 'x');
  EXPECT_EQ(parse_summary(stored), parse_summary(render_summary(written)));
}

TEST(Summary, RefusesADamagedCompressedText) {
  const std::string stored = zlib_text(render_summary(summary("n01")));
  for (std::size_t size = 1; size < stored.size(); size += 97) {
    EXPECT_THROW(static_cast<void>(parse_summary(stored.substr(0, size))), Error) << size;
  }
  for (std::size_t at = 0; at < stored.size(); at += 97) {
    std::string damaged = stored;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    EXPECT_THROW(static_cast<void>(parse_summary(damaged)), Error) << at;
  }
  EXPECT_THROW(static_cast<void>(parse_summary(zlib_text(std::string(100'000'000, ' ')))), Error)
      << "97 kB that would be a hundred megabytes";
}

TEST(Summary, ReadsThoseOfTheFirstVersion) {
  Json json = Json::parse(render_summary(summary("n01")));
  json["schema"] = "reveal.summary/1";
  json.erase("node_list");
  json["expected_nodes"] = {"n01", "n02", "n03"};
  json["aggregates"] = Json::array();
  Json& profile = json["profile"];
  profile["version"] = 1;
  profile.erase("columns");
  profile["channel_columns"] = Json::array();
  profile["channels"] = Json::parse(R"([["cpu.user","cpus","cpu","counter",0,1.5,[1.4,null,1.6],1,2,"0o"]])");
  const NodeSummary read = parse_summary(json.dump());
  EXPECT_EQ(read.expected_nodes, "n[01-03]");
  ASSERT_EQ(read.profile.channels.size(), 1U);
  const ProfileChannel& channel = read.profile.channels[0];
  EXPECT_EQ(channel.name, "cpu.user");
  EXPECT_EQ(channel.mean, 1.5);
  EXPECT_EQ(channel.blocks.at(2), 1.6F);
  EXPECT_EQ(channel.trend, Rare(ProfileTrend{.low = 1, .high = 2, .line = "0o"}));
  EXPECT_TRUE(read.profile.all_trends);
}

TEST(Summary, IsSmallOnANodeOfAThousand) {
  NodeTrace one = trace("n0500", 600);
  one.begin = {{"job.nodelist", "n[0001-1000]"}};
  for (const char* metric : {"process.read_by_calls", "net.tx_bytes"}) {
    one.telemetry.channels.push_back({.metric = metric,
                                      .instance = "rank0",
                                      .kind = Kind::counter,
                                      .unit = Unit::bytes,
                                      .scope = Scope::process,
                                      .subsystem = Subsystem::process});
    for (std::size_t t = 0; t < one.telemetry.samples; ++t) one.telemetry.values.push_back(t < 1000 ? 1e5 : 2e5);
  }
  const NodeSummary summary = analyse(one, {});
  EXPECT_EQ(summary.expected_nodes, "n[0001-1000]");
  EXPECT_FALSE(summary.profile.all_trends);
  EXPECT_LT(zlib_text(render_summary(summary)).size(), 20'000U);
  for (const TimelineChannel& line : summary.part.timeline) EXPECT_LE(line.values.size(), 120U) << line.name;
  ASSERT_NE(summary.profile.find(kOwnTime), nullptr);
  EXPECT_TRUE(summary.profile.find(kOwnTime)->has_line()) << "it tells which node the others wait for";
  ASSERT_NE(summary.profile.find("process.read_by_calls"), nullptr);
  EXPECT_TRUE(summary.profile.find("process.read_by_calls")->has_line()) << "it tells what that costs";
  ASSERT_NE(summary.profile.find("net.tx_bytes"), nullptr);
  EXPECT_TRUE(summary.profile.find("net.tx_bytes")->has_line()) << "it tells whether they waited at all";
  EXPECT_FALSE(summary.profile.find("cpu.user")->has_line());
  one.telemetry.node = one.header.node = "n0001";
  EXPECT_TRUE(analyse(one, {}).profile.find("cpu.user")->has_line()) << "one of sixteen has them all";
}

TEST(Summary, KeepsAllPointsOfTheLinesOfTheFirstTwelveNodes) {
  NodeTrace one = trace("n01", 240);
  one.begin = {{"job.nodelist", "n[01-13]"}};
  const auto points_on = [&one](const char* node) {
    one.telemetry.node = one.header.node = node;
    std::set<std::size_t> points;
    for (const TimelineChannel& line : analyse(one, {}).part.timeline) points.insert(line.values.size());
    return points;
  };
  EXPECT_EQ(points_on("n12"), std::set<std::size_t>{1200});
  EXPECT_EQ(points_on("n13"), std::set<std::size_t>{120});
}

TEST(Summary, RefusesWhatIsNotOne) {
  EXPECT_THROW(static_cast<void>(parse_summary("")), Error);
  EXPECT_THROW(static_cast<void>(parse_summary("{}")), Error);
  EXPECT_THROW(static_cast<void>(parse_summary("[1,2")), Error);
  const std::string whole = render_summary(summary("n01"));
  EXPECT_THROW(static_cast<void>(parse_summary(whole.substr(0, whole.size() / 2))), Error);
}

TEST(SummaryMerge, NamesTheOneDisturbedNode) {
  const Report report = merge_summaries({summary("n01"), summary("n02", 50), summary("n03")}, {}, {});
  EXPECT_EQ(report.verdict.status, VerdictStatus::finding);
  EXPECT_EQ(report.verdict.primary, "cpu.outsider");
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings[0].nodes, std::vector<std::string>{"n02"});
  EXPECT_EQ(report.job.nodes.size(), 3U);
  EXPECT_FALSE(report.partial);
  ASSERT_FALSE(report.timeline.empty());
  EXPECT_EQ(report.timeline[0].node, "n02");
}

TEST(SummaryMerge, KeepsTheFirstIdsOfTheTraces) {
  const NodeSummary one = summary("n01");
  EXPECT_TRUE(merge_summaries({one}, {}, {}).job.trace_ids.empty()) << "an older trace";
  EXPECT_EQ(render_summary(one).find("trace_ids"), std::string::npos);
  std::vector<NodeSummary> nodes;
  for (const char letter : std::string_view("ttsrqponmlkjihgfedcba")) {
    nodes.push_back(summary("n" + std::to_string(10 + nodes.size())));
    nodes.back().part.job.trace_ids = {std::string(1, letter)};
  }
  const std::vector<std::string> ids = merge_summaries(nodes, {}, {}).job.trace_ids;
  std::string letters;
  for (const std::string& id : ids) letters += id;
  EXPECT_EQ(letters, "abcdefghijklmnop");
  nodes.resize(3);
  EXPECT_EQ(merge_summaries(nodes, {}, {}).job.trace_ids, (std::vector<std::string>{"s", "t"})) << "each once";
}

TEST(SummaryMerge, TellsOfANodeThatRecordedAtAnotherTimeThanTheOthers) {
  std::vector<NodeSummary> nodes = {summary("n01"), summary("n02"), summary("n03")};
  const auto note_of_second = [&nodes](std::int64_t later_seconds, std::size_t count) {
    std::vector<NodeSummary> some(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(count));
    for (std::int64_t* time : {&some[1].part.job.begin_utc_ns, &some[1].part.job.end_utc_ns})
      *time += later_seconds * kSecond;
    const Report report = merge_summaries(some, {}, {});
    EXPECT_FALSE(report.partial);
    std::string notes;
    for (const NodeCoverage& coverage : report.coverage) {
      if (coverage.nodes == std::vector<std::string>{"n02"}) notes += coverage.note;
    }
    return notes;
  };
  EXPECT_EQ(note_of_second(60, 3), "");  // recorded at the same time for a minute
  EXPECT_NE(note_of_second(10'800, 3).find(
                "its recording begins 3 h 0 min after those of 2 nodes, without a common time: its clock was wrong"),
            std::string::npos);
  EXPECT_NE(note_of_second(10'800, 2).find("begins 3 h 0 min after that of n01, without"), std::string::npos);
}

TEST(SummaryMerge, DrawsTheEvidenceOfTheFirstFindingBeforeAllElse) {
  std::vector<NodeSummary> nodes = {summary("n01", 50), summary("n02", 50), summary("n03", 50)};
  for (NodeSummary& node : nodes) {  // more than a report draws
    TimelineChannel other = node.part.timeline.at(0);
    for (int i = 0; i < 100; ++i) {
      other.name = "other." + std::to_string(i);
      node.part.timeline.insert(node.part.timeline.begin(), other);
    }
  }
  const Report report = merge_summaries(nodes, {}, {});
  ASSERT_FALSE(report.findings.empty());
  std::set<std::string> evidence;
  for (const Evidence& one : report.findings[0].evidence)
    evidence.insert(one.node + channel_name(one.metric, one.instance));
  bool ended = false;
  for (const TimelineChannel& line : report.timeline) {
    const bool is_evidence = evidence.count(line.node + line.name) > 0;
    EXPECT_FALSE(ended && is_evidence) << line.node << " " << line.name;
    ended = ended || !is_evidence;
  }
  EXPECT_TRUE(evidence.count(report.timeline.at(1).node + report.timeline.at(1).name) > 0);
}

TEST(SummaryMerge, CountsTheTimeOfIntervalsThatTheReportLeavesOut) {
  std::vector<NodeSummary> nodes = {summary("n01"), summary("n02")};
  for (NodeSummary& node : nodes) {
    node.part.episodes.clear();
    for (std::int64_t i = 0; i < 50; ++i) {
      ReportEpisode episode;
      episode.node = node.node;
      const std::int64_t begin = node.part.job.begin_utc_ns + 2 * i * kSecond;
      episode.span = {begin, begin + kSecond};
      episode.tier = Tier::weak;
      node.part.episodes.push_back(episode);
    }
    node.part.anomalous.clear();  // as in a summary of an earlier version
  }
  nodes[0].part.anomalous = {{AnomalousTime::By::subsystem, "cpu", 70, 0}};  // 20 more were left out before
  const Report report = merge_summaries(nodes, {}, {});
  EXPECT_EQ(report.episodes.size(), 60U);
  ASSERT_EQ(report.anomalous.size(), 1U);
  EXPECT_EQ(report.anomalous[0].name, "cpu");
  EXPECT_DOUBLE_EQ(report.anomalous[0].seconds, 120);
  EXPECT_DOUBLE_EQ(report.anomalous[0].percent, 100);
}

TEST(SummaryMerge, MakesOneFindingOfTheSameRuleOnSeveralNodes) {
  const Report report = merge_summaries({summary("n01", 50), summary("n02", 51)}, {}, {});
  const auto outsiders = std::count_if(report.findings.begin(), report.findings.end(),
                                       [](const Finding& finding) { return finding.id == "cpu.outsider"; });
  EXPECT_EQ(outsiders, 1);
  EXPECT_EQ(report.findings[0].nodes, (std::vector<std::string>{"n01", "n02"}));
  EXPECT_EQ(report.findings[0].intervals.size(), 1U);
  EXPECT_LT(report.findings[0].impact.seconds.value_or(99), 12) << "nodes wait for each other: losses do not add up";
}

/// An episode of 15 s from that begin, with a cause or without one ("anomaly.unexplained").
Finding found_at(const NodeSummary& summary, const std::string& id, std::int64_t begin_second) {
  const std::int64_t begin = summary.part.job.begin_utc_ns + begin_second * kSecond;
  Finding finding;
  finding.id = id;
  finding.nodes = {summary.node};
  finding.intervals = {{begin, begin + 15 * kSecond}};
  return finding;
}

TEST(SummaryMerge, LeavesNothingUnexplainedThatAnotherNodeExplains) {
  NodeSummary lossy = summary("n01");
  NodeSummary sender = summary("n02");
  lossy.part.findings = {found_at(lossy, "net.tcp_retrans_fault", 50)};
  const auto ids_with = [&](std::int64_t begin_second) {
    sender.part.findings = {found_at(sender, "anomaly.unexplained", begin_second)};
    std::vector<std::string> ids;
    for (const Finding& finding : merge_summaries({lossy, sender}, {}, {}).findings) ids.push_back(finding.id);
    return ids;
  };
  EXPECT_EQ(ids_with(51), (std::vector<std::string>{"net.tcp_retrans_fault"}));
  const std::vector<std::string> both = {"net.tcp_retrans_fault", "anomaly.unexplained"};
  EXPECT_EQ(ids_with(70), both) << "another time";
  EXPECT_EQ(ids_with(57), (std::vector<std::string>{"net.tcp_retrans_fault"})) << "8 of 15 seconds in common";
  EXPECT_EQ(ids_with(58), both) << "7 of 15";
}

TEST(SummaryMerge, LeavesNothingUnexplainedOfANodeThatTheOthersWaitedFor) {
  NodeSummary slow = summary("n01");
  const auto ids_with = [&](std::int64_t begin_second) {
    Finding straggler = found_at(slow, "node.straggler", 50);
    straggler.kind = FindingKind::peer;
    slow.part.findings = {straggler, found_at(slow, "anomaly.unexplained", begin_second)};
    std::vector<std::string> ids;
    for (const Finding& finding : merge_summaries({slow, summary("n02")}, {}, {}).findings) ids.push_back(finding.id);
    return ids;
  };
  EXPECT_EQ(ids_with(51), (std::vector<std::string>{"node.straggler"}));
  EXPECT_EQ(ids_with(70), (std::vector<std::string>{"node.straggler", "anomaly.unexplained"})) << "another time";
}

TEST(SummaryMerge, ComparesTheNodesWithEachOther) {
  const Report report = merge_summaries({summary("n01"), summary("n02"), summary("n03")}, {}, {});
  EXPECT_TRUE(report.comparison.compared);
  EXPECT_TRUE(report.comparison.deviations.empty());
  EXPECT_NE(render_text(report).find("3 nodes that do the same work"), std::string::npos) << render_text(report);
  const Report read = parse_report(render_json(report));
  EXPECT_EQ(read.comparison.sentence, report.comparison.sentence);
  EXPECT_EQ(read.comparison.groups.size(), 1U);
}

TEST(SummaryMerge, ReportsNodesOfAnEarlierVersionWithoutComparingThem) {
  const auto earlier = [](const std::string& node) {
    std::string text = render_summary(summary(node));
    const std::string key = "\"profile\":";
    text.replace(text.find(key), key.size(), "\"profile_of_another_kind\":");
    return parse_summary(text);
  };
  const Report report = merge_summaries({earlier("n01"), earlier("n02"), earlier("n03")}, {}, {});
  EXPECT_FALSE(report.comparison.compared);
  EXPECT_EQ(report.comparison.reason, "no node has a profile for the comparison");
  EXPECT_EQ(report.job.nodes.size(), 3U);
}

/// A node that did nothing from 50 s to 65 s, with the episode and the finding a detector would make of it.
NodeSummary paused(const std::string& node) {
  NodeSummary summary = analyse(trace(node, 120, -1, 50), {});
  const std::int64_t begin = summary.part.job.begin_utc_ns;
  ReportEpisode episode{.node = node, .span = {begin + 50 * kSecond, begin + 65 * kSecond}, .tier = Tier::strong};
  episode.reasons = {{"job.cpu_time", "", "level", "cpus", -9, 0.04, 1.8}};
  summary.part.episodes = {episode};
  Finding open;
  open.id = "anomaly.unexplained";
  open.nodes = {node};
  open.intervals = {episode.span};
  summary.part.findings = {open};
  return summary;
}

TEST(SummaryMerge, MakesNoNewsOfAPhaseThatAllNodesShow) {
  const Report all = merge_summaries({paused("n01"), paused("n02"), paused("n03")}, {}, {});
  ASSERT_EQ(all.episodes.size(), 3U);
  for (const ReportEpisode& episode : all.episodes) EXPECT_EQ(episode.labels, std::vector<Label>{Label::common});
  for (const Finding& reported : all.findings) EXPECT_NE(reported.id, "anomaly.unexplained");
  const Report one = merge_summaries({paused("n01"), summary("n02"), summary("n03")}, {}, {});
  const auto own = std::find_if(one.episodes.begin(), one.episodes.end(),
                                [](const ReportEpisode& episode) { return episode.node == "n01"; });
  ASSERT_NE(own, one.episodes.end());
  EXPECT_TRUE(own->labels.empty());
  EXPECT_TRUE(std::any_of(one.findings.begin(), one.findings.end(),
                          [](const Finding& reported) { return reported.id == "anomaly.unexplained"; }));
}

/// So many nodes like this one.
std::vector<NodeSummary> copies_of(const NodeSummary& one, int count) {
  std::vector<NodeSummary> nodes;
  for (int i = 0; i < count; ++i) {
    NodeSummary& copy = nodes.emplace_back(one);
    copy.node = copy.profile.node = "n" + std::to_string(1000 + i);
    copy.boot_id = "boot of " + copy.node;
    copy.part.coverage.at(0).nodes = {copy.node};
    copy.part.coverage.at(0).samples_present = 1190 + i % 10;
    copy.part.coverage.at(0).samples_expected = 1200;
    copy.part.coverage.at(0).clock_error_seconds = 1e-6 * i;
  }
  return nodes;
}

TEST(SummaryMerge, GroupsTheCoverageOfALargeJob) {
  std::vector<NodeSummary> nodes = copies_of(summary("n01"), 257);
  nodes[5].part.coverage.at(0).samples_present = 300;
  nodes[7].part.coverage.at(0).note = "trace cut off after 5 s";
  const Report report = merge_summaries(nodes, {{"n1009", "it came late", false}}, {});
  ASSERT_EQ(report.coverage.size(), 4U) << "the rest, and three that differ";
  EXPECT_EQ(report.coverage[0].nodes.size(), 254U);
  EXPECT_EQ(report.coverage[0].samples_present, 1190) << "of the node with the fewest";
  EXPECT_EQ(report.coverage[0].clock_error_seconds, 256e-6);
  EXPECT_EQ(report.coverage[1].nodes, std::vector<std::string>{"n1005"});
  EXPECT_EQ(report.coverage[2].nodes, std::vector<std::string>{"n1007"});
  EXPECT_EQ(report.coverage[3].note, "it came late");
  nodes.pop_back();
  EXPECT_EQ(merge_summaries(nodes, {}, {}).coverage.size(), 256U) << "a small job keeps each";
}

TEST(SummaryMerge, SaysWhichNodeIsMissing) {
  ReportOptions options;
  options.expected_nodes = {"n01", "n02"};
  const std::vector<InputProblem> problems{{"n02", "n02 has no trace", true}};
  const Report report = merge_summaries({summary("n01")}, problems, options);
  EXPECT_TRUE(report.partial);
  ASSERT_EQ(report.coverage.size(), 2U);
  EXPECT_EQ(report.coverage[1].note, "n02 has no trace");
  EXPECT_EQ(report.job.nodes_missing, std::vector<std::string>{"n02"});
  EXPECT_NE(report.verdict.sentence.find("on 1 of 2 nodes; there is no data of n02."), std::string::npos)
      << report.verdict.sentence;
  EXPECT_EQ(parse_report(render_json(report)).job.nodes_missing, report.job.nodes_missing);
}

TEST(SummaryMerge, IsPartialWhenRowsWereLost) {
  NodeTrace lossy = trace("n01", 60);
  lossy.events = {{kSecond, "trace", "rows_lost", "7 rows: the disk was slower than the collector"}};
  note_losses(lossy);
  const Report report = merge_summaries({analyse(lossy, {})}, {}, {});
  EXPECT_TRUE(report.partial);
  ASSERT_EQ(report.coverage.size(), 1U);
  EXPECT_NE(report.coverage[0].note.find("7 rows"), std::string::npos);
}

TEST(SummaryMerge, IsHonestAboutAJobTooShortToJudge) {
  const Report report = merge_summaries({analyse(trace("n01", 2), {})}, {}, {});
  EXPECT_EQ(report.verdict.status, VerdictStatus::insufficient_data);
  EXPECT_NE(report.verdict.sentence.find("2 s"), std::string::npos) << report.verdict.sentence;
}

TEST(SummaryMerge, JudgesAHealthyJobHealthy) {
  NodeSummary healthy = summary("n01");
  healthy.part.findings.clear();
  const Report report = merge_summaries({healthy}, {}, {});
  EXPECT_EQ(report.verdict.status, VerdictStatus::healthy);
  EXPECT_EQ(report.verdict.sentence, "No problem found in 2 min on 1 node: nothing to change.");
}

Finding finding(const char* id, Severity severity, double seconds) {
  Finding finding;
  finding.id = id;
  finding.severity = severity;
  finding.nodes = {"n01"};
  finding.intervals = {{0, kSecond}};
  finding.impact.seconds = seconds;
  return finding;
}

TEST(SummaryVerdict, NeverLetsANoticeLead) {
  const auto merged = merge_findings(
      {finding("cpu.affinity_too_narrow", Severity::notice, 9), finding("cpu.outsider", Severity::warning, 2)});
  EXPECT_EQ(merged[0].id, "cpu.outsider");
}

TEST(SummarySettings, NamesFileLineAndTheNearKey) {
  const auto message = [&](std::string_view text) {
    const auto problems = config_of(text).problems_of({"report", "rule"});
    return problems.empty() ? "" : problems.front();
  };
  EXPECT_EQ(message("# x\n[rule.\"cpu.outsider\"]\nmin_cpus = 0.2\n"),
            "reveal.conf:3: unknown key \"min_cpus\" in [rule.\"cpu.outsider\"]; did you mean \"min_cpu\"?");
  EXPECT_EQ(message("[rule.\"cpu.outsidr\"]\n"),
            "reveal.conf:1: unknown rule \"cpu.outsidr\"; did you mean \"cpu.outsider\"?");
  EXPECT_EQ(message("[rule.\"cpu.outsider\"]\nmin_cpu = much\n"),
            "reveal.conf:2: \"min_cpu\" is a number, in cpus, not \"much\"; 0.15 is used");
  EXPECT_EQ(message("[report]\npipeline = \"papr\"\n").substr(0, 14), "reveal.conf:2:");
  EXPECT_EQ(message("[probe.memory]\nanything = 1\n"), "reveal.conf:1: unknown section [probe.memory]");
}

TEST(SummarySettings, SwitchesARuleOffAndChangesAThreshold) {
  const NodeTrace disturbed = trace("n01", 120, 50);
  const AnalysisSettings off = analysis_settings(config_of("[rule.\"cpu.outsider\"]\nenabled = false # for now\n"));
  const NodeSummary without = analyse(disturbed, off);
  for (const Finding& spoken : without.part.findings) EXPECT_NE(spoken.id, "cpu.outsider");
  EXPECT_NE(config_hash(off), config_hash({}));

  const AnalysisSettings deaf = analysis_settings(config_of("[rule.\"cpu.outsider\"]\nmin_cpu = 1.5\n"));
  for (const Finding& spoken : analyse(disturbed, deaf).part.findings) EXPECT_NE(spoken.id, "cpu.outsider");
}

}  // namespace
}  // namespace reveal::tests::node_summary_test
