#include "postproc/peers/peers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <tuple>

#include "postproc/diagnose/causal_links.h"
#include "postproc/peers/job_rule.h"
#include "postproc/peers/peer_groups.h"
#include "postproc/peers/profile_fields.h"
#include "rules_tried.h"
#include "spmd_job.h"

namespace reveal::tests::peers_test {
namespace {

using namespace std::chrono_literals;

PeerComparison compared(const std::vector<NodeProfile>& profiles) {
  return compare_peers(pointers(profiles));
}

std::vector<Finding> found_in(const PeerComparison& comparison, TimeSpan job = {}) {
  return tried(kJobRules, run_job_rules({.comparison = comparison, .nodes = {}, .job = job}));
}

ProfileChannel& channel(NodeProfile& profile, const std::string& name) {
  const auto at = std::find_if(profile.channels.begin(), profile.channels.end(),
                               [&](const ProfileChannel& one) { return one.name == name; });
  if (at == profile.channels.end()) throw std::runtime_error("no " + name);
  return *at;
}

void scale(ProfileChannel& channel, double factor) {
  channel.mean *= factor;
  for (float& block : channel.blocks) block = static_cast<float>(block * factor);
}

/// The first `seconds` of its life are gone; the rest keeps its blocks.
void begin_later(NodeProfile& profile, std::size_t blocks) {
  profile.begin_utc_ns += static_cast<std::int64_t>(blocks) * profile.block_ns;
  profile.first_block += static_cast<std::int64_t>(blocks);
  for (ProfileChannel& one : profile.channels) {
    if (!one.blocks.empty())
      one.blocks.erase(one.blocks.begin(), one.blocks.begin() + static_cast<std::ptrdiff_t>(blocks));
  }
}

TEST(Peers, FindNothingInHealthyJobs) {
  int jobs = 0;
  for (const std::size_t nodes : {3U, 4U, 8U, 16U}) {
    for (const double uneven : {1.0, 4.0}) {
      for (unsigned seed = 1; seed <= 8; ++seed, ++jobs) {
        SpmdJob job;
        job.nodes = nodes;
        job.uneven_spread = uneven;
        job.own_time = true;
        job.seed = seed;
        const PeerComparison comparison = compared(job.record());
        EXPECT_TRUE(comparison.compared);
        EXPECT_EQ(comparison.groups.size(), 1U) << nodes << " nodes, seed " << seed;
        EXPECT_TRUE(found_in(comparison).empty()) << nodes << " nodes, seed " << seed;
        EXPECT_EQ(comparison.straggler.node, "");
      }
    }
  }
  EXPECT_GE(jobs, 24);
}

TEST(Peers, NameTheOddNodeOfEight) {
  SpmdJob job;
  job.shift = 0.4;
  job.odd_node = 2;
  const PeerComparison comparison = compared(job.record());
  ASSERT_FALSE(comparison.deviations.empty());
  for (const PeerDeviation& deviation : comparison.deviations) EXPECT_EQ(deviation.node, "n0003");
  EXPECT_GE(comparison.deviations.size(), 5U);
  EXPECT_NEAR(comparison.deviations.front().percent, 40, 12);
  const auto findings = found_in(comparison, {1, 2});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].kind, FindingKind::peer);
  EXPECT_EQ(findings[0].nodes, std::vector<std::string>{"n0003"});
  EXPECT_FALSE(findings[0].evidence.empty());
  EXPECT_LT(findings[0].severity, Severity::warning) << "a difference alone costs nothing that is known";
  EXPECT_EQ(comparison.cells.front().node, "n0003");
}

TEST(Peers, DifferInPairsWithoutANameBeingGiven) {
  SpmdJob job;
  job.nodes = 2;
  job.shift = 0.6;
  const PeerComparison comparison = compared(job.record());
  EXPECT_FALSE(comparison.compared);
  ASSERT_EQ(comparison.groups.size(), 1U);
  EXPECT_NE(comparison.groups[0].reason.find("too few to know which of them differs over the whole job"),
            std::string::npos);
  EXPECT_NE(comparison.groups[0].reason.find("they differ in 6 channels"), std::string::npos)
      << comparison.groups[0].reason;
  EXPECT_TRUE(comparison.deviations.empty());
  EXPECT_TRUE(found_in(comparison).empty());
  EXPECT_EQ(comparison.sentence.find("n000"), std::string::npos) << comparison.sentence;
  EXPECT_TRUE(comparison.sentence.starts_with("2 nodes: too few to know which of them differs over the whole job"))
      << comparison.sentence;
}

TEST(Peers, AreCheckedForTheirSettingsWithoutMeasurements) {
  std::vector<NodeProfile> nodes(3);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].node = "n" + std::to_string(i + 1);
    nodes[i].facts = {{"net.eth0.mtu", "1500"}};
  }
  const NodeCheck alike = check_settings(pointers(nodes), {});
  EXPECT_EQ(status_of(alike), NodeStatus::ok);
  EXPECT_EQ(alike.asked, (std::vector<std::string>{"ib.link_degraded", "mem.hugepages_inconsistent", "net.mtu_mismatch",
                                                   "node.config_drift"}));
  nodes[1].facts.front().second = "1400";
  const NodeCheck odd = check_settings(pointers(nodes), {});
  EXPECT_EQ(status_of(odd), NodeStatus::warning);
  ASSERT_EQ(odd.findings.size(), 1U);
  EXPECT_EQ(odd.findings[0].id, "net.mtu_mismatch");
  EXPECT_EQ(odd.findings[0].sentence, "eth0 of n2 has MTU 1400, and the other nodes have 1500.");
  EXPECT_EQ(odd.findings[0].nodes, std::vector<std::string>{"n2"});
  nodes.pop_back();
  EXPECT_EQ(status_of(check_settings(pointers(nodes), {})), NodeStatus::ok) << "of two, either may be the odd one";
}

