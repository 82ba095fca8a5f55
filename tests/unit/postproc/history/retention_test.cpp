#include "postproc/history/retention.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <set>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/zlib_text.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::retention_test {
namespace {

namespace fs = std::filesystem;

class Retention : public testing::Test {
 protected:
  static void write(const fs::path& file, const std::string& text = "x") { std::ofstream(file) << text; }

  /// A job directory as reveal leaves it.
  StoredRun run(const std::string& name) {
    RunRecord record;
    record.run_id = name;
    record.key = "key";
    const fs::path directory = work_ / name;
    fs::create_directories(directory);
    write(directory / kRunRecordFile, render_run(record));
    for (const char* file : {"report.json", "report.txt", "report.html", "n1.h5", ".report.lease"}) {
      write(directory / file);
    }
    write(directory / "n1.summary.json", "{\"schema\": \"reveal.summary/1\"}");
    return look_at_run(directory, record);
  }

  static std::set<std::string> names_in(const fs::path& directory) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory)) names.insert(entry.path().filename().string());
    return names;
  }

  TemporaryDirectory directory_of_test_;
  const fs::path work_ = directory_of_test_.path();
};

using Names = std::set<std::string>;

TEST_F(Retention, DeletesARunWithItsDirectory) {
  const StoredRun old = run("reveal-1");
  EXPECT_EQ(old.why_not, "");
  EXPECT_EQ(old.files, 7U);
  EXPECT_EQ(old.others, 0U);
  const Deletion deletion = delete_run(old);
  EXPECT_EQ(deletion.files, 7U);
  EXPECT_TRUE(deletion.directory_gone);
  EXPECT_FALSE(fs::exists(old.directory));
}

TEST_F(Retention, KnowsACompressedSummary) {
  run("reveal-1");
  const fs::path directory = work_ / "reveal-1";
  write(directory / "n1.summary.json", zlib_text("{\"schema\": \"reveal.summary/2\"}"));
  RunRecord record;
  record.run_id = "reveal-1";
  EXPECT_EQ(look_at_run(directory, record).files, 7U) << "with its trace";
}

TEST_F(Retention, DeletesTheDirectoryOfASlurmJob) {
  const StoredRun old = run("reveal-1");
  for (const char* file : {".job", ".merge-part-3-of-8", ".asked", ".slurm.json", ".mailed", ".not-mailed",
                           ".report-job", ".moved-to", "n1.h5.earlier", "n1.h5.watch"}) {
    write(old.directory / file);
  }
  EXPECT_EQ(look_at_run(old.directory, old.record).others, 0U);
  EXPECT_TRUE(delete_run(old).directory_gone);
}

TEST_F(Retention, DeletesHalvesThatAKilledProcessLeft) {
  const StoredRun old = run("reveal-1");
  const auto write_old = [&](const std::string& name) {
    write(old.directory / name);
    fs::last_write_time(old.directory / name, fs::file_time_type::clock::now() - std::chrono::hours(1));
  };
  for (const char* half :
       {".report.json.4711.tmp", "..slurm.json.12.tmp", ".n1.summary.json.12.tmp", ".n1.h5.delivering",
        ".n1.h5.compact", ".n1.h5.next", ".n1.status.json.new", ".n1.h5.thinner4711", ".n1.h5.12.tmp"}) {
    write_old(half);
  }
  const Names others = {".notes.4711.tmp", ".report.json.mine.tmp", ".report.json.4712.tmp", "n1.h5.delivering",
                        ".n1.h5.thinner"};
  for (const std::string& name : others) write_old(name);
  write(old.directory / ".report.json.4712.tmp");  // a report is being made now
  const StoredRun now = look_at_run(old.directory, old.record);
  EXPECT_EQ(now.files, 16U);
  EXPECT_EQ(now.others, others.size());
  EXPECT_FALSE(delete_run(now).directory_gone);
  EXPECT_EQ(names_in(old.directory), others);
}

