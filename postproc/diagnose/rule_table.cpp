#include "postproc/diagnose/rule_table.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace reveal {
namespace {

using Json = nlohmann::ordered_json;

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

Json texts_of(const std::vector<RemedyLine>& lines) {
  Json texts = Json::array();
  for (const RemedyLine& line : lines) texts.push_back(line.text);
  return texts;
}

}  // namespace

std::string rules_as_text(const AnalysisSettings& settings) {
  std::string text;
  for (const RuleSpec* spec : rules()) {
    const RuleSetting* setting = settings.find(spec->id);
    text += fmt::format("{}{}\n  {}\n", spec->id, setting != nullptr && !setting->enabled ? "  (switched off)" : "",
                        spec->title);
    text +=
        fmt::format("  {}, {}; proven by: {}\n", name_of(spec->kind), name_of(spec->subsystem), name_of(spec->proof));
    if (!spec->look_alikes.empty()) text += fmt::format("  tested before it speaks: {}\n", spec->look_alikes);
    for (const Threshold& threshold : spec->thresholds) {
      const auto [own, value] = in_force(threshold, setting);
      text += fmt::format("    {:<20} {:>6} {:<9} {}{}\n", own.name, fmt::format("{}", value), own.unit, own.help,
                          value != own.value ? fmt::format(" (changed here, default {})", own.value) : "");
    }
    for (const std::string_view source : spec->sources) text += fmt::format("  see {}\n", source);
    text += "\n";
  }
  text += "Change a threshold in reveal.conf:  [rule.\"cpu.outsider\"]  min_cpu = 0.2   or   enabled = false\n";
  return text;
}

std::string rules_as_json(const AnalysisSettings& settings) {
  Json all = Json::array();
  for (const RuleSpec* spec : rules()) {
    const RuleSetting* setting = settings.find(spec->id);
    Json rule;
    rule["id"] = spec->id;
    rule["title"] = spec->title;
    rule["enabled"] = setting == nullptr || setting->enabled;
    rule["kind"] = name_of(spec->kind);
    rule["subsystem"] = name_of(spec->subsystem);
    rule["order"] = spec->order;
    rule["proof"] = name_of(spec->proof);
    Json look_alikes = Json::array();
    for (std::string_view rest = spec->look_alikes; !rest.empty();) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      look_alikes.push_back(rest.substr(0, comma));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    rule["look_alikes"] = std::move(look_alikes);
    rule["thresholds"] = Json::array();
    for (const Threshold& threshold : spec->thresholds) {
      const auto [own, value] = in_force(threshold, setting);
      rule["thresholds"].push_back(
          {{"name", own.name}, {"value", value}, {"default", own.value}, {"unit", own.unit}, {"help", own.help}});
    }
    rule["remedy"] = {{"user", texts_of(spec->user_remedy)},
                      {"advice", texts_of(spec->advice)},
                      {"admin", texts_of(spec->admin_remedy)},
                      {"verify", spec->verify}};
    rule["sources"] = spec->sources;
    all.push_back(std::move(rule));
  }
  return Json{{"schema", "reveal.rules/1"}, {"rules", std::move(all)}}.dump(2) + "\n";
}

}  // namespace reveal
