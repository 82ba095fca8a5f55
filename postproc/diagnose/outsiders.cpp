#include "postproc/diagnose/outsiders.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "hdf5schema/basics/text.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

/// Beyond these, another explanation is at least as good; see look_alike().
constexpr double kFloodOfWrites = 30e6;  // bytes per second
constexpr double kFloodCpus = 0.5;
/// A cpu is named when it carries this part of the change on the busiest one.
constexpr double kNamedShare = 0.5;
constexpr double kLookSeconds = 5;  // period of the probe: it counts the seconds before it

struct BusierCpu {
  std::string name;
  double excess = 0;
};

/// The cpus that got busier, each taken alone: the job's own moves cancel only in the sum.
std::vector<BusierCpu> busier_cpus(const RuleContext& context, Interval at, std::span<const Interval> excluded) {
  std::vector<Interval> away(excluded.begin(), excluded.end());
  away.push_back(at);
  std::vector<BusierCpu> cpus;
  for (const std::size_t idle : context.channels("cpu.idle")) {
    const Channel& channel = context.telemetry.channels[idle];
    const auto allowed = context.channels("job.cpu_allowed", channel.instance);
    if (allowed.empty() || !(mean_inside(context.telemetry.series(allowed[0]), at) > 0.5)) continue;
    std::vector<double> work(context.telemetry.samples, 0.0);
    for (const std::string_view metric : {"cpu.user", "cpu.nice", "cpu.system"}) {
      for (const std::size_t i : context.channels(metric, channel.instance)) {
        const auto series = context.telemetry.series(i);
        for (std::size_t t = 0; t < series.size(); ++t) {
          work[t] += series[t] * 1e-9 / context.telemetry.step_seconds;
        }
      }
    }
    const double excess = mean_inside(work, at) - mean_outside(work, away);
    if (!std::isnan(excess)) cpus.push_back({channel.instance, excess});
  }
  std::sort(cpus.begin(), cpus.end(), [](const BusierCpu& a, const BusierCpu& b) { return a.excess > b.excess; });
  if (!cpus.empty()) {
    const double least = std::max(0.05, cpus.front().excess * kNamedShare);
    std::erase_if(cpus, [least](const BusierCpu& cpu) { return cpu.excess < least; });
  }
  return cpus;
}

/// How the job paid. Seconds are of its run time.
struct OutsiderCost {
  std::optional<InsideOutside> wait;
  std::optional<InsideOutside> used;
  bool fell = false;  // the job's use fell by their share
  double seconds = 0;
  std::string how;

  [[nodiscard]] bool any() const { return seconds > 0; }
};

/// Threads that live for less than a look wait unseen; those that were seen stand for them.
bool waited_far_longer(const InsideOutside& wait) {
  constexpr double kLeastRise = 0.02;  // s/s
  constexpr double kTimes = 2;
  return wait.excess() >= std::max(kLeastRise, kTimes * wait.outside);
}

/// Cpus that the job used, and those that the processes used whose waiting was measured: in a large job, these are not
/// all.
struct UsedCpus {
  MetricSeries all;
  std::optional<MetricSeries> of_measured = {};  // only where they are not all

  [[nodiscard]] const MetricSeries& of_those_that_wait() const { return of_measured ? *of_measured : all; }
};

UsedCpus use_of_cpus(const RuleContext& context, MetricSeries all, const MetricSeries& wait) {
  UsedCpus used{.all = std::move(all)};
  const bool of_processes = !wait.metric.starts_with("pressure.");
  if (of_processes && !measures_every_process(context, {0, context.telemetry.samples})) {
    used.of_measured = rate(context, "process.cpu_time", 1e-9, "cpus");
  }
  return used;
}

double width_of(const std::optional<InsideOutside>& used) {
  return std::max(1.0, used ? std::max(used->inside, used->outside) : 1.0);
}

