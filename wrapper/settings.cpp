#include "wrapper/settings.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

using namespace std::chrono_literals;

bool truth(std::string_view value) {
  if (value == "true" || value == "1" || value == "yes" || value == "on") return true;
  if (value == "false" || value == "0" || value == "no" || value == "off") return false;
  throw Error("\"" + std::string(value) + "\" is neither true nor false");
}

void apply_output(Settings& settings, std::string_view value) {
  static_cast<void>(expand_pattern(value, [](const char*) { return std::string(); }));
  if (value.empty()) throw Error("the directory has no name");
  settings.output = value;
}

void apply_interval(Settings& settings, std::string_view value) {
  const auto interval = parse_duration(value);
  if (!interval) throw Error("\"" + std::string(value) + "\" is not a time such as 100ms or 1s");
  if (*interval < 10ms || *interval > 60s) throw Error(std::string(value) + " is outside 10ms to 60s");
  settings.interval = value;
}

void apply_tag(Settings& settings, std::string_view value) {
  const std::size_t equals = value.find('=');
  if (equals == 0 || equals == std::string_view::npos) throw Error("\"" + std::string(value) + "\" is not key=value");
  const std::string key(value.substr(0, equals));
  std::erase_if(settings.tags, [&](const auto& tag) { return tag.first == key; });
  settings.tags.emplace_back(key, value.substr(equals + 1));
}

void apply_metrics(Settings& settings, std::string_view value) {
  settings.metrics = value;
  if (::access(settings.metrics.c_str(), R_OK) != 0) throw system_error(settings.metrics, errno);
}

void apply_retain(Settings& settings, std::string_view value) {
  constexpr std::string_view kRolling = "rolling=";
  const auto kept = value.starts_with(kRolling) ? parse_duration(value.substr(kRolling.size())) : std::nullopt;
  if (value != "full" && value != kRetainSummary && kept.value_or(0s) < 1min) {
    throw Error("\"" + std::string(value) + "\" is neither full, summary nor rolling=TIME of at least a minute");
  }
  settings.retain = value == "full" ? "" : value;
}

void apply_report_limit(Settings& settings, std::string_view value) {
  const auto limit = parse_duration(value);
  if (!limit) throw Error("\"" + std::string(value) + "\" is not a time such as 20s or 2min");
  if (*limit < 1s || *limit > 24h) throw Error(std::string(value) + " is outside 1s to 24h");
  settings.report_limit = std::chrono::duration_cast<std::chrono::milliseconds>(*limit);
}

constexpr SettingSpec kSettings[] = {
    {"output", "--output", "DIR", "REVEAL_OUTPUT", SettingForm::value,
     "Directory of the traces and the report; may contain Slurm's %j %x %u %A %a", apply_output},
    {"node", "--node", "NAME", "REVEAL_NODE", SettingForm::value,
     "Name of this node (default: Slurm's name for it, else the host name)",
     [](Settings& settings, std::string_view value) { settings.node = value; }},
    {"interval", "--interval", "TIME", "REVEAL_INTERVAL", SettingForm::value, "Time between samples (default 100ms)",
     apply_interval},
    {"mail", "--mail", "ADDR", "REVEAL_MAIL", SettingForm::value, "Send the report to this address",
     [](Settings& settings, std::string_view value) { settings.mail = value; }},
    {"probes", "--probes", "A,B", "REVEAL_PROBES", SettingForm::value,
     "Only these probes (`reveal probes` lists them; default: all)",
     [](Settings& settings, std::string_view value) { settings.probes = value; }},
    {"metrics", "--metrics", "FILE", "REVEAL_METRICS", SettingForm::value,
     "Record what this file names (`reveal-collect --help` describes it)", apply_metrics},
    {"retain", "--retain", "FORM", "REVEAL_RETAIN", SettingForm::value,
     "What to keep: full (default), rolling=30min (the last minutes), summary (one row a minute, after the report)",
     apply_retain},
    {"name", "--name", "TEXT", "REVEAL_NAME", SettingForm::value,
     "Compare with earlier runs of this name (default: of the same command)",
     [](Settings& settings, std::string_view value) { settings.name = value; }},
    {"tag", "--tag", "KEY=VALUE", "REVEAL_TAG", SettingForm::list, "Label this run; may be repeated", apply_tag},
    {"report", "--no-report", "", "REVEAL_REPORT", SettingForm::turns_off, "Record only, analyse later",
     [](Settings& settings, std::string_view value) { settings.report = truth(value); }},
    {"report_limit", "--report-limit", "TIME", "REVEAL_REPORT_LIMIT", SettingForm::value,
     "Longest time from the end of the command to the prompt (default 20s)", apply_report_limit},
    {"quiet", "--quiet", "", "REVEAL_QUIET", SettingForm::turns_on, "Print nothing, neither the report nor warnings",
     [](Settings& settings, std::string_view value) { settings.quiet = truth(value); }},
};

std::vector<std::string_view> split_at_commas(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    if (comma > 0) parts.push_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

}  // namespace

std::span<const SettingSpec> setting_specs() noexcept {
  return kSettings;
}

std::vector<std::string> apply_config(std::span<const ConfigLine> lines, const std::string& place, Settings& settings) {
  std::vector<std::string> complaints;
  std::vector<std::string> known;
  for (const SettingSpec& spec : kSettings) known.emplace_back(spec.key);
  for (const ConfigLine& line : lines) {
    const auto* spec = std::find_if(std::begin(kSettings), std::end(kSettings),
                                    [&](const SettingSpec& each) { return line.key == each.key; });
    if (spec == std::end(kSettings)) {
      const auto meant = nearest(line.key, known);
      complaints.push_back(place + ": unknown key \"" + line.key + "\" in [run]" +
                           (meant ? "; did you mean \"" + *meant + "\"?" : ""));
      continue;
    }
    std::string joined;
    for (const std::string& value : line.values) joined += (joined.empty() ? "" : ",") + value;
    try {
      if (spec->form == SettingForm::list) {
        for (const std::string& value : line.values) spec->apply(settings, value);
      } else {
        spec->apply(settings, joined);
      }
    } catch (const Error& error) {
      complaints.push_back(place + ": " + line.key + ": " + error.what());
    }
  }
  return complaints;
}

std::vector<std::string> apply_environment(const Environment& environment, Settings& settings) {
  std::vector<std::string> complaints;
  for (const SettingSpec& spec : kSettings) {
    const std::string value = environment(spec.environment);
    if (value.empty()) continue;
    try {
      if (spec.form == SettingForm::list) {
        for (const std::string_view part : split_at_commas(value)) spec.apply(settings, part);
      } else {
        spec.apply(settings, value);
      }
    } catch (const Error& error) {
      complaints.push_back(std::string(spec.environment) + ": " + error.what());
    }
  }
  return complaints;
}

}  // namespace reveal
