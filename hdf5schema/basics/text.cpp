#include "hdf5schema/basics/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace reveal {
namespace {

constexpr std::string_view kBlanks = " \t\n\r\v\f";
constexpr int kMaxListMembers = 65'536;

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

bool next_line(std::string_view& rest, std::string_view& line) noexcept {
  if (rest.empty()) return false;
  const std::size_t end = rest.find('\n');
  line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return true;
}

std::string_view next_word(std::string_view& rest) noexcept {
  const std::size_t begin = rest.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) {
    rest = {};
    return {};
  }
  rest.remove_prefix(begin);
  const std::size_t end = std::min(rest.find_first_of(kBlanks), rest.size());
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(end);
  return word;
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  for (std::string_view word = next_word(text); !word.empty(); word = next_word(text)) words.emplace_back(word);
  return words;
}

bool has_word(std::string_view text, std::string_view wanted) noexcept {
  for (std::string_view word = next_word(text); !word.empty(); word = next_word(text)) {
    if (word == wanted) return true;
  }
  return false;
}

std::optional<std::int64_t> parse_int(std::string_view word) noexcept {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (end != word.data() + word.size() || word.empty()) return std::nullopt;
  if (error == std::errc::result_out_of_range && word.front() != '-') return std::numeric_limits<std::int64_t>::max();
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::vector<int> parse_cpu_list(std::string_view text) {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view part = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    part = next_word(part);
    const std::size_t dash = part.find('-');
    const auto first = parse_int(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_int(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= kMaxListMembers) continue;
    ranges.emplace_back(*first, *last);
  }
  std::sort(ranges.begin(), ranges.end());
  std::vector<int> members;
  std::int64_t next = 0;
  for (const auto& [first, last] : ranges) {
    for (next = std::max(next, first); next <= last; ++next) members.push_back(static_cast<int>(next));
  }
  return members;
}

std::string format_cpu_list(std::span<const int> cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(cpus[i]);
    if (last > i) text += '-' + std::to_string(cpus[last]);
    i = last + 1;
  }
  return text;
}

std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text) noexcept {
  struct Suffix {
    std::string_view name;
    double nanoseconds;
  };
  constexpr Suffix kSuffixes[] = {{"ns", 1},     {"us", 1e3}, {"ms", 1e6},   {"s", 1e9},
                                  {"min", 60e9}, {"m", 60e9}, {"h", 3600e9}, {"d", 86400e9}};
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !(number >= 0)) return std::nullopt;
  const std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
  for (const auto& [name, nanoseconds] : kSuffixes) {
    if (suffix != name) continue;
    const double total = number * nanoseconds;
    if (total > 1e18) return std::nullopt;
    return std::chrono::nanoseconds(std::llround(total));
  }
  return std::nullopt;
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) noexcept {
  constexpr std::pair<std::string_view, std::uint64_t> kUnits[] = {
      {"TB", 1'000'000'000'000}, {"GB", 1'000'000'000}, {"MB", 1'000'000}, {"KB", 1'000}, {"B", 1}, {"", 1}};
  for (const auto& [unit, factor] : kUnits) {
    if (!text.ends_with(unit)) continue;
    text.remove_suffix(unit.size());
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    const auto number = parse_int(text);
    constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
    if (!number || *number < 0 || static_cast<std::uint64_t>(*number) > kMost / factor) return std::nullopt;
    return static_cast<std::uint64_t>(*number) * factor;
  }
  return std::nullopt;
}

std::vector<std::string> split_names(std::string_view list, std::string_view separators) {
  std::vector<std::string> names;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find_first_of(separators), list.size());
    if (end > 0) names.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return names;
}

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates) {
  std::optional<std::string> best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace reveal