OutsiderCost cost_of_outsider(const RuleContext& context, Interval at, std::span<const Interval> excluded,
                              const MetricSeries& wait, const UsedCpus& used_all, double excess) {
  OutsiderCost cost;
  const double length = context.seconds(at.length());
  cost.used = inside_outside(context, used_all.all, at, excluded);
  cost.wait = inside_outside(context, wait, at, excluded);

  if (cost.wait && cost.wait->excess() >= context.threshold("min_wait")) {
    // The node's pressure is a share of time already; waiting time of threads is shared by all cpus the job runs on.
    const bool share_of_time = wait.metric.starts_with("pressure.");
    const double width = width_of(inside_outside(context, used_all.of_those_that_wait(), at, excluded));
    const double lost = cost.wait->excess() * length / (share_of_time ? 1.0 : width);
    // It cannot have lost more than others took: the rest of the waiting is the job's own.
    cost.seconds = std::min({lost, length, excess * length});
    cost.how =
        share_of_time
            ? fmt::format("{} of {} s in which a task waited for a cpu, beyond the usual share ({})", number(lost),
                          number(length), wait.metric)
            : fmt::format("{} together waited {} s more than usual for a cpu{}",
                          used_all.of_measured ? "the processes that were measured" : "the job's processes",
                          number(cost.wait->excess() * length),
                          width > 1 ? fmt::format(", shared by the {} that they use", counted(width, "cpu")) : "");
    return cost;
  }
  cost.fell = cost.used && -cost.used->excess() >= excess * context.threshold("min_displaced_share");
  // Where all cpus are busy anyway, waiting hardly changes and the job's share of them does.
  if (cost.fell && cost.wait && (cost.wait->inside >= context.threshold("min_wait") || waited_far_longer(*cost.wait))) {
    cost.seconds = std::min(-cost.used->excess(), excess) * length / width_of(cost.used);
    cost.how = fmt::format("the job, with work waiting, got {} instead of {} for {} s",
                           counted(cost.used->inside, "cpu"), number(cost.used->outside), number(length));
  }
  return cost;
}

/// A reason to be silent about this interval, or nothing. Little kernel work beside a flood of writes is the flood's.
bool explained_by_writes(const RuleContext& context, Interval at, std::span<const Interval> excluded, double excess) {
  if (excess >= kFloodCpus) return false;
  const auto dirtied = rate(context, "vmstat.nr_dirtied", context.page_bytes(), "bytes/s");
  if (!dirtied) return false;
  const auto change = inside_outside(context, *dirtied, at, excluded);
  return change && change->excess() >= kFloodOfWrites && change->excess() >= change->outside;
}

/// Interrupts that found a cpu idle are in the signal on some kernels (see derived.cpp) and are no outsider.
double interrupts_excess(const RuleContext& context, Interval at, std::span<const Interval> excluded) {
  double excess = 0;
  for (const std::string_view metric : {"cpu.irq", "cpu.softirq"}) {
    const auto interrupts = rate(context, metric, 1e-9, "cpus");
    const auto change = inside_outside(context, interrupts, at, excluded);
    if (change) excess += change->excess();
  }
  return std::max(0.0, excess);
}

RunnerUp runner_up_of(const RuleContext& context, Interval at, std::span<const Interval> excluded, double excess) {
  constexpr double kAsBefore = 1.2;
  if (const auto steal = rate(context, "cpu.steal", 1e-9, "cpus")) {
    if (const auto change = inside_outside(context, *steal, at, excluded); change && change->excess() > 0.02) {
      return {"", fmt::format("the hypervisor took {} more than usual, the outsider {}",
                              counted(change->excess(), "cpu"), number(excess))};
    }
  }
  if (const auto running = level(context, "job.running", "processes")) {
    if (const auto change = inside_outside(context, *running, at, excluded)) {
      const bool as_before = change->inside <= kAsBefore * std::max(1.0, change->outside);
      return {"", fmt::format(
                      "the job itself: it {} (processes ready to run: {}, usually {})",
                      as_before ? "did not need more cpus than usual" : "needed more cpus, too, but used these less",
                      number(change->inside), number(change->outside))};
    }
  }
  return {};
}

/// The cpus of the job that were left alone. A job is moved to them for good only if it lost time and one cpu is spare;
/// and a core is left free only where that is a small part of them.
JobValues free_cpus(const RuleContext& context, std::span<const std::string> busy, const OutsiderCost& cost) {
  constexpr std::size_t kMany = 8;
  std::vector<int> free = parse_cpu_list(context.snapshot_value("job.cpus_allowed"));
  JobValues values;
  if (free.size() >= kMany) values["spare_core"] = "yes";
  std::erase_if(free, [&](int cpu) { return std::ranges::count(busy, "cpu" + std::to_string(cpu)) > 0; });
  const double wanted = cost.used ? std::max(2.0, cost.used->outside + 1) : kNaN;
  if (!busy.empty() && cost.any() && static_cast<double>(free.size()) >= wanted) {
    values["free_cpus"] = format_cpu_list(free);
  }
  return values;
}

