// How NCCL moves its data: over sockets although a fabric is up, which is a fault; or over one queue pair or one socket
// per connection, which is only worth an experiment. The fault is checked first: settings of a transport that is not
// used change nothing.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/found_before.h"
#include "postproc/diagnose/nccl_use.h"
#include "postproc/diagnose/network_interface.h"
#include "postproc/diagnose/rdma_ports.h"
#include "postproc/diagnose/rule.h"
#include "postproc/diagnose/signals.h"
#include "postproc/numerics/percentile.h"
#include "postproc/telemetry/call_facts.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::nccl_transport {
namespace {

/// Mean bytes per second through the network's interfaces of the job; throws Unavailable if not measured.
double traffic(const RuleContext& context, std::string_view metric) {
  const auto bytes = traffic_of_interfaces(context, metric);
  const double mean = bytes ? mean_inside(bytes->values, {0, context.telemetry.samples}) : std::nan("");
  if (std::isnan(mean)) throw Unavailable("not measured: " + std::string(metric));
  return mean;
}

/// The call by which a process gave NCCL most bytes (--stack), which shows that NCCL moves data. Nothing where none
/// was counted.
std::optional<Evidence> bytes_of_calls(const RuleContext& context) {
  std::optional<Evidence> most;
  for (const std::size_t channel : context.channels("stack.bytes")) {
    const std::string& instance = context.telemetry.channels[channel].instance;
    const std::string_view function = call_instance(instance).function;
    if (call_facts(function).library != CallLibrary::nccl || !waits_for_ranks(function)) continue;
    const MetricSeries bytes = channel_rate(context, channel, 1, "bytes/s");
    const double mean = mean_inside(bytes.values, {0, bytes.values.size()});
    if (!(mean > (most ? *most->observed : 0.0))) continue;
    most = fact(context, "stack.bytes", instance, "mean", mean, std::nullopt, "bytes/s");
  }
  return most;
}

std::string names_of(const std::vector<RdmaPort>& ports) {
  std::string names;
  for (const RdmaPort& port : ports) names += (names.empty() ? "" : ", ") + port.name;
  return names;
}

std::vector<Finding> check_fallback(const RuleContext& context) {
  const std::vector<RdmaPort> ports = active_rdma_ports(context);
  if (ports.empty() || on_one_node(context)) return {};  // nothing to fall back from
  if (!uses_nccl(context)) return {};
  if (opened_rdma_devices(context) != "none") return {};
  const double bytes = traffic(context, "net.tx_bytes");
  if (bytes < context.threshold("min_sent") * 1e6) return {};  // a rendezvous, no training traffic
  // Collectives send about as much as they receive; reading data or writing checkpoints does not.
  const double received = traffic(context, "net.rx_bytes");
  const double skew = context.threshold("max_skew");
  if (received > skew * bytes || bytes > skew * received) return {};
  const bool by_slurm = other_nodes(context) == OtherNodes::by_slurm;
  const auto counted = bytes_of_calls(context);
  const bool is_nccl = counted.has_value() || opened_gpus(context);

  Finding finding = context.finding();
  finding.severity = by_slurm && is_nccl ? Severity::warning : Severity::notice;
  finding.confidence = by_slurm && is_nccl ? Confidence::likely : Confidence::possible;
  finding.intervals = {context.span(0, context.telemetry.samples)};
  for (const RdmaPort& port : ports) finding.instances.push_back(port.name);
  finding.impact.how = "not known: the traffic over the fabric was not measured";
  finding.evidence.push_back(fact(context, "net.tx_bytes", "", "mean", bytes, std::nullopt, "bytes/s"));
  finding.evidence.push_back(fact(context, "net.rx_bytes", "", "mean", received, std::nullopt, "bytes/s"));
  if (counted) finding.evidence.push_back(*counted);
  finding.sentence = fmt::format(
      "{}: {} left through network interfaces, and no process opened an RDMA device, although {} of them {} up ({}).{}",
      is_nccl ? "NCCL ran over TCP sockets on " + context.telemetry.node
              : "The job communicated over TCP sockets on " + context.telemetry.node,
      quantity(bytes, "bytes/s"), ports.size(), ports.size() == 1 ? "is" : "are", names_of(ports),
      is_nccl ? "" : " NCCL was loaded, but no process opened a GPU: the traffic may be that of another library.");
  JobValues forced;  // by the job itself
  for (const auto& [name, bad] :
       {std::pair{"NCCL_IB_DISABLE", "1"}, std::pair{"NCCL_NET", "Socket"}, std::pair{"NCCL_NET", "socket"}}) {
    if (context.snapshot_value(std::string("env.") + name) != bad) continue;
    finding.confidence = Confidence::certain;
    finding.sentence += fmt::format(" The job itself requests this: {}={}.", name, bad);
    forced[name] = bad;
  }
  finding.remedy = context.finding(forced).remedy;
  finding.runner_up = {"nccl.single_qp", "no queue pair is used at all"};
  if (!by_slurm) {
    finding.sentence += " Its sockets had ends on other hosts; whether these are nodes of the job is not known.";
    finding.runner_up = {"", "a server on one node and its clients cannot be ruled out: there is no Slurm to ask"};
  }
  return {finding};
}

/// The job's queues on one device when its connected queue pairs were most.
struct CountedPairs {
  double pairs = 0;
  double queues = 0;  // completion queues that they use

