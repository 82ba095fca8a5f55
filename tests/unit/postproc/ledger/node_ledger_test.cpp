#include "postproc/ledger/node_ledger.h"

#include <gtest/gtest.h>

#include <limits>

#include "hdf5schema/basics/error.h"
#include "tests/unit/postproc/report_samples.h"

namespace reveal::tests::node_ledger_test {
namespace {

constexpr std::int64_t kLater = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kSecond = 1'000'000'000;

/// A job of four nodes that ran for a minute.
Report job_of_four() {
  Report report;
  report.job.id = "4711";
  report.job.user = "ada";
  report.job.name = "secret-project";
  report.job.command = "train --token 1234";
  report.job.nodes = {"n01", "n02", "n03", "n04"};
  report.job.begin_utc_ns = 1000 * kSecond;
  report.job.end_utc_ns = 1060 * kSecond;
  return report;
}

Finding finding_of(const char* rule, std::vector<std::string> nodes, std::optional<double> seconds) {
  Finding finding;
  finding.id = rule;
  finding.title = "title";
  finding.sentence = "a sentence about ada";
  finding.severity = Severity::warning;
  finding.nodes = std::move(nodes);
  finding.impact.seconds = seconds;
  return finding;
}

std::vector<LedgerLine> lines_of(const Report& report) {
  return ledger_lines(render_json(report));
}

TEST(NodeLedger, HasALineForEachNodeOfAJob) {
  Report report = job_of_four();
  report.job.array = "4700_3";
  report.findings = {finding_of("mem.ecc_host", {"n02"}, 6), finding_of("cpu.outsider", {"n02", "n04"}, std::nullopt)};
  report.findings[0].impact.at_most = true;
  const auto lines = lines_of(report);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0].node, "n01");
  EXPECT_TRUE(lines[0].findings.empty());
  EXPECT_EQ(lines[1].job, "4711");
  EXPECT_EQ(lines[1].array, "4700");
  EXPECT_EQ(lines[1].job_nodes, 4U);
  ASSERT_EQ(lines[1].findings.size(), 2U);
  EXPECT_EQ(lines[1].findings[0].rule, "mem.ecc_host");
  EXPECT_EQ(lines[1].findings[0].seconds, 6);
  EXPECT_EQ(lines[1].findings[0].how, LossKnown::at_most);
  EXPECT_EQ(lines[1].findings[0].nodes, 1U);
  EXPECT_EQ(lines[1].findings[1].how, LossKnown::no);
  EXPECT_EQ(lines[3].findings[0].nodes, 2U);
}

TEST(NodeLedger, HasNoNamesOfUsersJobsAndCommands) {
  Report report = job_of_four();
  report.findings = {finding_of("mem.ecc_host", {"n02"}, 6)};
  const std::string text = render_ledger(lines_of(report));
  for (const char* word : {"ada", "secret", "train", "1234", "title", "sentence"}) {
    EXPECT_EQ(text.find(word), std::string::npos) << word;
  }
  EXPECT_EQ(parse_ledger(text, kLater).lines, lines_of(report));
}

TEST(NodeLedger, CountsTheCostOfAConsequenceInItsCause) {
  Report report = job_of_four();
  report.findings = {finding_of("cpu.outsider", {"n02"}, 9)};
  report.findings[0].caused_by = "mem.swap_activity";
  const LedgerFinding found = lines_of(report)[1].findings.at(0);
  EXPECT_EQ(found.seconds, std::nullopt);
  EXPECT_EQ(found.how, LossKnown::in_cause);
}

TEST(NodeLedger, JoinsFindingsOfOneRule) {
  Report report = job_of_four();
  report.findings = {finding_of("cpu.outsider", {"n02"}, 9), finding_of("cpu.outsider", {"n02", "n03"}, 2)};
  report.findings[1].severity = Severity::critical;
  const auto findings = lines_of(report)[1].findings;
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].seconds, 11);
  EXPECT_EQ(findings[0].severity, Severity::critical);
}

