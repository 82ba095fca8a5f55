// From the spool of a node to the job's directory.
#include "postproc/deliver/deliver.h"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "delivering_node.h"
#include "hdf5schema/basics/error.h"
#include "postproc/analysis/job_report.h"
#include "postproc/analysis/slurm_job_record.h"
#include "postproc/mail/mail_quota.h"
#include "postproc/telemetry/publish.h"

namespace reveal::tests::deliver_test {
namespace {

namespace fs = std::filesystem;

TEST_F(Deliver, MovesTheTraceAndBuildsTheReportOfTheWholeJob) {
  const Delivery delivery = deliver_node("n01");
  EXPECT_EQ(delivery.directory, base_ / "work/reveal-4711");
  EXPECT_TRUE(delivery.moved);
  EXPECT_TRUE(delivery.report_built);
  EXPECT_FALSE(delivery.of_other_nodes);
  EXPECT_FALSE(delivery.of_all_nodes);
  for (const char* file : {"n01.h5", "n01.summary.json", "report.json", "report.txt", "report.html"}) {
    EXPECT_TRUE(fs::exists(delivery.directory / file)) << file;
  }
  EXPECT_EQ(fs::status(delivery.directory).permissions(), fs::perms::owner_all);
  EXPECT_TRUE(fs::is_empty(base_ / "spool-n01"));
  EXPECT_FALSE(fs::exists(delivery.directory / "n01.h5.live"));
  EXPECT_EQ(read_slurm_job_record(delivery.directory).value().state, "TIMEOUT");
}

TEST_F(Deliver, SaysWhichNodeIsMissingAndLetsItSupersedeLater) {
  job_.place.nodes = job_.place.watched = {"n01", "n02"};
  const Delivery first = deliver_node("n01");
  const std::string early = read_text_file(first.directory / "report.json", 1 << 20);
  EXPECT_NE(early.find("\"partial\": true"), std::string::npos);
  EXPECT_NE(early.find("n02 has no trace"), std::string::npos);
  const Delivery second = deliver_node("n02");
  EXPECT_EQ(second.directory, first.directory);
  EXPECT_TRUE(second.report_built);
  EXPECT_TRUE(second.of_other_nodes) << "the time that this took is none of an analysis";
  EXPECT_FALSE(first.of_all_nodes);
  EXPECT_TRUE(second.of_all_nodes) << "its time is that of a report";
  EXPECT_EQ(read_text_file(first.directory / "report.json", 1 << 20).find("n02 has no trace"), std::string::npos);
}

TEST_F(Deliver, ReplacesNothingThatWasDelivered) {
  const Delivery first = deliver_node("n01");
  const auto size = fs::file_size(first.directory / "n01.h5");
  const Delivery second = deliver_node("n01");
  EXPECT_EQ(second.directory, first.directory);
  EXPECT_EQ(fs::file_size(first.directory / "n01.h5"), size);
  EXPECT_TRUE(fs::exists(first.directory / "n01-2.h5"));
}

TEST_F(Deliver, SpreadsMoreThanAThousandNodesOverFolders) {
  runs_on(1001);
  settings_.report = ReportWhen::job;
  const Delivery first = deliver_node("n01");
  ASSERT_TRUE(first.moved);
  EXPECT_TRUE(fs::exists(first.directory / "nodes-06/n01.h5"));
  EXPECT_TRUE(fs::exists(first.directory / "nodes-06/n01.summary.json"));
  EXPECT_FALSE(fs::exists(first.directory / "n01.h5"));
  EXPECT_EQ(fs::status(first.directory / "nodes-06").permissions(), fs::perms::owner_all);
  EXPECT_TRUE(deliver_node("n2").moved);
  EXPECT_TRUE(fs::exists(first.directory / "nodes-39/n2.h5"));
  EXPECT_TRUE(deliver_node("n01").moved);
  EXPECT_TRUE(fs::exists(first.directory / "nodes-06/n01-2.h5")) << "nothing is replaced";

  std::vector<InputProblem> problems;
  const Report report = build_report(first.directory, {}, problems);
  EXPECT_EQ(report.job.nodes, (std::vector<std::string>{"n01", "n2"}));
  const auto is_second = [](const auto& file) { return file.first == "trace n2"; };
  const auto file = std::find_if(report.files.begin(), report.files.end(), is_second);
  ASSERT_NE(file, report.files.end());
  EXPECT_EQ(file->second, "nodes-39/n2.h5");
  write_report(first.directory, report);
  EXPECT_TRUE(report_is_fresh(first.directory));
  EXPECT_TRUE(report_is_fresh(first.directory, "n2"));
}

TEST_F(Deliver, DeliversThroughNoLinkInPlaceOfAFolder) {
  runs_on(1001);
  settings_.report = ReportWhen::lazy;
  const Delivery first = deliver_node("n2");
  fs::create_directory(base_ / "elsewhere");
  fs::create_directory_symlink(base_ / "elsewhere", first.directory / "nodes-06");
  const Delivery second = deliver_node("n01");
  EXPECT_FALSE(second.moved);
  EXPECT_TRUE(fs::is_empty(base_ / "elsewhere"));
  EXPECT_TRUE(fs::exists(base_ / "spool-n01/n01.h5"));
}

TEST_F(Deliver, GoesOnWhereAnEarlierDeliveryWasKilled) {
  const fs::path trace = spool("n01") / "n01.h5";
  settings_.report = ReportWhen::lazy;
  fs::copy_file(trace, base_ / "n01.h5");
  fs::last_write_time(base_ / "n01.h5", fs::last_write_time(trace));
  const Delivery first = deliver(base_ / "spool-n01", "n01", job_, "", settings_, {});
  fs::rename(base_ / "n01.h5", trace);  // as if it had not come to remove it
  std::ofstream(first.directory / ".n01.h5.delivering") << "half";
  const Delivery second = deliver(base_ / "spool-n01", "n01", job_, "", settings_, {});
  EXPECT_EQ(second.directory, first.directory);
  EXPECT_TRUE(second.moved);
  EXPECT_FALSE(fs::exists(trace));
  EXPECT_FALSE(fs::exists(first.directory / "n01-2.h5"));
}

TEST_F(Deliver, DeliversNoHalfThatAKilledSamplerLeft) {
  settings_.report = ReportWhen::lazy;
  const fs::path from = spool("n01");
  const std::vector<std::string> halves = {".n01.h5.compact", ".n01-2.h5.compact"};
  for (const std::string& half : halves) std::ofstream(from / half) << "half";
  const Delivery delivery = deliver(from, "n01", job_, "", settings_, {});
  EXPECT_TRUE(fs::exists(delivery.directory / "n01.h5"));
  for (const std::string& half : halves) {
    EXPECT_FALSE(fs::exists(from / half)) << half;
    EXPECT_FALSE(fs::exists(delivery.directory / half)) << half;
  }
}

TEST_F(Deliver, GoesOnUnderTheNextNameWhereAnEarlierDeliveryWasKilled) {
  settings_.report = ReportWhen::lazy;
  const Delivery first = deliver_node("n01");
  record(base_ / "second.h5", "n01");
  fs::last_write_time(base_ / "second.h5", fs::last_write_time(first.directory / "n01.h5") + std::chrono::seconds(1));
  for (int delivery = 0; delivery < 2; ++delivery) {
    fs::copy_file(base_ / "second.h5", base_ / "spool-n01/n01.h5");
    fs::last_write_time(base_ / "spool-n01/n01.h5", fs::last_write_time(base_ / "second.h5"));
    EXPECT_TRUE(deliver_node("n01").moved);
    EXPECT_FALSE(fs::exists(base_ / "spool-n01/n01.h5"));
  }
  EXPECT_TRUE(fs::exists(first.directory / "n01-2.h5"));
  EXPECT_FALSE(fs::exists(first.directory / "n01-3.h5"));
}

/// The job's working directory on a file system of its own.
class SmallFileSystem {
 public:
  SmallFileSystem(const fs::path& path, const char* options)
      : path_(path), mounted_(::geteuid() == 0 && ::mount("tmpfs", path.c_str(), "tmpfs", 0, options) == 0) {}
  ~SmallFileSystem() {
    if (mounted_) ::umount(path_.c_str());
  }
  SmallFileSystem(const SmallFileSystem&) = delete;
  SmallFileSystem& operator=(const SmallFileSystem&) = delete;
  explicit operator bool() const { return mounted_; }

