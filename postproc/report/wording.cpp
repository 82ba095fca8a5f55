#include "postproc/report/wording.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "hdf5schema/basics/enum_names.h"
#include "postproc/diagnose/rule.h"
#include "postproc/words/remedy_lines.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

// In the order of the enumerators.
constexpr std::string_view kStatuses[] = {"healthy", "notice", "finding", "insufficient_data"};
constexpr std::string_view kAnomalousBy[] = {"subsystem", "detector", "metric"};
constexpr std::string_view kMarkKinds[] = {"device",  "memory", "configuration", "service",
                                           "process", "step",   "training"};
constexpr std::string_view kPhaseKinds[] = {"computing",     "few_cpus", "reading",     "writing",
                                            "communicating", "waiting",  "not_measured"};
constexpr std::string_view kPhaseWords[] = {"computing", "computing on few cpus", "reading", "writing", "communicating",
                                            "waiting",   "not measured"};
constexpr std::string_view kHeadlines[] = {"Healthy", "Notice", "Finding", "Not enough data"};

/// The beginning of a reason, without the explanation behind it.
std::string short_reason(std::string_view reason) {
  constexpr std::size_t kLongestReason = 40;
  constexpr std::string_view kNotMeasured = "not measured: ";
  std::string text =
      shortened(reason.substr(0, std::min(reason.find(" ("), reason.find_first_of(",;"))), kLongestReason);
  return text.starts_with(kNotMeasured) ? "no " + text.substr(kNotMeasured.size()) : text;
}

std::string second_of(const ReportJob& job, std::int64_t utc_ns) {
  return one_decimal(static_cast<double>(utc_ns - job.begin_utc_ns) / 1e9);
}

}  // namespace

std::string when(const TimeSpan& span, const ReportJob& job) {
  const std::int64_t known = job.begin_utc_ns == 0 ? span.begin_utc_ns : job.begin_utc_ns;
  const std::string clock = clock_span(span.begin_utc_ns, span.end_utc_ns, known);
  if (job.begin_utc_ns == 0) return clock;
  const std::string begin = second_of(job, span.begin_utc_ns);
  const std::string end = second_of(job, span.end_utc_ns);
  if (begin == end) return fmt::format("at {} s of the job ({})", begin, clock);
  return fmt::format("{} s to {} s of the job ({})", begin, end, clock);
}

std::string_view name_of(Coverage::State state) noexcept {
  return name_in(kCoverageStates, state);
}
std::optional<Coverage::State> coverage_state_of(std::string_view name) noexcept {
  return enumerator_of<Coverage::State>(kCoverageStates, name);
}

std::string_view name_of(VerdictStatus status) noexcept {
  return name_in(kStatuses, status);
}
std::optional<VerdictStatus> verdict_status_of(std::string_view name) noexcept {
  return enumerator_of<VerdictStatus>(kStatuses, name);
}

std::string_view name_of(AnomalousTime::By by) noexcept {
  return name_in(kAnomalousBy, by);
}
std::optional<AnomalousTime::By> anomalous_by_of(std::string_view name) noexcept {
  return enumerator_of<AnomalousTime::By>(kAnomalousBy, name);
}

std::string_view name_of(ReportMark::Kind kind) noexcept {
  return name_in(kMarkKinds, kind);
}
std::optional<ReportMark::Kind> mark_kind_of(std::string_view name) noexcept {
  return enumerator_of<ReportMark::Kind>(kMarkKinds, name);
}

std::string_view name_of(JobPhase::Kind kind) noexcept {
  return name_in(kPhaseKinds, kind);
}
std::optional<JobPhase::Kind> phase_kind_of(std::string_view name) noexcept {
  return enumerator_of<JobPhase::Kind>(kPhaseKinds, name);
}
std::string_view words_of(JobPhase::Kind kind) noexcept {
  return name_in(kPhaseWords, kind);
}