TEST_F(Retention, DeletesFoldersOfNodes) {
  const StoredRun old = run("reveal-1");
  for (const char* folder : {"nodes-06", "nodes-73", "nodes-7f"}) fs::create_directory(old.directory / folder);
  write(old.directory / "nodes-06/n01.h5");
  write(old.directory / "nodes-06/n01.summary.json", "{\"schema\": \"reveal.summary/2\"}");
  fs::copy(fs::path(TEST_DATA) / "traces/v1.h5", old.directory / "nodes-73/n02.h5");
  const StoredRun run = look_at_run(old.directory, old.record);
  EXPECT_EQ(run.files, 10U);
  EXPECT_EQ(run.others, 0U);
  EXPECT_TRUE(delete_run(run).directory_gone);
}

TEST_F(Retention, LeavesWhatTheUserPutIntoFoldersOfNodes) {
  const StoredRun old = run("reveal-1");
  fs::create_directories(old.directory / "nodes-06/nodes-07");
  write(old.directory / "nodes-06/results.h5");
  write(old.directory / "nodes-06/report.json");
  write(old.directory / "nodes-06/nodes-07/n1.h5");
  fs::create_directory(work_ / "precious");
  write(work_ / "precious/n1.h5");
  fs::create_directory_symlink(work_ / "precious", old.directory / "nodes-08");
  EXPECT_FALSE(delete_run(look_at_run(old.directory, old.record)).directory_gone);
  EXPECT_EQ(names_in(old.directory), (Names{"nodes-06", "nodes-08"}));
  EXPECT_EQ(names_in(old.directory / "nodes-06"), (Names{"nodes-07", "report.json", "results.h5"}));
  EXPECT_TRUE(fs::exists(old.directory / "nodes-06/nodes-07/n1.h5"));
  EXPECT_TRUE(fs::exists(work_ / "precious/n1.h5"));
}

TEST_F(Retention, LeavesWhatTheUserPutThere) {
  const fs::path directory = run("reveal-1").directory;
  const Names theirs = {"model.pt", "results.h5", "job.h5", "model.summary.json", "deep"};
  write(directory / "model.pt");
  write(directory / "results.h5");
  write(directory / "job.h5", "of a simulation");
  write(directory / "model.summary.json", "{\"layers\": 12}");
  fs::create_directory(directory / "deep");
  write(directory / "deep/n1.h5");
  RunRecord record;
  record.run_id = "reveal-1";
  const StoredRun run = look_at_run(directory, record);
  EXPECT_EQ(run.others, theirs.size());
  EXPECT_FALSE(delete_run(run).directory_gone);
  EXPECT_EQ(names_in(directory), theirs);
  EXPECT_TRUE(fs::exists(directory / "deep/n1.h5"));
}

TEST_F(Retention, DeletesTheMergedFileOfItsTraces) {
  const StoredRun old = run("reveal-1");
  write(old.directory / "job.h5", std::string("\0links to n1.h5", 15));
  EXPECT_TRUE(delete_run(old).directory_gone);
}

TEST_F(Retention, FollowsNoLink) {
  const StoredRun old = run("reveal-1");
  write(work_ / "precious.h5", "precious");
  fs::remove(old.directory / "n1.h5");
  fs::create_symlink(work_ / "precious.h5", old.directory / "n1.h5");
  EXPECT_FALSE(delete_run(old).directory_gone);
  EXPECT_EQ(names_in(old.directory), Names{"n1.h5"});
  EXPECT_EQ(fs::file_size(work_ / "precious.h5"), 8U);

  const StoredRun other = run("reveal-2");
  fs::create_directory_symlink(other.directory, work_ / "link");
  EXPECT_NE(look_at_run(work_ / "link", other.record).why_not, "");
  StoredRun through = other;
  through.directory = work_ / "link";
  EXPECT_THROW(static_cast<void>(delete_run(through)), Error);
  EXPECT_TRUE(fs::exists(other.directory / "n1.h5"));
}