TEST(Peers, AreNoneForOneNode) {
  SpmdJob job;
  job.nodes = 1;
  const PeerComparison comparison = compared(job.record());
  EXPECT_FALSE(comparison.compared);
  EXPECT_EQ(comparison.reason, "a single node has no peers");
  EXPECT_FALSE(compare_peers({}).compared);
}

TEST(Peers, LeaveADriverAlone) {
  SpmdJob job;
  job.nodes = 9;
  auto profiles = job.record();
  for (std::size_t c = 0; c < profiles[0].channels.size(); ++c) scale(profiles[0].channels[c], c % 2 == 0 ? 0.1 : 4);
  const PeerComparison comparison = compared(profiles);
  ASSERT_EQ(comparison.groups.size(), 2U);
  EXPECT_EQ(comparison.groups[0].nodes.size(), 8U);
  EXPECT_EQ(comparison.groups[1].nodes, std::vector<std::string>{"n0001"});
  EXPECT_FALSE(comparison.groups[1].compared);
  EXPECT_NE(comparison.groups[1].reason.find("no peers"), std::string::npos);
  EXPECT_TRUE(comparison.deviations.empty());
  EXPECT_TRUE(found_in(comparison).empty());
}

TEST(Peers, FindRolesWhateverTheOrderOfNodes) {
  SpmdJob job;
  job.nodes = 12;
  auto profiles = job.record();
  for (std::size_t n = 0; n < 12; n += 3) {  // four servers among eight workers
    for (std::size_t c = 0; c < profiles[n].channels.size(); ++c) scale(profiles[n].channels[c], c % 3 == 0 ? 5 : 0.3);
  }
  const auto roles = find_peer_groups(tabulate(pointers(profiles)), {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  ASSERT_EQ(roles.size(), 2U);
  EXPECT_EQ(roles[0].size(), 8U);
  EXPECT_EQ(roles[1], (std::vector<std::size_t>{0, 3, 6, 9}));
}

TEST(Peers, ForgiveTheOneRankThatWritesCheckpoints) {
  SpmdJob job;
  auto profiles = job.record();
  for (NodeProfile& profile : profiles) {
    for (const char* name : {"disk.write_bytes", "vmstat.nr_dirtied", "vmstat.pgpgout"}) {
      const bool writer = profile.node == "n0001";
      ProfileChannel written{.name = name, .unit = "bytes/s", .subsystem = Subsystem::storage, .kind = Kind::counter};
      written.mean = writer ? 200e6 : 40e3;
      written.blocks.assign(job.blocks, static_cast<float>(written.mean));
      profile.channels.push_back(written);
    }
    std::sort(profile.channels.begin(), profile.channels.end(),
              [](const ProfileChannel& a, const ProfileChannel& b) { return a.name < b.name; });
  }
  const PeerComparison comparison = compared(profiles);
  EXPECT_EQ(comparison.groups.size(), 1U) << "one task more is no other role";
  EXPECT_EQ(comparison.deviations.size(), 3U) << "it is in the data";
  EXPECT_TRUE(found_in(comparison).empty()) << "and no finding";
}

TEST(Peers, KeepWhatTellsOfTheNodeWhateverItsSubsystem) {
  SpmdJob job;
  auto profiles = job.record();
  for (NodeProfile& profile : profiles) {
    for (const char* name : {"hugepages.total/1048576kB", "vmstat.compact_stall"}) {
      ProfileChannel one{.name = name, .unit = "count", .subsystem = Subsystem::memory, .kind = Kind::gauge};
      one.mean = profile.node == "n0001" ? 200 : 10;
      one.blocks.assign(job.blocks, static_cast<float>(one.mean));
      profile.channels.push_back(one);
    }
    std::sort(profile.channels.begin(), profile.channels.end(),
              [](const ProfileChannel& a, const ProfileChannel& b) { return a.name < b.name; });
  }
  const auto findings = found_in(compared(profiles));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].id, "node.differs");
  EXPECT_EQ(findings[0].nodes, std::vector<std::string>{"n0001"});
}

TEST(Peers, CompareOnlyTheTimeAllOfThemLived) {
  SpmdJob job;
  job.blocks = 16;
  auto profiles = job.record();
  begin_later(profiles[5], 6);
  // The work of the others before it came must not count against it.
  for (NodeProfile& profile : profiles) {
    if (profile.node == "n0006") continue;
    for (ProfileChannel& one : profile.channels) {
      for (std::size_t b = 0; b < 6; ++b) one.blocks[b] *= 10;
    }
  }
  const PeerComparison comparison = compared(profiles);
  ASSERT_TRUE(comparison.compared);
  EXPECT_EQ(comparison.groups[0].seconds, 10 * 64);
  EXPECT_TRUE(comparison.deviations.empty());
}

