// The output of `reveal check`: a line for monitoring systems, details, JSON, and metrics for node_exporter.
#pragma once

#include <string>
#include <string_view>

#include "postproc/diagnose/node_check.h"

namespace reveal {

inline constexpr std::string_view kCheckSchema = "reveal.check/1";

/// "WARNING - n03 keeps its time by hpet (cpu.clocksource_not_tsc, measured fact); 12 checks, 3 not possible", without
/// a line's end.
[[nodiscard]] std::string check_line(const NodeCheck& check);
/// The same of a node that could not be looked at.
[[nodiscard]] std::string unknown_line(std::string_view why);

/// The line, each finding with its remedy, and each rule that found nothing or could not answer.
[[nodiscard]] std::string check_as_text(const NodeCheck& check, std::size_t width);

/// Findings as in report.json.
[[nodiscard]] std::string check_as_json(const NodeCheck& check);
[[nodiscard]] std::string unknown_as_json(std::string_view why);

/// Writes the check in the text format of Prometheus. A rule that could not answer has no line.
[[nodiscard]] std::string check_as_metrics(const NodeCheck& check);
/// Returns the metrics of a node that could not be checked: only its status.
[[nodiscard]] std::string unknown_as_metrics(std::int64_t utc_ns);

}  // namespace reveal
