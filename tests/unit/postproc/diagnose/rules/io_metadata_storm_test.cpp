// io.metadata_storm on a job that looks up names all the time, and on jobs with few of them, or much data.
#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::io_metadata_storm_test {
namespace {

using R = RuleRecording;

struct Names {
  R::Course requests = R::event(20, 3000);  // per second
  R::Course took = R::always(0.4e6);        // nanoseconds each
  R::Course data = R::event(30, 30);
  double processes = 2;
  double seconds = 300;
};

R record(const Names& names) {
  R node(names.seconds);
  for (const char* kind : {"/home:GETATTR", "/home:LOOKUP"}) {
    node.counter(
        "nfs.requests", kind, [=](double second) { return names.requests(second) / 2; }, "node");
    node.counter(
        "nfs.execute_time", kind, [=](double second) { return names.requests(second) / 2 * names.took(second); },
        "node");
  }
  node.counter("nfs.requests", "/home:READ", names.data, "node");
  node.gauge("job.processes", "", R::always(names.processes));
  return node;
}

TEST(RuleMetadataStorm, NamesTheMountTheRateAndTheWaiting) {
  const auto late = [](double second) { return second >= 150 && second < 180 ? 3000.0 : 20.0; };
  const R node = record({.requests = late});
  const auto found = node.findings("io.metadata_storm");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"/home"});
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 150, 0.5);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 30 * 1.2 / 2, 1);
  EXPECT_TRUE(found[0].impact.at_most) << "the requests are the node's";
  EXPECT_EQ(found[0].impact.how, "1.19 such requests were in progress on the node on average; the job had 2 processes");
  EXPECT_NE(found[0].sentence.find("each took 0.4 ms"), std::string::npos) << found[0].sentence;
  EXPECT_TRUE(found[0].remedy.admin.at(0).starts_with("nfsiostat 5 /home"));
  EXPECT_EQ(found[0].remedy.admin.size(), 2U);
}

TEST(RuleMetadataStorm, IsUnsureWhereOthersMayHaveSentTheRequests) {
  const auto late = [](double second) { return second >= 150 && second < 180 ? 3000.0 : 20.0; };
  const auto confidence = [&](double blocked, bool others) {
    R node = record({.requests = late});
    node.gauge("job.blocked", "", R::always(blocked));
    if (others) node.end = {{"node.other_jobs", "seen"}};
    const auto found = node.findings("io.metadata_storm");
    EXPECT_NE(found.at(0).impact.how.find("of the job's 2 processes were blocked"), std::string::npos)
        << found.at(0).impact.how;
    return found.at(0).confidence;
  };
  EXPECT_EQ(confidence(1.1, false), Confidence::likely);
  EXPECT_EQ(confidence(1.1, true), Confidence::possible);
  EXPECT_EQ(confidence(0.05, false), Confidence::possible) << "its processes do not wait";
}

TEST(RuleMetadataStorm, SeesOneThatLastsAllAlong) {
  const auto found = record({.requests = R::always(2000)}).findings("io.metadata_storm");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::critical);
  EXPECT_FALSE(found[0].evidence.at(0).expected.has_value());
}

TEST(RuleMetadataStorm, OnlyRemarksImportsAtTheStart) {
  const auto imports = [](double second) { return second >= 3 && second < 40 ? 3000.0 : 20.0; };
  const auto found = record({.requests = imports}).findings("io.metadata_storm");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::info);
}

TEST(RuleMetadataStorm, IsSilentOnAJobThatMovesDataAsWell) {
  EXPECT_TRUE(record({.data = R::event(30, 2500)}).findings("io.metadata_storm").empty());
}

TEST(RuleMetadataStorm, IsSilentOnASlowServer) {
  // Few requests that take long: the server's doing.
  EXPECT_TRUE(record({.requests = R::always(20), .took = R::event(0.4e6, 90e6)}).findings("io.metadata_storm").empty());
}

TEST(RuleMetadataStorm, IsSilentWhereNobodyWaits) {
  EXPECT_TRUE(record({.took = R::always(0.05e6)}).findings("io.metadata_storm").empty());
}

TEST(RuleMetadataStorm, OnlyNotesCallsOfLustreWhoseTimeIsNotCounted) {
  R node;
  node.counter("lustre.open", "scratch", R::event(10, 800), "node")
      .counter("lustre.getattr", "scratch", R::event(10, 900), "node")
      .counter("lustre.read_bytes_calls", "scratch", R::always(40), "node");
  const auto found = node.findings("io.metadata_storm");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_FALSE(found[0].impact.seconds.has_value());
  EXPECT_EQ(found[0].remedy.admin.size(), 1U);
  EXPECT_TRUE(found[0].remedy.admin.at(0).starts_with("lctl get_param 'llite.scratch-*.stats' "));
}

TEST(RuleMetadataStorm, SaysWhatItCouldNotMeasure) {
  EXPECT_THROW(static_cast<void>(R().findings("io.metadata_storm")), Unavailable);
  R unused;
  unused.counter("nfs.rpc_calls", "", R::always(0), "node");
  EXPECT_TRUE(unused.findings("io.metadata_storm").empty());
}

}  // namespace
}  // namespace reveal::tests::io_metadata_storm_test
