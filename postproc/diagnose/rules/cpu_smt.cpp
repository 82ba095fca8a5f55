// Two busy threads of the job share one core while whole cores of the job stand idle.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/core_threads.h"
#include "postproc/diagnose/signals.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::cpu_smt {
namespace {

/// Busy cpus in each second, 0..1, of the hardware threads of one core.
struct Core {
  std::vector<int> threads;
  std::vector<std::vector<double>> busy;
};

/// Means over whole seconds; empty where it is not measured.
std::vector<double> busy_seconds(const RuleContext& context, int cpu) {
  const std::size_t second = context.steps(1);
  std::vector<double> busy(context.telemetry.samples / second, 0.0);
  for (const std::string_view metric : {"cpu.user", "cpu.nice", "cpu.system"}) {
    const auto channels = context.channels(metric, "cpu" + std::to_string(cpu));
    if (channels.empty()) return {};
    const auto series = context.telemetry.series(channels.front());
    for (std::size_t i = 0; i < busy.size(); ++i) {
      busy[i] += mean_inside(series, {i * second, (i + 1) * second}) * 1e-9 / context.telemetry.step_seconds;
    }
  }
  return busy;
}

/// Cpus the job may have, however its processes are bound now.
std::vector<int> cpus_of_job(const RuleContext& context) {
  const auto owned = parse_cpu_list(context.snapshot_value("job.cpus_owned"));
  return owned.empty() ? parse_cpu_list(context.snapshot_value("job.cpus_allowed")) : owned;
}

bool is_of(const std::vector<int>& cpus, const std::vector<int>& threads) {
  return std::all_of(threads.begin(), threads.end(),
                     [&](int cpu) { return std::find(cpus.begin(), cpus.end(), cpu) != cpus.end(); });
}

/// Cores that the job has whole.
std::vector<Core> cores_of_job(const RuleContext& context) {
  const std::vector<int> cpus = cpus_of_job(context);
  std::vector<Core> cores;
  std::size_t whole = 0;
  for (std::vector<int>& threads : threads_of_cores(context)) {
    if (!is_of(cpus, threads)) continue;
    ++whole;
    Core core{std::move(threads), {}};
    for (const int cpu : core.threads) core.busy.push_back(busy_seconds(context, cpu));
    const bool measured =
        std::none_of(core.busy.begin(), core.busy.end(), [](const auto& busy) { return busy.empty(); });
    if (measured) cores.push_back(std::move(core));
  }
  if (whole > 1 && cores.empty()) {
    throw Unavailable("not measured: each cpu by itself (of jobs with more than 64 cpus, they are measured together)");
  }
  return cores;
}

/// Threads of the core above `level` in the second; NaN counts as neither busy nor idle.
std::ptrdiff_t above(const Core& core, std::size_t second, double level) {
  return std::count_if(core.busy.begin(), core.busy.end(), [&](const auto& busy) { return busy[second] > level; });
}

bool is_idle(const Core& core, std::size_t second, double level) {
  return std::all_of(core.busy.begin(), core.busy.end(), [&](const auto& busy) { return busy[second] < level; });
}

struct Sharing {
  std::size_t seconds = 0;             // with a shared and an idle core
  double shared = 0;                   // cores, mean in them
  double idle = 0;                     // the same
  std::vector<std::size_t> shared_in;  // seconds, by core
};

Sharing sharing_of(const RuleContext& context, const std::vector<Core>& cores) {
  const double full = context.threshold("min_busy");
  const double unused = context.threshold("max_idle");
  Sharing sharing{.shared_in = std::vector<std::size_t>(cores.size())};
  for (std::size_t second = 0; second < cores.front().busy.front().size(); ++second) {
    std::vector<std::size_t> shared;
    double idle = 0;
    for (std::size_t i = 0; i < cores.size(); ++i) {
      if (above(cores[i], second, full) >= 2) shared.push_back(i);
      if (is_idle(cores[i], second, unused)) ++idle;
    }
    if (shared.empty() || idle == 0) continue;
    ++sharing.seconds;
    sharing.shared += static_cast<double>(shared.size());
    sharing.idle += idle;
    for (const std::size_t core : shared) ++sharing.shared_in[core];
  }
  sharing.shared /= static_cast<double>(std::max<std::size_t>(1, sharing.seconds));
  sharing.idle /= static_cast<double>(std::max<std::size_t>(1, sharing.seconds));
  return sharing;
}

/// The threads there must belong to the job: other threads do not depend on its binding.
bool is_the_jobs_work(const RuleContext& context, const std::vector<Core>& cores) {
  const Interval whole{0, context.telemetry.samples};
  const double used = mean_inside(needed(rate(context, "job.cpu_time", 1e-9, "cpus"), "job.cpu_time").values, whole);
  double busy = 0;
  for (const Core& core : cores) {
    for (const auto& thread : core.busy) busy += mean_inside(thread, {0, thread.size()});
  }
  return used >= context.threshold("min_own_share") * busy;
}

std::vector<std::string> names_of(const std::vector<Core>& cores, const Sharing& sharing) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < cores.size(); ++i) {
    if (2 * sharing.shared_in[i] < sharing.seconds) continue;
    for (const int cpu : cores[i].threads) names.push_back("cpu" + std::to_string(cpu));
  }
  return names;
}

