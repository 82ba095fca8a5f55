// A job on nodes of several kinds of hardware: each node is compared with those of its own kind.
#include "postproc/peers/hardware_kinds.h"

#include <gtest/gtest.h>

#include "postproc/peers/peers.h"
#include "spmd_job.h"

namespace reveal::tests::hardware_kinds_test {
namespace {

using Kinds = std::vector<std::vector<std::size_t>>;

/// Twelve nodes: `old` of them, the last ones, of another model, 30 % slower in everything.
std::vector<NodeProfile> mixed(std::size_t old, SpmdJob job = {}) {
  job.nodes = 12;
  auto profiles = job.record();
  for (std::size_t n = 0; n < profiles.size(); ++n) {
    const bool is_old = n >= profiles.size() - old;
    profiles[n].facts = {{"cpu.microcode", is_old ? "0xd000404" : "0x2b000603"},
                         {"cpu.model", is_old ? "Xeon 8360Y" : "Xeon 8480+"},
                         {"machine.model", is_old ? "R750" : "R760"},
                         {"net.eth0.mtu", "9000"},
                         {"net.eth0.speed", is_old ? "25000" : "100000"}};
    if (!is_old) continue;
    for (ProfileChannel& channel : profiles[n].channels) {
      channel.mean *= 0.7;
      for (float& block : channel.blocks) block *= 0.7F;
    }
  }
  return profiles;
}

void set_fact(NodeProfile& profile, std::string_view key, const char* value) {
  for (auto& [name, held] : profile.facts) {
    if (name == key) held = value;
  }
}

std::vector<std::string> keys_of(const PeerComparison& comparison) {
  std::vector<std::string> keys;
  for (const FactDifference& fact : comparison.facts) keys.push_back(fact.key);
  return keys;
}

TEST(HardwareKinds, AreOfOneModelEachAndTheLargestIsFirst) {
  const auto profiles = mixed(4);
  EXPECT_EQ(hardware_kinds(pointers(profiles)), (Kinds{{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11}}));
}

TEST(HardwareKinds, WithoutPeersBelongToTheLargest) {
  const auto profiles = mixed(2);
  EXPECT_EQ(hardware_kinds(pointers(profiles)), (Kinds{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}));
}

TEST(HardwareKinds, AreNotTakenForFaultyNodes) {
  const PeerComparison comparison = compare_peers(pointers(mixed(4)));
  ASSERT_EQ(comparison.groups.size(), 2U);
  EXPECT_EQ(comparison.groups[0].nodes.size(), 8U);
  EXPECT_EQ(comparison.groups[1].nodes.size(), 4U);
  EXPECT_TRUE(comparison.deviations.empty()) << comparison.deviations.front().node;
  EXPECT_EQ(keys_of(comparison), (std::vector<std::string>{"cpu.model", "machine.model"}))
      << "other microcode and another link are what another model has";
}

TEST(HardwareKinds, HideNoFaultyNodeOfTheSmallerKind) {
  SpmdJob job;
  job.shift = 0.6;
  job.odd_node = 9;
  auto profiles = mixed(5, job);
  set_fact(profiles[9], "cpu.microcode", "0xd000100");
  const PeerComparison comparison = compare_peers(pointers(profiles));
  ASSERT_FALSE(comparison.deviations.empty());
  for (const PeerDeviation& deviation : comparison.deviations) EXPECT_EQ(deviation.node, "n0010");
  ASSERT_EQ(comparison.facts.size(), 3U);
  EXPECT_EQ(comparison.facts[0].key, "cpu.microcode");
  EXPECT_EQ(comparison.facts[0].nodes, std::vector<std::string>{"n0010"});
  EXPECT_EQ(comparison.facts[0].usual, "0xd000404");
}

TEST(HardwareKinds, AreNotMadeByGpusThatSomeNodesDoNotShow) {
  auto profiles = mixed(0);
  for (std::size_t n = 0; n < 9; ++n) profiles[n].facts.emplace_back("gpu.models", "A100");
  EXPECT_EQ(hardware_kinds(pointers(profiles)).size(), 1U) << "the driver may have failed on three";
  for (std::size_t n = 9; n < 12; ++n) profiles[n].facts.emplace_back("gpu.models", "H100");
  EXPECT_EQ(hardware_kinds(pointers(profiles)).size(), 2U);
}

TEST(HardwareKinds, AreNamedAlsoWhereNoneIsTheUsualOne) {
  auto profiles = mixed(4);
  for (std::size_t n = 0; n < 4; ++n) set_fact(profiles[n], "machine.model", "R770");
  const PeerComparison comparison = compare_peers(pointers(profiles));
  EXPECT_EQ(keys_of(comparison), (std::vector<std::string>{"cpu.model", "machine.model", "machine.model"}));
}

TEST(HardwareKinds, HaveOneMtuInOneNetwork) {
  auto profiles = mixed(4);
  for (std::size_t n = 8; n < 12; ++n) set_fact(profiles[n], "net.eth0.mtu", "1500");
  const PeerComparison comparison = compare_peers(pointers(profiles));
  ASSERT_EQ(comparison.facts.size(), 3U);
  EXPECT_EQ(comparison.facts[0].key, "net.eth0.mtu");
  EXPECT_EQ(comparison.facts[0].nodes.size(), 4U);
}

TEST(HardwareKinds, ShareTheSettingsOfTheKernel) {
  EXPECT_TRUE(follows_the_kind("net.eth0.speed"));
  EXPECT_FALSE(follows_the_kind("net.rmem_max"));
  EXPECT_FALSE(follows_the_kind("net.eth0.mtu"));
  EXPECT_FALSE(follows_the_kind("vm.swappiness"));
  EXPECT_TRUE(follows_the_kind("cpu.microcode"));
}

}  // namespace
}  // namespace reveal::tests::hardware_kinds_test
