// The settings of reveal.conf and of the environment; a later source overrides an earlier one. Each value has its
// place. A mistake never costs more than its own line: it is one of `problems()`, and everything else applies.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hdf5schema/basics/config_file.h"
#include "hdf5schema/basics/config_keys.h"
#include "hdf5schema/basics/file_pattern.h"

namespace reveal {

class Config {
 public:
  /// Takes the keys of `text`; `file` names it. Sections of the site are not read from a user's.
  void read(std::string_view text, const std::string& file, ConfigOwner owner);
  /// A file that does not exist changes nothing.
  void read_file(const std::filesystem::path& file, ConfigOwner owner);
  /// REVEAL_*, each for its key of [run]; of the variables with these names, one that is nearly such a key is a
  /// problem.
  void read_environment(const Environment& environment, std::span<const std::string> names = {});
  /// Returns why it was not set (see mistake_in), "" if it was. `place` is named beside the value.
  std::string set(const ConfigKey& key, const std::vector<std::string>& values, const std::string& place);

  [[nodiscard]] std::vector<std::string> list(const ConfigKey& key) const;
  /// The only value, or several with commas between them.
  [[nodiscard]] std::string text(const ConfigKey& key) const;
  [[nodiscard]] bool truth(const ConfigKey& key) const;
  [[nodiscard]] std::int64_t whole(const ConfigKey& key) const;
  [[nodiscard]] double number(const ConfigKey& key) const;
  [[nodiscard]] std::chrono::nanoseconds time(const ConfigKey& key) const;
  /// 0 where the default depends on the machine.
  [[nodiscard]] std::uint64_t size(const ConfigKey& key) const;
  /// "FILE:LINE" or "REVEAL_INTERVAL"; "" for a default.
  [[nodiscard]] std::string place(const ConfigKey& key) const;

  [[nodiscard]] const std::vector<ConfigProblem>& problems() const& noexcept { return problems_; }
  const std::vector<ConfigProblem>& problems() && = delete;
  /// Problems of the sections that this program reads, and problems of a file as a whole.
  [[nodiscard]] std::vector<std::string> problems_of(std::initializer_list<std::string_view> sections) const;

 private:
  struct Value {
    std::vector<std::string> values;
    std::string place;
  };
  [[nodiscard]] const Value* find(const ConfigKey& key) const;
  void read_section(const ConfigFile& file, const ConfigHeading& heading, ConfigOwner owner);
  void read_entry(const ConfigFile& file, const ConfigEntry& entry, ConfigOwner owner);
  void doubt(const ConfigKey& key, const std::string& place);
  void doubt_defaults(const std::string& file, std::size_t problems_before);
  void set_or_report(const ConfigKey& key, const std::vector<std::string>& values, const std::string& place,
                     const std::string& name, ConfigOwner owner);

  std::map<std::pair<std::string, std::string>, Value> values_;  // by section and key
  std::vector<ConfigProblem> problems_;
};

struct ConfigPlace {
  std::filesystem::path file;
  ConfigOwner owner = ConfigOwner::site;
};
/// The site's file, the one of the installation that `program` belongs to, and the user's: each stronger than the one
/// before. Not the user's where root runs: after `sudo -E` the home directory belongs to another user, who would decide
/// where root writes.
[[nodiscard]] std::vector<ConfigPlace> config_places(const std::filesystem::path& program,
                                                     const Environment& environment);

inline constexpr const char* kSiteConfig = "/etc/reveal/reveal.conf";
inline constexpr std::size_t kLargestConfig = 1 << 20;

/// Every row, those of the rules included, in the order of the sections.
[[nodiscard]] std::vector<const ConfigKey*> all_config_keys();

/// The row of "slurm.keep_days" or "rule.cpu.outsider.min_cpu". Throws Error that names the near one.
[[nodiscard]] const ConfigKey& find_config_key(std::string_view name);

/// reveal.conf with every default, as comments.
[[nodiscard]] std::string config_template();

}  // namespace reveal
