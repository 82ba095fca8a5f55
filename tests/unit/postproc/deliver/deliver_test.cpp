// From the spool of a node to the job's directory.
#include "postproc/deliver/deliver.h"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>

#include "hdf5schema/basics/call_filter.h"
#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "hdf5schema/trace_reader.h"
#include "hdf5schema/trace_writer.h"
#include "postproc/analysis/downsample_traces.h"
#include "postproc/analysis/job_report.h"
#include "postproc/analysis/slurm_job_record.h"
#include "postproc/deliver/report_job.h"
#include "postproc/mail/mail_quota.h"
#include "postproc/report/verdict.h"
#include "postproc/telemetry/publish.h"
#include "tests/unit/hdf5schema/sample_trace.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::deliver_test {
namespace {

namespace fs = std::filesystem;

class Deliver : public testing::Test {
 protected:
  Deliver() {
    fs::create_directories(base_ / "work");
    fs::create_directories(base_ / "home");
    settings_.wait_for_nodes = std::chrono::milliseconds(200);
    job_.place = {.id = "4711", .user = "anna", .cluster = "c", .work_dir = (base_ / "work").string(), .home = {}};
    job_.names.state = "TIMEOUT";
    job_.place.nodes = job_.place.watched = {"n01"};
  }

  fs::path spool(const std::string& node) {
    const fs::path spool = base_ / ("spool-" + node);
    fs::create_directories(spool);
    if (!fs::exists(spool / (node + ".h5"))) record(spool / (node + ".h5"), node);
    for (const char* left : {".status.json", ".h5.live", ".h5.watch"}) std::ofstream(spool / (node + left)) << "{}";
    return spool;
  }
  static void record(const fs::path& trace, const std::string& node) {
    constexpr std::int64_t kTenth = 100'000'000;
    TraceWriter writer(trace, {.job_id = "4711", .node = node, .interval = std::chrono::nanoseconds(kTenth)});
    const auto family = writer.add_family({.path = "memory/meminfo", .period = std::chrono::nanoseconds(kTenth)});
    writer.add_channel(family, {.metric = "mem.free"});
    writer.start();
    for (std::int64_t row = 1; row <= 30; ++row) {
      writer.append_row(family, row * kTenth, std::span<const std::int64_t>(&row, 1));
    }
    writer.append_clock({kTenth, 1'700'000'000'000'000'000, 0});
    writer.close();
  }
  /// With values that take space.
  fs::path spool_of_ten_minutes(const std::string& node) {
    constexpr std::int64_t kTenth = 100'000'000;
    fs::create_directories(base_ / ("spool-" + node));
    TraceWriter writer(base_ / ("spool-" + node) / (node + ".h5"),
                       {.job_id = "4711", .node = node, .interval = std::chrono::nanoseconds(kTenth)});
    const auto family = writer.add_family({.path = "memory/meminfo", .period = std::chrono::nanoseconds(kTenth)});
    std::vector<std::int64_t> values(20);
    for (std::size_t i = 0; i < values.size(); ++i) writer.add_channel(family, {.metric = "mem.m" + std::to_string(i)});
    writer.start();
    std::minstd_rand random(1);
    for (std::int64_t row = 1; row <= 6000; ++row) {
      for (std::int64_t& value : values) value = static_cast<std::int64_t>(random());
      writer.append_row(family, row * kTenth, values);
      if (row % 100 == 0) wait_until_flushed(writer, row * kTenth);
    }
    writer.append_clock({kTenth, 1'700'000'000'000'000'000, 0});
    writer.close();
    return base_ / ("spool-" + node);
  }
  /// The answer of the controller.
  static std::optional<JobNames> named_train(const fs::path&, bool) {
    JobNames names;
    names.name = "train";
    names.state = "COMPLETED";
    return names;
  }
  Delivery deliver_node(const std::string& node, const std::string& request = "") {
    return deliver(spool(node), node, job_, request, settings_, {});
  }

  TemporaryDirectory directory_of_test_;
  const fs::path base_ = directory_of_test_.path();
  SlurmJob job_;
  DeliverSettings settings_ = deliver_settings({});
};

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
  for (int node = 2; node <= 1001; ++node) job_.place.watched.push_back("n" + std::to_string(node));
  job_.place.nodes = job_.place.watched;
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
  for (int node = 2; node <= 1001; ++node) job_.place.watched.push_back("n" + std::to_string(node));
  job_.place.nodes = job_.place.watched;
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

TEST_F(Deliver, KeepsOneRowAMinuteOnceTheNodeIsAnalysed) {
  const std::uintmax_t whole = fs::file_size(spool_of_ten_minutes("n01") / "n01.h5");
  settings_.downsample_traces = true;
  const Delivery delivery = deliver(base_ / "spool-n01", "n01", job_, "", settings_, {});
  ASSERT_TRUE(delivery.report_built);
  const fs::path trace = delivery.directory / "n01.h5";
  EXPECT_LT(fs::file_size(trace), whole / 2);
  EXPECT_EQ(TraceReader(trace).events().at(0).code, "summary");
  EXPECT_TRUE(report_is_fresh(delivery.directory));
  const NodeSummary made = *summary_of(list_traces(delivery.directory).at(0));
  EXPECT_TRUE(made.downsampled);
  EXPECT_NEAR(made.seconds, 600, 1);

  // Neither other settings nor a copy make the rest whole again.
  fs::last_write_time(trace, fs::last_write_time(trace) + std::chrono::hours(1));
  ReportOptions options;
  options.settings.pipeline = "paper";
  options.reuse_summaries = false;
  std::vector<InputProblem> problems;
  const Report again = build_report(delivery.directory, options, problems);
  EXPECT_EQ(again.coverage.size(), made.part.coverage.size());
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0].text.find("the results of that analysis are used"), std::string::npos);
  downsample_traces(delivery.directory);  // nothing more to do
  EXPECT_EQ(TraceReader(trace).events().size(), 1U);
}

