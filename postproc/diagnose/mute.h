// Findings that the site or the user has muted: `mute = ["RULE@NODE"]` in reveal.conf. A muted finding is none, but
// every report and check lists it, so that nothing is lost without a word.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "postproc/diagnose/analysis_settings.h"
#include "postproc/diagnose/finding.h"

namespace reveal {

struct MutedFinding {
  std::string id, title;
  Severity severity = Severity::notice;
  std::vector<std::string> nodes;
  std::string reason;  // "cpu.outsider@n03 in /etc/reveal/reveal.conf:12"
  bool operator==(const MutedFinding&) const = default;
};

/// The first row that mutes this rule on this node; null where there is none.
[[nodiscard]] const Mute* mute_of(const AnalysisSettings& settings, std::string_view rule, std::string_view node);

/// Takes out of `findings` those that are muted on all of their nodes.
[[nodiscard]] std::vector<MutedFinding> take_muted(std::vector<Finding>& findings, const AnalysisSettings& settings);

}  // namespace reveal
