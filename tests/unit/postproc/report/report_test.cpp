#include "postproc/report/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/rule.h"
#include "postproc/report/assets.h"
#include "postproc/report/mail_html.h"
#include "postproc/report/wording.h"
#include "postproc/words/sanitize.h"
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

/// The page without the embedded parts that are the same in every report.
std::string without_embedded(std::string page) {
  for (std::string_view asset :
       {assets::dygraphs_js(), assets::dygraphs_css(), assets::report_js(), assets::report_css()}) {
    asset = asset.substr(0, asset.rfind("sourceMappingURL"));
    asset = asset.substr(0, asset.find_last_not_of("\n/*# ") + 1);
    const std::size_t at = page.find(asset);
    if (at != std::string::npos) page.replace(at, asset.size(), "[embedded]");
  }
  const std::size_t glossary = page.find("<dl>", page.find("What the words mean"));
  if (glossary != std::string::npos) page.replace(glossary, page.find("</dl>", glossary) - glossary, "[embedded]");
  return page;
}

std::size_t occurrences(std::string_view text, std::string_view what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) ++count;
  return count;
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

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(ReportText, FitsAPageOfEightyColumns) {
  for (const samples::Sample& sample : samples::all()) {
    if (sample.name == "hostile") continue;
    SCOPED_TRACE(sample.name);
    Report report = sample.report;
    if (report.findings.size() > 1) report.findings.resize(1);
    const std::vector<std::string> lines = lines_of(render_text(report, {.directory = report.directory}));
    for (const std::string& line : lines) {
      const bool one_word = line.find_first_of(' ', line.find_first_not_of(' ')) == std::string::npos;
      EXPECT_TRUE(columns(line) <= 80 || one_word) << line;
    }
    EXPECT_LE(lines.size(), sample.name == "many_nodes" ? 60U : 45U);
  }
}

TEST(ReportText, IsAsWideAsItIsToldToBe) {
  Report report = samples::failed();
  for (const int width : {50, 60, 100}) {
    std::size_t longest = 0;
    for (const std::string& line : lines_of(render_text(report, {.width = width}))) {
      if (line.find("report  ") == std::string::npos) longest = std::max(longest, columns(line));
    }
    EXPECT_LE(longest, static_cast<std::size_t>(width));
    EXPECT_GT(longest, static_cast<std::size_t>(width) * 3 / 4);
  }
}

TEST(ReportText, EndsWithWhereItIsAndWhatToTypeNext) {
  const std::vector<std::string> lines =
      lines_of(render_text(samples::outsider(2), {.directory = "my runs/reveal-4711"}));
  ASSERT_GE(lines.size(), 2U);
  EXPECT_EQ(lines[lines.size() - 2], "  report       './my runs/reveal-4711/report.html' (reveal 0.1.0)");
  EXPECT_EQ(lines.back(), "  everything   reveal show --all 'my runs/reveal-4711'");
}

TEST(ReportText, SaysTheVerdictOnce) {
  Report report = samples::outsider(2);
  report.verdict.sentence = report.findings[0].sentence;
  report.verdict.sentence.insert(report.verdict.sentence.size() - 1, "; there is no data of n04");
  std::string text = render_text(report);
  std::replace(text.begin(), text.end(), '\n', ' ');
  EXPECT_EQ(occurrences(text, "does not belong to"), 1U);
}

TEST(ReportText, SaysOfAHealthyJobNoMoreThanIsWorthReading) {
  const Report report = samples::failed();
  const std::string text = render_text(report);
  EXPECT_EQ(text.find("DelayedACKs"), std::string::npos);
  EXPECT_EQ(text.find("GAP"), std::string::npos);
  EXPECT_EQ(text.find("without visible cost"), std::string::npos);
  EXPECT_EQ(text.find("kernel.perf_event_paranoid"), std::string::npos);
  const std::string all = render_text(report, {.part = TextPart::everything});
  EXPECT_NE(all.find("DelayedACKs"), std::string::npos);
  EXPECT_NE(all.find("GAP"), std::string::npos);
  EXPECT_NE(all.find("kernel.perf_event_paranoid"), std::string::npos);
}

