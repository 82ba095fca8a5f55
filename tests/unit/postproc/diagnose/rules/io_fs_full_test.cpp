#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::io_fs_full_test {
namespace {

using R = RuleRecording;

constexpr double kGiB = 1073741824;

std::vector<Finding> of(const R::Course& available, const R::Course& files_free = R::always(1e6)) {
  R node;
  node.gauge("fs.total", "/tmp", R::always(100 * kGiB), "node").gauge("fs.available", "/tmp", available, "node");
  node.gauge("fs.files", "/tmp", R::always(2e6), "node").gauge("fs.files_free", "/tmp", files_free, "node");
  return node.findings("io.fs_full");
}

TEST(RuleFileSystemFull, SaysWhatWasLeftAndSinceWhen) {
  const auto found = of([](double second) { return second < 80 ? 50 * kGiB : 0; });
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"/tmp"});
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_NEAR(static_cast<double>(found[0].intervals.at(0).begin_utc_ns) * 1e-9, 80, 0.2);
  EXPECT_NE(found[0].remedy.user.at(0).find("df -h /tmp"), std::string::npos);
}

TEST(RuleFileSystemFull, SearchesNoOtherFileSystemAndNotToAnyDepth) {
  const auto lines_of = [](const Finding& finding) {
    std::vector<std::string> lines = finding.remedy.user;
    lines.insert(lines.end(), finding.remedy.admin.begin(), finding.remedy.admin.end());
    return lines;
  };
  const auto space = of(R::always(0));
  const auto files = of(R::always(50 * kGiB), [](double second) { return second < 40 ? 1e6 : 0; });
  ASSERT_EQ(space.size(), 1U);
  ASSERT_EQ(files.size(), 1U);
  int searches = 0;
  for (const Finding& finding : {space[0], files[0]}) {
    for (const std::string& line : lines_of(finding)) {
      if (!line.starts_with("find ")) continue;
      ++searches;
      EXPECT_TRUE(line.starts_with("find /tmp -xdev -maxdepth ")) << line;
    }
  }
  EXPECT_EQ(searches, 4);
  EXPECT_NE(files[0].remedy.user.at(0).find("df -i /tmp"), std::string::npos) << files[0].remedy.user.at(0);
}

TEST(RuleFileSystemFull, BeginsAtTheFirstLookThatFoundItFull) {
  R node;
  node.gauge("fs.total", "/tmp", R::always(100 * kGiB), "node")
      .gauge(
          "fs.available", "/tmp",
          [](double second) { return second < 60   ? 50 * kGiB
                                     : second < 90 ? 10'485'760.0
                                                   : 1'048'576.0; }, "node");
  for (Channel& channel : node.telemetry.channels) channel.period_seconds = 5;
  const auto found = node.findings("io.fs_full");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 55, 0.2) << "a row is read in the row before it";
  EXPECT_NE(found[0].sentence.find("is full: 1 MiB of 100 GiB were left 85 s after"), std::string::npos)
      << found[0].sentence;
}

TEST(RuleFileSystemFull, IsAWarningWhereHardlyAnythingFits) {
  const auto found = of(R::always(612 * 1024.0));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_TRUE(found[0].sentence.starts_with("/tmp on n2 is full: 612 KiB of 100 GiB were left ")) << found[0].sentence;
  EXPECT_EQ(found[0].impact.how, "not known: failed writes were not measured");
}

TEST(RuleFileSystemFull, NamesTheOtherFileSystemWithTheMostRoom) {
  R node;
  const auto add = [&node](const char* place, double left) {
    node.gauge("fs.total", place, R::always(100 * kGiB), "node").gauge("fs.available", place, R::always(left), "node");
  };
  add("/tmp", 612 * 1024.0);
  add("/dev/shm", 60 * kGiB);
  add("/home", 5 * kGiB);
  const auto advice = [&node] { return node.findings("io.fs_full").at(0).remedy.advice.at(0); };
  EXPECT_TRUE(
      advice().starts_with("Write to another file system, such as that of /home, which had at least 5 GiB left:"))
      << advice();
  add("/", 90 * kGiB);  // where users cannot write
  add("/scratch", 40.9 * kGiB);
  EXPECT_NE(advice().find("that of /scratch, which had at least 40 GiB left"), std::string::npos) << advice();
  EXPECT_TRUE(of(R::always(0)).at(0).remedy.advice.at(0).starts_with("Write to another file system: set TMPDIR"));
}

TEST(RuleFileSystemFull, LooksForFilesThatAreLargeForTheFileSystem) {
  const auto look = [](double size) {
    R node;
    node.gauge("fs.total", "/tmp", R::always(size), "node").gauge("fs.available", "/tmp", R::always(0), "node");
    node.gauge("fs.files_free", "/tmp", R::always(1e5), "node");
    return node.findings("io.fs_full").at(0).remedy.user.at(1);
  };
  EXPECT_NE(look(600.0 * 1024 * 1024).find(" -size +1M "), std::string::npos) << look(600.0 * 1024 * 1024);
  EXPECT_NE(look(20 * kGiB).find(" -size +20M "), std::string::npos) << look(20 * kGiB);
  EXPECT_NE(look(1000 * kGiB).find(" -size +100M "), std::string::npos) << look(1000 * kGiB);
}

TEST(RuleFileSystemFull, CountsFilesToo) {
  const auto found = of(R::always(50 * kGiB), [](double second) { return second < 40 ? 1e6 : 0; });
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("is full: 0 of 2,000,000 files were left"), std::string::npos) << found[0].sentence;
}

TEST(RuleFileSystemFull, TakesAnImageThatNobodyCanWriteToForWhatItIs) {
  EXPECT_TRUE(of(R::always(0), R::always(0)).empty());
  EXPECT_TRUE(of(R::always(50 * kGiB), R::always(0)).empty()) << "some file systems count no files";
}

TEST(RuleFileSystemFull, SeesOneThatWasFullBeforeTheFirstLook) {
  const auto found = of(R::always(0));
  ASSERT_EQ(found.size(), 1U) << "it can still make files";
  EXPECT_EQ(found[0].severity, Severity::warning);
  R reserved;  // ext4 keeps 5 % for root
  reserved.gauge("fs.total", "/tmp", R::always(100 * kGiB), "node");
  reserved.gauge("fs.available", "/tmp", R::always(0), "node");
  EXPECT_TRUE(reserved.findings("io.fs_full").empty());
  reserved.gauge("fs.free", "/tmp", R::always(5 * kGiB), "node");
  EXPECT_EQ(reserved.findings("io.fs_full").size(), 1U);
}

TEST(RuleFileSystemFull, IsSilentWhereThereIsRoom) {
  EXPECT_TRUE(of(R::always(2 * kGiB)).empty());
  EXPECT_EQ(of(R::always(0.5 * kGiB)).at(0).severity, Severity::notice);
  EXPECT_THROW(static_cast<void>(R().findings("io.fs_full")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::io_fs_full_test
