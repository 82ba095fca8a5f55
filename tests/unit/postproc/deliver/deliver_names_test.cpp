// The name of a job's directory.
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <optional>

#include "delivering_node.h"
#include "hdf5schema/basics/call_filter.h"
#include "hdf5schema/basics/child_process.h"
#include "postproc/deliver/deliver.h"
#include "postproc/telemetry/publish.h"

namespace reveal::tests::deliver_names_test {
namespace {

namespace fs = std::filesystem;

/// The answer of the controller.
std::optional<JobNames> named_train(const fs::path&, bool) {
  JobNames names;
  names.name = "train";
  names.state = "COMPLETED";
  return names;
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

}  // namespace
}  // namespace reveal::tests::deliver_names_test
