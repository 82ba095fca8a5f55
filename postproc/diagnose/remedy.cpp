#include "postproc/diagnose/remedy.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "hdf5schema/basics/program_name.h"
#include "postproc/diagnose/rule.h"
#include "postproc/words/lists.h"

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

constexpr std::string_view kComment = "  # ";
constexpr std::string_view kQuote = "'";
/// Values that change while the job's findings are put together.
constexpr std::string_view kJobWide[] = {"node", "nodes", "peer"};

/// Names come from the job: a name that a shell would take for more than a word, or a program for an option, is not put
/// into a line to be typed.
bool is_plain(char letter) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+,/:@%=-";
  return kLetters.find(letter) != std::string_view::npos;
}

/// A list of nodes has brackets, which a shell takes for a pattern unless they are quoted.
bool is_listed(char letter) {
  return letter == '[' || letter == ']' || is_plain(letter);
}

/// A longer list of nodes is nothing to be typed.
constexpr std::size_t kLongest = 2000;

bool is_word(std::string_view value, bool (&allowed)(char)) {
  return !value.empty() && value.front() != '-' && value.size() <= kLongest &&
         std::all_of(value.begin(), value.end(), allowed);
}

/// As it stands in a line, in quotes where a shell needs them; nothing if it must not stand there.
std::optional<std::string> as_typed(std::string_view value, bool in_comment) {
  if (is_word(value, is_plain) || (in_comment && is_word(value, is_listed))) return std::string(value);
  if (!is_word(value, is_listed)) return std::nullopt;
  return std::string(kQuote).append(value).append(kQuote);
}

/// The next "{name}" in a row of the table.
struct Blank {
  std::string_view before;
  std::string_view name;
  std::string_view after;
};

std::optional<Blank> next_blank(std::string_view text) {
  const std::size_t open = text.find('{');
  const std::size_t close = text.find('}', std::min(open, text.size()));
  if (open == std::string_view::npos || close == std::string_view::npos) return std::nullopt;
  return Blank{text.substr(0, open), text.substr(open + 1, close - open - 1), text.substr(close + 1)};
}

bool has_comment(std::string_view text) {
  return text.find(kComment) != std::string_view::npos;
}

/// A sentence is read, as a comment is.
bool is_sentence(std::string_view text) {
  return text.ends_with('.');
}

/// Nothing when a value is not known.
std::optional<std::string> filled(std::string_view text, const JobValues& values) {
  std::string line;
  bool in_comment = is_sentence(text);
  while (const auto blank = next_blank(text)) {
    in_comment = in_comment || has_comment(blank->before);
    const auto value = values.find(blank->name);
    const auto typed = value == values.end() ? std::nullopt : as_typed(value->second, in_comment);
    if (!typed) return std::nullopt;
    line.append(blank->before).append(*typed);
    text = blank->after;
  }
  return line.append(text);
}

/// Whether the line is `text` with values in its blanks, which `values` gets.
bool was_filled(std::string_view line, std::string_view text, bool in_comment, JobValues& values) {
  const auto blank = next_blank(text);
  if (!blank) return line == text;
  if (!line.starts_with(blank->before)) return false;
  in_comment = in_comment || has_comment(blank->before);
  line.remove_prefix(blank->before.size());
  const auto goes_on = [&](std::string_view value, std::size_t typed) {
    if (!was_filled(line.substr(typed), blank->after, in_comment, values)) return false;
    values.insert_or_assign(std::string(blank->name), std::string(value));
    return true;
  };
  if (line.starts_with(kQuote)) {
    const std::size_t end = line.find(kQuote, 1);
    if (end == std::string_view::npos) return false;
    const std::string_view value = line.substr(1, end - 1);
    return is_word(value, is_listed) && !is_word(value, is_plain) && goes_on(value, value.size() + 2);
  }
  const auto allowed = in_comment ? is_listed : is_plain;
  if (line.starts_with('-')) return false;
  for (std::size_t size = 1; size <= std::min(line.size(), kLongest) && allowed(line[size - 1]); ++size) {
    if (goes_on(line.substr(0, size), size)) return true;
  }
  return false;
}

std::optional<JobValues> values_in(std::string_view line, const RemedyLine& row) {
  JobValues values;
  if (!was_filled(line, row.text, is_sentence(row.text), values)) return std::nullopt;
  return values;
}

bool names(const RemedyLine& row, std::string_view value) {
  return row.text.find("{" + std::string(value) + "}") != std::string_view::npos;
}

bool is_job_wide(const RemedyLine& row) {
  return std::any_of(std::begin(kJobWide), std::end(kJobWide),
                     [&row](std::string_view name) { return names(row, name); });
}

/// The unchanged line if no row made it; no line if it can no longer be filled.
std::optional<std::string> filled_again(const std::string& line, std::span<const RemedyLine> table,
                                        const JobValues& job_wide) {
  for (const RemedyLine& row : table) {
    auto values = is_job_wide(row) ? values_in(line, row) : std::nullopt;
    if (!values) continue;
    for (const std::string_view name : kJobWide) {
      values->erase(std::string(name));
      if (const auto now = job_wide.find(name); now != job_wide.end()) values->insert(*now);
    }
    return filled(row.text, *values);
  }
  return line;
}

