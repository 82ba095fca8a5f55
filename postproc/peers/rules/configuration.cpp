// Nodes of one job that are configured unlike most of it: each difference belongs to the rule for its effect.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <utility>

#include "hdf5schema/basics/text.h"
#include "postproc/peers/hardware_kinds.h"
#include "postproc/peers/job_rule.h"
#include "postproc/peers/node_pair.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::configuration {
namespace {

constexpr std::string_view kHugePagesId = "mem.hugepages_inconsistent";
constexpr std::string_view kMtuId = "net.mtu_mismatch";
constexpr std::string_view kDriftId = "node.config_drift";
constexpr std::string_view kLinkId = "ib.link_degraded";

constexpr std::string_view kOfNumaNode = "numa.node";

struct Concern {
  std::string_view begin;  // begin of the fact's key
  std::string_view end;
  std::string_view rule;
};

// The first that fits.
constexpr std::array kConcerns = {
    Concern{"vm.hugepages-", "", kHugePagesId},
    Concern{kOfNumaNode, "kB", kHugePagesId},  // "numa.node0.hugepages-1048576kB"
    Concern{"vm.transparent_hugepage", "", kHugePagesId},
    Concern{"net.", ".mtu", kMtuId},
    Concern{"rdma.", ".rate", kLinkId},
    Concern{"rdma.", "state", kLinkId},
    Concern{"", "", kDriftId},
};

std::string_view rule_for(std::string_view key) {
  return std::find_if(
             kConcerns.begin(), kConcerns.end(),
             [&](const Concern& concern) { return key.starts_with(concern.begin) && key.ends_with(concern.end); })
      ->rule;
}

/// Pages that are set aside while a node runs are taken where memory is free: on one NUMA node a few less than usual.
bool is_alike(const FactDifference& fact) {
  constexpr double kAlike = 0.1;
  const auto pages = parse_int(fact.value);
  const auto usual = parse_int(fact.usual);
  if (!fact.key.starts_with(kOfNumaNode) || !pages || !usual) return false;
  const auto [less, more] = std::minmax({static_cast<double>(*pages), static_cast<double>(*usual)});
  return more - less <= kAlike * more;
}

/// The value of a setting: a number is held against that of the others.
Evidence evidence_of(const FactDifference& fact, TimeSpan job) {
  Evidence evidence{.metric = fact.key,
                    .instance = "",
                    .node = fact.nodes.front(),
                    .feature = "value",
                    .span = job,
                    .detectors = {Method::peer_comparison}};
  const auto value = parse_int(fact.value);
  const auto usual = parse_int(fact.usual);
  if (value && usual) {
    evidence.feature = "value; expected: that of the other nodes";
    evidence.observed = static_cast<double>(*value);
    evidence.expected = static_cast<double>(*usual);
    evidence.unit = "count";
  } else {
    evidence.instance = fact.value;
  }
  return evidence;
}

/// "always [madvise] never" -> "madvise"
std::string chosen_in(std::string_view choices) {
  const std::size_t open = choices.find('[');
  const std::size_t close = choices.find(']', std::min(open, choices.size()));
  if (close == std::string_view::npos) return "";
  return std::string(choices.substr(open + 1, close - open - 1));
}

constexpr std::string_view kVm = "vm.";
constexpr std::string_view kHugePagesKey = "vm.hugepages-";
constexpr std::string_view kModeKey = "vm.transparent_hugepage";
constexpr std::string_view kInterface = "net.";
constexpr std::string_view kMtuKey = ".mtu";

bool is_mtu(std::string_view key) {
  return key.starts_with(kInterface) && key.ends_with(kMtuKey);
}

std::string interface_in(std::string_view key) {
  return std::string(key.substr(kInterface.size(), key.size() - kInterface.size() - kMtuKey.size()));
}

/// "node2 reserves 120 huge pages of 2 MiB (240 MiB), and the other nodes reserve none"; nothing of other settings.
std::string huge_pages_in_words(const FactDifference& fact) {
  constexpr std::string_view kUnit = "kB";
  std::string_view size = std::string_view(fact.key).substr(kHugePagesKey.size());
  if (!size.ends_with(kUnit)) return "";
  size.remove_suffix(kUnit.size());
  const auto kib = parse_int(size);
  const auto pages = parse_int(fact.value);
  const auto usual = parse_int(fact.usual);
  if (!kib || !pages || !usual) return "";
  const double bytes = 1024.0 * static_cast<double>(*kib);
  const auto amount = [](std::int64_t count) { return count == 0 ? "none" : number(static_cast<double>(count)); };
  return fmt::format("{} {} {} huge {} of {}{}, and the other nodes reserve {}", node_list(fact.nodes),
                     fact.nodes.size() == 1 ? "reserves" : "reserve", *pages == 0 ? "no" : amount(*pages),
                     *pages == 1 ? "page" : "pages", quantity(bytes, "bytes"),
                     *pages == 0 ? "" : fmt::format(" ({})", quantity(bytes * static_cast<double>(*pages), "bytes")),
                     amount(*usual));
}

std::string in_words(const FactDifference& fact) {
  const std::string nodes = node_list(fact.nodes);
  if (fact.key.starts_with(kHugePagesKey)) {
    if (std::string words = huge_pages_in_words(fact); !words.empty()) return words;
  }
  if (is_mtu(fact.key)) {
    return fmt::format("{} of {} has MTU {}, and the other nodes have {}", interface_in(fact.key), nodes, fact.value,
                       fact.usual);
  }
  const std::string mode = fact.key == kModeKey ? chosen_in(fact.value) : "";
  const std::string usual_mode = chosen_in(fact.usual);
  if (!mode.empty() && !usual_mode.empty()) {
    return fmt::format("transparent_hugepage of {} is {}, and that of the other nodes is {}", nodes, mode, usual_mode);
  }
  return fmt::format("{} {} {} = {}, and the other nodes have {}", nodes, fact.nodes.size() == 1 ? "has" : "have",
                     fact.key, fact.value, fact.usual);
}

/// Pages of 1 GiB that a node has less than the others: its memory is too scattered for them once it runs, so they are
/// reserved at boot. Any number can be given back while it runs.
bool needs_a_boot(const FactDifference& fact) {
  const auto pages = parse_int(fact.value);
  const auto usual = parse_int(fact.usual);
  return fact.key == "vm.hugepages-1048576kB" && pages && usual && *pages < *usual;
}

/// The values of the other nodes, for the lines that set them: the first difference of each kind.
JobValues usual_values(const std::vector<const FactDifference*>& facts) {
  JobValues values;
  for (const FactDifference* fact : facts) {
    const std::string_view key = fact->key;
    if (needs_a_boot(*fact)) {
      values.try_emplace("gib_pages", fact->usual);
    } else if (key.starts_with(kHugePagesKey)) {
      values.try_emplace("size", key.substr(kVm.size()));
      values.try_emplace("usual", fact->usual);
    } else if (key == kModeKey) {
      if (std::string mode = chosen_in(fact->usual); !mode.empty()) values.try_emplace("usual_mode", std::move(mode));
    } else if (is_mtu(key)) {
      values.try_emplace("interface", interface_in(key));
      values.try_emplace("usual", fact->usual);
    }
  }
  return values;
}

Finding describe(const EffectiveRule& rule, const std::vector<const FactDifference*>& facts, Severity severity,
                 TimeSpan job) {
  constexpr std::size_t kShown = 3;
  std::set<std::string> nodes;
  for (const FactDifference* fact : facts) nodes.insert(fact->nodes.begin(), fact->nodes.end());
  Finding finding = rule.finding({nodes.begin(), nodes.end()});
  finding.severity = severity;
  finding.confidence = Confidence::certain;
  finding.intervals = {job};
  finding.impact.how = "not known: only a run on nodes with the same configuration shows it";
  std::string list;
  for (const FactDifference* fact : facts) {
    if (finding.evidence.size() < kShown) {
      list += (list.empty() ? "" : "; ") + in_words(*fact);
    }
    finding.evidence.push_back(evidence_of(*fact, job));
  }
  if (facts.size() > kShown) list += fmt::format("; and {} more", facts.size() - kShown);
  finding.sentence = list + ".";
  return finding;
}

using Facts = std::vector<const FactDifference*>;

Facts facts_of(const JobRuleContext& context, std::string_view id) {
  Facts facts;
  for (const FactDifference& fact : context.comparison.facts) {
    if (rule_for(fact.key) == id && !is_alike(fact)) facts.push_back(&fact);
  }
  return facts;
}

std::vector<JobFinding> of_facts(const JobRuleContext& context, const EffectiveRule& rule, const Facts& facts) {
  if (facts.empty()) return {};
  return {{describe(rule, facts, Severity::notice, context.job), usual_values(facts)}};
}

bool are_all_in(const std::vector<std::string>& nodes, const std::vector<std::string>& in) {
  return std::all_of(nodes.begin(), nodes.end(),
                     [&](const std::string& node) { return std::find(in.begin(), in.end(), node) != in.end(); });
}

/// The pages of a NUMA node are among those of its node: they are told where only their distribution differs.
bool is_told_of_node(const FactDifference& fact, const Facts& facts) {
  if (!fact.key.starts_with(kOfNumaNode)) return false;
  return std::any_of(facts.begin(), facts.end(), [&](const FactDifference* one) {
    return one->key.starts_with(kHugePagesKey) && fact.key.ends_with(one->key.substr(kVm.size())) &&
           are_all_in(fact.nodes, one->nodes);
  });
}

std::vector<JobFinding> check_huge_pages(const JobRuleContext& context, const EffectiveRule& rule) {
  const Facts all = facts_of(context, kHugePagesId);
  Facts facts;
  std::copy_if(all.begin(), all.end(), std::back_inserter(facts),
               [&](const FactDifference* fact) { return !is_told_of_node(*fact, all); });
  return of_facts(context, rule, facts);
}
std::vector<JobFinding> check_mtu(const JobRuleContext& context, const EffectiveRule& rule) {
  return of_facts(context, rule, facts_of(context, kMtuId));
}

/// Differences that bring others with them.
Facts reasons_among(const Facts& facts) {
  constexpr std::array<std::string_view, 3> kReasons = {"machine.model", "cpu.model", "kernel.mitigations"};
  Facts reasons;
  std::copy_if(facts.begin(), facts.end(), std::back_inserter(reasons), [&](const FactDifference* fact) {
    return std::find(kReasons.begin(), kReasons.end(), fact->key) != kReasons.end();
  });
  return reasons;
}

/// Another machine has another firmware and other flaws by nature, and one option changes the mitigations of all flaws.
bool follows_from_another(const FactDifference& fact, const Facts& reasons) {
  constexpr std::array<std::string_view, 3> kOfTheMachine = {"firmware.", "cpu.microcode", "cpu.vulnerability."};
  const bool of_the_machine = std::any_of(kOfTheMachine.begin(), kOfTheMachine.end(),
                                          [&](std::string_view begin) { return fact.key.starts_with(begin); });
  return std::any_of(reasons.begin(), reasons.end(), [&](const FactDifference* one) {
    // A kind with peers of its own was compared with these.
    const bool machine = (one->key == "machine.model" || one->key == "cpu.model") && one->nodes.size() < kLeastOfKind;
    return ((of_the_machine && machine) || follows_from(fact.key, one->key)) && are_all_in(fact.nodes, one->nodes);
  });
}

/// A setting of the node for which the others wait, of a kind that may make it slow.
bool may_explain(const FactDifference& fact, const Straggler& slow) {
  return weight_of_setting(fact.key) != SettingWeight::none && are_all_in({slow.node}, fact.nodes);
}

/// A finding on the node itself, for a good part of the job, is a better explanation than a setting.
bool is_explained(const std::string& node, const JobRuleContext& context) {
  constexpr double kExplained = 0.3;
  return std::any_of(context.found.begin(), context.found.end(), [&](const Finding& finding) {
    return finding.kind == FindingKind::anomaly && finding.id != kUnexplained && are_all_in({node}, finding.nodes) &&
           covers(finding, context.job, kExplained);
  });
}

/// The values of the lines that fit.
JobValues drift_values(const Facts& facts) {
  JobValues values = usual_values(facts);
  constexpr std::array<std::array<std::string_view, 2>, 5> kKinds = {{{"firmware.", "firmware"},
                                                                      {"cpu.microcode", "microcode"},
                                                                      {"cpu.vulnerability.", "mitigations"},
                                                                      {"kernel.mitigations", "mitigations"},
                                                                      {"gpu_driver.", "gpu_driver"}}};
  for (const FactDifference* fact : facts) {
    for (const auto& [begin, kind] : kKinds) {
      if (fact->key.starts_with(begin)) values.try_emplace(std::string(kind), fact->usual);
    }
  }
  return values;
}

/// A setting of the node for which the others wait is worth acting on, with the cost of the waiting. Other settings
/// that slow any node down are worth a notice; most settings cost nothing.
std::vector<JobFinding> check_drift(const JobRuleContext& context, const EffectiveRule& rule) {
  const Facts all = facts_of(context, kDriftId);
  const Facts reasons = reasons_among(all);
  Facts facts;
  std::copy_if(all.begin(), all.end(), std::back_inserter(facts),
               [&](const FactDifference* fact) { return !follows_from_another(*fact, reasons); });
  // The model of a node cannot be set: what can be comes first.
  const auto rank = [](const FactDifference* fact) {
    return std::pair(weight_of_setting(fact->key), !names_the_kind(fact->key));
  };
  std::stable_sort(facts.begin(), facts.end(),
                   [&](const FactDifference* a, const FactDifference* b) { return rank(a) > rank(b); });
  std::vector<JobFinding> findings;
  const Straggler& slow = context.comparison.straggler;
  if (!slow.node.empty() && !is_explained(slow.node, context)) {
    const auto rest = std::stable_partition(facts.begin(), facts.end(),
                                            [&](const FactDifference* fact) { return may_explain(*fact, slow); });
    const Facts of_slow(facts.begin(), rest);
    // Differences that other nodes have, too, are reported for them as well.
    facts.erase(std::remove_if(facts.begin(), rest, [](const FactDifference* fact) { return fact->nodes.size() == 1; }),
                rest);
    if (!of_slow.empty()) {
      const bool material =
          slow.seconds >= rule.threshold("warning_seconds") && slow.percent >= rule.threshold("warning_percent");
      Finding finding = describe(rule, of_slow, material ? Severity::warning : Severity::notice, context.job);
      finding.nodes = {slow.node};
      for (Evidence& evidence : finding.evidence) evidence.node = slow.node;
      finding.confidence = Confidence::possible;
      finding.impact = {slow.seconds, slow.percent,
                        "time in which the other nodes waited for this one; only a run with the same configuration "
                        "shows whether its settings are the reason"};
      finding.runner_up = {"", "its ranks may have more work than the others: then the waiting follows the rank"};
      findings.emplace_back(std::move(finding), drift_values(of_slow));
    }
  }
  if (facts.empty()) return findings;
  const bool slows = weight_of_setting(facts.front()->key) == SettingWeight::slows;
  findings.emplace_back(describe(rule, facts, slows ? Severity::notice : Severity::info, context.job),
                        drift_values(facts));
  return findings;
}

const RegisteredJobRule kHugePages(
    check_huge_pages,
    {
        .id = "mem.hugepages_inconsistent",
        .title = "Huge pages are configured differently on the job's nodes",
        .looks_for = "Nodes whose settings of huge pages or transparent huge pages differ from most nodes of the job.",
        .kind = FindingKind::peer,
        .states = Stated::fact,
        .subsystem = Subsystem::memory,
        .order = 93,
        .proof = Proof::real,
        .user_remedy = {{"#SBATCH --exclude={nodes}   # until the nodes have the same configuration", "job"},
                        "grep . /sys/kernel/mm/hugepages/hugepages-*/nr_hugepages   # on {node} and on another node"},
        .admin_remedy =
            {"echo {usual} > /sys/kernel/mm/hugepages/{size}/nr_hugepages   # changes {node} until its next boot, to "
             "the value of the others",
             "On {node}, boot with hugepagesz=1G hugepages={gib_pages}, as on the others: a running node rarely has "
             "free memory in pieces of 1 GiB.",
             "echo {usual_mode} > /sys/kernel/mm/transparent_hugepage/enabled   # changes {node} until its next boot, "
             "to the mode of the others",
             "grep -rs hugepage /proc/cmdline /etc/sysctl.conf /etc/sysctl.d   # on {node}: where the setting comes "
             "from"},
        .verify = {.command = "grep . /sys/kernel/mm/hugepages/hugepages-*/nr_hugepages",
                   .where = "on all nodes of the job",
                   .expected = "the same numbers"},
        .sources = {"https://docs.kernel.org/admin-guide/mm/hugetlbpage.html", "https://arxiv.org/abs/2510.26008"},
    },
    JobRuleOf::settings);

const RegisteredJobRule kMtu(
    check_mtu,
    {
        .id = "net.mtu_mismatch",
        .title = "An interface has another MTU than on the other nodes",
        .looks_for =
            "Nodes whose interface has another MTU than the interface of that name on most of the job's nodes.",
        .kind = FindingKind::peer,
        .states = Stated::fact,
        .subsystem = Subsystem::network,
        .order = 62,
        .proof = Proof::real,
        .user_remedy = {"tracepath -n {peer}   # on {node}: pmtu is the largest packet that the path allows"},
        .admin_remedy = {"ip link set dev {interface} mtu {usual}   # changes {node} until its next boot; also in its "
                         "network configuration",
                         "ip link show   # on {node} and on {peer}: which value is intended"},
        .verify = {.command = "ip link show", .where = "on all nodes of the job", .expected = "the same MTU"},
        .sources = {"https://docs.kernel.org/networking/statistics.html"},
    },
    JobRuleOf::settings);

const RegisteredJobRule kDrifted(
    check_drift,
    {
        .id = "node.config_drift",
        .title = "Nodes of the job are configured differently",
        .looks_for = "Kernel, firmware, microcode, mitigations and system settings in which a few nodes differ from "
                     "most of the job, and whether the others wait for such a node.",
        .kind = FindingKind::peer,
        .states = Stated::fact,
        .subsystem = Subsystem::process,
        .order = 95,
        .look_alikes = "another model of machine,a rank with more to do",
        .proof = Proof::real,
        .thresholds = {{"warning_seconds", 5, "s",
                        "run time that the others waited for the node, from which its settings are a warning"},
                       {"warning_percent", 10, "percent",
                        "share of the run that the others waited for the node, from which its settings are a warning"}},
        .user_remedy =
            {{"#SBATCH --exclude={nodes}   # in one run: if the job is faster without them, the settings cost time",
              "job"}},
        .admin_remedy = {{"grep . /sys/devices/system/cpu/vulnerabilities/*   # on {node} and on {peer}: which "
                          "mitigations are intended",
                          "mitigations"},
                         {"grep . /sys/class/dmi/id/bios_*   # on {node} and on {peer}: which firmware is newer",
                          "firmware"},
                         {"grep -m1 microcode /proc/cpuinfo   # on {node} and on {peer}; then update the package, and "
                          "reboot",
                          "microcode"},
                         {"cat /proc/driver/nvidia/version   # on {node} and on {peer}", "gpu_driver"},
                         "diff <(ssh {node} sysctl -a) <(ssh {peer} sysctl -a)   # and kernel, firmware, services"},
        .verify = {.expected = "the settings are the same on all nodes of the job"},
        .sources = {"https://arxiv.org/abs/2510.26008"},
    },
    JobRuleOf::settings);

}  // namespace
}  // namespace reveal::rule::configuration
