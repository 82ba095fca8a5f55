// The job was given far more memory or cpus than it ever used: the next one would start earlier with less.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/core_threads.h"
#include "postproc/diagnose/memory_signals.h"
#include "postproc/diagnose/signals.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::job_over_requested {
namespace {

constexpr double kMebi = 1024.0 * 1024.0;

/// A requested amount, and its highest use.
struct Request {
  std::string metric;
  std::string unit;
  double asked = 0;
  double used = 0;
};

double setting(const RuleContext& context, std::string_view key) {
  return static_cast<double>(parse_int(context.snapshot_value(key)).value_or(0));
}

/// Graphics cards come with a share of cpus and memory that the site sets.
bool has_gpus(const RuleContext& context) {
  const std::string opened = context.snapshot_value("job.gpus_opened");
  return (!opened.empty() && opened != "none") || setting(context, "env.SLURM_GPUS_ON_NODE") > 0 ||
         !context.snapshot_value("env.SLURM_JOB_GPUS").empty();
}

/// Something slowed the job down, or held it on fewer cpus than it has: that must be fixed before its request is
/// judged.
bool was_disturbed(const RuleContext& context) {
  return std::any_of(context.found.begin(), context.found.end(), [](const Finding& found) {
    return found.severity >= Severity::warning || found.id == "cpu.affinity_too_narrow";
  });
}

/// The highest mean over a minute.
double busiest_minute(const RuleContext& context, const std::vector<double>& series) {
  const std::size_t minute = context.steps(60);
  double most = std::nan("");
  for (std::size_t begin = 0; begin + minute <= series.size(); begin += minute) {
    most = std::fmax(most, mean_inside(series, {begin, begin + minute}));
  }
  return most;
}

/// The job's cpus by Slurm's count: hardware threads, or cores where slurm.conf has only these. The job's cpuset has
/// all threads of its cores in both cases.
double slurm_cpus(const RuleContext& context, const std::vector<int>& owned) {
  const double cpus = setting(context, "env.SLURM_CPUS_ON_NODE");
  return cpus > 0 ? cpus : static_cast<double>(owned.size());
}

/// Requested bytes; 0 if none were requested, or the whole node was taken.
double memory_asked(const RuleContext& context, const std::vector<int>& owned) {
  const double of_node = setting(context, "env.SLURM_MEM_PER_NODE") * kMebi;
  const double of_cpus = setting(context, "env.SLURM_MEM_PER_CPU") * kMebi * slurm_cpus(context, owned);
  const double asked = of_node > 0 ? of_node : of_cpus;
  constexpr double kWholeNode = 0.9;
  return asked < kWholeNode * setting(context, "memory.total") ? asked : 0;
}

/// Most memory that was charged to the job, page cache included: with less, the files it works on no longer fit.
/// Kernels before 5.19 count no peak.
Request memory_of_job(const RuleContext& context, double asked) {
  Request memory{"", "bytes", asked, std::nan("")};
  for (const char* metric : {"group.memory_peak", "group.memory"}) {
    const auto series = level_of_job(context, metric);
    if (series.empty() || !std::isnan(memory.used)) continue;
    memory.metric = metric;
    for (const double bytes : series) memory.used = std::fmax(memory.used, bytes);
  }
  return memory;
}

/// Page cache that was dropped was read again.
bool cache_was_short(const RuleContext& context) {
  const auto again = context.total_if_measured("memory_stat.workingset_refault_file");
  return again && std::any_of(again->begin(), again->end(), [](double pages) { return pages > 0; });
}

std::optional<Request> memory_request(const RuleContext& context, const std::vector<int>& owned) {
  const double asked = memory_asked(context, owned);
  if (asked == 0 || cache_was_short(context)) return std::nullopt;
  const Request memory = memory_of_job(context, asked);
  const bool much = asked - memory.used >= context.threshold("min_memory") * 1e9;
  if (!much || !(memory.used < context.threshold("max_share") * asked)) return std::nullopt;
  return memory;
}

/// Whole cores where cpus share them: many programs leave the second thread of a core alone, on purpose.
std::optional<Request> cpu_request(const RuleContext& context, const std::vector<int>& cpus) {
  const auto used = rate(context, "job.cpu_time", 1e-9, "cpus");
  if (!used || cpus.empty()) return std::nullopt;
  const Request request{"job.cpu_time", "cpus", static_cast<double>(cores_of(context, cpus)),
                        busiest_minute(context, used->values)};
  const bool many = request.asked - request.used >= context.threshold("min_cpus");
  if (!many || !(request.used < context.threshold("max_share") * request.asked)) return std::nullopt;
  return request;
}

JobValues values_of(const RuleContext& context, const std::optional<Request>& memory,
                    const std::optional<Request>& cpus, const std::vector<int>& owned) {
  constexpr double kReserve = 1.3;
  constexpr double kStep = 100;  // MiB
  JobValues values;
  if (memory) values["mem_mib"] = fmt::format("{:.0f}", std::ceil(kReserve * memory->used / kMebi / kStep) * kStep);
  if (cpus && setting(context, "env.SLURM_NTASKS") > 1) {
    values["tasks"] = context.snapshot_value("env.SLURM_NTASKS");
  } else if (cpus) {
    const double of_core = std::max(1.0, slurm_cpus(context, owned) / cpus->asked);
    values["cpus"] = fmt::format("{:.0f}", std::ceil(std::max(1.0, std::ceil(cpus->used)) * of_core));
  }
  return values;
}

std::string words_of(const Request& request) {
  return fmt::format("{} of {}", quantity(request.used, request.unit),
                     request.unit == "bytes" ? quantity(request.asked, request.unit) + " of memory"
                                             : number(request.asked) + " cpu cores");
}

std::vector<Finding> check(const RuleContext& context) {
  if (context.without_job()) throw Unavailable("not measured: the job's request");
  if (context.snapshot_value("env.SLURM_JOB_ID").empty()) return {};  // outside a batch system nothing is requested
  if (job_seconds(context) < context.threshold("min_seconds")) return {};
  if (has_gpus(context) || was_disturbed(context)) return {};
  // The node with the highest use decides for all, and is unknown on a single node.
  if (setting(context, "env.SLURM_JOB_NUM_NODES") != 1)
    throw Unavailable("a job of several nodes is not judged from one node");
  const std::vector<int> owned = parse_cpu_list(context.snapshot_value("job.cpus_owned"));
  const auto memory = memory_request(context, owned);
  const auto cpus = cpu_request(context, owned);
  if (!memory && !cpus) return {};

  Finding finding = context.finding(values_of(context, memory, cpus, owned));
  finding.severity = Severity::info;  // nothing was slower for it
  finding.confidence = Confidence::certain;
  finding.intervals = {context.span(0, context.telemetry.samples)};
  finding.impact.how = "none for this run: a job that requests less may start earlier";
  std::string all;
  for (const auto& request : {memory, cpus}) {
    if (!request) continue;
    finding.evidence.push_back({.metric = request->metric,
                                .instance = "",
                                .node = context.telemetry.node,
                                .feature = request->unit == "bytes" ? "max" : "busiest minute",
                                .observed = request->used,
                                .expected = request->asked,
                                .unit = request->unit,
                                .span = finding.intervals.front()});
    all += (all.empty() ? "" : " and ") + words_of(*request);
  }
  finding.sentence = fmt::format("At its peak, the job used {} that it had on {}.", all, context.telemetry.node);
  finding.runner_up = {"cpu.affinity_too_narrow", "its processes were not confined to fewer cpus than the job has"};
  return {finding};
}

const RegisteredRule kRule{{
    .id = "job.over_requested",
    .title = "The job requested much more than it used",
    .looks_for = "Jobs of ten minutes or more on one node without GPUs that never used half of the allocated memory "
                 "(group.memory_peak, page cache included) or cpu cores (job.cpu_time).",
    .kind = FindingKind::audit,
    .states = Stated::fact,
    .subsystem = Subsystem::process,
    .order = 300,
    .look_alikes =
        "cpu.affinity_too_narrow,a job that something slowed down,one thread on each core,a whole node,page cache",
    .proof = Proof::real,
    .thresholds = {{"max_share", 0.5, "ratio", "largest used part of the request that is reported"},
                   {"min_seconds", 600, "s", "shortest run"},
                   {"min_memory", 4, "GB", "least unused memory"},
                   {"min_cpus", 2, "cpus", "least number of unused cores"}},
    .user_remedy = {{"#SBATCH --mem={mem_mib}M   # peak use with page cache, plus 30 %; in place of --mem-per-cpu or "
                     "--mem-per-gpu",
                     "job"},
                    {"#SBATCH --cpus-per-task={cpus}   # the cores used in the busiest minute; srun does not inherit "
                     "it since Slurm 22.05",
                     "job"}},
    .advice = {{"Request fewer than {tasks} tasks, or fewer cpus per task.", "job"}},
    .verify = {.command = "reveal compare THIS_RUN NEXT_RUN",
               .where = "after the next run",
               .expected = "the same run time, and no process killed for memory"},
    .sources = {"https://github.com/PrincetonUniversity/jobstats", "https://slurm.schedmd.com/sbatch.html#OPT_mem"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::job_over_requested
