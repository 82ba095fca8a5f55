// The kind of processes that took the job's cpus: one disturbance, one finding, of the rule for that kind.
#include <gtest/gtest.h>

#include <algorithm>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::cpu_os_jitter_test {
namespace {

using R = RuleRecording;

/// A job on two cpus; from 50 s to 65 s processes of this kind take `taken` cpus of it.
R with(const std::string& kind, double taken) {
  R node;
  node.gauge("job.outsider_cpu", "", R::event(0.02, taken));
  node.counter("job.cpu_time", "", R::event(1.9e9, (1.9 - taken) * 1e9));
  node.counter("job.wait_time", "", R::event(0.01e9, taken * 1e9));
  node.gauge("job.cpus_allowed", "", R::always(2));
  for (const char* each : {"services", "jobs", "kernel", "others"}) {
    node.counter("outsider.cpu_time", each, each == kind ? R::event(0.01e9, taken * 1e9) : R::always(0.002e9), "node");
  }
  return node;
}

/// Those of the three rules that report it.
std::vector<std::string> reported(const R& node) {
  std::vector<std::string> ids;
  for (const char* id : {"node.noisy_neighbour", "cpu.os_jitter", "cpu.outsider"}) {
    for (const Finding& finding : node.findings(id)) ids.push_back(finding.id);
  }
  return ids;
}

TEST(RuleJitter, LeavesOneDisturbanceToOneRule) {
  EXPECT_EQ(reported(with("services", 0.8)), std::vector<std::string>{"cpu.os_jitter"});
  EXPECT_EQ(reported(with("kernel", 0.8)), std::vector<std::string>{"cpu.os_jitter"});
  EXPECT_EQ(reported(with("jobs", 0.8)), std::vector<std::string>{"node.noisy_neighbour"});
  EXPECT_EQ(reported(with("others", 0.8)), std::vector<std::string>{"cpu.outsider"});
}

TEST(RuleJitter, CallsNobodyAServiceOfWhomTheCollectorSawLittle) {
  EXPECT_EQ(reported(with("nobody", 0.8)), std::vector<std::string>{"cpu.outsider"});
}

TEST(RuleJitter, NamesTheServiceThatTookMostToAdministratorsOnly) {
  R node = with("services", 0.8);
  const auto at = [&](std::int64_t second) { return node.telemetry.begin_utc_ns + second * 1'000'000'000; };
  node.events = {{at(20), "unit before.service", "outsider_unit", "0.99 cpus"},
                 {at(60), "unit sssd.service", "outsider_unit", "0.06 cpus"},
                 {at(60), "unit updatedb.service", "outsider_unit", "0.74 cpus"},
                 {at(60), "process 4711", "outsider", "0.74 cpus, uid 0: updatedb"}};
  const auto found = node.findings("cpu.os_jitter");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_EQ(found[0].sentence, "System services used 0.8 cpus of n2 for 15 s (usually 0.02).");
  std::vector<std::string> texts = found[0].remedy.user;
  texts.insert(texts.end(), found[0].remedy.advice.begin(), found[0].remedy.advice.end());
  texts.insert(texts.end(), {found[0].sentence, found[0].impact.how, found[0].runner_up.why_not});
  for (const std::string& text : texts) EXPECT_EQ(text.find("updatedb"), std::string::npos) << text;
  for (const Evidence& evidence : found[0].evidence) EXPECT_EQ(evidence.instance.find("updatedb"), std::string::npos);
  ASSERT_FALSE(found[0].remedy.admin.empty());
  EXPECT_TRUE(found[0].remedy.admin.front().starts_with("systemctl status updatedb.service "));
}

/// Services that run for a moment again and again.
std::vector<Finding> in_short_turns(double services, double job, double waited) {
  R node;
  node.gauge("job.outsider_cpu", "", R::always(services));
  node.counter("job.cpu_time", "", R::always(job * 1e9));
  node.counter("job.wait_time", "", R::always(waited * 1e9));
  node.gauge("job.cpus_allowed", "", R::always(2));
  node.counter("outsider.cpu_time", "services", R::always(services * 1e9), "node");
  node.counter("self.cpu_time", "", R::always(0.003e9), "node");
  return node.findings("cpu.os_jitter");
}

TEST(RuleJitter, NotesServicesThatRunInShortTurnsAllTheTime) {
  const auto found = in_short_turns(0.08, 1.88, 0.1);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_TRUE(found[0].impact.at_most);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 0.08 * 120 / 1.88, 0.3);
  EXPECT_EQ(found[0].evidence.back().metric, "self.cpu_time");
}

TEST(RuleJitter, IsSilentOnTheServicesOfAHealthyNode) {
  EXPECT_TRUE(in_short_turns(0.01, 1.95, 0.03).empty()) << "what slurmd and a node exporter use";
  EXPECT_TRUE(in_short_turns(0.08, 1.2, 0.1).empty()) << "on a cpu that the job left idle";
  EXPECT_TRUE(in_short_turns(0.08, 1.88, 0.01).empty()) << "the job did not wait";
  EXPECT_TRUE(reported(with("services", 0.1)).empty());
}

TEST(RuleJitter, IsSilentWhereTheJobPaidNothing) {
  R node = with("services", 0.8);
  for (std::size_t i = 0; i < node.telemetry.channels.size(); ++i) {
    const std::string& metric = node.telemetry.channels[i].metric;
    if (metric == "job.cpu_time") std::ranges::fill(node.telemetry.series(i), 0.1e9);
    if (metric == "job.wait_time") std::ranges::fill(node.telemetry.series(i), 0.001e9);
  }
  EXPECT_TRUE(reported(node).empty());
}

TEST(RuleJitter, SaysWhatWasNotMeasured) {
  EXPECT_THROW(static_cast<void>(R().findings("cpu.os_jitter")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::cpu_os_jitter_test
