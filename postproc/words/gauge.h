// A metric in the text format of Prometheus and OpenMetrics.
// https://prometheus.io/docs/instrumenting/exposition_formats/, https://prometheus.io/docs/specs/om/open_metrics_spec/
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reveal {

/// Names and values, which may be any text.
using MetricLabels = std::vector<std::pair<std::string_view, std::string_view>>;

/// The lines of one metric, which the format wants together.
class Gauge {
 public:
  /// `type`: "counter" for a value that only grows; its name then ends in "_total".
  Gauge(std::string_view name, std::string_view unit, std::string_view help, std::string_view type = "gauge");
  /// A value that is not known gets no line.
  void add(const MetricLabels& labels, std::optional<double> value);
  /// Nothing where no value was added.
  [[nodiscard]] std::string text() const { return lines_.empty() ? "" : head_ + lines_; }

 private:
  std::string name_, head_, lines_;
};

}  // namespace reveal