TEST(Peers, FoldTheFinerBlocksOfAShorterLife) {
  SpmdJob job;
  job.blocks = 16;
  auto profiles = job.record();
  NodeProfile& late = profiles[5];
  begin_later(late, 8);
  late.block_ns /= 2;
  late.first_block *= 2;
  for (ProfileChannel& one : late.channels) {
    std::vector<float> fine;
    for (const float block : one.blocks) fine.insert(fine.end(), {block * 0.5F, block * 1.5F});
    one.blocks = fine;
  }
  const PeerComparison comparison = compared(profiles);
  ASSERT_TRUE(comparison.compared);
  EXPECT_TRUE(comparison.deviations.empty());
  scale(channel(late, SpmdJob::channel_name(7)), 2);
  const PeerComparison odd = compared(profiles);
  ASSERT_EQ(odd.deviations.size(), 1U);
  EXPECT_EQ(odd.deviations[0].node, "n0006");
}

TEST(Peers, LeaveOutANodeThatHardlyLived) {
  SpmdJob job;
  job.blocks = 16;
  auto profiles = job.record();
  begin_later(profiles[0], 13);
  const PeerComparison comparison = compared(profiles);
  ASSERT_TRUE(comparison.compared);
  EXPECT_NE(comparison.groups[0].reason.find("n0001 was recorded for only 3 min 12 s"), std::string::npos)
      << comparison.groups[0].reason;
  EXPECT_EQ(comparison.groups[0].seconds, 16 * 64);
}

TEST(Peers, SayWhenTheyShareTooLittleTime) {
  SpmdJob job;
  job.blocks = 3;
  const PeerComparison comparison = compared(job.record());
  EXPECT_FALSE(comparison.compared);
  EXPECT_NE(comparison.reason.find("in common"), std::string::npos) << comparison.reason;
}

TEST(Peers, DoNotTakeMissingForZero) {
  SpmdJob job;
  auto profiles = job.record();
  auto& channels = profiles[1].channels;
  channels.erase(channels.begin() + 4);  // no probe for it on this node
  EXPECT_TRUE(compared(profiles).deviations.empty());
  const std::string zero = profiles[2].channels[10].name;
  profiles[2].channels.erase(profiles[2].channels.begin() + 10);
  profiles[2].zeros.push_back(zero);  // measured, and nothing
  const PeerComparison comparison = compared(profiles);
  ASSERT_EQ(comparison.deviations.size(), 1U);
  EXPECT_EQ(comparison.deviations[0].node, "n0003");
  EXPECT_EQ(comparison.deviations[0].observed, 0);
}

TEST(Peers, SurviveNaNAndChannelsOfOneNodeOnly) {
  SpmdJob job;
  auto profiles = job.record();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t b = 2; b < job.blocks; ++b) channel(profiles[0], SpmdJob::channel_name(1)).blocks[b] = nan;
  for (NodeProfile& profile : profiles) {
    for (float& block : channel(profile, SpmdJob::channel_name(2)).blocks) block = nan;
  }
  profiles[3].channels.push_back({.name = "zz.only_here", .unit = "count/s", .mean = 5000});
  const PeerComparison comparison = compared(profiles);
  EXPECT_TRUE(comparison.compared);
  EXPECT_TRUE(comparison.deviations.empty());
  EXPECT_EQ(comparison.groups[0].channels, 119U);
}

TEST(Peers, SeeASettingThatDiffers) {
  SpmdJob job;
  auto profiles = job.record();
  for (NodeProfile& profile : profiles) {
    profile.channels.push_back(
        {.name = "zz.hugepages", .unit = "count", .subsystem = Subsystem::memory, .carried_over = true, .mean = 512});
    profile.facts = {{"cpu.governor", profile.node == "n0004" ? "powersave" : "performance"},
                     {"host.id", profile.node}};
  }
  profiles[3].channels.back().mean = 4096;
  const PeerComparison comparison = compared(profiles);
  ASSERT_EQ(comparison.deviations.size(), 1U);
  EXPECT_EQ(comparison.deviations[0].channel, "zz.hugepages");
  ASSERT_EQ(comparison.facts.size(), 1U) << "what differs everywhere is a name";
  EXPECT_EQ(comparison.facts[0].nodes, std::vector<std::string>{"n0004"});
  EXPECT_EQ(comparison.facts[0].usual, "performance");
}

TEST(ConfigurationFindings, BelongToTheRuleThatKnowsWhatTheSettingDoes) {
  SpmdJob job;
  auto profiles = job.record();
  for (NodeProfile& profile : profiles) {
    const bool odd = profile.node == "n0003";
    profile.facts = {{"kernel.release", odd ? "6.1.0-20" : "6.1.0-28"},
                     {"net.ib0.mtu", "2044"},
                     {"vm.hugepages-1048576kB", odd ? "1" : "0"}};
  }
  profiles[0].facts[1].second = "1500";
  const auto findings = found_in(compared(profiles), {1, 2});
  ASSERT_EQ(findings.size(), 3U);
  EXPECT_EQ(findings[0].id, "mem.hugepages_inconsistent");
  EXPECT_EQ(findings[0].nodes, std::vector<std::string>{"n0003"});
  EXPECT_EQ(findings[0].severity, Severity::notice);
  EXPECT_NE(findings[0].sentence.find("n0003 reserves 1 huge page of 1 GiB (1 GiB), and the other nodes reserve none"),
            std::string::npos)
      << findings[0].sentence;
  EXPECT_EQ(findings[1].id, "net.mtu_mismatch");
  EXPECT_EQ(findings[1].nodes, std::vector<std::string>{profiles[0].node});
  EXPECT_EQ(findings[1].sentence, "ib0 of " + profiles[0].node + " has MTU 1500, and the other nodes have 2044.");
  EXPECT_EQ(findings[1].evidence.at(0).observed, 1500);
  EXPECT_EQ(findings[1].evidence.at(0).expected, 2044);
  EXPECT_EQ(findings[2].id, "node.config_drift");
  EXPECT_EQ(findings[2].severity, Severity::info) << "a kernel of another build is worth a line, not a warning";
  for (NodeProfile& profile : profiles) profile.facts = profiles[1].facts;
  EXPECT_TRUE(found_in(compared(profiles), {1, 2}).empty());
}

