#include "core/probes/metric_name.h"

namespace reveal {

std::string snake_case(std::string_view kernel_key) {
  std::string name;
  bool after_lower = false;
  bool gap = false;
  for (const char letter : kernel_key) {
    const bool upper = letter >= 'A' && letter <= 'Z';
    const bool lower = letter >= 'a' && letter <= 'z';
    const bool digit = letter >= '0' && letter <= '9';
    if (upper || lower || digit) {
      if (!name.empty() && (gap || (upper && after_lower))) name += '_';
      name += static_cast<char>(upper ? letter - 'A' + 'a' : letter);
    }
    gap = !(upper || lower || digit);
    after_lower = lower;
  }
  return name;
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower) letter = static_cast<char>(letter >= 'A' && letter <= 'Z' ? letter - 'A' + 'a' : letter);
  return lower;
}

}  // namespace reveal