std::vector<PhaseTime> phase_times(const NodePhases& node) {
  std::vector<PhaseTime> times;
  double all = 0;
  for (const JobPhase& phase : node.phases) {
    const auto same =
        std::find_if(times.begin(), times.end(), [&phase](const PhaseTime& time) { return time.kind == phase.kind; });
    PhaseTime& time = same != times.end() ? *same : times.emplace_back(PhaseTime{.kind = phase.kind});
    const double seconds = static_cast<double>(phase.span.end_utc_ns - phase.span.begin_utc_ns) / 1e9;
    time.seconds += seconds;
    ++time.count;
    all += seconds;
  }
  std::stable_sort(times.begin(), times.end(),
                   [](const PhaseTime& a, const PhaseTime& b) { return a.seconds > b.seconds; });
  for (PhaseTime& time : times) {
    const std::string often = time.count > 1 ? fmt::format(", {} times", time.count) : "";
    time.words = fmt::format("{} {} ({:.0f} %{})", words_of(time.kind), duration(time.seconds),
                             all > 0 ? 100 * time.seconds / all : 0, often);
  }
  return times;
}

std::string steps_words(const NodePhases& node, const ReportJob& job) {
  if (node.first_step_utc_ns == 0 || job.begin_utc_ns == 0) return "";
  return fmt::format("training steps from {} s to {} s of the job", second_of(job, node.first_step_utc_ns),
                     second_of(job, node.last_step_utc_ns));
}

std::string phases_line(const NodePhases& node, const ReportJob& job) {
  std::vector<std::string> words;
  for (const PhaseTime& time : phase_times(node)) words.push_back(time.words);
  std::string text = listed(words, words.size());
  for (const std::string& more : {steps_words(node, job), node.note}) {
    if (!more.empty()) text += (text.empty() ? "" : "; ") + more;
  }
  return text;
}

std::string_view headline(const Verdict& verdict) noexcept {
  if (verdict.job_failed && verdict.status == VerdictStatus::healthy) return "Failed";
  return name_in(kHeadlines, verdict.status);
}

std::string channel_name(std::string_view metric, std::string_view instance) {
  return instance.empty() ? std::string(metric) : fmt::format("{}/{}", metric, instance);
}

std::string job_title(const ReportJob& job) {
  constexpr std::size_t kLongestName = 60;
  const std::string name = printable(job.name.empty() ? job.command : job.name, kLongestName);
  if (job.id.empty()) return name.empty() ? "this run" : name;
  std::string title = "job " + printable(job.id, kLongestName);
  if (!job.array.empty()) title += fmt::format(" (array {})", printable(job.array, kLongestName));
  if (!job.het.empty()) title += fmt::format(" (component {})", printable(job.het, kLongestName));
  return name.empty() ? title : title + " " + name;
}

std::string run_time(const ReportJob& job) {
  if (job.ran_seconds) return "ran " + duration(*job.ran_seconds);
  if (job.begin_utc_ns == 0 || job.end_utc_ns <= job.begin_utc_ns) return "";
  return "recorded for " + duration(static_cast<double>(job.end_utc_ns - job.begin_utc_ns) / 1e9);
}

std::string cpus_used(const JobTotals& totals) {
  if (!totals.cpu_seconds || !totals.seconds || *totals.seconds <= 0) return quantity(std::nullopt, "");
  std::string text = hundredths(*totals.cpu_seconds / *totals.seconds);
  if (totals.cpus_owned) text += fmt::format(" of {}", counted(*totals.cpus_owned, "cpu"));
  return text;
}

std::string memory_used(const JobTotals& totals) {
  if (!totals.memory_peak) return quantity(std::nullopt, "");
  if (!totals.memory_limit) return amount(totals.memory_peak);
  // The limit was lowered while the job ran, or the peak was counted by another group.
  const bool beyond = *totals.memory_peak > *totals.memory_limit;
  return amount(totals.memory_peak) + (beyond ? ", limit " : " of ") + amount(totals.memory_limit);
}