/// Eight nodes, of which n0002 is waited for.
std::vector<NodeProfile> with_a_slow_node() {
  SpmdJob job;
  job.own_time = true;
  job.shift = 0.35;
  job.odd_node = 1;
  job.shifted = 0;
  return job.record();
}

void differ(std::vector<NodeProfile>& profiles, const std::string& node, const std::string& key,
            const std::string& value, const std::string& usual) {
  for (NodeProfile& profile : profiles) profile.facts.emplace_back(key, profile.node == node ? value : usual);
}

const Finding& drift_in(const std::vector<Finding>& findings) {
  const auto drift = std::find_if(findings.begin(), findings.end(),
                                  [](const Finding& finding) { return finding.id == "node.config_drift"; });
  if (drift == findings.end()) throw std::runtime_error("no drift");
  return *drift;
}

TEST(ConfigurationFindings, CostTheTimeThatTheOthersWaitForSuchANode) {
  auto profiles = with_a_slow_node();
  differ(profiles, "n0002", "kernel.mitigations", "auto", "off");
  differ(profiles, "n0002", "cpu.vulnerability.meltdown", "Mitigation: PTI", "Vulnerable");
  differ(profiles, "n0002", "net.rmem_max", "1", "2");
  const TimeSpan job{profiles[0].begin_utc_ns, profiles[0].end_utc_ns};
  auto findings = found_in(compared(profiles), job);
  const Finding drift = drift_in(findings);
  EXPECT_EQ(drift.severity, Severity::warning);
  EXPECT_EQ(drift.confidence, Confidence::possible);
  EXPECT_EQ(drift.nodes, std::vector<std::string>{"n0002"});
  EXPECT_NEAR(drift.impact.percent.value_or(0), 26, 5);
  EXPECT_NE(drift.sentence.find("n0002 has kernel.mitigations = auto, and the other nodes have off."),
            std::string::npos)
      << drift.sentence;
  const PeerComparison comparison = compared(profiles);
  std::vector<std::string> names;
  for (const NodeProfile& profile : profiles) names.push_back(profile.node);
  const auto named =
      tried(kJobRules, run_job_rules({.comparison = comparison, .nodes = {}, .job = job, .names = {.nodes = names}}));
  ASSERT_FALSE(drift_in(named).remedy.admin.empty());
  EXPECT_TRUE(drift_in(named).remedy.admin[0].starts_with("grep . /sys/devices/system/cpu/vulnerabilities/*"));
  find_causes(findings);
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.caused_by, finding.id == "node.straggler" ? "node.config_drift" : "") << finding.id;
  }
}