  /// NCCL gives each connection a completion queue of its own, so this is its queue pairs per connection. Programs
  /// that let more queue pairs share one make it larger, never smaller.
  [[nodiscard]] double per_connection() const { return pairs / queues; }
};

std::optional<CountedPairs> counted_pairs(const RuleContext& context, const std::string& device) {
  const auto pairs = context.channels("rdma.qp.count", device);
  const auto queues = context.channels("rdma.cq.count", device);
  if (pairs.empty() || queues.empty()) return std::nullopt;
  const auto pairs_at = context.telemetry.series(pairs.front());
  const auto queues_at = context.telemetry.series(queues.front());
  CountedPairs most;
  for (std::size_t t = 0; t < pairs_at.size(); ++t) {
    if (pairs_at[t] > most.pairs && queues_at[t] > 0) most = {pairs_at[t], queues_at[t]};
  }
  if (most.pairs == 0) return std::nullopt;
  return most;
}

/// The job's queue pairs were counted on some device.
bool counts_pairs(const RuleContext& context) {
  const auto channels = context.channels("rdma.qp.count");
  return std::any_of(channels.begin(), channels.end(), [&](std::size_t channel) {
    const auto series = context.telemetry.series(channel);
    return std::any_of(series.begin(), series.end(), [](double pairs) { return pairs > 0; });
  });
}

std::string says_single_pair(const std::string& set, const std::optional<CountedPairs>& counted,
                             const std::string& ports) {
  const auto value = parse_int(set);
  const std::string setting = set.empty() ? "is not set in the job's environment"
                              : value     ? fmt::format("is {}", *value)
                                          : "is no number";
  if (!counted) {
    return fmt::format(
        "NCCL_IB_QPS_PER_CONNECTION {}{} one queue pair per connection on {}; the queue pairs were not counted.",
        setting, set.empty() ? "; NCCL's default is" : ":", ports);
  }
  return fmt::format(
      "NCCL uses one queue pair per connection on {}: {} {} connected, with {} completion {}, of which each connection "
      "has one (NCCL_IB_QPS_PER_CONNECTION {}).",
      ports, number(counted->pairs), counted->pairs == 1 ? "queue pair was" : "queue pairs were",
      number(counted->queues), counted->queues == 1 ? "queue" : "queues", setting);
}

std::vector<double> by_seconds(const RuleContext& context, std::span<const double> series) {
  const std::size_t second = context.steps(1);
  std::vector<double> means;
  for (std::size_t begin = 0; begin + second <= series.size(); begin += second) {
    const double mean = mean_inside(series, {begin, begin + second}) / context.telemetry.step_seconds;
    if (!std::isnan(mean)) means.push_back(mean);
  }
  return means;
}

/// The traffic in the busiest seconds, except for the top hundredth.
double peak_of(std::vector<double> seconds) {
  constexpr double kUsualPeak = 0.99;
  const auto at = static_cast<std::size_t>(kUsualPeak * static_cast<double>(seconds.size() - 1));
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(at), seconds.end());
  return seconds[at];
}

