// What reveal-run was asked for. The table of settings is the one place that knows their names: command line,
// REVEAL_* environment and reveal.conf are read from it, each stronger than the next.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reveal {

/// The value of an environment variable, "" if unset. Tests bring their own.
using Environment = std::function<std::string(const char* name)>;
[[nodiscard]] std::string process_environment(const char* name);

struct Settings {
  std::string output;  // a pattern, see expand_pattern; "": the default directory
  std::string node;    // "": SLURMD_NODENAME, else the host name
  std::string interval = "100ms";
  std::string mail;
  std::string probes;  // "cpu,memory"; "": all
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

/// The nodes' names end up in file names: letters, digits and "._+=@-" stay, a leading dot does not.
[[nodiscard]] std::string file_name_part(std::string_view text);

/// Slurm's file name patterns, of those that make sense for a directory: %j and %A job, %a array index, %x job name,
/// %u user, %% a percent sign. Values are made harmless; throws Error for other letters.
[[nodiscard]] std::string expand_pattern(std::string_view pattern, const Environment& environment);

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
