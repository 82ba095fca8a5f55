// What reveal-run was asked for. The table of settings is the one place that knows their names: command line,
// REVEAL_* environment and reveal.conf are read from it, each stronger than the next.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hdf5schema/basics/file_pattern.h"

namespace reveal {

constexpr std::string_view kRetainSummary = "summary";

struct Settings {
  std::string output;  // a pattern, see expand_pattern; "": the default directory
  std::string node;    // "": SLURMD_NODENAME, else the host name
  std::string interval = "100ms";
  std::string mail;
  std::string name;     // of what runs, for the history; "": known by its command
  std::string probes;   // "cpu,memory"; "": all
  std::string metrics;  // a file: what to record
  std::string retain;   // "rolling=30min", "summary"; "": everything
  std::chrono::milliseconds report_limit = std::chrono::seconds(20);  // from the end of the command to the prompt
  std::vector<std::pair<std::string, std::string>> tags;
  bool report = true;
  bool quiet = false;
};

enum class SettingForm { value, list, turns_on, turns_off };  // on the command line; lists may be repeated

struct SettingSpec {
  const char* key;          // in reveal.conf, section [run]
  const char* option;       // "--interval"
  const char* placeholder;  // "" for switches
  const char* environment;
  SettingForm form;
  const char* help;
  void (*apply)(Settings&, std::string_view value);  // throws Error with the reason only
};

[[nodiscard]] std::span<const SettingSpec> setting_specs() noexcept;

/// One assignment of the section [run] of a configuration file.
struct ConfigLine {
  std::string key;
  std::vector<std::string> values;
};

/// A mistake of a site or in an old profile must not stop a job: it is returned as a line to print, and passed over.
[[nodiscard]] std::vector<std::string> apply_config(std::span<const ConfigLine> lines, const std::string& place,
                                                    Settings& settings);
[[nodiscard]] std::vector<std::string> apply_environment(const Environment& environment, Settings& settings);

}  // namespace reveal
