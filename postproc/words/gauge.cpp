#include "postproc/words/gauge.h"

#include <spdlog/fmt/fmt.h>

#include <cmath>

#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

std::string label_value(std::string_view text) {
  std::string escaped;
  for (const char letter : printable(text, 200)) {
    if (letter == '"' || letter == '\\') escaped += '\\';
    escaped += letter;
  }
  return escaped;
}

std::string in_braces(const MetricLabels& labels) {
  std::string text;
  for (const auto& [name, value] : labels) {
    text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", name, label_value(value));
  }
  return text.empty() ? "" : "{" + text + "}";
}

}  // namespace

Gauge::Gauge(std::string_view name, std::string_view unit, std::string_view help, std::string_view type)
    : name_(name), head_(fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type)) {
  if (!unit.empty()) head_ += fmt::format("# UNIT {} {}\n", name, unit);
}

void Gauge::add(const MetricLabels& labels, std::optional<double> value) {
  if (value && std::isfinite(*value)) lines_ += fmt::format("{}{} {}\n", name_, in_braces(labels), *value);
}

}  // namespace reveal
