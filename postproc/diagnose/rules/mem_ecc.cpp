// The memory controllers counted errors while the job ran.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/event_count.h"
#include "postproc/diagnose/signals.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::mem_ecc {
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

double fact_of(const RuleContext& context, std::string_view key) {
  const auto value = parse_int(context.snapshot_value(key));
  return value ? static_cast<double>(*value) : std::nan("");
}

/// Corrected errors cost nothing: no node is avoided for them.
JobValues values_of(const RuleContext& context, bool fatal) {
  return fatal ? bad_for_jobs(context) : JobValues{};
}

/// Findings on a node without a job: its errors are counted since it was started.
std::vector<Finding> since_start(const RuleContext& context) {
  constexpr double kDay = 86'400;
  const double corrected = fact_of(context, "since_start.memory_errors_corrected");
  const double uncorrected = fact_of(context, "since_start.memory_errors_uncorrected");
  const double days = std::max(1.0, fact_of(context, "since_start.seconds") / kDay);
  const bool fatal = uncorrected > 0;
  if (!fatal && !(corrected / days >= context.threshold("min_corrected"))) return {};
  Finding finding = context.finding(values_of(context, fatal));
  finding.intervals = {context.span(0, context.telemetry.samples)};
  finding.confidence = Confidence::certain;
  finding.severity = fatal ? Severity::critical : Severity::notice;
  finding.impact.how =
      fatal ? "not known: results computed from this memory may be wrong" : "none seen: the errors were corrected";
  finding.evidence.push_back({.metric = fatal ? "edac.uncorrected" : "edac.corrected",
                              .instance = "",
                              .node = context.telemetry.node,
                              .feature = "total",
                              .observed = fatal ? uncorrected : corrected,
                              .expected = 0,
                              .unit = "count",
                              .span = finding.intervals.front(),
                              .detectors = {Method::snapshot}});
  finding.sentence =
      fmt::format("The memory of {} has had {} since the node was started{}.", context.telemetry.node,
                  counted(fatal ? uncorrected : corrected, fatal ? "uncorrected error" : "corrected error"),
                  days > 1 ? fmt::format(" {} ago", duration(days * kDay)) : "");
  return {finding};
}

std::vector<Finding> check(const RuleContext& context) {
  if (context.without_job() && !context.snapshot_value("since_start.memory_errors_corrected").empty()) {
    return since_start(context);
  }
  const Errors corrected = errors_of(context, "edac.corrected");
  const Errors uncorrected = errors_of(context, "edac.uncorrected");
  const bool fatal = !uncorrected.counts.empty();
  if (!fatal && (corrected.counts.empty() || corrected.counts.front().total < context.threshold("min_corrected")))
    return {};
  const Errors& worst = fatal ? uncorrected : corrected;
  const EventCount& first = place(context, worst);

  Finding finding = context.finding(values_of(context, fatal));
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
    .states = Stated::fact,
    .subsystem = Subsystem::memory,
    .order = 12,
    .proof = Proof::test_double,
    .checks_node = true,
    .thresholds = {{"min_corrected", 10, "errors",
                    "corrected errors from which they are reported; on a node without a job, per day"}},
    .user_remedy = {{"#SBATCH --exclude={nodes}   # until the module is replaced", "avoid_node"}},
    .advice = {"Tell the administrators, and check results of this run where an error was not corrected."},
    .admin_remedy = {"grep -H . /sys/devices/system/edac/mc/mc*/dimm*/dimm_*   # on {node}: which module; with "
                     "rasdaemon also ras-mc-ctl --summary",
                     {"scontrol update nodename={nodes} state=drain reason=ecc   # changes the state in Slurm: no new "
                      "job starts there",
                      "avoid_node"}},
    .verify = {.command = "grep . /sys/devices/system/edac/mc/mc*/*e_count",
               .where = "on the node, before and after a day of load",
               .expected = "the same counts"},
    .sources = {"https://docs.kernel.org/driver-api/edac.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::mem_ecc