/// The port's busiest seconds are alike and well below its rate: something else than the port limits them.
struct Plateau {
  double bytes = 0;  // per second
  double line = 0;
  bool seen = false;
};

/// Nothing where the port's traffic was not measured.
std::optional<Plateau> plateau_of(const RuleContext& context, const RdmaPort& port) {
  constexpr double kNearPeak = 0.8;
  const auto channels = context.channels("ib.xmit_bytes", port.name);
  if (channels.empty() || !(port.rate.gigabits > 0)) return std::nullopt;
  const auto seconds = by_seconds(context, context.telemetry.series(channels.front()));
  if (seconds.empty()) return std::nullopt;
  Plateau plateau{.bytes = peak_of(seconds), .line = port.rate.gigabits * 1e9 / 8};
  const auto near = static_cast<double>(
      std::count_if(seconds.begin(), seconds.end(), [&](double each) { return each >= kNearPeak * plateau.bytes; }));
  plateau.seen = plateau.bytes >= context.threshold("min_line_share") * plateau.line &&
                 plateau.bytes < context.threshold("max_line_share") * plateau.line &&
                 near >= context.threshold("min_plateau") * static_cast<double>(seconds.size());
  return plateau;
}

std::vector<Finding> check_single_qp(const RuleContext& context) {
  const std::vector<RdmaPort> ports = active_rdma_ports(context);
  if (ports.empty() || on_one_node(context)) return {};
  if (!uses_nccl(context)) return {};
  if (opened_rdma_devices(context) == "none") return {};  // sockets: nccl.socket_fallback's matter
  const bool counting = counts_pairs(context);
  const std::string set = context.snapshot_value("env.NCCL_IB_QPS_PER_CONNECTION");
  if (!counting && !set.empty() && set != "1") return {};
  // More entropy helps only where there is more than one path: bonded ports, or a fabric of fast links.
  std::optional<CountedPairs> counted;
  const auto wide = std::find_if(ports.begin(), ports.end(), [&](const RdmaPort& port) {
    counted = counted_pairs(context, port.device);
    if (counting && !counted) return false;  // the job has no connection there
    return port.name.find("bond") != std::string::npos || port.rate.gigabits >= context.threshold("min_gigabits");
  });
  if (wide == ports.end()) return {};
  if (counted && counted->per_connection() > context.threshold("max_pairs")) return {};
  // One queue pair can fill a port; only where something holds the traffic back, it may be the reason.
  const auto plateau = plateau_of(context, *wide);
  if (plateau && !plateau->seen && !found_before(context, "gpu.starved_comm")) return {};

  Finding finding = context.finding();
  finding.severity = Severity::info;  // an experiment, not a fault
  finding.confidence = Confidence::possible;
  finding.intervals = {context.span(0, context.telemetry.samples)};
  finding.instances = {wide->name};
  finding.impact.how = "not known: whether several queue pairs are faster must be measured";
  if (counted) {
    const std::string& device = wide->device;
    finding.evidence.push_back(fact(context, "rdma.qp.count", device, "most", counted->pairs, std::nullopt, "count"));
    finding.evidence.push_back(fact(context, "rdma.cq.count", device, "then", counted->queues, std::nullopt, "count"));
  }
  // The setting is evidence only where it was seen; without it NCCL's documented default holds.
  if (const auto value = parse_int(set)) {
    finding.evidence.push_back(
        fact(context, "NCCL_IB_QPS_PER_CONNECTION", "", "setting", static_cast<double>(*value), std::nullopt, "count"));
  }
  const std::optional<double> rate = wide->rate.gigabits > 0 ? std::optional(wide->rate.gigabits) : std::nullopt;
  finding.evidence.push_back(
      fact(context, "rdma." + wide->key + ".rate", "", "rate of the port", rate.value_or(0), std::nullopt, "Gb/s"));
  finding.evidence.back().observed = rate;
  if (plateau) {
    finding.evidence.push_back(fact(context, "ib.xmit_bytes", wide->name, "99 % of the seconds below", plateau->bytes,
                                    plateau->line, "bytes/s"));
  }
  finding.sentence = says_single_pair(set, counted, wide->name + (rate ? fmt::format(" ({:g} Gb/s)", *rate) : "")) +
                     (plateau ? fmt::format(" The port sent at most {}.", quantity(plateau->bytes, "bytes/s"))
                              : " Its traffic was not measured.") +
                     " If the fabric has several paths, two or four may use them better. This is a proposal to test, "
                     "not a fault: measure it.";
  finding.runner_up = {"nccl.socket_fallback", "the job's processes have RDMA devices open: the fabric is used"};
  return {finding};
}

