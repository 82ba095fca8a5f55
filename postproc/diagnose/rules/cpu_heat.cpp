// Heat made the cpus slow down: Intel's kernel driver counts how often, and since Linux 5.10 for how long; and the
// kernel itself lowers the clocks when a sensor of the board is too hot. No driver counts what other cpus do by
// themselves: there the temperature is near the limit while the clock is lower at the same load.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/clock_signal.h"
#include "postproc/diagnose/event_count.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::cpu_heat {
namespace {

struct Throttled {
  EventCount hottest;  // seconds
  std::size_t places = 0;
};

/// Above 64 cores a channel holds the sum of others: no core was slowed down for that long.
bool is_sum(const Channel& channel) {
  return channel.instance == "other_cpus" || channel.instance == "job_cpus";
}

/// Cores that share a package count the same heat: the one that was slowed down longest is taken for all.
Throttled throttled(const RuleContext& context) {
  Throttled result;
  for (const std::string_view metric : {"throttle.core_time", "throttle.package_time"}) {
    if (context.channels(metric).empty()) continue;
    auto counts = counted_events(context, metric);
    std::erase_if(counts, [&](const EventCount& count) { return is_sum(context.telemetry.channels[count.channel]); });
    result.places += counts.size();
    if (!counts.empty() && counts.front().total > result.hottest.total) result.hottest = counts.front();
  }
  result.hottest.total *= 1e-9;
  return result;
}

/// A sensor of a package, and the temperature at which this one slows down.
struct Sensor {
  std::size_t channel = 0;
  double limit = 0;
  bool is_assumed = false;  // the driver does not report the limit
};

/// "k10temp0" of "k10temp0.Tctl"
std::string_view chip_of(std::string_view instance) {
  return instance.substr(0, instance.find('.'));
}

/// Sensors with a known limit: from the driver, or that of AMD's processors. Tctl may stand above the real temperature:
/// it is taken where the chip shows no other.
std::vector<Sensor> sensors(const RuleContext& context) {
  constexpr std::string_view kControl = ".Tctl";
  const auto channels = context.channels("temperature.package");
  const auto has_real_one = [&](std::string_view chip) {
    return std::any_of(channels.begin(), channels.end(), [&](std::size_t channel) {
      const std::string& instance = context.telemetry.channels[channel].instance;
      return chip_of(instance) == chip && !instance.ends_with(kControl);
    });
  };
  std::vector<Sensor> known;
  for (const std::size_t channel : channels) {
    const std::string& instance = context.telemetry.channels[channel].instance;
    const bool of_amd = instance.starts_with("k10temp") || instance.starts_with("zenpower");
    const auto limit = parse_int(context.snapshot_value("temperature_limit." + instance));
    if ((!of_amd && !limit) || (instance.ends_with(kControl) && has_real_one(chip_of(instance)))) continue;
    known.push_back({channel, limit ? static_cast<double>(*limit) : context.threshold("limit"), !limit});
  }
  return known;
}

/// The mean where `where` is true, and in how many steps that is.
struct PartMean {
  double mean = kNaN;
  std::size_t steps = 0;
};
template <typename Where>
PartMean mean_where(std::span<const double> series, const Where& where) {
  double sum = 0;
  PartMean part;
  for (std::size_t t = 0; t < series.size(); ++t) {
    if (std::isnan(series[t]) || !where(t)) continue;
    sum += series[t];
    ++part.steps;
  }
  if (part.steps > 0) part.mean = sum / static_cast<double>(part.steps);
  return part;
}

std::optional<MetricSeries> package_power(const RuleContext& context) {
  auto power = rate(context, "energy.package", 1e-6, "W");
  return power ? std::move(power) : rate(context, "platform.energy_package", 1e-6, "W");
}

/// Steps in which the sensor is near its limit.
std::vector<bool> hot_steps(const RuleContext& context, const Sensor& sensor) {
  const auto series = context.telemetry.series(sensor.channel);
  const double near = sensor.limit - context.threshold("near_limit");
  std::vector<bool> hot(series.size());
  std::transform(series.begin(), series.end(), hot.begin(), [near](double degrees) { return degrees >= near; });
  return hot;
}

std::vector<TimeSpan> spans_of(const RuleContext& context, const std::vector<bool>& steps) {
  std::vector<TimeSpan> spans;
  for (std::size_t t = 0; t < steps.size(); ++t) {
    if (!steps[t]) continue;
    const std::size_t begin = t;
    while (t < steps.size() && steps[t]) ++t;
    spans.push_back(context.span(begin, t));
  }
  return spans;
}

/// More cpus at work, or heavier instructions, make a processor hotter and its clock lower by design: only at the same
/// load, and at no more power, the heat is the reason.
std::vector<Finding> check_sensor(const RuleContext& context, const Sensor& sensor, const MetricSeries& clock,
                                  const std::vector<double>& load) {
  constexpr double kSameLoad = 0.1;
  constexpr double kMorePower = 1.02;
  const std::vector<bool> hot = hot_steps(context, sensor);
  const double hot_load = mean_where(load, [&](std::size_t t) { return hot[t]; }).mean;
  const auto is_alike = [&](std::size_t t) { return std::abs(load[t] - hot_load) <= kSameLoad * hot_load; };
  const auto is_hot = [&](std::size_t t) { return hot[t] && is_alike(t); };
  const auto is_cool = [&](std::size_t t) { return !hot[t] && is_alike(t); };
  const PartMean slow = mean_where(clock.values, is_hot);
  const PartMean usual = mean_where(clock.values, is_cool);
  const double least = context.threshold("min_hot_seconds");
  if (context.seconds(slow.steps) < least || context.seconds(usual.steps) < least) return {};
  const double fall = 1 - slow.mean / usual.mean;
  if (!(fall >= context.threshold("min_slower"))) return {};
  const auto power = package_power(context);
  const double hot_power = power ? mean_where(power->values, is_hot).mean : kNaN;
  const double cool_power = power ? mean_where(power->values, is_cool).mean : kNaN;
  if (hot_power > kMorePower * cool_power) return {};

  const std::string& instance = context.telemetry.channels[sensor.channel].instance;
  const double degrees = mean_where(context.telemetry.series(sensor.channel), is_hot).mean;
  Finding finding = context.finding();
  finding.intervals = spans_of(context, hot);
  finding.instances = {instance};
  const bool less_power = hot_power < cool_power / kMorePower;
  finding.confidence = less_power && !sensor.is_assumed ? Confidence::likely : Confidence::possible;
  set_loss(context, finding, fall * context.seconds(slow.steps),
           fmt::format("at the same load the clock was {} instead of {}", quantity(slow.mean, "Hz"),
                       quantity(usual.mean, "Hz")));
  const Interval whole{0, context.telemetry.samples};
  finding.evidence.push_back(evidence_of(context, MetricSeries{"temperature.package", "Cel", {}},
                                         InsideOutside{degrees, sensor.limit, 0}, whole));
  finding.evidence.back().instance = instance;
  if (sensor.is_assumed) finding.evidence.back().expected.reset();
  finding.evidence.push_back(evidence_of(context, clock, InsideOutside{slow.mean, usual.mean, 0}, whole));
  if (power && !std::isnan(hot_power) && !std::isnan(cool_power)) {
    finding.evidence.push_back(evidence_of(context, MetricSeries{"platform.package_power", "W", {}},
                                           InsideOutside{hot_power, cool_power, 0}, whole));
  }
  finding.sentence = fmt::format(
      "{} of {} was at {} C, near {} of {} C, for {}; meanwhile the clock of the cpus was {} instead of {} at "
      "the same load.",
      instance, context.telemetry.node, number(degrees),
      sensor.is_assumed ? "the limit that this rule assumes" : "its limit", number(sensor.limit),
      duration(context.seconds(slow.steps)), quantity(slow.mean, "Hz"), quantity(usual.mean, "Hz"));
  finding.runner_up = {"cpu.power_cap", power ? "a power limit: the power did not rise with the heat"
                                              : "a power limit: the power was not measured"};
  return {finding};
}

/// The sensor that cost most; several show the same heat.
std::vector<Finding> check_sensors(const RuleContext& context) {
  const std::vector<Sensor> known = sensors(context);
  if (known.empty()) {
    throw Unavailable(
        "not measured: throttle.core_time and throttle.package_time (no Intel cpu, or a virtual machine), or "
        "temperature.package with a known limit");
  }
  const MetricSeries clock = needed(clock_of(context), "the clock of the cpus (platform.aperf, cpu.frequency)");
  const MetricSeries used = needed(rate(context, "job.cpu_time", 1e-9, "cpus"), "job.cpu_time");
  const std::vector<double> load = over_seconds(context, used.values);
  std::vector<Finding> worst;
  for (const Sensor& sensor : known) {
    std::vector<Finding> found = check_sensor(context, sensor, clock, load);
    const auto cost = [](const std::vector<Finding>& one) {
      return one.empty() ? -1 : one.front().impact.seconds.value_or(0);
    };
    if (cost(found) > cost(worst)) worst = std::move(found);
  }
  return worst;
}

/// The clock in an interval and outside of it, at the same load; nothing where it was not measured in both, or where
/// the load differs.
std::optional<InsideOutside> clock_then(const RuleContext& context, Interval at) {
  constexpr double kSameLoad = 0.1;
  const auto used = inside_outside(context, rate(context, "job.cpu_time", 1e-9, "cpus"), at, {});
  if (!used || std::abs(used->excess()) > kSameLoad * used->outside) return std::nullopt;
  return inside_outside(context, clock_of(context), at, {});
}

/// The cost of a clock that is lower from the first to the last moment at which something slowed the cpus down.
void set_cost_of_clock(const RuleContext& context, Finding& finding, Interval at) {
  const auto clock = clock_then(context, at);
  if (!clock) {
    finding.impact.how = "not known: there is no clock of the same load without heat to compare with";
    return;
  }
  finding.evidence.push_back(evidence_of(context, *clock_of(context), *clock, at));
  const Severity by_time = finding.severity;
  set_loss(context, finding, std::max(0.0, clock->fall()) * context.seconds(at.length()),
           fmt::format("at the same load the clock was {} instead of {}", quantity(clock->inside, "Hz"),
                       quantity(clock->outside, "Hz")));
  finding.severity = std::max(finding.severity, by_time);
}

std::vector<Finding> check_counters(const RuleContext& context) {
  const Throttled found = throttled(context);
  const double share = found.hottest.total / job_seconds(context);
  if (!(found.hottest.total > 0) || !(share >= context.threshold("min_share"))) return {};
  const Channel& channel = context.telemetry.channels[found.hottest.channel];

  Finding finding = context.finding();
  finding.intervals = {context.span(found.hottest.at.begin, found.hottest.at.end)};
  finding.instances = {channel.instance};
  finding.confidence = Confidence::certain;
  finding.severity = share >= context.threshold("severe_share") ? Severity::warning : Severity::notice;
  Evidence evidence = evidence_of(context, found.hottest);
  evidence.unit = "s";
  finding.evidence.push_back(std::move(evidence));
  if (const auto temperature = level(context, "temperature.package", "celsius")) {
    add_contrast(context, finding, temperature, found.hottest.at, {});
  }
  set_cost_of_clock(context, finding, found.hottest.at);
  finding.sentence =
      fmt::format("Heat slowed {} of {} down for {} of {} ({} % of the run).", channel.instance, context.telemetry.node,
                  duration(found.hottest.total), duration(job_seconds(context)), number(100 * share));
  finding.runner_up = {"cpu.power_cap", "a power limit: the kernel counts heat separately"};
  return {finding};
}

/// Highest clock that the kernel allows, as a mean of the cpus.
std::optional<MetricSeries> ceiling(const RuleContext& context) {
  auto highest = level(context, "cpu.frequency_ceiling", "Hz");
  if (!highest) return std::nullopt;
  const auto cpus = static_cast<double>(context.channels("cpu.frequency_ceiling").size());
  for (double& hertz : highest->values) hertz /= cpus;
  return highest;
}

/// The kernel itself slows cpus down when a sensor of the board is too hot: it lowers the highest clock they may have.
std::vector<Finding> check_cooling(const RuleContext& context) {
  const auto active = level(context, "cooling.active", "count");
  if (!active) return {};
  std::vector<bool> slowed(active->values.size());
  std::transform(active->values.begin(), active->values.end(), slowed.begin(), [](double each) { return each > 0; });
  const auto steps = static_cast<std::size_t>(std::count(slowed.begin(), slowed.end(), true));
  const double share = context.seconds(steps) / job_seconds(context);
  if (steps == 0 || share < context.threshold("min_share")) return {};
  const auto first = static_cast<std::size_t>(std::find(slowed.begin(), slowed.end(), true) - slowed.begin());
  const auto last = static_cast<std::size_t>(slowed.rend() - std::find(slowed.rbegin(), slowed.rend(), true));
  const Interval at{first, last};

  Finding finding = context.finding();
  finding.intervals = spans_of(context, slowed);
  finding.severity = share >= context.threshold("severe_share") ? Severity::warning : Severity::notice;
  finding.evidence.push_back(evidence_of(context, *active, InsideOutside{mean_inside(active->values, at), 0, 0}, at));
  if (at.length() == active->values.size()) finding.evidence.back().expected.reset();  // no time without it
  const auto allowed = ceiling(context);
  const auto lowered = inside_outside(context, allowed, at, {});
  if (lowered) finding.evidence.push_back(evidence_of(context, *allowed, *lowered, at));
  // Some of these devices can also be set by hand; heat is why they are there.
  const bool is_lowered = lowered && lowered->inside < lowered->outside;
  finding.confidence = is_lowered ? Confidence::likely : Confidence::possible;
  set_cost_of_clock(context, finding, at);
  finding.sentence = fmt::format(
      "The kernel's cooling devices slowed the cpus of {} down for {} of {} ({} % of the run){}.",
      context.telemetry.node, duration(context.seconds(steps)), duration(job_seconds(context)), number(100 * share),
      is_lowered && !finding.impact.how.starts_with("at the same load")  // else the cost tells the measured clock
          ? fmt::format("; it allowed them {} instead of {}", quantity(lowered->inside, "Hz"),
                        quantity(lowered->outside, "Hz"))
          : "");
  finding.runner_up = {"cpu.governor_powersave", "a setting: the kernel reports that it cools the cpus"};
  return {finding};
}

std::vector<Finding> check(const RuleContext& context) {
  const bool counts =
      !context.channels("throttle.core_time").empty() || !context.channels("throttle.package_time").empty();
  std::vector<Finding> found = counts ? check_counters(context) : std::vector<Finding>();
  if (found.empty()) found = check_cooling(context);
  if (!found.empty() || counts) return found;
  const bool cools = !context.channels("cooling.active").empty();
  return cools && sensors(context).empty() ? found : check_sensors(context);
}

const RegisteredRule kRule{{
    .id = "cpu.thermal_throttle",
    .title = "Heat slows the cpus down",
    .looks_for = "Time in which a core or a package was slowed down for its heat (throttle.core_time, "
                 "throttle.package_time), or in which the kernel's own cooling was active (cooling.active). Where "
                 "neither is counted (AMD): a sensor near its limit (temperature.package) while the clock is lower "
                 "than at the same load before or after.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::cpu,
    .order = 24,
    .look_alikes = "cpu.power_cap,cpu.governor_powersave,more or heavier work",
    .proof = Proof::guest,
    .thresholds = {{"min_share", 0.005, "ratio", "least share of the run in which one core or package was throttled"},
                   {"severe_share", 0.05, "ratio", "share from which it is a warning"},
                   {"limit", 95, "Cel",
                    "if throttling is not counted: limit of an AMD processor whose driver does not report it"},
                   {"near_limit", 5, "Cel",
                    "if throttling is not counted: distance from the limit within which it counts as hot"},
                   {"min_slower", 0.05, "ratio",
                    "if throttling is not counted: least fall of the clock at the same load"},
                   {"min_hot_seconds", 10, "s",
                    "if throttling is not counted: least time near the limit, and away from it"},
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy = {{"#SBATCH --exclude={nodes}   # until the node is repaired", "job"}},
    .advice = {{kShowAdministrators, "job"}},
    .admin_remedy = {"ipmitool sdr type Temperature   # on {node}: inlet, heat sink",
                     "ipmitool sdr type Fan   # on {node}",
                     {"scontrol update nodename={nodes} state=drain reason=heat   # changes the state in Slurm: no new "
                      "job starts there",
                      "job"}},
    .verify = {.command = "grep . /sys/devices/system/cpu/cpu*/thermal_throttle/core_throttle_total_time_ms",
               .where = "before and after the next run",
               .expected = "the same numbers; on AMD no finding cpu.thermal_throttle"},
    .sources = {"https://docs.kernel.org/admin-guide/thermal/intel_thermal_throttle.html",
                "https://docs.kernel.org/hwmon/k10temp.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::cpu_heat
