#include "postproc/diagnose/rule.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <deque>
#include <limits>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

// A deque keeps the addresses that rules() hands out.
std::deque<RuleSpec>& registered() {
  static std::deque<RuleSpec> specs;
  return specs;
}

}  // namespace

std::string_view name_of(Proof proof) noexcept {
  constexpr std::string_view kNames[] = {"real", "guest", "recorded", "double"};
  return kNames[static_cast<std::size_t>(proof)];
}

std::string_view explanation_of(Proof proof) noexcept {
  constexpr std::string_view kExplanations[] = {
      "a real job with this disturbance triggers it, one without does not",
      "a job in an emulated machine with this fault triggers it, one without does not",
      "files recorded on a machine with this fault trigger it, those of one without do not",
      "made-up measurements with this fault trigger it, those without do not; no machine that has it was at hand"};
  return kExplanations[static_cast<std::size_t>(proof)];
}

RegisteredRule::RegisteredRule(RuleSpec spec) {
  registered().push_back(std::move(spec));
}

const std::vector<const RuleSpec*>& rules() {
  static const std::vector<const RuleSpec*> sorted = [] {
    std::vector<const RuleSpec*> all;
    for (const RuleSpec& spec : registered()) all.push_back(&spec);
    // Registration order is link order; the report must not depend on it.
    std::sort(all.begin(), all.end(), [](const RuleSpec* a, const RuleSpec* b) {
      return a->order != b->order ? a->order < b->order : a->id < b->id;
    });
    return all;
  }();
  return sorted;
}

const RuleSpec* find_rule(std::string_view id) {
  for (const RuleSpec* spec : rules()) {
    if (spec->id == id) return spec;
  }
  return nullptr;
}

RuleContext::RuleContext(const RuleSpec& rule, const Node& node, std::span<const Finding> found_before,
                         std::span<const Override> overrides)
    : spec(rule),
      telemetry(node.telemetry),
      detection(node.detection),
      begin(node.begin),
      end(node.end),
      events(node.events),
      found(found_before),
      overrides_(overrides) {}

double threshold_of(const RuleSpec& rule, std::span<const RuleContext::Override> overrides, std::string_view name) {
  for (const RuleContext::Override& site : overrides) {
    if (site.name == name) return site.value;
  }
  for (const Threshold& own : rule.thresholds) {
    if (own.name == name) return own.value;
  }
  assert(false && "a rule asks only for thresholds of its own table");
  return std::numeric_limits<double>::quiet_NaN();
}

double RuleContext::threshold(std::string_view name) const {
  return threshold_of(spec, overrides_, name);
}

std::vector<std::size_t> RuleContext::channels(std::string_view metric, std::string_view instance) const {
  std::vector<std::size_t> matching;
  for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
    const Channel& channel = telemetry.channels[i];
    if (channel.metric == metric && (instance.empty() || channel.instance == instance)) matching.push_back(i);
  }
  return matching;
}

std::optional<std::vector<double>> RuleContext::total_if_measured(std::string_view metric,
                                                                  std::string_view role) const {
  std::vector<double> sum(telemetry.samples, std::numeric_limits<double>::quiet_NaN());
  bool any = false;
  for (const std::size_t channel : channels(metric)) {
    if (!role.empty() && telemetry.channels[channel].role != role) continue;
    const auto series = telemetry.series(channel);
    for (std::size_t t = 0; t < series.size(); ++t) {
      if (std::isnan(series[t])) continue;
      sum[t] = std::isnan(sum[t]) ? series[t] : sum[t] + series[t];
      any = true;
    }
  }
  if (!any) return std::nullopt;
  return sum;
}

std::vector<double> RuleContext::total(std::string_view metric, std::string_view role) const {
  auto sum = total_if_measured(metric, role);
  if (!sum) throw Unavailable("not measured: " + std::string(metric));
  return *std::move(sum);
}

std::size_t RuleContext::steps(double seconds) const {
  return static_cast<std::size_t>(std::max(1.0, std::round(seconds / telemetry.step_seconds)));
}

TimeSpan RuleContext::span(std::size_t begin_sample, std::size_t end_sample) const {
  const auto at = [&](std::size_t sample) {
    return telemetry.begin_utc_ns + std::llround(static_cast<double>(sample) * telemetry.step_seconds * 1e9);
  };
  return {at(begin_sample), at(end_sample)};
}

double RuleContext::page_bytes() const {
  constexpr std::int64_t kUsual = 4096;
  return static_cast<double>(parse_int(snapshot_value("memory.page_bytes")).value_or(kUsual));
}

std::string RuleContext::snapshot_value(std::string_view key) const {
  for (const Snapshot* snapshot : {&begin, &end}) {  // of a job that began late, only the end tells
    for (const auto& [name, value] : *snapshot) {
      if (name == key) return value;
    }
  }
  return {};
}

Finding finding_of(const RuleSpec& rule, std::vector<std::string> nodes) {
  Finding finding;
  finding.id = rule.id;
  finding.title = rule.title;
  finding.kind = rule.kind;
  finding.subsystem = rule.subsystem;
  finding.nodes = std::move(nodes);
  finding.remedy.user.assign(rule.user_remedy.begin(), rule.user_remedy.end());
  finding.remedy.admin.assign(rule.admin_remedy.begin(), rule.admin_remedy.end());
  finding.remedy.verify = rule.verify;
  finding.sources.assign(rule.sources.begin(), rule.sources.end());
  return finding;
}

Finding RuleContext::finding() const {
  return finding_of(spec, {telemetry.node});
}

}  // namespace reveal
