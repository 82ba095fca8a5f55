// The windows of a node as a data set for other programs, as in appendix G of the paper: features, the scores of its
// three detectors, and the findings of the report at the same time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/report/report.h"
#include "postproc/telemetry/job.h"

namespace reveal {

/// A node's trace with the report of its job, read once for the table and for its schema.
class AnnotatedWindows {
 public:
  /// `metrics`: patterns as of the shell for the channels whose features are columns; none: those that the paper's
  /// pruning retains. The scores are those of the retained channels either way. Throws Error for a file
  /// that is no trace, a pattern that meets no channel, and a trace shorter than a window.
  AnnotatedWindows(const Report& report, const ListedTrace& trace, const std::vector<std::string>& metrics);
  ~AnnotatedWindows();
  AnnotatedWindows(const AnnotatedWindows&) = delete;
  AnnotatedWindows& operator=(const AnnotatedWindows&) = delete;

  /// One line per window (RFC 4180): `begin` and `end` (UTC), per detector a score and whether it is in the highest
  /// 1 %, `agreement`, `interval`, `findings`, and per channel and feature a column "cpu.user/cpu0:mean". Empty where
  /// a feature is not defined; scores are empty if there are too few windows to rank them. `out` gets the text piece by
  /// piece.
  void write_csv(const std::function<void(std::string_view)>& out) const;
  /// The meaning of each column of write_csv(), and facts of the job: JSON as in "CSV on the Web".
  /// https://www.w3.org/TR/tabular-metadata/
  [[nodiscard]] std::string schema() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reveal
