// What a site or a user changed about the analysis: the parts of reveal.conf that `reveal` itself reads.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

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

/// Reads the sections [report] and [rule."ID"] into `settings` and leaves the other programs' sections alone.
/// Throws Error "FILE:LINE: unknown key ..." naming the near one.
void apply_analysis_config(AnalysisSettings& settings, std::string_view text, const std::string& file);

/// The site's file, then the user's above it; a file that does not exist changes nothing.
[[nodiscard]] AnalysisSettings load_analysis_settings(const std::vector<std::filesystem::path>& files);

/// Changes whenever the same trace could lead to another result: version, thresholds, pipeline.
[[nodiscard]] std::string config_hash(const AnalysisSettings& settings);

/// 64 bits of FNV-1a in hexadecimal: identifies texts, protects nothing.
[[nodiscard]] std::string text_hash(std::string_view text);

}  // namespace reveal