/// The values with each part of one that has several, if the row names it.
std::vector<JobValues> one_at_a_time(const RemedyLine& row, const JobValues& values) {
  for (const auto& [name, value] : values) {
    if (value.find('\n') == std::string::npos || !names(row, name)) continue;
    std::vector<JobValues> all;
    for (std::size_t begin = 0; begin <= value.size();) {
      const std::size_t end = std::min(value.find('\n', begin), value.size());
      all.emplace_back(values)[name] = value.substr(begin, end - begin);
      begin = end + 1;
    }
    return all;
  }
  return {values};
}

/// `follows`: something stands before the list, to which its first line may be an alternative.
std::vector<RemedyStep> steps_in(const std::vector<std::string>& lines, std::span<const RemedyLine> table,
                                 bool follows) {
  std::vector<RemedyStep> steps;
  steps.reserve(lines.size());
  for (const std::string& line : lines) {
    const auto row = std::find_if(table.begin(), table.end(),
                                  [&](const RemedyLine& one) { return values_in(line, one).has_value(); });
    const StepKind kind = row == table.end() ? StepKind::next : row->kind;
    // A change is none to a look.
    const bool has_other = steps.empty() ? follows : is_change(steps.back().text) == is_change(line);
    steps.emplace_back(line, kind == StepKind::alternative && !has_other ? StepKind::next : kind);
  }
  return steps;
}

bool changes_the_job(const std::string& line) {
  const LineForm form = form_of(line);
  return form == LineForm::job_script || form == LineForm::before_program;
}

/// The node that the sentence of a finding of several nodes is about: its evidence comes first.
const std::string& told_node(const Finding& finding) {
  if (!finding.evidence.empty()) {
    const auto told = std::find(finding.nodes.begin(), finding.nodes.end(), finding.evidence.front().node);
    if (told != finding.nodes.end()) return *told;
  }
  return finding.nodes.front();
}

}  // namespace

bool is_one_of(std::string_view line, std::span<const RemedyLine> lines) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const RemedyLine& row) { return values_in(line, row).has_value(); });
}

std::vector<std::string> lines_for(std::span<const RemedyLine> lines, const JobValues& values) {
  std::vector<std::string> kept;
  for (const RemedyLine& line : lines) {
    if (!applies(line, values)) continue;
    for (const JobValues& each : one_at_a_time(line, values)) {
      if (auto text = filled(line.text, each)) kept.push_back(*std::move(text));
    }
  }
  return kept;
}

void fill_again(std::vector<std::string>& lines, std::span<const RemedyLine> table, const JobValues& job_wide) {
  std::vector<std::string> kept;
  kept.reserve(lines.size());
  for (const std::string& line : lines) {
    if (auto again = filled_again(line, table, job_wide)) kept.push_back(*std::move(again));
  }
  lines = std::move(kept);
}

Remedy remedy_for(const RuleSpec& rule, const JobValues& values) {
  std::vector<std::string> admin = lines_for(rule.admin_remedy, values);
  looks_first(admin);
  return {lines_for(rule.user_remedy, values), lines_for(rule.advice, values), std::move(admin), verify_words(rule)};
}

RemedyTexts steps_of(const Finding& finding) {
  const RuleSpec* rule = find_rule(finding.id);
  const auto rows = [rule](std::vector<RemedyLine> RuleSpec::*list) {
    return rule == nullptr ? std::span<const RemedyLine>() : std::span<const RemedyLine>(rule->*list);
  };
  const Remedy& remedy = finding.remedy;
  const bool changes = std::any_of(remedy.user.begin(), remedy.user.end(), changes_the_job);
  return {.user = steps_in(remedy.user, rows(&RuleSpec::user_remedy), false),
          .advice = steps_in(remedy.advice, rows(&RuleSpec::advice), changes),
          .admin = steps_in(remedy.admin, rows(&RuleSpec::admin_remedy), false)};
}

JobValues job_values(const Finding& finding, const RemedyNames& job, JobValues more) {
  if (!job.id.empty()) more["job"] = job.id;
  if (!job.command.empty()) more["command"] = job.command;
  if (job.command.starts_with("python")) more["python"] = job.command;
  if (const std::string process = process_name(job.command); !process.empty()) more["process"] = process;
  if (!finding.nodes.empty()) {
    more["nodes"] = slurm_node_list(finding.nodes);
    more["node"] = told_node(finding);
  }
  const auto peer = std::find_if(job.nodes.begin(), job.nodes.end(), [&](const std::string& node) {
    return std::find(finding.nodes.begin(), finding.nodes.end(), node) == finding.nodes.end();
  });
  if (peer != job.nodes.end()) more.try_emplace("peer", *peer);
  return more;
}

std::string process_name(std::string_view command) {
  constexpr std::size_t kOfKernel = 15;  // the kernel keeps no more of a longer name
  if (is_interpreter(command) && !command.starts_with("python")) return "";
  return std::string(command.substr(0, kOfKernel));
}

}  // namespace reveal