std::string gpus_used(const JobTotals& totals) {
  if (!totals.gpus || !totals.gpu_used_share) return quantity(std::nullopt, "");
  return fmt::format("{} of {}", quantity(100 * *totals.gpu_used_share, "percent"), counted(*totals.gpus, "GPU"));
}

std::string gpu_memory_used(const JobTotals& totals) {
  if (!totals.gpu_memory_peak || !totals.gpu_memory_total) return amount(totals.gpu_memory_peak);
  return amount(totals.gpu_memory_peak) + " of " + amount(totals.gpu_memory_total);
}

std::string amount(std::optional<double> bytes) {
  return quantity(bytes, "bytes");
}

std::string waited(const JobTotals& totals) {
  return totals.wait_share ? hundredths(*totals.wait_share) : quantity(std::nullopt, "");
}

std::vector<std::string> used(const JobTotals& totals) {
  std::vector<std::string> parts;
  if (totals.cpu_seconds && totals.seconds) parts.push_back("cpu " + cpus_used(totals));
  if (totals.memory_peak) {
    const auto note = totals.notes.find("memory_peak");
    const bool beside_cache =
        note != totals.notes.end() && note->second.find(kLimitReachedWithCache) != std::string::npos;
    parts.push_back("memory " + memory_used(totals) + (beside_cache ? " (without cached files)" : "") +
                    (totals.nodes > 1 ? " on the fullest node" : ""));
  }
  std::vector<std::string> gpu;
  if (totals.gpu_used_share) gpu.push_back("GPU use " + gpus_used(totals));
  if (totals.gpu_memory_peak) {
    const bool several = totals.gpus.value_or(0) > 1;
    gpu.push_back("GPU memory " + gpu_memory_used(totals) + (several ? " on the fullest GPU" : ""));
  }
  if (totals.gpu_energy_joules) gpu.push_back("GPU energy " + quantity(totals.gpu_energy_joules, "J"));
  if (!gpu.empty()) parts.push_back(listed(gpu, gpu.size()));
  std::string io;
  if (totals.read_bytes) io = "read " + amount(totals.read_bytes);
  if (totals.written_bytes) io += (io.empty() ? "" : ", ") + ("wrote " + amount(totals.written_bytes));
  if (!io.empty()) parts.push_back(io);
  if (totals.wait_share) {
    const std::string threads = waited(totals);
    parts.push_back(fmt::format("{} {} waited for a cpu", threads, threads == "1" ? "thread" : "threads"));
  }
  if (totals.network_bytes) parts.push_back("network " + amount(totals.network_bytes));
  if (totals.energy_joules) parts.push_back("energy " + quantity(totals.energy_joules, "J"));
  if (totals.steps)
    parts.push_back(number(*totals.steps) + (*totals.steps == 1 ? " backward pass" : " backward passes"));
  if (totals.iteration_seconds) {
    parts.push_back("an iteration took " + quantity(*totals.iteration_seconds * 1e9, "ns") + " (estimated)");
  }
  return parts;
}

std::vector<std::string> unknown(const JobTotals& totals) {
  std::vector<NotChecked> missing;
  for (const TotalsNumber& total : kTotalsNumbers) {
    if (total.word.empty() || totals.*total.value) continue;
    if (total.is_of_gpus() && !totals.gpus) continue;  // a job without GPUs lacks nothing
    const auto why = totals.notes.find(total.key);
    missing.push_back({std::string(total.word), why == totals.notes.end() ? std::string(kNotMeasured) : why->second});
  }
  std::vector<std::string> lines;
  for (const NotChecked& group : by_reason(missing)) lines.push_back(group.rule + ": " + group.reason);
  return lines;
}

