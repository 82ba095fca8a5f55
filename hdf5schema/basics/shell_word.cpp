#include "hdf5schema/basics/shell_word.h"

#include <algorithm>
#include <string_view>

namespace reveal {

std::string shell_word(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("/._+-=,@%:").find(c) != std::string_view::npos;
  });
  if (plain && word.front() != '-') return word;
  std::string quoted = word.starts_with('-') ? "'./" : "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace reveal
