// Who builds the report: a node in its epilog, or a job.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>

#include "delivering_node.h"
#include "postproc/deliver/deliver.h"

namespace reveal::tests::deliver_report_test {
namespace {

namespace fs = std::filesystem;

TEST_F(Deliver, SubmitsAJobForTheReportOfManyNodes) {
  runs_on(100'000);
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
  runs_on(6000);
  const Delivery slow = deliver_node("n01");
  EXPECT_TRUE(slow.submits_job) << "6,000 nodes at the usual pace";
  settings_.paces.merge = 0.5;
  const Delivery fast = deliver_node("n2");
  EXPECT_TRUE(fast.needs_job) << "its estimate fits, but there is a job";
  EXPECT_FALSE(fast.report_built);
  EXPECT_FALSE(fs::exists(fast.directory / "report.json"));
}

TEST_F(Deliver, LetsTheFirstNodeDecideOnTheJob) {
  runs_on(6000);
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
  runs_on(2001);
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

}  // namespace
}  // namespace reveal::tests::deliver_report_test