/// The interface that carries most, with its sent bytes in each second.
struct Carrier {
  std::string name;
  double gigabits = 0;          // speed of its link; 0 if unknown
  std::vector<double> seconds;  // bytes/s
  double mean = 0;              // bytes/s
};

Carrier carrier(const RuleContext& context) {
  Carrier most;
  for (const std::size_t channel : context.channels("net.tx_bytes")) {
    const std::string& instance = context.telemetry.channels[channel].instance;
    const std::string name = interface_name(instance);
    const auto seconds = by_seconds(context, context.telemetry.series(channel));
    const double mean = mean_inside(seconds, {0, seconds.size()});
    if (name == "lo" || !(mean > most.mean)) continue;
    const double megabits =
        static_cast<double>(parse_int(context.snapshot_value("net." + name + ".speed")).value_or(0));
    most = {name, megabits / 1000, seconds, mean};
  }
  return most;
}

/// NCCL chooses several sockets by itself for the cards of these clouds.
bool has_own_defaults(const RuleContext& context, const std::string& interface) {
  constexpr std::string_view kAmazon = "0x1d0f";
  constexpr std::string_view kGoogle = "0x1ae0";
  const std::string vendor = context.snapshot_value("net." + interface + ".vendor");
  return vendor == kAmazon || vendor == kGoogle;
}

/// Cpu time of the busiest process: a rank with a busy helper thread takes a cpu, at least.
double busiest_process(const RuleContext& context) {
  double most = std::nan("");
  for (const std::size_t channel : context.channels("process.cpu_time")) {
    const auto signal = channel_rate(context, channel, 1e-9, "cpus");
    most = std::fmax(most, mean_inside(signal.values, {0, signal.values.size()}));
  }
  return most;
}

bool is_set(const RuleContext& context, std::string_view variable) {
  return !context.snapshot_value("env." + std::string(variable)).empty();
}