std::string level_words(const Finding& finding) {
  const std::string_view level = finding.severity == Severity::info ? "observation" : name_of(finding.severity);
  return fmt::format("{}, {}", level, certainty_words(finding));
}

std::string cost_beside(const Finding& finding) {
  const std::string cost = cost_words(finding.impact);
  if (cost.empty()) return "";
  return fmt::format(", {} {}", is_only_possible(finding) ? "may have cost" : "cost", cost);
}

std::string told(const Finding& finding) {
  if (finding.sentence.empty() || !is_only_possible(finding)) return finding.sentence;
  return finding.sentence + " Another cause is possible.";
}

std::string told_with_cost(const Finding& finding) {
  const std::string cost = cost_words({.seconds = finding.impact.seconds, .at_most = finding.impact.at_most});
  if (cost.empty()) return told(finding);
  return is_only_possible(finding) ? fmt::format("{} This may have cost {}.", finding.sentence, cost)
                                   : fmt::format("{} The job lost {}.", finding.sentence, cost);
}

std::string expected_of_comparison(const Finding& finding) {
  return finding.id + " must be gone";
}

std::string estimated(std::string_view word, const std::string& amount) {
  constexpr std::string_view kLess = "< ";
  return amount.starts_with(kLess) ? "less than " + amount.substr(kLess.size()) : fmt::format("{} {}", word, amount);
}

std::string cost_words(const Impact& cost) {
  const bool timed = cost.seconds.value_or(0) > 0;
  const bool shared = cost.percent.value_or(0) > 0;
  if (!timed && !shared) return "";
  const std::string share = shared ? number(*cost.percent) + " % of the run" : "";
  const std::string amount = timed ? duration(*cost.seconds) + (shared ? " (" + share + ")" : "") : share;
  return estimated(cost.at_most ? "at most" : "about", amount);
}

bool is_cost_unknown(const Impact& cost) {
  return cost_words(cost).empty() && (cost.how.empty() || cost.how.starts_with("not known"));
}

std::string impact(const Impact& cost) {
  const std::string text = cost_words(cost);
  if (text.empty()) return cost.how.empty() ? "not known" : cost.how;
  return cost.how.empty() ? text : text + ": " + cost.how;
}

bool only_shows(const std::vector<std::string>& lines) {
  return std::all_of(lines.begin(), lines.end(),
                     [](const std::string& line) { return form_of(line) == LineForm::look; });
}

bool only_admins_act(const Remedy& remedy) {
  return !remedy.admin.empty() && remedy.advice.empty() && only_shows(remedy.user);
}

std::string who_acts(const Remedy& remedy) {
  constexpr std::string_view kSite = "the administrators of this system";
  if (only_admins_act(remedy)) return std::string(kSite);
  if (!remedy.admin.empty()) return fmt::format("you, or {}", kSite);
  if (!remedy.advice.empty() || !only_shows(remedy.user)) return "you";
  return remedy.user.empty() ? "not known: reveal has no remedy for this" : "not known: look for the cause first";
}

std::vector<std::string> gaps(const Report& report) {
  std::vector<std::pair<std::string, std::vector<std::string>>> nodes_by_gap;  // in the order of their appearance
  std::size_t nodes_with_probes = 0;
  for (const NodeCoverage& coverage : report.coverage) {
    if (!coverage.probes.empty()) nodes_with_probes += coverage.nodes.size();
    for (const Coverage& probe : coverage.probes) {
      if (probe.state == Coverage::State::ok) continue;
      const std::string_view what = probe.state == Coverage::State::failed ? "failed" : "not measured";
      const std::string gap = fmt::format("{}: {}", probe.probe, probe.reason.empty() ? what : probe.reason);
      auto at =
          std::find_if(nodes_by_gap.begin(), nodes_by_gap.end(), [&](const auto& one) { return one.first == gap; });
      if (at == nodes_by_gap.end()) at = nodes_by_gap.insert(at, {gap, {}});
      at->second.insert(at->second.end(), coverage.nodes.begin(), coverage.nodes.end());
    }
  }
  std::vector<std::string> lines;
  lines.reserve(nodes_by_gap.size());
  for (const auto& [gap, nodes] : nodes_by_gap) {
    lines.push_back(nodes.size() == nodes_with_probes ? gap : fmt::format("{} (on {})", gap, node_list(nodes)));
  }
  return lines;
}

/// Rules about the whole job and its history are not among them: the report compares nodes and runs in lines of their
/// own.
bool is_about_a_node(const RuleSpec* rule) {
  return rule == nullptr || rule->check != nullptr;  // null: a rule of another version
}

/// The two most frequent reasons, each behind its number of rules, and the number of rules with others.
std::string checked_line(const Report& report) {
  constexpr std::size_t kShownReasons = 2;
  constexpr std::size_t kLongest = 75;  // characters in all reasons: two lines of a terminal
  std::map<std::string, std::size_t> rules_by_reason;
  std::set<std::string_view> all;
  for (const NotChecked& one : report.not_checked) {
    if (!is_about_a_node(find_rule(one.rule)) || one.checked_elsewhere) continue;
    if (all.insert(one.rule).second) ++rules_by_reason[short_reason(one.reason)];
  }
  if (all.empty()) return "";
  std::vector<std::pair<std::string, std::size_t>> reasons(rules_by_reason.begin(), rules_by_reason.end());
  std::stable_sort(reasons.begin(), reasons.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> parts;
  std::size_t others = all.size();
  for (const auto& [reason, count] : reasons) {
    std::string part = fmt::format("{} ({})", count, reason);
    const std::size_t taken = parts.empty() ? 0 : parts.front().size() + part.size();
    // A reason of a single rule tells less than the number of them.
    if (parts.size() == kShownReasons || (!parts.empty() && count == 1) || taken > kLongest) break;
    parts.push_back(std::move(part));
    others -= count;
  }
  if (others > 0) parts.push_back(fmt::format("{} (other reasons)", others));
  const auto about_a_node = static_cast<std::size_t>(std::count_if(rules().begin(), rules().end(), is_about_a_node));
  const std::size_t known = std::max(about_a_node, all.size());
  return fmt::format("{} of {} rules about nodes. Not checked: {}", known - all.size(), known, joined(parts, ", "));
}

std::vector<std::string> muted_lines(const Report& report) {
  std::vector<std::string> lines;
  lines.reserve(report.muted.size());
  for (const MutedFinding& muted : report.muted) {
    lines.push_back(
        fmt::format("{} on {}: {} ({})", muted.id, node_list(muted.nodes), name_of(muted.severity), muted.reason));
  }
  return lines;
}

std::vector<std::string> feedback_lines(const Report& report) {
  std::vector<std::string> lines;
  for (const Finding& finding : report.findings) {
    if (finding.feedback.empty() || finding.severity > Severity::info) continue;
    lines.push_back(fmt::format("{} on {}: {}", finding.id, node_list(finding.nodes), finding.feedback));
  }
  return lines;
}

std::string peers_line(const Report& report) {
  return report.comparison.groups.empty() ? report.comparison.reason : report.comparison.sentence;
}

std::string history_line(const Report& report) {
  const HistoryComparison& history = report.history;
  return history.status == HistoryStatus::never_compared ? "never compared: " + history.reason : history.sentence;
}

std::vector<NotChecked> by_reason(std::span<const NotChecked> not_checked) {
  std::vector<NotChecked> grouped;
  for (const NotChecked& one : not_checked) {
    const auto same = std::find_if(grouped.begin(), grouped.end(),
                                   [&](const NotChecked& group) { return group.reason == one.reason; });
    if (same == grouped.end()) {
      grouped.push_back(one);
    } else {
      same->rule += ", " + one.rule;
    }
  }
  return grouped;
}

}  // namespace reveal
