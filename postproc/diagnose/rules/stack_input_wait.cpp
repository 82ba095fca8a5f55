// A training whose main thread waits for the next batch of PyTorch's DataLoader.
// https://docs.pytorch.org/docs/stable/data.html
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>

#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/called_functions.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/telemetry/python_samples.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::stack_input_wait {
namespace {

/// The samples of one process after the start-up.
struct Waiting {
  std::string process;
  double samples = 0;
  double there = 0;
  std::string line;  // the job's own line from which it waits most
  double of_line = 0;

  [[nodiscard]] double share() const { return there / samples; }
  [[nodiscard]] double standard_error() const { return std::sqrt(share() * (1 - share()) / samples); }
};

Waiting waiting_of(const RuleContext& context, const PythonSamples& process, const TimeSpan& span) {
  Waiting all{.process = process.process, .line = {}};
  std::map<std::string, double> lines;
  for (const PythonSamples::Sample& sample : process.samples) {
    const bool inside = context.happened_in({sample.time_ns, {}, {}, {}}, span);
    if (!inside) continue;
    all.samples += sample.weight;
    if (sample.place == PythonSamples::kElsewhere) continue;
    const std::string& place = process.places[static_cast<std::size_t>(sample.place)];
    if (!waits_for_loader(place)) continue;
    all.there += sample.weight;
    const std::string line = place.substr(0, place.find(", in "));
    if ((lines[line] += sample.weight) > all.of_line) {
      all.of_line = lines[line];
      all.line = line;
    }
  }
  return all;
}

/// Threads that only watch others wait like that all the time; those of a training make its backward passes.
bool trains(const RuleContext& context, const std::string& process) {
  return !context.channels("stack.steps", process).empty();
}

/// One worker fewer than each rank has cpus, where there are as many.
JobValues values_of(const RuleContext& context) {
  if (context.channels("job.cpus_allowed").empty()) return {};
  const double cpus = mean_inside(context.total("job.cpus_allowed"), {0, context.telemetry.samples});
  const double workers = std::floor(cpus / static_cast<double>(context.channels("stack.steps").size())) - 1;
  if (!(workers >= 1)) return {};
  return {{"workers", number(workers)}};
}

std::vector<Finding> check(const RuleContext& context) {
  constexpr double kFewestSamples = 30;
  constexpr double kClear = 3;  // standard errors
  if (context.channels("stack.steps").empty()) throw Unavailable("not measured: stack.steps (--stack)");
  const Interval at = after_start(context);
  if (at.length() == 0) return {};
  const TimeSpan span = context.span(at.begin, at.end);
  std::optional<Waiting> worst;
  for (const PythonSamples& process : python_samples(context.events)) {
    if (!trains(context, process.process)) continue;
    const Waiting waiting = waiting_of(context, process, span);
    // The step of the job may fall together with the samples: no fewer than chance allows.
    const bool clear = waiting.samples >= kFewestSamples &&
                       waiting.share() - kClear * waiting.standard_error() >= context.threshold("min_share");
    if (clear && (!worst || waiting.share() > worst->share())) worst = waiting;
  }
  if (!worst) return {};
  const double share = worst->share();
  // With all samples or none in one place, as many as three others may be missed by chance.
  const double error = std::max(2 * worst->standard_error(), 3 / worst->samples);
  Finding finding = context.finding(values_of(context));
  finding.confidence = Confidence::likely;
  finding.instances = {worst->process};
  finding.intervals = {span};
  set_most_loss(context, finding, share * context.seconds(at.length()),
                fmt::format("time in which the main thread of {} waited; a GPU may have worked meanwhile",
                            context.rank_name(worst->process)));
  finding.severity = std::min(finding.severity, Severity::warning);  // a bound, which may be far from the cost
  finding.evidence.push_back(fact(context, "python.samples", worst->process, "share of the samples in such a wait",
                                  four_digits(share), std::nullopt, "ratio"));
  finding.sentence = fmt::format(
      "The main thread of {} on {} waited for its next batch in {:.0f} % of {} samples ({:.0f} to {:.0f} %), mostly in "
      "{}.",
      context.rank_name(worst->process), context.telemetry.node, 100 * share, number(std::round(worst->samples)),
      100 * std::max(0.0, share - error), 100 * std::min(1.0, share + error), worst->line);
  finding.runner_up = {"", "a thread that only watches others: this one makes the backward passes"};
  return {finding};
}

const RegisteredRule kRule{{
    .id = "stack.input_wait",
    .title = "The training waits for its data loader",
    .looks_for = "The samples of a training's main thread that wait for a worker of PyTorch's DataLoader (the lines of "
                 "Python programs: --stack), in a process that makes backward passes (stack.steps).",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::process,
    .order = 312,
    .look_alikes = "threads that only watch other processes, the start of the loader's workers",
    .proof = Proof::real,
    .thresholds = {{"min_share", 0.15, "ratio", "least share of the samples, beyond chance"},
                   kMinAfterStart,
                   kMinAfterSeconds,
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy = {{"for p in $(pgrep -u \"$USER\" -x {process}); do py-spy dump --pid $p; done   # on {node}, in the "
                     "next run, with py-spy of PyPI (it needs kernel.yama.ptrace_scope=0): the line that each worker "
                     "of the loader executes"}},
    .advice =
        {{"In the program: DataLoader(dataset, num_workers={workers}, persistent_workers=True, prefetch_factor=4, "
          "pin_memory=True), one worker fewer than the rank has cpus.",
          "workers"},
         {"In the program: DataLoader(dataset, num_workers=N, persistent_workers=True, prefetch_factor=4, "
          "pin_memory=True), with N one less than the cpus of the rank.",
          "!workers"},
         {"Prepare the data once, and keep it in few large files on the node's own disk.", kOr}},
    .admin_remedy = {},
    .verify = {.expected = "the main thread no longer waits for the data loader"},
    .sources = {"https://docs.pytorch.org/docs/stable/data.html",
                "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::stack_input_wait
