#include "postproc/diagnose/analysis_settings.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "hdf5schema/version.h"
#include "postproc/detect/pipeline.h"
#include "postproc/merge/publish.h"

namespace reveal {
namespace {

constexpr std::size_t kLargestConfig = 1 << 20;

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::string_view without_comment(std::string_view line) {
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') quoted = !quoted;
    if (line[i] == '#' && !quoted) return line.substr(0, i);
  }
  return line;
}

std::string_view unquoted(std::string_view text) {
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front()) {
    return text.substr(1, text.size() - 2);
  }
  return text;
}

struct Place {
  std::string file;
  int line = 0;

  [[nodiscard]] Error error(const std::string& what) const { return Error(fmt::format("{}:{}: {}", file, line, what)); }

  [[nodiscard]] Error unknown(std::string_view what, std::string_view word, const std::string& section,
                              const std::vector<std::string>& known) const {
    const auto near = nearest(word, known);
    return error(fmt::format("unknown {} \"{}\"{}{}", what, word, section.empty() ? "" : " in [" + section + "]",
                             near ? fmt::format("; did you mean \"{}\"?", *near) : ""));
  }
};

void set_rule(RuleSetting& setting, const RuleSpec& spec, std::string_view key, std::string_view value,
              const std::string& section, const Place& place) {
  if (key == "enabled") {
    if (value != "true" && value != "false") throw place.error("\"enabled\" is true or false");
    setting.enabled = value == "true";
    return;
  }
  const auto known = std::find_if(spec.thresholds.begin(), spec.thresholds.end(),
                                  [key](const Threshold& threshold) { return threshold.name == key; });
  if (known == spec.thresholds.end()) {
    std::vector<std::string> names{"enabled"};
    for (const Threshold& threshold : spec.thresholds) names.emplace_back(threshold.name);
    throw place.unknown("key", key, section, names);
  }
  double number = 0;
  const auto [end, failure] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (failure != std::errc() || end != value.data() + value.size() || !(number >= 0 && number < 1e18)) {
    throw place.error(fmt::format("\"{}\" is a number, in {}", key, known->unit));
  }
  std::erase_if(setting.thresholds, [key](const auto& old) { return old.name == key; });
  setting.thresholds.push_back({std::string(key), number});
}

void set_report(AnalysisSettings& settings, std::string_view key, std::string_view value, const std::string& section,
                const Place& place) {
  if (key != "pipeline") throw place.unknown("key", key, section, {"pipeline"});
  try {
    settings.pipeline = find_pipeline(unquoted(value)).name;
  } catch (const Error& error) {
    throw place.error(error.what());
  }
}

}  // namespace

const RuleSetting* AnalysisSettings::find(std::string_view rule) const {
  for (const RuleSetting& setting : rules) {
    if (setting.rule == rule) return &setting;
  }
  return nullptr;
}

void apply_analysis_config(AnalysisSettings& settings, std::string_view text, const std::string& file) {
  Place place{file};
  std::string section;
  const RuleSpec* rule = nullptr;
  std::string_view line;
  while (next_line(text, line)) {
    ++place.line;
    line = trimmed(without_comment(line));
    if (line.empty()) continue;
    if (line.front() == '[') {
      if (line.back() != ']') throw place.error("a section ends in ]");
      section = trimmed(line.substr(1, line.size() - 2));
      rule = nullptr;
      if (!section.starts_with("rule.")) continue;
      const std::string id(unquoted(std::string_view(section).substr(5)));
      rule = find_rule(id);
      if (rule == nullptr) {
        std::vector<std::string> ids;
        for (const RuleSpec* known : rules()) ids.emplace_back(known->id);
        throw place.unknown("rule", id, "", ids);
      }
      continue;
    }
    if (rule == nullptr && section != "report") continue;  // another program's
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) throw place.error("expected key = value");
    const std::string_view key = trimmed(line.substr(0, equals));
    const std::string_view value = trimmed(line.substr(equals + 1));
    if (rule == nullptr) {
      set_report(settings, key, value, section, place);
      continue;
    }
    auto setting = std::find_if(settings.rules.begin(), settings.rules.end(),
                                [&](const RuleSetting& known) { return known.rule == rule->id; });
    if (setting == settings.rules.end()) {
      settings.rules.push_back({.rule = std::string(rule->id)});
      setting = settings.rules.end() - 1;
    }
    set_rule(*setting, *rule, key, value, section, place);
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
