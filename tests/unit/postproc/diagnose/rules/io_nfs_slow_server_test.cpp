// io.nfs_slow_server on a server that hangs, for a while and for good, on one that is slow, and on jobs that only look
// as if they waited for one.
#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::io_nfs_slow_server_test {
namespace {

using R = RuleRecording;

/// The probe looks once a second: counters are spread over the steps of that second.
double row(double second) {
  return std::floor(second + 1e-9);
}

struct Client {
  R::Course writes = R::always(50);       // completed per second
  R::Course round_trip = R::always(4e6);  // nanoseconds each
  R::Course execute = R::always(4e6);
  R::Course unanswered = R::always(1);
  R::Course blocked = R::always(0.2);
  R::Course used = R::always(0.8);
  R::Course bytes = R::always(3e6);
};

R record(const Client& client) {
  R node;
  const auto by_row = [](const R::Course& course) -> R::Course {
    return [course](double second) { return course(row(second)); };
  };
  const auto each = [&](const R::Course& took) -> R::Course {
    return [=](double second) { return client.writes(row(second)) * took(row(second)); };
  };
  node.counter("nfs.requests", "/work:WRITE", by_row(client.writes), "node")
      .counter("nfs.round_trip_time", "/work:WRITE", each(client.round_trip), "node")
      .counter("nfs.execute_time", "/work:WRITE", each(client.execute), "node")
      .counter("nfs.sent_bytes", "/work:WRITE", by_row(client.bytes), "node")
      .gauge("nfs.unanswered", "/work", by_row(client.unanswered), "node")
      .gauge("job.blocked", "", client.blocked)
      .gauge("job.processes", "", R::always(2))
      .counter("job.cpu_time", "", [=](double second) { return client.used(second) * 1e9; })
      .counter("disk.io_time", "vda", R::always(0.05e9), "node");
  return node;
}

bool hung(double second) {
  return second >= 50 && second < 72;
}
R::Course while_hung(double usual, double inside) {
  return [=](double second) { return hung(second) ? inside : usual; };
}

/// For 22 s nothing is answered; then waiting requests are sent again and answered.
Client hang() {
  return {.writes = while_hung(50, 0),
          .execute = [](double second) { return second >= 72 && second < 73 ? 0.45e9 : 4e6; },  // 50 of them: 22 s
          .unanswered = while_hung(0, 1),
          .blocked = while_hung(0.2, 1),
          .used = while_hung(0.8, 0.01)};
}

TEST(RuleNfsServer, SeesAServerThatHungAndCameBack) {
  const R node = record(hang());
  const auto found = node.findings("io.nfs_slow_server");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_EQ(found[0].confidence, Confidence::likely);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"/work"});
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 50, 0.6);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).end_utc_ns), 72, 0.6);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 22, 1.5);
  EXPECT_NE(found[0].sentence.find("did not answer n2 for 22"), std::string::npos) << found[0].sentence;
  EXPECT_NE(found[0].remedy.user.at(0).find(" mounted on /work "), std::string::npos);
}

TEST(RuleNfsServer, SeesAServerThatNeverAnswersAgain) {
  const auto from_then_on = [](double usual, double inside) -> R::Course {
    return [=](double second) { return second >= 90 ? inside : usual; };
  };
  Client client{.writes = from_then_on(50, 0),
                .unanswered = from_then_on(3, 5),  // some were sent twice long ago
                .blocked = from_then_on(0.2, 1),
                .used = from_then_on(0.8, 0)};
  const auto found = record(client).findings("io.nfs_slow_server");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("until the end of the recording"), std::string::npos) << found[0].sentence;
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 30, 1);
  client.unanswered = R::always(3);  // no request was sent: the job waits for something else
  EXPECT_TRUE(record(client).findings("io.nfs_slow_server").empty());
}

TEST(RuleNfsServer, IsSilentWhereTheJobOnlyComputes) {
  Client client = hang();
  client.blocked = R::always(0.2);
  client.used = R::always(0.8);
  client.execute = R::always(4e6);
  EXPECT_TRUE(record(client).findings("io.nfs_slow_server").empty());
  // The same, and then a checkpoint of many requests at a time.
  client.execute = [](double second) { return second >= 72 && second < 74 ? 0.45e9 : 4e6; };
  EXPECT_TRUE(record(client).findings("io.nfs_slow_server").empty());
}

TEST(RuleNfsServer, IsSilentWhereProcessesWaitForTheLocalDisk) {
  Client client = hang();
  R node = record(client);
  for (std::size_t t = 500; t < 720; ++t) node.telemetry.series(node.telemetry.channels.size() - 1)[t] = 0.097e9;
  EXPECT_TRUE(node.findings("io.nfs_slow_server").empty());
}

TEST(RuleNfsServer, IsSilentWhereProcessesWaitForSomethingElse) {
  Client client = hang();
  client.execute = R::always(4e6);  // no request had waited
  client.unanswered = R::always(0);
  EXPECT_TRUE(record(client).findings("io.nfs_slow_server").empty());
}

TEST(RuleNfsServer, LeavesSegmentsThatWereLostToTheirRule) {
  const R node = record(hang());
  Finding loss;
  loss.id = "net.tcp_retrans_fault";
  loss.severity = Severity::warning;
  loss.intervals = {{node.telemetry.begin_utc_ns + 49'000'000'000, node.telemetry.begin_utc_ns + 73'000'000'000}};
  EXPECT_TRUE(node.findings("io.nfs_slow_server", std::vector<Finding>{loss}).empty());
}

/// The collector sends a request every few seconds, and reports ten seconds later that it got no answer.
R asked(const R::Course& not_answering, const R::Course& used, double period = 5) {
  R node;
  node.gauge("fs.not_answering", "", not_answering, "node");
  node.telemetry.channels.back().period_seconds = period;
  node.counter("job.cpu_time", "", [=](double second) { return used(second) * 1e9; });
  node.events.push_back({60'000'000'000, "file servers", "not_answering", "/scratch\n/work\n"});
  return node;
}

TEST(RuleNfsServer, SeesAServerOfAnyKindThatDoesNotAnswer) {
  const auto rows = [](double second) { return second >= 60 && second < 80 ? 1.0 : 0.0; };
  const R node = asked(rows, while_hung(0.8, 0.0));
  const auto found = node.findings("io.nfs_slow_server");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 50, 0.6);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).end_utc_ns), 72, 0.6);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 22, 1);
  EXPECT_NE(found[0].sentence.find("servers of /scratch, /work did not answer n2"), std::string::npos)
      << found[0].sentence;
}

TEST(RuleNfsServer, OnlyNotesAServerThatNobodyNeeded) {
  const auto rows = [](double second) { return second >= 60 && second < 80 ? 1.0 : 0.0; };
  const R node = asked(rows, R::always(0.8));
  const auto found = node.findings("io.nfs_slow_server");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 45, 0.1) << "answered last";
  const auto seldom = asked(rows, R::always(0.8), 10).findings("io.nfs_slow_server");  // as in earlier traces
  ASSERT_EQ(seldom.size(), 1U);
  EXPECT_NEAR(node.second_of(seldom[0].intervals.at(0).begin_utc_ns), 40, 0.1);
  EXPECT_FALSE(found[0].impact.seconds.has_value());
  EXPECT_TRUE(asked(R::always(0), while_hung(0.8, 0.0)).findings("io.nfs_slow_server").empty()) << "the job slept";
}

Client slow() {
  return {.writes = R::event(50, 10),
          .round_trip = R::event(4e6, 80e6),
          .execute = R::event(4e6, 80e6),
          .blocked = R::event(0.2, 0.9),
          .used = R::event(0.8, 0.2),
          .bytes = R::event(3e6, 0.6e6)};
}

TEST(RuleNfsServer, SeesAServerThatIsSlowForAWhile) {
  const R node = record(slow());
  const auto found = node.findings("io.nfs_slow_server");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 50, 1.1);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 15 * 0.75, 1.5);
  EXPECT_NE(found[0].sentence.find("a WRITE request took 80 ms (usually 4 ms)"), std::string::npos)
      << found[0].sentence;
}

TEST(RuleNfsServer, IsSilentWhereTheJobAsksForMore) {
  Client client = slow();
  client.writes = R::event(50, 400);
  client.bytes = R::event(3e6, 24e6);
  EXPECT_TRUE(record(client).findings("io.nfs_slow_server").empty());
  client.writes = R::event(50, 50);  // as many, but larger
  EXPECT_TRUE(record(client).findings("io.nfs_slow_server").empty());
}

TEST(RuleNfsServer, IsSilentOnColdReadsOfTheFirstEpoch) {
  const auto first = [](double usual, double inside) -> R::Course {
    return [=](double second) { return second < 20 ? inside : usual; };
  };
  const Client client{.writes = first(50, 10),
                      .round_trip = first(4e6, 80e6),
                      .execute = first(4e6, 80e6),
                      .blocked = first(0.2, 0.9),
                      .used = first(0.8, 0.2),
                      .bytes = first(3e6, 0.6e6)};
  EXPECT_TRUE(record(client).findings("io.nfs_slow_server").empty());
}

TEST(RuleNfsServer, OnlyNotesSlowAnswersThatCostNothing) {
  Client client = slow();
  client.blocked = R::always(0.2);
  client.used = R::always(0.8);
  const auto found = record(client).findings("io.nfs_slow_server");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_FALSE(found[0].impact.seconds.has_value());
}

TEST(RuleNfsServer, IsSilentOnAHealthyMount) {
  EXPECT_TRUE(record({}).findings("io.nfs_slow_server").empty());
}

TEST(RuleNfsServer, SaysWhatItCouldNotMeasure) {
  EXPECT_THROW(static_cast<void>(R().findings("io.nfs_slow_server")), Unavailable);
  R unused;
  unused.counter("nfs.rpc_calls", "", R::always(0), "node");
  EXPECT_TRUE(unused.findings("io.nfs_slow_server").empty());
}

}  // namespace
}  // namespace reveal::tests::io_nfs_slow_server_test
