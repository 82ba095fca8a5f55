#include "wrapper/run_directory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "environment.h"
#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/private_files.h"
#include "tests/unit/temporary_directory.h"
#include "wrapper/closing_report.h"
#include "wrapper/job_directory.h"

namespace reveal::tests::run_directory_test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class OwnDirectory : public testing::Test {
 protected:
  void touch(const std::string& name, fs::file_time_type::duration age = {}) const {
    std::ofstream(path_ + "/" + name) << "x";
    fs::last_write_time(path_ + "/" + name, fs::file_time_type::clock::now() - age);
  }
  TemporaryDirectory directory_of_test_;
  const std::string path_ = directory_of_test_.path().string();
};

using RunDirectoryTest = OwnDirectory;
using JobDirectoryTest = OwnDirectory;
using ClosingReport = OwnDirectory;

const Launch kLaunch{.key = "launch@n1", .node = "n1", .shared = true};

/// Runs `work` as another process, as another rank would; its answer is its exit status.
template <typename Work>
int in_another_process(Work&& work) {
  return exit_status(fork_child(work).wait());
}

TEST_F(RunDirectoryTest, TheOnlyRankIsTheLastOneAndLeavesNothing) {
  {
    RunDirectory run(kLaunch, path_, 1000ms);
    EXPECT_TRUE(run.locked());
    run.write("collector", "4711 1\n");
    EXPECT_EQ(run.read("collector"), "4711 1\n");
    EXPECT_EQ(run.read("nothing"), "");
    EXPECT_TRUE(fs::exists(run.path() + "/rank." + std::to_string(::getpid())));
    EXPECT_TRUE(run.leave(1000ms));
  }
  EXPECT_TRUE(fs::is_empty(path_));
}

TEST_F(RunDirectoryTest, TellsTheCollectorItsRank) {
  Launch launch = kLaunch;
  launch.rank = 5;
  RunDirectory run(launch, path_, 1000ms);
  EXPECT_EQ(run.read(("rank." + std::to_string(::getpid())).c_str()), "5\n");
  EXPECT_TRUE(run.leave(1000ms));
}

