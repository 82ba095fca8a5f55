// Somebody outside the job ran on cpus the job may use, and the job paid for it.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <span>

#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

/// Beyond these, another explanation is at least as good; see look_alike().
constexpr double kFloodBytesPerSecond = 30e6;
constexpr double kFloodCpus = 0.5;
/// A cpu is named when it carries this part of the change on the busiest one.
constexpr double kNamedShare = 0.5;

struct Cpu {
  std::string name;
  double excess = 0;
};

/// Which cpus got busier, seen on the cpus alone: the job's own moves cancel only in the sum.
std::vector<Cpu> busier_cpus(const RuleContext& context, Interval at, std::span<const Interval> excluded) {
  std::vector<Interval> away(excluded.begin(), excluded.end());
  away.push_back(at);
  std::vector<Cpu> cpus;
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
  std::sort(cpus.begin(), cpus.end(), [](const Cpu& a, const Cpu& b) { return a.excess > b.excess; });
  if (!cpus.empty()) {
    const double least = std::max(0.05, cpus.front().excess * kNamedShare);
    std::erase_if(cpus, [least](const Cpu& cpu) { return cpu.excess < least; });
  }
  return cpus;
}

/// How the job paid. Seconds are of its run time.
struct Cost {
  std::optional<Contrast> wait;
  std::optional<Contrast> used;
  double seconds = 0;
  std::string how;

  [[nodiscard]] bool any() const { return seconds > 0; }
};

Cost cost_of(const RuleContext& context, Interval at, std::span<const Interval> excluded, const Signal& wait,
             const Signal& used, double excess) {
  Cost cost;
  const double length = context.seconds(at.length());
  cost.used = contrast(context, used, at, excluded);
  cost.wait = contrast(context, wait, at, excluded);
  const double width = std::max(1.0, cost.used ? std::max(cost.used->inside, cost.used->outside) : 1.0);

  if (cost.wait && cost.wait->excess() >= context.threshold("min_wait")) {
    // The node's pressure is a share of time already; waiting time of threads is shared by all cpus the job runs on.
    const bool share_of_time = wait.metric.starts_with("pressure.");
    const double lost = cost.wait->excess() * length / (share_of_time ? 1.0 : width);
    // It cannot have lost more than somebody took: the rest of the waiting is the job's own doing.
    cost.seconds = std::min({lost, length, excess * length});
    cost.how = share_of_time
                   ? fmt::format("{} of {} s in which something waited for a cpu, beyond the usual share ({})",
                                 number(lost), number(length), wait.metric)
                   : fmt::format("{} s of extra run-queue wait of the job's processes, over the {} cpus it uses",
                                 number(cost.wait->excess() * length), number(width));
    return cost;
  }
  // Where all cpus are busy anyway, waiting hardly changes and the job's share of them does.
  if (cost.used && cost.wait && cost.wait->inside >= context.threshold("min_wait") &&
      -cost.used->excess() >= excess * context.threshold("min_displaced_share")) {
    cost.seconds = std::min(-cost.used->excess(), excess) * length / width;
    cost.how = fmt::format("the job, with work waiting, got {} cpus instead of {} for {} s", number(cost.used->inside),
                           number(cost.used->outside), number(length));
  }
  return cost;
}

/// A reason to be silent about this interval, or nothing. Little kernel work beside a flood of writes is the flood's.
bool explained_by_writes(const RuleContext& context, Interval at, std::span<const Interval> excluded, double excess) {
  if (excess >= kFloodCpus) return false;
  const auto dirtied = rate(context, "vmstat.nr_dirtied", context.page_bytes(), "bytes/s");
  if (!dirtied) return false;
  const auto change = contrast(context, *dirtied, at, excluded);
  return change && change->excess() >= kFloodBytesPerSecond && change->excess() >= change->outside;
}

/// Interrupts that found a cpu idle are in the signal on some kernels (see derived.cpp) and are no outsider.
double interrupts_excess(const RuleContext& context, Interval at, std::span<const Interval> excluded) {
  double excess = 0;
  for (const std::string_view metric : {"cpu.irq", "cpu.softirq"}) {
    const auto interrupts = rate(context, metric, 1e-9, "cpus");
    const auto change = contrast(context, interrupts, at, excluded);
    if (change) excess += change->excess();
  }
  return std::max(0.0, excess);
}

