// The hypervisor ran something else while a cpu of this virtual machine had work.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::cpu_steal {
namespace {

/// An overcommitted host may steal from the first second to the last: such a run has no baseline to compare with.
std::vector<Excursion> intervals(const RuleContext& context, const MetricSeries& steal, double busy) {
  const double least = context.threshold("min_share") * busy;
  auto found = excursions_of(context, steal.values, least, context.threshold(kMinScore.name), Cause::external);
  std::erase_if(found, [](const Excursion& excursion) { return excursion.recurring; });
  return or_whole_run(context, steal.values, least, std::move(found));
}

Finding describe(const RuleContext& context, const MetricSeries& steal, const MetricSeries& used,
                 const Excursion& excursion, std::span<const Interval> all) {
  Finding finding = finding_at(context, excursion.at);
  const double length = context.seconds(excursion.at.length());
  const double got = mean_inside(used.values, excursion.at);
  const double share = excursion.inside / (excursion.inside + got);
  // A second that is taken from one cpu delays the job by no more than a second.
  set_most_loss(context, finding, std::min(share, excursion.inside) * length,
                share <= excursion.inside
                    ? fmt::format("the hypervisor took {} % of the time in which a cpu had work", number(100 * share))
                    : fmt::format("the hypervisor took {} of cpu time in all", duration(excursion.inside * length)));
  finding.confidence = Confidence::certain;
  Evidence evidence = evidence_of(context, steal, excursion);
  evidence.detectors = {Method::kernel_counter};
  finding.evidence.push_back(std::move(evidence));
  add_contrast(context, finding, used, excursion.at, all);
  const std::string usual =
      std::isnan(excursion.outside) ? "" : fmt::format(", usually {}", number(std::max(0.0, excursion.outside)));
  finding.sentence = fmt::format("The virtual machine {} did not get {} of the {} that it needed for {} (steal{}).",
                                 context.telemetry.node, number(excursion.inside),
                                 counted(excursion.inside + got, "cpu"), duration(length), usual);
  finding.runner_up = {"cpu.outsider", "a process on this machine: the kernel counts its time as busy, not as stolen"};
  return finding;
}

std::vector<Finding> check(const RuleContext& context) {
  const MetricSeries steal = needed(rate(context, "cpu.steal", 1e-9, "cpus"), "cpu.steal");
  MetricSeries used = needed(rate(context, "cpu.user", 1e-9, "cpus"), "cpu.user");
  const MetricSeries system = needed(rate(context, "cpu.system", 1e-9, "cpus"), "cpu.system");
  const auto nice = rate(context, "cpu.nice", 1e-9, "cpus");
  for (std::size_t t = 0; t < used.values.size(); ++t) {
    used.values[t] += system.values[t] + (nice && !std::isnan(nice->values[t]) ? nice->values[t] : 0);
  }
  const double busy = mean_inside(used.values, {0, used.values.size()});
  if (!(busy > 0)) return {};
  const auto found = intervals(context, steal, busy);
  const std::vector<Interval> all = places(found);
  std::vector<Finding> findings;
  findings.reserve(found.size());
  for (const Excursion& excursion : found) findings.push_back(describe(context, steal, used, excursion, all));
  return findings;
}

const RegisteredRule kRule{{
    .id = "cpu.steal",
    .title = "The hypervisor takes cpu time from the node",
    .looks_for = "Time in which a virtual cpu had work and did not run: cpu.steal against cpu.user, cpu.nice and "
                 "cpu.system.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::cpu,
    .order = 22,
    .look_alikes = "cpu.outsider",
    .proof = Proof::recorded,
    .whole_machine = true,
    .thresholds = {{"min_share", 0.02, "ratio", "least stolen time, as a share of the cpu time used"},
                   {"min_seconds", 5, "s", "shortest interval"},
                   kMinScore,
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy = {"grep '^cpu ' /proc/stat   # on {node}, twice: the 8th number after \"cpu\" is the stolen time; it "
                    "must not grow"},
    .advice = {"Run the job on another virtual machine, or on one with cpus of its own."},
    .admin_remedy = {"for vm in $(virsh list --name); do virsh vcpuinfo \"$vm\"; done   # on the hypervisor: one host "
                     "cpu for each virtual cpu"},
    .verify = {.expected = "cpu.steal is 0"},
    .sources = {"https://docs.kernel.org/filesystems/proc.html#miscellaneous-kernel-statistics-in-proc-stat"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::cpu_steal