TEST(ReportText, CallsAFailedJobFailedInNoColourOfItsOwn) {
  const std::string text = render_text(samples::failed(), {.colour = true});
  EXPECT_TRUE(text.starts_with("\x1b[1mFAILED\x1b[0m  The command failed: ended by SIGABRT")) << text.substr(0, 100);
  EXPECT_EQ(text.find("HEALTHY"), std::string::npos);
  const std::string page = render_html(samples::failed());
  EXPECT_NE(page.find("<section class=\"verdict failed\"><div class=\"word\">Failed</div>"), std::string::npos);
  Report with_finding = samples::outsider(2);
  with_finding.verdict.job_failed = true;
  EXPECT_TRUE(render_text(with_finding).starts_with("FINDING"));
}

TEST(ReportText, TellsHowLongTheCommandRanAndNotItsTrace) {
  EXPECT_NE(render_text(samples::failed()).find("ran 36.4 s"), std::string::npos);
  EXPECT_NE(render_text(samples::insufficient(), {.width = 100}).find("recorded for 4 s"), std::string::npos);
}

TEST(ReportText, SaysWhereThePythonOfTheJobStood) {
  Report report = samples::outsider(8);
  report.findings[0].main_threads = {"the main thread of rank1 was in load (data.py:88) in 27 of 30 samples"};
  report.python = {{.node = "n01",
                    .process = "rank1",
                    .samples = 120,
                    .places = {{"step (train.py:40)", 90}, {"load (data.py:88)", 27}}}};
  const std::string page = render_text(report);
  EXPECT_NE(page.find("  python       the main thread of rank1 was in load (data.py:88) in 27 of 30"),
            std::string::npos)
      << page;
  EXPECT_EQ(page.find("step (train.py:40)"), std::string::npos);
  const std::string all = render_text(report, {.width = 200, .part = TextPart::everything});
  EXPECT_NE(all.find("n01 rank1, of 120 samples: step (train.py:40) 75 %; load (data.py:88) 22 %"), std::string::npos)
      << all;
  const Report back = parse_report(render_json(report));
  EXPECT_EQ(back.python, report.python);
  EXPECT_EQ(back.findings[0].main_threads, report.findings[0].main_threads);
}

TEST(ReportText, TellsWhatRevealChangedBelowTheLinesToType) {
  Report report = samples::outsider(8);
  report.findings[0].interventions = {{.node = "n01",
                                       .outcome = InterventionResult::Outcome::kept,
                                       .sentence = "At 12:01:05 UTC, reveal widened the cpus of 4 processes.",
                                       .effects = {{"job.cpu_time", "cpus", 1.0, 1.98, 0.96, std::nullopt}}}};
  const std::string page = render_text(report);
  const std::size_t told = page.find("  tried        At 12:01:05 UTC, reveal widened the cpus of 4 processes.");
  EXPECT_NE(told, std::string::npos) << page;
  EXPECT_LT(page.find("  for admins"), told);
  EXPECT_NE(render_html(report).find("reveal widened the cpus of 4 processes"), std::string::npos);
  const std::string json = render_json(report);
  EXPECT_NE(json.find("\"change_high_reason\""), std::string::npos);
  EXPECT_EQ(parse_report(json).findings[0].interventions, report.findings[0].interventions);
}

TEST(ReportText, ShowsAFindingInFullAndNothingElse) {
  Report report = samples::outsider(2);
  report.findings.resize(1);
  const std::string text = render_text(report, {.part = TextPart::findings});
  EXPECT_NE(text.find("job.cpus_allowed: 4 (configuration)"), std::string::npos) << "all evidence";
  EXPECT_NE(text.find("https://slurm.schedmd.com/cgroup.conf.html"), std::string::npos);
  EXPECT_EQ(text.find("coverage"), std::string::npos);
  EXPECT_EQ(text.find("totals"), std::string::npos);
}

