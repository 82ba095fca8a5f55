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

/// A row of [report] mute: findings of the rule on the node are listed as muted. Both are patterns as of a shell.
struct Mute {
  std::string rule, node;
  std::string text;   // "cpu.outsider@n03"
  std::string place;  // "reveal.conf:12"
};
/// "RULE@NODE", or "RULE" for all nodes.
[[nodiscard]] Mute parse_mute(const std::string& text);

struct AnalysisSettings {
  std::string pipeline = "reveal";
  bool history = true;  // compare with earlier runs
  std::vector<RuleSetting> rules;
  std::vector<Mute> mutes;

  [[nodiscard]] const RuleSetting* find(std::string_view rule) const;
};

/// The sections [report] and [rule."ID"].
[[nodiscard]] AnalysisSettings analysis_settings(const Config& config);

/// Changes whenever the same trace could lead to another result of a node: version, thresholds, pipeline. What is muted
/// is taken out of the report only.
[[nodiscard]] std::string config_hash(const AnalysisSettings& settings);

/// 64 bits of FNV-1a in hexadecimal: identifies texts, protects nothing.
[[nodiscard]] std::string text_hash(std::string_view text);

}  // namespace reveal