std::vector<Finding> check_sockets(const RuleContext& context) {
  if (!active_rdma_ports(context).empty() || on_one_node(context)) return {};  // nccl.socket_fallback's matter
  if (!uses_nccl(context)) return {};
  if (is_set(context, "NCCL_SOCKET_NTHREADS") || is_set(context, "NCCL_NSOCKS_PERTHREAD")) return {};
  if (found_before(context, "irq.softirq_saturation") || found_before(context, "irq.imbalance")) return {};
  const double received = traffic(context, "net.rx_bytes");
  Carrier link = carrier(context);
  if (link.mean < context.threshold("min_sent") * 1e6) return {};
  if (link.mean > context.threshold("max_skew") * received) return {};  // no collective's traffic
  if (link.gigabits < context.threshold("min_gigabits") || has_own_defaults(context, link.name)) return {};
  const double line = link.gigabits * 1e9 / 8;
  constexpr double kUsualPeak = 99;  // percent of the seconds: a moment may be faster
  const double peak = lower_percentile(link.seconds, kUsualPeak);
  if (peak >= context.threshold("max_line_share") * line) return {};
  const double busiest = busiest_process(context);
  if (std::isnan(busiest)) throw Unavailable("not measured: process.cpu_time");
  if (busiest < context.threshold("min_busy")) return {};
  static_cast<void>(other_nodes(context));  // throws where a server on one node cannot be ruled out

  Finding finding = context.finding();
  finding.severity = Severity::info;  // an experiment, not a fault
  finding.confidence = Confidence::possible;
  finding.intervals = {context.span(0, context.telemetry.samples)};
  finding.instances = {link.name};
  finding.impact.how = "not known: the cpu time of NCCL's own threads is not measured";
  finding.evidence.push_back(fact(context, "net.tx_bytes", "", "99 % of the seconds below", peak, line, "bytes/s"));
  finding.evidence.push_back(fact(context, "process.cpu_time", "", "busiest process", busiest, std::nullopt, "cpus"));
  if (auto counted = bytes_of_calls(context)) finding.evidence.push_back(*std::move(counted));
  finding.sentence = fmt::format(
      "NCCL's sockets on {} sent at most {} over {}, whose link carries {}. NCCL_SOCKET_NTHREADS and "
      "NCCL_NSOCKS_PERTHREAD are not set in the job; NCCL's default is one socket per connection (sockets were not "
      "counted). More sockets may be faster. This is a proposal to test, not a fault: measure it.",
      context.telemetry.node, quantity(peak, "bytes/s"), link.name, quantity(line, "bytes/s"));
  finding.runner_up = {"irq.softirq_saturation", "no cpu was full with network interrupts"};
  return {finding};
}

const RegisteredRule kFallback{{
    .id = "nccl.socket_fallback",
    .title = "NCCL runs over TCP sockets although an RDMA fabric is up",
    .looks_for =
        "A job of several nodes that uses NCCL (job.libraries), sends much over sockets (net.tx_bytes) and "
        "has no RDMA device open (job.rdma_opened), although one is up. Without open GPUs (job.gpus_opened) "
        "and without counted calls of NCCL (stack.bytes: --stack), the traffic may be that of another library.",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::network,
    .order = 40,
    .look_alikes = "nccl.single_qp,a rendezvous,gloo or Ray on nodes without GPUs",
    .proof = Proof::test_double,
    .thresholds = {{"min_sent", 10, "MB/s", "mean traffic above that of a rendezvous"},
                   {"max_skew", 3, "ratio",
                    "ratio of sent to received traffic above which it does not come from a collective"}},
    .user_remedy =
        {{"unset NCCL_IB_DISABLE   # it is {NCCL_IB_DISABLE} in this job", "NCCL_IB_DISABLE"},
         {"unset NCCL_NET   # it is {NCCL_NET} in this job", "NCCL_NET"},
         "export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET   # for one run: shows which network NCCL chose, and why",
         "grep 'locked memory' /proc/self/limits   # in the job: the limit must be \"unlimited\""},
    .advice = {{"If it runs in a container, pass the devices: --device=/dev/infiniband --cap-add=IPC_LOCK --ulimit "
                "memlock=-1 (docker, podman), --bind /dev/infiniband (Apptainer).",
                kIf}},
    .admin_remedy = {{"slurmd.service: LimitMEMLOCK=infinity", "job"},
                     {"slurm.conf: PropagateResourceLimitsExcept=MEMLOCK", "job"}},
    .verify = {.expected = "job.rdma_opened is not none"},
    .sources = {"https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
                "https://github.com/NVIDIA/nccl/issues/1925", "https://github.com/areal-project/AReaL/issues/639"},
    .check = check_fallback,
}};