TEST(ReportText, ContinuesLongCommandsAsAShellReadsThem) {
  Report report = samples::outsider(2);
  report.findings[0].remedy.user = {
      "systemd-run --user --scope -p CPUWeight=10 -p 'MemoryMax=4 G' reveal-run --interval 100ms -- make -j8 all tests",
      "#SBATCH --exclusive --constraint=a-feature-with-a-long-name-that-does-not-fit-into-the-line"};
  const std::string text = render_text(report);
  EXPECT_NE(text.find("  look         systemd-run --user --scope -p CPUWeight=10 -p 'MemoryMax=4 G' \\\n"
                      "                   reveal-run --interval 100ms -- make -j8 all tests\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("#SBATCH --exclusive --constraint=a-feature-with-a-long-name-that-does-not-fit-into-the-line\n"),
            std::string::npos);
}

TEST(ReportBrief, IsSixLinesAtMostWhateverThereIsToSay) {
  for (const samples::Sample& sample : samples::all()) {
    for (const int width : {60, 80, 100}) {
      SCOPED_TRACE(sample.name + " at " + std::to_string(width));
      const std::vector<std::string> lines = lines_of(render_brief(sample.report, {.width = width}));
      EXPECT_LE(lines.size(), 6U);
      for (const std::string& line : lines) {
        // A path is never cut.
        EXPECT_TRUE(columns(line) <= static_cast<std::size_t>(width) || line.find("reveal-2") != std::string::npos)
            << line;
      }
    }
  }
}

TEST(ReportBrief, SaysWhatHappenedWhatToDoWhatWasUsedAndWhereItIs) {
  Report report = samples::failed();
  report.verdict = {VerdictStatus::finding, "cpu.outsider",
                    "Processes outside the job used 1.5 cpus of vm for 59.7 s. The job lost about 29 s.", false};
  report.findings = samples::outsider(2).findings;
  report.findings[0].remedy.user = {"taskset -c 3 make"};
  EXPECT_EQ(render_brief(report, {.directory = "reveal-20261122-191314-26256"}),
            "reveal: FINDING  Processes outside the job used 1.5 cpus of vm for 59.7 s. The\n"
            "        job lost about 29 s.\n"
            "  start with   taskset -c 3 make\n"
            "  totals       ran 36.4 s; cpu 1.75 of 2 cpus; memory 118 GiB of 256 GiB\n"
            "  report       ./reveal-20261122-191314-26256/report.html\n"
            "  again        reveal show reveal-20261122-191314-26256\n");
}

TEST(ReportBrief, SaysTheCostWhereTheSentenceIsCut) {
  Report report = samples::failed();
  report.findings = samples::outsider(2).findings;
  report.findings[0].remedy.user = {"taskset -c 3 make"};
  report.findings[0].impact = {.seconds = 29, .percent = 48, .how = "it waited"};
  report.verdict = {VerdictStatus::finding, "cpu.outsider",
                    "Processes outside the job used 1.5 cpus of vm for 59.7 s (usually 0). Among them: make (process "
                    "28621 of root, 1 cpus), cc1plus (process 28634 of root, 0.5 cpus). The job lost about 29 s.",
                    false};
  EXPECT_EQ(render_brief(report, {.directory = "run"}),
            "reveal: FINDING  Processes outside the job used 1.5 cpus of vm for 59.7 s\n"
            "        (usually 0). Among them: make (process 28621 of root, 1 cpus)...\n"
            "  cost         about 29 s (48 % of the run)\n"
            "  start with   taskset -c 3 make\n"
            "  report       ./run/report.html\n"
            "  again        reveal show run\n");
}

TEST(ReportBrief, PrefersAdviceToAToolThatExaminesTheProgram) {
  Report report = samples::failed();
  report.verdict = {VerdictStatus::finding, "gpu.small_kernels", "The job's GPUs ran very short kernels.", false};
  report.findings = samples::outsider(2).findings;
  report.findings[0].remedy = {.user = {"nsys profile -d 30"}, .advice = {"Use larger batches."}, .admin = {}};
  EXPECT_NE(render_brief(report, {}).find("  to change    Use larger batches.\n"), std::string::npos);
  report.findings[0].remedy.advice.clear();
  EXPECT_NE(render_brief(report, {}).find("  run under    nsys profile -d 30\n"), std::string::npos);
}

TEST(ReportBrief, KeepsTheLastClauseOfAFailure) {
  Report report = samples::failed();
  report.findings.clear();
  report.verdict = {VerdictStatus::healthy, "",
                    "The command failed: ended by SIGABRT (exit status 134) after 36 s. Nothing unusual was found on "
                    "the node; check the program's own output.",
                    true};
  const std::vector<std::string> lines = lines_of(render_brief(report, {.directory = "out"}));
  EXPECT_LE(lines.size(), 6U);
  ASSERT_GT(lines.size(), 2U);
  EXPECT_TRUE((lines[1] + lines[2]).ends_with("program's own        output.")) << lines[1] << "\n" << lines[2];
}

TEST(ReportText, DoesNotSayThatNothingWasMeasuredWhereOneOfTheNodesWas) {
  Report report = samples::many_nodes();
  report.totals = {JobTotals{}, JobTotals{.node = "n01", .read_bytes = 2e9}, JobTotals{.node = "n02"}};
  EXPECT_NE(render_text(report).find("totals       not known: not all nodes were measured\n"), std::string::npos);
  report.totals.resize(1);
  EXPECT_NE(render_text(report).find("totals       nothing was measured\n"), std::string::npos);
}

TEST(ReportBrief, LeavesOutTheLaterTotalsRatherThanOnesInBetween) {
  Report report = samples::healthy();
  report.totals.front().network_bytes = 0;
  EXPECT_NE(render_text(report).find("network 0 bytes"), std::string::npos) << "measured, and nothing";
  report.totals.front().network_bytes.reset();
  EXPECT_EQ(render_text(report).find("network"), std::string::npos) << "not measured is no 0";
  const std::vector<std::string> parts = used(report.totals.front());
  for (const int width : {60, 80, 100, 200}) {
    const std::string brief = render_brief(report, {.width = width});
    bool ended = false;
    for (const std::string& part : parts) {
      const bool there = brief.find(part) != std::string::npos;
      EXPECT_FALSE(ended && there) << width << ": " << part;
      ended = ended || !there;
    }
  }
}

TEST(ReportBrief, IsOneLineForWhatIsTooShortToBeJudged) {
  EXPECT_EQ(render_brief(samples::insufficient()),
            "reveal: 2 windows of 3 s, at least 30 are needed. (reveal show reveal-20251120-103205-4242)\n");
}

TEST(ReportBrief, ShortensASentenceBetweenItsParts) {
  EXPECT_EQ(shortened("Twelve words fit; the other ones do not.", 40), "Twelve words fit; the other ones do not.");
  EXPECT_EQ(shortened("Twelve words fit; the other ones do not.", 30), "Twelve words fit...");
  EXPECT_EQ(shortened("Twelve words fit the other ones do not.", 30), "Twelve words fit the other...");
}

TEST(ReportText, LetsNoControlCharacterThrough) {
  for (const samples::Sample& sample : samples::all()) {
    for (const char c : render_text(sample.report)) {
      const auto byte = static_cast<unsigned char>(c);
      ASSERT_TRUE(c == '\n' || (byte >= 0x20 && byte != 0x7f)) << sample.name << ": byte " << int{byte};
    }
  }
  // A name with a newline must not start a line of its own.
  EXPECT_EQ(render_text(samples::hostile()).find("\nVERDICT"), std::string::npos);
}

TEST(ReportText, ColoursOnlyWhenAsked) {
  const Report report = samples::outsider(2);
  EXPECT_EQ(render_text(report).find('\x1b'), std::string::npos);
  const std::string coloured = render_text(report, {.width = 80, .colour = true});
  EXPECT_TRUE(coloured.starts_with("\x1b[1;31mFINDING\x1b[0m"));
}

/// With one finding of this rule.
Report finding_of(const char* rule, Severity severity, Confidence confidence) {
  Report report = samples::outsider(8);
  report.findings.resize(1);
  report.findings[0].id = rule;
  report.findings[0].severity = severity;
  report.findings[0].confidence = confidence;
  return report;
}

TEST(Wording, SaysHowSureTheCauseIsAndNotTheEvent) {
  struct Case {
    const char* rule;
    Severity severity;
    Confidence confidence;
    const char* words;
  };
  constexpr Case kCases[] = {
      {"cpu.outsider", Severity::warning, Confidence::likely, "warning, cause likely"},
      {"mem.oom_killed", Severity::critical, Confidence::certain, "critical, cause certain"},
      {"a.rule_of_a_later_version", Severity::notice, Confidence::possible, "notice, cause possible"},
      {"anomaly.unexplained", Severity::notice, Confidence::possible, "notice, cause not known"},
      {"history.slower", Severity::warning, Confidence::likely, "warning, cause not known"},
      {"job.over_requested", Severity::notice, Confidence::certain, "notice, measured fact"},
      {"node.config_drift", Severity::warning, Confidence::possible, "warning, cause possible"},
  };
  for (const Case& one : kCases) {
    const Report report = finding_of(one.rule, one.severity, one.confidence);
    EXPECT_EQ(level_words(report.findings[0]), one.words);
    EXPECT_NE(render_text(report).find(std::string("  ") + one.words + "\n"), std::string::npos) << one.words;
    EXPECT_NE(render_html(report).find(std::string("\">") + one.words + "</span>"), std::string::npos) << one.words;
    EXPECT_NE(render_mail_html(report, {}).find(std::string("\">") + one.words + "</span>"), std::string::npos)
        << one.words;
  }
}

TEST(ReportText, NumbersSeveralStepsInTheirOrder) {
  Report report = samples::outsider(8);
  report.findings.resize(1);
  report.findings[0].remedy.admin = {
      "cat /proc/net/softnet_stat   # on n01", "Check the switch port of n01.",
      "sysctl vm.swappiness=1   # changes n01 until its next boot: the kernel then drops "
      "cached files first",
      "cgroup.conf: ConstrainCores=yes"};
  EXPECT_NE(render_text(report).find("  for admins 1 cat /proc/net/softnet_stat   # on n01\n"
                                     "             2 Check the switch port of n01.\n"
                                     "             3 # changes n01 until its next boot: the kernel then drops cached\n"
                                     "               # files first\n"
                                     "               sysctl vm.swappiness=1\n"
                                     "             4 cgroup.conf: ConstrainCores=yes\n"),
            std::string::npos)
      << render_text(report);
  const std::string page = render_html(report);
  EXPECT_NE(page.find("<ol><li><pre><code>cat /proc/net/softnet_stat"), std::string::npos);
  EXPECT_NE(page.find("</li><li>Check the switch port of n01.</li><li><pre>"), std::string::npos);
  EXPECT_NE(render_mail_html(report, {})
                .find("</div></li><li style=\"word-break:break-word;overflow-wrap:anywhere;\">"
                      "Check the switch port of n01.</li>"),
            std::string::npos);
  for (const char* more : {"cat /a", "cat /b"}) report.findings[0].remedy.admin.emplace_back(more);
  EXPECT_NE(render_text(report).find("swappiness=1\n               3 more steps in full\n"), std::string::npos)
      << render_text(report);
  report.findings[0].remedy.admin = {"cat /a"};
  EXPECT_NE(render_text(report).find("  for admins   cat /a\n"), std::string::npos) << render_text(report);
}

TEST(ReportText, CountsTheRulesThatWereCheckedAndTheReasonsWhyOthersWereNot) {
  Report report = samples::outsider(8);
  const auto known = static_cast<std::size_t>(
      std::count_if(rules().begin(), rules().end(), [](const RuleSpec* rule) { return rule->check != nullptr; }));
  report.not_checked = {{"a.a", "no GPU (or it could not be read)"},
                        {"a.b", "no GPU (or it could not be read)"},
                        {"a.c", "no GPU (or it could not be read)"},
                        {"a.d", "nodes of this job share one kernel, so processes cannot be told apart"},
                        {"a.e", "nodes of this job share one kernel, so processes cannot be told apart"},
                        {"a.e", "no GPU (or it could not be read)"},
                        {"a.f", "no InfiniBand"},
                        {"a.g", "no InfiniBand (on 1 of 4 nodes)"},
                        {"node.straggler", "switched off in reveal.conf"}};
  EXPECT_EQ(checked_line(report), std::to_string(known - 6) + " of " + std::to_string(known) +
                                      " node rules; rest: no GPU (3), nodes of this job share one kernel (2), 1 more");
  report.not_checked = {};
  EXPECT_EQ(checked_line(report), "");
}

TEST(ReportText, OffersAdministratorsLinesToNobodyElse) {
  const std::string text = render_text(samples::outsider(2));
  EXPECT_NE(text.find("  job script   #SBATCH --exclusive\n"), std::string::npos);
  EXPECT_NE(text.find("  for admins 1 Find who ran there"), std::string::npos);
  EXPECT_NE(text.find("    for admins vm.dirty_background_bytes = 268435456\n"), std::string::npos);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_FALSE(line.find("job script") != std::string::npos && line.find("vm.dirty") != std::string::npos) << line;
  }
}

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

