// The memory controllers counted errors while the job ran.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "postproc/diagnose/event_count.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

struct Errors {
  std::vector<EventCount> counts;  // by falling total
  double total = 0;
};

Errors errors_of(const RuleContext& context, std::string_view metric) {
  Errors errors{counted_events(context, metric), 0};
  for (const EventCount& count : errors.counts) errors.total += count.total;
  return errors;
}

/// "mc0" and "mc0/dimm3" count the same error: a controller adds up its modules. The module, where it had them all.
const EventCount& place(const RuleContext& context, const Errors& errors) {
  const EventCount& first = errors.counts.front();
  const auto is_module = [&](const EventCount& count) {
    return count.total == first.total && context.telemetry.channels[count.channel].instance.starts_with(
                                             context.telemetry.channels[first.channel].instance + "/");
  };
  const auto module = std::find_if(errors.counts.begin(), errors.counts.end(), is_module);
  return module == errors.counts.end() ? first : *module;
}

std::vector<Finding> check(const RuleContext& context) {
  const Errors corrected = errors_of(context, "edac.corrected");
  const Errors uncorrected = errors_of(context, "edac.uncorrected");
  const bool fatal = !uncorrected.counts.empty();
  if (!fatal && (corrected.counts.empty() || corrected.counts.front().total < context.threshold("min_corrected")))
    return {};
  const Errors& worst = fatal ? uncorrected : corrected;
  const EventCount& first = place(context, worst);

  Finding finding = context.finding();
  finding.intervals = {context.span(first.at.begin, first.at.end)};
  finding.instances = {context.telemetry.channels[first.channel].instance};
  finding.confidence = Confidence::certain;
  finding.severity = fatal ? Severity::critical : Severity::notice;
  finding.impact.how =
      fatal ? "not known: results computed from this memory may be wrong" : "none seen: the errors were corrected";
  finding.evidence.push_back(evidence_of(context, first));
  finding.sentence = fmt::format("{} of {} counted {} {} memory {} while the job ran.", finding.instances.front(),
                                 context.telemetry.node, number(first.total), fatal ? "uncorrected" : "corrected",
                                 first.total == 1 ? "error" : "errors");
  return {finding};
}

const RegisteredRule kRule{{
    .id = "mem.ecc_host",
    .title = "The node's memory has errors",
    .looks_for = "Memory errors that the controllers counted: edac.corrected, edac.uncorrected.",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::memory,
    .order = 12,
    .proof = Proof::test_double,
    .thresholds = {{"min_corrected", 10, "errors", "corrected errors from which it is reported"}},
    .user_remedy = {{"sbatch --exclude={nodes} ...   # until the module is replaced", "job"}},
    .advice = {"Tell the administrators, and check results of this run where an error was not corrected."},
    .admin_remedy = {"ras-mc-ctl --summary   # which module",
                     {"scontrol update nodename={nodes} state=drain reason=ecc", "job"}},
    .verify = "ce_count and ue_count in /sys/devices/system/edac/mc stand still",
    .sources = {"https://docs.kernel.org/driver-api/edac.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal
