// A node of a few channels, with values before, during and after an event, for one rule to look at.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "postproc/diagnose/causal_links.h"
#include "postproc/diagnose/job_progress.h"
#include "postproc/diagnose/rule.h"
#include "postproc/telemetry/derived.h"

namespace reveal {

class RuleRecording {
 public:
  using Course = std::function<double(double second)>;

  explicit RuleRecording(double seconds = 120) {
    telemetry.node = "n2";
    telemetry.samples = static_cast<std::size_t>(seconds / telemetry.step_seconds);
  }

  /// A counter's increments per second, with a ripple of a tenth.
  RuleRecording& counter(const std::string& metric, const std::string& instance, const Course& per_second,
                         const std::string& role = "job") {
    return add({.metric = metric, .instance = instance, .role = role, .kind = Kind::counter}, [&](double second) {
      return per_second(second) * telemetry.step_seconds * (0.95 + 0.02 * std::fmod(second * 70, 5));
    });
  }
  RuleRecording& gauge(const std::string& metric, const std::string& instance, const Course& level,
                       const std::string& role = "job") {
    return add({.metric = metric, .instance = instance, .role = role, .kind = Kind::gauge}, level);
  }

  /// As a trace is read.
  [[nodiscard]] Telemetry with_derived() const {
    Telemetry all = telemetry;
    append_derived(all);
    return all;
  }
  [[nodiscard]] std::vector<Finding> findings(std::string_view rule, std::span<const Finding> before = {}) const {
    const Telemetry all = with_derived();
    JobProgress progress;
    RuleContext::Node node{all, detection, begin, end, events};
    node.progress = &progress;
    const RuleSpec* spec = find_rule(rule);
    std::vector<Finding> found = spec->check(RuleContext(*spec, node, before, {}));
    for (const Finding& finding : found) expect_readable(finding);
    return found;
  }
  /// Checks that it fits on a page, and that commands can be pasted.
  static void expect_readable(const Finding& finding) {
    EXPECT_LE(finding.runner_up.why_not.size(), 110U) << finding.id << ": " << finding.runner_up.why_not;
    EXPECT_FALSE(finding.impact.how.starts_with("upper bound")) << finding.id << ": at_most says so";
    EXPECT_EQ(finding.sentence.find("job lost"), std::string::npos) << finding.id << ": the verdict adds the cost";
    EXPECT_FALSE(finding.impact.seconds && !(*finding.impact.seconds > 0)) << finding.id << ": that is \"none seen\"";
    for (const auto* lines : {&finding.remedy.user, &finding.remedy.advice, &finding.remedy.admin}) {
      for (const std::string& line : *lines) {
        EXPECT_EQ(line.find("..."), std::string::npos) << finding.id << ": " << line;
        EXPECT_EQ(line.find('{'), std::string::npos) << finding.id << ": " << line;
      }
    }
  }
  [[nodiscard]] double second_of(std::int64_t utc_ns) const {
    return static_cast<double>(utc_ns - telemetry.begin_utc_ns) * 1e-9;
  }

  /// `inside` from 50 s to 65 s, else `usual`.
  static Course event(double usual, double inside) {
    return [=](double second) { return second >= 50 && second < 65 ? inside : usual; };
  }
  static Course always(double level) {
    return [=](double) { return level; };
  }
  /// Every 20 s for 3 s, five times or more: a habit of the job.
  static Course habit(double usual, double inside) {
    return [=](double second) { return std::fmod(second, 20) >= 17 ? inside : usual; };
  }

  Telemetry telemetry;
  Detection detection;
  Snapshot begin;
  Snapshot end;
  std::vector<Event> events;

 private:
  RuleRecording& add(Channel channel, const Course& course) {
    telemetry.channels.push_back(std::move(channel));
    for (std::size_t t = 0; t < telemetry.samples; ++t) {
      telemetry.values.push_back(course(static_cast<double>(t) * telemetry.step_seconds));
    }
    return *this;
  }
};

/// Whether the rule finds something, all of which is part of the chain that begins with `causes`.
[[nodiscard]] inline bool explained_by(const RuleRecording& node, std::vector<Finding> causes, std::string_view rule) {
  std::vector<Finding> all = node.findings(rule, causes);
  const std::size_t effects = all.size();
  all.insert(all.end(), causes.begin(), causes.end());
  find_causes(all);
  return effects > 0 && std::all_of(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(effects),
                                    [&](const Finding& one) { return one.first_cause == causes.front().id; });
}

}  // namespace reveal