TEST(ReportText, HasTheFindingBeforeTheTableOfNodes) {
  const std::string page = render_text(samples::many_nodes());
  EXPECT_LT(page.find("  cost         "), page.find("  Node        CPUs used"));
}

TEST(ReportText, HoldsTwoFindingsOnOnePage) {
  const Report report = samples::outsider(2);
  ASSERT_EQ(report.findings.size(), 2U);
  EXPECT_LE(lines_of(render_text(report, {.directory = report.directory})).size(), 46U);
}

TEST(ReportText, DrawsTheCourseOfEvidenceWhereTheLineHasRoom) {
  const Report report = samples::outsider(2);
  const std::string plain = render_text(report, {.directory = "d"});
  const std::string drawn = render_text(report, {.blocks = true, .directory = "d"});
  EXPECT_EQ(plain.find("█"), std::string::npos) << "only where the terminal shows it";
  EXPECT_NE(drawn.find("job.outsider_cpu/cpu1: 0.982, usually 0.004 ▁▁▁▁▁▁▁▁▁▁▁██▆▁▁▁▁▁▁▁\n"), std::string::npos)
      << drawn;
  EXPECT_EQ(lines_of(drawn).size(), lines_of(plain).size()) << "no line more";
  for (const std::string& line : lines_of(drawn)) EXPECT_LE(columns(line), 80U) << line;
}

