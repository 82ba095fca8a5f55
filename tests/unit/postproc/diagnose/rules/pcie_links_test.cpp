// pcie.link_downtrained and pcie.errors on links with these faults, and on links that save power, are narrow by design
// or count events that are no fault.
#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "postproc/report/wording.h"
#include "rule_recording.h"

namespace reveal::tests::pcie_links_test {
namespace {

using R = RuleRecording;

struct Link {
  const char* kind = "network";
  const char* width = "16";
  const char* speed = "16.0 GT/s PCIe";
  const char* port_width = "16";
  const char* speed_at_end = speed;
};

R node_with(const Link& link) {
  R node;
  node.begin = {{"job.cpus_allowed", "0-7"},
                {"pci.0000:81:00.0.class", link.kind},
                {"pci.0000:81:00.0.device", "0000:81:00.0 infiniband mlx5_0"},
                {"pci.0000:81:00.0.width", link.width},
                {"pci.0000:81:00.0.max_width", "16"},
                {"pci.0000:81:00.0.port_max_width", link.port_width},
                {"pci.0000:81:00.0.max_speed", "16.0 GT/s PCIe"},
                {"pci.0000:81:00.0.port_max_speed", "32.0 GT/s PCIe"},
                {"pci_state.0000:81:00.0.speed", link.speed}};
  node.end = node.begin;
  for (auto& [key, value] : node.end) {
    if (key == "pci_state.0000:81:00.0.speed") value = link.speed_at_end;
  }
  return node;
}

TEST(RulePcieTraining, NamesLanesAndSpeedThatAreMissing) {
  const auto found = node_with({.width = "8", .speed = "8.0 GT/s PCIe", .speed_at_end = "8.0 GT/s PCIe"})
                         .findings("pcie.link_downtrained");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence,
            "The PCI Express link of 0000:81:00.0 infiniband mlx5_0 on n2 runs with 8 of 16 lanes and at 8 of 16 GT/s; "
            "the card and its port both support more.");
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_EQ(found[0].evidence.size(), 2U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"0000:81:00.0"});
  EXPECT_NE(found[0].remedy.admin.at(0).find("lspci -vv -s 0000:81:00.0"), std::string::npos);
  EXPECT_TRUE(only_admins_act(found[0].remedy));
}

TEST(RulePcieTraining, IsSilentOnWhatIsWholeAsleepOrNarrowByDesign) {
  const auto silent = [](const Link& link) { return node_with(link).findings("pcie.link_downtrained").empty(); };
  EXPECT_TRUE(silent({}));
  EXPECT_TRUE(silent({.width = "8", .port_width = "8"})) << "the slot has no more";
  EXPECT_TRUE(silent({.kind = "gpu", .speed = "2.5 GT/s PCIe", .speed_at_end = "2.5 GT/s PCIe"})) << "saves power";
  EXPECT_TRUE(silent({.speed = "2.5 GT/s PCIe", .speed_at_end = "16.0 GT/s PCIe"})) << "was asleep before the job";
  EXPECT_TRUE(silent({.width = "0", .speed = "Unknown", .speed_at_end = "Unknown"})) << "a virtual function";
  EXPECT_TRUE(silent({.width = "8", .port_width = ""})) << "a card without a port above it";
}

TEST(RulePcieTraining, SeesAGraphicsCardThatLostLanes) {
  EXPECT_EQ(node_with({.kind = "gpu", .width = "4"}).findings("pcie.link_downtrained").size(), 1U);
}

R node_that_counted(const std::string& key, const std::string& before, const std::string& after) {
  R node(600);
  node.begin = {{"job.cpus_allowed", "0-7"},
                {"pci.0000:81:00.0.class", "network"},
                {"pci.0000:81:00.0.device", "0000:81:00.0 net eth2"},
                {"pci_state.0000:81:00.0.link_errors", "3"}};
  node.end = node.begin;
  node.begin.emplace_back("pci_state.0000:81:00.0." + key, before);
  node.end.emplace_back("pci_state.0000:81:00.0." + key, after);
  return node;
}