/// A process outside the job that the collector may name: see core/probes/outsiders.cpp.
struct NamedOutsider {
  std::int64_t pid = 0;
  std::int64_t uid = 0;
  double cpus = 0;
  std::string command;
};

/// From the event "process 4711", "0.98 cpus, uid 1001: python3".
std::optional<NamedOutsider> named_by(const Event& event) {
  constexpr std::string_view kProcess = "process ";
  constexpr std::string_view kUid = " cpus, uid ";
  if (event.code != "outsider" || !event.object.starts_with(kProcess)) return std::nullopt;
  const std::string_view text = event.text;
  const std::size_t uid = text.find(kUid);
  const std::size_t colon = text.find(": ");
  if (uid == std::string_view::npos || colon == std::string_view::npos || colon < uid) return std::nullopt;
  double cpus = 0;
  if (std::from_chars(text.data(), text.data() + uid, cpus).ptr != text.data() + uid) return std::nullopt;
  const auto pid = parse_int(std::string_view(event.object).substr(kProcess.size()));
  const auto user = parse_int(text.substr(uid + kUid.size(), colon - uid - kUid.size()));
  if (!pid || !user) return std::nullopt;
  return NamedOutsider{*pid, *user, cpus, std::string(text.substr(colon + 2))};
}

/// The outsiders of the interval, each once with its highest use; the two that used most.
std::vector<NamedOutsider> named_outsiders(const RuleContext& context, Interval at) {
  constexpr std::size_t kMost = 2;
  const TimeSpan span = context.span(at.begin, at.end);
  std::map<std::int64_t, NamedOutsider> by_pid;
  for (const Event& event : context.events) {
    auto named = named_by(event);
    if (!named || !context.happened_in(event, span, kLookSeconds)) continue;
    NamedOutsider& known = by_pid[named->pid];
    if (known.cpus < named->cpus) known = *std::move(named);
  }
  std::vector<NamedOutsider> all;
  all.reserve(by_pid.size());
  for (auto& [pid, named] : by_pid) all.push_back(std::move(named));
  std::sort(all.begin(), all.end(), [](const NamedOutsider& a, const NamedOutsider& b) { return a.cpus > b.cpus; });
  if (all.size() > kMost) all.resize(kMost);
  return all;
}

std::string user_name(std::int64_t uid) {
  return uid == 0 ? "root" : "user " + std::to_string(uid);
}

/// " Among them: python3 (process 4711 of user 1001, 0.98 cpus)."
std::string among_them(std::span<const NamedOutsider> named) {
  std::string words;
  for (const NamedOutsider& each : named) {
    words += fmt::format("{}{} (process {} of {}, {})", words.empty() ? " Among them: " : ", ", each.command, each.pid,
                         user_name(each.uid), counted(each.cpus, "cpu"));
  }
  return words.empty() ? words : words + ".";
}

JobValues values_of_outsiders(std::span<const NamedOutsider> named) {
  std::string pids;
  for (const NamedOutsider& each : named) pids += (pids.empty() ? "" : ",") + std::to_string(each.pid);
  if (pids.empty()) return {};
  return {{"outsiders", pids}};
}

struct OutsiderWords {
  std::string_view instance;  // instance of outsider.cpu_time
  std::string_view rule;
  std::string_view subject;
};
constexpr std::array<OutsiderWords, 4> kOutsiders = {{
    {"services", "cpu.os_jitter", "System services"},
    {"jobs", "node.noisy_neighbour", "Other jobs on the node"},
    {"kernel", "cpu.os_jitter", "Threads of the kernel"},
    {"others", "cpu.outsider", "Processes outside the job"},
}};

const OutsiderWords& words_of(std::optional<Outsiders> who) noexcept {
  return kOutsiders[static_cast<std::size_t>(who.value_or(Outsiders::others))];
}

