#include "hdf5schema/basics/fold.h"

#include <algorithm>
#include <utility>

#include "hdf5schema/basics/text.h"

namespace reveal {

std::string folded_behind(std::string first, std::size_t used, std::string_view text, std::size_t column,
                          std::size_t width, std::size_t (*size_of)(std::string_view)) {
  std::string all;
  std::string line = std::move(first);
  bool fresh = true;
  for (std::string_view word = next_word(text); !word.empty(); word = next_word(text)) {
    const std::size_t size = size_of(word);
    if (!fresh && used + 1 + size > width) {
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
