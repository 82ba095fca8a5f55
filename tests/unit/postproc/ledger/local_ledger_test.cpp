#include "postproc/ledger/local_ledger.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/error.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::local_ledger_test {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kHourNs = std::int64_t{3600} * 1'000'000'000;
constexpr std::int64_t kNow = 1'000'000 * kHourNs;

LedgerLine line_of(const std::string& job, const std::string& node, std::int64_t ended_ago = kHourNs) {
  return {.node = node,
          .job = job,
          .array = {},
          .owner = "abc",
          .begin_utc_ns = kNow - ended_ago - kHourNs,
          .end_utc_ns = kNow - ended_ago,
          .job_nodes = 2,
          .findings = {{.rule = "cpu.outsider", .severity = Severity::warning, .seconds = 9, .nodes = 2}}};
}

std::string text_of(const std::vector<LedgerLine>& lines) {
  return render_ledger(lines);
}

class LocalLedger : public ::testing::Test {
 protected:
  [[nodiscard]] std::string text() const {
    std::ifstream file(ledger_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  [[nodiscard]] std::vector<std::string> jobs() const {
    const ParsedLedger parsed = parse_ledger(text(), kNow);
    EXPECT_EQ(parsed.refused, 0U);
    std::vector<std::string> jobs;
    for (const LedgerLine& line : parsed.lines) jobs.push_back(line.job);
    return jobs;
  }
  void append(const std::string& job, std::int64_t ended_ago = kHourNs, const LedgerLimits& limits = {},
              const std::string& owner = "abc") const {
    LedgerLine line = line_of(job, "n1", ended_ago);
    line.owner = owner;
    append_lines(ledger_, std::vector{line}, kNow, limits);
  }

  TemporaryDirectory directory_;
  fs::path ledger_ = directory_.path() / "nodes.jsonl";
  const EndedJob job_{.number = "4711", .nodes = {"n1", "n2"}, .owner = "0123456789abcdef"};
  using Jobs = std::vector<std::string>;
};

TEST_F(LocalLedger, TakesNoLineOfAnotherJobOrNode) {
  LedgerLine claims = line_of("4711", "n2");
  claims.job_nodes = 90'000;
  claims.findings.front().nodes = 90'000;
  const std::string text = text_of({line_of("4711", "n1"), line_of("4712", "n1"), line_of("4711", "n3"),
                                    line_of("4711", "n1", 2 * kHourNs), claims}) +
                           "{\"node\": \"n1\x1b[2J\"}\nroot\n" + std::string(1000, '[') + "\n";
  const std::vector<LedgerLine> lines = lines_of_job(text, job_, kNow);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].node, "n1");
  EXPECT_EQ(lines[0].end_utc_ns, kNow - kHourNs);
  EXPECT_EQ(lines[0].owner, "0123456789abcdef");
  EXPECT_EQ(lines[1].node, "n2");
  EXPECT_EQ(lines[1].job_nodes, 2U);
  EXPECT_EQ(lines[1].findings.at(0).nodes, 2U);
  for (const char* nothing : {"", "\n", "null", "{", "7"}) EXPECT_TRUE(lines_of_job(nothing, job_, kNow).empty());
}

TEST_F(LocalLedger, IsPrivateAndGrowsByLines) {
  append("1");
  append("2");
  EXPECT_EQ(jobs(), (Jobs{"1", "2"}));
  struct stat status {};
  ASSERT_EQ(::stat(ledger_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST_F(LocalLedger, KeepsALineBehindOneThatWasCutOff) {
  append("1");
  std::ofstream(ledger_, std::ios::app) << text().substr(0, 20);
  append("2");
  append("3");
  const ParsedLedger parsed = parse_ledger(text(), kNow);
  EXPECT_EQ(parsed.refused, 1U);
  ASSERT_EQ(parsed.lines.size(), 3U);
  EXPECT_EQ(parsed.lines[1].job, "2");
  EXPECT_EQ(parsed.lines[2].job, "3");
}

TEST_F(LocalLedger, ForgetsJobsThatAreTooOld) {
  const LedgerLimits limits{.age_ns = 100 * kHourNs};
  append("1", 130 * kHourNs, limits);
  append("2", 99 * kHourNs, limits);
  EXPECT_EQ(jobs(), (Jobs{"2"}));
  append("3", kHourNs, limits);
  EXPECT_EQ(jobs(), (Jobs{"2", "3"}));
}

TEST_F(LocalLedger, KeepsTheNewestHalfWhereItIsTooLarge) {
  append("100");
  const LedgerLimits limits{.bytes = 5 * text().size() + 10};
  for (int job = 101; job < 105; ++job) append(std::to_string(job), kHourNs, limits);
  EXPECT_EQ(jobs(), (Jobs{"100", "101", "102", "103", "104"}));
  append("105", kHourNs, limits);
  EXPECT_EQ(jobs(), (Jobs{"104", "105"}));
}

TEST_F(LocalLedger, KeepsItsLinesWhereTheClockWasSetBack) {
  append("100");
  const LedgerLimits limits{.bytes = 5 * text().size() + 10};
  for (int job = 101; job < 105; ++job) append(std::to_string(job), kHourNs, limits);
  append_lines(ledger_, std::vector{line_of("105", "n1", 11 * kHourNs)}, kNow - 10 * kHourNs, limits);
  EXPECT_EQ(jobs(), (Jobs{"104", "105"}));
}

TEST_F(LocalLedger, LetsNoUserPushOutTheLinesOfOthers) {
  append("100", kHourNs, {}, "bob");
  const LedgerLimits limits{.bytes = 10 * text().size() + 10};
  append("101", kHourNs, limits, "eve");
  for (int job = 200; job < 300; ++job) append(std::to_string(job), kHourNs, limits);
  const Jobs left = jobs();
  ASSERT_GE(left.size(), 5U);
  EXPECT_EQ(left[0], "100") << "bob's only line, the oldest one";
  EXPECT_EQ(left[1], "101");
  EXPECT_EQ(left.back(), "299");
}

TEST_F(LocalLedger, KeepsWhatComesFromTwoJobsAtOnce) {
  constexpr int kWriters = 4;
  constexpr int kJobs = 50;
  std::vector<ChildProcess> writers;
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.push_back(fork_child([&] {
      for (int job = 0; job < kJobs; ++job) append(std::to_string(1000 * writer + job));
      return 0;
    }));
  }
  for (ChildProcess& writer : writers) EXPECT_EQ(writer.wait(), 0);
  EXPECT_EQ(jobs().size(), 200U);
}

TEST_F(LocalLedger, ReplacesDamagedLines) {
  std::ofstream(ledger_) << "{\"node\": \"n1\n";
  fs::permissions(ledger_, fs::perms::owner_read | fs::perms::owner_write);
  append("1");
  EXPECT_EQ(jobs(), (Jobs{"1"}));
}

TEST_F(LocalLedger, IsNotWrittenThroughALinkOrWhereOthersWrite) {
  const fs::path elsewhere = directory_.path() / "elsewhere";
  std::ofstream(elsewhere) << "";
  fs::create_symlink(elsewhere, ledger_);
  EXPECT_THROW(append("1"), Error);
  fs::remove(ledger_);
  fs::create_hard_link(elsewhere, ledger_);
  EXPECT_THROW(append("1"), Error);
  EXPECT_EQ(fs::file_size(elsewhere), 0U);
  fs::remove(ledger_);
  fs::permissions(directory_.path(), fs::perms::all);
  EXPECT_THROW(append("1"), Error);
  EXPECT_FALSE(fs::exists(ledger_));
}

}  // namespace
}  // namespace reveal::tests::local_ledger_test