/// The kind of outsiders that used most of these cpu seconds, and at least half of them.
std::optional<Outsiders> who_took(const RuleContext& context, Interval at, std::span<const Interval> excluded,
                                  double cpu_seconds) {
  constexpr double kMostly = 0.5;
  const std::size_t look = context.steps(kLookSeconds);
  const Interval seen{at.begin - std::min(at.begin, look), std::min(context.telemetry.samples, at.end + look)};
  std::optional<Outsiders> who;
  double most = kMostly * cpu_seconds;
  for (std::size_t i = 0; i < kOutsiders.size(); ++i) {
    const auto used = outsider_time(context, static_cast<Outsiders>(i));
    if (!used) continue;
    const auto change = inside_outside(context, *used, seen, excluded);
    const double mean = change ? change->excess() : mean_inside(used->values, seen);
    const double seconds = mean * context.seconds(seen.length());
    if (!(seconds >= most)) continue;
    most = seconds;
    who = static_cast<Outsiders>(i);
  }
  return who;
}

/// The service of the system that used most: "updatedb.service". Only lines for administrators name it.
struct BusiestUnit {
  std::string name;
  double cpus = 0;
};

BusiestUnit busiest_unit(const RuleContext& context, Interval at) {
  constexpr std::string_view kUnit = "unit ";
  const TimeSpan span = context.span(at.begin, at.end);
  BusiestUnit busiest;
  for (const Event& event : context.events) {
    if (event.code != "outsider_unit" || !event.object.starts_with(kUnit)) continue;
    double cpus = 0;
    std::from_chars(event.text.data(), event.text.data() + event.text.size(), cpus);
    if (cpus <= busiest.cpus || !context.happened_in(event, span, kLookSeconds)) continue;
    busiest = {event.object.substr(kUnit.size()), cpus};
  }
  return busiest;
}

/// A finding with the kind of outsiders that it names.
struct OutsiderFinding {
  std::optional<Outsiders> who;
  Finding finding;
};

/// Adds their cpu time by the collector's own count, and that of reveal itself.
void add_counts(const RuleContext& context, Finding& finding, std::optional<Outsiders> who, Interval at,
                std::span<const Interval> excluded) {
  if (!who) return;
  const auto used = outsider_time(context, *who);
  if (!used) return;
  const auto change = inside_outside(context, *used, at, excluded);
  const double inside = mean_inside(used->values, at);
  if (std::isnan(inside)) return;
  Evidence evidence = evidence_of(context, *used, change.value_or(InsideOutside{inside, kNaN, 0}), at);
  evidence.instance = words_of(who).instance;
  if (!change) evidence.expected.reset();
  finding.evidence.push_back(std::move(evidence));
  if (who == Outsiders::services) {
    add_contrast(context, finding, rate(context, "self.cpu_time", 1e-9, "cpus"), at, excluded);
  }
}

/// Only cpu.outsider names processes: they belong to the user who records, the owner of the report.
bool may_name(std::optional<Outsiders> who) {
  return words_of(who).rule == "cpu.outsider";
}

JobValues values_for(const RuleContext& context, std::optional<Outsiders> who, Interval at,
                     std::span<const NamedOutsider> named) {
  JobValues values = may_name(who) ? values_of_outsiders(named) : JobValues{};
  if (who) values["known"] = "yes";
  if (who == Outsiders::jobs) values["other_jobs"] = "yes";
  if (who != Outsiders::services) return values;
  if (const BusiestUnit unit = busiest_unit(context, at); !unit.name.empty()) values["unit"] = unit.name;
  return values;
}

/// Whether it was measured that an outsider cost the job nothing.
bool is_no_cost(const OutsiderCost& cost) {
  return cost.wait && cost.used && !cost.fell;
}

std::string how_no_cost(const OutsiderCost& cost) {
  if (is_no_cost(cost)) return "none seen: the job waited no longer for a cpu and used no fewer cpus than usual";
  if (!cost.wait || !cost.used) return "not known: the job's waiting was not measured at that time";
  return "not known: the job used fewer cpus, but hardly waited for a cpu: it may have had less work";
}

