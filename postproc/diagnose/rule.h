// A rule: a typed function over one node's analysis that returns findings, plus its texts and thresholds as data.
// One family of rules per file in rules/, without a header; each file ends in a registration line.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hdf5schema/trace.h"
#include "postproc/detect/episode.h"
#include "postproc/diagnose/finding.h"
#include "postproc/diagnose/remedy.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

/// A number a site may change in reveal.conf: [rule."cpu.outsider"] min_cpu = 0.15
struct Threshold {
  std::string_view name;
  double value = 0;
  std::string_view unit;
  std::string_view help;
};

/// How it was shown that the rule works; printed with it.
enum class Proof : std::uint8_t { real, guest, recorded, test_double };
[[nodiscard]] std::string_view name_of(Proof) noexcept;
/// The meaning of the word, for readers of the table.
[[nodiscard]] std::string_view explanation_of(Proof) noexcept;

/// The statement of a rule's findings: `confidence` is how sure that is.
enum class Stated : std::uint8_t {
  cause,       // the reason for what was measured
  fact,        // a state as it was measured, for which no reason is looked for
  difference,  // something differed; the reason is not known
};
[[nodiscard]] std::string_view name_of(Stated) noexcept;
[[nodiscard]] std::string_view explanation_of(Stated) noexcept;

class RuleContext;
class JobProgress;

/// How a reader shows that the remedy helped. Without a command it is the report of the next run, which must not have
/// the finding; `expected` is then a measurement of that run, or empty.
struct Verification {
  std::string_view command = {};   // can be pasted
  std::string_view where = {};     // its place and time: "on each node", "while the job runs"
  std::string_view expected = {};  // the value that it shows
};

struct RuleSpec {
  std::string_view id;
  std::string_view former_id = {};  // in reports and settings of earlier releases; "" if it was always called so
  std::string_view title;
  std::string_view looks_for;  // one sentence: the channels and the signal
  FindingKind kind = FindingKind::anomaly;
  Stated states = Stated::cause;
  Subsystem subsystem = Subsystem::cpu;
  int order = 100;  // attribution order: configuration on the path before symptoms; lower wins and runs first
  std::string_view look_alikes;  // tested before it reports, comma separated: ids of rules, or words
  Proof proof = Proof::real;
  /// The rule compares the job with everything else on the machine: void where nodes of the job share one kernel.
  bool whole_machine = false;
  /// A forecast for a job that goes on: no more than a notice for a job that has ended well.
  bool forecast = false;
  /// No job with such a finding ends well: it is dropped for a job that did.
  bool never_ends_well = false;
  /// Its sentence names the rank or the part that was slow: what it finds on other nodes or instances is another
  /// finding.
  bool names_place = false;
  /// `reveal check` evaluates it on a node without a job, too.
  bool checks_node = false;
  std::vector<Threshold> thresholds;
  std::vector<RemedyLine> user_remedy;
  std::vector<RemedyLine> advice = {};
  std::vector<RemedyLine> admin_remedy;
  Verification verify;
  std::vector<std::string_view> sources;
  /// Findings of this node; throws Unavailable("why") when its signals are missing (-> not_checked). Null for rules on
  /// the job as a whole or on several runs: see EffectiveRule.
  std::vector<Finding> (*check)(const RuleContext&) = nullptr;
};

/// The statement of the finding's rule; a cause where this version does not have the rule.
[[nodiscard]] Stated stated_by(const Finding& finding);
/// How sure the cause is: "cause likely", "cause not known" where the rule names none, "measured fact" where it states
/// a fact.
[[nodiscard]] std::string certainty_words(const Finding& finding);
/// The same where only the rule of a finding is known, and not what caused it.
[[nodiscard]] std::string certainty_words(std::string_view rule, Confidence confidence);
/// Another cause was not ruled out: a sentence must not tell this one as a fact.
[[nodiscard]] bool is_only_possible(const Finding& finding);

/// All registered rules, in attribution order, then by id.
[[nodiscard]] const std::vector<const RuleSpec*>& rules();
/// Finds a rule by its id or its former one. Null for an unknown id.
[[nodiscard]] const RuleSpec* find_rule(std::string_view id);

/// "Run `cat /sys/.../current_clocksource` on each node: expected tsc."
[[nodiscard]] std::string verify_words(const RuleSpec& rule);

