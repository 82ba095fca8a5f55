// io.local_disk_saturated on a disk with too many requests, and on busy disks that cost nothing.
#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::io_local_disk_test {
namespace {

using R = RuleRecording;

R::Course times(const R::Course& course, double factor) {
  return [course, factor](double second) { return course(second) * factor; };
}

struct BusyDisk {
  R::Course busy = R::event(0.05, 0.99);    // part of the time
  R::Course requests = R::event(100, 400);  // per second
  R::Course took = R::event(0.002, 0.08);   // seconds each
  R::Course bytes = R::event(5e6, 100e6);   // per second
  R::Course own = R::event(5e6, 95e6);      // the job's own part
  R::Course used = R::event(1.8, 0.6);      // cpus
  R::Course waits = R::event(0.01, 0.8);    // seconds per second
  double seconds = 120;
  std::string name = "vda";
};

R record(const BusyDisk& disk) {
  const auto whole = [&](double second) { return disk.requests(second) * disk.took(second) * 1e9; };
  R node(disk.seconds);
  node.counter("disk.io_time", disk.name, times(disk.busy, 1e9))
      .counter("disk.reads", disk.name, times(disk.requests, 0.5))
      .counter("disk.writes", disk.name, times(disk.requests, 0.5))
      .counter("disk.read_time", disk.name, times(whole, 0.5))
      .counter("disk.write_time", disk.name, times(whole, 0.5))
      .counter("disk.read_bytes", disk.name, disk.bytes)
      .counter("disk.write_bytes", disk.name, R::always(0))
      .counter("process.read_bytes", "rank0", disk.own, "rank")
      .counter("process.write_bytes", "rank0", R::always(0), "rank")
      .counter("job.cpu_time", "", times(disk.used, 1e9))
      .counter("pressure.io_some", "", times(disk.waits, 1e9))
      .counter("pressure.io_full", "", times(disk.waits, 0.8e9));
  return node;
}

std::vector<Finding> found_on(const BusyDisk& disk) {
  return record(disk).findings("io.local_disk_saturated");
}

TEST(RuleLocalDisk, NamesTheDiskItsRequestsAndWhatTheyCost) {
  const R node = record({});
  const auto found = node.findings("io.local_disk_saturated");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"vda"});
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 50, 0.6);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).end_utc_ns), 65, 0.6);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 15 * (1 - 0.6 / 1.8), 0.7);
  EXPECT_NEAR(found[0].evidence.at(1).observed.value_or(0), 0.08, 0.01);
  EXPECT_NE(found[0].sentence.find("the job's own requests, more than usual"), std::string::npos) << found[0].sentence;
  EXPECT_TRUE(found[0].remedy.user.at(0).starts_with("iostat -x vda 5"));
}

TEST(RuleLocalDisk, EndsWhereTheDiskIsHalfBusyAgain) {
  const auto tail = [](double second) {
    if (second < 50 || second >= 75) return 0.05;
    return second < 65 ? 0.98 : 0.6;
  };
  const R node = record({.busy = tail});
  const auto found = node.findings("io.local_disk_saturated");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).end_utc_ns), 65, 0.8);
}

TEST(RuleLocalDisk, TakesNoRequestsAtTheEndsOfTheIntervalForUsualOnes) {
  const auto shoulder = [](double usual, double then) {
    return [usual, then](double second) { return second >= 49.5 && second < 65.5 ? then : usual; };
  };
  const R node = record({.requests = shoulder(1, 400), .took = shoulder(0.009, 0.08)});
  const auto found = node.findings("io.local_disk_saturated");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].evidence.at(1).expected.value_or(0), 0.009, 0.001);
}

