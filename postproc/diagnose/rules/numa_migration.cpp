// Threads that change their NUMA node, and a kernel that moves pages after threads that do not: two sides of one
// mechanism (automatic NUMA balancing), with opposite remedies.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/diagnose/memory_signals.h"
#include "postproc/diagnose/numa_layout.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::numa_migration {
namespace {

Interval all_of(const RuleContext& context) {
  return {0, context.telemetry.samples};
}

double mean_level(const RuleContext& context, std::string_view metric, const std::string& process) {
  const auto channels = context.channels(metric, process);
  return channels.empty() ? kNaN : mean_inside(context.telemetry.series(channels.front()), all_of(context));
}

double mean_rate(const std::optional<MetricSeries>& signal, const RuleContext& context) {
  return signal ? mean_inside(signal->values, all_of(context)) : kNaN;
}

/// Used cpus of one process.
double used_by(const RuleContext& context, const std::string& process) {
  const auto channels = context.channels("process.cpu_time", process);
  if (channels.empty()) return kNaN;
  return mean_inside(channel_rate(context, channels.front(), 1e-9, "cpus").values, all_of(context));
}

// ---------------------------------------------------------------------------------------------- unbound and migrating

struct Traveller {
  std::string process;
  double hops = 0;  // changes of the node, per second
  double threads = 0;
  double used = 0;  // cpus
};

/// Changes between nodes that are far from each other, per second in which the place was known.
double hops_of(const RuleContext& context, const NumaLayout& layout, std::size_t last_cpu) {
  const double least = context.threshold("min_distance");
  double hops = 0;
  double steps = 0;
  int before = -1;
  for (const int node : nodes_run_on(context, layout, last_cpu)) {
    if (node < 0) continue;
    steps += 1;
    if (before >= 0 && layout.is_far(std::span(&before, 1), node, least)) hops += 1;
    before = node;
  }
  return steps > 0 ? hops / (steps * context.telemetry.step_seconds) : 0;
}

std::size_t most_cpus_of_a_node(const NumaLayout& layout) {
  std::size_t most = 0;
  for (const int node : layout.nodes) most = std::max(most, layout.cpus_of(node));
  return most;
}

/// Ranks that compute, fit into one node, and change it; by falling rate. A slot that is no rank changes its process.
std::vector<Traveller> travellers(const RuleContext& context, const NumaLayout& layout) {
  std::vector<Traveller> found;
  const auto cpus = static_cast<double>(most_cpus_of_a_node(layout));
  for (const std::size_t channel : context.channels("process.last_cpu")) {
    if (context.telemetry.channels[channel].role != "rank") continue;
    const std::string& process = context.telemetry.channels[channel].instance;
    const Traveller each{process, hops_of(context, layout, channel), mean_level(context, "process.threads", process),
                         used_by(context, process)};
    // More threads than a node has cpus cannot stay on it.
    if (!(each.used >= context.threshold("min_used")) || !(each.used <= cpus) || each.threads > cpus) continue;
    if (each.hops >= context.threshold("min_hops")) found.push_back(each);
  }
  std::stable_sort(found.begin(), found.end(), [](const Traveller& a, const Traveller& b) { return a.hops > b.hops; });
  return found;
}

/// A consequence: pages that the kernel moved after the threads, accesses to another node that it saw, or that the
/// processors counted.
struct Consequence {
  std::optional<MetricSeries> signal;
  double least = 0;
};

std::vector<Consequence> consequences(const RuleContext& context) {
  auto remote_faults = rate(context, "vmstat.numa_hint_faults", 1, "count/s");
  const auto local_faults = rate(context, "vmstat.numa_hint_faults_local", 1, "count/s");
  if (!local_faults) remote_faults.reset();
  for (std::size_t t = 0; remote_faults && t < remote_faults->values.size(); ++t) {
    remote_faults->values[t] = std::max(0.0, remote_faults->values[t] - local_faults->values[t]);
  }
  return {{rate(context, "vmstat.numa_pages_migrated", context.page_bytes(), "bytes/s"),
           context.threshold("min_moved") * 1e6},
          {std::move(remote_faults), context.threshold("min_remote_faults")},
          {remote_share(context), context.threshold("min_remote_share")}};
}

std::string words_of(const Consequence& each, double mean) {
  const std::string& metric = each.signal->metric;
  if (metric == "pmu.remote_share") return fmt::format("{:.0f} % of the accesses went to another socket", 100 * mean);
  if (metric == "vmstat.numa_pages_migrated") {
    return fmt::format("the kernel moved {} of memory to them", quantity(mean, "bytes/s"));
  }
  return fmt::format("the kernel counted {} accesses to another node's memory per second", number(mean));
}

/// Waiting for a cpu of these ranks; of the whole job where that of each process is not measured.
double waited_by(const RuleContext& context, const std::vector<Traveller>& ranks) {
  double sum = 0;
  for (const Traveller& rank : ranks) {
    const auto channels = context.channels("process.wait_time", rank.process);
    if (channels.empty()) return mean_rate(cpu_wait(context), context);
    sum += mean_inside(channel_rate(context, channels.front(), 1e-9, "threads").values, all_of(context));
  }
  return sum;
}

/// With too few cpus threads go where one is free: that has its own rule and its own remedy.
bool has_cpus_to_spare(const RuleContext& context, const std::vector<Traveller>& ranks) {
  const double waited = waited_by(context, ranks);
  const double ready = mean_rate(level(context, "job.running", "processes"), context);
  const double allowed = mean_rate(level(context, "job.cpus_allowed", "cpus"), context);
  return !(waited > context.threshold("max_wait") * static_cast<double>(ranks.size())) && !(ready > allowed);
}

Finding describe_travellers(const RuleContext& context, const NumaLayout& layout, const std::vector<Traveller>& found,
                            const std::vector<Consequence>& after) {
  Finding finding = finding_at(context, all_of(context), {{"home", std::to_string(layout.open.front())}});
  finding.severity = Severity::info;
  finding.confidence = Confidence::possible;
  finding.impact.how = "not known: only a run with bound ranks shows it";
  std::string seen;
  for (const Traveller& each : found) {
    finding.instances.push_back(each.process);
    finding.evidence.push_back(fact(context, "process.last_cpu", each.process, "mean", each.hops, 0.0, "count/s"));
    finding.evidence.back().feature = "changes of the NUMA node";
  }
  for (const Consequence& each : after) {
    const double mean = mean_rate(each.signal, context);
    if (!(mean >= each.least)) continue;
    finding.severity = Severity::notice;
    finding.confidence = Confidence::likely;
    finding.evidence.push_back(fact(context, each.signal->metric, "", "mean", mean, std::nullopt, each.signal->unit));
    seen += (seen.empty() ? "; " : ", ") + words_of(each, mean);
  }
  if (const auto moves = rate(context, "perf.migrations", 1, "count/s")) {
    finding.evidence.push_back(
        fact(context, moves->metric, "", "mean", mean_rate(moves, context), std::nullopt, moves->unit));
  }
  const Traveller& first = found.front();
  const std::string bind = context.snapshot_value("env.SLURM_CPU_BIND");
  finding.sentence = fmt::format(
      "On {}, {} changed its NUMA node {} times a second and used {} of the {} of a node{}{}{}.",
      context.telemetry.node, context.rank_name(first.process), number(first.hops), number(first.used),
      counted(static_cast<double>(most_cpus_of_a_node(layout)), "cpu"),
      found.size() > 1 ? fmt::format(" (and {})", counted(static_cast<double>(found.size() - 1), "more rank")) : "",
      seen, bind.empty() ? "" : "; SLURM_CPU_BIND is " + bind);
  finding.runner_up = {"cpu.oversubscribed", "too few cpus: the job's threads hardly waited for a cpu"};
  return finding;
}

std::vector<Finding> check_unbound(const RuleContext& context) {
  // At longer steps a move and the way back are one and the same step.
  constexpr double kLongestStep = 0.25;
  const NumaLayout layout = numa_layout(context);
  if (layout.nodes.size() < 2 || layout.open.size() < 2) return {};
  if (context.channels("process.last_cpu").empty()) throw Unavailable("not measured: process.last_cpu");
  if (context.telemetry.step_seconds > kLongestStep) {
    throw Unavailable(fmt::format(
        "not measured: a job of this length is analysed in steps of {} s, and threads change their node faster",
        number(context.telemetry.step_seconds)));
  }
  const auto found = travellers(context, layout);
  if (found.empty() || !has_cpus_to_spare(context, found)) return {};
  const auto after = consequences(context);
  const bool measured =
      std::any_of(after.begin(), after.end(), [](const Consequence& each) { return each.signal.has_value(); });
  Finding finding = describe_travellers(context, layout, found, after);
  // Where it was measured that nothing followed, nothing is wrong.
  if (measured && finding.severity == Severity::info) return {};
  return {finding};
}

// --------------------------------------------------------------------------------------------------- balancing churn

/// Useless work of the kernel.
struct Churn {
  MetricSeries faults;
  double mean = 0;
  double local = 0;  // part of the faults
  double moved = 0;  // bytes of the run
  double held = 0;   // most memory of the job
};

bool every_rank_is_bound(const RuleContext& context, const NumaLayout& layout) {
  if (layout.bound() && layout.open.size() == 1) return true;
  bool any = false;
  for (const std::size_t channel : context.channels("process.last_cpu")) {
    if (context.telemetry.channels[channel].role != "rank") continue;
    any = true;
    if (nodes_bound_to(context, layout, context.telemetry.channels[channel].instance).size() != 1) return false;
  }
  return any;
}

Churn churn_of(const RuleContext& context) {
  Churn churn{needed(rate(context, "vmstat.numa_hint_faults", 1, "count/s"), "vmstat.numa_hint_faults")};
  const MetricSeries local =
      needed(rate(context, "vmstat.numa_hint_faults_local", 1, "count/s"), "vmstat.numa_hint_faults_local");
  churn.mean = mean_inside(churn.faults.values, all_of(context));
  churn.local = churn.mean > 0 ? mean_inside(local.values, all_of(context)) / churn.mean : 0;
  const double moved = mean_rate(rate(context, "vmstat.numa_pages_migrated", context.page_bytes(), "bytes/s"), context);
  churn.moved = std::isnan(moved) ? 0 : moved * job_seconds(context);
  churn.held = kNaN;
  if (const auto held = level(context, "process.rss", "bytes")) {
    for (const double value : held->values) churn.held = std::fmax(churn.held, value);
  }
  return churn;
}

/// Part of the run's seconds with so many faults. The first look at memory that was just allocated ends by itself.
double share_of_time(const RuleContext& context, const Churn& churn, double least) {
  const std::vector<double> smooth = over_seconds(context, churn.faults.values);
  const auto many = std::count_if(smooth.begin(), smooth.end(), [least](double each) { return each >= least; });
  return smooth.empty() ? 0 : static_cast<double>(many) / static_cast<double>(smooth.size());
}

/// System time in the third of the seconds with most faults against the third with fewest: nothing where there are
/// about as many in all of them.
struct Price {
  double busy_seconds = 0;
  double with = 0;  // cpus
  double without = 0;
};

std::optional<Price> price_of(const RuleContext& context, const Churn& churn) {
  constexpr double kClearlyMore = 2;
  constexpr std::size_t kLeastSeconds = 12;
  const auto system = rate(context, "cpu.system", 1e-9, "cpus");
  if (!system) return std::nullopt;
  struct Second {
    double faults;
    double system;
  };
  std::vector<Second> seconds;
  const std::size_t second = context.steps(1);
  for (std::size_t begin = 0; begin + second <= context.telemetry.samples; begin += second) {
    const Interval at{begin, begin + second};
    const Second each{mean_inside(churn.faults.values, at), mean_inside(system->values, at)};
    if (!std::isnan(each.faults) && !std::isnan(each.system)) seconds.push_back(each);
  }
  if (seconds.size() < kLeastSeconds) return std::nullopt;
  std::stable_sort(seconds.begin(), seconds.end(),
                   [](const Second& a, const Second& b) { return a.faults < b.faults; });
  const std::size_t third = seconds.size() / 3;
  Price price;
  double few = 0;
  double many = 0;
  for (std::size_t i = 0; i < third; ++i) {
    few += seconds[i].faults;
    many += seconds[seconds.size() - 1 - i].faults;
    price.without += seconds[i].system / static_cast<double>(third);
    price.with += seconds[seconds.size() - 1 - i].system / static_cast<double>(third);
  }
  if (many < kClearlyMore * few) return std::nullopt;
  price.busy_seconds = static_cast<double>(third) * context.seconds(second);
  return price;
}

Finding describe_churn(const RuleContext& context, const Churn& churn, double share, bool back_and_forth,
                       const std::optional<Price>& price) {
  Finding finding = finding_at(context, all_of(context));
  finding.severity = Severity::notice;
  finding.confidence = price ? Confidence::likely : Confidence::possible;
  finding.evidence.push_back(fact(context, churn.faults.metric, "", "mean", churn.mean, 0.0, churn.faults.unit));
  finding.evidence.push_back(
      fact(context, "vmstat.numa_hint_faults_local", "", "mean", churn.local, std::nullopt, "ratio"));
  finding.evidence.back().feature = "share of the faults whose page was on the right node";
  if (churn.moved > 0) {
    finding.evidence.push_back(
        fact(context, "vmstat.numa_pages_migrated", "", "mean", churn.moved, std::nullopt, "bytes"));
    finding.evidence.back().feature = "sum";
  }
  if (price) {
    finding.evidence.push_back(fact(context, "cpu.system", "", "mean", price->with, price->without, "cpus"));
    finding.evidence.back().feature =
        "in the third of the seconds with most faults; expected: in the third with fewest";
    const auto used = rate(context, "job.cpu_time", 1e-9, "cpus");
    const double width = std::max(1.0, mean_rate(used, context));
    if (used) {
      finding.impact.seconds = (price->with - price->without) / width * price->busy_seconds;
      finding.impact.percent = 100 * *finding.impact.seconds / job_seconds(context);
    }
    finding.impact.how = fmt::format(
        "system time was {} in the seconds with most of these faults, {} in those "
        "with fewest",
        counted(price->with, "cpu"), number(price->without));
  } else {
    finding.impact.how =
        "not known: the faults occurred all the time, so there are no seconds without them for comparison";
  }
  finding.sentence = fmt::format(
      "Automatic NUMA balancing on {} interrupted programs {} times a second to ask where they use their memory, for "
      "{:.0f} % of the run; {}, and the job's processes are bound.",
      context.telemetry.node, number(churn.mean), 100 * share,
      back_and_forth ? fmt::format("it moved {}, of a job that had {} at most", quantity(churn.moved, "bytes"),
                                   quantity(churn.held, "bytes"))
                     : fmt::format("{:.0f} % of the pages were already on the right node", 100 * churn.local));
  finding.runner_up = {"numa.unbound_migrating", "threads that change their node: these are bound to their nodes"};
  return finding;
}

std::vector<Finding> check_churn(const RuleContext& context) {
  const NumaLayout layout = numa_layout(context);
  if (layout.nodes.size() < 2) return {};
  const std::string setting = context.snapshot_value("kernel.numa_balancing");
  if (setting.empty()) throw Unavailable("not measured: kernel.numa_balancing");
  if (setting == "0") return {};
  const Churn churn = churn_of(context);
  if (!every_rank_is_bound(context, layout)) return {};  // then it helps
  const double share = share_of_time(context, churn, context.threshold("min_faults"));
  const bool back_and_forth = churn.moved >= context.threshold("min_times_moved") * churn.held;
  if (share < context.threshold("min_time")) return {};
  if (churn.local < context.threshold("min_local") && !back_and_forth) return {};
  const double system = mean_rate(rate(context, "cpu.system", 1e-9, "cpus"), context);
  const double user = mean_rate(rate(context, "cpu.user", 1e-9, "cpus"), context);
  if (!(system >= context.threshold("min_system") * (system + user))) return {};
  const auto price = price_of(context, churn);
  // Where seconds differ and the system time does not follow, something else takes it.
  if (price && !(price->with - price->without >= context.threshold("min_system") * user)) return {};
  return {describe_churn(context, churn, share, back_and_forth, price)};
}

const RegisteredRule kUnbound{{
    .id = "numa.unbound_migrating",
    .title = "Unbound ranks change their NUMA node",
    .looks_for = "Ranks that fit into one NUMA node but whose main thread changes the node repeatedly "
                 "(process.last_cpu), with pages that the kernel moved to them (vmstat.numa_pages_migrated) or "
                 "accesses to the other node (vmstat.numa_hint_faults, pmu.remote_dram).",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::cpu,
    .order = 31,
    .look_alikes = "cpu.oversubscribed,a process wider than a node,an idle main thread",
    .proof = Proof::guest,
    .thresholds = {{"min_hops", 1, "1/s", "least changes of NUMA node of one main thread"},
                   {"min_used", 0.5, "cpus",
                    "least cpu time of the rank: the main thread of an idle rank wakes on any cpu"},
                   {"min_distance", 16, "SLIT",
                    "least distance of the nodes according to the firmware; 20 is another socket"},
                   {"max_wait", 0.3, "s/s", "most waiting for a cpu of such a rank; above, the job has too few cpus"},
                   {"min_moved", 10, "MB/s", "least memory that the kernel moved to the threads"},
                   {"min_remote_faults", 1000, "1/s", "least accesses to another node that the kernel counted"},
                   {"min_remote_share", 0.25, "ratio", "least accesses to another socket that the processors counted"}},
    .user_remedy = {{"srun --cpu-bind=cores --cpus-per-task={cpus_per_task}   # srun does not inherit -c from sbatch",
                     "job"},
                    {"srun --cpu-bind=ldoms   # a rank may use all cpus of one NUMA node", "job", kOr},
                    {"numactl --cpunodebind={home} --localalloc   # one process: all its threads on NUMA node {home}",
                     "!job"},
                    {"mpirun --map-by numa --bind-to numa   # Open MPI", "!job", kOr},
                    {"export OMP_PROC_BIND=close OMP_PLACES=cores   # threads of OpenMP, only if each rank is bound, "
                     "too: alone it puts all ranks on the same cores",
                     kIf}},
    .admin_remedy = {{"slurm.conf: TaskPlugin=task/cgroup,task/affinity TaskPluginParam=autobind=cores", "job"}},
    .verify = {.expected = "process.last_cpu of each rank stays on one NUMA node"},
    .sources = {"https://slurm.schedmd.com/srun.html#OPT_cpu-bind", "https://slurm.schedmd.com/mc_support.html"},
    .check = check_unbound,
}};

const RegisteredRule kChurn{{
    .id = "numa.autobalancing_churn",
    .title = "Automatic NUMA balancing slows a job that is already bound",
    .looks_for = "Page faults of automatic NUMA balancing throughout the run (vmstat.numa_hint_faults) that find "
                 "nearly all pages on the right node, or move them back and forth (vmstat.numa_pages_migrated), in a "
                 "job with bound ranks, with system time (cpu.system).",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::memory,
    .order = 33,
    .look_alikes = "numa.unbound_migrating,the first look at new memory",
    .proof = Proof::guest,
    .whole_machine = true,
    .thresholds = {{"min_faults", 10000, "1/s", "least page faults of balancing"},
                   {"min_time", 0.5, "ratio", "least part of the run with this rate"},
                   {"min_local", 0.8, "ratio", "least part of them whose page was on the right node"},
                   {"min_times_moved", 3, "ratio",
                    "memory moved, in multiples of the job's peak memory, from which pages move back and forth"},
                   {"min_system", 0.05, "ratio", "least system time, as a part of the node's cpu time"}},
    .user_remedy = {"grep numa_ /proc/vmstat   # on {node}, twice in the next run: numa_hint_faults must not grow"},
    .admin_remedy = {"sysctl kernel.numa_balancing=0   # changes the node until its next boot, if jobs are bound; "
                     "permanent: a file in /etc/sysctl.d"},
    .verify = {.command = "grep numa_hint_faults /proc/vmstat",
               .where = "on the node, twice while the next run works",
               .expected = "nearly the same number"},
    .sources = {"https://docs.kernel.org/admin-guide/sysctl/kernel.html#numa-balancing"},
    .check = check_churn,
}};

}  // namespace
}  // namespace reveal::rule::numa_migration
