// net.tcp_loss on a receiver whose segments go missing, and on two that only look so.
#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
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
  const RuleSpec* rule = find_rule("net.tcp_loss");
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
