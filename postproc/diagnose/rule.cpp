#include "postproc/diagnose/rule.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <deque>
#include <limits>
#include <set>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/program_name.h"
#include "hdf5schema/basics/text.h"
#include "postproc/telemetry/programs.h"
#include "postproc/telemetry/snapshot_facts.h"

namespace reveal {
namespace {

// A deque keeps the addresses that rules() hands out.
std::deque<RuleSpec>& registered() {
  static std::deque<RuleSpec> specs;
  return specs;
}

/// The name of the process in an event of the collector: "rank0 python3", "slot1 cc1plus".
std::string_view process_of(const Event& event) {
  if (event.code != "process_begin") return {};
  return std::string_view(event.text).substr(std::min(event.text.find(' ') + 1, event.text.size()));
}

/// Second of the next run, as long as this one, from which a tool is to record it: loading and warming up are over, and
/// most of the run is left.
std::string profile_delay(double run_seconds) {
  constexpr double kUsual = 120;
  const double second = run_seconds >= 2 * kUsual ? kUsual : std::max(1.0, std::round(run_seconds / 10));
  return std::to_string(std::lround(second));
}

}  // namespace

std::string_view name_of(Stated stated) noexcept {
  constexpr std::string_view kNames[] = {"cause", "fact", "difference"};
  return kNames[static_cast<std::size_t>(stated)];
}

std::string_view name_of(Proof proof) noexcept {
  constexpr std::string_view kNames[] = {"real", "guest", "recorded", "double"};
  return kNames[static_cast<std::size_t>(proof)];
}

std::string_view explanation_of(Stated stated) noexcept {
  constexpr std::string_view kExplanations[] = {"the cause of what was measured",
                                                "a fact, for which no cause is looked for",
                                                "a difference whose cause is not known"};
  return kExplanations[static_cast<std::size_t>(stated)];
}

std::string_view explanation_of(Proof proof) noexcept {
  constexpr std::string_view kExplanations[] = {
      "a real job with this disturbance triggers it; a job without it does not",
      "a job in an emulated machine with this fault triggers it; a job without it does not",
      "files recorded on a machine with this fault trigger it; files of a machine without it do not",
      "synthetic measurements with this fault trigger it, those without it do not; it was not tested on a machine with "
      "this fault"};
  return kExplanations[static_cast<std::size_t>(proof)];
}

std::string verify_words(const RuleSpec& rule) {
  const Verification& verify = rule.verify;
  if (verify.command.empty()) {
    std::string text = "Run the job again, then `reveal show NEXT_RUN`: expected no finding " + std::string(rule.id);
    if (!verify.expected.empty()) text.append(" (").append(verify.expected).append(")");
    return text + ".";
  }
  std::string text = "Run `" + std::string(verify.command) + "`";
  if (!verify.where.empty()) text.append(" ").append(verify.where);
  return text.append(": expected ").append(verify.expected) + ".";
}

namespace {

Stated stated_by_rule(std::string_view id) {
  const RuleSpec* rule = find_rule(id);
  return rule == nullptr ? Stated::cause : rule->states;
}

}  // namespace

Stated stated_by(const Finding& finding) {
  return stated_by_rule(finding.id);
}

std::string certainty_words(const Finding& finding) {
  const bool found = stated_by(finding) == Stated::difference && !finding.caused_by.empty();
  return found ? "cause found" : certainty_words(finding.id, finding.confidence);
}

std::string certainty_words(std::string_view rule, Confidence confidence) {
  const Stated states = stated_by_rule(rule);
  if (states == Stated::difference) return "cause not known";
  if (states == Stated::fact && confidence == Confidence::certain) return "measured fact";
  return "cause " + std::string(name_of(confidence));
}

bool is_only_possible(const Finding& finding) {
  return finding.confidence == Confidence::possible && stated_by(finding) != Stated::difference;
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
    if (spec->id == id || (!id.empty() && spec->former_id == id)) return spec;
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
      progress(node.progress),
      utc_minus_monotonic_ns_(node.utc_minus_monotonic_ns),
      job_(node.job),
      command_(node.command),
      asked_for_(node.asked_for),
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
  if (asked_for_ != nullptr) asked_for_->emplace(metric);
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

std::vector<double> RuleContext::total(std::string_view metric) const {
  auto sum = total_if_measured(metric);
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
  for (const Snapshot* snapshot : {&begin, &end}) {  // for a job that began late, only the end has it
    if (const auto value = fact_in(*snapshot, key)) return std::string(*value);
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
  finding.sources.assign(rule.sources.begin(), rule.sources.end());
  return finding;
}

double RuleContext::second_of(const Event& event) const {
  const auto begin_ns = static_cast<double>(telemetry.begin_utc_ns);
  return (static_cast<double>(utc_minus_monotonic_ns_) - begin_ns + static_cast<double>(event.time_ns)) * 1e-9;
}

bool RuleContext::happened_in(const Event& event, const TimeSpan& span, double late_seconds) const {
  const std::int64_t utc_ns = event.time_ns + utc_minus_monotonic_ns_;
  return utc_ns >= span.begin_utc_ns && utc_ns <= span.end_utc_ns + static_cast<std::int64_t>(late_seconds * 1e9);
}

bool RuleContext::without_job() const {
  return job_.empty() && command_.empty() && snapshot_value("job.cpus_allowed").empty();
}

JobValues RuleContext::values() const {
  JobValues values{{"nodes", telemetry.node}, {"node", telemetry.node}};
  const auto know = [&values](std::string name, std::string value) {
    if (!value.empty()) values[std::move(name)] = std::move(value);
  };
  know("job", job_.empty() ? snapshot_value("env.SLURM_JOB_ID") : std::string(job_));
  know("cpus_per_task", snapshot_value("env.SLURM_CPUS_PER_TASK"));
  know("profile_delay", profile_delay(seconds(telemetry.samples)));
  know("command", std::string(command_));
  if (const std::string group = snapshot_value("job.cgroup"); group != "/") know("cgroup", group);
  if (!snapshot_value("node.other_jobs").empty()) values["other_jobs"] = "yes";
  const auto of_version_1 = [](const auto& fact) { return std::string_view(fact.first).starts_with("job.cgroup."); };
  if (std::any_of(begin.begin(), begin.end(), of_version_1)) values["cgroup_v1"] = "yes";
  constexpr std::string_view kPython = "python";
  std::string python = command_.starts_with(kPython) ? std::string(command_) : "";
  for (const Event& event : events) {
    const std::string_view process = process_of(event);
    if (python.empty() && process.starts_with(kPython)) python = process;
  }
  know("python", python);
  know("process", python.empty() ? process_name(command_) : python);
  if (python.empty() && !is_interpreter(command_)) know("binary", std::string(command_));
  const std::string libraries = snapshot_value("job.libraries");
  std::string_view rest = libraries;
  for (std::string_view library = next_word(rest); !library.empty(); library = next_word(rest)) {
    if (library.starts_with("torch")) values["torch"] = "yes";
    if (library == "nccl" || library == "torch_cuda") values["nccl"] = "yes";
  }
  return values;
}

Finding RuleContext::finding(const JobValues& more) const {
  Finding finding = finding_of(spec, {telemetry.node});
  JobValues all = more;
  all.merge(values());
  finding.remedy = remedy_for(spec, all);
  return finding;
}

bool RuleContext::has_ranks() const {
  if (parse_int(snapshot_value("env.SLURM_NTASKS")).value_or(1) > 1) return true;
  std::set<std::string_view> ranks;
  for (const Channel& channel : telemetry.channels) {
    if (channel.role == "rank" && channel.instance.starts_with("rank")) ranks.insert(channel.instance);
  }
  return ranks.size() > 1;
}

std::string RuleContext::rank_name(const std::string& instance) const {
  if (has_ranks()) return instance;
  const std::string process = program_in(events, instance);
  return process.empty() ? "the job's process" : process;
}

}  // namespace reveal
