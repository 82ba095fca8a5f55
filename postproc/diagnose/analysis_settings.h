// The settings of a site or a user for the analysis: the parts of reveal.conf that `reveal` itself reads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hdf5schema/basics/config.h"
#include "postproc/diagnose/rule.h"

namespace reveal {

struct RuleSetting {
  std::string rule;
  bool enabled = true;
  std::vector<RuleContext::Override> thresholds;
};

struct AnalysisSettings {
  std::string pipeline = "reveal";
  bool history = true;  // compare with earlier runs
  std::vector<RuleSetting> rules;

  [[nodiscard]] const RuleSetting* find(std::string_view rule) const;
};

/// The sections [report] and [rule."ID"].
[[nodiscard]] AnalysisSettings analysis_settings(const Config& config);

/// Changes whenever the same trace could lead to another result: version, thresholds, pipeline.
[[nodiscard]] std::string config_hash(const AnalysisSettings& settings);

/// 64 bits of FNV-1a in hexadecimal: identifies texts, protects nothing.
[[nodiscard]] std::string text_hash(std::string_view text);

}  // namespace reveal
