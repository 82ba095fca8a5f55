#include "postproc/diagnose/analysis_settings.h"

#include <spdlog/fmt/fmt.h>

#include <deque>
#include <map>
#include <span>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/version.h"
#include "postproc/detect/pipeline.h"

namespace reveal {
namespace {

/// [rule."ID"], made of the rule table once.
struct RuleKeys {
  std::string section;
  std::deque<std::string> fallbacks;
  std::vector<ConfigKey> keys;
};

RuleKeys keys_of_rule(const RuleSpec& rule, std::string_view id) {
  RuleKeys made{.section = fmt::format("rule.\"{}\"", id), .fallbacks = {}, .keys = {}};
  made.keys.push_back({"", "enabled", ConfigForm::truth, "true", "Whether this rule is evaluated"});
  for (const Threshold& threshold : rule.thresholds) {
    const std::string& fallback = made.fallbacks.emplace_back(fmt::format("{}", threshold.value));
    made.keys.push_back(
        {"", threshold.name, ConfigForm::number, fallback, threshold.help, "", "", threshold.unit, std::nullopt});
  }
  return made;
}

std::span<const ConfigKey> rule_keys(std::string_view id) {
  static const std::map<std::string, RuleKeys, std::less<>> all = [] {
    std::map<std::string, RuleKeys, std::less<>> keys;
    for (const RuleSpec* rule : rules()) {
      keys.emplace(rule->id, keys_of_rule(*rule, rule->id));
      if (!rule->former_id.empty()) keys.emplace(rule->former_id, keys_of_rule(*rule, rule->former_id));
    }
    for (auto& [rule, made] : keys) {
      for (ConfigKey& key : made.keys) key.section = made.section;
    }
    return keys;
  }();
  const auto rule = all.find(id);
  return rule == all.end() ? std::span<const ConfigKey>() : rule->second.keys;
}

std::vector<std::string> rule_names() {
  std::vector<std::string> names;
  for (const RuleSpec* rule : rules()) names.emplace_back(rule->id);
  return names;
}

const RegisteredConfigSubjects kRuleSubjects{{"rule", rule_names, rule_keys}};

std::string mistake_in_pipeline(const std::vector<std::string>& values) {
  try {
    static_cast<void>(find_pipeline(values.front()));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}
const RegisteredConfigCheck kPipelineCheck{config_key("report", "pipeline"), mistake_in_pipeline};

/// The settings from the file; the rest is the rule's own. The section with its present id comes before one with the
/// former.
RuleSetting rule_setting(const RuleSpec& rule, const Config& config) {
  RuleSetting setting{.rule = std::string(rule.id), .thresholds = {}};
  for (const std::string_view id : {rule.id, rule.former_id}) {
    for (const ConfigKey& key : rule_keys(id)) {
      if (key.form == ConfigForm::truth) {
        setting.enabled = setting.enabled && config.truth(key);
      } else if (!config.place(key).empty()) {
        setting.thresholds.push_back({std::string(key.key), config.number(key)});
      }
    }
  }
  return setting;
}

}  // namespace

const RuleSetting* AnalysisSettings::find(std::string_view rule) const {
  for (const RuleSetting& setting : rules) {
    if (setting.rule == rule) return &setting;
  }
  return nullptr;
}

Mute parse_mute(const std::string& text) {
  const std::size_t at = text.find('@');
  return {.rule = text.substr(0, at),
          .node = at == std::string::npos ? "*" : text.substr(at + 1),
          .text = text,
          .place = ""};
}

AnalysisSettings analysis_settings(const Config& config) {
  AnalysisSettings settings;
  settings.pipeline = find_pipeline(config.text(config_key("report", "pipeline"))).name;
  settings.history = config.truth(config_key("report", "history"));
  const ConfigKey& mute = config_key("report", "mute");
  for (const std::string& text : config.list(mute)) {
    settings.mutes.push_back(parse_mute(text));
    settings.mutes.back().place = config.place(mute);
  }
  for (const RuleSpec* rule : rules()) {
    RuleSetting setting = rule_setting(*rule, config);
    if (!setting.enabled || !setting.thresholds.empty()) settings.rules.push_back(std::move(setting));
  }
  return settings;
}

std::string config_hash(const AnalysisSettings& settings) {
  std::string text = REVEAL_VERSION "\n" + settings.pipeline;
  for (const RuleSpec* spec : rules()) {
    const RuleSetting* setting = settings.find(spec->id);
    text += fmt::format("\n{} {}", spec->id, setting == nullptr || setting->enabled);
    for (const Threshold& threshold : spec->thresholds) text += fmt::format(" {}={}", threshold.name, threshold.value);
    if (setting == nullptr) continue;
    for (const auto& threshold : setting->thresholds) text += fmt::format(" {}={}", threshold.name, threshold.value);
  }
  return text_hash(text);
}

std::string text_hash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return fmt::format("{:016x}", hash);
}

}  // namespace reveal
