// The settings of reveal-run from reveal.conf, REVEAL_* and the command line; a later source overrides an earlier one.
// Keys and allowed values are rows of hdf5schema/basics/config_keys.h; here is how they are written as options.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hdf5schema/basics/config.h"

namespace reveal {

constexpr std::string_view kRetainSummary = "summary";

struct RunSettings {
  std::string output;  // a pattern, see expand_pattern; "": the default directory
  std::string node;    // "": SLURMD_NODENAME, else the host name
  std::string interval = "100ms";
  std::string mail;
  std::string name;     // name of the program, for the history; "": known by its command
  std::string probes;   // "cpu,memory"; "": all
  std::string metrics;  // a file: the selection of metrics
  std::string gpu_library;
  std::string retain;                                                 // "rolling=30min", "summary"; "": everything
  std::chrono::milliseconds report_limit = std::chrono::seconds(20);  // from the end of the command to the prompt
  std::vector<std::pair<std::string, std::string>> tags;
  std::string interventions;  // rules on whose findings the collector may act, "a,b"; "": none
  bool stack = false;
  std::string stack_budget;   // percent; "": the default
  std::string stack_without;  // functions, "a,b"; "": none
  bool faster_reading = true;
  bool report = true;
  bool quiet = false;
};

enum class OptionForm { value, turns_on, turns_off };

struct RunOption {
  const ConfigKey& key;
  const char* option;       // "--interval"
  const char* placeholder;  // "" for switches
  OptionForm form = OptionForm::value;
  std::string_view help = {};  // "": the key's
};

[[nodiscard]] std::span<const RunOption> run_options() noexcept;

/// Its text in --help.
[[nodiscard]] std::string help_of(const RunOption& option);

[[nodiscard]] RunSettings settings_of(const Config& config);

}  // namespace reveal