TEST(NodeLedger, KeepsHowSureTheCauseIs) {
  Report report = job_of_four();
  report.findings = {finding_of("cpu.outsider", {"n02"}, 9), finding_of("cpu.outsider", {"n02"}, 2)};
  report.findings[0].confidence = Confidence::likely;
  const std::vector<LedgerLine> lines = lines_of(report);
  EXPECT_EQ(lines[1].findings.at(0).confidence, Confidence::likely) << "the highest of both";
  std::string text = render_ledger(lines);
  EXPECT_EQ(parse_ledger(text, kLater).lines, lines);
  const std::string key = ",\"confidence\":\"likely\"";
  ASSERT_NE(text.find(key), std::string::npos) << text;
  text.erase(text.find(key), key.size());  // a line of an earlier version
  const ParsedLedger earlier = parse_ledger(text, kLater);
  EXPECT_EQ(earlier.refused, 0U);
  EXPECT_EQ(earlier.lines.at(1).findings.at(0).confidence, std::nullopt);
}

TEST(NodeLedger, NamesAJobWithoutANumberByAHash) {
  Report report = job_of_four();
  report.job.id.clear();
  const std::string job = lines_of(report)[0].job;
  EXPECT_EQ(job.substr(0, 4), "run-");
  report.job.begin_utc_ns += kSecond;
  EXPECT_NE(lines_of(report)[0].job, job);
}

TEST(NodeLedger, BelievesNoMoreThanAJobCanHaveLost) {
  Report report = job_of_four();
  report.findings = {finding_of("cpu.outsider", {"n02"}, 1e9), finding_of("mem.swap_activity", {"n02"}, -5),
                     finding_of("no.such_rule", {"n02"}, 5), finding_of("mem.ecc_host", {"n77"}, 5)};
  const auto findings = lines_of(report)[1].findings;
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_DOUBLE_EQ(findings[0].seconds.value(), 60);
  EXPECT_EQ(findings[1].seconds, std::nullopt);
}

TEST(NodeLedger, RefusesNamesThatNoNodeAndNoJobHas) {
  for (const char* name : {"", "n01;reboot", "n[01-99]", "../n01", "-n01", "n01 n02", "n\x1b[31m", "$(id)"}) {
    Report report = job_of_four();
    report.job.nodes = {name};
    EXPECT_THROW((void)lines_of(report), Error) << name;
  }
  Report report = job_of_four();
  report.job.id = "4711\nroot";
  EXPECT_THROW((void)lines_of(report), Error);
  report = job_of_four();
  report.job.nodes.clear();
  EXPECT_THROW((void)lines_of(report), Error);
  report = job_of_four();
  report.job.end_utc_ns = report.job.begin_utc_ns - 1;
  EXPECT_THROW((void)lines_of(report), Error);
}