TEST_F(Deliver, KeepsThinnedTracesOfTwoSamplersApart) {
  settings_.downsample_traces = true;
  for (int run = 0; run < 2; ++run) {
    spool_of_ten_minutes("n01");
    ASSERT_TRUE(deliver(base_ / "spool-n01", "n01", job_, "", settings_, {}).moved);
  }
  for (const ListedTrace& trace : list_traces(base_ / "work/reveal-4711")) {
    const auto summary = summary_of(trace);
    ASSERT_TRUE(summary.has_value()) << trace.path;
    EXPECT_TRUE(summary->downsampled);
  }
  EXPECT_TRUE(fs::exists(base_ / "work/reveal-4711/n01-2.summary.json"));
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

TEST_F(Deliver, NamesTheDirectoryOnceAllNodesAreIn) {
  job_.place.nodes = job_.place.watched = {"n01", "n02"};
  job_.names = {};
  const Delivery first = deliver(spool("n01"), "n01", job_, "output=%x-%j", settings_, {}, named_train);
  EXPECT_EQ(first.directory, base_ / "work/4711-4711");  // the other node has no more facts than that
  EXPECT_EQ(first.names.value().name, "train");
  EXPECT_EQ(delivered_to(first), first.directory);
  const Delivery second = deliver_node("n02", "output=%x-%j");  // it queries no controller
  EXPECT_EQ(second.directory, base_ / "work/train-4711");
  EXPECT_TRUE(fs::exists(second.directory / "report.json"));
  EXPECT_FALSE(fs::exists(first.directory));
  EXPECT_EQ(delivered_to(first), second.directory);
}

TEST_F(Deliver, IsFoundUnderTheNumberThatItsNameGot) {
  fs::create_directories(base_ / "work/train-4711");  // owned by another user
  job_.place.nodes = job_.place.watched = {"n01", "n02"};
  job_.names = {};
  const Delivery first = deliver(spool("n01"), "n01", job_, "output=%x-%j", settings_, {}, named_train);
  static_cast<void>(deliver_node("n02", "output=%x-%j"));
  EXPECT_EQ(delivered_to(first), base_ / "work/train-4711-2");
  // The name written there does not lead to another place.
  std::ofstream(base_ / "work/train-4711-2/.moved-to") << (base_ / "home").string();
  EXPECT_EQ(delivered_to(first), first.directory);
}

TEST_F(Deliver, NamesTheDirectoryBeforeTheReportThatStatesItsPlace) {
  job_.place.nodes = job_.place.watched = {"n01", "n02"};
  job_.names = {};
  const Delivery first = deliver(spool("n01"), "n01", job_, "output=%x-%j", settings_, {}, named_train);
  fs::remove(first.directory / "report.json");
  fs::create_directory(first.directory / "report.json");  // in the way of the report
  const Delivery second = deliver_node("n02", "output=%x-%j");
  EXPECT_FALSE(second.report_built);
  EXPECT_EQ(second.directory, base_ / "work/train-4711");
  EXPECT_EQ(delivered_to(first), second.directory);
  EXPECT_FALSE(fs::exists(second.directory / ".report.lease")) << "the next report need not wait for it";
}

TEST_F(Deliver, NamesTheDirectoryOnAFileServerWithoutExclusiveRenames) {
  job_.place.nodes = job_.place.watched = {"n01", "n02"};
  job_.names = {};
  static_cast<void>(deliver(spool("n01"), "n01", job_, "output=%x-%j", settings_, {}, named_train));
  fs::create_directories(base_ / "work/train-4711");  // taken
  constexpr int kNoFilters = 250;
  ChildProcess node = fork_child([&] {
    constexpr unsigned kFlags = 4;  // the argument
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    CallFilter filter;
    filter.refuse_with_flags(SYS_renameat2, kFlags, RENAME_NOREPLACE, EINVAL);  // as NFS
    if (!filter.install()) return kNoFilters;
    return deliver_node("n02", "output=%x-%j").directory == base_ / "work/train-4711-2" ? 0 : 1;
  });
  const int status = WEXITSTATUS(node.wait());
  if (status == kNoFilters) GTEST_SKIP() << "this kernel, or this architecture, has no filters";
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(fs::exists(base_ / "work/train-4711-2/report.json"));
}

TEST_F(Deliver, TellsTheNodeThatComesFirst) {
  job_.place.nodes = job_.place.watched = {"n01", "n02"};
  std::vector<bool> first;
  const auto note = [&first](const fs::path&, bool is_first) -> std::optional<JobNames> {
    first.push_back(is_first);
    return std::nullopt;
  };
  for (const char* node : {"n02", "n01"}) EXPECT_TRUE(deliver(spool(node), node, job_, "", settings_, {}, note).moved);
  EXPECT_EQ(first, (std::vector<bool>{true, false}));
}

TEST_F(Deliver, ReportsNodesThatOnlyTheyThemselvesExpect) {
  // Steps on one node each: `srun -N1 --reveal a & srun -N1 --reveal b`.
  job_.place.nodes = {"n01", "n02"};
  job_.place.inner = true;
  job_.place.watched = {"n01"};
  const Delivery first = deliver_node("n01");
  job_.place.watched = {"n02"};
  EXPECT_TRUE(deliver_node("n02").report_built);
  const std::string report = read_text_file(first.directory / "report.json", 1 << 20);
  EXPECT_NE(report.find("\"partial\": false"), std::string::npos);
  EXPECT_NE(report.find("n01"), std::string::npos);
  EXPECT_NE(report.find("n02"), std::string::npos);
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

TEST_F(Deliver, IsNotStoppedByANameThatIsNoText) {
  job_.names.name =
      "a\xff"
      "b";
  EXPECT_TRUE(deliver_node("n01").moved);
}

TEST_F(Deliver, KeepsTheRunsOfDifferentJobsApart) {
  EXPECT_EQ(deliver_node("n01", "output=out").directory, base_ / "work/out");
  job_.place.id = "4712";
  EXPECT_EQ(deliver_node("n01", "output=out").directory, base_ / "work/out-2");
  job_.place.restart = 1;
  EXPECT_EQ(deliver_node("n01").directory, base_ / "work/reveal-4712-r1");
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

TEST_F(Deliver, LetsTheEpilogGoBeforeAnAnalysisThatTakesLonger) {
  settings_.most_seconds = 1e-6;
  bool there_before = false;
  const Delivery delivery = deliver(spool("n01"), "n01", job_, "", settings_, {}, {}, [&](const Delivery&) {
    there_before =
        fs::exists(base_ / "work/reveal-4711/n01.h5") && !fs::exists(base_ / "work/reveal-4711/n01.summary.json");
  });
  EXPECT_TRUE(there_before);
  EXPECT_FALSE(delivery.needs_job);
  EXPECT_TRUE(delivery.report_built);
}

TEST_F(Deliver, AnalysesACopyOnTheNodeOfATraceThatIsDeliveredAlready) {
  settings_.most_seconds = 1e-6;
  settings_.report = ReportWhen::job;
  const fs::path trace = base_ / "work/reveal-4711/n01.h5";
  const Delivery delivery = deliver(spool("n01"), "n01", job_, "", settings_, {}, {}, [&](const Delivery&) {
    EXPECT_TRUE(fs::exists(base_ / "spool-n01/n01.h5"));
    fs::rename(trace, base_ / "away");  // no reader finds it
  });
  fs::rename(base_ / "away", trace);
  EXPECT_EQ(delivery.why, "");
  EXPECT_TRUE(summary_of(list_traces(delivery.directory).at(0)).has_value());
  EXPECT_TRUE(fs::is_empty(base_ / "spool-n01"));
}

TEST_F(Deliver, LosesNothingWhereANodeEndsBeforeItsAnalysisDoes) {
  settings_.most_seconds = 1e-6;
  const fs::path from = spool("n01");
  ChildProcess node = fork_child([&] {
    static_cast<void>(deliver(from, "n01", job_, "", settings_, {}, {}, [](const Delivery&) { ::_exit(0); }));
    return 1;
  });
  ASSERT_EQ(exit_status(node.wait()), 0);
  const fs::path directory = base_ / "work/reveal-4711";
  EXPECT_TRUE(fs::exists(directory / "n01.h5")) << "whatever becomes of the node's own disk";
  const Delivery again = deliver(from, "n01", job_, "", settings_, {});
  EXPECT_EQ(again.directory, directory);
  EXPECT_TRUE(again.report_built);
  EXPECT_FALSE(fs::exists(directory / "n01-2.h5"));
  EXPECT_TRUE(fs::is_empty(from));
}

TEST_F(Deliver, ThinsATraceThatIsDeliveredAlready) {
  const fs::path from = spool_of_ten_minutes("n01");
  const std::uintmax_t whole = fs::file_size(from / "n01.h5");
  settings_.most_seconds = 1e-6;
  settings_.downsample_traces = true;
  fs::copy_file(from / "n01.h5", base_ / "whole.h5");
  fs::last_write_time(base_ / "whole.h5", fs::last_write_time(from / "n01.h5"));
  const Delivery delivery = deliver(from, "n01", job_, "", settings_, {});
  ASSERT_TRUE(delivery.report_built) << delivery.why;
  const ListedTrace trace = list_traces(delivery.directory).at(0);
  EXPECT_LT(trace.bytes, whole / 2);
  EXPECT_TRUE(summary_of(trace).value().downsampled);
  EXPECT_TRUE(fs::is_empty(from));

  fs::copy_file(base_ / "whole.h5", from / "n01.h5");  // as if it had not come to remove it
  fs::last_write_time(from / "n01.h5", fs::last_write_time(base_ / "whole.h5"));
  settings_.report = ReportWhen::lazy;
  EXPECT_TRUE(deliver(from, "n01", job_, "", settings_, {}).moved);
  EXPECT_FALSE(fs::exists(delivery.directory / "n01-2.h5"));
  EXPECT_EQ(fs::file_size(delivery.directory / "n01.h5"), trace.bytes);
}

TEST_F(Deliver, GivesTheResultsTheNameThatTheirTraceGot) {
  const Delivery first = deliver_node("n01");
  const std::string earlier = read_text_file(first.directory / "n01.summary.json", 1 << 20);
  settings_.most_seconds = 1e-6;
  settings_.report = ReportWhen::job;
  spool("n01");
  EXPECT_EQ(deliver(base_ / "spool-n01", "n01", job_, "", settings_, {}).why, "");
  EXPECT_EQ(read_text_file(first.directory / "n01.summary.json", 1 << 20), earlier);
  for (const ListedTrace& trace : list_traces(first.directory)) {
    EXPECT_TRUE(summary_of(trace).has_value()) << trace.path;
  }
  EXPECT_TRUE(fs::exists(first.directory / "n01-2.summary.json"));
}

TEST_F(Deliver, LeavesTheTraceOfALaterRunInTheSpool) {
  settings_.most_seconds = 1e-6;
  settings_.report = ReportWhen::job;
  const Delivery delivery = deliver(spool("n01"), "n01", job_, "", settings_, {}, {}, [&](const Delivery&) {
    // A next collector of this job has delivered what it found, and recorded under the name that was free.
    fs::remove(base_ / "spool-n01/n01.h5");
    record(base_ / "spool-n01/n01.h5", "n01");
    fs::last_write_time(base_ / "spool-n01/n01.h5",
                        fs::last_write_time(base_ / "work/reveal-4711/n01.h5") + std::chrono::seconds(1));
  });
  EXPECT_TRUE(fs::exists(base_ / "spool-n01/n01.h5"));
  EXPECT_FALSE(fs::exists(delivery.directory / "n01.summary.json")) << "of another trace";
}

TEST_F(Deliver, SubmitsAJobForTheReportOfManyNodes) {
  for (int node = 2; node <= 100'000; ++node) job_.place.watched.push_back("n" + std::to_string(node));
  job_.place.nodes = job_.place.watched;
  const Delivery delivery = deliver_node("n01");
  EXPECT_TRUE(delivery.needs_job);
  EXPECT_TRUE(delivery.submits_job);
  EXPECT_FALSE(delivery.report_built);
  EXPECT_TRUE(fs::exists(delivery.directory / "nodes-06/n01.summary.json")) << "each node analyses its own trace";
  const Delivery second = deliver_node("n2");
  EXPECT_TRUE(second.needs_job);
  EXPECT_FALSE(second.submits_job) << "one job is enough";
}

TEST_F(Deliver, LeavesTheReportToTheJobThatASlowerNodeHasSubmitted) {
  for (int node = 2; node <= 6000; ++node) job_.place.watched.push_back("n" + std::to_string(node));
  job_.place.nodes = job_.place.watched;
  const Delivery slow = deliver_node("n01");
  EXPECT_TRUE(slow.submits_job) << "6,000 nodes at the usual pace";
  settings_.paces.merge = 0.5;
  const Delivery fast = deliver_node("n2");
  EXPECT_TRUE(fast.needs_job) << "its estimate fits, but there is a job";
  EXPECT_FALSE(fast.report_built);
  EXPECT_FALSE(fs::exists(fast.directory / "report.json"));
}

TEST_F(Deliver, LetsTheFirstNodeDecideOnTheJob) {
  for (int node = 2; node <= 6000; ++node) job_.place.watched.push_back("n" + std::to_string(node));
  job_.place.nodes = job_.place.watched;
  settings_.report = ReportWhen::lazy;
  const Delivery first = deliver_node("n2");
  settings_.report = ReportWhen::epilog;
  settings_.most_seconds = 1000;
  const Delivery slow = deliver_node("n01");
  EXPECT_FALSE(slow.submits_job) << "the first one may have estimated less";
  EXPECT_FALSE(fs::exists(first.directory / ".report-job"));
  EXPECT_TRUE(slow.report_built) << "else its summary is in no report";
  EXPECT_FALSE(slow.needs_job);
}

TEST_F(Deliver, MakesTheReportWhereANodeEndedBeforeItSubmittedTheJob) {
  settings_.report = ReportWhen::lazy;
  const fs::path marker = deliver_node("n01").directory / ".report-job";
  settings_.report = ReportWhen::epilog;
  std::ofstream{marker};
  EXPECT_TRUE(deliver_node("n01").needs_job) << "it may submit the job in this moment";
  const auto two_minutes = std::chrono::minutes(2);
  fs::last_write_time(marker, fs::last_write_time(marker) - two_minutes);
  EXPECT_TRUE(deliver_node("n01").report_built);
  const Delivery submitted = deliver_node("n01");
  confirm_report_job(submitted);
  fs::last_write_time(marker, fs::last_write_time(marker) - two_minutes);
  EXPECT_FALSE(deliver_node("n01").report_built) << "the job may start tomorrow";
}

TEST_F(Deliver, LeavesNoDirectoryBehindWhereAFolderOfANodeCannotBeUsed) {
  settings_.report = ReportWhen::lazy;
  for (int node = 2; node <= 1001; ++node) job_.place.watched.push_back("n" + std::to_string(node));
  job_.place.nodes = job_.place.watched;
  const auto occupy = [](const fs::path& directory, bool) -> std::optional<JobNames> {
    fs::create_directory(directory / "nodes-39");  // another node's, still empty
    throw Error("the disk is full");
  };
  EXPECT_FALSE(deliver(spool("n01"), "n01", job_, "", settings_, {}, occupy).moved);
  EXPECT_FALSE(fs::exists(base_ / "work/reveal-4711"));
}

TEST_F(Deliver, EstimatesByThePacesOfTheNode) {
  constexpr double kEnough = 64e9;
  EXPECT_EQ(epilog_limits({}, kEnough).nodes, 5000U);
  EXPECT_NEAR(epilog_limits({}, kEnough).trace_bytes, 500e6, 1);
  EXPECT_EQ(epilog_limits({.analysis = 1, .merge = 0.5}, kEnough).nodes, 10'000U);
  EXPECT_EQ(epilog_limits({.analysis = 4, .merge = 1}, kEnough).nodes, 5000U);
  EXPECT_NEAR(epilog_limits({.analysis = 4, .merge = 1}, kEnough).trace_bytes, 125e6, 1);
}

TEST_F(Deliver, LeavesAReportThatIsTooLargeForItsMemoryToAJobHoweverFastTheNodeIs) {
  const DeliveryPaces fast{.analysis = 1, .merge = 0.25};
  EXPECT_EQ(epilog_limits(fast, 2.08e9).nodes, 8000U);
  EXPECT_EQ(epilog_limits(fast, 580e6).nodes, 2000U);
  EXPECT_EQ(epilog_limits(fast, 0).nodes, 1U) << "which has nothing to merge";
  EXPECT_NEAR(merge_bytes(8000), 1.04e9, 1) << "half of it";
  for (int node = 2; node <= 2001; ++node) job_.place.watched.push_back("n" + std::to_string(node));
  job_.place.nodes = job_.place.watched;
  settings_.memory = 580e6;
  EXPECT_TRUE(deliver_node("n01").submits_job);
}

TEST_F(Deliver, AnalysesItsTraceAfterTheEpilogIfAJobBuildsTheReport) {
  settings_.most_seconds = 1e-6;
  settings_.report = ReportWhen::job;
  bool asked = false;
  const Delivery delivery = deliver(spool("n01"), "n01", job_, "", settings_, {}, {}, [&](const Delivery& so_far) {
    asked = so_far.needs_job && so_far.seconds_after_epilog > 0 && fs::exists(so_far.directory / "n01.h5") &&
            !fs::exists(so_far.directory / "n01.summary.json");
  });
  EXPECT_TRUE(asked) << "the job is submitted while Slurm knows the one it waits for";
  EXPECT_TRUE(fs::exists(delivery.directory / "n01.summary.json"));
  EXPECT_FALSE(fs::exists(delivery.directory / "report.json"));
}

TEST_F(Deliver, WaitsForTheReportAsLongAsASlowerNodeAnalysesItsTrace) {
  Delivery delivery;
  EXPECT_EQ(longest_analysis(delivery), std::chrono::seconds(0));
  delivery.seconds_after_epilog = 100;
  EXPECT_EQ(longest_analysis(delivery), std::chrono::seconds(300));
}

TEST_F(Deliver, BuildsTheSameReportFromTracesAndFromSummaries) {
  spool_of_ten_minutes("n01");
  spool_of_ten_minutes("n02");
  fs::rename(base_ / "spool-n02/n02.h5", base_ / "spool-n01/n02.h5");
  ReportOptions options;
  options.now_utc_ns = 1'700'000'000'000'000'000;
  std::vector<InputProblem> problems;
  const std::string from_traces = render_json(build_report(base_ / "spool-n01", options, problems));
  ASSERT_TRUE(fs::exists(base_ / "spool-n01/n02.summary.json"));
  EXPECT_EQ(render_json(build_report(base_ / "spool-n01", options, problems)), from_traces);
  EXPECT_TRUE(problems.empty());
}

TEST_F(Deliver, LeavesTheReportToOthersWhereTheSiteSaysSo) {
  settings_.report = ReportWhen::lazy;
  const Delivery delivery = deliver_node("n01");
  EXPECT_TRUE(delivery.moved);
  EXPECT_FALSE(fs::exists(delivery.directory / "report.json"));
  EXPECT_FALSE(delivery.needs_job);
  settings_.report = ReportWhen::job;
  const Delivery for_job = deliver_node("n01");
  EXPECT_TRUE(for_job.needs_job);
  EXPECT_TRUE(fs::exists(for_job.directory / "n01-2.summary.json")) << "beside the trace of the first delivery";
}

TEST(DeliverTurns, AreAllDifferentHoweverManyNodesThereAre) {
  using namespace std::chrono_literals;
  EXPECT_EQ(time_of_turn(0, 4, 2ms, 10s), 0s);
  EXPECT_EQ(time_of_turn(3, 4, 2ms, 10s), 6ms);
  EXPECT_EQ(time_of_turn(4999, 5000, 2ms, 10s), 9998ms);
  EXPECT_EQ(time_of_turn(9998, 10'000, 2ms, 10s), 9998ms);
  EXPECT_EQ(time_of_turn(9999, 10'000, 2ms, 10s), 9999ms) << "not with the node before it";
  EXPECT_EQ(time_of_turn(65'535, 65'536, 200us, 1s), 65'535 * 15'258ns);
  EXPECT_EQ(time_of_turn(1, 0, 2ms, 10s), 2ms) << "a node of no list";
}

TEST(DeliverCandidates, AreTheRequestedPlaceThenWorkThenHome) {
  SlurmJob job;
  job.place.id = "7";
  job.place.work_dir = "/var";
  job.place.home = "/tmp";
  job.names.name = "a/b";
  job.names.array_job = "5";
  job.names.array_task = "2";
  const auto places = delivery_candidates(job, "output=x/%A_%a-%x");
  ASSERT_EQ(places.size(), 3U);
  EXPECT_EQ(places[0].path, "/var/x/5_2-a_b");
  EXPECT_EQ(places[1].path, "/var/reveal-7");
  EXPECT_EQ(places[2].path, "/tmp/reveal-7");
  EXPECT_EQ(delivery_candidates(job, "output=%z").size(), 2U);  // an unknown pattern: the standard places
  job.place.work_dir = "relative";
  job.place.home.clear();
  EXPECT_EQ(delivery_candidates(job, "output=x").size(), 0U);
}

TEST(SlurmJobRecord, ComesFromTheEnvironmentAndThenFromTheController) {
  SlurmJob job = slurm_job_of_environment("7", [](const char* name) -> std::string {
    const std::string_view asked = name;
    return asked == "SLURM_JOB_USER" ? "anna" : asked == "SLURM_NODELIST" ? "n[1-3]" : "";
  });
  EXPECT_EQ(job.place.nodes, (std::vector<std::string>{"n1", "n2", "n3"}));
  add_controller_answer(job.names, "name my job\nstate TIMEOUT\nwait_status 2304\nnodes n[1-9]\nnonsense\n");
  EXPECT_EQ(place_of_one_node(job.place, job.names).nodes.size(), 3U);  // the nodes that are watched
  EXPECT_EQ(job.names.name, "my job");
  EXPECT_EQ(job.names.state, "TIMEOUT");
  EXPECT_EQ(job.names.exit_code, 9);
  EXPECT_EQ(job.place.user, "anna");
  add_controller_answer(job.names, "wait_status 9\n");
  EXPECT_EQ(job.names.exit_code, 137);
}

TEST(SlurmJobRecord, HasNeitherStateNorExitStatusOfALaterRun) {
  const std::string waits = "name train\nstate PENDING\nrestarts 1\n";
  const std::string ended = "name train\nstate COMPLETED\nwait_status 0\nnodes n7\nrestarts 1\n";
  JobNames names;
  add_controller_answer(names, waits, 0);
  EXPECT_EQ(names.name, "train");
  EXPECT_EQ(names.state, "REQUEUED");
  add_controller_answer(names, ended, 0);
  EXPECT_EQ(names.state, "");
  EXPECT_EQ(names.exit_code, std::nullopt);
  EXPECT_TRUE(names.nodes.empty());
  add_controller_answer(names, ended, 1);
  EXPECT_EQ(names.state, "COMPLETED");
  EXPECT_EQ(names.exit_code, 0);
  EXPECT_EQ(names.nodes, std::vector<std::string>{"n7"});
}

TEST(SlurmJobRecord, NamesTheComponentOfAHeterogeneousJob) {
  const TemporaryDirectory directory;
  SlurmJob job = slurm_job_of_environment("4712", [](const char*) { return std::string(); });
  add_controller_answer(job.names, "het_job 4711\nhet_offset 1\n");
  std::ofstream(directory.path() / kSlurmJobRecordFile) << render_slurm_job_record(record_of(job));
  ReportJob reported;
  apply(read_slurm_job_record(directory.path()).value(), reported);
  EXPECT_EQ(reported.het, "4711+1");
}

TEST(SlurmJobRecord, HasNoExitStatusWhereSlurmHasNone) {
  SlurmJob job;
  add_controller_answer(job.names, "state OUT_OF_MEMORY\nwait_status 125\n");
  EXPECT_EQ(job.names.state, "OUT_OF_MEMORY");
  EXPECT_EQ(job.names.exit_code, std::nullopt);
}

TEST(SlurmJobRecord, TellsAReportThatMemoryRanOutAlthoughSlurmNamesNoSignal) {
  const TemporaryDirectory directory;
  SlurmJob job;
  job.place.id = "7";
  add_controller_answer(job.names, "state OUT_OF_MEMORY\nwait_status 125\n");  // 0:125
  std::ofstream(directory.path() / kSlurmJobRecordFile) << render_slurm_job_record(record_of(job));
  Report report;
  report.job.nodes = {"n01"};
  apply(read_slurm_job_record(directory.path()).value(), report.job);
  EXPECT_EQ(report.job.exit_code, std::nullopt);
  judge(report, {});
  EXPECT_TRUE(report.verdict.job_failed);
  EXPECT_TRUE(report.verdict.sentence.starts_with("The job was ended because it ran out of memory"))
      << report.verdict.sentence;
  for (const char* wrong : {"1.5", "1e300", "4294967296"}) {
    std::ofstream(directory.path() / kSlurmJobRecordFile) << R"({"id": "7", "exit_code": )" << wrong << "}";
    EXPECT_FALSE(read_slurm_job_record(directory.path()).has_value()) << wrong;
  }
}

TEST(SlurmJob, IsTheSameRunOnlyWhenItsCommandAndItsNameAre) {
  const auto key = [](const char* command, const char* name) {
    SlurmJob job;
    add_controller_answer(job.names, std::string("command ") + command + "\nname " + name + "\n");
    return run_key_of(job.names);
  };
  const std::string train = key("/home/ada/train.sh --lr 3", "train.sh");
  EXPECT_FALSE(train.empty());
  EXPECT_EQ(key("/home/ada/train.sh --lr 3", "train.sh"), train);
  EXPECT_NE(key("/home/ada/train.sh --lr 4", "train.sh"), train);
  EXPECT_NE(key("/home/ada/old/train.sh --lr 3", "train.sh"), train);
  EXPECT_NE(key("/home/ada/train.sh --lr 3", "named"), train);
  EXPECT_EQ(key("python3", "python3"), "") << "nobody knows which script";
  EXPECT_EQ(key("/bin/bash -l", "interactive"), "") << "somebody types into it";
  EXPECT_EQ(run_key_of({}), "");
}

TEST(SlurmJob, IsCalledByItsProgramWhereNobodyNamedIt) {
  const auto name = [](const char* slurms, const char* command) {
    SlurmJob job;
    add_controller_answer(job.names, std::string("command ") + command + "\nname " + slurms + "\n");
    TemporaryDirectory directory;
    std::ofstream(directory.path() / kSlurmJobRecordFile) << render_slurm_job_record(record_of(job));
    return read_slurm_job_record(directory.path()).value().name;
  };
  EXPECT_EQ(name("python3", "/usr/bin/python3 -u /home/ada/train.py --epochs 3"), "train.py");
  EXPECT_EQ(name("resnet", "/usr/bin/python3 /home/ada/train.py"), "resnet");
  EXPECT_EQ(name("bash", "bash -c secret/code"), "bash");
  EXPECT_EQ(name("wrap", ""), "wrap");
}

TEST(SlurmJob, KeepsAHashOfItsCommandAndNotTheCommand) {
  SlurmJob job;
  add_controller_answer(job.names, "command /home/ada/train.sh --password secret\n");
  const std::string text = render_slurm_job_record(record_of(job));
  EXPECT_EQ(text.find("secret"), std::string::npos) << text;
  EXPECT_NE(text.find(run_key_of(job.names)), std::string::npos) << text;
}

TEST(ReportJob, CountsItsMailWithThoseOfEpilogs) {
  SlurmJob job;
  job.place.user = "ada";
  job.place.nodes = {"n01", "n02"};
  job.names.mail_user = "ada@example.org";
  job.names.array_job = "4710";
  ReportJobCommand command{.program = "/usr/bin/reveal",
                           .config = "/etc/reveal/reveal.conf",
                           .request = "mail=yes",
                           .mail_state = "/home/ada/.local/state/reveal/mail/hydra",
                           .downsample_traces = true};
  EXPECT_EQ(shell_text(command, job, "/home/ada/reveal-4711"),
            "'/usr/bin/reveal' report '/home/ada/reveal-4711' --config '/etc/reveal/reveal.conf' --expect 'n[01-02]' "
            "--retain 'summary' && REVEAL_MAIL_TO='yes' REVEAL_MAIL_USER='ada@example.org' '/usr/bin/reveal' mail "
            "'/home/ada/reveal-4711' --config '/etc/reveal/reveal.conf' --user 'ada' --array '4710' --state "
            "'/home/ada/.local/state/reveal/mail/hydra'");
  command = {.program = "reveal"};
  EXPECT_EQ(shell_text(command, {}, "/d"), "'reveal' report '/d' && 'reveal' mail '/d'");
}

/// An sbatch that writes down how it was called, and refuses what a shell pattern matches.
class FakeSbatch {
 public:
  explicit FakeSbatch(const std::string& refused = "none") : path_(process_environment("PATH")) {
    const std::string at = directory_.path().string();
    std::ofstream(directory_.path() / "sbatch") << "#!/bin/sh\necho \"$@\" >>" << at << "/words; cat >" << at
                                                << "/script\ncase \"$*\" in " << refused << ") exit 1 ;; esac\n";
    fs::permissions(directory_.path() / "sbatch", fs::perms::owner_all);
    ::setenv("PATH", (at + ":" + path_).c_str(), 1);
  }
  ~FakeSbatch() { ::setenv("PATH", path_.c_str(), 1); }
  FakeSbatch(const FakeSbatch&) = delete;
  FakeSbatch& operator=(const FakeSbatch&) = delete;
  [[nodiscard]] std::string words() const { return read_text_file(directory_.path() / "words", 10'000); }
  [[nodiscard]] std::string script() const { return read_text_file(directory_.path() / "script", 1000); }
  /// The ends of the lines, which say how large a job it is.
  [[nodiscard]] std::vector<std::string> sizes() const {
    std::vector<std::string> sizes;
    const std::string text = words();
    std::string_view rest = text;
    for (std::string_view line; next_line(rest, line);) {
      const std::size_t begin = line.find(" --export=NONE");
      sizes.push_back((line.starts_with("--reveal=off") ? "off" : "") + std::string(line.substr(begin + 14)));
    }
    return sizes;
  }

 private:
  TemporaryDirectory directory_;
  std::string path_;
};

TEST(ReportJob, IsSubmittedWithoutTheUsersRequestInACommandLine) {
  const FakeSbatch sbatch;
  SlurmJob job;
  job.place.id = "4711";
  EXPECT_EQ(submit_report_job(job, "/d", "REVEAL_MAIL_TO='ada@example.org' reveal mail", std::chrono::seconds(9)), "");
  EXPECT_EQ(sbatch.words(),
            "--reveal=off --parsable --dependency=afterany:4711 --job-name=reveal-report --time=15 --output=/dev/null "
            "--chdir=/d --export=NONE --begin=now+9 --nodes=1 --ntasks=1 --mem=2048M\n");
  EXPECT_EQ(sbatch.script(), "#!/bin/sh\nREVEAL_MAIL_TO='ada@example.org' reveal mail\n");
}

TEST(ReportJob, AsksForTheMemoryOfItsNodes) {
  EXPECT_EQ(megabytes_of_report(1, 1), 2048U) << "as in an epilog";
  EXPECT_EQ(megabytes_of_report(10'000, 1), 2461U) << "twice the memory of the merge";
  EXPECT_EQ(megabytes_of_report(10'000, 40), 3815U) << "all of its tasks may be on one node";
  EXPECT_EQ(megabytes_of_report(65'536, 64), 15'702U);
}

TEST(ReportJob, TakesTheMemoryThatSlurmGivesItWhereItsOwnIsRefused) {
  const FakeSbatch sbatch("*--mem=*");
  EXPECT_EQ(submit_report_job({}, "/d", "reveal report", {}), "");
  EXPECT_EQ(sbatch.sizes(),
            (std::vector<std::string>{"off --nodes=1 --ntasks=1 --mem=2048M", " --nodes=1 --ntasks=1 --mem=2048M",
                                      "off --nodes=1 --ntasks=1"}));
}

TEST(ReportJob, TakesOneCpuWhereMoreAreRefused) {
  const FakeSbatch sbatch("*--ntasks=2*|*--reveal=off*");
  SlurmJob job;
  for (int i = 1; i <= 257; ++i) job.place.nodes.push_back("n" + std::to_string(i));
  EXPECT_EQ(submit_report_job(job, "/d", "reveal report", {}), "");
  EXPECT_EQ(sbatch.sizes(),
            (std::vector<std::string>{"off --ntasks=2 --mem=2048M", " --ntasks=2 --mem=2048M", "off --ntasks=2",
                                      " --ntasks=2", "off --nodes=1 --ntasks=1 --mem=2048M",
                                      " --nodes=1 --ntasks=1 --mem=2048M"}));
}

TEST(ReportJob, ThatIsRefusedAltogetherIsAskedForOnceForEachSize) {
  const FakeSbatch sbatch("*");
  EXPECT_EQ(submit_report_job({}, "/d", "reveal report", {}), "sbatch ended with status 1");
  EXPECT_EQ(sbatch.sizes().size(), 4U);
}

TEST(ReportJob, ReadsTheSummariesOfLargeJobsInSteps) {
  EXPECT_EQ(tasks_of_report(0), 1U);
  EXPECT_EQ(tasks_of_report(256), 1U);
  EXPECT_EQ(tasks_of_report(257), 2U);
  EXPECT_EQ(tasks_of_report(10'000), 40U);
  EXPECT_EQ(tasks_of_report(65'536), 64U);
  SlurmJob job;
  for (int i = 1; i <= 257; ++i) job.place.nodes.push_back("n" + std::to_string(i));
  const std::string text = shell_text({.program = "reveal", .config = "/c"}, job, "/d");
  const std::string steps =
      "[ \"${SLURM_NTASKS:-1}\" -gt 1 ] && srun --mpi=none "
      "--kill-on-bad-exit=0 --time=10 'reveal' merge-part '/d' "
      "--config '/c'; 'reveal' report '/d' ";
  EXPECT_EQ(text.substr(0, steps.size()), steps) << "the report comes even if the steps fail";
  job.place.nodes.pop_back();
  EXPECT_TRUE(shell_text({.program = "reveal"}, job, "/d").starts_with("'reveal' report '/d' "));
}

TEST(ReportJob, QuotesForTheShell) {
  EXPECT_EQ(shell_quoted("it's $HOME"), "'it'\\''s $HOME'");
}

}  // namespace
}  // namespace reveal::tests::deliver_test
