// Links of a GPU to other GPUs that were down or made errors while the job ran.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/event_count.h"
#include "postproc/diagnose/gpu_signals.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::gpu_nvlink {
namespace {

struct Link {
  std::string gpu;
  std::string instance;  // "gpu0/link3"
  bool up_once = false;
  bool down_at_end = false;
};

std::vector<Link> links(const RuleContext& context) {
  std::vector<Link> all;
  for (const std::size_t channel : context.channels("nvlink.active")) {
    Link link{.instance = context.telemetry.channels[channel].instance};
    link.gpu = link.instance.substr(0, link.instance.find('/'));
    for (const double value : context.telemetry.series(channel)) {
      if (std::isnan(value)) continue;
      link.up_once = link.up_once || value >= 1;
      link.down_at_end = value < 1;
    }
    all.push_back(std::move(link));
  }
  return all;
}

/// Links that are up, of each GPU.
std::map<std::string, int> links_up(std::span<const Link> all) {
  std::map<std::string, int> up;
  for (const Link& link : all) up[link.gpu] += link.up_once ? 1 : 0;
  return up;
}

/// Most links that a GPU of the same kind has up; 0 for the only one of its kind.
int links_of_kind(const RuleContext& context, const std::map<std::string, int>& up, const std::string& gpu) {
  int most = 0;
  for (const auto& [other, count] : up) {
    if (other != gpu && gpu_fact(context, other, "name") == gpu_fact(context, gpu, "name"))
      most = std::max(most, count);
  }
  return most;
}

std::vector<Finding> check_links(const RuleContext& context) {
  const std::vector<Link> all = links(context);
  if (all.empty()) throw Unavailable("not measured: nvlink.active (these GPUs have no NVLink, or no GPU was measured)");
  const auto up = links_up(all);
  std::vector<Finding> findings;
  for (const auto& [gpu, count] : up) {
    if (is_divided(context, gpu)) continue;  // its parts exchange nothing with other GPUs
    std::vector<std::string> down;
    std::vector<std::string> never_up;
    const int expected = links_of_kind(context, up, gpu);
    for (const Link& link : all) {
      if (link.gpu != gpu || !link.down_at_end) continue;
      if (link.up_once) {
        down.push_back(link.instance);
      } else if (count < expected) {  // else the board does not use it
        never_up.push_back(link.instance);
      }
    }
    const bool fell = !down.empty();
    if (!fell) down = std::move(never_up);
    if (down.empty()) continue;
    Finding finding = gpu_finding(context, gpu, fell ? bad_for_jobs(context) : JobValues{});
    // Boards of the same name may be wired differently.
    finding.severity = fell ? Severity::warning : Severity::notice;
    finding.confidence = fell ? Confidence::certain : Confidence::possible;
    finding.instances = down;
    finding.impact.how = "not known: the traffic between the job's GPUs was not compared";
    const auto alive = static_cast<double>(count) - static_cast<double>(fell ? down.size() : 0);
    finding.evidence.push_back(
        fact(context, "nvlink.active", gpu, "active links", alive, std::max<double>(count, expected), "count"));
    finding.sentence = fmt::format("{} of {} on {} {} down{}: {}.", counted(static_cast<double>(down.size()), "NVLink"),
                                   gpu_name(context, gpu), context.telemetry.node, fell ? "went" : "is",
                                   fell ? fmt::format(" while {} ran and did not come up again", context.watched())
                                        : ", and other GPUs of the same model have more active links",
                                   listed(down));
    finding.runner_up = {"", "a board without these links: other GPUs of the model have them, or they were up before"};
    findings.push_back(std::move(finding));
  }
  for (const std::string_view metric : {"nvlink.recoveries", "nvlink.crc_errors"}) {
    if (context.channels(metric).empty()) continue;
    for (const EventCount& count : counted_events(context, metric)) {
      if (count.total < context.threshold("min_errors")) continue;
      const std::string instance = context.telemetry.channels[count.channel].instance;
      Finding finding = gpu_finding(context, instance.substr(0, instance.find('/')));
      finding.severity = Severity::notice;
      finding.instances = {instance};
      finding.intervals = {context.span(count.at.begin, count.at.end)};
      finding.impact.how = "none seen: the link sends damaged data again";
      finding.evidence.push_back(evidence_of(context, count));
      finding.evidence.back().detectors = {Method::driver_counter};
      finding.sentence =
          fmt::format("NVLink {} on {} counted {} while {} ran.", instance, context.telemetry.node,
                      counted(count.total, metric == "nvlink.recoveries" ? "restart of the link" : "checksum error"),
                      context.watched());
      findings.push_back(std::move(finding));
      break;  // the worst of a kind
    }
  }
  return findings;
}

const RegisteredRule kNvlink{{
    .id = "gpu.nvlink_down",
    .title = "An NVLink is down or has errors",
    .looks_for = "NVLinks that went down, that are down while other GPUs of the model have them up (nvlink.active), or "
                 "that counted errors (nvlink.recoveries, nvlink.crc_errors).",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::gpu,
    .order = 14,
    .look_alikes = "a board without NVLink or with fewer links,a link that came up again,divided GPUs (MIG)",
    .proof = Proof::test_double,
    .checks_node = true,
    .thresholds = {{"min_errors", 10, "errors", "errors of one link from which it is reported"}},
    .user_remedy = {{"#SBATCH --exclude={nodes}   # until the links are up", "avoid_node"},
                    "nvidia-smi nvlink -s -i {gpu}   # on {node}"},
    .admin_remedy = {"nvidia-smi nvlink -e -i {gpu}   # on {node}: errors of each link",
                     "systemctl status nvidia-fabricmanager   # on {node}",
                     {"scontrol update nodename={nodes} state=drain reason=nvlink   # changes the state in Slurm: no "
                      "new job starts there",
                      "avoid_node"}},
    .verify = {.command = "nvidia-smi nvlink -s",
               .where = "on the node",
               .expected = "all links of the GPU with their speed"},
    .sources = {"https://docs.nvidia.com/deploy/nvml-api/group__NvLink.html",
                "https://github.com/Azure/azurehpc-health-checks"},
    .check = check_links,
}};

}  // namespace
}  // namespace reveal::rule::gpu_nvlink
