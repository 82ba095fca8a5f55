// reveal.conf, read by one reader for all programs: sections, keys, values. What a key means is the program's business;
// here is what the text says and, with file and line, where it says nothing.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hdf5schema/basics/error.h"

namespace reveal {

struct ConfigEntry {
  std::string section;              // as written between the brackets: "run", "rule.\"cpu.outsider\""
  std::string key;                  // "min_cpu"
  std::vector<std::string> values;  // without quotes; one, or the members of ["a", "b"]
  int line = 0;
};

struct ConfigSection {
  std::string name;
  int line = 0;
};

/// Something that could not be understood. A program looks at those of its own sections and at those without a
/// section: a mistake of another program's part must not stop this one.
struct ConfigProblem {
  std::string section;  // "" when it concerns the file as a whole, for example a mistyped section
  std::string text;     // "reveal.conf:12: expected key = value"
};

struct ConfigFile {
  std::string file;
  std::vector<ConfigSection> sections;  // in the order of the file, empty ones too
  std::vector<ConfigEntry> entries;
  std::vector<ConfigProblem> problems;

  /// "FILE:LINE: what"
  [[nodiscard]] Error error(int line, const std::string& what) const;
  /// "FILE:LINE: unknown key "x" in [section]; did you mean "y"?"
  [[nodiscard]] Error unknown_key(const ConfigEntry& entry, std::span<const std::string> known) const;

  /// The only value; throws Error for a list.
  [[nodiscard]] const std::string& single(const ConfigEntry& entry) const;
  /// true or false; throws Error for anything else.
  [[nodiscard]] bool truth(const ConfigEntry& entry) const;
  /// A whole number from `least` to `most`; throws Error for anything else.
  [[nodiscard]] int whole(const ConfigEntry& entry, int least, int most) const;

  /// Throws the first problem of the file as a whole or of one of these sections ("rule" stands for all rules).
  void require(std::span<const std::string_view> sections) const;
};

/// Never throws for what the text says: as much as can be read is read, the rest are problems.
[[nodiscard]] ConfigFile parse_config(std::string_view text, const std::string& file);

/// The part before the first dot, which says who reads a section: "rule" of rule."cpu.outsider".
[[nodiscard]] std::string_view config_family(std::string_view section) noexcept;

/// cpu.outsider of rule."cpu.outsider"; empty where nothing follows the dot.
[[nodiscard]] std::string_view config_subject(std::string_view section) noexcept;

}  // namespace reveal
