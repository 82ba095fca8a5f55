// The firmware stopped the cpus again and again: system management interrupts, which no operating system sees.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/event_count.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::cpu_smi {
namespace {

/// Every cpu counts the same interrupt: the cpu that counted most is taken for all. A few at the start of a node or in
/// a day are usual for firmware.
std::vector<Finding> check(const RuleContext& context) {
  if (context.channels("platform.smi").empty()) {
    throw Unavailable("not measured: platform.smi (no Intel cpu, a virtual machine, or no privilege)");
  }
  const auto counts = counted_events(context, "platform.smi");
  const double seconds = job_seconds(context);
  if (counts.empty() || seconds < context.threshold("min_seconds")) return {};
  const EventCount& most = counts.front();
  const double rate = most.total / seconds;
  const double lasted = context.seconds(most.at.length());
  if (rate < context.threshold("min_rate") || lasted < context.threshold("min_part") * seconds) return {};

  Finding finding = context.finding();
  finding.intervals = {context.span(most.at.begin, most.at.end)};
  finding.severity = Severity::notice;
  finding.confidence = Confidence::likely;
  finding.impact.how = "not known: their duration is not counted";
  finding.evidence.push_back(evidence_of(context, most));
  finding.sentence = fmt::format("The firmware of {} interrupted its cpus {} times during the run, {} times a second.",
                                 context.telemetry.node, number(most.total), number(rate));
  const auto corrected = context.channels("edac.corrected").empty() ? std::vector<EventCount>()
                                                                    : counted_events(context, "edac.corrected");
  finding.runner_up = {"cpu.os_jitter", "a task or an interrupt of the kernel: this counter does not count either"};
  if (!corrected.empty()) {
    finding.evidence.push_back(evidence_of(context, corrected.front()));
    finding.runner_up = {"mem.ecc_host", "corrected memory errors: this node had some, and they may be the cause"};
  }
  return {finding};
}

const RegisteredRule kRule{{
    .id = "cpu.smi_noise",
    .title = "The firmware repeatedly interrupts the cpus",
    .looks_for = "System management interrupts throughout the run: platform.smi.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::cpu,
    .order = 26,
    .look_alikes = "cpu.os_jitter,mem.ecc_host",
    .proof = Proof::guest,
    .thresholds = {{"min_rate", 1, "1/s", "least rate over the whole run"},
                   {"min_part", 0.5, "ratio", "least part of the run between the first and the last interrupt"},
                   {"min_seconds", 20, "s", "shortest job that the rule judges"}},
    .admin_remedy = {"turbostat --quiet --show SMI --interval 10   # on {node} and on a similar one",
                     "ipmitool sel list | tail -20   # look for correctable memory errors, which raise them; other "
                     "causes are in the firmware: power "
                     "capping and telemetry by SMI, patrol scrubbing"},
    .verify = {.expected = "platform.smi does not grow under load"},
    .sources = {"https://docs.kernel.org/trace/hwlat_detector.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::cpu_smi
