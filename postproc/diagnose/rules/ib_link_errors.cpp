// The link of an InfiniBand or RoCE port failed, trained again or damaged packets while the job ran.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/event_count.h"
#include "postproc/diagnose/rdma_ports.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::ib_link_errors {
namespace {

constexpr std::string_view kFailed = "ib.link_downed";
constexpr std::string_view kRemote = "ib.rcv_remote_physical_errors";

struct LinkError {
  std::string_view metric;
  std::string_view words;  // for one
  bool flap = false;       // one is a fault; of the others a few are daily life
};
constexpr LinkError kLinkErrors[] = {
    {kFailed, "link failure", true},
    {"ib.link_error_recovery", "link retraining", true},
    {"ib.symbol_error", "symbol error"},
    {"ib.rcv_errors", "damaged packet"},
    {"ib.local_link_integrity_errors", "link integrity error"},
    {"ib.excessive_buffer_overrun_errors", "buffer overrun"},
    {kRemote, "remote physical error"},
};

struct Counted {
  const LinkError* error = nullptr;
  EventCount count;
};

bool matters(const RuleContext& context, const LinkError& error, double total) {
  constexpr double kHour = 3600;
  if (error.flap) return total >= 1;
  return total >= context.threshold("min_errors") &&
         total / job_seconds(context) * kHour >= context.threshold("min_per_hour");
}

Finding describe(const RuleContext& context, const RdmaPort& port, const std::vector<Counted>& counted_errors) {
  Finding finding = context.finding(port.values());
  finding.instances = {port.name};
  finding.confidence = Confidence::certain;
  const auto is = [](std::string_view metric) {
    return [metric](const Counted& one) { return one.error->metric == metric; };
  };
  const bool failed = std::any_of(counted_errors.begin(), counted_errors.end(), is(kFailed));
  finding.severity = failed ? Severity::warning : Severity::notice;
  finding.impact.how = failed ? "not known: connections over a failing link are lost or stall"
                              : "not known: damaged packets were sent again";
  Interval at = counted_errors.front().count.at;
  std::vector<std::string> words;
  for (const Counted& one : counted_errors) {
    at = {std::min(at.begin, one.count.at.begin), std::max(at.end, one.count.at.end)};
    words.push_back(counted(one.count.total, one.error->words));
    finding.evidence.push_back(evidence_of(context, one.count));
  }
  finding.intervals = {context.span(at.begin, at.end)};
  finding.sentence =
      fmt::format("{} of {} counted {} while the job ran.", port.name, context.telemetry.node, joined(words, ", "));
  if (std::all_of(counted_errors.begin(), counted_errors.end(), is(kRemote))) {
    finding.sentence += " These packets were damaged on an earlier link of their path, not on this one.";
  }
  finding.runner_up = {"ib.congestion_xmit_wait", "congestion: a congested port waits, but counts no errors"};
  return finding;
}

std::vector<Finding> check(const RuleContext& context) {
  std::map<std::string, std::vector<Counted>> by_port;
  bool measured = false;
  for (const LinkError& error : kLinkErrors) {
    if (context.channels(error.metric).empty()) continue;
    measured = true;
    for (EventCount count : counted_events(context, error.metric)) {
      // Counts of ten seconds lie on the grid in equal parts; their sum is only nearly a whole number.
      count.total = std::round(count.total);
      if (!matters(context, error, count.total)) continue;
      by_port[context.telemetry.channels[count.channel].instance].push_back({&error, count});
    }
  }
  if (!measured) throw Unavailable("not measured: " + std::string(kFailed) + " (no InfiniBand or RoCE adapter)");
  std::vector<Finding> findings;
  for (const auto& [name, errors] : by_port) {
    const RdmaPort port = rdma_port(context, name);
    if (was_ever_up(context, port)) findings.push_back(describe(context, port, errors));
  }
  return findings;
}

const RegisteredRule kRule{{
    .id = "ib.link_errors",
    .title = "The link of an InfiniBand or RoCE port has errors",
    .looks_for =
        "Links that failed or trained again (ib.link_downed, ib.link_error_recovery), and many damaged packets "
        "(ib.symbol_error, ib.rcv_errors and others), counted while the job ran on a port that is in use.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::network,
    .order = 15,
    .look_alikes = "ib.congestion_xmit_wait,errors from before the job,a port without a cable",
    .proof = Proof::test_double,
    .thresholds = {{"min_errors", 10, "errors", "least errors of one kind; one failure or retraining is enough"},
                   {"min_per_hour", 10, "/h", "least errors per hour, in addition"}},
    .user_remedy = {{"#SBATCH --exclude={nodes}   # until the cable is replaced", "job"}},
    .admin_remedy = {{"mlxlink -d {device} -p {port} -c -m   # errors, and the state of the cable's module; mstlink of "
                      "mstflint does the same",
                      "mlx"},
                     {"ibqueryerrors   # which ports of the fabric count errors, also at the far end", "infiniband"},
                     {"ethtool -S {interface} | grep -iE 'phy|symbol|crc'   # error counters of the card",
                      "!infiniband"},
                     "Clean or replace the cable or its module; if the errors stay, the port."},
    .verify = {.command = "grep . /sys/class/infiniband/*/ports/*/counters/*err* "
                          "/sys/class/infiniband/*/ports/*/counters/link_downed",
               .where = "on the node, before and after a day of load",
               .expected = "the same link_downed and link_error_recovery, and hardly more of the others"},
    .sources = {"https://www.kernel.org/doc/Documentation/ABI/stable/sysfs-class-infiniband",
                "https://github.com/Azure/azurehpc-health-checks"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::ib_link_errors
