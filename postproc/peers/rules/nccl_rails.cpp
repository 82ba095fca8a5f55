// Some of a node's RDMA ports carry no data of a job that uses the others, or a slow port carries the data that fast
// ones should. How many rails a job can use depends on its GPUs, and some ports are there for storage: on one node this
// is certain only where the job's own settings leave a port out; several nodes show it by their difference.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/gpu_signals.h"
#include "postproc/diagnose/nccl_use.h"
#include "postproc/diagnose/pci_tree.h"
#include "postproc/diagnose/rdma_ports.h"
#include "postproc/diagnose/signals.h"
#include "postproc/numerics/median.h"
#include "postproc/peers/job_rule.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::nccl_rails {
namespace {

constexpr const char* kSent = "ib.xmit_bytes";
constexpr const char* kReceived = "ib.rcv_bytes";
constexpr double kMegabyte = 1e6;

struct Rail {
  RdmaPort port;
  double bytes = 0;  // per second, both directions
};

double mean_of_port(const RuleContext& context, const char* metric, const std::string& port) {
  const auto channels = context.channels(metric, port);
  if (channels.empty()) return std::nan("");
  const MetricSeries bytes = channel_rate(context, channels.front(), 1, "bytes/s");
  return mean_inside(bytes.values, {0, bytes.values.size()});
}

/// Ports that are up and counted, the busiest first.
std::vector<Rail> rails_of(const RuleContext& context, const std::vector<RdmaPort>& ports) {
  std::vector<Rail> rails;
  for (const RdmaPort& port : ports) {
    const double bytes = mean_of_port(context, kSent, port.name) + mean_of_port(context, kReceived, port.name);
    if (!std::isnan(bytes)) rails.push_back({port, bytes});
  }
  std::stable_sort(rails.begin(), rails.end(), [](const Rail& a, const Rail& b) { return a.bytes > b.bytes; });
  return rails;
}

/// Whether NCCL_IB_HCA lets NCCL use the port: "mlx5_0,mlx5_1:1" are prefixes, behind '=' exact names, behind '^' those
/// that it must not use.
bool filter_takes(std::string_view filter, const RdmaPort& port) {
  bool excludes = false;
  bool exact = false;
  while (!filter.empty() && (filter.front() == '^' || filter.front() == '=')) {
    (filter.front() == '^' ? excludes : exact) = true;
    filter.remove_prefix(1);
  }
  for (const std::string& word : split_names(filter, ",")) {
    const std::string_view token = word;
    const std::size_t colon = std::min(token.find(':'), token.size());
    const std::string_view device = token.substr(0, colon);
    const std::string_view number = token.substr(std::min(colon + 1, token.size()));
    const bool of_device = exact ? port.device == device : port.device.starts_with(device);
    if (of_device && (number.empty() || number == port.number)) return !excludes;
  }
  return excludes;
}

std::string names_of(const std::vector<Rail>& rails, const char* separator) {
  std::vector<std::string> names;
  names.reserve(rails.size());
  for (const Rail& rail : rails) names.push_back(rail.port.name);
  std::sort(names.begin(), names.end());
  return joined(names, separator);
}

Evidence traffic(const RuleContext& context, const Rail& rail, std::optional<double> expected) {
  Evidence evidence{.metric = kSent, .instance = rail.port.name, .node = context.telemetry.node, .feature = "mean"};
  evidence.observed = rail.bytes;
  evidence.expected = expected;
  evidence.unit = "bytes/s";
  evidence.span = context.span(0, context.telemetry.samples);
  return evidence;
}

Finding rail_finding(const RuleContext& context, const std::vector<Rail>& should, const std::vector<Rail>& idle,
                     const Rail& busiest) {
  JobValues values{{"rails", names_of(should, ",")}};
  const std::string filter = context.snapshot_value("env.NCCL_IB_HCA");
  if (!filter.empty()) values["filter"] = filter;
  Finding finding = context.finding(values);
  finding.intervals = {context.span(0, context.telemetry.samples)};
  finding.impact.how = "not known: only a run that uses all ports shows the gain";
  for (const Rail& rail : idle) finding.instances.push_back(rail.port.name);
  finding.evidence.push_back(traffic(context, busiest, std::nullopt));
  for (const Rail& rail : idle) finding.evidence.push_back(traffic(context, rail, busiest.bytes));
  finding.runner_up = {"ib.link_degraded", "the ports without traffic are up and as fast as the fastest of the node"};
  return finding;
}

std::string setting_words(const RuleContext& context) {
  const std::string filter = context.snapshot_value("env.NCCL_IB_HCA");
  return filter.empty() ? "" : fmt::format(" NCCL_IB_HCA is {} in this job.", filter);
}

/// A port of another purpose that carries it all, while the fabric is idle.
std::optional<Finding> on_slow_port(const RuleContext& context, const std::vector<Rail>& fast, const Rail& busiest,
                                    double top) {
  const double most_idle = context.threshold("max_idle_share") * busiest.bytes;
  const bool all_idle = std::all_of(fast.begin(), fast.end(), [&](const Rail& rail) { return rail.bytes < most_idle; });
  if (busiest.port.rate.gigabits >= top || !all_idle) return std::nullopt;
  Finding finding = rail_finding(context, fast, fast, busiest);
  finding.severity = Severity::warning;
  finding.confidence = Confidence::likely;
  finding.sentence = fmt::format(
      "The job's RDMA traffic on {} ({}) goes over {} ({:g} Gb/s), while {} ({:g} Gb/s) {} idle.{}",
      context.telemetry.node, quantity(busiest.bytes, "bytes/s"), busiest.port.name, busiest.port.rate.gigabits,
      names_of(fast, ", "), top, fast.size() == 1 ? "is" : "are", setting_words(context));
  return finding;
}

/// Root ports above the GPUs that the job opened; empty where that of one of them is not known.
std::set<std::string> root_ports_of_gpus(const RuleContext& context, const PciTree& tree, std::size_t opened) {
  constexpr std::string_view kPrefix = "gpu.";
  constexpr std::string_view kMinor = ".minor";
  const std::vector<int> minors = parse_cpu_list(context.snapshot_value("job.gpus_opened"));
  std::set<std::string> gpus;
  std::set<std::string> root_ports;
  for (const Snapshot* facts : {&context.begin, &context.end}) {
    for (const auto& [key, value] : *facts) {
      if (!key.starts_with(kPrefix) || !key.ends_with(kMinor)) continue;
      const auto minor = parse_int(value);
      if (!minor || std::find(minors.begin(), minors.end(), static_cast<int>(*minor)) == minors.end()) continue;
      const std::string gpu = key.substr(kPrefix.size(), key.size() - kPrefix.size() - kMinor.size());
      const std::string port = tree.root_port(gpu_fact(context, gpu, "address"));
      if (port.empty()) return {};
      gpus.insert(gpu);
      root_ports.insert(port);
    }
  }
  return gpus.size() == opened ? root_ports : std::set<std::string>{};
}

/// Without the ports that are below no PCI switch of a GPU, if others are: NCCL leaves them for what is not the GPUs'.
void leave_out_far(const RuleContext& context, std::size_t opened, const std::vector<Rail>& fast,
                   std::vector<Rail>& idle) {
  const PciTree tree(context.begin);
  const std::set<std::string> gpus = root_ports_of_gpus(context, tree, opened);
  const auto is_near = [&](const Rail& rail) { return gpus.contains(tree.root_port_of_rdma(rail.port.device)); };
  if (std::none_of(fast.begin(), fast.end(), is_near)) return;
  std::erase_if(idle,
                [&](const Rail& rail) { return !tree.root_port_of_rdma(rail.port.device).empty() && !is_near(rail); });
}

std::optional<Finding> some_unused(const RuleContext& context, const std::vector<Rail>& fast) {
  const Rail& busiest = fast.front();
  std::vector<Rail> idle;
  for (const Rail& rail : fast) {
    if (rail.bytes < context.threshold("max_idle_share") * busiest.bytes) idle.push_back(rail);
  }
  if (idle.empty()) return std::nullopt;
  // NCCL uses the rails that are near the job's GPUs: with fewer GPUs than ports, some are left.
  const std::string gpus = context.snapshot_value("job.gpus_opened");
  if (gpus.empty()) throw Unavailable("not measured: the GPUs the job opened (job.gpus_opened)");
  const std::size_t opened = parse_cpu_list(gpus).size();
  if (opened < fast.size()) return std::nullopt;
  leave_out_far(context, opened, fast, idle);
  if (idle.empty()) return std::nullopt;
  const std::string filter = context.snapshot_value("env.NCCL_IB_HCA");
  const bool by_setting = !filter.empty() && std::all_of(idle.begin(), idle.end(), [&](const Rail& rail) {
    return !filter_takes(filter, rail.port);
  });
  Finding finding = rail_finding(context, fast, idle, busiest);
  finding.severity = by_setting ? Severity::notice : Severity::info;
  finding.confidence = by_setting ? Confidence::likely : Confidence::possible;
  finding.sentence = fmt::format(
      "{} of the {} fastest RDMA ports of {} carried almost no traffic ({}), while {} moved {}.{}", idle.size(),
      fast.size(), context.telemetry.node, names_of(idle, ", "), busiest.port.name, quantity(busiest.bytes, "bytes/s"),
      by_setting ? setting_words(context)
                 : " They may be reserved for storage: this is a proposal to test, not a fault.");
  return finding;
}

std::vector<Finding> check_node(const RuleContext& context) {
  const std::vector<RdmaPort> ports = active_rdma_ports(context);
  if (ports.size() < 2 || on_one_node(context) || !uses_nccl(context)) return {};
  if (opened_rdma_devices(context) == "none") return {};  // sockets: nccl.socket_fallback's matter
  const std::vector<Rail> rails = rails_of(context, ports);
  if (rails.size() < ports.size()) throw Unavailable("not measured: ib.xmit_bytes and ib.rcv_bytes of each RDMA port");
  double top = 0;
  for (const Rail& rail : rails) top = std::max(top, rail.port.rate.gigabits);
  std::vector<Rail> fast;
  std::copy_if(rails.begin(), rails.end(), std::back_inserter(fast),
               [top](const Rail& rail) { return rail.port.rate.gigabits == top; });
  if (top <= 0 || rails.front().bytes < context.threshold("min_traffic") * kMegabyte) return {};
  auto finding = on_slow_port(context, fast, rails.front(), top);
  if (!finding && fast.front().bytes >= context.threshold("min_traffic") * kMegabyte) {
    finding = some_unused(context, fast);
  }
  if (!finding) return {};
  return {*std::move(finding)};
}

/// Mean bytes per second of a node's port in both directions; nothing where it was not measured.
std::optional<double> bytes_of(const NodeProfile& node, const std::string& port) {
  double sum = 0;
  for (const char* metric : {kSent, kReceived}) {
    const std::string name = std::string(metric) + '/' + port;
    const ProfileChannel* channel = node.find(name);
    if (channel == nullptr && !node.is_zero(name)) return std::nullopt;
    sum += channel == nullptr ? 0 : channel->mean;
  }
  return sum;
}

struct IdlePort {
  std::string node;
  std::string port;
  double bytes = 0;
  double usual = 0;
};

/// Bytes by port and node; every node of each.
using Traffic = std::map<std::string, std::vector<std::pair<const NodeProfile*, double>>>;

Traffic traffic_of(std::span<const NodeProfile* const> nodes) {
  Traffic by_port;
  const std::string prefix = std::string(kSent) + '/';
  std::set<std::string> ports;
  for (const NodeProfile* node : nodes) {
    for (const ProfileChannel& channel : node->channels) {
      const std::string& name = channel.name;
      if (name.starts_with(prefix)) ports.insert(name.substr(prefix.size()));
    }
  }
  for (const std::string& port : ports) {
    for (const NodeProfile* node : nodes) {
      if (const auto bytes = bytes_of(*node, port)) by_port[port].emplace_back(node, *bytes);
    }
  }
  return by_port;
}

/// Ports that most nodes use and this one does not, though it uses others as much as they do.
std::vector<IdlePort> idle_ports(const JobRuleContext& context, const EffectiveRule& rule) {
  constexpr std::size_t kLeastNodes = 3;
  constexpr double kDoesItsPart = 0.5;
  const Traffic by_port = traffic_of(context.nodes);
  std::map<const NodeProfile*, double> totals;
  for (const auto& [port, nodes] : by_port) {
    for (const auto& [node, bytes] : nodes) totals[node] += bytes;
  }
  std::vector<double> all;
  all.reserve(totals.size());
  for (const auto& [node, bytes] : totals) all.push_back(bytes);
  if (all.empty()) return {};
  const double usual_total = upper_median<double>(all);
  std::vector<IdlePort> idle;
  for (const auto& [port, nodes] : by_port) {
    if (nodes.size() < kLeastNodes) continue;
    std::vector<double> values;
    for (const auto& [node, bytes] : nodes) values.push_back(bytes);
    const double usual = upper_median<double>(values);
    if (usual < rule.threshold("min_traffic") * kMegabyte) continue;
    for (const auto& [node, bytes] : nodes) {
      const bool works = totals[node] >= kDoesItsPart * usual_total;
      if (works && bytes < rule.threshold("max_idle_share") * usual) idle.push_back({node->node, port, bytes, usual});
    }
  }
  return idle;
}

std::vector<JobFinding> check_job(const JobRuleContext& context, const EffectiveRule& rule) {
  const std::vector<IdlePort> idle = idle_ports(context, rule);
  if (idle.empty()) return {};
  std::set<std::string> nodes;
  std::set<std::string> ports;
  std::vector<std::string> words;
  for (const IdlePort& one : idle) {
    nodes.insert(one.node);
    ports.insert(one.port);
    words.push_back(fmt::format("{} of {} moved {} ({} on most other nodes)", one.port, one.node,
                                quantity(one.bytes, "bytes/s"), quantity(one.usual, "bytes/s")));
  }
  Finding finding = rule.finding({nodes.begin(), nodes.end()});
  finding.severity = Severity::warning;
  finding.confidence = Confidence::likely;
  finding.instances.assign(ports.begin(), ports.end());
  finding.intervals = {context.job};
  finding.impact.how = "not known: only a run in which these ports are used shows it";
  for (const IdlePort& one : idle) {
    Evidence evidence{.metric = kSent, .instance = one.port, .node = one.node, .feature = "mean"};
    evidence.observed = one.bytes;
    evidence.expected = one.usual;
    evidence.unit = "bytes/s";
    evidence.span = context.job;
    evidence.detectors = {Method::peer_comparison};
    finding.evidence.push_back(std::move(evidence));
  }
  finding.sentence =
      "RDMA ports that most nodes of the job use carry almost no traffic: " + listed(words, 3, "; ") + ".";
  finding.runner_up = {"ib.link_degraded", "a port that is down would be reported as such"};
  return {finding};
}

const RegisteredJobRule kRule(
    check_job,
    {
        .id = "nccl.wrong_hca_or_unused_rail",
        .title = "The job leaves fast RDMA ports unused",
        .looks_for = "RDMA ports with almost no traffic (ib.xmit_bytes, ib.rcv_bytes) in a job that uses NCCL, while a "
                     "slower port, other ports of the node, or the ports of that name on other nodes are busy.",
        .kind = FindingKind::audit,
        .subsystem = Subsystem::network,
        .order = 42,
        .look_alikes = "ib.link_degraded,nccl.socket_fallback,fewer GPUs than ports,ports for storage",
        .proof = Proof::test_double,
        .thresholds = {{"min_traffic", 10, "MB/s",
                        "mean traffic of the busiest port from which idle ports are reported"},
                       {"max_idle_share", 0.05, "ratio", "share of that traffic below which a port is idle"}},
        .user_remedy =
            {"unset NCCL_IB_HCA   # it is {filter} in this job",
             {"export NCCL_IB_HCA=={rails}   # exactly these ports; without the second =, names are prefixes", kOr},
             "export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET   # for one run: shows which ports NCCL chose"},
        .admin_remedy = {"/etc/nccl.conf: NCCL_IB_HCA=={rails}   # on all nodes: the ports for computing"},
        .verify = {.expected = "the bytes of these ports are within 20 % of each other"},
        .sources = {"https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-ib-hca",
                    "https://github.com/NVIDIA/nccl/issues/820"},
        .check = check_node,
    });

}  // namespace
}  // namespace reveal::rule::nccl_rails
