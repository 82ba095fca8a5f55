// The page for a browser.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "postproc/report/report.h"
#include "postproc/report/wording.h"
#include "postproc/words/sanitize.h"
#include "report_pages.h"
#include "report_samples.h"

namespace reveal::tests::report_html_test {
namespace {

TEST(ReportHtml, IsInertWhateverAJobIsCalled) {
  const std::string page = without_embedded(render_html(samples::hostile()));
  EXPECT_EQ(occurrences(page, "<script"), 3U);  // the data, the library and ours
  EXPECT_EQ(occurrences(page, "</script"), 3U);
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_EQ(page.find("<b>\""), std::string::npos);
  EXPECT_EQ(page.find("href=\"javascript"), std::string::npos);
  EXPECT_EQ(page.find("\" onmouseover"), std::string::npos);
  EXPECT_EQ(page.find('\x1b'), std::string::npos);
}

TEST(ReportHtml, HasColumnsOfGpusWhereTheJobHasThem) {
  Report report = samples::many_nodes();
  EXPECT_EQ(without_embedded(render_html(report)).find("GPU memory"), std::string::npos);
  report.totals[1].gpus = 4;
  report.totals[1].gpu_used_share = 0.16;
  const std::string page = without_embedded(render_html(report));
  EXPECT_NE(page.find("GPU memory"), std::string::npos);
  EXPECT_NE(page.find("16 % of 4 GPUs"), std::string::npos);
}

TEST(ReportHtml, TellsAMomentOfEvidenceAsOneTime) {
  Report report = samples::outsider(2);
  TimeSpan& span = report.findings[0].evidence[0].span;
  span.end_utc_ns = span.begin_utc_ns;
  EXPECT_NE(render_html(report).find("<td data-label=\"When\">10:33:07 UTC</td>"), std::string::npos);
}

TEST(ReportHtml, FetchesNothing) {
  for (const samples::Sample& sample : samples::all()) {
    const std::string page = without_embedded(render_html(sample.report));
    EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
    for (const char* fetch : {"<link", "src=\"", "@import", "url(", "<iframe", "sourceMappingURL"}) {
      EXPECT_EQ(page.find(fetch), std::string::npos) << sample.name << ": " << fetch;
    }
  }
}

TEST(ReportHtml, StaysSmallWithTwelveHundredPointsAChannel) {
  const std::string page = render_html(samples::outsider(0.1));
  EXPECT_GT(page.size(), 150'000U);  // the library is inside
  EXPECT_LT(page.size(), 600'000U);
}

TEST(ReportHtml, CarriesTheTimelineAsJson) {
  const std::string page = render_html(samples::outsider(0.1));
  const std::string open = "id=\"timeline-data\">";
  const std::size_t begin = page.find(open) + open.size();
  const auto data = nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  ASSERT_EQ(data["channels"].size(), 6U);
  EXPECT_EQ(data["channels"][0]["values"].size(), 1200U);
  EXPECT_EQ(data["channels"][4]["unit"], "MiB/s");
  EXPECT_TRUE(data["channels"][4]["values"][1005].is_null());
  EXPECT_EQ(data["intervals"][0]["begin"], 62);
  EXPECT_EQ(data["intervals"][0]["end"], 77);
  EXPECT_EQ(data["window"][1], 120);
}

TEST(ReportHtml, HasNoFindingWhereNothingIsWorthReading) {
  const std::string page = without_embedded(render_html(samples::failed()));
  EXPECT_EQ(page.find("<h2>Finding</h2>"), std::string::npos);
  EXPECT_NE(page.find("<details><summary>1 observation without visible cost</summary>"), std::string::npos);
  EXPECT_EQ(page.find("href=\"#finding-1\""), std::string::npos);
}

TEST(ReportHtml, NumbersBandsAsTheirFindingsAndShadesNoWholeJob) {
  Report report = samples::outsider(2);
  report.findings.push_back(report.findings[0]);
  report.findings.back().intervals = {{report.job.begin_utc_ns, report.job.end_utc_ns}};
  const std::string page = render_html(report);
  const std::string open = "id=\"timeline-data\">";
  const std::size_t begin = page.find(open) + open.size();
  const auto data = nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  ASSERT_EQ(data["intervals"].size(), 2U);
  EXPECT_EQ(data["intervals"][0]["label"], "1");
  EXPECT_EQ(data["intervals"][1]["label"], "2");
  EXPECT_EQ(data["intervals"][1]["kind"], "notice");
  for (const char* anchor :
       {"id=\"finding-1\"", "id=\"finding-2\"", "id=\"finding-3\"", "href=\"#finding-1\"", "href=\"#finding-2\""}) {
    EXPECT_NE(page.find(anchor), std::string::npos) << anchor;
  }
}

TEST(ReportHtml, HasTheFindingBeforeTheTotalsAndItsSentenceOnce) {
  Report report = samples::outsider(8);
  report.verdict.sentence = report.findings[0].sentence;
  const std::string page = render_html(report);
  EXPECT_EQ(occurrences(page, html(report.findings[0].sentence)), 1U);
  EXPECT_LT(page.find("id=\"finding-1\""), page.find("<dt>Totals</dt>"));
  EXPECT_LT(page.find("<dt>Totals</dt>"), page.find("<h2>What each node used</h2>"));
  report.verdict.sentence += std::string(600, '.');  // longer than the banner
  EXPECT_EQ(occurrences(render_html(report), html(report.findings[0].sentence)), 2U);
  const std::string healthy = render_html(samples::healthy());
  EXPECT_LT(healthy.find("<dt>Totals</dt>"), healthy.find("<h2>Compared with</h2>"));
}

TEST(ReportHtml, DrawsChannelsInTheUnitsOfTheSentences) {
  Report report = samples::outsider(8);
  report.timeline.resize(2);
  report.timeline[0].name = "job.wait_time";
  report.timeline[0].unit = "s/s";
  report.timeline[0].values = {0.5, 0.25};
  report.timeline[0].expected = 0.25;
  report.timeline[1].name = "disk.io_time/vda";
  report.timeline[1].unit = "s/s";
  report.timeline[1].values = {0.5, 0.25};
  const std::string page = render_html(report);
  EXPECT_NE(page.find("\"unit\":\"threads waiting\",\"values\":[0.5,0.25]"), std::string::npos);
  EXPECT_NE(page.find("\"expected_text\":\"0.25 threads waiting\""), std::string::npos);
  EXPECT_NE(page.find("\"unit\":\"% of the time\",\"values\":[50,25]"), std::string::npos);
}

TEST(ReportHtml, NamesTheVersionAndTheDirectory) {
  const std::string page = render_html(samples::healthy());
  EXPECT_NE(page.find("<footer>reveal 0.1.0 "), std::string::npos);
  EXPECT_NE(page.find("<dt>Directory</dt><dd><code>reveal-4712</code>"), std::string::npos);
}

TEST(ReportHtml, HasNoChartsWithoutATimeline) {
  const std::string page = render_html(samples::healthy());
  EXPECT_EQ(occurrences(page, "<script"), 1U);  // ours, without the library
  EXPECT_EQ(page.find("Dan Vanderkam"), std::string::npos);
}

TEST(ReportHtml, DrawsIntervalsOfNodesAndSubsystemsAlongTheJob) {
  Report report = samples::outsider(2);
  ASSERT_FALSE(report.episodes.empty());
  report.episodes.resize(1);
  const std::int64_t begin = report.job.begin_utc_ns;
  const std::int64_t length = report.job.end_utc_ns - begin;
  report.episodes[0].span = {begin + length / 4, begin + length / 2};
  const std::string page = without_embedded(render_html(report));
  EXPECT_NE(page.find("style=\"left:25.00%;width:25.00%\""), std::string::npos);
  EXPECT_NE(page.find("(25 %)</span>"), std::string::npos);
  report.verdict.status = VerdictStatus::healthy;
  EXPECT_EQ(render_html(report).find("When and where it differed"), std::string::npos);
}

TEST(ReportHtml, DrawsOneLaneForEachDetectorAndMetricOfAnInterval) {
  Report report = samples::outsider(2);
  report.episodes.resize(1);
  report.episodes[0].methods = {Method::interval_scan, Method::paper_z};
  report.episodes[0].reasons = {{.metric = "job.outsider_cpu", .instance = "cpu0"},
                                {.metric = "job.outsider_cpu", .instance = "cpu1"},
                                {.metric = "process.run_delay"}};
  const std::string page = render_html(report);
  EXPECT_EQ(occurrences(page, "<span class=\"name\">n01 GAP</span>"), 1U);
  EXPECT_EQ(occurrences(page, "<span class=\"name\">n01 Z</span>"), 1U);
  EXPECT_EQ(occurrences(page, "<span class=\"name\">job.outsider_cpu</span>"), 1U);
  report.episodes[0].tier = Tier::none;
  EXPECT_EQ(render_html(report).find("<ul class=\"lanes\">"), std::string::npos);
}

TEST(ReportHtml, MarksFindingsOfSomeNodesInTheMap) {
  Report report = samples::outsider(2);
  report.episodes.clear();
  EXPECT_NE(render_html(report).find("<th scope=\"row\">n01</th><td class=\"mark-strong\"><a href=\"#finding-1\">"),
            std::string::npos);
  for (Finding& finding : report.findings) finding.nodes = report.job.nodes;
  EXPECT_EQ(render_html(report).find("table class=\"map\""), std::string::npos) << "no node differs";
}

TEST(ReportHtml, LinksNoFindingThatThePageDoesNotHave) {
  Report report = samples::outsider(2);
  const Finding one = report.findings.front();
  report.findings.assign(40, one);
  const std::string page = render_html(report);
  for (int number = 1; number <= 40; ++number) {
    const bool linked = page.find("<a href=\"#finding-" + std::to_string(number) + "\">") != std::string::npos;
    const bool there = page.find("id=\"finding-" + std::to_string(number) + "\"") != std::string::npos;
    EXPECT_EQ(linked, there) << number;
  }
  EXPECT_NE(page.find("; finding 40"), std::string::npos);
}

TEST(ReportHtml, DrawsObservedBesideExpected) {
  Report report = samples::outsider(2);
  report.findings.resize(1);
  report.totals.clear();
  Evidence& evidence = report.findings[0].evidence.at(0);
  report.findings[0].evidence = {evidence};
  report.findings[0].evidence[0].observed = 4;
  report.findings[0].evidence[0].expected = 1;
  const std::string page = render_html(report);
  EXPECT_EQ(occurrences(page, "style=\"--share:1.00\""), 1U);
  EXPECT_EQ(occurrences(page, "style=\"--share:0.25\""), 1U);
  report.findings[0].evidence[0].observed = -4;
  EXPECT_EQ(occurrences(render_html(report), "--share:1.00"), 1U) << "a negative value has no bar";
}

TEST(ReportHtml, FoldsLongTablesAndLeavesEmptyColumnsOut) {
  Report report = samples::many_nodes();
  EXPECT_NE(render_html(report).find("<summary>Each node (12)</summary>"), std::string::npos);
  report.totals.resize(5);
  for (NodeCoverage& coverage : report.coverage) coverage.note.clear();
  const std::string page = render_html(report);
  EXPECT_EQ(page.find("Each node"), std::string::npos);
  EXPECT_EQ(page.find("<th scope=\"col\">Note</th>"), std::string::npos);
}

TEST(ReportHtml, SaysOnceWhatNodesDeliveredAlike) {
  Report report = samples::healthy();
  report.job.nodes = {"n01", "n02", "n03"};
  report.coverage.assign(3, report.coverage.at(0));
  for (std::size_t i = 0; i < 3; ++i) report.coverage[i].nodes = {report.job.nodes[i]};
  EXPECT_NE(render_html(report).find("<td data-label=\"Nodes\">n[01-03]</td>"), std::string::npos);
}

TEST(ReportHtml, DrawsTheExpectedLevelOfEvidence) {
  Report report = samples::outsider(0.1);
  report.timeline[0].expected = 0.25;
  const std::string page = render_html(report);
  EXPECT_EQ(occurrences(page, "\"expected\":0.25"), 1U);
  EXPECT_EQ(occurrences(page, "\"expected\":null"), report.timeline.size() - 1);
}

TEST(ReportHtml, GivesTheTimeOfAllIntervalsNotOnlyOfThoseDrawn) {
  Report report = samples::outsider(2);
  report.omitted["episodes"] = 10;
  report.anomalous = {{AnomalousTime::By::subsystem, "cpu", 540, 75},
                      {AnomalousTime::By::subsystem, "memory", 180, 25},
                      {AnomalousTime::By::metric, "job.outsider_cpu", 540, 75}};
  const std::string page = without_embedded(render_html(report));
  EXPECT_NE(page.find("Drawn are the clearest 2 of 12 intervals."), std::string::npos);
  EXPECT_NE(page.find("<span class=\"total\">9 min (75 %)</span>"), std::string::npos);
  EXPECT_NE(page.find("<span class=\"name\">memory</span><span class=\"track\"></span><span class=\"total\">3 min "
                      "(25 %)</span>"),
            std::string::npos)
      << "none of its intervals is among those drawn";
}

TEST(ReportHtml, DrawsAMetricOfSeveralNodesWithoutAScript) {
  const std::string page = without_embedded(render_html(samples::many_nodes()));
  EXPECT_NE(page.find("<h2>The same metric on several nodes</h2>"), std::string::npos);
  EXPECT_NE(page.find("aria-label=\"mem.used over the job: n17 159 GiB, median of 38 peers 117 GiB\""),
            std::string::npos);
  EXPECT_EQ(occurrences(page, "<path class=\"odd odd-1\" d=\"M0 "), 2U + 2U);  // and two keys
  EXPECT_EQ(occurrences(page, "<path class=\"peer\" d=\"M0 "), 2U + 1U);
  EXPECT_EQ(render_html(samples::healthy()).find("several nodes</h2>"), std::string::npos);
}

TEST(ReportHtml, DrawsTheRunTimesOfEarlierRuns) {
  const std::string page = without_embedded(render_html(samples::many_nodes()));
  EXPECT_EQ(occurrences(page, "<circle class=\"run baseline\""), 2U);
  EXPECT_EQ(occurrences(page, "<circle class=\"run other\""), 1U);
  EXPECT_EQ(occurrences(page, "<path class=\"run this\""), 1U);
  EXPECT_EQ(render_html(samples::outsider(2)).find("class=\"runs\""), std::string::npos);
}

TEST(ReportHtml, ComparesNodesInTheUnitsOfTheSentences) {
  Report report = samples::many_nodes();
  report.comparison.deviations = {
      {"n17", "process.throttled_time/rank0", "s/s", Subsystem::cpu, 0.75, 0.02, 3650, 22, 1e-7}};
  report.across[0].channel = "pressure.io_some";
  report.across[0].unit = "s/s";
  report.across[0].median_mean = 0.31;
  const std::string page = render_html(report);
  EXPECT_NE(page.find(">0.75 cpus</td>"), std::string::npos);
  EXPECT_NE(page.find("median of 38 peers 31 % of the time"), std::string::npos);
}

TEST(ReportHtml, ListsSettingsThatDifferAsATable) {
  const std::string page = without_embedded(render_html(samples::many_nodes()));
  EXPECT_NE(page.find("<td data-label=\"Setting\"><code>cpu.governor</code></td><td data-label=\"Nodes\">n17</td><td "
                      "data-label=\"Value\">powersave</td><td data-label=\"On the others\">performance</td>"),
            std::string::npos);
  const std::string text = render_text(samples::many_nodes(), {.width = 100, .part = TextPart::everything});
  EXPECT_NE(text.find("  settings     cpu.governor on n17 is powersave, elsewhere performance"), std::string::npos);
}

TEST(ReportHtml, MarksWhatHappenedOnTheTimelineAndListsIt) {
  const std::string page = without_embedded(render_html(samples::many_nodes()));
  EXPECT_NE(page.find("{\"at\":71,\"kind\":\"device\",\"node\":\"n02\",\"text\":\"gpu0 NVIDIA driver error "
                      "79\"}"),
            std::string::npos);
  EXPECT_NE(page.find("<summary>What happened, in order</summary>"), std::string::npos);
  EXPECT_NE(page.find("<td data-label=\"What\">training step 257</td>"), std::string::npos);
  EXPECT_EQ(page.find("training step 129"), std::string::npos) << "its steps are ticks, not lines";
  EXPECT_NE(page.find("Ticks at the bottom: training steps. Dotted lines: what happened, listed below."),
            std::string::npos);
}

TEST(ReportHtml, DrawsThePhasesOfTheJobAboveItsTimeline) {
  const std::string page = without_embedded(render_html(samples::outsider(2)));
  EXPECT_EQ(occurrences(page, "<figure class=\"phases\""), 1U);
  EXPECT_NE(page.find("<span><span class=\"key phase-computing\"></span>computing 73 s (61 %, 3 times)</span>"),
            std::string::npos);
  EXPECT_NE(page.find("<span>not measured: communicating (other jobs use the node)</span>"), std::string::npos);
  EXPECT_NE(
      page.find("<i class=\"phase-writing\" style=\"left:50.00%;width:4.17%\" title=\"writing, 60.0 s to 65.0 s of "
                "the job (10:33:05 to 10:33:10 UTC)\"></i>"),
      std::string::npos);
  EXPECT_NE(page.find("title=\"waiting, 110.0 s to 120.0 s of the job (10:33:55 to 10:34:05 UTC)\"></i>"),
            std::string::npos);
  EXPECT_NE(page.find(">reading</i>"), std::string::npos) << "its block has room for the word";
  EXPECT_NE(
      page.find("aria-label=\"Phases: reading until 12 s, computing on few cpus until 20 s, computing until 60 s, "),
      std::string::npos);
  EXPECT_LT(page.find("<figure class=\"phases\""), page.find("id=\"charts\""));
}

TEST(ReportHtml, DrawsNodesWithOtherPhasesApart) {
  const std::string page = without_embedded(render_html(samples::many_nodes()));
  EXPECT_EQ(occurrences(page, "<figure class=\"phases\""), 2U);
  EXPECT_NE(page.find("<figure class=\"phases\" data-node=\"n17\"><figcaption><b>n17</b>"), std::string::npos);
  EXPECT_NE(page.find("<span>training steps from 20.0 s to 118.0 s of the job</span>"), std::string::npos);
}

TEST(ReportHtml, SaysWhyAJobHasNoPhases) {
  const std::string page = without_embedded(render_html(samples::failed()));
  EXPECT_NE(page.find("<figure class=\"phases\"><figcaption><span>No phases:</span><span>the job&#39;s cpu time was "
                      "not measured: too many "
                      "files</span></figcaption></figure>"),
            std::string::npos);
  EXPECT_EQ(render_html(samples::healthy()).find("<figure class=\"phases\""), std::string::npos)
      << "an earlier version made the report";
}

}  // namespace
}  // namespace reveal::tests::report_html_test
