#include "hdf5schema/basics/fold.h"

#include <algorithm>

#include "hdf5schema/basics/text.h"

namespace reveal {

std::string folded(std::string_view label, std::string_view text, std::size_t column, std::size_t width) {
  std::string all;
  std::string line(label);
  if (!line.empty() && line.size() >= column) line += ' ';
  line.resize(std::max(line.size(), column), ' ');
  std::size_t before = line.size();  // length of the line's first word
  for (std::string_view word = next_word(text); !word.empty(); word = next_word(text)) {
    if (line.size() > before && line.size() + 1 + word.size() > width) {
      all += line + '\n';
      line.assign(column, ' ');
      before = column;
    }
    if (line.size() > before) line += ' ';
    line += word;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return all + line + '\n';
}

}  // namespace reveal
