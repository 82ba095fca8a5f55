// The windows of a job's nodes as a data set for other programs, as in appendix G of the paper: features, the scores of
// its three detectors, and the findings of the report at the same time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/report/report.h"
#include "postproc/telemetry/job.h"

namespace reveal {

/// The traces with the report of their job. The nodes are read one after the other: only one is in memory.
class AnnotatedWindows {
 public:
  /// `metrics`: patterns as of the shell for the channels whose features are columns; none: those that the paper's
  /// pruning retains on any of the nodes. The scores are those of the channels retained on their node either way.
  /// Throws Error for a pattern that meets no channel, and if no trace can be exported: it is no trace, or shorter than
  /// a window.
  AnnotatedWindows(const Report& report, const std::vector<ListedTrace>& traces,
                   const std::vector<std::string>& metrics);
  ~AnnotatedWindows();
  AnnotatedWindows(const AnnotatedWindows&) = delete;
  AnnotatedWindows& operator=(const AnnotatedWindows&) = delete;

  /// One line per window (RFC 4180), node after node: `begin` and `end` (UTC), `node`, per detector a score and whether
  /// it is in the highest 1 %, `agreement`, `interval`, `findings`, and per channel and feature a column
  /// "cpu.user/cpu0:mean". Empty where a feature is not defined; scores are empty if there are too few windows to rank
  /// them, or where nothing was measured. `out` gets the text piece by piece. Throws Error if the only trace cannot be
  /// read.
  void write_csv(const std::function<void(std::string_view)>& out);
  /// The meaning of each column of write_csv(), and facts of the job: JSON as in "CSV on the Web".
  /// https://www.w3.org/TR/tabular-metadata/
  [[nodiscard]] std::string schema() const;
  /// A sentence for each of several traces that cannot be exported.
  [[nodiscard]] const std::vector<std::string>& left_out() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reveal
