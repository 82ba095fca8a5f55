#include "postproc/diagnose/rule_table.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <set>

#include "hdf5schema/basics/fold.h"
#include "hdf5schema/basics/text.h"
#include "postproc/json/json_fields.h"

namespace reveal {
namespace {

struct ThresholdInForce {
  const Threshold& own;
  double value;
};

ThresholdInForce in_force(const Threshold& own, const RuleSetting* setting) {
  if (setting != nullptr) {
    for (const auto& site : setting->thresholds) {
      if (site.name == own.name) return {own, site.value};
    }
  }
  return {own, own.value};
}

constexpr std::size_t kColumn = 15;  // column of the text behind a label

std::string row(std::string_view label, std::string_view text, std::size_t width) {
  return text.empty() ? "" : folded("  " + std::string(label), text, kColumn, width);
}

std::string with_blanks(std::string_view list) {
  std::string text;
  for (const char letter : list) text += letter == ',' ? ", " : std::string(1, letter);
  return text;
}

std::string_view unit_in_words(std::string_view unit) {
  return unit == "sd" ? "standard deviations" : unit == "s/s" ? "seconds each second" : unit;
}

std::vector<std::string> texts_of(const std::vector<RemedyLine>& lines) {
  std::vector<std::string> texts;
  texts.reserve(lines.size());
  for (const RemedyLine& line : lines) texts.emplace_back(line.text);
  return texts;
}

std::vector<std::string_view> kinds_in(const std::vector<RemedyLine>& lines) {
  std::vector<std::string_view> names;
  names.reserve(lines.size());
  for (const RemedyLine& line : lines) names.push_back(name_of(line.kind));
  return names;
}

std::vector<RemedyStep> possible_steps(const std::vector<RemedyLine>& lines) {
  std::vector<RemedyStep> steps;
  steps.reserve(lines.size());
  for (const RemedyLine& line : lines) steps.emplace_back(std::string(line.text), line.kind);
  return steps;
}

Json json_of(const RuleSpec& spec, const RuleSetting* setting) {
  Json rule;
  rule["id"] = spec.id;
  rule["title"] = spec.title;
  rule["looks_for"] = spec.looks_for;
  rule["enabled"] = setting == nullptr || setting->enabled;
  rule["kind"] = name_of(spec.kind);
  rule["states"] = name_of(spec.states);
  rule["subsystem"] = name_of(spec.subsystem);
  rule["checks_node"] = spec.checks_node;
  rule["order"] = spec.order;
  rule["proof"] = name_of(spec.proof);
  rule["proof_means"] = explanation_of(spec.proof);
  rule["look_alikes"] = Json::array();
  for (const std::string& look_alike : split_names(spec.look_alikes)) rule["look_alikes"].push_back(look_alike);
  rule["thresholds"] = Json::array();
  for (const Threshold& threshold : spec.thresholds) {
    const auto [own, value] = in_force(threshold, setting);
    rule["thresholds"].push_back(
        {{"name", own.name}, {"value", value}, {"default", own.value}, {"unit", own.unit}, {"help", own.help}});
  }
  rule["remedy"] = {{"user", texts_of(spec.user_remedy)},
                    {"advice", texts_of(spec.advice)},
                    {"admin", texts_of(spec.admin_remedy)},
                    {"verify", verify_words(spec)}};
  rule["remedy_steps"] = {
      {"user", kinds_in(spec.user_remedy)}, {"advice", kinds_in(spec.advice)}, {"admin", kinds_in(spec.admin_remedy)}};
  rule["sources"] = spec.sources;
  return rule;
}

std::string rules_json(Json rules) {
  return json_text({{"schema", "reveal.rules/1"}, {"rules", std::move(rules)}}, 2) + "\n";
}

}  // namespace

std::string rule_as_text(const RuleSpec& rule, const AnalysisSettings& settings, std::size_t width) {
  const RuleSetting* setting = settings.find(rule.id);
  std::string text = folded(std::string(rule.id) + ":", rule.title, 2, width);
  if (setting != nullptr && !setting->enabled) text += "  switched off in reveal.conf\n";
  text += row("looks for", rule.looks_for, width);
  text += row("kind", fmt::format("{}, {}", name_of(rule.kind), name_of(rule.subsystem)), width);
  text += row("states", explanation_of(rule.states), width);
  text += row("evaluated", rule.checks_node ? "in reports, and in reveal check of a node without a job" : "", width);
  text += row("rules out", with_blanks(rule.look_alikes), width);
  RemedyTexts remedy{possible_steps(rule.user_remedy), possible_steps(rule.advice), possible_steps(rule.admin_remedy),
                     true};
  looks_first(remedy.admin);
  text += remedy_as_text(remedy, kColumn, width);
  if (text.find('{') != std::string::npos)
    text += row("", "In braces: values that a report takes from its job.", width);
  text += row("verify", verify_words(rule), width);
  text += row("proven by", explanation_of(rule.proof), width);
  for (const std::string_view source : rule.sources) text += row("see", source, width);
  text += fmt::format("\nIn reveal.conf, with the values in force here:\n  [rule.\"{}\"]\n  enabled = {}\n", rule.id,
                      setting == nullptr || setting->enabled);
  for (const Threshold& threshold : rule.thresholds) {
    const auto [own, value] = in_force(threshold, setting);
    const std::string changed = value != own.value ? fmt::format(" (default {})", own.value) : "";
    text += commented(fmt::format("  {} = {}", own.name, value),
                      fmt::format("{}: {}{}", unit_in_words(own.unit), own.help, changed), 32, width);
  }
  return text;
}

std::string rule_as_json(const RuleSpec& rule, const AnalysisSettings& settings) {
  return rules_json(Json::array({json_of(rule, settings.find(rule.id))}));
}

std::string_view family_of(std::string_view id) {
  return id.substr(0, id.find('.'));
}

std::vector<std::string> rule_families() {
  std::set<std::string_view> families;
  for (const RuleSpec* spec : rules()) families.insert(family_of(spec->id));
  return {families.begin(), families.end()};
}

std::string rules_as_text(const AnalysisSettings& settings, std::size_t width, std::string_view wanted) {
  std::size_t column = 0;
  for (const RuleSpec* spec : rules()) column = std::max(column, spec->id.size() + 2);
  std::string text;
  for (const std::string& family : rule_families()) {
    if (!wanted.empty() && family != wanted) continue;
    if (!text.empty()) text += '\n';
    for (const RuleSpec* spec : rules()) {
      if (family_of(spec->id) != family) continue;
      const RuleSetting* setting = settings.find(spec->id);
      std::string title(spec->title);
      if (spec->checks_node) title += " [check]";
      if (setting != nullptr && !setting->enabled) {
        title += " (switched off)";
      } else if (setting != nullptr && !setting->thresholds.empty()) {
        title += " (thresholds changed)";
      }
      text += folded(std::string(spec->id), title, column, width);
    }
  }
  text +=
      "\n" + folded("",
                    "`reveal rules ID` explains one rule: its signal, what it rules out, its remedy, its thresholds "
                    "and how it was proven. `reveal rules net` lists one family. [check]: `reveal check` looks for it, "
                    "too, on a node without a job.",
                    0, width);
  text += "In reveal.conf:  [rule.\"cpu.outsider\"]  min_cpu = 0.2   or   enabled = false\n";
  return text;
}

std::string rules_as_json(const AnalysisSettings& settings, std::string_view wanted) {
  Json all = Json::array();
  for (const RuleSpec* spec : rules()) {
    if (wanted.empty() || family_of(spec->id) == wanted) all.push_back(json_of(*spec, settings.find(spec->id)));
  }
  return rules_json(std::move(all));
}

}  // namespace reveal
