#include "postproc/ledger/node_ledger.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <set>

#include "hdf5schema/basics/enum_names.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/analysis_settings.h"
#include "postproc/diagnose/rule.h"
#include "postproc/ledger/ledger_fields.h"
#include "postproc/report/fields.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

constexpr std::string_view kLossNames[] = {"unknown", "estimated", "at_most", "in_cause"};  // in enumerators' order
constexpr std::size_t kMostLedgerNodes = 100'000;
constexpr std::size_t kMostLedgerFindings = 500;  // more than there are rules
constexpr double kLongestRunSeconds = 366.0 * 86400;

/// The part of a report.json that the ledger needs: damage elsewhere in it does no harm.
struct ArchivedReport {
  ReportJob job;
  std::vector<Finding> findings;
};

void fields(JsonReader& v, ArchivedReport& report) {
  v.schema("schema", kReportSchema);
  v("job", report.job);
  v.known("findings", report.findings);
}

bool consists_of(std::string_view text, std::string_view others, std::size_t longest) {
  return !text.empty() && text.size() <= longest && std::all_of(text.begin(), text.end(), [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || others.find(c) != std::string_view::npos;
  });
}

/// True for a valid host name: it is typed into a shell and read by Slurm.
bool is_node_name(std::string_view name) {
  constexpr std::size_t kLongest = 253;
  return consists_of(name, "._-", kLongest) && std::isalnum(static_cast<unsigned char>(name.front())) != 0;
}

bool is_job_name(std::string_view id) {
  return consists_of(id, "._+-", 64);
}

/// 4711 of 4711_3.
std::string number_of_array(const std::string& array) {
  return array.substr(0, array.find('_'));
}

std::string job_of_report(const ReportJob& job) {
  if (!job.id.empty()) return job.id;
  std::string what = fmt::format("{}", job.begin_utc_ns);
  for (const std::string& node : job.nodes) what += "\n" + node;
  return "run-" + text_hash(what);
}

void join(const LedgerFinding& more, LedgerFinding& finding) {
  finding.severity = std::max(finding.severity, more.severity);
  finding.confidence = std::max(finding.confidence, more.confidence);
  finding.nodes = std::max(finding.nodes, more.nodes);
  if (!more.seconds) return;
  finding.how = finding.seconds ? std::max(finding.how, more.how) : more.how;
  finding.seconds = finding.seconds.value_or(0) + *more.seconds;
}

LedgerFinding ledger_finding(const RuleSpec& rule, const Finding& finding, std::size_t named) {
  LedgerFinding line{.rule = std::string(rule.id),
                     .severity = finding.severity,
                     .seconds = {},
                     .nodes = named,
                     .confidence = finding.confidence};
  if (!finding.caused_by.empty()) {
    line.how = LossKnown::in_cause;
  } else if (finding.impact.seconds) {
    line.seconds = finding.impact.seconds;
    line.how = finding.impact.at_most ? LossKnown::at_most : LossKnown::estimated;
  }
  return line;
}

std::string mistake_in(const LedgerLine& line, std::int64_t now_utc_ns) {
  if (!is_node_name(line.node)) return "a node is called \"" + printable(line.node, 40) + "\"";
  if (!is_job_name(line.job)) return "a job is called \"" + printable(line.job, 40) + "\"";
  if (!line.array.empty() && !is_job_name(line.array)) return "an array job is called " + printable(line.array, 40);
  if (!line.owner.empty() && !consists_of(line.owner, "", 16)) return "its owner is no hash";
  if (line.begin_utc_ns <= 0 || line.end_utc_ns < line.begin_utc_ns) return "it has no begin and end";
  if (line.seconds() > kLongestRunSeconds) return "it ran for more than a year";
  if (line.end_utc_ns > now_utc_ns) return "it ended in the future";
  if (line.job_nodes < 1 || line.job_nodes > kMostLedgerNodes) return "it has an impossible number of nodes";
  if (line.findings.size() > kMostLedgerFindings) return "it has more findings than there are rules";
  return "";
}

/// The bounds of a finding: a known rule, no more nodes than the job has and no more time than it ran.
void bound_findings(LedgerLine& line) {
  std::vector<LedgerFinding> bounded;
  for (LedgerFinding& finding : line.findings) {
    const RuleSpec* rule = find_rule(finding.rule);
    if (rule == nullptr) continue;  // rule of another version
    finding.rule = rule->id;
    finding.nodes = std::clamp<std::size_t>(finding.nodes, 1, line.job_nodes);
    if (finding.seconds && !(*finding.seconds >= 0)) finding.seconds.reset();
    if (finding.seconds) finding.seconds = std::min(*finding.seconds, line.seconds());
    const auto same = std::find_if(bounded.begin(), bounded.end(),
                                   [&](const LedgerFinding& one) { return one.rule == finding.rule; });
    if (same == bounded.end()) bounded.push_back(std::move(finding));
  }
  line.findings = std::move(bounded);
}

bool is_of_more(const LedgerLine& line, const LedgerLine& other) {
  const auto size = [](const LedgerLine& of) { return std::pair(of.job_nodes, of.end_utc_ns); };
  if (size(line) != size(other)) return size(line) > size(other);
  return line != other && render_ledger({&line, 1}) > render_ledger({&other, 1});
}