Finding describe_outsider(const RuleContext& context, const MetricSeries& outsider, const Excursion& excursion,
                          std::span<const Interval> excluded, const MetricSeries& wait, const OutsiderCost& cost,
                          std::optional<Outsiders> who) {
  const Interval at = excursion.at;
  const double excess = excursion.inside - excursion.outside;
  const double length = context.seconds(at.length());

  const auto cpus = busier_cpus(context, at, excluded);
  std::vector<std::string> names;
  names.reserve(cpus.size());
  for (const BusierCpu& cpu : cpus) names.push_back(cpu.name);
  const std::vector<NamedOutsider> named = named_outsiders(context, at);
  JobValues values = free_cpus(context, names, cost);
  values.merge(values_for(context, who, at, named));
  Finding finding = finding_at(context, at, values);
  finding.instances = names;

  if (cost.any()) {
    set_loss(context, finding, cost.seconds, cost.how);
  } else {
    finding.impact.how = how_no_cost(cost);
    finding.severity = is_no_cost(cost) ? Severity::info : Severity::notice;
  }
  const auto confirmed = confirmed_by(context.detection, at);
  finding.confidence = confirmed || excursion.beyond ? Confidence::likely : Confidence::possible;

  Evidence taken = evidence_of(context, outsider, excursion);
  if (names.size() == 1) taken.instance = names.front();
  taken.detectors = seen_by(confirmed);
  finding.evidence.push_back(std::move(taken));
  if (cost.wait) finding.evidence.push_back(evidence_of(context, wait, *cost.wait, at));
  if (cost.used)
    finding.evidence.push_back(evidence_of(context, *rate(context, "job.cpu_time", 1e-9, "cpus"), *cost.used, at));

  add_counts(context, finding, who, at, excluded);

  finding.sentence = fmt::format("{} used {}{} of {} for {} (usually {}).", words_of(who).subject,
                                 counted(excursion.inside, "cpu"), names.size() == 1 ? " on " + names.front() : "",
                                 context.telemetry.node, duration(length), number(std::max(0.0, excursion.outside)));
  if (may_name(who)) finding.sentence += among_them(named);
  finding.runner_up = runner_up_of(context, at, excluded, excess);
  return finding;
}

/// An outsider that runs from the first to the last second leaves no time without it to compare with: the level itself,
/// compared with the job's waiting, is then the evidence. The threshold is higher, since a bias of the clocks is a
/// level too.
std::optional<OutsiderFinding> constant_outsider(const RuleContext& context, const MetricSeries& outsider,
                                                 const UsedCpus& used_all, const MetricSeries& wait) {
  const auto seconds = reference_means(outsider.values, {}, context.steps(1));
  if (seconds.empty() || static_cast<double>(seconds.size()) * context.telemetry.step_seconds <
                             context.threshold("min_constant_seconds")) {
    return std::nullopt;
  }
  if (seconds[seconds.size() / 10] < context.threshold("min_constant_cpu")) return std::nullopt;
  const Interval whole{0, context.telemetry.samples};
  const double taken = mean_inside(outsider.values, whole);
  const MetricSeries& used = used_all.of_those_that_wait();
  const double got = mean_inside(used.values, whole);
  const double waited = mean_inside(wait.values, whole);
  if (std::isnan(got) || std::isnan(waited) || waited < context.threshold("min_wait")) return std::nullopt;
  const double part = used_all.of_measured ? std::min(1.0, got / mean_inside(used_all.all.values, whole)) : 1.0;
  const double missed = std::min(waited, part * taken);
  const double share = missed / (got + missed);
  // Services and threads of the kernel always take that much of a node with many cpus.
  if (100 * share < context.threshold(kMinLostPercent.name)) return std::nullopt;

  const auto who = who_took(context, whole, {}, taken * job_seconds(context));
  const std::vector<NamedOutsider> named = named_outsiders(context, whole);
  Finding finding = finding_at(context, whole, values_for(context, who, whole, named));
  set_loss(context, finding, job_seconds(context) * share,
           fmt::format("{} got {} and waited for {} more, of which others used {}",
                       used_all.of_measured ? "the processes that were measured" : "it", counted(got, "cpu"),
                       number(waited), number(missed)));
  finding.confidence = Confidence::likely;
  finding.evidence = {evidence_of(context, outsider, {taken, kNaN, 0}, whole),
                      evidence_of(context, wait, {waited, kNaN, 0}, whole),
                      evidence_of(context, used, {got, kNaN, 0}, whole)};
  for (Evidence& evidence : finding.evidence) evidence.expected.reset();  // there was no time without it
  add_counts(context, finding, who, whole, {});
  finding.sentence = fmt::format("{} used {} of {} throughout the run; {} got {} and waited for {} more.",
                                 words_of(who).subject, counted(taken, "cpu"), context.telemetry.node,
                                 used_all.of_measured ? "those processes of the job that were measured" : "the job",
                                 counted(got, "cpu"), number(missed));
  if (may_name(who)) finding.sentence += among_them(named);
  finding.runner_up = {"", "the job's own threads compete, too, but this cpu time is not theirs"};
  return OutsiderFinding{who, std::move(finding)};
}

