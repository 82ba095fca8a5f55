// How a job ended, in words: the command's own failure is no effect of the node.
#pragma once

#include <string>

#include "postproc/report/report.h"

namespace reveal {

/// True if the job failed, by its exit status, or by the batch system's state where there is no status.
[[nodiscard]] bool has_failed(const ReportJob& job);
/// It is known that it did not fail.
[[nodiscard]] bool has_ended_well(const ReportJob& job);

/// The command's time where it is known, else the time of the traces.
[[nodiscard]] double seconds_of(const ReportJob& job);

/// "The command failed: ended by SIGABRT (exit status 134) after 36 s."; "" for a job that did not fail.
[[nodiscard]] std::string failure_sentence(const ReportJob& job);

}  // namespace reveal
