#include "postproc/mail/site_digest.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "hdf5schema/basics/fold.h"
#include "postproc/diagnose/analysis_settings.h"
#include "postproc/diagnose/rule.h"
#include "postproc/json/record.h"
#include "postproc/ledger/ledger_fields.h"
#include "postproc/mail/recipients.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"
#include "postproc/words/times.h"

namespace reveal {
namespace {

constexpr std::size_t kMostRules = 30;  // rules and nodes in the text; the attached file has more
constexpr std::size_t kMostNodesOfRule = 8;
constexpr std::size_t kMostNamesInSubject = 4;
constexpr std::size_t kMostInFile = 5000;  // a larger mail than servers take would be tried for ever
constexpr std::size_t kDigestWidth = 78;
constexpr std::size_t kMostAdminLines = 12;
constexpr std::size_t kLongestAdminLine = 800;

constexpr std::string_view kDigestCaution =
    "Titles and steps come from reveal's rules. Nodes, times and numbers were computed as the jobs' owners from files "
    "that the owners can write: check a node before you act. A rule on a node is mailed again after 24 h at the "
    "earliest.";

/// Different jobs by their owners.
using OwnedJobs = std::set<std::pair<std::string, std::string>>;

struct FaultSums {
  NodeFault fault;
  OwnedJobs jobs;
};

bool is_for_admins(const LedgerFinding& finding, const MailSettings& settings) {
  const RuleSpec* rule = find_rule(finding.rule);
  return rule != nullptr && !rule->admin_remedy.empty() && finding.severity >= settings.admin_threshold &&
         finding.how != LossKnown::in_cause;
}

void add_finding(const LedgerLine& line, const LedgerFinding& finding, FaultSums& sums) {
  NodeFault& fault = sums.fault;
  fault.rule = finding.rule;
  fault.node = line.node;
  fault.severity = std::max(fault.severity, finding.severity);
  fault.confidence = std::max(fault.confidence, finding.confidence);
  fault.first_utc_ns = fault.first_utc_ns == 0 ? line.begin_utc_ns : std::min(fault.first_utc_ns, line.begin_utc_ns);
  fault.last_utc_ns = std::max(fault.last_utc_ns, line.end_utc_ns);
  if (finding.seconds) fault.seconds = fault.seconds.value_or(0) + *finding.seconds;
  fault.at_most = fault.at_most || (finding.seconds && finding.how == LossKnown::at_most);
  sums.jobs.emplace(line.owner, line.array.empty() ? line.job : line.array);
}

NodeFault counted_fault(const FaultSums& sums) {
  NodeFault fault = sums.fault;
  std::set<std::string> users;
  for (const auto& [owner, job] : sums.jobs) users.insert(owner);
  fault.jobs = sums.jobs.size();
  fault.users = users.size();
  if (users.size() == 1) fault.owner = *users.begin();
  return fault;
}

/// The part of sorted faults with the rule of its first one.
std::span<const NodeFault> first_rule(std::span<const NodeFault> faults) {
  std::size_t size = 0;
  while (size < faults.size() && faults[size].rule == faults.front().rule) ++size;
  return faults.first(size);
}

std::vector<std::string> nodes_of(std::span<const NodeFault> faults) {
  std::vector<std::string> nodes;
  nodes.reserve(faults.size());
  for (const NodeFault& fault : faults) nodes.push_back(fault.node);
  return nodes;
}

std::string rule_title(const NodeFault& fault) {
  const RuleSpec* rule = find_rule(fault.rule);
  return rule == nullptr ? fault.rule : std::string(rule->title);
}

/// "500 jobs of 12 users"
std::string jobs_and_users(const NodeFault& fault) {
  return fmt::format("{} of {}", counted(static_cast<double>(fault.jobs), "job"),
                     counted(static_cast<double>(fault.users), "user"));
}

std::string lost_words(const NodeFault& fault) {
  if (!fault.seconds) return "lost time not measured";
  return fmt::format("lost {} {}", fault.at_most ? "at most" : "about", duration(*fault.seconds));
}

std::string node_row(const NodeFault& fault) {
  return folded("",
                fmt::format("{} on {}: {}; first {}, last {}; {}{}", fault.rule, fault.node, jobs_and_users(fault),
                            date_and_time(fault.first_utc_ns), date_and_time(fault.last_utc_ns), lost_words(fault),
                            certainty_behind(fault.rule, fault.confidence)),
                2, kDigestWidth);
}

/// The lines of the node with most jobs; of them some have values that only its jobs know.
std::vector<RemedyStep> steps_for(std::span<const NodeFault> faults, const AdminLines& steps) {
  Finding finding;
  finding.id = faults.front().rule;
  finding.nodes = nodes_of(faults);
  std::sort(finding.nodes.begin(), finding.nodes.end());
  const RuleSpec* rule = find_rule(finding.id);
  if (rule == nullptr) return {};
  const auto known = std::find_if(faults.begin(), faults.end(), [&steps](const NodeFault& fault) {
    return steps.contains({fault.rule, fault.node});
  });
  if (known == faults.end()) {
    finding.remedy = remedy_for(*rule, job_values(finding, {}));
  } else {
    finding.remedy.admin = steps.at({known->rule, known->node});
  }
  return steps_of(finding).admin;
}

/// The title, a line for each node, and the lines to type.
std::string faults_as_text(std::span<const NodeFault> faults, const AdminLines& steps) {
  std::string text = fmt::format("{}: {}\n", name_of(faults.front().severity), rule_title(faults.front()));
  const std::size_t shown = std::min(faults.size(), kMostNodesOfRule);
  for (const NodeFault& fault : faults.first(shown)) text += node_row(fault);
  if (faults.size() > shown) {
    const std::vector<std::string> more = nodes_of(faults.subspan(shown));
    text += folded("", fmt::format("{}: {}", counted(static_cast<double>(more.size()), "more node"), node_list(more)),
                   2, kDigestWidth);
  }
  return text + numbered_steps(steps_for(faults, steps));
}

/// "[reveal] critical: The node's memory has errors on n17, 500 jobs of 12 users"
std::string digest_subject(std::span<const NodeFault> faults) {
  const std::span<const NodeFault> worst = first_rule(faults);
  std::set<std::string> rules;
  for (const NodeFault& fault : faults) rules.insert(fault.rule);
  std::string subject = fmt::format("[reveal] {}: {} on {}", name_of(worst.front().severity), rule_title(worst.front()),
                                    node_list(nodes_of(worst), kMostNamesInSubject));
  if (worst.size() == 1) subject += ", " + jobs_and_users(worst.front());
  if (rules.size() == 1) return subject;
  return subject + fmt::format("; {}", counted(static_cast<double>(rules.size() - 1), "more rule"));
}

std::string digest_text(std::span<const NodeFault> faults, const AdminLines& steps) {
  std::string text;
  std::size_t rules = 0;
  while (!faults.empty() && rules < kMostRules) {
    const std::span<const NodeFault> of_rule = first_rule(faults);
    text += faults_as_text(of_rule, steps) + "\n";
    faults = faults.subspan(of_rule.size());
    ++rules;
  }
  if (!faults.empty()) text += "More rules are in the attached file.\n\n";
  return text + folded("", kDigestCaution, 0, kDigestWidth) + "\n-- \n";
}

std::string words_about_file(std::size_t faults) {
  if (faults <= kMostInFile) return "Attached: findings.json with all nodes.\n";
  return fmt::format("Attached: findings.json with the first {} findings; {} more are left out.\n", kMostInFile,
                     faults - kMostInFile);
}

}  // namespace

void fields(auto& v, Visited<decltype(v), NodeFault>& fault) {
  v("rule", fault.rule);
  v("node", fault.node);
  v.name("severity", fault.severity, severity_of);
  confidence_field(v, fault.confidence);
  certainty_field(v, fault.rule, fault.confidence);
  v("jobs", fault.jobs);
  v("users", fault.users);
  v.time("first", fault.first_utc_ns);
  v.time("last", fault.last_utc_ns);
  v("seconds", fault.seconds, "not measured");
  v("at_most", fault.at_most);
}

namespace {

struct DigestRecord {
  std::int64_t time_utc_ns = 0;
  std::vector<NodeFault> findings;
};

void fields(auto& v, Visited<decltype(v), DigestRecord>& digest) {
  v.schema("schema", "reveal.digest/1");
  v.time("time", digest.time_utc_ns);
  v("findings", digest.findings);
}

}  // namespace

AdminLines admin_lines(const std::string& report_json, const MailSettings& settings) {
  const Report report = as_administrators_read(parse_report(report_json));
  const std::vector<std::string> peers = peer_addresses(report);
  AdminLines lines;
  for (const Finding& finding : report.findings) {
    if (!concerns_admins(finding, settings)) continue;
    std::vector<std::string> texts = finding.remedy.admin;
    for (std::string& text : texts) text = without_peers(std::move(text), peers);
    const std::size_t nodes = std::min(finding.nodes.size(), kMostNodesOfRule);
    for (std::size_t i = 0; i < nodes; ++i) lines.try_emplace(std::pair(finding.id, finding.nodes[i]), texts);
  }
  return lines;
}

std::vector<std::string> lines_of_rule(const std::string& rule, std::vector<std::string> lines) {
  const RuleSpec* spec = find_rule(rule);
  std::erase_if(lines, [spec](const std::string& line) {
    return spec == nullptr || line.size() > kLongestAdminLine || !is_one_of(line, spec->admin_remedy);
  });
  if (lines.size() > kMostAdminLines) lines.resize(kMostAdminLines);
  return lines;
}

std::vector<LedgerLine> lines_for_admins(const std::string& report_json, const MailSettings& settings) {
  std::vector<LedgerLine> lines = ledger_lines(report_json);
  for (LedgerLine& line : lines) {
    std::erase_if(line.findings, [&](const LedgerFinding& finding) { return !is_for_admins(finding, settings); });
  }
  std::erase_if(lines, [](const LedgerLine& line) { return line.findings.empty(); });
  return lines;
}

std::vector<NodeFault> node_faults(std::span<const LedgerLine> lines) {
  std::map<std::pair<std::string, std::string>, FaultSums> sums;
  for (const LedgerLine& line : lines) {
    for (const LedgerFinding& finding : line.findings) {
      add_finding(line, finding, sums[{finding.rule, line.node}]);
    }
  }
  std::map<std::string, std::pair<Severity, std::size_t>> of_rules;
  std::vector<NodeFault> faults;
  faults.reserve(sums.size());
  for (const auto& [key, one] : sums) {
    faults.push_back(counted_fault(one));
    auto& [severity, jobs] = of_rules[faults.back().rule];
    severity = std::max(severity, faults.back().severity);
    jobs = std::max(jobs, faults.back().jobs);
  }
  const auto rank = [&of_rules](const NodeFault& fault) {
    const auto& [severity, jobs] = of_rules.at(fault.rule);
    return std::tuple(-static_cast<int>(severity), -static_cast<std::int64_t>(jobs), fault.rule,
                      -static_cast<std::int64_t>(fault.jobs), fault.node);
  };
  std::sort(faults.begin(), faults.end(),
            [&rank](const NodeFault& one, const NodeFault& other) { return rank(one) < rank(other); });
  return faults;
}

Digest digest_of(std::span<const NodeFault> faults, const AdminLines& steps, std::int64_t now_utc_ns) {
  const std::span<const NodeFault> first = faults.first(std::min(faults.size(), kMostInFile));
  const DigestRecord record{.time_utc_ns = now_utc_ns, .findings = {first.begin(), first.end()}};
  const std::string json = render_record(record);
  return {.id = "digest-" + text_hash(json),
          .subject = digest_subject(faults),
          .text = digest_text(faults, steps) + words_about_file(faults.size()),
          .json = json,
          .json_name = "findings.json"};
}

}  // namespace reveal
