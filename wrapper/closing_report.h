// The report at the end of a launch: built once although several nodes may share the directory and end together.
#pragma once

#include <string>

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

/// The right to build a report: a file made with O_EXCL, which network file systems keep unique, too. A lease whose
/// holder is gone, or that is too old to be true, is taken over.
class ReportLease {
 public:
  ReportLease(const std::string& directory, const std::string& node) noexcept
      : path_(directory + "/.report.lease"), node_(node) {}
  ~ReportLease();
  ReportLease(const ReportLease&) = delete;
  ReportLease& operator=(const ReportLease&) = delete;

  /// True if the lease is now ours. False while another holds it.
  [[nodiscard]] bool take();

 private:
  std::string path_, node_;
  bool held_ = false;
};

/// True while a trace of another node in this directory is being written: an open trace is flushed every 10 s, so one
/// that has not changed for much longer was left by a collector that was killed.
[[nodiscard]] bool others_still_record(const std::string& directory, const std::string& node);

}  // namespace reveal
