// A report as metrics, for programs that collect them from all jobs.
#pragma once

#include <string>

#include "postproc/report/report.h"

namespace reveal {

/// OpenMetrics text (https://prometheus.io/docs/specs/om/open_metrics_spec/): verdict, findings by rule with their cost
/// in seconds, and the totals of the job, in base units. A missing value has no line; no user and no job name is in it.
/// The label `job_id` is the report's id for a job without a number.
[[nodiscard]] std::string report_as_metrics(const Report& report);

}  // namespace reveal
