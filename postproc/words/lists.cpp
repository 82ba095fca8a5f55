#include "postproc/words/lists.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "hdf5schema/basics/text.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

/// {"login", "n[01-02,04]"}, of at most `limit` ranges each.
std::vector<std::string> folded_names(std::span<const std::string> nodes, std::size_t limit) {
  // Names with the same text before the same number of last digits fold.
  std::map<std::pair<std::string, std::size_t>, std::vector<std::int64_t>> numbered;
  std::vector<std::string> parts;
  for (const std::string& node : nodes) {
    const std::size_t digits = node.find_last_not_of("0123456789") + 1;  // npos + 1 = 0: all digits
    const auto value = parse_int(std::string_view(node).substr(digits));
    if (value && node.size() - digits <= 9) {
      numbered[{node.substr(0, digits), node.size() - digits}].push_back(*value);
    } else {
      parts.push_back(node);
    }
  }
  for (auto& [key, values] : numbered) {
    const auto& [prefix, width] = key;
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    std::vector<std::string> ranges;
    for (std::size_t i = 0; i < values.size();) {
      std::size_t last = i;
      while (last + 1 < values.size() && values[last + 1] == values[last] + 1) ++last;
      ranges.push_back(last == i ? fmt::format("{:0{}}", values[i], width)
                                 : fmt::format("{:0{}}-{:0{}}", values[i], width, values[last], width));
      i = last + 1;
    }
    parts.push_back(values.size() == 1 ? prefix + ranges[0] : prefix + "[" + listed(ranges, limit, ",") + "]");
  }
  return parts;
}

}  // namespace

std::string node_list(std::span<const std::string> nodes, std::size_t limit) {
  return listed(folded_names(nodes, limit), limit);
}

std::string slurm_node_list(std::span<const std::string> nodes) {
  return joined(folded_names(nodes, nodes.size()), ",");
}

std::string joined(std::span<const std::string> words, std::string_view separator) {
  return fmt::format("{}", fmt::join(words, separator));
}

std::string listed(std::span<const std::string> words, std::size_t limit, std::string_view separator) {
  std::string text = joined(words.first(std::min(words.size(), limit)), separator);
  if (words.size() > limit) text += fmt::format(" and {} more", words.size() - limit);
  return text;
}

std::string shortened(std::string_view text, std::size_t limit) {
  const std::string line = printable(text, 4000);
  if (columns(line) <= limit) return line;
  constexpr std::string_view kEnds[] = {". ", "; ", ", ", ": ", " ("};
  constexpr std::size_t kEllipsis = 3;
  std::size_t end = 0;  // in bytes
  for (std::size_t seen = 0; end < line.size(); ++end) {
    if ((static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) continue;
    if (++seen + kEllipsis > limit) break;
  }
  const std::string_view kept = std::string_view(line).substr(0, end);
  for (const std::string_view mark : kEnds) {
    const std::size_t at = kept.rfind(mark);
    if (at != std::string_view::npos && at > kept.size() / 2) return std::string(kept.substr(0, at)) + "...";
  }
  const std::size_t word = kept.rfind(' ');
  return std::string(word == std::string_view::npos ? kept : kept.substr(0, word)) + "...";
}

}  // namespace reveal