RunnerUp runner_up(const RuleContext& context, Interval at, std::span<const Interval> excluded, double excess) {
  if (const auto steal = rate(context, "cpu.steal", 1e-9, "cpus")) {
    if (const auto change = contrast(context, *steal, at, excluded); change && change->excess() > 0.02) {
      return {"", fmt::format("the hypervisor took {} cpus more than usual, the outsider {}", number(change->excess()),
                              number(excess))};
    }
  }
  if (const auto running = level(context, "job.running", "processes")) {
    if (const auto change = contrast(context, *running, at, excluded)) {
      return {"", fmt::format("the job's own threads: it had {} runnable processes inside and {} outside of the "
                              "interval; the extra cpu time "
                              "is not its own",
                              number(change->inside), number(change->outside))};
    }
  }
  return {};
}

/// The cpus of the job that were left alone; where none was, moving to them is no advice.
JobValues free_cpus(const RuleContext& context, std::span<const std::string> busy) {
  std::vector<int> free = parse_cpu_list(context.snapshot_value("job.cpus_allowed"));
  if (busy.empty()) return {};
  std::erase_if(free, [&](int cpu) { return std::ranges::count(busy, "cpu" + std::to_string(cpu)) > 0; });
  if (free.empty()) return {};
  return {{"free_cpus", format_cpu_list(free)}};
}

/// A process outside the job that the collector may name: see core/probes/outsiders.cpp.
struct Named {
  std::int64_t pid = 0;
  std::int64_t uid = 0;
  double cpus = 0;
  std::string command;
};

/// From the event "process 4711", "0.98 cpus, uid 1001: python3".
std::optional<Named> named_by(const Event& event) {
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
  return Named{*pid, *user, cpus, std::string(text.substr(colon + 2))};
}

/// Those of the interval, each once with its highest use; the two that used most.
std::vector<Named> named_outsiders(const RuleContext& context, Interval at) {
  constexpr double kPeriod = 5;  // of the probe: an event is of the seconds before it
  constexpr std::size_t kMost = 2;
  const TimeSpan span = context.span(at.begin, at.end);
  std::map<std::int64_t, Named> by_pid;
  for (const Event& event : context.events) {
    auto named = named_by(event);
    if (!named || !context.happened_in(event, span, kPeriod)) continue;
    Named& known = by_pid[named->pid];
    if (known.cpus < named->cpus) known = *std::move(named);
  }
  std::vector<Named> all;
  all.reserve(by_pid.size());
  for (auto& [pid, named] : by_pid) all.push_back(std::move(named));
  std::sort(all.begin(), all.end(), [](const Named& a, const Named& b) { return a.cpus > b.cpus; });
  if (all.size() > kMost) all.resize(kMost);
  return all;
}

/// " Among them: python3 (process 4711 of user 1001, 0.98 cpus)."
std::string among_them(std::span<const Named> named) {
  std::string words;
  for (const Named& each : named) {
    words += fmt::format("{}{} (process {} of user {}, {} cpus)", words.empty() ? " Among them: " : ", ", each.command,
                         each.pid, each.uid, number(each.cpus));
  }
  return words.empty() ? words : words + ".";
}

JobValues values_of(std::span<const Named> named) {
  std::string pids;
  for (const Named& each : named) pids += (pids.empty() ? "" : ",") + std::to_string(each.pid);
  if (pids.empty()) return {};
  return {{"outsiders", pids}};
}