/// Returns the findings of all rules: a level that lasts for the whole job is compared with intervals that come and go.
std::vector<OutsiderFinding> all_outsiders(const RuleContext& context) {
  const MetricSeries outsider{"job.outsider_cpu", "cpus", context.total("job.outsider_cpu")};
  MetricSeries all_used = needed(rate(context, "job.cpu_time", 1e-9, "cpus"), "job.cpu_time");
  const MetricSeries wait = needed(cpu_wait(context), "waiting time of the job (schedstat) or pressure.cpu_some");
  const UsedCpus used = use_of_cpus(context, std::move(all_used), wait);

  const auto excursions = excursions_of(context, outsider.values, context.threshold("min_cpu"),
                                        context.threshold("min_score"), Cause::external);
  const std::vector<Interval> all = places(excursions);

  std::vector<OutsiderFinding> findings;
  std::optional<OutsiderFinding> habit;
  for (const Excursion& excursion : excursions) {
    if (excursion.recurring && habit) continue;
    const double excess = excursion.inside - excursion.outside;
    if (excess - interrupts_excess(context, excursion.at, all) < context.threshold("min_cpu")) continue;
    if (explained_by_writes(context, excursion.at, all, excess)) continue;
    const OutsiderCost cost = cost_of_outsider(context, excursion.at, all, wait, used, excess);
    // One that cost nothing is reported only if it explains an episode of the detectors.
    if (!cost.any() && !confirmed_by(context.detection, excursion.at)) continue;
    const auto who = who_took(context, excursion.at, all, excess * context.seconds(excursion.at.length()));
    Finding finding = describe_outsider(context, outsider, excursion, all, wait, cost, who);
    if (excursion.recurring) {
      // A recurring pattern on the node, or an effect of the job elsewhere: one finding, not a list of events.
      finding.severity = std::min(finding.severity, Severity::notice);
      finding.confidence = Confidence::possible;
      for (const Excursion& other : excursions) {
        if (!other.recurring || other.at.begin == excursion.at.begin) continue;
        finding.intervals.push_back(context.span(other.at.begin, other.at.end));
      }
      habit = OutsiderFinding{who, std::move(finding)};
      continue;
    }
    findings.push_back({who, std::move(finding)});
  }
  if (habit) {
    findings.push_back(*std::move(habit));
    return findings;
  }
  auto constant = constant_outsider(context, outsider, used, wait);
  if (!constant) return findings;
  double lost_in_intervals = 0;
  for (const OutsiderFinding& found : findings) lost_in_intervals += found.finding.impact.seconds.value_or(0);
  if (*constant->finding.impact.seconds <= lost_in_intervals) return findings;
  return {*std::move(constant)};
}

}  // namespace

std::string_view rule_of(std::optional<Outsiders> who) noexcept {
  return words_of(who).rule;
}

std::vector<Threshold> outsider_thresholds(std::vector<Threshold> more) {
  more.insert(more.begin(), std::begin(kOutsiderThresholds), std::end(kOutsiderThresholds));
  return more;
}

std::optional<MetricSeries> outsider_time(const RuleContext& context, Outsiders who) {
  const auto channels = context.channels("outsider.cpu_time", words_of(who).instance);
  if (channels.empty()) return std::nullopt;
  return channel_rate(context, channels.front(), 1e-9, "cpus");
}

std::vector<Finding> outsider_findings(const RuleContext& context) {
  std::vector<Finding> findings;
  for (OutsiderFinding& found : all_outsiders(context)) {
    if (rule_of(found.who) == context.spec.id) findings.push_back(std::move(found.finding));
  }
  return findings;
}

}  // namespace reveal
