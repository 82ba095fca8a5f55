// The node's wall clock is not synchronised: times of several nodes cannot be laid side by side.
#include <spdlog/fmt/fmt.h>

#include <charconv>
#include <cmath>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/signals.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::node_clock {
namespace {

double nanoseconds(const RuleContext& context, std::string_view key) {
  const auto value = parse_int(context.snapshot_value(key));
  return value ? static_cast<double>(*value) : std::nan("");
}

/// On one node there is nothing to be aligned. A node without a job is checked for its later jobs.
void demand_several_nodes(const RuleContext& context) {
  if (context.without_job()) return;
  const auto nodes = parse_int(context.snapshot_value("env.SLURM_JOB_NUM_NODES"));
  if (!nodes) throw Unavailable("the number of the job's nodes is not known (no Slurm); this needs two or more");
  if (*nodes < 2) throw Unavailable("the job ran on one node; this needs two or more");
}

/// The farthest jump of the wall clock that the collector saw, in seconds: "+10800.000 s"; 0 where there was none.
double farthest_step(const RuleContext& context) {
  double farthest = 0;
  for (const Event& event : context.events) {
    if (event.code != "clock_step") continue;
    const std::size_t sign = event.text.starts_with('+') ? 1 : 0;
    double step = 0;
    std::from_chars(event.text.data() + sign, event.text.data() + event.text.size(), step);
    if (std::abs(step) > std::abs(farthest)) farthest = step;
  }
  return farthest;
}

void describe_step(const RuleContext& context, double step, Finding& finding) {
  finding.confidence = Confidence::certain;
  finding.evidence.push_back(fact(context, "clock.step", "", "farthest step", step, 0, "s"));
  finding.sentence = fmt::format("The clock of {} was set {} by {} during {}.", context.telemetry.node,
                                 step < 0 ? "back" : "forward", duration(std::abs(step)), context.watched());
}

void describe_error(const RuleContext& context, bool alone, double error, double offset, Finding& finding) {
  finding.confidence = alone ? Confidence::likely : Confidence::certain;
  finding.evidence.push_back(snapshot_fact(context, alone ? "clock_state.max_error_ns" : "clock_state.offset_ns", "",
                                           alone ? error : offset, 0, "ns"));
  // The kernel counts no further: https://github.com/torvalds/linux/blob/v6.6/kernel/time/ntp.c (NTP_PHASE_LIMIT)
  constexpr double kMostCounted = 16.0 * kSecond;
  const std::string bound = quantity(error, "ns");
  finding.sentence =
      alone ? fmt::format("The clock of {} is not synchronised: it may be wrong by {}; its error was not measured.",
                          context.telemetry.node, error < kMostCounted ? "up to " + bound : bound + " or more")
            : fmt::format("The clock of {} is {} off, and still being corrected.", context.telemetry.node,
                          quantity(offset, "ns"));
}

std::vector<Finding> check(const RuleContext& context) {
  const std::string synchronised = context.snapshot_value("clock.synchronised");
  if (synchronised.empty()) throw Unavailable("not measured: clock.synchronised");
  demand_several_nodes(context);
  const double error = nanoseconds(context, "clock_state.max_error_ns");
  const double offset = std::abs(nanoseconds(context, "clock_state.offset_ns"));
  // chrony without rtcsync leaves the flag as it is, and gives the kernel a small error all the same.
  const bool alone = synchronised == "no" && error >= context.threshold("min_error") * kSecond;
  const double most = context.threshold("max_offset") * kSecond;
  const double step = farthest_step(context);
  const bool stepped = std::abs(step) > context.threshold("max_offset");
  if (!stepped && !alone && !(offset > most)) return {};

  Finding finding = context.finding();
  finding.severity = Severity::notice;
  finding.intervals = {context.span(0, context.telemetry.samples)};
  finding.impact.how = "none for the job: the times in reports and logs of several nodes may not match";
  if (stepped) {
    describe_step(context, step, finding);
  } else {
    describe_error(context, alone && !(offset > most), error, offset, finding);
  }
  finding.runner_up = {"cpu.clocksource_not_tsc",
                       "a clock that is slow to read: another fault, which would have a finding of its own"};
  return {finding};
}

const RegisteredRule kRule{{
    .id = "node.clock_drift",
    .title = "The node's clock is not synchronised",
    .looks_for = "A wall clock that is not synchronised according to the kernel (clock.synchronised, clock_state.*), "
                 "or that was set while the job ran (event clock_step), in jobs of several nodes.",
    .kind = FindingKind::audit,
    .states = Stated::fact,
    .subsystem = Subsystem::process,
    .order = 94,
    .look_alikes = "cpu.clocksource_not_tsc,chrony without rtcsync",
    .proof = Proof::test_double,
    .checks_node = true,
    .thresholds = {{"min_error", 4, "s",
                    "error estimated by the kernel from which the clock counts as not synchronised"},
                   {"max_offset", 0.01, "s", "largest known offset or step of the clock that is not reported"}},
    .user_remedy = {"timedatectl | grep synchronized   # on {node}: yes is good; no is bad, except in a virtual "
                    "machine whose host sets the clock"},
    .admin_remedy = {"systemctl enable --now chronyd   # changes the node, also after a boot: starts the service that "
                     "synchronises its clock (on Debian, chrony)",
                     "chronyc tracking   # good is Leap status: Normal; bad is Not synchronised, or no answer. With "
                     "chronyd running and no job on the node, chronyc makestep corrects the clock at once"},
    .verify = {.command = "chronyc tracking",
               .where = "on the node",
               .expected = "a \"System time\" of less than 1 ms"},
    .sources = {"https://man7.org/linux/man-pages/man2/adjtimex.2.html",
                "https://chrony-project.org/doc/4.6/chronyc.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::node_clock