struct RegisteredRule {
  explicit RegisteredRule(RuleSpec spec);
};

/// Everything a rule may look at on one node.
class RuleContext {
 public:
  /// Names of metrics.
  using Metrics = std::set<std::string, std::less<>>;
  /// The data shared by all rules of one node. All of it outlives the context.
  struct Node {
    const Telemetry& telemetry;
    const Detection& detection;
    const Snapshot& begin;
    const Snapshot& end;
    std::span<const Event> events;
    std::int64_t utc_minus_monotonic_ns = 0;  // offset for their times
    std::string_view job = {};                // its id; "" outside a batch system
    std::string_view command = {};            // name of the program
    Metrics* asked_for = nullptr;             // gets the metrics that rules request, measured or not
    JobProgress* progress = nullptr;          // work of the job; null: costs are the rules' own estimates
  };
  struct Override {
    std::string name;
    double value = 0;
  };

  RuleContext(const RuleSpec& rule, const Node& node, std::span<const Finding> found_before,
              std::span<const Override> overrides);

  const RuleSpec& spec;
  const Telemetry& telemetry;
  const Detection& detection;
  const Snapshot& begin;
  const Snapshot& end;
  std::span<const Event> events;
  std::span<const Finding> found;  // by the rules that come before this one in attribution order
  JobProgress* const progress;

  [[nodiscard]] double threshold(std::string_view name) const;  // the site's value or the rule's own
  /// Channel indices by metric, and instance if not empty; empty when not measured.
  [[nodiscard]] std::vector<std::size_t> channels(std::string_view metric, std::string_view instance = {}) const;
  /// Sum over the channels per grid step, NaN where none has a value; throws Unavailable naming the metric when there
  /// is no such channel, or none that was ever measured.
  [[nodiscard]] std::vector<double> total(std::string_view metric) const;
  /// The same of the channels of a role, or of all if that is empty; nothing where total() would throw.
  [[nodiscard]] std::optional<std::vector<double>> total_if_measured(std::string_view metric,
                                                                     std::string_view role = {}) const;
  /// Seconds to grid steps, at least one.
  [[nodiscard]] std::size_t steps(double seconds) const;
  [[nodiscard]] double seconds(std::size_t steps) const { return static_cast<double>(steps) * telemetry.step_seconds; }
  [[nodiscard]] TimeSpan span(std::size_t begin_sample, std::size_t end_sample) const;
  /// Seconds from the first sample to the event.
  [[nodiscard]] double second_of(const Event& event) const;
  /// Whether the event happened in the span, or within `late_seconds` after it.
  [[nodiscard]] bool happened_in(const Event& event, const TimeSpan& span, double late_seconds = 0) const;
  [[nodiscard]] std::string snapshot_value(std::string_view key) const;  // "" when unknown
  [[nodiscard]] double page_bytes() const;  // page size of the node; 4096 in traces without it
  /// The trace shows a node alone: the recorder was started without a job.
  [[nodiscard]] bool without_job() const;
  /// The recorded activity, for sentences: "the job", or "the recording" of a node alone.
  [[nodiscard]] std::string_view watched() const { return without_job() ? "the recording" : "the job"; }
  /// The known values of the job for remedies.
  [[nodiscard]] JobValues values() const;
  /// A finding with the rule's texts filled in; `more` values for its remedy.
  [[nodiscard]] Finding finding(const JobValues& more = {}) const;
  /// How the job's users call it: "rank3" in a job of several ranks, else the name of its process or "the job's
  /// process".
  [[nodiscard]] std::string rank_name(const std::string& instance) const;

 private:
  [[nodiscard]] bool has_ranks() const;

  std::int64_t utc_minus_monotonic_ns_;
  std::string_view job_;
  std::string_view command_;
  Metrics* asked_for_;
  std::span<const Override> overrides_;
};

/// The site's value or the rule's own.
[[nodiscard]] double threshold_of(const RuleSpec& rule, std::span<const RuleContext::Override> overrides,
                                  std::string_view name);
/// Returns a finding with the rule's texts filled in, but for its remedy.
[[nodiscard]] Finding finding_of(const RuleSpec& rule, std::vector<std::string> nodes);

}  // namespace reveal