TEST_F(RunDirectoryTest, IsLockedAgainstTheCleaningOfTmp) {
  const auto may_be_cleaned = [&] {  // as systemd-tmpfiles asks, from another process
    return in_another_process([&] {
      const Descriptor folder(::open((path_ + "/launch@n1").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      return folder && ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0 ? 1 : 2;
    });
  };
  RunDirectory run(kLaunch, path_, 1000ms);
  run.unlock();
  EXPECT_EQ(may_be_cleaned(), 2);
  EXPECT_EQ(in_another_process([&] {
              RunDirectory other(kLaunch, path_, 1000ms);
              other.unlock();
              return other.leave(1000ms) ? 1 : 2;
            }),
            2);
  EXPECT_EQ(may_be_cleaned(), 2) << "another rank has left";
  EXPECT_TRUE(run.leave(1000ms));
}

TEST_F(RunDirectoryTest, WhatCannotBeMadeLeavesNothing) {
  EXPECT_TRUE(in_another_process([&] {
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_FSIZE, &none);
    ::signal(SIGXFSZ, SIG_IGN);
    Launch alone = kLaunch;
    alone.shared = false;
    try {
      const RunDirectory run(alone, path_, 1000ms);
    } catch (const Error&) {
      return 1;
    }
    return 0;
  }));
  EXPECT_TRUE(fs::is_empty(path_));
}

TEST_F(RunDirectoryTest, ARankThatLeavesFirstIsNotTheLast) {
  RunDirectory run(kLaunch, path_, 1000ms);
  run.unlock();
  EXPECT_EQ(in_another_process([&] {
              RunDirectory other(kLaunch, path_, 1000ms);
              other.unlock();
              return other.leave(1000ms) ? 1 : 2;
            }),
            2);
  EXPECT_TRUE(run.leave(1000ms));
}

TEST_F(RunDirectoryTest, AKilledRankDoesNotCount) {
  EXPECT_EQ(in_another_process([&] {
              auto abandoned = std::make_unique<RunDirectory>(kLaunch, path_, 1000ms);
              ::kill(::getpid(), SIGKILL);
              return 0;
            }),
            128 + SIGKILL);
  RunDirectory run(kLaunch, path_, 1000ms);
  EXPECT_TRUE(run.locked());
  EXPECT_TRUE(run.leave(1000ms));
}

TEST_F(RunDirectoryTest, ALaterLaunchOfTheSameNameStartsAfresh) {
  RunDirectory first(kLaunch, path_, 1000ms);
  first.write("collector", "1 1\n");
  ASSERT_TRUE(first.leave(1000ms));
  RunDirectory second(kLaunch, path_, 1000ms);
  EXPECT_EQ(second.read("collector"), "");
  EXPECT_NE(first.path(), second.path());
  EXPECT_EQ(first.read("collector"), "1 1\n");
  EXPECT_TRUE(second.leave(1000ms));
}

TEST_F(RunDirectoryTest, TellsThatItsFilesWereRemovedMeanwhile) {
  RunDirectory run(kLaunch, path_, 1000ms);
  run.unlock();
  EXPECT_TRUE(run.still_in_place());
  fs::remove_all(run.path());
  EXPECT_FALSE(run.still_in_place());
  EXPECT_FALSE(run.leave(1000ms));
  EXPECT_TRUE(run.was_removed());
  RunDirectory later(kLaunch, path_, 1000ms);
  EXPECT_TRUE(later.leave(1000ms));
  EXPECT_FALSE(later.was_removed());
}

TEST_F(RunDirectoryTest, OfAJobOfSlurmIsInNoPlaceThatEndsWithALogin) {
  const std::string user = std::to_string(::geteuid());
  const std::string login = "/run/user/" + user;
  EXPECT_EQ(run_directory_base(with({{"XDG_RUNTIME_DIR", path_}, {"SLURM_JOB_ID", "4711"}})), path_ + "/reveal");
  if (::access(login.c_str(), W_OK) != 0) GTEST_SKIP() << "systemd has made no " << login;
  EXPECT_EQ(run_directory_base(with({{"XDG_RUNTIME_DIR", login}})), login + "/reveal");
  const std::string base = run_directory_base(with({{"XDG_RUNTIME_DIR", login}, {"SLURM_JOB_ID", "4711"}}));
  EXPECT_TRUE(base.starts_with("/tmp/reveal-" + user)) << base;
}

TEST_F(RunDirectoryTest, ABusyLockDoesNotHoldUpTheCommand) {
  RunDirectory holder(kLaunch, path_, 1000ms);
  ASSERT_TRUE(holder.locked());
  EXPECT_EQ(in_another_process([&] {
              RunDirectory other(kLaunch, path_, 10ms);
              return other.locked() ? 1 : 2;
            }),
            2);
}

TEST_F(RunDirectoryTest, TakesTheNextNameWhereSomebodyElseWasFirst) {
  fs::create_directory(path_ + "/base");
  ::chmod((path_ + "/base").c_str(), 0755);  // others can enter it, as one of theirs
  fs::create_directory_symlink(path_, path_ + "/base.1");
  touch("base.2");
  EXPECT_EQ(private_directory(path_ + "/base"), path_ + "/base.3");
  EXPECT_EQ(private_directory(path_ + "/base"), path_ + "/base.3");
  EXPECT_EQ(private_directory(path_ + "/new"), path_ + "/new");
  struct stat status {};
  ASSERT_EQ(::lstat((path_ + "/new").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
  EXPECT_THROW(static_cast<void>(private_directory(path_ + "/missing/base")), Error);
}

TEST_F(RunDirectoryTest, RemovesOldRunsOfTheDeadOnly) {
  RunDirectory living(kLaunch, path_, 1000ms);
  for (const char* name : {"dead@n1", "young@n1"}) {
    fs::create_directory(path_ + "/" + name);
    touch(std::string(name) + "/rank.1");
  }
  const auto old = fs::file_time_type::clock::now() - 1h;
  fs::last_write_time(path_ + "/dead@n1", old);
  fs::last_write_time(living.path(), old);
  living.unlock();
  // A file lock belongs to the open file: only another process can find it taken.
  EXPECT_EQ(in_another_process([&] {
              remove_abandoned_runs(path_);
              return 0;
            }),
            0);
  EXPECT_FALSE(fs::exists(path_ + "/dead@n1"));
  EXPECT_TRUE(fs::exists(path_ + "/young@n1"));
  EXPECT_TRUE(fs::exists(living.path()));
  EXPECT_TRUE(living.leave(1000ms));
}

TEST_F(JobDirectoryTest, NeverTouchesAnEarlierTrace) {
  const JobDirectory first = make_job_directory(path_ + "/job", "n1");
  EXPECT_EQ(first.path, path_ + "/job");
  touch("job/n1.h5.part");
  EXPECT_EQ(make_job_directory(path_ + "/job", "n2").path, path_ + "/job");
  EXPECT_EQ(make_job_directory(path_ + "/job", "n1").path, path_ + "/job-2");
  touch("job-2/n1.h5");
  EXPECT_EQ(make_job_directory(path_ + "/job", "n1").path, path_ + "/job-3");
}

TEST_F(JobDirectoryTest, BelongsToTheFirstOfTwoRunsOfANode) {
  const IsOnNetwork nowhere = [](const std::string&) { return false; };
  const IsOnNetwork everywhere = [](const std::string&) { return true; };
  for (const IsOnNetwork on_network : {nowhere, everywhere}) {
    const JobDirectory first = make_job_directory(path_ + "/job", "n1", on_network);
    const JobDirectory second = make_job_directory(path_ + "/job", "n1", on_network);
    const JobDirectory other = make_job_directory(path_ + "/job", "n2", on_network);
    EXPECT_EQ(first.path, path_ + "/job");
    EXPECT_EQ(second.path, path_ + "/job-2") << "neither has a trace yet";
    EXPECT_EQ(other.path, path_ + "/job") << "nodes share a directory";
    EXPECT_EQ(deliver(first, "n1"), "");
    abandon(second, "n1");
    abandon(other, "n2");
    EXPECT_FALSE(fs::exists(path_ + "/job-2"));
    EXPECT_FALSE(fs::exists(path_ + "/job")) << "a claim was left";
  }
}

TEST_F(JobDirectoryTest, StaysIfItWasThereBefore) {
  const IsOnNetwork nowhere = [](const std::string&) { return false; };
  const IsOnNetwork everywhere = [](const std::string&) { return true; };
  fs::create_directory(path_ + "/job");
  for (const IsOnNetwork on_network : {nowhere, everywhere}) {
    const JobDirectory first = make_job_directory(path_ + "/job", "n1", on_network);
    const JobDirectory other = make_job_directory(path_ + "/job", "n2", on_network);
    abandon(first, "n1");
    abandon(other, "n2");
    EXPECT_TRUE(fs::exists(path_ + "/job")) << "the job may run in it";
    EXPECT_TRUE(fs::is_empty(path_ + "/job"));
    EXPECT_EQ(fs::exists(first.recording), !first.spooled());
  }
}

TEST_F(JobDirectoryTest, IsPrivateAndMadeWithItsParents) {
  const JobDirectory directory = make_job_directory(path_ + "/a/b/job", "n1");
  struct stat status {};
  ASSERT_EQ(::stat(directory.path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
}

TEST_F(JobDirectoryTest, RefusesOneThatOthersCanWrite) {
  fs::create_directory(path_ + "/job");
  ::chmod((path_ + "/job").c_str(), 01777);
  EXPECT_THROW(static_cast<void>(make_job_directory(path_ + "/job", "n1")), Error);
  EXPECT_TRUE(fs::is_empty(path_ + "/job"));
}

TEST_F(JobDirectoryTest, IsNotReachedThroughALinkOfAnotherUser) {
  constexpr uid_t kAnother = 54'321;
  fs::create_directory(path_ + "/mine");
  ::chmod((path_ + "/mine").c_str(), 0700);
  fs::create_directory_symlink(path_ + "/mine", path_ + "/job");
  const JobDirectory own = make_job_directory(path_ + "/job", "n1");
  EXPECT_EQ(own.path, path_ + "/job") << "one's own link leads where one wants";
  abandon(own, "n1");
  if (::lchown((path_ + "/job").c_str(), kAnother, kAnother) != 0) GTEST_SKIP() << "only root gives links away";
  EXPECT_THROW(static_cast<void>(make_job_directory(path_ + "/job", "n1")), Error);
  EXPECT_TRUE(fs::is_empty(path_ + "/mine"));
}

TEST_F(JobDirectoryTest, AFileInTheWayIsOneSentence) {
  touch("job");
  EXPECT_THROW(static_cast<void>(make_job_directory(path_ + "/job", "n1")), Error);
}

TEST_F(JobDirectoryTest, DeliversWholeFilesFromTheSpool) {
  fs::create_directories(path_ + "/spool");
  fs::create_directories(path_ + "/job");
  touch("spool/n1.h5");
  touch("spool/n1.summary.json");
  EXPECT_EQ(deliver({path_ + "/job", path_ + "/spool"}, "n1"), "");
  EXPECT_TRUE(fs::exists(path_ + "/job/n1.h5"));
  EXPECT_TRUE(fs::exists(path_ + "/job/n1.summary.json"));
  EXPECT_FALSE(fs::exists(path_ + "/spool"));
}

TEST_F(JobDirectoryTest, WhatCannotBeDeliveredStaysInTheSpool) {
  fs::create_directories(path_ + "/spool");
  touch("spool/n1.h5");
  EXPECT_THROW(static_cast<void>(deliver({path_ + "/gone", path_ + "/spool"}, "n1")), Error);
  EXPECT_TRUE(fs::exists(path_ + "/spool/n1.h5"));
}

TEST_F(JobDirectoryTest, FindsWhatKilledRunsLeftInTheSpool) {
  EXPECT_EQ(undelivered_in(path_ + "/nothing"), std::vector<std::string>());
  for (const char* name : {"closed.1", "open.2", "young.3", "reported.4", "empty.5", "none.6"}) {
    fs::create_directories(path_ + "/" + name);
  }
  touch("closed.1/n1.h5", 1h);
  touch("open.2/n1.h5.part", 11min);
  touch("young.3/n1.h5.part", 9min);
  touch("reported.4/n1.h5", 1h);
  touch("reported.4/report.json", 30min);
  touch("none.6/n1.summary.json", 1h);
  touch("n1.h5", 1h);
  fs::create_directory_symlink(path_ + "/closed.1", path_ + "/link.7");
  fs::create_directory(path_ + "/linked.8");
  fs::create_symlink(path_ + "/n1.h5", path_ + "/linked.8/n1.h5");
  EXPECT_EQ(undelivered_in(path_), (std::vector<std::string>{path_ + "/closed.1", path_ + "/open.2"}));
}

TEST_F(JobDirectoryTest, LooksForTracesInNoDirectoryThatOthersEnter) {
  const std::string mine = path_ + "/reveal-1";
  EXPECT_EQ(existing_private_directory(mine), "");
  EXPECT_FALSE(fs::exists(mine));
  fs::create_directory(mine);
  ::chmod(mine.c_str(), 0755);
  EXPECT_EQ(existing_private_directory(mine), "") << "another user may have put traces there";
  EXPECT_EQ(private_directory(mine), mine + ".1");
  EXPECT_EQ(existing_private_directory(mine), mine + ".1");
}

TEST_F(JobDirectoryTest, DefaultNamesTheJob) {
  const Environment slurm = [](const char* name) { return std::string(name) == "SLURM_JOB_ID" ? "4711" : ""; };
  EXPECT_EQ(choose_job_directory({}, slurm), (fs::current_path() / "reveal-4711").string());
  RunSettings settings;
  settings.output = "/x/y/";
  EXPECT_EQ(choose_job_directory(settings, slurm), "/x/y");
}

TEST_F(ClosingReport, WaitsForLiveTracesOfOtherNodesOnly) {
  touch("n1.h5.part");
  touch("n2.h5");
  EXPECT_FALSE(others_still_record(path_, "n1"));
  touch("n3.h5.part", 10min);  // its collector was killed
  EXPECT_FALSE(others_still_record(path_, "n1"));
  touch("n4.h5.part", 12s);
  EXPECT_TRUE(others_still_record(path_, "n1"));
}

TEST_F(ClosingReport, OnlyOneHoldsTheLease) {
  {
    ReportLease first(path_, "n1");
    EXPECT_TRUE(first.take());
    ReportLease second(path_, "n2");
    EXPECT_FALSE(second.take());
  }
  EXPECT_TRUE(ReportLease(path_, "n2").take());
}

TEST_F(ClosingReport, TakesOverFromTheDead) {
  std::ofstream(path_ + "/.report.lease") << "n1 2147483646\n";
  EXPECT_FALSE(ReportLease(path_, "n2").take());  // whether it lives is known on n1 only
  EXPECT_TRUE(ReportLease(path_, "n1").take());
  std::ofstream(path_ + "/.report.lease") << "n3 1\n";
  fs::last_write_time(path_ + "/.report.lease", fs::file_time_type::clock::now() - 1h);
  EXPECT_TRUE(ReportLease(path_, "n2").take());
}

TEST_F(ClosingReport, LeavesTheLeaseOfWhoeverTookItOver) {
  const fs::path lease = path_ + "/.report.lease";
  ReportLease second(path_, "n2");
  {
    ReportLease slow(path_, "n1");
    ASSERT_TRUE(slow.take());
    fs::last_write_time(lease, fs::file_time_type::clock::now() - 1h);
    ASSERT_TRUE(second.take());
  }
  EXPECT_TRUE(fs::exists(lease)) << "n1 ended, and n2 is still at it";
  EXPECT_EQ(file_text(lease).substr(0, 3), "n2 ");
  EXPECT_FALSE(ReportLease(path_, "n3").take());
}

TEST_F(ClosingReport, DoesNotTakeOverWhatItCannotMoveAway) {
  const fs::path lease = path_ + "/.report.lease";
  std::ofstream(lease) << "n3 1\n";
  fs::last_write_time(lease, fs::file_time_type::clock::now() - 1h);
  // As if another were moving it: removing it instead could remove the one that the other has made meanwhile.
  fs::create_directory(lease.string() + ".n2." + std::to_string(::getpid()));
  EXPECT_FALSE(ReportLease(path_, "n2").take());
  EXPECT_EQ(file_text(lease), "n3 1\n");
}

TEST_F(ClosingReport, DoesNotTakeAProcessOfAnotherNamespaceForDead) {
  const fs::path lease = path_ + "/.report.lease";
  std::ofstream(lease) << "n1 2147483646 1\n";  // no namespace has number 1
  EXPECT_FALSE(ReportLease(path_, "n1").take()) << "a container's numbers mean nothing here";
  struct stat here {};
  ASSERT_EQ(::stat("/proc/self/ns/pid", &here), 0);
  std::ofstream(lease) << "n1 2147483646 " << here.st_ino << "\n";
  EXPECT_TRUE(ReportLease(path_, "n1").take());
}

TEST(ReportCommand, CanBePastedAndMakesTheSameReport) {
  ReportOrder order{.directory = "out/4711", .node = "n1", .status = 3, .seconds = 35.44, .retain = "", .limit = {}};
  EXPECT_EQ(report_command(order), "reveal report out/4711 --exit-code 3 --ran 35.4");
  order.directory = "my dir";
  order.retain = "summary";
  EXPECT_EQ(report_command(order), "reveal report 'my dir' --exit-code 3 --ran 35.4 --retain summary");
}

}  // namespace
}  // namespace reveal::tests::run_directory_test
