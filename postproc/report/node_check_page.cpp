#include "postproc/report/node_check_page.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/fold.h"
#include "hdf5schema/basics/text.h"
#include "hdf5schema/version.h"
#include "postproc/diagnose/rule.h"
#include "postproc/report/fields.h"
#include "postproc/words/gauge.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

constexpr std::size_t kCheckColumn = 15;

std::string_view upper_name_of(NodeStatus status) {
  constexpr std::string_view kNames[] = {"OK", "WARNING", "CRITICAL", "UNKNOWN"};
  return kNames[static_cast<std::size_t>(status)];
}

int exit_status_of(NodeStatus status) {
  return static_cast<int>(status);
}

/// On one line, and without the letter behind which monitoring systems expect numbers.
std::string for_monitoring(std::string_view text) {
  constexpr std::size_t kLongest = 400;
  std::string line = printable(text, kLongest);
  std::replace(line.begin(), line.end(), '|', '/');
  return line;
}

std::string counts_of(const NodeCheck& check) {
  std::string text = counted(static_cast<double>(check.asked.size()), "check");
  if (!check.not_checked.empty()) text += fmt::format(", {} not possible", check.not_checked.size());
  return text;
}

std::string without_full_stop(std::string text) {
  if (text.ends_with('.')) text.pop_back();
  return text;
}

/// Worth a look, the worst first.
std::vector<const Finding*> printed_findings(const NodeCheck& check) {
  std::vector<const Finding*> findings;
  for (const Finding& finding : check.findings) {
    if (status_of(finding) != NodeStatus::ok) findings.push_back(&finding);
  }
  return findings;
}

std::string words_of(const NodeCheck& check) {
  const std::vector<const Finding*> findings = printed_findings(check);
  if (findings.empty()) return "";
  const Finding& worst = *findings.front();
  std::string text = fmt::format("{} ({}, {})", without_full_stop(worst.sentence), worst.id, certainty_words(worst));
  std::vector<std::string> others;
  for (const Finding* finding : findings) {
    const bool named = finding->id == worst.id || std::find(others.begin(), others.end(), finding->id) != others.end();
    if (!named) others.push_back(finding->id);
  }
  if (!others.empty()) text += "; " + listed(others);
  return text + "; ";
}

std::string finding_as_text(const Finding& finding, std::size_t width) {
  std::string text = "\n" + folded(name_of(status_of(finding)),
                                   fmt::format("{} ({}); {}", finding.title, finding.id, certainty_words(finding)),
                                   kCheckColumn, width);
  text += folded("", finding.sentence, kCheckColumn, width);
  text += remedy_as_text(steps_of(finding), kCheckColumn, width);
  return text + folded("  verify", finding.remedy.verify, kCheckColumn, width);
}

/// Rules that were checked and found nothing.
std::vector<std::string> silent_rules(const NodeCheck& check) {
  std::vector<std::string> ids;
  for (const std::string& id : check.asked) {
    const bool spoke = std::any_of(check.findings.begin(), check.findings.end(),
                                   [&](const Finding& finding) { return finding.id == id; });
    if (!spoke) ids.push_back(id);
  }
  return ids;
}

Json check_json(NodeStatus status, const std::string& line) {
  return {{"schema", kCheckSchema},
          {"tool_version", REVEAL_VERSION},
          {"status", name_of(status)},
          {"exit_status", exit_status_of(status)},
          {"summary", line}};
}

template <typename Item>
Json list_of(const std::vector<Item>& items) {
  Json list = Json::array();
  for (const Item& item : items) list.push_back(JsonWriter::whole(item));
  return list;
}

/// Names of nodes, folders and devices come from a trace, which may be somebody else's.
std::string printable_lines(std::string_view text) {
  constexpr std::size_t kLongest = 1000;
  std::string shown;
  for (std::string_view line; next_line(text, line);) shown += printable(line, kLongest) + "\n";
  return shown;
}

std::string gauge_of(std::string_view name, std::string_view help, double value) {
  Gauge gauge(name, "", help);
  gauge.add({}, value);
  return gauge.text();
}

std::string status_metric(NodeStatus status, std::int64_t utc_ns) {
  return gauge_of("reveal_check_status", "Result of reveal check: 0 ok, 1 warning, 2 critical, 3 unknown.",
                  exit_status_of(status)) +
         gauge_of("reveal_check_time_seconds", "Unix time of the last check.",
                  std::nearbyint(static_cast<double>(utc_ns) / kSecond));
}

}  // namespace

std::string check_line(const NodeCheck& check) {
  return for_monitoring(fmt::format("{} - {}{}", upper_name_of(status_of(check)), words_of(check), counts_of(check)));
}

std::string unknown_line(std::string_view why) {
  return for_monitoring(fmt::format("UNKNOWN - {}", why));
}

std::string check_as_text(const NodeCheck& check, std::size_t width) {
  std::string text = check_line(check) + "\n";
  for (const Finding& finding : check.findings) text += finding_as_text(finding, width);
  const std::vector<std::string> ids = silent_rules(check);
  text += "\n" + folded("ok", ids.empty() ? "none" : listed(ids, ids.size()), kCheckColumn, width);
  std::string label = "not possible";
  for (const NotChecked& one : check.not_checked) {
    text += folded(label, one.rule + ": " + one.reason, kCheckColumn, width);
    label.clear();
  }
  return printable_lines(text);
}

std::string check_as_json(const NodeCheck& check) {
  Json json = check_json(status_of(check), check_line(check));
  JsonWriter writer(json);
  writer("node", check.node);
  writer.time("time", check.utc_ns);
  writer("asked", check.asked);
  json["findings"] = list_of(check.findings);
  json["not_checked"] = list_of(check.not_checked);
  return json_text(json, 2) + "\n";
}

std::string unknown_as_json(std::string_view why) {
  return json_text(check_json(NodeStatus::unknown, unknown_line(why)), 2) + "\n";
}

std::string check_as_metrics(const NodeCheck& check) {
  std::map<std::string_view, NodeStatus> worst;
  for (const std::string& id : check.asked) worst[id] = NodeStatus::ok;
  for (const Finding& finding : check.findings) worst[finding.id] = std::max(worst[finding.id], status_of(finding));
  Gauge rules("reveal_check_rule_status", "",
              "Result of each rule that could be evaluated: 0 ok, 1 warning, 2 critical.");
  for (const auto& [id, status] : worst) rules.add({{"rule", id}}, exit_status_of(status));
  return status_metric(status_of(check), check.utc_ns) + rules.text() +
         gauge_of("reveal_check_rules_not_possible", "Rules that could not be evaluated on this node.",
                  static_cast<double>(check.not_checked.size()));
}

std::string unknown_as_metrics(std::int64_t utc_ns) {
  return status_metric(NodeStatus::unknown, utc_ns);
}

}  // namespace reveal