TEST(ConfigurationFindings, TakeMemoryForEqualThatDiffersByLessThanAModule) {
  constexpr std::int64_t kMemory = 137'438'953'472;
  auto profiles = SpmdJob().record();
  for (std::size_t n = 0; n < profiles.size(); ++n) {  // no two nodes have the same number
    profiles[n].facts = {{"memory.total", std::to_string(kMemory - 8192 * static_cast<std::int64_t>(n))}};
  }
  PeerComparison comparison = compared(profiles);
  EXPECT_TRUE(comparison.facts.empty());
  EXPECT_EQ(comparison.sentence.find("other settings"), std::string::npos) << comparison.sentence;
  profiles[2].facts[0].second = std::to_string(kMemory - 4'294'967'296);
  comparison = compared(profiles);
  ASSERT_EQ(comparison.facts.size(), 1U);
  EXPECT_EQ(comparison.facts[0].nodes, std::vector<std::string>{"n0003"});
  EXPECT_EQ(drift_in(found_in(comparison, {1, 2})).sentence,
            "n0003 has memory.total = 133143986176, and the other nodes have 137438896128.");
  profiles[2].facts[0].second = "unknown";
  EXPECT_EQ(compared(profiles).facts.size(), 1U);
}

TEST(ConfigurationFindings, CostNothingWhereTheOthersDoNotWaitForIt) {
  auto elsewhere = with_a_slow_node();
  differ(elsewhere, "n0005", "cpu.power_limit.0", "150000000", "250000000");
  const TimeSpan job{elsewhere[0].begin_utc_ns, elsewhere[0].end_utc_ns};
  auto findings = found_in(compared(elsewhere), job);
  EXPECT_EQ(drift_in(findings).severity, Severity::notice) << "slows any node down, and nobody waits for this one";
  EXPECT_FALSE(drift_in(findings).impact.seconds.has_value());
  find_causes(findings);
  for (const Finding& finding : findings) EXPECT_EQ(finding.caused_by, "") << finding.id;

  auto buffer = with_a_slow_node();
  differ(buffer, "n0002", "net.rmem_max", "1", "2");
  EXPECT_EQ(drift_in(found_in(compared(buffer), job)).severity, Severity::info) << "makes no node compute longer";

  auto known = with_a_slow_node();
  differ(known, "n0002", "cpu.governor", "powersave", "performance");
  Finding outsider;
  outsider.id = "cpu.outsider";
  outsider.nodes = {"n0002"};
  outsider.intervals = {job};
  const std::vector<Finding> found{outsider};
  const PeerComparison comparison = compared(known);
  const auto explained =
      tried(kJobRules, run_job_rules({.comparison = comparison, .nodes = {}, .job = job, .found = found}));
  EXPECT_EQ(drift_in(explained).severity, Severity::notice) << "another process is reason enough";
  EXPECT_EQ(drift_in(found_in(comparison, job)).severity, Severity::warning);
}

TEST(ConfigurationFindings, DoNotTellTheFirmwareOfAnotherMachine) {
  SpmdJob job;
  auto profiles = job.record();
  differ(profiles, "n0003", "machine.model", "R750", "R760");
  differ(profiles, "n0003", "firmware.version", "1.9", "2.7");
  differ(profiles, "n0003", "cpu.microcode", "0xd000404", "0x2b000603");
  differ(profiles, "n0003", "cpu.vulnerability.mmio_stale_data", "Vulnerable", "Not affected");
  const Finding other = drift_in(found_in(compared(profiles), {1, 2}));
  EXPECT_EQ(other.severity, Severity::info);
  EXPECT_EQ(other.evidence.size(), 1U);
  EXPECT_NE(other.sentence.find("machine.model = R750"), std::string::npos) << other.sentence;
  for (NodeProfile& profile : profiles)
    std::erase_if(profile.facts, [](const auto& fact) { return fact.second.str()[0] == 'R'; });
  const Finding same = drift_in(found_in(compared(profiles), {1, 2}));
  EXPECT_EQ(same.severity, Severity::notice) << "of the same model, a flaw that others have closed is worth a notice";
  EXPECT_EQ(same.evidence.size(), 3U);
  EXPECT_EQ(same.evidence.front().metric, "cpu.vulnerability.mmio_stale_data");
}

TEST(ConfigurationFindings, TellTheMicrocodeOfOneNodeAmongThoseOfItsModel) {
  SpmdJob job;
  auto profiles = job.record();
  for (NodeProfile& profile : profiles) {
    const bool old = profile.node.compare("n0005") >= 0;
    profile.facts = {{"cpu.microcode", profile.node == "n0006" ? "0x1" : (old ? "0x2" : "0x3")},
                     {"cpu.model", old ? "Xeon 8360Y" : "Xeon 8480+"}};
  }
  const Finding drift = drift_in(found_in(compared(profiles), {1, 2}));
  EXPECT_NE(drift.sentence.find("n0006 has cpu.microcode = 0x1, and the other nodes have 0x2"), std::string::npos)
      << drift.sentence;
}

TEST(ConfigurationFindings, TellHugePagesOfEachSizeAndOfEachNumaNode) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"vm.hugepages-2048kB", "n0003 reserves 16 huge pages of 2 MiB (32 MiB), and the other nodes reserve 8"},
      {"vm.hugepages-1048576kB", "n0003 reserves 16 huge pages of 1 GiB (16 GiB), and the other nodes reserve 8"},
      {"numa.node0.hugepages-2048kB", "n0003 has numa.node0.hugepages-2048kB = 16, and the other nodes have 8"},
      {"numa.node1.hugepages-1048576kB", "n0003 has numa.node1.hugepages-1048576kB = 16, and the other nodes have 8"}};
  for (const auto& [key, sentence] : cases) {
    SpmdJob job;
    auto profiles = job.record();
    for (NodeProfile& profile : profiles) profile.facts = {{key, profile.node == "n0003" ? "16" : "8"}};
    const auto findings = found_in(compared(profiles), {1, 2});
    ASSERT_EQ(findings.size(), 1U) << key;
    EXPECT_EQ(findings[0].id, "mem.hugepages_inconsistent") << key;
    EXPECT_NE(findings[0].sentence.find(sentence), std::string::npos) << findings[0].sentence;
  }
  SpmdJob job;
  auto profiles = job.record();
  for (NodeProfile& profile : profiles) {
    profile.facts = {{"numa.node0.hugepages-2048kB", profile.node == "n0003" ? "500" : "512"}};
  }
  EXPECT_TRUE(found_in(compared(profiles), {1, 2}).empty()) << "less memory was free there when they were set aside";
  for (NodeProfile& profile : profiles) {
    const char* pages = profile.node == "n0003" ? "2" : "0";
    profile.facts = {{"numa.node0.hugepages-1048576kB", pages},
                     {"numa.node1.hugepages-2048kB", profile.node == "n0004" ? "64" : "0"},
                     {"vm.hugepages-1048576kB", pages}};
  }
  const auto both = found_in(compared(profiles), {1, 2});
  ASSERT_EQ(both.size(), 1U);
  EXPECT_EQ(
      both[0].sentence,
      "n0004 has numa.node1.hugepages-2048kB = 64, and the other nodes have 0; n0003 reserves 2 huge pages of 1 GiB "
      "(2 GiB), and the other nodes reserve none.")
      << "those of a NUMA node are part of them";
}