TEST(RulePcieErrors, CountsThoseOfThePortDuringTheJob) {
  const auto found = node_that_counted("port_link_errors", "100", "160").findings("pcie.errors");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence,
            "The PCI Express link of 0000:81:00.0 net eth2 on n2 had 60 errors while the job ran (360 an hour); all "
            "were corrected.");
  EXPECT_EQ(found[0].severity, Severity::notice);
}

TEST(RulePcieErrors, WarnsOfOneThatWasNotCorrected) {
  for (const char* key : {"nonfatal", "fatal"}) {
    const auto found = node_that_counted(key, "4", "5").findings("pcie.errors");
    ASSERT_EQ(found.size(), 1U) << key;
    EXPECT_EQ(found[0].severity, Severity::warning);
    EXPECT_NE(found[0].sentence.find("1 uncorrected PCI Express error while the job ran"), std::string::npos)
        << found[0].sentence;
  }
}

TEST(RulePcieErrors, TellsTheUserToReportACardThatJobsHadBetterAvoid) {
  const auto remedy = [](const char* key, const char* after) {
    R node = node_that_counted(key, "4", after);
    node.begin.emplace_back("env.SLURM_JOB_ID", "4711");
    return node.findings("pcie.errors").at(0).remedy;
  };
  EXPECT_EQ(remedy("fatal", "5").advice, std::vector<std::string>{kShowAdministrators});
  EXPECT_TRUE(only_admins_act(remedy("port_link_errors", "64"))) << "all were corrected";
}

TEST(RulePcieErrors, IsSilentOnOldOrFewErrors) {
  EXPECT_TRUE(node_that_counted("port_link_errors", "9000", "9005").findings("pcie.errors").empty());
  EXPECT_TRUE(node_that_counted("nonfatal", "12", "12").findings("pcie.errors").empty());
  R day = node_that_counted("port_link_errors", "0", "100");
  day.telemetry.step_seconds = 86'400.0 / static_cast<double>(day.telemetry.samples);
  EXPECT_TRUE(day.findings("pcie.errors").empty()) << "four an hour";
}

TEST(RulePcieErrors, TakesWhatTheSecondLookDoesNotNameForUnchanged) {
  R node = node_that_counted("port_link_errors", "9000", "9000");
  node.end = {{"clock_state.offset_ns", "7"}};
  EXPECT_TRUE(node.findings("pcie.errors").empty()) << "counted, and none";
  node.end = {};
  EXPECT_THROW(static_cast<void>(node.findings("pcie.errors")), Unavailable) << "nobody looked again";
}

TEST(RulePcieErrors, OfANodeWithoutAJobAreThoseSinceItsStart) {
  R node = node_that_counted("port_link_errors", "5000", "5000");
  node.begin.erase(node.begin.begin());
  node.end.erase(node.end.begin());
  node.begin.emplace_back("since_start.seconds", "86400");
  const auto found = node.findings("pcie.errors");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("5,000 errors in 1 d"), std::string::npos) << found[0].sentence;
  for (auto& [key, value] : node.begin) {
    if (key == "since_start.seconds") value = "8640000";
  }
  EXPECT_TRUE(node.findings("pcie.errors").empty()) << "two an hour: those of its start";
}

TEST(RulePcie, SaysWhatItCouldNotMeasure) {
  EXPECT_THROW(static_cast<void>(R().findings("pcie.link_downtrained")), Unavailable);
  EXPECT_THROW(static_cast<void>(R().findings("pcie.errors")), Unavailable);
  EXPECT_THROW(static_cast<void>(node_with({}).findings("pcie.errors")), Unavailable) << "no AER";
}

}  // namespace
}  // namespace reveal::tests::pcie_links_test
