// Pages of running programs went to swap and had to come back: each of them is a wait for a disk.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::mem_swap {
namespace {

Finding describe(const RuleContext& context, const MetricSeries& in, const Excursion& excursion,
                 std::span<const Interval> all) {
  Finding finding = finding_at(context, excursion.at);
  const double length = context.seconds(excursion.at.length());
  const auto waiting = rate(context, "pressure.memory_some", 1e-9, "s/s");
  const auto change = inside_outside(context, waiting, excursion.at, all);
  set_loss(context, finding, change ? std::optional(std::max(0.0, change->excess()) * length) : std::nullopt,
           change ? fmt::format("some task waited for memory {} % of the time", number(100 * change->inside))
                  : "not known: waiting for memory was not measured");
  finding.confidence = Confidence::likely;
  finding.evidence.push_back(evidence_of(context, in, excursion));
  add_contrast(context, finding, rate(context, "vmstat.pswpout", context.page_bytes(), "bytes/s"), excursion.at, all);
  add_contrast(context, finding, waiting, excursion.at, all);
  finding.sentence =
      fmt::format("{} were read back from swap on {} in {} ({}{}).", quantity(excursion.inside * length, "bytes"),
                  context.telemetry.node, duration(length), quantity(excursion.inside, "bytes/s"),
                  std::isnan(excursion.outside) ? "" : ", usually " + quantity(excursion.outside, "bytes/s"));
  finding.runner_up = {"mem.leak_oom_risk",
                       "a leak: memory that only grows is reported separately; here pages were read back"};
  return finding;
}

/// A job that swaps from its first second to its last has no baseline to compare with.
std::vector<Excursion> intervals(const RuleContext& context, const MetricSeries& in) {
  const double least = context.threshold("min_rate") * 1e6;
  auto found = excursions_of(context, in.values, least, context.threshold(kMinScore.name));
  std::erase_if(found, [](const Excursion& excursion) { return excursion.recurring; });
  return or_whole_run(context, in.values, least, std::move(found));
}

std::vector<Finding> check(const RuleContext& context) {
  const MetricSeries in = needed(rate(context, "vmstat.pswpin", context.page_bytes(), "bytes/s"), "vmstat.pswpin");
  const auto found = intervals(context, in);
  const std::vector<Interval> all = places(found);
  std::vector<Finding> findings;
  findings.reserve(found.size());
  for (const Excursion& excursion : found) findings.push_back(describe(context, in, excursion, all));
  return findings;
}

const RegisteredRule kRule{{
    .id = "mem.swap_activity",
    .title = "Memory of programs was read back from swap",
    .looks_for = "Intervals in which pages are read from swap: vmstat.pswpin. Pages that are only written to swap are "
                 "not needed.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::memory,
    .order = 30,
    .look_alikes = "mem.leak_oom_risk",
    .proof = Proof::real,
    .whole_machine = true,
    .thresholds = {{"min_rate", 0.4, "MB/s", "least rate of pages read from swap"},
                   {"min_seconds", 5, "s", "shortest interval"},
                   kMinScore,
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy = {"for p in $(pgrep -u \"$USER\" -x {process}); do grep -HE 'VmRSS|VmSwap' /proc/$p/status; done   # "
                    "on {node}, in "
                    "the next run: how much of its memory is in swap"},
    .advice = {"Ask for as much memory as the job uses, or use less at once: smaller batches, fewer workers."},
    .admin_remedy = {{"cgroup.conf: ConstrainSwapSpace=yes AllowedSwapSpace=0", "job"}, "sysctl vm.swappiness=1"},
    .verify = "pswpin in /proc/vmstat does not grow while the job runs",
    .sources = {"https://docs.kernel.org/accounting/psi.html", "https://slurm.schedmd.com/cgroup.conf.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::mem_swap
