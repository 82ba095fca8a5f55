// Runs of a job before and after a change: did the time differ by more than runs differ anyway, which causes came and
// which went. With one run on each side the spread of runs is not known, and there is no interval.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/numerics/mean_difference.h"
#include "postproc/report/report.h"

namespace reveal {

struct ComparedRun {
  std::string directory;  // as it was typed
  Report report;
};

/// One number of each run in which it is known.
struct ComparedNumber {
  std::string name;
  std::string unit;
  std::vector<double> before, after;
  std::optional<MeanDifference> difference;  // where the spread from run to run is known
  std::string method;                        // method of the interval; "" without one
  std::string reason;                        // why there is no interval, or no number

  [[nodiscard]] bool known() const noexcept { return !before.empty() && !after.empty(); }
  bool operator==(const ComparedNumber&) const = default;
};

enum class CauseChange : std::uint8_t { appeared, went, stayed, not_known };
[[nodiscard]] std::string_view name_of(CauseChange) noexcept;

/// The number of runs of a side in which a rule reported something.
struct CauseOnSide {
  std::size_t runs = 0;
  std::size_t judged = 0;  // in which its rule could look for it
  std::size_t found = 0;
  std::string why_not;  // reason for a run that was not judged
  bool operator==(const CauseOnSide&) const = default;
};

struct ComparedCause {
  std::string id;
  std::string title;
  Severity severity = Severity::info;
  CauseChange change = CauseChange::not_known;
  bool same_place = false;  // the same nodes and instances on both sides
  CauseOnSide before, after;
  ComparedNumber share;  // share of the run's time, for causes that come in intervals
  bool operator==(const ComparedCause&) const = default;
};

enum class TimeChange : std::uint8_t { same, slower, faster, not_known };
[[nodiscard]] std::string_view name_of(TimeChange) noexcept;

struct JobComparison {
  std::vector<std::string> before, after;  // the directories
  TimeChange change = TimeChange::not_known;
  std::string sentence;
  ComparedNumber run_time, step_time;
  std::vector<ComparedNumber> hardware;  // how well processors and memory were used: instructions per cycle and so on
  ComparedNumber anomalous;              // share of the time in strong intervals, explained or not
  std::vector<ComparedCause> causes;     // appeared, went, stayed, not known; the gravest first
  std::vector<std::string> notes;        // other differences, and omissions
  bool operator==(const JobComparison&) const = default;
};

/// `earlier_seconds`: of other runs of the same command and shape, which show how much runs differ. Throws Error where
/// one run is given twice.
[[nodiscard]] JobComparison compare_jobs(const std::vector<ComparedRun>& before, const std::vector<ComparedRun>& after,
                                         const std::vector<double>& earlier_seconds = {});

/// "94.2 s instead of 80.1 s: 14.1 s longer (17.6 %), 95 % confidence interval of the difference 9.8 s to ..."
[[nodiscard]] std::string time_difference(double before, double after, const std::optional<MeanDifference>& difference);
[[nodiscard]] TimeChange time_change(const std::optional<MeanDifference>& difference) noexcept;

}  // namespace reveal
