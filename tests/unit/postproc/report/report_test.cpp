// Whole reports, as they are accepted, and as JSON and back.
#include "postproc/report/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "hdf5schema/basics/error.h"
#include "postproc/words/sanitize.h"
#include "report_pages.h"
#include "report_samples.h"

namespace reveal::tests::report_test {
namespace {

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Whole reports are compared; REVEAL_ACCEPT=1 rewrites the expected ones, and the diff is part of the review.
void expect_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(TEST_DATA) + "/reports/" + name;
  if (std::getenv("REVEAL_ACCEPT") != nullptr) {
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  EXPECT_EQ(text, file_text(path)) << "in " << path << "; REVEAL_ACCEPT=1 rewrites it";
}

TEST(Report, LooksAsAccepted) {
  for (const samples::Sample& sample : samples::all()) {
    SCOPED_TRACE(sample.name);
    expect_golden(sample.name + ".json", render_json(sample.report));
    expect_golden(sample.name + ".txt", render_text(sample.report));
    const std::string page = render_html(sample.report);
    expect_golden(sample.name + ".html", without_embedded(page));
    samples::keep_page(sample.name, page);
  }
}

TEST(Report, StaysSmallHoweverManyNodesAJobHas) {
  const struct {
    std::size_t nodes, odd, most_bytes;
  } jobs[] = {{4, 1, 700'000}, {64, 4, 800'000}, {1024, 40, 1'500'000}};
  for (const auto& [nodes, odd, most_bytes] : jobs) {
    const Report report = samples::large(nodes, odd);
    const std::string page = render_html(report);
    EXPECT_LT(page.size(), most_bytes) << nodes << " nodes";
    EXPECT_LT(render_json(report).size(), 3'000'000U) << nodes << " nodes";
    samples::keep_page("nodes_" + std::to_string(nodes), page);
  }
}

TEST(Report, SurvivesTheRoundTripThroughJson) {
  for (const samples::Sample& sample : samples::all()) {
    SCOPED_TRACE(sample.name);
    const std::string json = render_json(sample.report);
    Report back = parse_report(json);
    EXPECT_TRUE(render_json(back) == json);
    if (sample.name == "hostile") continue;  // its broken bytes and infinities are not meant to survive
    EXPECT_EQ(render_text(back), render_text(sample.report));
    Report before = sample.report;
    before.timeline.clear();  // rounded once in the JSON, and again in the page
    back.timeline.clear();
    EXPECT_TRUE(render_html(back) == render_html(before));
  }
}

TEST(Report, HasTheCertaintyAndTheRelationsOfStepsInItsJson) {
  Report report = samples::outsider(8);
  report.findings.resize(2);
  report.findings[0].id = "mem.swap_activity";
  report.findings[0].confidence = Confidence::possible;
  report.findings[0].remedy.user = {};
  report.findings[0].remedy.advice = {"Ask for as much memory as the job uses.",
                                      "Use less memory at once: smaller batches, fewer workers."};
  report.findings[1].id = "node.config_drift";
  report.findings[1].confidence = Confidence::certain;
  const auto json = nlohmann::json::parse(render_json(report))["findings"];
  EXPECT_EQ(json[0]["states"], "cause");
  EXPECT_EQ(json[0]["certainty"], "cause possible");
  EXPECT_EQ(json[0]["remedy_steps"]["advice"].dump(), R"(["next","or"])");
  EXPECT_EQ(json[0]["remedy_steps"]["user"].dump(), "[]");
  EXPECT_EQ(json[1]["states"], "fact");
  EXPECT_EQ(json[1]["certainty"], "measured fact");
}

TEST(Report, ReadsTheWordsForIntervalsOfOlderReports) {
  std::string text = render_json(samples::outsider(1));
  for (const auto& [now, then] :
       {std::pair("\"tier\": \"strong\"", "\"tier\": \"finding\""),
        std::pair("\"tier\": \"weak\"", "\"tier\": \"notice\""),
        std::pair("\"EDGE\"", "\"EDGE\", \"OF_A_LATER_VERSION\""), std::pair("\"IF\"", "\"IF\", \"<script>\"")}) {
    const std::size_t at = text.find(now);
    ASSERT_NE(at, std::string::npos) << now;
    text.replace(at, std::string_view(now).size(), then);
  }
  const Report report = parse_report(text);
  ASSERT_EQ(report.episodes.size(), 2U);
  EXPECT_EQ(report.episodes[0].tier, Tier::strong);
  EXPECT_EQ(report.episodes[0].methods,
            (std::vector{Method::interval_scan, Method::paper_z, Method::paper_mahalanobis}));
  EXPECT_EQ(report.episodes[1].tier, Tier::weak);
  EXPECT_EQ(report.episodes[1].methods, (std::vector{Method::paper_z, Method::paper_forest}));
  EXPECT_EQ(report.episodes[1].labels, std::vector<Label>{Label::edge});
}

TEST(Report, KeepsEverySampleThroughJson) {
  for (const samples::Sample& sample : samples::all()) {
    if (sample.name == "hostile") continue;
    SCOPED_TRACE(sample.name);
    Report before = sample.report;
    Report after = parse_report(render_json(before));
    EXPECT_EQ(after.timeline.size(), before.timeline.size());
    before.timeline.clear();  // its points are rounded, and not a number where something was lost
    after.timeline.clear();
    for (Report* report : {&before, &after}) {
      for (MetricAcrossNodes& metric : report->across) {
        for (MetricAcrossNodes::Line& line : metric.lines) {
          for (double& value : line.values) value = std::isnan(value) ? -1 : value;
        }
      }
    }
    EXPECT_EQ(after, before);
  }
  const Report lossy = parse_report(render_json(samples::outsider(2)));
  EXPECT_TRUE(std::isnan(lossy.timeline[4].values[50]));  // 100 s: lost on n02
}

TEST(Report, RefusesForeignJsonInOneLine) {
  const std::string good = render_json(samples::healthy());
  std::string newer = good;
  newer.replace(newer.find("reveal.report/1"), 15, "reveal.report/2");
  const struct {
    std::string text;
    std::string message;
  } cases[] = {
      {"", "not JSON from byte"},
      {good.substr(0, good.size() / 2), "cut off?"},
      {"[1e999]", "too large"},
      {"[]", "names no schema"},
      {"{\"schema\": \"other\"}", "schema \"other\""},
      {newer, "schema \"reveal.report/2\"; this reveal reads reveal.report/1"},
      {"{\"schema\": 1}", "\"schema\" has the wrong type: number"},
      {R"({"schema": "reveal.report/1", "job": {"exit_code": 1e300}})", "\"exit_code\" is out of range"},
      {R"({"schema": "reveal.report/1"})", "unknown status \"\""},
      {R"({"schema": "reveal.report/1", "verdict": {"status": "healthy"}, "findings": {}})",
       "\"findings\" is not a list"},
      {R"({"schema": "reveal.report/1", "verdict": {"status": "healthy"}, "created": "yesterday"})", "not a time"},
  };
  for (const auto& [text, message] : cases) {
    try {
      static_cast<void>(parse_report(text));
      ADD_FAILURE() << "accepted: " << text.substr(0, 80);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
}

TEST(Report, ReadsJsonWithUnknownAndMissingKeys) {
  const Report report =
      parse_report(R"({"schema": "reveal.report/1", "later": {"x": [1]}, "verdict": {"status": "notice"}})");
  EXPECT_EQ(report.verdict.status, VerdictStatus::notice);
  EXPECT_TRUE(report.findings.empty());
}

}  // namespace
}  // namespace reveal::tests::report_test
