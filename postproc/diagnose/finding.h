// The result of a rule: one misconfiguration or disturbance, with its evidence and the exact line to type.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hdf5schema/vocabulary.h"
#include "postproc/detect/episode.h"

namespace reveal {

enum class Severity : std::uint8_t { info, notice, warning, critical };
enum class Confidence : std::uint8_t { possible, likely, certain };
enum class FindingKind : std::uint8_t { anomaly, audit, peer, history };

struct TimeSpan {
  std::int64_t begin_utc_ns = 0;
  std::int64_t end_utc_ns = 0;
  bool operator==(const TimeSpan&) const = default;

  [[nodiscard]] double seconds() const noexcept { return static_cast<double>(end_utc_ns - begin_utc_ns) * 1e-9; }
  /// Spans that only touch do not overlap.
  [[nodiscard]] bool overlaps(const TimeSpan& other) const noexcept {
    return begin_utc_ns < other.end_utc_ns && other.begin_utc_ns < end_utc_ns;
  }
};

/// Sorts the spans and joins those that overlap or touch.
[[nodiscard]] std::vector<TimeSpan> united(std::vector<TimeSpan> spans);

/// One measured fact. Unknown numbers are absent, never 0.
struct Evidence {
  std::string metric;    // "job.outsider_cpu" or a channel's metric
  std::string instance;  // "cpu1"
  std::string node;
  std::string feature;  // "mean", "level", "share", ...
  std::optional<double> observed;
  std::optional<double> expected;
  std::string unit;  // a Unit name, "/s" appended for rates: "bytes/s"
  TimeSpan span;
  std::vector<Method> detectors;
  std::optional<double> score;
  bool operator==(const Evidence&) const = default;
};

struct Impact {
  std::optional<double> seconds;  // seconds of the job's run time
  std::optional<double> percent;
  std::string how;       // how it was estimated; without numbers the whole answer: "none seen: ...", "not known: ..."
  bool at_most = false;  // the numbers are an upper bound
  bool operator==(const Impact&) const = default;
};

struct RunnerUp {
  std::string id;       // id of the look-alike rule, "" if no rule looks for it
  std::string why_not;  // one sentence
  bool operator==(const RunnerUp&) const = default;
};

struct Remedy {
  std::vector<std::string> user;    // lines the job's owner can type
  std::vector<std::string> advice;  // prose: changes for which no line can be typed
  std::vector<std::string> admin;   // lines for the site, never shown to a user as something to run
  std::string verify;               // the expected change after the fix
  bool operator==(const Remedy&) const = default;
};

/// A number of the job before and after a change of reveal's, and the 95 % interval of their difference.
struct InterventionEffect {
  std::string metric, unit;
  std::optional<double> mean_before, mean_after, change_low, change_high;
  bool operator==(const InterventionEffect&) const = default;
};

/// A change that reveal made to the running job because of a finding, or refused to make.
struct InterventionResult {
  enum class Outcome : std::uint8_t { kept, undone, not_known, refused };
  std::string node;
  TimeSpan span;  // from the change to the decision about it
  Outcome outcome = Outcome::not_known;
  std::string sentence;
  std::vector<InterventionEffect> effects;  // those that were measured
  bool operator==(const InterventionResult&) const = default;
};

struct Finding {
  std::string id;  // rule id: "cpu.outsider"
  std::string fingerprint;
  std::string title;
  std::string sentence;  // plain words with two numbers and a unit; rendered as it is
  Severity severity = Severity::notice;
  Confidence confidence = Confidence::possible;
  FindingKind kind = FindingKind::anomaly;
  Subsystem subsystem = Subsystem::cpu;
  std::vector<std::string> nodes;
  std::vector<std::string> instances;
  std::vector<TimeSpan> intervals;
  Impact impact;
  std::vector<Evidence> evidence;         // at least one
  std::vector<std::string> main_threads;  // sentences: where Python stood meanwhile; for the job's owner only
  std::vector<InterventionResult> interventions;
  std::string feedback;  // the owner's feedback on an earlier one: "Your feedback of 2026-11-24: ..."
  RunnerUp runner_up;
  std::string caused_by;    // id of the finding that led to this one; "" for one that stands for itself
  std::string first_cause;  // id of the one with which the chain begins and which describes it; "" likewise
  Remedy remedy;
  std::vector<std::string> sources;  // URLs where the fact can be checked
  bool operator==(const Finding&) const = default;
};

/// A rule that could not be checked, and why: "mem.writeback_stall", "not measured: no /proc/vmstat".
struct NotChecked {
  std::string rule;
  std::string reason;
  bool checked_elsewhere = false;  // on at least one other node of the job
  bool operator==(const NotChecked&) const = default;
};

/// Id of the rule for episodes that no other one explains.
inline constexpr std::string_view kUnexplained = "anomaly.unexplained";

/// Whether one of the finding's intervals covers this share of the span.
[[nodiscard]] bool covers(const Finding& finding, const TimeSpan& span, double share) noexcept;

/// Limits a score for Evidence::score: a signal that hardly varies elsewhere would score without bound.
[[nodiscard]] double shown_score(double score) noexcept;

[[nodiscard]] std::string_view name_of(Severity) noexcept;
[[nodiscard]] std::string_view name_of(Confidence) noexcept;
[[nodiscard]] std::string_view name_of(FindingKind) noexcept;
[[nodiscard]] std::string_view name_of(InterventionResult::Outcome) noexcept;
[[nodiscard]] std::optional<Severity> severity_of(std::string_view) noexcept;
[[nodiscard]] std::optional<Confidence> confidence_of(std::string_view) noexcept;
[[nodiscard]] std::optional<FindingKind> finding_kind_of(std::string_view) noexcept;
[[nodiscard]] std::optional<InterventionResult::Outcome> intervention_outcome_of(std::string_view) noexcept;

}  // namespace reveal