TEST(NodeLedger, RefusesWhatIsNoReport) {
  for (const char* text :
       {"", "{", "[]", "{\"schema\": \"other/1\"}", "{\"schema\": \"reveal.report/1\", \"job\": 7}"}) {
    EXPECT_THROW((void)ledger_lines(text), Error) << text;
  }
  EXPECT_THROW((void)ledger_lines(std::string(100'000, '[')), Error);
}

TEST(NodeLedger, RefusesSamplesWithHostileNames) {
  EXPECT_THROW((void)lines_of(samples::hostile()), Error);
  EXPECT_EQ(lines_of(samples::outsider(1)).size(), 2U);
}

TEST(NodeLedger, CountsLinesThatItRefuses) {
  const std::string good = render_ledger(lines_of(job_of_four()));
  const std::string line = good.substr(0, good.find('\n'));
  const std::string text =
      line + "\nnot JSON\n{}\n\n" + line.substr(0, line.size() / 2) + "\n[[[[\n" + std::string(200'000, ' ') + "\n";
  const ParsedLedger parsed = parse_ledger(text, kLater);
  EXPECT_EQ(parsed.lines.size(), 1U);
  EXPECT_EQ(parsed.refused, 5U);
  EXPECT_EQ(parse_ledger(line, 1059 * kSecond).refused, 1U) << "it ends in the future";
}

TEST(NodeLedger, LeavesOutFindingsOfALaterVersion) {
  Report report = job_of_four();
  report.findings = {finding_of("mem.ecc_host", {"n01"}, 6)};
  std::string text = render_ledger(std::vector{lines_of(report)[0]});
  const std::string word = "\"warning\"";
  text.replace(text.find(word), word.size(), "\"apocalypse\"");
  const ParsedLedger parsed = parse_ledger(text, kLater);
  ASSERT_EQ(parsed.lines.size(), 1U);
  EXPECT_TRUE(parsed.lines[0].findings.empty());
}

TEST(NodeLedger, KeepsEachNodeOfAJobOnceButNotAcrossUsers) {
  LedgerLine line = lines_of(job_of_four())[0];
  NodeLedger ledger;
  line.owner = "a";
  line.findings = {{.rule = "mem.ecc_host", .severity = Severity::warning, .seconds = {}}};
  ledger.add(line);
  line.findings.clear();
  line.owner = "b";  // claims to be the same job
  ledger.add(line);
  EXPECT_EQ(ledger.lines().size(), 2U);
  line.owner = "a";  // a new report of the same job
  ledger.replace(line);
  ASSERT_EQ(ledger.lines().size(), 2U);
  EXPECT_TRUE(ledger.lines()[0].findings.empty() && ledger.lines()[1].findings.empty());
  ledger.keep_since(1061 * kSecond);
  EXPECT_TRUE(ledger.lines().empty());
}

TEST(NodeLedger, KnowsTheLinesThatAnEarlierOneLacks) {
  NodeLedger ledger;
  for (const LedgerLine& line : lines_of(job_of_four())) ledger.add(line);
  const NodeLedger earlier = ledger;
  EXPECT_TRUE(ledger.lines_since(earlier).empty());
  EXPECT_EQ(ledger.lines_since({}).size(), 4U);
  for (const LedgerLine& line : lines_of(job_of_four())) ledger.add(line);
  EXPECT_TRUE(ledger.lines_since(earlier).empty()) << "they came twice";
  Report report = job_of_four();
  report.findings = {finding_of("mem.ecc_host", {"n02"}, 6)};
  for (const LedgerLine& line : lines_of(report)) ledger.add(line);
  ASSERT_EQ(ledger.lines_since(earlier).size(), 1U) << "the report was made again, with a finding";
  EXPECT_EQ(ledger.lines_since(earlier)[0].node, "n02");
}

TEST(NodeLedger, IsTheSameInWhicheverOrderTheReportsOfAJobCome) {
  LedgerLine partial = lines_of(job_of_four())[0];
  LedgerLine whole = partial;
  partial.job_nodes = 2;
  partial.end_utc_ns += kSecond;
  LedgerLine other = whole;
  other.findings = {{.rule = "mem.ecc_host", .severity = Severity::warning, .seconds = {}}};
  for (const auto& [first, second] : {std::pair(partial, whole), std::pair(whole, other)}) {
    NodeLedger forward;
    forward.add(first);
    forward.add(second);
    NodeLedger backward;
    backward.add(second);
    backward.add(first);
    EXPECT_TRUE(forward.lines_since(backward).empty());
    EXPECT_EQ(backward.lines().at(0), second);
    const NodeLedger earlier = backward;
    backward.add(first);
    EXPECT_TRUE(backward.lines_since(earlier).empty()) << "nothing is told again";
  }
}

TEST(NodeLedger, HoldsTheLinesOfTheJobsThatBeganLast) {
  LedgerLine line = lines_of(job_of_four())[0];
  const auto beginning = [&line](int second) {
    line.begin_utc_ns = second * kSecond;
    return line;
  };
  NodeLedger ledger(2);
  for (const int second : {3, 1, 2, 1}) ledger.add(beginning(second));
  ASSERT_EQ(ledger.lines().size(), 2U);
  EXPECT_EQ(ledger.lines()[0].begin_utc_ns, 2 * kSecond);
  NodeLedger cut(10);  // as it is read from a file at its limit
  cut.add(beginning(2));
  cut.begin_here();
  cut.add(beginning(1));
  EXPECT_EQ(cut.lines().size(), 1U) << "it would be told each time";
  cut.add(beginning(2));
  cut.add(beginning(3));
  EXPECT_EQ(cut.lines().size(), 2U);
}

TEST(NodeLedger, IsRenderedWithoutItsFirstLinesWhereItIsTooLong) {
  const std::vector<LedgerLine> lines = lines_of(job_of_four());
  const std::string whole = render_ledger(lines);
  EXPECT_EQ(render_ledger(lines, whole.size()), whole);
  const std::string last = whole.substr(whole.rfind('\n', whole.size() - 2) + 1);
  EXPECT_EQ(render_ledger(lines, last.size()), last);
  EXPECT_EQ(render_ledger(lines, last.size() - 1), "");
  const std::string without_first = render_ledger(lines, whole.size() - 1);
  EXPECT_EQ(parse_ledger(without_first, kLater).lines.size(), 3U);
  EXPECT_EQ(parse_ledger(without_first, kLater).refused, 0U);
}

}  // namespace
}  // namespace reveal::tests::node_ledger_test