std::vector<Finding> check(const RuleContext& context) {
  if (context.without_job()) throw Unavailable("not measured: the job's cpus");
  if (threads_of_cores(context).empty()) {
    if (context.snapshot_value("cpu.smt").empty()) throw Unavailable("not measured: which cpus share a core");
    return {};
  }
  const std::vector<Core> cores = cores_of_job(context);
  if (cores.size() < 2) return {};  // nowhere else to go
  const Sharing sharing = sharing_of(context, cores);
  const double share = static_cast<double>(sharing.seconds) / static_cast<double>(cores.front().busy.front().size());
  if (static_cast<double>(sharing.seconds) * context.seconds(context.steps(1)) < context.threshold("min_seconds")) {
    return {};
  }
  if (share < context.threshold("min_share") || !is_the_jobs_work(context, cores)) return {};

  Finding finding = context.finding();
  finding.severity = Severity::notice;
  finding.confidence = Confidence::likely;
  finding.intervals = {context.span(0, context.telemetry.samples)};
  finding.instances = names_of(cores, sharing);
  finding.impact.how = "not known: only a run with one thread on each core shows it; some programs run faster with two";
  finding.evidence.push_back(fact(context, "cpu.user", "", "cores with two full threads", sharing.shared, 0, "count"));
  finding.evidence.push_back(fact(context, "cpu.user", "", "share of the run", share, 0, "ratio"));
  finding.sentence = fmt::format(
      "Busy threads of the job shared {} of {} for {:.0f} % of the run, two on each, while {} of the job's cores were "
      "idle.",
      counted(sharing.shared, "core"), context.telemetry.node, 100 * share, number(sharing.idle));
  finding.runner_up = {"cpu.oversubscribed", "more threads than cpus: here whole cores of the job were idle"};
  return {finding};
}

const RegisteredRule kRule{{
    .id = "cpu.smt_shared",
    .title = "Two busy threads share a core while other cores are idle",
    .looks_for = "Cores of the job with two full hardware threads (cpu.user, cpu.nice, cpu.system, cpu_threads.*) "
                 "while other cores of the job are completely idle.",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::cpu,
    .order = 34,
    .look_alikes = "cpu.oversubscribed,cpu.outsider,a job that fills all its cores",
    .proof = Proof::guest,
    .thresholds = {{"min_busy", 0.8, "cpus", "utilisation from which a hardware thread is full"},
                   {"max_idle", 0.2, "cpus", "utilisation of both threads below which a core is idle"},
                   {"min_share", 0.5, "ratio", "least part of the run in which both occur"},
                   {"min_seconds", 10, "s", "least time in which both occur"},
                   {"min_own_share", 0.7, "ratio", "least part of the busy time that is the job's own"}},
    .user_remedy = {{"#SBATCH --hint=nomultithread   # one thread on each core", "job"},
                    {"srun --threads-per-core=1 --cpu-bind=cores   # in place of --hint", "job", kOr},
                    {"export OMP_PLACES=cores OMP_PROC_BIND=spread   # if the program uses OpenMP; several ranks need "
                     "masks of their own before it",
                     kIf}},
    .verify = {.command = "reveal compare THIS_RUN NEXT_RUN",
               .where = "after the next run",
               .expected = "a shorter run time; if it is not shorter, sharing cores does no harm here"},
    .sources = {"https://slurm.schedmd.com/srun.html#OPT_hint",
                "https://www.kernel.org/doc/Documentation/ABI/testing/sysfs-devices-system-cpu"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::cpu_smt
