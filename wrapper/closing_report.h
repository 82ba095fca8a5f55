// The report at the end of a launch: built once although several nodes may share the directory and end together.
#pragma once

#include <string>

#include "hdf5schema/basics/report_lease.h"
#include "wrapper/process.h"

namespace reveal {

enum class ReportEnd {
  built,
  left_to_others,  // another node still records here, or has just built a report that includes us
  failed,
};
struct ReportResult {
  ReportEnd end = ReportEnd::built;
  std::string reason;
};

/// Runs `reveal report` on the directory, its text on our stderr unless `quiet`; `status` is what the command ended
/// with.
[[nodiscard]] ReportResult build_report(const std::string& directory, const std::string& node, int status, bool quiet,
                                        const BlockedSignals& signals);

/// True while a trace of another node in this directory is being written: an open trace is flushed every 10 s, so one
/// that has not changed for much longer was left by a collector that was killed.
[[nodiscard]] bool others_still_record(const std::string& directory, const std::string& node);

}  // namespace reveal
