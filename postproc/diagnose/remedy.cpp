#include "postproc/diagnose/remedy.h"

#include <algorithm>
#include <optional>

#include "postproc/diagnose/rule.h"

namespace reveal {
namespace {

bool applies(const RemedyLine& line, const JobValues& values) {
  for (std::string_view left = line.needs; !left.empty();) {
    const std::string_view need = left.substr(0, left.find(','));
    left.remove_prefix(std::min(left.size(), need.size() + 1));
    const bool absent = need.starts_with('!');
    if (values.contains(need.substr(absent ? 1 : 0)) == absent) return false;
  }
  return true;
}

/// Names come from the job: what a shell would take for more than a word, or a program for an option, is not put into a
/// line to be typed.
bool is_plain(std::string_view value) {
  constexpr std::size_t kLongest = 200;
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+,/:@%=-";
  return !value.empty() && value.front() != '-' && value.size() <= kLongest &&
         value.find_first_not_of(kLetters) == std::string_view::npos;
}

/// Nothing when a value is not known.
std::optional<std::string> filled(std::string_view text, const JobValues& values) {
  std::string line;
  while (true) {
    const std::size_t open = text.find('{');
    const std::size_t close = text.find('}', std::min(open, text.size()));
    if (open == std::string_view::npos || close == std::string_view::npos) return line.append(text);
    const auto value = values.find(text.substr(open + 1, close - open - 1));
    if (value == values.end() || !is_plain(value->second)) return std::nullopt;
    line.append(text.substr(0, open)).append(value->second);
    text.remove_prefix(close + 1);
  }
}

bool is_filled(std::string_view line, std::string_view text) {
  const std::size_t open = text.find('{');
  const std::size_t close = text.find('}', std::min(open, text.size()));
  if (open == std::string_view::npos || close == std::string_view::npos) return line == text;
  if (!line.starts_with(text.substr(0, open))) return false;
  line.remove_prefix(open);
  text.remove_prefix(close + 1);
  for (std::size_t size = 1; size <= line.size() && is_plain(line.substr(0, size)); ++size) {
    if (is_filled(line.substr(size), text)) return true;
  }
  return false;
}

}  // namespace

bool is_one_of(std::string_view line, std::span<const RemedyLine> lines) {
  return std::any_of(lines.begin(), lines.end(), [&](const RemedyLine& row) { return is_filled(line, row.text); });
}

std::vector<std::string> lines_for(std::span<const RemedyLine> lines, const JobValues& values) {
  std::vector<std::string> kept;
  for (const RemedyLine& line : lines) {
    if (!applies(line, values)) continue;
    if (auto text = filled(line.text, values)) kept.push_back(*std::move(text));
  }
  return kept;
}

Remedy remedy_for(const RuleSpec& rule, const JobValues& values) {
  return {lines_for(rule.user_remedy, values), lines_for(rule.advice, values), lines_for(rule.admin_remedy, values),
          std::string(rule.verify)};
}

JobValues job_values(const Finding& finding, const RemedyNames& job, JobValues more) {
  if (!job.id.empty()) more["job"] = job.id;
  if (!job.command.empty()) more["command"] = job.command;
  std::string nodes;
  for (const std::string& node : finding.nodes) nodes += (nodes.empty() ? "" : ",") + node;
  if (!nodes.empty()) more["nodes"] = nodes;
  if (!finding.nodes.empty()) more["node"] = finding.nodes.front();
  const auto peer = std::find_if(job.nodes.begin(), job.nodes.end(), [&](const std::string& node) {
    return std::find(finding.nodes.begin(), finding.nodes.end(), node) == finding.nodes.end();
  });
  if (peer != job.nodes.end()) more["peer"] = *peer;
  return more;
}

}  // namespace reveal
