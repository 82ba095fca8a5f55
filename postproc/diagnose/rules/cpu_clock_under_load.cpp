// The clock the cpus had while they worked: held down by a limit of the package's power, or restless for no work's
// sake.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/causal_links.h"
#include "postproc/diagnose/clock_signal.h"
#include "postproc/diagnose/found_before.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::cpu_clock_under_load {
namespace {

struct Package {
  std::string name;
  double limit = 0;  // W, as are the others
  double made_for = 0;
  std::vector<double> power;
  double at_limit = 0;  // share of the run
};

double watts(const RuleContext& context, const std::string& key) {
  return static_cast<double>(parse_int(context.snapshot_value(key)).value_or(0)) * 1e-6;
}

/// Power of each package with a known limit, as means over seconds: the meter itself moves in steps.
std::vector<Package> packages(const RuleContext& context) {
  std::vector<Package> all;
  for (const std::string_view metric : {"energy.package", "platform.energy_package"}) {
    for (const std::size_t channel : context.channels(metric)) {
      std::string name = context.telemetry.channels[channel].instance;
      if (name.starts_with("package")) name.erase(0, std::string_view("package").size());
      const double limit = watts(context, "cpu.power_limit." + name);
      if (limit <= 0 || std::ranges::count(all, name, &Package::name) > 0) continue;
      all.push_back({name, limit, watts(context, "cpu.power_limit_most." + name),
                     over_seconds(context, channel_rate(context, channel, 1e-6, "W").values), 0});
    }
  }
  return all;
}

void measure(const RuleContext& context, Package& package) {
  const double near = context.threshold("near_limit") * package.limit;
  double measured = 0;
  double at_limit = 0;
  for (const double power : package.power) {
    measured += std::isnan(power) ? 0 : 1;
    at_limit += power >= near ? 1 : 0;
  }
  package.at_limit = measured > 0 ? at_limit / measured : 0;
}

/// Dense work runs at the power a processor is made for on every healthy node: only a limit below that is a cap.
bool is_cap(const RuleContext& context, const Package& package) {
  return package.limit <= context.threshold("max_limit") * package.made_for;
}

/// Clocks while the package was at its limit, and while it was clearly below; NaN where there was no such time.
struct ClocksAtLimit {
  double at_limit = kNaN;
  double below = kNaN;