TEST(ConfigurationFindings, ReserveLargePagesAtBootAndOthersOnARunningNode) {
  const auto line = [](const std::string& key, const char* odd, const char* usual) {
    auto profiles = SpmdJob{}.record();
    for (NodeProfile& profile : profiles) profile.facts = {{key, profile.node == "n0003" ? odd : usual}};
    const auto findings = found_in(compared(profiles), {1, 2});
    return findings.empty() ? "" : findings[0].remedy.admin.at(1);  // behind the look
  };
  EXPECT_EQ(
      line("vm.hugepages-1048576kB", "0", "16"),
      "On n0003, boot with hugepagesz=1G hugepages=16, as on the others: a running node rarely has free memory in "
      "pieces of 1 GiB.");
  EXPECT_EQ(line("vm.hugepages-1048576kB", "16", "0"),
            "echo 0 > /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages   # changes n0003 until its next boot, "
            "to the value of the others");
  EXPECT_EQ(line("vm.hugepages-2048kB", "0", "512"),
            "echo 512 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages   # changes n0003 until its next boot, "
            "to the value of the others");
}

TEST(Peers, IgnoreMemoryThatEarlierJobsLeft) {
  SpmdJob job;
  auto profiles = job.record();
  for (std::size_t n = 0; n < profiles.size(); ++n) {
    ProfileChannel free{.name = "zz.mem.free", .unit = "bytes", .subsystem = Subsystem::memory, .carried_over = true};
    free.mean = n == 2 ? 4e9 : 200e9;
    free.blocks.assign(job.blocks, static_cast<float>(free.mean));
    free.blocks[0] *= 1.01F;
    profiles[n].channels.push_back(free);
  }
  EXPECT_TRUE(compared(profiles).deviations.empty());
}

TEST(Peers, NameTheNodeThatWaitsLeast) {
  SpmdJob job;
  job.nodes = 8;
  job.own_time = true;
  job.shift = 0.35;
  job.odd_node = 1;
  job.shifted = 0;
  auto profiles = job.record();
  const PeerComparison comparison = compared(profiles);
  EXPECT_EQ(comparison.straggler.node, "n0002") << comparison.straggler.reason;
  EXPECT_NEAR(comparison.straggler.percent, 26, 5) << "of its time, in which the others slept";
  const auto findings = found_in(comparison);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].id, "node.straggler");
  EXPECT_EQ(findings[0].severity, Severity::notice) << "its ranks may have more work";
  EXPECT_TRUE(findings[0].sentence.starts_with("n0002 computes longest: ")) << findings[0].sentence;
  for (NodeProfile& profile : profiles) {
    const double clock = profile.node == "n0002" ? 1.9e9 : 2.9e9;
    profile.channels.insert(profile.channels.begin(), {.name = "cpu.frequency", .unit = "Hz", .mean = clock});
  }
  const auto slow = found_in(compared(profiles));
  ASSERT_EQ(slow.size(), 1U);
  EXPECT_EQ(slow[0].severity, Severity::warning) << "with a slower clock it is the machine";
}

TEST(Peers, SayWhyNobodyStraggles) {
  SpmdJob job;
  EXPECT_NE(compared(job.record()).straggler.reason.find("not measured"), std::string::npos);
  job.own_time = true;
  EXPECT_NE(compared(job.record()).straggler.reason.find("poll"), std::string::npos);
}