Finding describe(const RuleContext& context, const Signal& outsider, const Elevation& elevation,
                 std::span<const Interval> excluded, const Signal& wait, const Cost& cost) {
  const Interval at = elevation.at;
  const double excess = elevation.inside - elevation.outside;
  const double length = context.seconds(at.length());

  const auto cpus = busier_cpus(context, at, excluded);
  std::vector<std::string> names;
  names.reserve(cpus.size());
  for (const Cpu& cpu : cpus) names.push_back(cpu.name);
  const std::vector<Named> named = named_outsiders(context, at);
  JobValues values = free_cpus(context, names);
  values.merge(values_of(named));
  Finding finding = finding_at(context, at, values);
  finding.instances = names;

  if (cost.any()) {
    set_loss(context, finding, cost.seconds, cost.how);
  } else {
    finding.severity = Severity::notice;
    finding.impact.how = cost.wait && cost.used
                             ? "none seen: the job waited for a cpu no longer and got no less of them than usual"
                             : "not known: the job's waiting was not measured then";
  }
  const auto confirmed = confirmed_by(context.detection, at);
  finding.confidence = confirmed || elevation.beyond ? Confidence::likely : Confidence::possible;

  Evidence taken = evidence_of(context, outsider, elevation);
  if (names.size() == 1) taken.instance = names.front();
  taken.detectors = seen_by(confirmed);
  finding.evidence.push_back(std::move(taken));
  if (cost.wait) finding.evidence.push_back(evidence_of(context, wait, *cost.wait, at));
  if (cost.used)
    finding.evidence.push_back(evidence_of(context, *rate(context, "job.cpu_time", 1e-9, "cpus"), *cost.used, at));

  finding.sentence = fmt::format(
      "Processes outside the job used {} cpus{} of {} for {} s (usually {}); {}.", number(elevation.inside),
      names.size() == 1 ? " on " + names.front() : "", context.telemetry.node, number(length),
      number(std::max(0.0, elevation.outside)),
      cost.any() ? fmt::format("the job lost about {} s", number(cost.seconds)) : "no cost to the job was seen");
  finding.sentence += among_them(named);
  finding.runner_up = runner_up(context, at, excluded, excess);
  return finding;
}

/// Somebody who is there from the first to the last second leaves no outside to compare with: the level itself, held
/// against what the job waited, is then the evidence. The threshold is higher, since a bias of the clocks is a level
/// too.
std::optional<Finding> constant_outsider(const RuleContext& context, const Signal& outsider, const Signal& used,
                                         const Signal& wait) {
  const auto seconds = reference_means(outsider.values, {}, context.steps(1));
  if (seconds.empty() || static_cast<double>(seconds.size()) * context.telemetry.step_seconds <
                             context.threshold("min_constant_seconds")) {
    return std::nullopt;
  }
  if (seconds[seconds.size() / 10] < context.threshold("min_constant_cpu")) return std::nullopt;
  const Interval whole{0, context.telemetry.samples};
  const double taken = mean_inside(outsider.values, whole);
  const double got = mean_inside(used.values, whole);
  const double waited = mean_inside(wait.values, whole);
  if (std::isnan(got) || std::isnan(waited) || waited < context.threshold("min_wait")) return std::nullopt;

  const std::vector<Named> named = named_outsiders(context, whole);
  Finding finding = finding_at(context, whole, values_of(named));
  const double missed = std::min(waited, taken);
  set_loss(context, finding, job_seconds(context) * missed / (got + missed),
           fmt::format("it got {} cpus and waited for {} more, of which others used {}", number(got), number(waited),
                       number(missed)));
  finding.confidence = Confidence::likely;
  finding.evidence = {evidence_of(context, outsider, {taken, 0, 0}, whole),
                      evidence_of(context, wait, {waited, 0, 0}, whole),
                      evidence_of(context, used, {got, got + missed, 0}, whole)};
  finding.sentence = fmt::format(
      "Processes outside the job used {} cpus of {} throughout the run (expected 0); the job got {} cpus and waited "
      "for {} more.",
      number(taken), context.telemetry.node, number(got), number(missed));
  finding.sentence += among_them(named);
  finding.runner_up = {"", "the job's own threads compete as well, but this cpu time is not theirs"};
  return finding;
}