 private:
  fs::path path_;
  bool mounted_;
};

TEST_F(Deliver, SaysThatThereIsNoSpaceAndLeavesNoEmptyDirectory) {
  const SmallFileSystem small(base_ / "work", "size=64k");
  if (!small) GTEST_SKIP() << "needs a root that may mount a tmpfs";
  const auto size = fs::file_size(spool_of_ten_minutes("n01") / "n01.h5");
  settings_.report = ReportWhen::lazy;
  const Delivery delivery = deliver(base_ / "spool-n01", "n01", job_, "", settings_, {});
  EXPECT_FALSE(delivery.moved);
  EXPECT_NE(delivery.why.find("No space left on device"), std::string::npos) << delivery.why;
  EXPECT_TRUE(fs::is_empty(base_ / "work"));
  EXPECT_EQ(fs::file_size(base_ / "spool-n01/n01.h5"), size);
}

TEST_F(Deliver, SaysThatThereIsNoInodeForTheReport) {
  // The directory of the file system, the run's, its mark, the job's facts, the trace, its summary: none is left.
  const SmallFileSystem small(base_ / "work", "nr_inodes=7");
  if (!small) GTEST_SKIP() << "needs a root that may mount a tmpfs";
  const Delivery delivery = deliver_node("n01");
  EXPECT_TRUE(delivery.moved);
  EXPECT_TRUE(fs::exists(base_ / "work/reveal-4711/n01.h5"));
  EXPECT_FALSE(delivery.report_built);
  EXPECT_NE(delivery.why.find("no report: "), std::string::npos) << delivery.why;
  EXPECT_NE(delivery.why.find("No space left on device"), std::string::npos) << delivery.why;
}

TEST_F(Deliver, CountsTheMailsOfAnArrayInTheHomeDirectory) {
  EXPECT_EQ(shared_mail_state("", "c"), std::nullopt);
  EXPECT_EQ(shared_mail_state(base_ / "nowhere", "c"), std::nullopt);
  const auto state = shared_mail_state(base_ / "home", "c");
  ASSERT_TRUE(state.has_value());
  EXPECT_EQ(*state, base_ / "home/.local/state/reveal/mail/c");
  fs::create_directory_symlink(base_ / "work", base_ / "home/.local/state/reveal/mail/d");
  EXPECT_EQ(shared_mail_state(base_ / "home", "d"), std::nullopt);
}

TEST_F(Deliver, StaysInTheSpoolWhenNoPlaceCanBeWritten) {
  job_.place.work_dir = (base_ / "no/such/place").string();
  std::ofstream(base_ / "occupied") << "";
  const Delivery delivery =
      deliver(spool("n01"), "n01", job_, "output=" + (base_ / "occupied").string(), settings_, {});
  EXPECT_FALSE(delivery.moved);
  EXPECT_NE(delivery.why, "");
  EXPECT_EQ(delivery.directory, base_ / "spool-n01");
  EXPECT_TRUE(fs::exists(base_ / "spool-n01/n01.h5"));
  job_.place.home = (base_ / "home").string();
  EXPECT_EQ(deliver_node("n01").directory, base_ / "home/reveal-4711");
}

TEST_F(Deliver, LeavesNoDirectoryBehindWhereItCouldNotDeliver) {
  job_.place.home.clear();
  const auto fail = [](const fs::path&, bool) -> std::optional<JobNames> { throw Error("the disk is full"); };
  const Delivery delivery = deliver(spool("n02"), "n02", job_, "", settings_, {}, fail);
  EXPECT_FALSE(delivery.moved);
  EXPECT_NE(delivery.why.find("the disk is full"), std::string::npos);
  EXPECT_FALSE(fs::exists(base_ / "work/reveal-4711"));
}

TEST_F(Deliver, LeavesNoDirectoryBehindWhereAFolderOfANodeCannotBeUsed) {
  settings_.report = ReportWhen::lazy;
  runs_on(1001);
  const auto occupy = [](const fs::path& directory, bool) -> std::optional<JobNames> {
    fs::create_directory(directory / "nodes-39");  // another node's, still empty
    throw Error("the disk is full");
  };
  EXPECT_FALSE(deliver(spool("n01"), "n01", job_, "", settings_, {}, occupy).moved);
  EXPECT_FALSE(fs::exists(base_ / "work/reveal-4711"));
}

}  // namespace
}  // namespace reveal::tests::deliver_test