TEST(Peers, TakeLinearTime) {
  SpmdJob job;
  const auto seconds_for = [&](std::size_t nodes) {
    job.nodes = nodes;
    const auto profiles = job.record();
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_TRUE(compared(profiles).compared);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const double few = seconds_for(250);
  const double many = seconds_for(2000);
  EXPECT_LT(many, 10);
  EXPECT_LT(many, 8 * 4 * few + 0.5) << "eight times the nodes; sorting and a busy machine are allowed for";
}

/// A profile with one line: 160 points of 1 s, 10 everywhere and `level` in [80, 90) s.
NodeProfile with_line(const std::string& node, double level) {
  NodeProfile profile;
  profile.node = node;
  profile.begin_utc_ns = 1'000'000'000'000;
  profile.end_utc_ns = profile.begin_utc_ns + 160'000'000'000;
  profile.block_ns = 16'000'000'000;
  profile.sparkline_step_ns = 1'000'000'000;
  ProfileChannel one{.name = "net.rx_bytes", .unit = "bytes/s", .subsystem = Subsystem::network, .mean = 10};
  one.trend = ProfileTrend{.high = 63};
  for (int t = 0; t < 160; ++t) {
    const double value = t >= 80 && t < 90 ? level : 10;
    one.trend->line += static_cast<char>('0' + static_cast<int>(value));
  }
  profile.channels = {one};
  return profile;
}

TEST(Peers, TellAPhaseOfTheJobFromAnEventOfOneNode) {
  const std::vector<NodeProfile> all{with_line("a", 50), with_line("b", 45), with_line("c", 52), with_line("d", 10)};
  const TimeSpan span{all[0].begin_utc_ns + 80'000'000'000, all[0].begin_utc_ns + 90'000'000'000};
  const std::vector<std::string> channels{"net.rx_bytes/eth0"};
  const std::vector<const NodeProfile*> alike{&all[0], &all[1], &all[2]};
  EXPECT_EQ(share_of_peers_alike(all[0], alike, span, channels), 1.0);
  EXPECT_EQ(share_of_peers_alike(all[0], pointers(all), span, channels), 2.0 / 3);
  EXPECT_EQ(share_of_peers_alike(all[0], {&all[0], &all[3]}, span, channels), std::nullopt)
      << "one peer is no majority";
  EXPECT_EQ(share_of_peers_alike(all[0], {&all[0], &all[3], &all[3]}, span, channels), 0.0);
  EXPECT_EQ(share_of_peers_alike(all[3], alike, span, channels), std::nullopt) << "its own course shows nothing";
  EXPECT_EQ(share_of_peers_alike(all[0], alike, span, {"tcp.retransmits"}), std::nullopt)
      << "not compared is not alike";
}

std::string text_of(const NodeProfile& profile) {
  return json_text(JsonWriter::whole(profile));
}

NodeProfile read_profile(const std::string& text) {
  const Json json = parse_json(text, "profile");
  JsonReader reader(json, "profile");
  NodeProfile profile;
  fields(reader, profile);
  return profile;
}

TEST(PeersProfile, ComesBackAsItWasWritten) {
  SpmdJob job;
  job.nodes = 1;
  NodeProfile written = job.record()[0];
  written.channels[0].blocks[3] = std::numeric_limits<float>::quiet_NaN();
  written.channels[1].blocks.clear();
  written.channels[2].trend = ProfileTrend{.line = "0Zo~\\"};
  written.zeros = {"a", "b"};
  written.facts = {{"kernel.release", "6.1"}};
  const NodeProfile read = read_profile(text_of(written));
  ASSERT_EQ(read.channels.size(), written.channels.size());
  EXPECT_TRUE(std::isnan(read.channels[0].blocks[3]));
  EXPECT_NEAR(read.channels[0].blocks[4] / written.channels[0].blocks[4], 1, 1e-3);
  EXPECT_TRUE(read.channels[1].blocks.empty());
  EXPECT_EQ(read.channels[2].trend, written.channels[2].trend);
  EXPECT_EQ(read.zeros, written.zeros);
  EXPECT_EQ(read.facts, written.facts);
  EXPECT_EQ(read.first_block, written.first_block);
}

TEST(PeersProfile, PacksDecimalsWithoutLoss) {
  const float missing = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::vector<float>> lists = {
      {},        {0},    {1.5F, 1.25F, 12.5F},   {1234e6F, 1.236e9F, 1.2e9F}, {-3.5F, 0, 2e-3F}, {missing, missing},
      {7, 7, 7}, {1e9F}, {0.001F, missing, 9999}};
  for (const std::vector<float>& list : lists) {
    const std::vector<float> again = unpacked_decimals(packed_decimals(list));
    ASSERT_EQ(again.size(), list.size());
    for (std::size_t i = 0; i < list.size(); ++i) {
      EXPECT_TRUE(again[i] == list[i] || (std::isnan(again[i]) && std::isnan(list[i]))) << again[i] << " " << list[i];
    }
  }
  EXPECT_EQ(packed_decimals(std::vector<float>(16, 1234.0F)).size(), 20U) << "a character for each equal one";
  EXPECT_EQ(unpacked_decimals(packed_decimals(std::vector<float>{3e30F, 1e-30F})).at(0), 3e30F);
  for (const char* wrong : {"z", "0", "00z", "00\"", "zzzzzzzzzzzzzzzzzzzz0"}) {
    EXPECT_ANY_THROW(static_cast<void>(unpacked_decimals(wrong))) << wrong;
  }
}

TEST(PeersProfile, FoldsNamesThatBeginAlike) {
  const std::vector<SharedText> names = {"cpu.user", "cpu.user/busiest", "fs.free//m\xc3\xa4", "fs.free//m\xc3\xb6",
                                         ""};
  const std::string folded = folded_names(names);
  EXPECT_EQ(folded, "0cpu.user\n8/busiest\n0fs.free//m\xc3\xa4\nA\xc3\xb6\n0\n") << "a letter is not cut in two";
  EXPECT_EQ(unfolded_names(folded), names);
  EXPECT_EQ(unfolded_names(folded_names({"two\nlines"})), std::vector<SharedText>{"two lines"});
  for (const char* wrong : {"1a\n", "0a", "0a\n9b\n", "\n", "~a\n"}) {
    EXPECT_ANY_THROW(static_cast<void>(unfolded_names(wrong))) << wrong;
  }
}

TEST(PeersProfile, KeepsNoDigitsOfBlocksBelowTheirNoise) {
  Telemetry telemetry;
  telemetry.node = "n1";
  telemetry.begin_utc_ns = 1'700'000'000'000'000'000;
  telemetry.samples = 160;
  telemetry.channels = {{.metric = "steady", .unit = Unit::hertz}, {.metric = "noisy", .unit = Unit::hertz}};
  for (std::size_t t = 0; t < 160; ++t) telemetry.values.push_back(1234 + 0.1 * static_cast<double>(t / 10 % 3));
  for (std::size_t t = 0; t < 160; ++t) telemetry.values.push_back(1234 + 100 * static_cast<double>(t / 10 % 3));
  const NodeProfile profile = profile_of(telemetry, {});
  EXPECT_EQ(profile.find("steady")->blocks.at(0), 1234);
  EXPECT_EQ(profile.find("noisy")->blocks.at(0), 1230);
  EXPECT_EQ(profile.find("noisy")->mean, 1328);
}

TEST(PeersProfile, KeepsTheEndsOfALineOnlyWhereItKeepsTheLine) {
  Telemetry telemetry;
  telemetry.node = "n1";
  telemetry.begin_utc_ns = 1'700'000'000'000'000'000;
  telemetry.samples = 160;
  for (std::size_t c = 0; c < 200; ++c) {
    telemetry.channels.push_back({.metric = "m" + std::to_string(c), .unit = Unit::hertz});
    for (std::size_t t = 0; t < 160; ++t) telemetry.values.push_back(1 + static_cast<double>(t % (c + 2)));
  }
  std::size_t lines = 0;
  for (const ProfileChannel& one : profile_of(telemetry, {}).channels) {
    EXPECT_EQ(one.has_line(), one.range() > 0) << one.name.str();
    lines += one.has_line() ? 1 : 0;
  }
  EXPECT_EQ(lines, 150U);
}

TEST(PeersProfile, RefusesWhatIsNone) {
  SpmdJob job;
  job.nodes = 1;
  const std::string whole = text_of(job.record()[0]);
  EXPECT_ANY_THROW(static_cast<void>(read_profile("")));
  EXPECT_ANY_THROW(static_cast<void>(read_profile("{}")));
  EXPECT_ANY_THROW(static_cast<void>(read_profile(whole.substr(0, whole.size() / 2))));
  std::string no_axis = whole;
  no_axis.replace(no_axis.find("\"block_ns\":"), 12, "\"block_ns\":-");
  EXPECT_ANY_THROW(static_cast<void>(read_profile(no_axis)));
  NodeProfile endless = job.record()[0];
  for (const auto& [begin, end, block] : {std::tuple<std::int64_t, std::int64_t, std::int64_t>{0, INT64_MAX / 8, 1},
                                          {INT64_MAX - 2, INT64_MAX, 1},
                                          {0, 10, INT64_MAX}}) {
    endless.begin_utc_ns = begin;
    endless.end_utc_ns = end;
    endless.block_ns = block;
    EXPECT_ANY_THROW(static_cast<void>(read_profile(text_of(endless)))) << begin << ' ' << end << ' ' << block;
  }
  std::string later = whole;
  later.insert(1, "\"something_new\":{},");
  EXPECT_NO_THROW(static_cast<void>(read_profile(later))) << "unknown keys are left alone";
}

TEST(PeersProfile, AddsUpInstancesAndKnowsTheBusiest) {
  Telemetry telemetry;
  telemetry.node = "n1";
  telemetry.begin_utc_ns = 1'700'000'000'000'000'000;
  telemetry.samples = 200;
  const auto add = [&](const char* metric, const char* instance, Kind kind, Unit unit, Scope scope, auto value) {
    telemetry.channels.push_back({.metric = metric, .instance = instance, .kind = kind, .unit = unit, .scope = scope});
    for (std::size_t t = 0; t < 200; ++t) telemetry.values.push_back(value(t));
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  add("cpu.softirq", "cpu0", Kind::counter, Unit::nanoseconds, Scope::cpu, [](std::size_t) { return 0.01e9; });
  add("cpu.softirq", "cpu1", Kind::counter, Unit::nanoseconds, Scope::cpu,
      [](std::size_t t) { return t % 2 == 0 ? 0.02e9 : 0.04e9; });
  add("cpu.frequency", "cpu0", Kind::gauge, Unit::hertz, Scope::cpu, [](std::size_t) { return 2e9; });
  add("cpu.frequency", "cpu1", Kind::gauge, Unit::hertz, Scope::cpu, [](std::size_t) { return 3e9; });
  add("net.drops", "", Kind::event, Unit::count, Scope::node, [](std::size_t) { return 0.0; });
  add("gone", "", Kind::gauge, Unit::count, Scope::node, [&](std::size_t) { return nan; });
  add("endless", "", Kind::gauge, Unit::ratio, Scope::node,
      [](std::size_t t) { return t == 0 ? std::numeric_limits<double>::infinity() : 1.0; });
  const NodeProfile profile = profile_of(telemetry, {{"kernel.boot_id", "x"},
                                                     {"cpu.governor", "performance"},
                                                     {"stack.way", "multi-uprobe 900 1400 700"},
                                                     {"stack.attaching", "rank0: 31 functions in 212 ms"}});
  ASSERT_NE(profile.find("cpu.softirq"), nullptr);
  EXPECT_DOUBLE_EQ(profile.find("cpu.softirq")->mean, 0.4);
  EXPECT_EQ(profile.find("cpu.softirq")->unit, "cpus");
  EXPECT_DOUBLE_EQ(profile.find("cpu.softirq/busiest")->mean, 0.3);
  EXPECT_DOUBLE_EQ(profile.find("cpu.frequency")->mean, 2.5e9) << "frequencies do not add up";
  EXPECT_TRUE(profile.is_zero("net.drops"));
  EXPECT_EQ(profile.find("gone"), nullptr);
  EXPECT_EQ(profile.find("endless"), nullptr) << "a file may hold what no kernel measures";
  EXPECT_FALSE(profile.is_zero("gone")) << "not measured is not 0";
  EXPECT_EQ(profile.block_ns, 2'000'000'000);
  EXPECT_EQ(profile.facts.size(), 1U) << "a name of the node and a measured time are no configuration";
}

}  // namespace
}  // namespace reveal::tests::peers_test
