// Signals of several rules, each with the metrics that it is made of.
#include "postproc/diagnose/signals.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "rule_recording.h"

namespace reveal::tests::signals_test {
namespace {

std::string metric_of_pressure(const std::vector<std::string>& measured, Pressure kind) {
  RuleRecording node;
  for (const std::string& metric : measured) node.counter(metric, "", RuleRecording::always(1e8));
  const RuleContext::Node recorded{node.telemetry, node.detection, node.begin, node.end, node.events};
  const auto wait = pressure_wait(RuleContext(*find_rule("mem.swap_activity"), recorded, {}, {}), kind);
  return wait ? wait->metric : "";
}

TEST(Pressure, IsTheJobsOwnAndElseTheNodes) {
  for (const auto& [kind, name] : {std::pair{Pressure::io_some, "io_some"}, std::pair{Pressure::io_full, "io_full"},
                                   std::pair{Pressure::memory_some, "memory_some"}}) {
    const std::string own = std::string("cgroup.") + name;
    const std::string of_node = std::string("pressure.") + name;
    EXPECT_EQ(metric_of_pressure({of_node, own}, kind), own);
    EXPECT_EQ(metric_of_pressure({of_node}, kind), of_node);
    EXPECT_EQ(metric_of_pressure({"pressure.cpu_some"}, kind), "");
  }
}

}  // namespace
}  // namespace reveal::tests::signals_test
