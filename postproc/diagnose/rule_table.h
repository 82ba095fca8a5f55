// What `reveal rules` prints: the rule table as it is, never retyped.
#pragma once

#include <string>

#include "postproc/diagnose/analysis_settings.h"

namespace reveal {

/// One block per rule in attribution order, with thresholds as the site has set them.
[[nodiscard]] std::string rules_as_text(const AnalysisSettings& settings);
[[nodiscard]] std::string rules_as_json(const AnalysisSettings& settings);

}  // namespace reveal
