// The page for a terminal.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "postproc/diagnose/rule.h"
#include "postproc/report/mail_html.h"
#include "postproc/report/report.h"
#include "postproc/report/wording.h"
#include "postproc/words/sanitize.h"
#include "report_pages.h"
#include "report_samples.h"

namespace reveal::tests::report_text_test {
namespace {

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

TEST(ReportText, HasTheWholeTitleInANarrowTerminal) {
  Report report = samples::outsider(2);
  report.findings.resize(1);
  ASSERT_EQ(report.findings[0].title, "A process outside the job ran on the job's CPUs");
  const std::string text = render_text(report, {.width = 40});
  EXPECT_NE(text.find("\nA process outside the job ran on the\njob's CPUs\n  critical, "), std::string::npos) << text;
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

TEST(ReportText, DoesNotSayThatNothingWasMeasuredWhereOneOfTheNodesWas) {
  Report report = samples::many_nodes();
  report.totals = {JobTotals{}, JobTotals{.node = "n01", .read_bytes = 2e9}, JobTotals{.node = "n02"}};
  EXPECT_NE(render_text(report).find("totals       not known: not all nodes were measured\n"), std::string::npos);
  report.totals.resize(1);
  EXPECT_NE(render_text(report).find("totals       nothing was measured\n"), std::string::npos);
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

TEST(ReportText, ShowsAnAlternativeAsOne) {
  Report report = samples::outsider(8);
  report.findings.resize(1);
  report.findings[0].id = "cpu.smt_shared";
  report.findings[0].remedy = {.user = {"#SBATCH --hint=nomultithread   # one thread on each core",
                                        "srun --threads-per-core=1 --cpu-bind=cores   # in place of --hint"},
                               .advice = {},
                               .admin = {"cat /a"}};
  EXPECT_NE(
      render_text(report).find("  job script   #SBATCH --hint=nomultithread   # one thread on each core\n"
                               "  or start     srun --threads-per-core=1 --cpu-bind=cores   # in place of --hint\n"),
      std::string::npos)
      << render_text(report);
  report.findings[0].id = "mem.swap_activity";
  report.findings[0].remedy = {
      .user = {},
      .advice = {"Ask for as much memory as the job uses.", "Use less memory at once: smaller batches, fewer workers."},
      .admin = {}};
  EXPECT_NE(render_text(report).find("  to change    Ask for as much memory as the job uses.\n"
                                     "            or Use less memory at once: smaller batches, fewer workers.\n"),
            std::string::npos)
      << render_text(report);
  EXPECT_NE(
      render_html(report).find("<ul><li>Ask for as much memory as the job uses.<p class=\"quiet\">or</p>Use less"),
      std::string::npos);
  EXPECT_NE(render_mail_html(report, {}).find(">or</div>Use less memory at once"), std::string::npos);
}

TEST(ReportText, TellsTheCommandThatVerifiesARemedyAndTheExpectedAnswer) {
  const Report report = samples::outsider(2);
  EXPECT_NE(
      render_text(report).find("  verify       reveal compare reveal-4711 NEXT_RUN  # cpu.outsider must be gone\n"),
      std::string::npos);
  EXPECT_NE(render_text(report, {.directory = "a # longer name"})
                .find("  verify       # cpu.outsider must be gone\n"
                      "               reveal compare 'a # longer name' NEXT_RUN\n"),
            std::string::npos);
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
                        {"a.g", "no InfiniBand (on 1 of 4 nodes)", true},
                        {"a.h", "a disk was removed (on 2 of 4 nodes)"},
                        {"a.h", "a disk was added (on 2 of 4 nodes)"},
                        {"node.straggler", "switched off in reveal.conf"}};
  EXPECT_EQ(checked_line(report), std::to_string(known - 7) + " of " + std::to_string(known) +
                                      " rules about nodes. Not checked: 3 (no GPU), 2 (nodes of this job share one "
                                      "kernel), 2 (other reasons)");
  report.not_checked = {{"a.a", "not measured: gpu.utilization"}, {"a.b", "not measured: gpu.utilization"}};
  EXPECT_TRUE(checked_line(report).ends_with(" rules about nodes. Not checked: 2 (no gpu.utilization)"))
      << checked_line(report);
  report.not_checked = {{"a.a", "nodes of this job share one kernel"},
                        {"a.b", "nodes of this job share one kernel"},
                        {"a.c", "nodes of this job share one kernel"},
                        {"a.d", "the kernel has no counters of interrupts"},
                        {"a.e", "the kernel has no counters of interrupts"}};
  EXPECT_TRUE(checked_line(report).ends_with(" Not checked: 3 (nodes of this job share one kernel), 2 (other reasons)"))
      << "two lines of a terminal: " << checked_line(report);
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

TEST(ReportText, HasTheFindingBeforeTheTableOfNodes) {
  const std::string page = render_text(samples::many_nodes());
  EXPECT_LT(page.find("  cost         "), page.find("  Node        CPUs used"));
}

TEST(ReportText, HoldsTwoFindingsOnOnePage) {
  const Report report = samples::outsider(2);
  ASSERT_EQ(report.findings.size(), 2U);
  const std::string page = render_text(report, {.directory = report.directory});
  EXPECT_LE(lines_of(page).size(), 48U) << page;
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

}  // namespace
}  // namespace reveal::tests::report_text_test
