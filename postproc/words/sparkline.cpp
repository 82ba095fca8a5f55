#include "postproc/words/sparkline.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace reveal {

std::string sparkline(std::span<const double> values, std::size_t width, std::string_view gap) {
  constexpr std::string_view kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  double largest = 0;
  for (const double value : values) {
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  std::string line;
  for (const double value : values.last(std::min(values.size(), width))) {
    if (!std::isfinite(value)) {
      line += gap;
      continue;
    }
    const double part = largest > 0 ? std::max(0.0, value) / largest : 0;
    line += kBars[std::min<std::size_t>(7, static_cast<std::size_t>(part * 8))];
  }
  return line;
}

std::vector<double> reduced(std::span<const double> values, std::size_t width) {
  std::vector<double> parts(std::min(values.size(), width));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t begin = i * values.size() / parts.size();
    const std::size_t end = (i + 1) * values.size() / parts.size();
    double sum = 0;
    double present = 0;
    for (const double value : values.subspan(begin, end - begin)) {
      if (!std::isfinite(value)) continue;
      sum += value;
      ++present;
    }
    parts[i] = present > 0 ? sum / present : std::numeric_limits<double>::quiet_NaN();
  }
  return parts;
}

bool is_utf8_locale(std::string_view name) noexcept {
  return name.find("UTF-8") != std::string_view::npos || name.find("utf8") != std::string_view::npos;
}

bool writes_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return is_utf8_locale(value);
  }
  return false;
}

}  // namespace reveal
