#include "hdf5schema/basics/node_list.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::size_t kMostNameBytes = 1 << 20;             // size of all names
constexpr std::size_t kLongestName = 255;                   // length of a host's name: POSIX
constexpr std::int64_t kLargestNumber = 1'000'000'000'000;  // number of a node
constexpr std::size_t kMostDigits = 12;

/// Names up to a limit: a list of 30 kB could expand to gigabytes.
class NodeNames {
 public:
  [[nodiscard]] bool full() const { return names_.size() >= kMostExpectedNodes || bytes_ >= kMostNameBytes; }
  void add(std::string name) {
    if (name.empty() || name.size() > kLongestName || full()) return;
    bytes_ += name.size();
    names_.push_back(std::move(name));
  }
  [[nodiscard]] std::vector<std::string> take() { return std::move(names_); }

 private:
  std::vector<std::string> names_;
  std::size_t bytes_ = 0;
};

void expand_range(const std::string& prefix, std::string_view range, const std::string& suffix, NodeNames& names) {
  if (prefix.size() + suffix.size() > kLongestName) return;
  const std::size_t dash = range.find('-');
  const std::string_view low_text = range.substr(0, dash);
  const auto low = parse_int(low_text);
  const auto high = dash == std::string_view::npos ? low : parse_int(range.substr(dash + 1));
  if (!low || !high || *low < 0 || *high > kLargestNumber || low_text.size() > kMostDigits) return;
  for (std::int64_t i = *low; i <= *high && !names.full(); ++i) {
    const std::string number = std::to_string(i);
    const std::string zeros(low_text.size() - std::min(low_text.size(), number.size()), '0');
    names.add(prefix + zeros + number + suffix);
  }
}

}  // namespace

std::vector<std::string> expand_node_list(std::string_view list) {
  NodeNames names;
  while (!list.empty() && !names.full()) {
    // A comma inside brackets separates ranges, not names.
    std::size_t end = 0;
    int depth = 0;
    while (end < list.size() && (list[end] != ',' || depth > 0)) {
      depth += list[end] == '[' ? 1 : list[end] == ']' ? -1 : 0;
      ++end;
    }
    const std::string_view item = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    const std::size_t open = item.find('[');
    const std::size_t close = item.find(']');
    if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
      names.add(std::string(item));
      continue;
    }
    const std::string prefix(item.substr(0, open));
    const std::string suffix(item.substr(close + 1));
    std::string_view ranges = item.substr(open + 1, close - open - 1);
    while (!ranges.empty()) {
      const std::size_t comma = std::min(ranges.find(','), ranges.size());
      expand_range(prefix, ranges.substr(0, comma), suffix, names);
      ranges.remove_prefix(std::min(comma + 1, ranges.size()));
    }
  }
  return names.take();
}

}  // namespace reveal
