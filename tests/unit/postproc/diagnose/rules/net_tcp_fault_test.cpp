// net.tcp_retrans_fault on a receiver whose segments go missing, and on two that only look so.
#include <gtest/gtest.h>

#include "config_of.h"
#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/analysis_settings.h"
#include "postproc/diagnose/rule.h"

namespace reveal {
namespace {

constexpr std::size_t kSamples = 1200;  // two minutes at 100 ms

struct Receiver {
  double queued = 0;      // segments out of order per step, inside of 50 s to 65 s
  double duplicates = 0;  // segments received twice per step, inside
  double slowed = 0;      // part of the segments that do not come, inside
};

Telemetry record(const Receiver& receiver) {
  Telemetry telemetry{.node = "n2", .samples = kSamples};
  const auto add = [&](const char* metric, double usual, double inside) {
    telemetry.channels.push_back({.metric = metric, .family = "network/netstat", .kind = Kind::counter});
    for (std::size_t t = 0; t < kSamples; ++t) {
      const bool event = t >= 500 && t < 650;
      telemetry.values.push_back((event ? inside : usual) * (1 + 0.1 * static_cast<double>((t * 7) % 5)));
    }
  };
  add("tcpext.TCPOFOQueue", 0.01, receiver.queued);
  add("tcpext.TCPDSACKOldSent", 0.01, receiver.duplicates);
  add("tcp.InSegs", 400, 400 * (1 - receiver.slowed));
  add("tcp.RetransSegs", 0.01, 0.01);
  return telemetry;
}

std::vector<Finding> findings_of(const Telemetry& telemetry) {
  const Snapshot nothing;
  const Detection detection;
  const RuleContext::Node node{telemetry, detection, nothing, nothing, {}};
  const RuleSpec* rule = find_rule("net.tcp_retrans_fault");
  return rule->check(RuleContext(*rule, node, {}, {}));
}

TEST(RuleLoss, NamesTheNodeThatMissesSegments) {
  const auto found = findings_of(record({.queued = 20, .duplicates = 0.2, .slowed = 0.2}));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_EQ(found[0].subsystem, Subsystem::network);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 3, 0.2);
  EXPECT_EQ(found[0].evidence.at(0).metric, "tcpext.TCPOFOQueue");
}

TEST(RuleLoss, TakesReorderingForWhatItIs) {
  EXPECT_TRUE(findings_of(record({.queued = 20, .duplicates = 15, .slowed = 0.2})).empty());
}

TEST(RuleLoss, NotesALossFromTheFirstSecondToTheLast) {
  Telemetry telemetry = record({});
  const auto set = [&](std::size_t channel, double level) {
    for (std::size_t t = 0; t < kSamples; ++t) telemetry.series(channel)[t] = level;
  };
  set(0, 8);  // of 400 and more per step
  const auto found = findings_of(telemetry);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_EQ(found[0].confidence, Confidence::possible);
  EXPECT_FALSE(found[0].impact.seconds.has_value());
  EXPECT_FALSE(found[0].evidence.at(0).expected.has_value());
  set(1, 7);  // most came twice
  EXPECT_TRUE(findings_of(telemetry).empty());
  set(1, 0);
  set(0, 2);  // less than a hundredth: connections that share a port do that
  EXPECT_TRUE(findings_of(telemetry).empty());
}

TEST(RuleLoss, IsStillCalledByItsFormerName) {
  EXPECT_EQ(find_rule("net.tcp_loss"), find_rule("net.tcp_retrans_fault"));
  AnalysisSettings settings =
      analysis_settings(config_of("[rule.\"net.tcp_loss\"]\nenabled = false\nmin_rate = 9\nmin_share = 0.2\n"
                                  "[rule.\"net.tcp_retrans_fault\"]\nmin_rate = 7\n"));
  const RuleSetting* setting = settings.find("net.tcp_retrans_fault");
  ASSERT_NE(setting, nullptr);
  EXPECT_FALSE(setting->enabled);
  const RuleSpec& rule = *find_rule("net.tcp_retrans_fault");
  EXPECT_EQ(threshold_of(rule, setting->thresholds, "min_rate"), 7);
  EXPECT_EQ(threshold_of(rule, setting->thresholds, "min_share"), 0.2);
  EXPECT_EQ(settings.find("net.tcp_loss"), nullptr);
}

TEST(RuleLoss, IsSilentOnAHealthyReceiver) {
  EXPECT_TRUE(findings_of(record({.queued = 0.02})).empty());
}

TEST(RuleLoss, OnlyNotesALossThatSlowedNothing) {
  const auto found = findings_of(record({.queued = 20}));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_FALSE(found[0].impact.seconds.has_value());
}

TEST(RuleLoss, SaysWhatItCouldNotMeasure) {
  Telemetry nothing{.node = "n2", .samples = kSamples};
  EXPECT_THROW(findings_of(nothing), Unavailable);
}

}  // namespace
}  // namespace reveal
