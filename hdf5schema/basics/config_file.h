// The text of reveal.conf: sections, keys, values and, with file and line, the lines that cannot be read. The keys are
// in config_keys.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace reveal {

struct ConfigEntry {
  std::string section;              // as written between the brackets: "run", "rule.\"cpu.outsider\""
  std::string key;                  // "min_cpu"
  std::vector<std::string> values;  // without quotes; one, or the members of ["a", "b"]
  int line = 0;
};

struct ConfigHeading {
  std::string name;
  int line = 0;
};

/// Something that could not be understood. A program reports those of its own sections and those without a section.
struct ConfigProblem {
  std::string section;  // "" when it concerns the file as a whole, for example a mistyped section
  std::string text;     // "reveal.conf:12: expected key = value"
  bool of_key = false;  // about a key that was recognised
};

struct ConfigFile {
  std::string file;
  std::vector<ConfigHeading> headings;  // in the order of the file, empty ones too
  std::vector<ConfigEntry> entries;
  std::vector<ConfigProblem> problems;

  /// "FILE:LINE"
  [[nodiscard]] std::string place(int line) const;
};

/// Never throws because of the text: as much as can be read is read, the rest are problems.
[[nodiscard]] ConfigFile parse_config(std::string_view text, const std::string& file);

/// The part before the first dot, which decides the reader of a section: "rule" of rule."cpu.outsider".
[[nodiscard]] std::string_view config_family(std::string_view section) noexcept;

/// cpu.outsider of rule."cpu.outsider"; empty where nothing follows the dot.
[[nodiscard]] std::string_view config_subject(std::string_view section) noexcept;

}  // namespace reveal
