// The report at the end of a launch: built once although several nodes may share the directory and end together.
#pragma once

#include <chrono>
#include <cstdint>
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

struct ReportOrder {
  std::string directory, node;
  int status = 0;      // exit status of the command
  double seconds = 0;  // its duration
  std::string retain;
  bool quiet = false;
  std::chrono::milliseconds limit;
};

/// The command that makes the same report later, from this place.
[[nodiscard]] std::string report_command(const ReportOrder& order);

/// Runs `reveal report`, its lines on our stderr unless it is to be quiet. A report that would not fit into the free
/// memory of the job's control group is not started.
[[nodiscard]] ReportResult run_report(const ReportOrder& order, const BlockedSignals& signals);

/// Runs `reveal mail` for an address of the site; returns the reason of a failure, or "".
[[nodiscard]] std::string mail_report(const ReportOrder& order, const std::string& address,
                                      const BlockedSignals& signals);

/// Bytes of memory that the report of these traces takes at most.
[[nodiscard]] std::uint64_t memory_of_report(std::uint64_t bytes_of_traces) noexcept;

/// True while a trace of another node in this directory is being written: an open trace is flushed every 10 s, so one
/// that has not changed for much longer was left by a collector that was killed.
[[nodiscard]] bool others_still_record(const std::string& directory, const std::string& node);

}  // namespace reveal
