// The metrics that are recorded: the names in the file of --metrics, one name or pattern a line, or all metrics.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace reveal {

struct FamilyTable;

/// Some text fits both; '*' stands for any text, '?' for one letter, in either.
[[nodiscard]] bool patterns_meet(std::string_view a, std::string_view b);

class MetricSelection {
 public:
  MetricSelection() = default;  // everything

  /// Lines of one word select: "mem.dirty", "cpu.user/cpu3", "vmstat.*". Lines of more words define metrics of the
  /// site's own, which are always recorded. A file without the former selects everything. Throws Error: unreadable, or
  /// a name that no probe has.
  static MetricSelection read(const std::string& file);

  [[nodiscard]] bool everything() const noexcept { return lines_.empty(); }
  /// Remembers which lines have found something.
  [[nodiscard]] bool take(std::string_view metric, std::string_view instance);
  /// Whether a channel of this family can be selected. The cost of reveal itself is always recorded.
  [[nodiscard]] bool meets(const FamilyTable& family) const;
  /// "561 names of selected.metrics"
  [[nodiscard]] std::string source() const;
  /// The requested metrics that this node does not have, in one sentence.
  [[nodiscard]] std::optional<std::string> missing() const;

 private:
  struct Line {
    int number = 0;
    std::string metric, instance;  // patterns; without an instance: all
    bool found = false;
    [[nodiscard]] std::string name() const { return instance.empty() ? metric : metric + '/' + instance; }
  };
  void add(int number, std::string_view name);

  std::string file_;
  std::vector<Line> lines_;
  std::vector<std::string> own_;                        // the site's
  std::unordered_map<std::string, std::size_t> exact_;  // lines without a pattern, by name
  std::vector<std::size_t> patterns_;                   // the others
  std::vector<std::string> seen_;                       // names offered, to suggest the name that was probably meant
};

}  // namespace reveal
