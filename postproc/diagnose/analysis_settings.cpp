#include "postproc/diagnose/analysis_settings.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>

#include "hdf5schema/basics/config_file.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "hdf5schema/version.h"
#include "postproc/detect/pipeline.h"
#include "postproc/telemetry/publish.h"

namespace reveal {
namespace {

constexpr std::size_t kLargestConfig = 1 << 20;
constexpr std::string_view kSections[] = {"report", "rule"};

void set_rule(RuleSetting& setting, const RuleSpec& spec, const ConfigFile& config, const ConfigEntry& entry) {
  if (entry.key == "enabled") {
    setting.enabled = config.truth(entry);
    return;
  }
  const auto known = std::find_if(spec.thresholds.begin(), spec.thresholds.end(),
                                  [&](const Threshold& threshold) { return threshold.name == entry.key; });
  if (known == spec.thresholds.end()) {
    std::vector<std::string> names{"enabled"};
    for (const Threshold& threshold : spec.thresholds) names.emplace_back(threshold.name);
    throw config.unknown_key(entry, names);
  }
  const std::string& value = config.single(entry);
  double number = 0;
  const auto [end, failure] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (failure != std::errc() || end != value.data() + value.size() || !(number >= 0 && number < 1e18)) {
    throw config.error(entry.line, fmt::format("\"{}\" is a number, in {}", entry.key, known->unit));
  }
  std::erase_if(setting.thresholds, [&](const auto& old) { return old.name == entry.key; });
  setting.thresholds.push_back({entry.key, number});
}

void set_report(AnalysisSettings& settings, const ConfigFile& config, const ConfigEntry& entry) {
  if (entry.key == "history") {
    settings.history = config.truth(entry);
    return;
  }
  if (entry.key != "pipeline") throw config.unknown_key(entry, std::vector<std::string>{"pipeline", "history"});
  try {
    settings.pipeline = find_pipeline(config.single(entry)).name;
  } catch (const Error& error) {
    throw config.error(entry.line, error.what());
  }
}

const RuleSpec& rule_of(const ConfigFile& config, const std::string& section, int line) {
  const std::string id(config_subject(section));
  if (const RuleSpec* rule = find_rule(id)) return *rule;
  std::vector<std::string> ids;
  for (const RuleSpec* known : rules()) ids.emplace_back(known->id);
  const auto near = nearest(id, ids);
  throw config.error(
      line, fmt::format("unknown rule \"{}\"{}", id, near ? fmt::format("; did you mean \"{}\"?", *near) : ""));
}

}  // namespace

const RuleSetting* AnalysisSettings::find(std::string_view rule) const {
  for (const RuleSetting& setting : rules) {
    if (setting.rule == rule) return &setting;
  }
  return nullptr;
}

void apply_analysis_config(AnalysisSettings& settings, std::string_view text, const std::string& file) {
  const ConfigFile config = parse_config(text, file);
  config.require(kSections);
  for (const ConfigSection& section : config.sections) {
    if (config_family(section.name) == "rule") static_cast<void>(rule_of(config, section.name, section.line));
  }
  for (const ConfigEntry& entry : config.entries) {
    if (entry.section == "report") {
      set_report(settings, config, entry);
      continue;
    }
    if (config_family(entry.section) != "rule") continue;  // another program's
    const RuleSpec& rule = rule_of(config, entry.section, entry.line);
    auto setting = std::find_if(settings.rules.begin(), settings.rules.end(),
                                [&](const RuleSetting& known) { return known.rule == rule.id; });
    if (setting == settings.rules.end()) {
      settings.rules.push_back({.rule = std::string(rule.id)});
      setting = settings.rules.end() - 1;
    }
    set_rule(*setting, rule, config, entry);
  }
}

AnalysisSettings load_analysis_settings(const std::vector<std::filesystem::path>& files) {
  AnalysisSettings settings;
  for (const auto& file : files) {
    std::error_code error;
    if (!std::filesystem::exists(file, error)) continue;
    apply_analysis_config(settings, read_text_file(file, kLargestConfig), file.string());
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