TEST_F(Retention, LeavesDirectoriesOfOtherRunsAndWithoutARecord) {
  StoredRun old = run("reveal-1");
  fs::remove(old.directory / kRunRecordFile);
  EXPECT_THROW(static_cast<void>(delete_run(old)), Error);
  EXPECT_NE(look_at_run(old.directory, old.record).why_not, "");
  RunRecord newer = old.record;
  newer.run_id = "another";
  write(old.directory / kRunRecordFile, render_run(newer));
  EXPECT_THROW(static_cast<void>(delete_run(old)), Error);
  fs::remove(old.directory / kRunRecordFile);
  fs::create_symlink(run("reveal-2").directory / kRunRecordFile, old.directory / kRunRecordFile);
  EXPECT_THROW(static_cast<void>(delete_run(old)), Error);
  EXPECT_TRUE(fs::exists(old.directory / "n1.h5"));
}

TEST_F(Retention, DeletesAnOldJobWithoutAReportUnlessItGetsOne) {
  const fs::path directory = work_ / "reveal-9";
  fs::create_directories(directory);
  fs::copy(fs::path(TEST_DATA) / "traces/v1.h5", directory / "n1.h5.part");
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(48);
  fs::last_write_time(directory / "n1.h5.part", old);
  const auto run = look_at_unrecorded(directory);
  ASSERT_TRUE(run);
  EXPECT_EQ(run->why_not, "");
  EXPECT_EQ(run->files, 1U);
  write(directory / "n1.h5.live");
  EXPECT_EQ(look_at_unrecorded(directory)->why_not, "it may still be recorded");
  EXPECT_THROW(static_cast<void>(delete_run(*run)), Error);
  fs::remove(directory / "n1.h5.live");
  write(directory / kRunRecordFile, "{}");
  EXPECT_FALSE(look_at_unrecorded(directory));
  EXPECT_THROW(static_cast<void>(delete_run(*run)), Error);
  fs::remove(directory / kRunRecordFile);
  EXPECT_TRUE(delete_run(*run).directory_gone);
}

TEST_F(Retention, TakesNoOtherDirectoryForAJobWithoutAReport) {
  const auto trace = fs::path(TEST_DATA) / "traces/v1.h5";
  for (const char* name : {"collected", "reveal-source", "reveal-empty"}) fs::create_directories(work_ / name);
  fs::copy(trace, work_ / "collected/n1.h5");  // neither the name nor the claim of a job
  write(work_ / "reveal-source/results.h5", "of a simulation");
  fs::create_directory_symlink(work_ / "collected", work_ / "reveal-link");
  for (const char* name : {"collected", "reveal-source", "reveal-empty", "reveal-link", "nowhere"}) {
    EXPECT_FALSE(look_at_unrecorded(work_ / name)) << name;
  }
  write(work_ / "collected/.job", "cluster 4711 0\n");
  EXPECT_TRUE(look_at_unrecorded(work_ / "collected"));
  EXPECT_EQ(unrecorded_runs_in(work_).size(), 1U);
}

TEST_F(Retention, LeavesARunThatIsBeingRecorded) {
  StoredRun old = run("reveal-1");
  write(old.directory / "n2.h5.part");
  EXPECT_EQ(look_at_run(old.directory, old.record).why_not, "it is still being recorded");
  EXPECT_THROW(static_cast<void>(delete_run(old)), Error);
}

TEST_F(Retention, LeavesDirectoriesOfOtherUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  const StoredRun old = run("reveal-1");
  ASSERT_EQ(::chown(old.directory.c_str(), 65534, 65534), 0);
  EXPECT_NE(look_at_run(old.directory, old.record).why_not.find("another user"), std::string::npos);
  EXPECT_THROW(static_cast<void>(delete_run(old)), Error);
}

