// Memory reserved as huge pages was not used: no program and no cache can have it.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/signals.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::mem_hugepages {
namespace {

struct Idle {
  std::string size;  // "1048576kB"
  double bytes = 0;  // least of the run
};

/// Free and not reserved by a program at every moment, of the host as a whole: instances without a node in front.
std::vector<Idle> idle_pages(const RuleContext& context) {
  std::vector<Idle> idle;
  for (const std::size_t channel : context.channels("hugepages.free")) {
    const std::string& size = context.telemetry.channels[channel].instance;
    if (size.find('/') != std::string::npos) continue;
    const auto free = context.telemetry.series(channel);
    const auto reserved = context.channels("hugepages.reserved", size);
    double least = std::nan("");
    for (std::size_t t = 0; t < free.size(); ++t) {
      const double promised = reserved.empty() ? 0 : context.telemetry.series(reserved.front())[t];
      least = std::fmin(least, free[t] - promised);
    }
    if (least > 0) idle.push_back({size, least});
  }
  std::stable_sort(idle.begin(), idle.end(), [](const Idle& a, const Idle& b) { return a.bytes > b.bytes; });
  return idle;
}

/// "2 MiB" of "2048kB"
std::string size_in_words(std::string_view size) {
  const auto kib = parse_int(size.substr(0, size.find('k')));
  return kib ? quantity(1024.0 * static_cast<double>(*kib), "bytes") : std::string(size);
}

std::vector<Finding> check(const RuleContext& context) {
  if (context.channels("hugepages.free").empty()) throw Unavailable("not measured: hugepages.free");
  const auto total = parse_int(context.snapshot_value("memory.total"));
  if (!total || *total <= 0) throw Unavailable("not measured: memory.total");
  const std::vector<Idle> idle = idle_pages(context);
  double bytes = 0;
  for (const Idle& each : idle) bytes += each.bytes;
  const double share = bytes / static_cast<double>(*total);
  if (idle.empty() || !(share >= context.threshold("min_share"))) return {};

  Finding finding = context.finding({{"size", idle.front().size}});
  finding.intervals = {context.span(0, context.telemetry.samples)};
  finding.confidence = Confidence::certain;
  finding.severity = Severity::notice;
  finding.impact.how = "none seen: the job may have needed this memory or not";
  std::vector<std::string> sizes;
  for (const Idle& each : idle) {
    finding.instances.push_back(each.size);
    sizes.push_back(size_in_words(each.size));
    finding.evidence.push_back({.metric = "hugepages.free",
                                .instance = each.size,
                                .node = context.telemetry.node,
                                .feature = "least of the run",
                                .observed = each.bytes,
                                .unit = "bytes",
                                .span = finding.intervals.front(),
                                .detectors = {Method::snapshot}});
  }
  finding.sentence = fmt::format(
      "{} of {} ({} % of its memory) were reserved as huge pages of {} and not used{}; they look like used memory.",
      quantity(bytes, "bytes"), context.telemetry.node, number(100 * share), joined(sizes, " and "),
      context.without_job() ? "" : " while the job ran");
  finding.runner_up = {"mem.leak_oom_risk", "a leak grows; this amount is constant from the first second on"};
  return {finding};
}

const RegisteredRule kRule{{
    .id = "mem.hugepages_reserved_idle",
    .title = "Huge pages are reserved and not used",
    .looks_for = "Huge pages that were free and not reserved by a program during the whole run: hugepages.free, "
                 "hugepages.reserved.",
    .kind = FindingKind::audit,
    .states = Stated::fact,
    .subsystem = Subsystem::memory,
    .order = 90,
    .look_alikes = "mem.leak_oom_risk",
    .proof = Proof::real,
    .checks_node = true,
    .thresholds = {{"min_share", 0.02, "ratio", "least share of the node's memory"}},
    .user_remedy =
        {"grep . /sys/kernel/mm/hugepages/hugepages-*/free_hugepages   # on {node}: huge pages that are free"},
    .advice = {{"If memory ran short, use the huge pages: a program maps them with MAP_HUGETLB; glibc 2.35 does so for "
                "malloc with GLIBC_TUNABLES=glibc.malloc.hugetlb=2, if they have the default size (Hugepagesize in "
                "/proc/meminfo).",
                kIf}},
    .admin_remedy = {"echo 0 > /sys/kernel/mm/hugepages/hugepages-{size}/nr_hugepages   # changes the node until its "
                     "next boot: frees them; only if no service needs them (DPDK, SPDK, virtual machines, DAOS)",
                     "grep -rs hugepages /proc/cmdline /etc/sysctl.conf /etc/sysctl.d   # which settings reserve them "
                     "at boot: remove those"},
    .verify = {.command = "grep Hugetlb /proc/meminfo",
               .where = "on the node",
               .expected = "0 kB, or the value of the other nodes"},
    .sources = {"https://docs.kernel.org/admin-guide/mm/hugetlbpage.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::mem_hugepages
