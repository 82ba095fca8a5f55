#include "postproc/diagnose/finding.h"

#include <algorithm>

#include "hdf5schema/basics/enum_names.h"

namespace reveal {
namespace {

// In the order of the enumerators.
constexpr std::string_view kSeverities[] = {"info", "notice", "warning", "critical"};
constexpr std::string_view kConfidences[] = {"possible", "likely", "certain"};
constexpr std::string_view kFindingKinds[] = {"anomaly", "audit", "peer", "history"};
constexpr std::string_view kOutcomes[] = {"kept", "undone", "not_known", "refused"};

}  // namespace

std::vector<TimeSpan> united(std::vector<TimeSpan> spans) {
  std::sort(spans.begin(), spans.end(), [](TimeSpan a, TimeSpan b) { return a.begin_utc_ns < b.begin_utc_ns; });
  std::vector<TimeSpan> whole;
  for (const TimeSpan& span : spans) {
    if (!whole.empty() && span.begin_utc_ns <= whole.back().end_utc_ns) {
      whole.back().end_utc_ns = std::max(whole.back().end_utc_ns, span.end_utc_ns);
    } else {
      whole.push_back(span);
    }
  }
  return whole;
}

bool covers(const Finding& finding, const TimeSpan& span, double share) noexcept {
  return std::any_of(finding.intervals.begin(), finding.intervals.end(), [&](const TimeSpan& theirs) {
    const auto both = std::min(span.end_utc_ns, theirs.end_utc_ns) - std::max(span.begin_utc_ns, theirs.begin_utc_ns);
    return static_cast<double>(both) >= share * static_cast<double>(span.end_utc_ns - span.begin_utc_ns);
  });
}

double shown_score(double score) noexcept {
  constexpr double kMost = 999;
  return std::clamp(score, -kMost, kMost);
}

std::string_view name_of(Severity severity) noexcept {
  return kSeverities[static_cast<std::size_t>(severity)];
}
std::string_view name_of(Confidence confidence) noexcept {
  return kConfidences[static_cast<std::size_t>(confidence)];
}
std::string_view name_of(FindingKind kind) noexcept {
  return kFindingKinds[static_cast<std::size_t>(kind)];
}
std::string_view name_of(InterventionResult::Outcome outcome) noexcept {
  return kOutcomes[static_cast<std::size_t>(outcome)];
}

std::optional<Severity> severity_of(std::string_view name) noexcept {
  return enumerator_of<Severity>(kSeverities, name);
}
std::optional<Confidence> confidence_of(std::string_view name) noexcept {
  return enumerator_of<Confidence>(kConfidences, name);
}
std::optional<FindingKind> finding_kind_of(std::string_view name) noexcept {
  return enumerator_of<FindingKind>(kFindingKinds, name);
}
std::optional<InterventionResult::Outcome> intervention_outcome_of(std::string_view name) noexcept {
  return enumerator_of<InterventionResult::Outcome>(kOutcomes, name);
}

}  // namespace reveal
