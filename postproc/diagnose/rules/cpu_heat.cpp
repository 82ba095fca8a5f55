// Heat made the cpus slow down: Intel's kernel driver counts how often, and since Linux 5.10 for how long.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/event_count.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::cpu_heat {
namespace {

struct Throttled {
  EventCount hottest;  // seconds
  std::size_t places = 0;
};

/// Above 64 cores a channel holds what others have together: no core was slowed down for that long.
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

std::vector<Finding> check(const RuleContext& context) {
  if (context.channels("throttle.core_time").empty() && context.channels("throttle.package_time").empty()) {
    throw Unavailable(
        "not measured: throttle.core_time and throttle.package_time (no Intel cpu, or a virtual machine)");
  }
  const Throttled found = throttled(context);
  const double share = found.hottest.total / job_seconds(context);
  if (!(found.hottest.total > 0) || !(share >= context.threshold("min_share"))) return {};
  const Channel& channel = context.telemetry.channels[found.hottest.channel];

  Finding finding = context.finding();
  finding.intervals = {context.span(found.hottest.at.begin, found.hottest.at.end)};
  finding.instances = {channel.instance};
  finding.confidence = Confidence::certain;
  finding.severity = share >= context.threshold("severe_share") ? Severity::warning : Severity::notice;
  finding.impact.how = "not known: the kernel does not count by how much the clock fell";
  Evidence evidence = evidence_of(context, found.hottest);
  evidence.unit = "s";
  finding.evidence.push_back(std::move(evidence));
  if (const auto temperature = level(context, "temperature.package", "celsius")) {
    add_contrast(context, finding, temperature, found.hottest.at, {});
  }
  finding.sentence =
      fmt::format("Heat slowed {} of {} down for {} of {} ({} % of the run).", channel.instance, context.telemetry.node,
                  duration(found.hottest.total), duration(job_seconds(context)), number(100 * share));
  finding.runner_up = {"cpu.power_cap", "a power limit: the kernel counts heat separately"};
  return {finding};
}

const RegisteredRule kRule{{
    .id = "cpu.thermal_throttle",
    .title = "Heat slows the cpus down",
    .looks_for = "Time in which a core or a package was slowed down for its heat: throttle.core_time, "
                 "throttle.package_time.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::cpu,
    .order = 24,
    .look_alikes = "cpu.power_cap,cpu.governor_powersave",
    .proof = Proof::test_double,
    .thresholds = {{"min_share", 0.005, "ratio", "least share of the run in which one core or package was throttled"},
                   {"severe_share", 0.05, "ratio", "share from which it is a warning"}},
    .user_remedy = {{"sbatch --exclude={nodes} ...   # until the node is repaired", "job"}},
    .advice = {"Tell the administrators: a node that is too hot slows down every job on it."},
    .admin_remedy = {"ipmitool sdr type Temperature; ipmitool sdr type Fan   # inlet, heat sink, fans",
                     {"scontrol update nodename={nodes} state=drain reason=heat", "job"}},
    .verify = "core_throttle_total_time_ms of all cpus no longer grows under the same load",
    .sources = {"https://docs.kernel.org/admin-guide/thermal/intel_thermal_throttle.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::cpu_heat