LedgerLine parse_line(const std::string& text) {
  const Json json = parse_json(text, "a line");
  JsonReader reader(json, "a line");
  LedgerLine line;
  fields(reader, line);
  return line;
}

}  // namespace

std::string_view name_of(LossKnown how) noexcept {
  return kLossNames[static_cast<std::size_t>(how)];
}

std::optional<LossKnown> loss_known_of(std::string_view name) noexcept {
  return enumerator_of<LossKnown>(kLossNames, name);
}

std::vector<LedgerLine> ledger_lines(const std::string& report_json) {
  const Json json = parse_json(report_json, "report.json");
  JsonReader reader(json, "report.json");
  ArchivedReport report;
  fields(reader, report);
  const ReportJob& job = report.job;
  if (job.nodes.empty()) throw Error("report.json: the job has no nodes");
  if (job.nodes.size() > kMostLedgerNodes) throw Error("report.json: the job has more nodes than can be");
  std::map<std::string, std::vector<LedgerFinding>> of_nodes;
  for (const std::string& node : job.nodes) of_nodes[node];
  for (const Finding& finding : report.findings) {
    const RuleSpec* rule = find_rule(finding.id);
    if (rule == nullptr) continue;
    std::set<std::vector<LedgerFinding>*> named;
    for (const std::string& node : finding.nodes) {
      const auto known = of_nodes.find(node);
      if (known != of_nodes.end()) named.insert(&known->second);
    }
    const LedgerFinding line = ledger_finding(*rule, finding, std::max<std::size_t>(named.size(), 1));
    for (std::vector<LedgerFinding>* findings : named) {
      const auto same = std::find_if(findings->begin(), findings->end(),
                                     [&](const LedgerFinding& one) { return one.rule == line.rule; });
      if (same == findings->end()) {
        findings->push_back(line);
      } else {
        join(line, *same);
      }
    }
  }
  std::vector<LedgerLine> lines;
  const std::string id = job_of_report(job);
  for (auto& [node, findings] : of_nodes) {
    LedgerLine line{.node = node,
                    .job = id,
                    .array = number_of_array(job.array),
                    .owner = {},
                    .begin_utc_ns = job.begin_utc_ns,
                    .end_utc_ns = job.end_utc_ns,
                    .job_nodes = of_nodes.size(),
                    .findings = std::move(findings)};
    const std::string mistake = mistake_in(line, std::numeric_limits<std::int64_t>::max());
    if (!mistake.empty()) throw Error("report.json: " + mistake);
    bound_findings(line);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string render_ledger(std::span<const LedgerLine> lines) {
  std::string text;
  for (const LedgerLine& line : lines) text += json_text(JsonWriter::whole(line)) + "\n";
  return text;
}

std::string render_ledger(std::span<const LedgerLine> lines, std::size_t most) {
  std::string text = render_ledger(lines);
  if (text.size() > most) text.erase(0, text.find('\n', text.size() - most - 1) + 1);
  return text;
}

ParsedLedger parse_ledger(std::string_view text, std::int64_t now_utc_ns) {
  ParsedLedger parsed;
  for (std::string_view rest = text, words; next_line(rest, words);) {
    if (words.empty()) continue;
    try {
      if (words.size() > kLongestLedgerLine) throw Error("it is too long");
      LedgerLine line = parse_line(std::string(words));
      if (const std::string mistake = mistake_in(line, now_utc_ns); !mistake.empty()) throw Error(mistake);
      bound_findings(line);
      parsed.lines.push_back(std::move(line));
    } catch (const Error&) {
      ++parsed.refused;
    }
  }
  return parsed;
}

void NodeLedger::add(LedgerLine line, bool (*replaces)(const LedgerLine&, const LedgerLine&)) {
  if (line.begin_utc_ns < first_begin_) return;
  Key key{line.begin_utc_ns, line.owner, line.job, line.node};
  const auto [known, is_new] = lines_.try_emplace(std::move(key), line);
  if (!is_new && replaces(line, known->second)) known->second = std::move(line);
  if (lines_.size() <= most_lines_) return;
  lines_.erase(lines_.begin());
  begin_here();
}

void NodeLedger::add(LedgerLine line) {
  add(std::move(line), is_of_more);
}

void NodeLedger::replace(LedgerLine line) {
  add(std::move(line), [](const LedgerLine&, const LedgerLine&) { return true; });
}

void NodeLedger::begin_here() {
  if (!lines_.empty()) first_begin_ = std::get<0>(lines_.begin()->first);
}

void NodeLedger::keep_since(std::int64_t utc_ns) {
  std::erase_if(lines_, [utc_ns](const auto& entry) { return entry.second.end_utc_ns < utc_ns; });
}

std::vector<LedgerLine> NodeLedger::lines() const {
  std::vector<LedgerLine> lines;
  lines.reserve(lines_.size());
  for (const auto& [key, line] : lines_) lines.push_back(line);
  return lines;
}

std::vector<LedgerLine> NodeLedger::lines_since(const NodeLedger& earlier) const {
  std::vector<LedgerLine> lines;
  for (const auto& [key, line] : lines_) {
    const auto known = earlier.lines_.find(key);
    if (known == earlier.lines_.end() || known->second != line) lines.push_back(line);
  }
  return lines;
}

}  // namespace reveal