TEST(RuleLocalDisk, SaysThatOthersFillIt) {
  R node = record({.own = R::event(5e6, 1e6)});
  node.begin = {{"env.SLURM_JOB_ID", "4711"}};
  const auto found = node.findings("io.local_disk_saturated");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_NE(found[0].sentence.find("99 % of it by processes outside the job"), std::string::npos) << found[0].sentence;
  EXPECT_TRUE(found[0].remedy.user.at(1).starts_with("#SBATCH --exclusive"));
  EXPECT_TRUE(found[0].remedy.advice.empty());
}

TEST(RuleLocalDisk, AccusesNobodyWhereItDoesNotKnowAllOfTheJobsBytes) {
  R many = record({.own = R::event(5e6, 25e6)});  // 16 of 64 ranks that read alike
  many.gauge("job.processes", "", R::always(64));
  const auto found = many.findings("io.local_disk_saturated");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].sentence.ends_with("the processes that caused it were not measured.")) << found[0].sentence;
  R version_1 = record({});
  version_1.counter("cgroup.read_bytes", "", R::always(0)).counter("cgroup.write_bytes", "", R::always(0));
  const auto words = [&] { return version_1.findings("io.local_disk_saturated").at(0).sentence; };
  EXPECT_NE(words().find("100 % of it by processes outside the job"), std::string::npos) << words();
  version_1.begin = {{"job.cgroup.blkio", "/slurm/job_7"}};
  EXPECT_NE(words().find("the job's own requests"), std::string::npos) << "it leaves out the page cache: " << words();
}

TEST(RuleLocalDisk, CountsTheReadsThatOthersHoldUpWhereThreadsKeepTheirCpus) {
  const auto found = found_on({.own = R::event(60e6, 12e6), .used = R::event(1.8, 1.7)});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_TRUE(found[0].impact.at_most);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 15 * 0.8, 1.0);
  EXPECT_TRUE(found_on({.own = R::event(60e6, 50e6), .used = R::event(1.8, 1.7)}).empty());
  EXPECT_TRUE(found_on({.own = R::event(1e4, 1e3), .used = R::event(1.8, 1.7)}).empty()) << "it hardly reads";
}

TEST(RuleLocalDisk, SeesADiskThatBecameSlowUnderTheSameLoad) {
  const auto found = found_on({.requests = R::event(60, 10), .bytes = R::event(6e6, 1e6), .own = R::event(6e6, 1e6)});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_NE(found[0].sentence.find("no more than usual"), std::string::npos) << found[0].sentence;
}

TEST(RuleLocalDisk, SeesAJobThatWaitsForItAllAlong) {
  const auto found = found_on({.busy = R::always(0.98),
                               .requests = R::always(400),
                               .took = R::always(0.08),
                               .bytes = R::always(100e6),
                               .own = R::always(100e6),
                               .used = R::always(0.3),
                               .waits = R::always(0.9)});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].impact.percent.value_or(0), 72, 4);
  EXPECT_FALSE(found[0].evidence.at(1).expected.has_value());
}

/// A disk that is full from the first second to the last, with requests that take this long.
std::vector<Finding> found_always(const std::string& name, const char* rotational, double took) {
  R node = record({.busy = R::always(0.98),
                   .requests = R::always(400),
                   .took = R::always(took),
                   .bytes = R::always(100e6),
                   .own = R::always(100e6),
                   .used = R::always(0.3),
                   .waits = R::always(0.9),
                   .name = name});
  if (*rotational != '\0') node.begin = {{"disk." + name + ".rotational", rotational}};
  return node.findings("io.local_disk_saturated");
}

TEST(RuleLocalDisk, ExpectsOfEachKindOfDiskItsOwnTimeWhereNoUsualOneIsKnown) {
  EXPECT_EQ(found_always("nvme0n1", "0", 0.008).size(), 1U);
  EXPECT_TRUE(found_always("sda", "0", 0.008).empty());
  EXPECT_EQ(found_always("sda", "0", 0.03).size(), 1U);
  EXPECT_TRUE(found_always("sda", "1", 0.03).empty()) << "seeks take that long";
  EXPECT_EQ(found_always("sda", "1", 0.07).size(), 1U);
  EXPECT_TRUE(found_always("sda", "", 0.03).empty()) << "a trace without the kind of its disks";
}