  [[nodiscard]] bool are_lower() const { return at_limit < below; }
};

ClocksAtLimit clocks_of(const RuleContext& context, const Package& package, const MetricSeries& clock) {
  const double near = context.threshold("near_limit") * package.limit;
  std::vector<double> at_limit;
  std::vector<double> below;
  for (std::size_t t = 0; t < clock.values.size(); ++t) {
    at_limit.push_back(package.power[t] >= near ? clock.values[t] : kNaN);
    below.push_back(package.power[t] < near ? clock.values[t] : kNaN);
  }
  const Interval whole{0, context.telemetry.samples};
  return {mean_inside(at_limit, whole), mean_inside(below, whole)};
}

/// Adds the clock at the limit, and returns ", with a clock of 2.1 GHz (3.5 GHz below the limit)" as far as measured.
std::string add_clock(const RuleContext& context, const Package& package, Finding& finding) {
  const auto clock = clock_of(context);
  if (!clock) return "";
  const ClocksAtLimit clocks = clocks_of(context, package, *clock);
  if (std::isnan(clocks.at_limit)) return "";
  const Interval whole{0, context.telemetry.samples};
  finding.evidence.push_back(evidence_of(context, *clock, InsideOutside{clocks.at_limit, clocks.below, 0}, whole));
  if (std::isnan(clocks.below)) finding.evidence.back().expected.reset();
  return clocks.are_lower() ? fmt::format(", with a clock of {} ({} below the limit)", quantity(clocks.at_limit, "Hz"),
                                          quantity(clocks.below, "Hz"))
                            : "";
}

std::vector<Finding> check_cap(const RuleContext& context) {
  if (context.channels("energy.package").empty() && context.channels("platform.energy_package").empty()) {
    throw Unavailable("not measured: energy.package and platform.energy_package (a virtual machine, or no privilege)");
  }
  std::vector<Package> all = packages(context);
  if (all.empty()) throw Unavailable("not measured: cpu.power_limit of the packages");
  std::erase_if(all, [&](const Package& package) { return !is_cap(context, package); });
  for (Package& package : all) measure(context, package);
  const auto most = std::max_element(all.begin(), all.end(),
                                     [](const Package& a, const Package& b) { return a.at_limit < b.at_limit; });
  if (most == all.end() || most->at_limit < context.threshold("min_share")) return {};

  Finding finding = context.finding({{"package", most->name}});
  const Interval whole{0, context.telemetry.samples};
  finding.intervals = {context.span(whole.begin, whole.end)};
  finding.instances = {"package" + most->name};
  finding.severity = Severity::notice;
  finding.confidence = Confidence::likely;
  finding.impact.how = "not known: only a run with the processor's nominal power limit shows it";
  finding.evidence.push_back(evidence_of(context, MetricSeries{"platform.package_power", "W", {}},
                                         InsideOutside{mean_inside(most->power, whole), most->limit, 0}, whole));
  finding.evidence.push_back({.metric = "cpu.power_limit." + most->name,
                              .instance = finding.instances.front(),
                              .node = context.telemetry.node,
                              .feature = "value",
                              .observed = most->limit,
                              .expected = most->made_for,
                              .unit = "W",
                              .span = finding.intervals.front(),
                              .detectors = {Method::snapshot}});
  const std::string clock = add_clock(context, *most, finding);
  finding.sentence = fmt::format(
      "Package {} of {} is limited to {} W; its nominal limit is {} W. It ran at the lowered limit for {} % of the "
      "run{}.",
      most->name, context.telemetry.node, number(most->limit), number(most->made_for), number(100 * most->at_limit),
      clock);
  finding.runner_up = {"cpu.thermal_throttle", why_no_heat(context)};
  return {finding};
}

/// Standard deviation over the five seconds around each sample, against their mean.
std::vector<double> restlessness(const RuleContext& context, std::span<const double> series) {
  constexpr double kSeconds = 5;
  const std::size_t half = std::max<std::size_t>(3, context.steps(kSeconds) / 2);
  std::vector<double> relative(series.size(), kNaN);
  for (std::size_t t = 0; t < series.size(); ++t) {
    const auto around = series.subspan(t - std::min(t, half), std::min(series.size() - t, half) + std::min(t, half));
    double sum = 0;
    double squares = 0;
    double count = 0;
    for (const double value : around) {
      if (std::isnan(value)) continue;
      sum += value;
      squares += value * value;
      ++count;
    }
    if (count < 3 || !(sum > 0)) continue;
    const double mean = sum / count;
    relative[t] = std::sqrt(std::max(0.0, squares / count - mean * mean)) / mean;
  }
  return relative;
}

/// True if another finding reports this interval. Findings that lead to such a clock take it into their chain instead.
bool is_reported(const RuleContext& context, Interval at) {
  return found_beside(context, at, [](const Finding& one) {
    return one.kind == FindingKind::anomaly && !is_cause_of(one.id, "cpu.freq_oscillation");
  });
}

/// The channel that rose most at the same time: the clock follows it, not the other way round.
RunnerUp leader(const RuleContext& context, Interval at, std::span<const Interval> all, Finding& finding) {
  constexpr double kRose = 4;
  struct Leader {
    std::string_view metric, unit, words;
  };
  constexpr Leader kLeaders[] = {{"cpu.interrupts", "count/s", "interrupts"},
                                 {"disk.read_bytes", "bytes/s", "reads from disks"},
                                 {"net.rx_bytes", "bytes/s", "received data"},
                                 {"cpu.context_switches", "count/s", "context switches"}};
  double most = kRose;
  RunnerUp runner_up;
  std::vector<std::string> usual;
  std::optional<Evidence> evidence;
  for (const Leader& each : kLeaders) {
    const auto signal = rate(context, each.metric, 1, each.unit);
    const auto change = inside_outside(context, signal, at, all);
    if (change) usual.emplace_back(each.words);
    if (!change || change->score < most) continue;
    most = change->score;
    evidence = evidence_of(context, *signal, *change, at);
    runner_up.why_not = fmt::format("{} rose at the same time, from {} to {}: check this first", each.words,
                                    quantity(change->outside, each.unit), quantity(change->inside, each.unit));
  }
  if (evidence) {
    finding.evidence.push_back(*std::move(evidence));
  } else if (usual.empty()) {
    runner_up.why_not = "a cause was not searched: interrupts, reads and traffic were not measured";
  } else {
    runner_up.why_not = fmt::format("no cause was found: {} did not clearly rise", listed(usual));
  }
  return runner_up;
}

/// The cost can be computed only at steady load.
void set_cost(const RuleContext& context, Finding& finding, const InsideOutside& clock, double length) {
  set_loss(context, finding, clock.fall() * length,
           fmt::format("at the same load the clock was {} instead of {}", quantity(clock.inside, "Hz"),
                       quantity(clock.outside, "Hz")));
  finding.severity = std::min(finding.severity, Severity::notice);  // a symptom
}

/// Whether an earlier finding leads to it: then it is part of that finding.
bool has_a_cause(const RuleContext& context, const Finding& finding) {
  std::vector<Finding> all(context.found.begin(), context.found.end());
  all.push_back(finding);
  find_causes(all);
  return !all.back().caused_by.empty();
}

std::vector<Finding> check_oscillation(const RuleContext& context) {
  const MetricSeries clock = needed(clock_of(context), "the clock of the cpus (platform.aperf, cpu.frequency)");
  const MetricSeries used = needed(rate(context, "job.cpu_time", 1e-9, "cpus"), "job.cpu_time");
  const MetricSeries restless{clock.metric, "ratio", restlessness(context, over_seconds(context, clock.values))};
  const auto load = restlessness(context, over_seconds(context, used.values));
  const auto found =
      excursions_of(context, restless.values, context.threshold("min_spread"), context.threshold(kMinScore.name));
  const std::vector<Interval> all = places(found);
  std::vector<Finding> findings;
  for (const Excursion& excursion : found) {
    const Interval at = excursion.at;
    if (excursion.recurring || !excursion.beyond || is_reported(context, at)) continue;
    const auto change = inside_outside(context, clock, at, all);
    if (!change) continue;
    // A clock that follows the job's own load works as designed: it is reported only if something else made the load
    // uneven, and as a consequence of that.
    const bool steady = mean_inside(load, at) <= context.threshold("max_load_spread");
    if (steady && change->fall() < context.threshold("min_slower")) continue;

    Finding finding = finding_at(context, at);
    const double length = context.seconds(at.length());
    finding.severity = Severity::info;
    finding.impact.how = "not known: the load changed with the clock";
    if (steady) set_cost(context, finding, *change, length);
    finding.confidence = Confidence::possible;
    finding.evidence.push_back(evidence_of(context, restless, excursion));
    finding.evidence.back().feature = "spread";
    finding.evidence.push_back(evidence_of(context, clock, *change, at));
    finding.runner_up = leader(context, at, all, finding);
    finding.sentence = fmt::format(
        "The clock of the cpus of {} changed by {} % from second to second for {} (usually {} %) while the load {}, "
        "and was {} instead of {}.",
        context.telemetry.node, number(100 * excursion.inside), duration(length), number(100 * excursion.outside),
        steady ? "did not" : "did, too", quantity(change->inside, "Hz"), quantity(change->outside, "Hz"));
    if (steady || has_a_cause(context, finding)) findings.push_back(std::move(finding));
  }
  return findings;
}

const RegisteredRule kCap{{
    .id = "cpu.power_cap",
    .title = "A limit below the processor's nominal power caps its power",
    .looks_for = "Packages whose power limit was lowered (cpu.power_limit) and that run at it: energy.package, "
                 "platform.energy_package.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::cpu,
    .order = 25,
    .look_alikes = "cpu.thermal_throttle,dense work at the power the processor is made for",
    .proof = Proof::test_double,
    .thresholds = {{"near_limit", 0.97, "ratio",
                    "ratio of power to limit from which the package counts as being at the limit"},
                   {"min_share", 0.2, "ratio", "least share of the run at the limit"},
                   {"max_limit", 0.95, "ratio", "largest ratio of limit to nominal power that counts as a cap"}},
    .user_remedy = {{"#SBATCH --exclude={nodes}   # until the limit is the same as on the other nodes", "job"}},
    .advice = {"Ask the administrators whether the limit is intended: it saves energy and costs run time."},
    .admin_remedy =
        {"grep . /sys/class/powercap/intel-rapl:{package}/constraint_0_*_uw   # on all nodes",
         "cat /sys/class/powercap/intel-rapl:{package}/constraint_0_max_power_uw > "
         "/sys/class/powercap/intel-rapl:{package}/constraint_0_power_limit_uw   # changes the node until its next "
         "boot: the nominal power as limit",
         "ipmitool dcmi power get_limit   # a cap of the board's controller; ipmitool dcmi power deactivate lifts it"},
    .verify = {.command = "grep . /sys/class/powercap/intel-rapl:*/constraint_0_power_limit_uw",
               .where = "on all nodes",
               .expected = "the same limits"},
    .sources = {"https://docs.kernel.org/power/powercap/powercap.html"},
    .check = check_cap,
}};

const RegisteredRule kOscillation{{
    .id = "cpu.freq_oscillation",
    .title = "The clock of the cpus is unstable",
    .looks_for = "Intervals in which the clock (platform.aperf, platform.mperf, platform.tsc, else cpu.frequency) "
                 "changes from second to second and is lower, while the job uses as many cpus as before. This is a "
                 "symptom: if the cause is known, it is part of the finding of that cause. If the job's load changes, "
                 "too, it is reported only as a consequence of the cause found (bursts of reads or of interrupts).",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::cpu,
    .order = 990,
    .look_alikes = "irq.imbalance,cpu.thermal_throttle,cpu.power_cap,io.slow_reads,the job's own phases",
    .proof = Proof::guest,
    .thresholds = {{"min_spread", 0.05, "ratio", "least change of the clock from second to second, beyond the usual"},
                   {"max_load_spread", 0.1, "ratio",
                    "most change of the job's own cpu time; above, the clock follows the load and is reported only "
                    "with a known cause of both"},
                   {"min_slower", 0.03, "ratio", "least fall of the clock"},
                   {"min_seconds", 5, "s", "shortest interval"},
                   kMinScore,
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy = {{"srun --cpu-freq=performance   # where the site allows it", "job"}},
    .advice = {"Check first the metrics that rose at the same time: the clock follows them."},
    .admin_remedy = {"tuned-adm profile latency-performance   # changes the node, also after a boot: no deep sleep "
                     "states and the full clock; takes more power"},
    .verify = {.expected = "the clock is stable while the load is stable"},
    .sources = {"https://arxiv.org/abs/2510.26008", "https://docs.kernel.org/admin-guide/pm/cpufreq.html"},
    .check = check_oscillation,
}};

}  // namespace
}  // namespace reveal::rule::cpu_clock_under_load
