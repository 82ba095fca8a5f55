#include "hdf5schema/basics/fold.h"

#include <algorithm>
#include <utility>

#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

using Columns = std::size_t (*)(std::string_view);

/// The columns that a word needs on its line: a number and the short word behind it, its unit, stay together ("5.37
/// %").
std::size_t needed(std::string_view word, std::string_view rest, Columns size_of) {
  constexpr std::size_t kLongestUnit = 6;
  constexpr std::string_view kDigits = "0123456789";
  const std::size_t begin = std::min(word.find_first_not_of("(+-"), word.size());
  const std::string_view number = word.substr(begin);
  const bool is_number = !number.empty() && kDigits.find(number.back()) != std::string_view::npos &&
                         number.find_first_not_of("0123456789.,") == std::string_view::npos;
  const std::string_view unit = next_word(rest);
  const bool has_unit = is_number && !unit.empty() && unit.size() <= kLongestUnit;
  return size_of(word) + (has_unit ? 1 + size_of(unit) : 0);
}

}  // namespace

std::string folded_behind(std::string first, std::size_t used, std::string_view text, std::size_t column,
                          std::size_t width, std::size_t (*size_of)(std::string_view)) {
  std::string all;
  std::string line = std::move(first);
  bool fresh = true;
  for (std::string_view word = next_word(text); !word.empty(); word = next_word(text)) {
    const std::size_t size = size_of(word);
    if (!fresh && used + 1 + needed(word, text, size_of) > width) {
      all += line + '\n';
      line.assign(column, ' ');
      used = column;
      fresh = true;
    }
    if (!fresh) line += ' ';
    line += word;
    used += size + (fresh ? 0 : 1);
    fresh = false;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return all + line + '\n';
}

std::string folded(std::string_view label, std::string_view text, std::size_t column, std::size_t width) {
  std::string first(label);
  if (!first.empty() && first.size() >= column) first += ' ';
  first.resize(std::max(first.size(), column), ' ');
  const std::size_t used = first.size();
  return folded_behind(std::move(first), used, text, column, width, [](std::string_view word) { return word.size(); });
}

}  // namespace reveal
