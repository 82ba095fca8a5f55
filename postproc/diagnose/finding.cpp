#include "postproc/diagnose/finding.h"

#include <algorithm>
#include <span>

namespace reveal {
namespace {

// In the order of the enumerators.
constexpr std::string_view kSeverities[] = {"info", "notice", "warning", "critical"};
constexpr std::string_view kConfidences[] = {"possible", "likely", "certain"};
constexpr std::string_view kFindingKinds[] = {"anomaly", "audit", "peer", "history"};

template <typename Enum>
std::optional<Enum> find(std::span<const std::string_view> names, std::string_view name) noexcept {
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end()) return std::nullopt;
  return static_cast<Enum>(at - names.begin());
}

}  // namespace

std::string_view name_of(Severity severity) noexcept {
  return kSeverities[static_cast<std::size_t>(severity)];
}
std::string_view name_of(Confidence confidence) noexcept {
  return kConfidences[static_cast<std::size_t>(confidence)];
}
std::string_view name_of(FindingKind kind) noexcept {
  return kFindingKinds[static_cast<std::size_t>(kind)];
}

std::optional<Severity> severity_of(std::string_view name) noexcept {
  return find<Severity>(kSeverities, name);
}
std::optional<Confidence> confidence_of(std::string_view name) noexcept {
  return find<Confidence>(kConfidences, name);
}
std::optional<FindingKind> finding_kind_of(std::string_view name) noexcept {
  return find<FindingKind>(kFindingKinds, name);
}

}  // namespace reveal