TEST(RuleLocalDisk, IsSilentOnADiskThatIsBusyButFast) {
  EXPECT_TRUE(found_on({.took = R::event(0.0002, 0.0004)}).empty());  // flash: many requests at once
  EXPECT_TRUE(found_on({.took = R::always(0.02)}).empty());           // no slower than before
}

TEST(RuleLocalDisk, IsSilentWhereTheJobLosesNothing) {
  EXPECT_TRUE(found_on({.used = R::always(1.8)}).empty());  // the work of other processes, or read ahead
  EXPECT_TRUE(found_on({.waits = R::always(0.01)}).empty());
}

TEST(RuleLocalDisk, NotesWhatOthersDidWhereDetectorsSawIt) {
  R node = record({.own = R::always(1e6), .used = R::always(1.8)});
  EXPECT_TRUE(node.findings("io.local_disk_saturated").empty()) << "no episode would stay unexplained";
  Episode seen;
  seen.begin = 500;
  seen.end = 650;
  seen.tier = Tier::strong;
  node.detection.episodes = {seen};
  const auto found = node.findings("io.local_disk_saturated");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_TRUE(found[0].impact.how.starts_with("none seen: the job used 1.78 cpus (usually 1.78)"))
      << found[0].impact.how;
}

TEST(RuleLocalDisk, IsSilentOnCheckpoints) {
  const BusyDisk each_time{.busy = R::habit(0.05, 0.99),
                           .requests = R::habit(100, 400),
                           .took = R::habit(0.002, 0.08),
                           .bytes = R::habit(5e6, 100e6),
                           .own = R::habit(5e6, 95e6),
                           .used = R::habit(1.8, 0.6),
                           .waits = R::habit(0.01, 0.8)};
  EXPECT_TRUE(found_on(each_time).empty());
  const auto minutely = [](double usual, double inside) -> R::Course {  // for 10 s each
    return [=](double second) { return std::fmod(second, 60) >= 48 && std::fmod(second, 60) < 58 ? inside : usual; };
  };
  EXPECT_TRUE(found_on({.busy = minutely(0.05, 0.99),
                        .requests = minutely(100, 400),
                        .took = minutely(0.002, 0.08),
                        .bytes = minutely(5e6, 100e6),
                        .own = minutely(5e6, 95e6),
                        .used = minutely(1.8, 0.6),
                        .waits = minutely(0.01, 0.8),
                        .seconds = 300})
                  .empty());
}

TEST(RuleLocalDisk, OnlyRemarksThatAJobLoadsItsDataFirst) {
  const auto first = [](double usual, double inside) -> R::Course {
    return [=](double second) { return second >= 2 && second < 30 ? inside : usual; };
  };
  const auto found = found_on({.busy = first(0.05, 0.99),
                               .requests = first(100, 400),
                               .took = first(0.002, 0.08),
                               .bytes = first(5e6, 100e6),
                               .own = first(5e6, 95e6),
                               .used = first(1.8, 0.6),
                               .waits = first(0.01, 0.8)});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::info);
}

TEST(RuleLocalDisk, IsToldByTheRuleOfAFloodOfDirtyPages) {
  const R node = record({});
  Finding flood;
  flood.id = "mem.writeback_stall";
  flood.nodes = {node.telemetry.node};
  flood.intervals = {{node.telemetry.begin_utc_ns + 48'000'000'000, node.telemetry.begin_utc_ns + 70'000'000'000}};
  EXPECT_TRUE(explained_by(node, {flood}, "io.local_disk_saturated"));
}

TEST(RuleLocalDisk, SaysWhatItCouldNotMeasure) {
  EXPECT_THROW(static_cast<void>(R().findings("io.local_disk_saturated")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::io_local_disk_test