TEST(ReportText, ShowsTheIntervalsAloneWhereTheyAreAskedFor) {
  const std::string text = render_text(samples::many_nodes(), {.part = TextPart::episodes});
  EXPECT_NE(text.find("Anomalous intervals"), std::string::npos);
  EXPECT_NE(text.find("[GAP+Z+MAHA]"), std::string::npos) << text;
  EXPECT_NE(text.find("  cpu          15 s in all (32.6 % of all anomalous time)\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("evidence"), std::string::npos);
  EXPECT_EQ(text.find("coverage"), std::string::npos);
  const std::string healthy = render_text(samples::healthy(), {.part = TextPart::episodes});
  EXPECT_NE(healthy.find("No interval differed from the rest of the run."), std::string::npos) << healthy;
  const std::string short_one = render_text(samples::insufficient(), {.part = TextPart::episodes});
  EXPECT_NE(short_one.find("2 windows of 3 s, at least 30 are needed."), std::string::npos) << short_one;
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

TEST(ReportText, HasThePhasesInALineBehindTheFirstPage) {
  const Report report = samples::outsider(2);
  const std::string words =
      "computing 73 s (61 %, 3 times), reading 12 s (10 %), communicating 10 s (8 %), waiting 10 s (8 %), computing on "
      "few cpus 8 s (7 %), writing 5 s (4 %), not measured 2 s (2 %)";
  const std::string all = render_text(report, {.width = 400, .part = TextPart::everything});
  EXPECT_NE(all.find("  phases       n[01-02]: " + words + "; not measured: communicating (other jobs use the node)"),
            std::string::npos)
      << all;
  EXPECT_EQ(render_text(report).find("phases"), std::string::npos);
}

TEST(Untrusted, ReplacesBrokenBytesAndDropsEscapes) {
  EXPECT_EQ(printable("a\x1b[31;1mb\x1b[0mc"), "abc");
  EXPECT_EQ(printable("a\x1b]0;title\x07z"), "az");
  EXPECT_EQ(printable("a\x1b]0;never ended"), "a");
  EXPECT_EQ(printable("end\x1b"), "end");
  EXPECT_EQ(printable("a\r\nb\tc\x7f"), "a  b c ");
  EXPECT_EQ(printable("\xff"), "\xEF\xBF\xBD");
  EXPECT_EQ(printable("\xc3\xa4"), "\xc3\xa4");
  EXPECT_EQ(printable("\xc0\xaf"), "\xEF\xBF\xBD\xEF\xBF\xBD");  // an overlong '/'
  EXPECT_EQ(printable("\xe4\xb8"), "\xEF\xBF\xBD\xEF\xBF\xBD");  // cut off
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            " 31m");  // the one-byte CSI
  EXPECT_EQ(printable("a\xe2\x80\xae"
                      "b"),
            "ab");
  EXPECT_EQ(printable(""), "");
}

TEST(Untrusted, CutsLongTextAtTheLimit) {
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdefg", 6), "abc...");
  EXPECT_EQ(printable("\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4", 4), "\xc3\xa4...");
}

TEST(Untrusted, EscapesMarkup) {
  EXPECT_EQ(html("<a href='x' b=\"y\">&"), "&lt;a href=&#39;x&#39; b=&quot;y&quot;&gt;&amp;");
}

TEST(Wording, PrintsQuantitiesInTheUnitOfTheirSize) {
  EXPECT_EQ(quantity(0, "bytes"), "0 bytes");
  EXPECT_EQ(quantity(1536, "bytes"), "1.5 KiB");
  EXPECT_EQ(quantity(126'701'535'232.0, "bytes"), "118 GiB");
  EXPECT_EQ(quantity(-2'097'152.0, "bytes/s"), "-2 MiB/s");
  EXPECT_EQ(quantity(471e6, "ns/s"), "0.471 s each second");
  EXPECT_EQ(quantity(0.471, "s/s"), "0.471 s each second");
  EXPECT_EQ(quantity(700e3, "ns"), "700 us");
  EXPECT_EQ(quantity(2.4e9, "Hz"), "2.4 GHz");
  EXPECT_EQ(quantity(98.25, "percent"), "98.2 %");
  EXPECT_EQ(quantity(12345.6, "count"), "12,346");
  EXPECT_EQ(quantity(1e9, "count/s"), "1,000,000,000/s");
  EXPECT_EQ(quantity(0.98, "CPUs"), "0.98 CPUs");
  EXPECT_EQ(quantity(std::nullopt, "bytes"), "not measured");
  EXPECT_EQ(quantity(std::numeric_limits<double>::quiet_NaN(), "bytes"), "not measured");
}

TEST(Wording, FoldsNodeNames) {
  const std::vector<std::string> rack = {"n01", "n02", "n03", "n07", "gpu-9", "login"};
  EXPECT_EQ(node_list(rack), "login, gpu-9, n[01-03,07]");
  EXPECT_EQ(node_list(std::vector<std::string>{"n9", "n10", "n11"}), "n9, n[10-11]");
  EXPECT_EQ(node_list(std::vector<std::string>{"10", "11", "13"}), "[10-11,13]");
  EXPECT_EQ(node_list(std::vector<std::string>{}), "");
  EXPECT_EQ(node_list(std::vector<std::string>{"a", "b", "c"}, 2), "a, b and 1 more");
}

TEST(Wording, WritesAndReadsTimes) {
  EXPECT_EQ(iso_time(1'763'634'725'000'000'000), "2025-11-20T10:32:05Z");
  EXPECT_EQ(iso_time(1'763'634'725'100'000'001), "2025-11-20T10:32:05.100000001Z");
  EXPECT_EQ(iso_time(-1), "1969-12-31T23:59:59.999999999Z");
  for (const std::int64_t time : {std::int64_t{1}, std::int64_t{1'763'634'725'120'000'000}}) {
    EXPECT_EQ(parse_iso_time(iso_time(time)), time);
  }
  for (const char* wrong :
       {"", "Z", "2025-11-20", "2025-13-20T10:32:05Z", "2025-11-20T10:32:05", "2025-02-30T00:00:00Z",
        "2025-11-20T10:32:05.Z", "2025-11-20T10:32:05.1234567890Z", "9999-11-20T10:32:05Z", "1969-12-31T23:59:59Z"}) {
    EXPECT_EQ(parse_iso_time(wrong), std::nullopt) << wrong;
  }
  EXPECT_EQ(duration(15), "15 s");
  EXPECT_EQ(duration(120), "2 min");
  EXPECT_EQ(duration(3599), "59 min 59 s");
  EXPECT_EQ(duration(86'461), "1 d 0 h 1 min");
}

TEST(Wording, NamesSeveritiesBothWays) {
  for (const Severity severity : {Severity::info, Severity::notice, Severity::warning, Severity::critical}) {
    EXPECT_EQ(severity_of(name_of(severity)), severity);
  }
  EXPECT_EQ(severity_of("fatal"), std::nullopt);
  EXPECT_EQ(confidence_of(name_of(Confidence::likely)), Confidence::likely);
  EXPECT_EQ(finding_kind_of(name_of(FindingKind::audit)), FindingKind::audit);
  EXPECT_EQ(verdict_status_of(name_of(VerdictStatus::insufficient_data)), VerdictStatus::insufficient_data);
}

}  // namespace
}  // namespace reveal::tests::report_test