TEST_F(Retention, LooksAtAllOfALargeFolder) {
  for (int i = 0; i < 12'000; ++i) write(work_ / ("data." + std::to_string(i)), "");
  for (const char* name : {"reveal-1", "reveal-2", "reveal-3"}) {
    fs::create_directories(work_ / name);
    fs::copy(fs::path(TEST_DATA) / "traces/v1.h5", work_ / name / "n1.h5");
  }
  EXPECT_EQ(unrecorded_runs_in(work_).size(), 3U);
}

TEST_F(Retention, TakesARunForAsOldAsItsEnd) {
  constexpr std::int64_t kBegin = 1'700'000'000 * kSecond;
  run("reveal-1");
  RunRecord record;
  record.run_id = "reveal-1";
  record.begin_utc_ns = kBegin;
  record.seconds = 500;
  EXPECT_EQ(look_at_run(work_ / "reveal-1", record).ended_utc_ns, kBegin + 500 * kSecond);
  record.begin_utc_ns = 100 * kSecond;
  EXPECT_GT(look_at_run(work_ / "reveal-1", record).ended_utc_ns, kBegin)
      << "its node had no clock, and its files are new";
}

TEST(RetentionLimits, AreNoAgesWhereTheClockIsContradicted) {
  constexpr std::int64_t kDay = 86'400 * kSecond;
  constexpr std::int64_t kNow = 20'000 * kDay;
  std::vector<StoredRun> runs(2);
  runs[0].ended_utc_ns = kNow - 40 * kDay;
  runs[1].ended_utc_ns = kNow - 50 * kDay;
  runs[1].directory = "/runs/reveal-2";
  const std::int64_t month_ago = kNow - 30 * kDay;
  EXPECT_EQ(doubt_of_ages(runs, month_ago, {.now_utc_ns = kNow}), "");
  EXPECT_NE(doubt_of_ages(runs, month_ago, {.now_utc_ns = kNow, .synchronised = false}).find("not synchronised"),
            std::string::npos);
  EXPECT_EQ(doubt_of_ages(runs, kNow - 45 * kDay, {.now_utc_ns = kNow, .synchronised = false}), "")
      << "a run stays: nobody deletes all of them by mistake";
  EXPECT_EQ(doubt_of_ages(runs, month_ago, {.now_utc_ns = kNow, .file_system_ahead_ns = kDay}), "");
  EXPECT_NE(doubt_of_ages(runs, month_ago, {.now_utc_ns = kNow, .file_system_ahead_ns = -2 * kDay}).find("differs"),
            std::string::npos);
  runs[1].ended_utc_ns = kNow + kDay;
  EXPECT_EQ(doubt_of_ages(runs, month_ago, {.now_utc_ns = kNow}), "");
  runs[1].ended_utc_ns = kNow + 2 * kDay;
  EXPECT_NE(doubt_of_ages(runs, month_ago, {.now_utc_ns = kNow}).find("/runs/reveal-2"), std::string::npos);
}

TEST(RetentionLimits, SelectByAgeNumberAndTotalSize) {
  std::vector<StoredRun> runs;
  for (const std::int64_t begin : {50, 40, 30, 20, 10}) {
    StoredRun& run = runs.emplace_back();
    run.record.begin_utc_ns = run.ended_utc_ns = begin;
    run.bytes = 100;
  }
  const auto begins = [&](const RetentionLimits& limits) {
    std::vector<std::int64_t> times;
    for (const StoredRun* run : beyond_limits(runs, limits)) times.push_back(run->record.begin_utc_ns);
    return times;
  };
  using Begins = std::vector<std::int64_t>;
  EXPECT_EQ(begins({}), Begins{});
  EXPECT_EQ(begins({.ended_before_utc_ns = 30}), (Begins{20, 10}));
  EXPECT_EQ(begins({.most_runs = 4}), Begins{10});
  EXPECT_EQ(begins({.most_bytes = 250}), (Begins{30, 20, 10}));
  EXPECT_EQ(begins({.ended_before_utc_ns = 15, .most_runs = 3}), (Begins{20, 10}));
  runs[2].bytes = 300;
  EXPECT_EQ(begins({.most_bytes = 450}), (Begins{30, 20, 10})) << "no older run stays for one that does not fit";
  runs[4].why_not = "it is still being recorded";
  EXPECT_EQ(begins({.ended_before_utc_ns = 30}), Begins{20});
}

}  // namespace
}  // namespace reveal::tests::retention_test