const RegisteredRule kSingleQp{{
    .id = "nccl.single_qp",
    .title = "NCCL uses one queue pair per connection on a fabric of several paths",
    .looks_for = "A job that uses NCCL over a fast RDMA port with one queue pair per connection: as counted "
                 "(rdma.qp.count by rdma.cq.count); otherwise as set or by default (env.NCCL_IB_QPS_PER_CONNECTION). "
                 "Where the port's traffic was measured (ib.xmit_bytes), its busiest seconds must be alike and well "
                 "below its rate, or GPUs must wait for each other.",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::network,
    .order = 101,  // beside gpu.starved_comm it is shown
    .look_alikes =
        "nccl.socket_fallback,a port that is full or has little traffic,several queue pairs by a setting elsewhere,"
        "a setting that did not reach the job",
    .proof = Proof::guest,
    .thresholds = {{"min_gigabits", 200, "Gb/s",
                    "rate of a port from which the rule assumes a fabric of several paths"},
                   {"max_pairs", 1, "ratio",
                    "most connected queue pairs per completion queue, where they were counted"},
                   {"min_line_share", 0.1, "ratio", "part of the port's rate that its busiest seconds reach"},
                   {"max_line_share", 0.6, "ratio", "part of that rate that they do not exceed"},
                   {"min_plateau", 0.1, "ratio", "part of the seconds with nearly as much traffic"}},
    .user_remedy = {"export NCCL_IB_QPS_PER_CONNECTION=2   # then 4: compare the step time of both with this run's",
                    "export NCCL_IB_SPLIT_DATA_ON_QPS=1   # with it, each message is split; 0 takes turns; try both",
                    {"unset NCCL_IB_QPS_PER_CONNECTION   # if neither is faster: more queue pairs use more cache",
                     kIf}},
    .verify = {.command = "reveal compare THIS_RUN NEXT_RUN",
               .where = "after the next run",
               .expected =
                   "a pass time (run time, where passes were not counted) that is shorter by more than its spread"},
    .sources = {"https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-ib-qps-per-connection",
                "https://github.com/NVIDIA/nccl/issues/2409",
                "https://github.com/NVIDIA/nccl/blob/master/src/transport/net_ib.cc",
                "https://man7.org/linux/man-pages/man8/rdma-resource.8.html"},
    .check = check_single_qp,
}};

const RegisteredRule kSockets{{
    .id = "nccl.socket_threads",
    .title = "NCCL uses one socket per connection on a fast Ethernet",
    .looks_for = "A job that uses NCCL over sockets without an RDMA port (rdma.*), whose fast link (net.*.speed) is "
                 "never full (net.tx_bytes) while a process takes a whole cpu, with the default of one socket per "
                 "connection (env.NCCL_SOCKET_NTHREADS, env.NCCL_NSOCKS_PERTHREAD).",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::network,
    .order = 61,
    .look_alikes = "irq.softirq_saturation,irq.imbalance,nccl.socket_fallback,clouds with defaults of their own",
    .proof = Proof::test_double,
    .thresholds = {{"min_sent", 100, "MB/s", "mean traffic of the interface"},
                   {"max_skew", 3, "ratio",
                    "ratio of sent to received traffic above which it does not come from a collective"},
                   {"min_gigabits", 25, "Gb/s", "rate of the link"},
                   {"max_line_share", 0.6, "ratio", "part of that rate that the busiest seconds do not exceed"},
                   {"min_busy", 0.9, "cpus", "mean use of the busiest process"}},
    .user_remedy =
        {"export NCCL_SOCKET_NTHREADS=4 NCCL_NSOCKS_PERTHREAD=4   # compare the step time with this run's",
         {"unset NCCL_SOCKET_NTHREADS NCCL_NSOCKS_PERTHREAD   # if the step time is not shorter: the threads use cpus",
          kIf}},
    .advice = {"Leave a cpu free for each of these threads; threads times sockets must not exceed 64."},
    .verify = {.command = "reveal compare THIS_RUN NEXT_RUN",
               .where = "after the next run",
               .expected =
                   "a pass time (run time, where passes were not counted) that is shorter by more than its spread"},
    .sources = {"https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-socket-nthreads",
                "https://github.com/NVIDIA/nccl/blob/master/src/transport/net_socket.cc"},
    .check = check_sockets,
}};

}  // namespace
}  // namespace reveal::rule::nccl_transport