std::vector<Finding> check(const RuleContext& context) {
  const Signal outsider{"job.outsider_cpu", "cpus", context.total("job.outsider_cpu")};
  const Signal used = needed(rate(context, "job.cpu_time", 1e-9, "cpus"), "job.cpu_time");
  const Signal wait = needed(cpu_wait(context), "waiting time of the job (schedstat) or pressure.cpu_some");

  const auto elevations = elevations_of(context, outsider.values, context.threshold("min_cpu"),
                                        context.threshold("min_score"), Doing::of_others);
  const std::vector<Interval> all = places(elevations);

  std::vector<Finding> findings;
  std::optional<Finding> habit;
  for (const Elevation& elevation : elevations) {
    if (elevation.recurring && habit) continue;
    const double excess = elevation.inside - elevation.outside;
    if (excess - interrupts_excess(context, elevation.at, all) < context.threshold("min_cpu")) continue;
    if (explained_by_writes(context, elevation.at, all, excess)) continue;
    const Cost cost = cost_of(context, elevation.at, all, wait, used, excess);
    // One that cost nothing is worth a word only where it explains what the detectors saw.
    if (!cost.any() && !confirmed_by(context.detection, elevation.at)) continue;
    Finding finding = describe(context, outsider, elevation, all, wait, cost);
    if (elevation.recurring) {
      // A habit of the node or of what the job set off elsewhere: worth knowing once, not a list of events.
      finding.severity = Severity::notice;
      finding.confidence = Confidence::possible;
      for (const Elevation& other : elevations) {
        if (!other.recurring || other.at.begin == elevation.at.begin) continue;
        finding.intervals.push_back(context.span(other.at.begin, other.at.end));
      }
      habit = std::move(finding);
      continue;
    }
    findings.push_back(std::move(finding));
  }
  if (habit) {
    findings.push_back(*std::move(habit));
    return findings;
  }
  auto constant = constant_outsider(context, outsider, used, wait);
  if (!constant) return findings;
  double lost_in_intervals = 0;
  for (const Finding& finding : findings) lost_in_intervals += finding.impact.seconds.value_or(0);
  if (*constant->impact.seconds <= lost_in_intervals) return findings;
  return {*std::move(constant)};
}

const RegisteredRule kRule{{
    .id = "cpu.outsider",
    .title = "Someone outside the job ran on its cpus",
    .looks_for =
        "Intervals in which processes outside the job used its cpus (job.outsider_cpu: all cpu time less the job's "
        "own) while the job's run-queue wait rose or its own cpu time fell; and a level that lasts for the whole job.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::cpu,
    .order = 60,
    .look_alikes = "mem.writeback_stall,the job's own threads,interrupts,a hypervisor",
    .proof = Proof::real,
    .whole_machine = true,
    .thresholds = {{"min_cpu", 0.15, "cpus", "least cpu time of outsiders above the usual level"},
                   {"min_seconds", 3, "s", "shortest interval"},
                   kMinScore,
                   {"min_wait", 0.08, "s/s", "least extra run-queue wait of the job"},
                   {"min_displaced_share", 0.5, "ratio", "part of the outsiders' cpu time the job must have lost"},
                   {"min_constant_cpu", 0.3, "cpus",
                    "outsiders' cpu time in nine of ten seconds that is a level, not an event"},
                   {"min_constant_seconds", 20, "s", "shortest job whose level is judged"},
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy =
        {{"#SBATCH --exclusive        # no other job on the node; costs whole nodes", "job"},
         "ps -o pid,user,lstart,psr,time,args -p {outsiders}   # those that were recognised outside the job",
         "ps -eo pid,user,psr,pcpu,comm --sort=-pcpu | head -15   # while it runs: who else is busy, on which cpu",
         "taskset -c {free_cpus} {command} ...   # keep away from the cpus that others used"},
    .admin_remedy = {{"cgroup.conf: ConstrainCores=yes      # with TaskPlugin=task/cgroup,task/affinity in slurm.conf",
                      "job"},
                     {"slurm.conf: CoreSpecCount=1          # a core for daemons, in the node's line", "job"},
                     "systemctl list-timers                # what the node itself starts at that time of day"},
    .verify = "job.outsider_cpu stays below 0.1 cpus and the job's run-queue wait at its usual level",
    .sources = {"https://slurm.schedmd.com/cgroup.conf.html", "https://docs.kernel.org/accounting/psi.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal
