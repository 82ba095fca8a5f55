#include "postproc/live/remote_node.h"

#include <gtest/gtest.h>

#include <cmath>

#include "postproc/live/watch_view.h"

namespace reveal::tests::remote_node_test {
namespace {

using Time = RemoteNode::Time;
using namespace std::chrono_literals;

const Time kNow{100h};

NodeReport report() {
  NodeReport report;
  report.view = {.node = "n01",
                 .state = LiveState::live,
                 .seconds = 120,
                 .channels = 700,
                 .collector_percent = 0.4,
                 .heard_utc_ns = 1'763'640'000'000'000'000,
                 .job = "4711",
                 .job_name = "train",
                 .command = "python train.py",
                 .meters = {{"mem.available", {1e9, 2e9}}}};
  report.runs = 12;
  report.watching_percent = 3.5;
  return report;
}

AlertNotice alert() {
  return {.node = "other",
          .number = 1,
          .state = AlertState::open,
          .tier = Tier::strong,
          .begin_utc_ns = 1'763'640'000'000'000'000,
          .end_utc_ns = 1'763'640'005'000'000'000,
          .claim = "mem.buffers fell",
          .reasons = {{"mem.buffers", "bytes", 1.0, 2.0, 0.5}}};
}

TEST(RemoteNode, IsShownAsItsWatchReportsIt) {
  RemoteNode node;
  RemoteNode::News news;
  EXPECT_FALSE(node.heard());
  node.take(report_json(report()), kNow, news);
  EXPECT_TRUE(node.heard());
  EXPECT_EQ(node.report().runs, 12);
  EXPECT_EQ(node.view(kNow), report().view);
  NodeReport later = report();
  later.view.node = "another name";
  later.view.meters = {{"mem.available", {3e9, std::nan("")}}};
  node.take(report_json(later), kNow + 5s, news);
  EXPECT_EQ(node.view(kNow).node, "n01");
  ASSERT_EQ(node.view(kNow).meters.size(), 1U);
  ASSERT_EQ(node.view(kNow).meters[0].values.size(), 4U);
  EXPECT_EQ(node.view(kNow).meters[0].values[2], 3e9);
  EXPECT_TRUE(std::isnan(node.view(kNow).meters[0].values[3]));
  EXPECT_EQ(news.problem, "");
}

TEST(RemoteNode, BringsItsAlertsUnderItsOwnName) {
  RemoteNode node;
  RemoteNode::News news;
  node.take(alert_json(alert()), kNow, news);
  EXPECT_TRUE(news.alerts.empty()) << "a node without a name";
  node.take(report_json(report()), kNow, news);
  node.take(alert_json(alert()), kNow, news);
  AlertNotice expected = alert();
  expected.node = "n01";
  EXPECT_EQ(news.alerts, std::vector<AlertNotice>{expected});
  const EarlierInterval before{"other", 1'763'640'000'000'000'000, 1'763'640'009'000'000'000, 31, 240, "cpu.pressure",
                               "above"};
  node.take(earlier_json({{"before", 1'763'640'900'000'000'000, "text"}, before}), kNow, news);
  ASSERT_EQ(news.earlier.size(), 1U);
  EXPECT_EQ(words_of_earlier(news.earlier[0]),
            "before this watch: n01: cpu.pressure above its usual range 12:00:00 to 12:00:09 (31 of 240 counters "
            "outside); rough check of the collector, not judged by rules");
}

TEST(RemoteNode, IsSilentWhenItsWatchSendsNothing) {
  RemoteNode node;
  RemoteNode::News news;
  node.take(report_json(report()), kNow, news);
  EXPECT_EQ(node.view(kNow + 15s).state, LiveState::live);
  EXPECT_EQ(node.view(kNow + 16s).state, LiveState::silent);
  EXPECT_EQ(node.view(kNow + 16s).silent_seconds, 16);
  NodeReport last = report();
  last.view.state = LiveState::closed;
  node.take(report_json(last), kNow + 20s, news);
  EXPECT_EQ(node.view(kNow + 1h).state, LiveState::closed) << "its job has ended there";
}

TEST(RemoteNode, LeavesOutTextsThatAreNotThoseOfAWatch) {
  RemoteNode node;
  RemoteNode::News news;
  node.take(report_json(report()), kNow, news);
  for (const char* text :
       {"", "{", "[]", "7", "null", R"({"schema":5})", R"({"schema":"reveal.node/1","state":"?"})",
        R"({"schema":"reveal.alert/1","number":"one"})", R"({"schema":"reveal.alert/1","begin":"x"})"}) {
    node.take(text, kNow, news);
  }
  node.take(std::string(20'000, '['), kNow, news);
  EXPECT_TRUE(news.alerts.size() <= 2);
  EXPECT_EQ(news.problem, "sends texts that are not those of a watch: they are left out");
  EXPECT_EQ(node.view(kNow), report().view);
}

TEST(RemoteNode, SendsNoEscapesAndNoNumbersOutOfBounds) {
  RemoteNode node;
  RemoteNode::News news;
  NodeReport hostile = report();
  hostile.view.node = "../n\x1b[31m1";
  hostile.view.job_name = std::string(5000, 'x') + "\x1b]0;title\x07";
  hostile.view.seconds = -1e300;
  hostile.view.channels = SIZE_MAX / 2;
  hostile.view.collector_percent = 1e300;
  hostile.view.pace = {.per_second = 1e300, .estimated = false, .done = -5, .planned = -1};
  hostile.view.meters.assign(200, {"mem.available", std::vector<double>(300, 1)});
  hostile.hang = "\x1b[2J";
  node.take(report_json(hostile), kNow, news);
  const NodeView view = node.view(kNow);
  EXPECT_EQ(view.node, "_.._n1");
  EXPECT_LE(view.job_name.size(), 203U);
  EXPECT_EQ(view.job_name.find('\x1b'), std::string::npos);
  EXPECT_EQ(view.seconds, 0);
  EXPECT_EQ(view.channels, 10'000'000U);
  EXPECT_EQ(view.pace.per_second, 1e9);
  EXPECT_TRUE(std::isnan(view.pace.done));
  EXPECT_EQ(view.pace.planned, 0);
  EXPECT_EQ(view.meters.size(), 40U);
  EXPECT_EQ(view.meters[0].values.size(), 60U);
  EXPECT_EQ(node.report().hang.find('\x1b'), std::string::npos);
  AlertNotice notice = alert();
  notice.claim = "\x1b[2J" + std::string(9000, 'c');
  notice.reasons.assign(500, {"\x1b[31mchannel", "\x9b", 1.0, 2.0, 0.5});
  node.take(alert_json(notice), kNow, news);
  ASSERT_EQ(news.alerts.size(), 1U);
  EXPECT_EQ(news.alerts[0].reasons.size(), 10U);
  EXPECT_EQ(news.alerts[0].reasons[0].channel, "channel");
  EXPECT_LE(news.alerts[0].claim.size(), 1003U);
}

TEST(RemoteNode, SendsABoundedNumberOfTexts) {
  RemoteNode node;
  RemoteNode::News news;
  node.take(report_json(report()), kNow, news);
  for (int i = 0; i < 2000; ++i) node.take(alert_json(alert()), kNow, news);
  EXPECT_EQ(news.alerts.size(), 499U);
  EXPECT_EQ(news.problem, "sends more than a watch does: the rest is left out");
  news = {};
  for (int i = 0; i < 2000; ++i) node.take(alert_json(alert()), kNow + 1s, news);
  EXPECT_EQ(news.alerts.size(), 20U);
  EXPECT_EQ(news.problem, "") << "reported once";
}

}  // namespace
}  // namespace reveal::tests::remote_node_test
