// The work of `reveal deliver`, started by the collector of a Slurm job as the job's user when its node is done.
#pragma once

#include <filesystem>
#include <string>

#include "hdf5schema/basics/delivery_times.h"

namespace reveal {

struct JobEnd {
  std::filesystem::path spool;
  std::string job, node;
  std::string config;      // the site's; the user's own is not read here
  std::string request;     // the text behind --reveal=
  std::string mail_state;  // where mails are counted
  DeliveryPaces paces;     // see DeliveryTimes
  bool orphan = false;     // its collector was killed; its sampler may still be closing the trace
  int ledger_fd = -1;      // gets the lines of this job for the ledger that root keeps on this node
  int ready_fd = -1;       // gets one byte when the epilog need not wait any longer; "*": there is much to do after it
};

/// Trace, report, mail. Never throws; failures are logged. The exit status of the program, which may be
/// kWorkedForOthers or kBuiltReportOfAll (delivery_times.h).
[[nodiscard]] int finish_job(const JobEnd& end) noexcept;

}  // namespace reveal
