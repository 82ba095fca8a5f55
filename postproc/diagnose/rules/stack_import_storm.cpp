// Processes that wait for files while they import Python modules: each module is searched in every folder of the path,
// thousands of small requests to a file server, and all ranks do so at once.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::stack_import_storm {
namespace {

constexpr std::string_view kImports = "/python.import";

struct Imports {
  std::string process;
  Interval at;  // with nearly all of them; what follows is of this interval
  double seconds = 0;
  double modules = 0;
  double cpus = kNaN;  // used meanwhile
  double waited = 0;   // cpus that it waited for meanwhile
};

/// The moments in which modules were imported: the time of an import is counted when the outermost one ends.
std::vector<bool> moments_of(const RuleContext& context, std::span<const double> time) {
  std::vector<bool> busy(time.size(), false);
  const double cell_ns = context.telemetry.step_seconds * 1e9;
  for (std::size_t begin = 0; begin < time.size();) {
    std::size_t end = begin;
    double sum = 0;
    for (; end < time.size() && time[end] > 0; ++end) sum += time[end];
    const auto cells = std::min(static_cast<double>(end), std::ceil(sum / cell_ns));
    std::fill(busy.begin() + static_cast<std::ptrdiff_t>(end) - static_cast<std::ptrdiff_t>(cells),
              busy.begin() + static_cast<std::ptrdiff_t>(end), true);
    begin = end + 1;
  }
  return busy;
}

/// The shortest interval with nearly all moments, and those beside it: a program that waits for its modules late has
/// imported a few others at its start.
Interval main_part(const std::vector<bool>& moments) {
  constexpr double kNearlyAll = 0.9;
  std::vector<std::size_t> places;
  places.reserve(moments.size());
  for (std::size_t t = 0; t < moments.size(); ++t) {
    if (moments[t]) places.push_back(t);
  }
  if (places.empty()) return {};
  const auto enough = static_cast<std::size_t>(std::ceil(kNearlyAll * static_cast<double>(places.size())));
  std::size_t best = 0;
  for (std::size_t i = 0; i + enough <= places.size(); ++i) {
    if (places[i + enough - 1] - places[i] < places[best + enough - 1] - places[best]) best = i;
  }
  Interval at{places[best], places[best + enough - 1] + 1};
  while (at.begin > 0 && moments[at.begin - 1]) --at.begin;
  while (at.end < moments.size() && moments[at.end]) ++at.end;
  return at;
}

double mean_in(std::span<const double> series, const std::vector<bool>& moments) {
  double sum = 0;
  double count = 0;
  for (std::size_t t = 0; t < series.size(); ++t) {
    if (!moments[t] || std::isnan(series[t])) continue;
    sum += series[t];
    count += 1;
  }
  return count > 0 ? sum / count : kNaN;
}

double sum_in(std::span<const double> series, Interval at) {
  double sum = 0;
  for (const double value : series.subspan(at.begin, at.length())) sum += std::isnan(value) ? 0 : value;
  return sum;
}

Imports imports_of(const RuleContext& context, std::size_t channel) {
  const std::string& instance = context.telemetry.channels[channel].instance;
  const std::span<const double> time = context.telemetry.series(channel);
  Imports all{.process = instance.substr(0, instance.size() - kImports.size())};
  std::vector<bool> moments = moments_of(context, time);
  all.at = main_part(moments);
  if (all.at.length() == 0) return all;
  for (std::size_t t = 0; t < moments.size(); ++t) moments[t] = moments[t] && t >= all.at.begin && t < all.at.end;
  all.seconds = 1e-9 * sum_in(time, all.at);
  for (const std::size_t calls : context.channels("stack.calls", instance)) {
    all.modules = sum_in(context.telemetry.series(calls), all.at);
  }
  for (const std::size_t cpu : context.channels("process.cpu_time", all.process)) {
    all.cpus = mean_in(channel_rate(context, cpu, 1e-9, "cpus").values, moments);
  }
  for (const std::size_t wait : context.channels("process.wait_time", all.process)) {
    const double mean = mean_in(channel_rate(context, wait, 1e-9, "s/s").values, moments);
    if (!std::isnan(mean)) all.waited = mean;
  }
  return all;
}

std::vector<Imports> waiting_imports(const RuleContext& context) {
  const double run = job_seconds(context);
  std::vector<Imports> found;
  bool known = false;
  for (const std::size_t channel : context.channels("stack.time")) {
    if (!context.telemetry.channels[channel].instance.ends_with(kImports)) continue;
    known = true;
    Imports all = imports_of(context, channel);
    if (all.seconds < context.threshold("min_import") || all.seconds < context.threshold("min_share") * run) continue;
    if (std::isnan(all.cpus)) throw Unavailable("not measured: process.cpu_time while modules were imported");
    if (all.cpus + all.waited <= context.threshold("max_cpus")) found.push_back(std::move(all));
  }
  if (!known) throw Unavailable("not measured: stack.time of python.import (--stack, and a Python with marks)");
  return found;
}

std::vector<Finding> check(const RuleContext& context) {
  const std::vector<Imports> found = waiting_imports(context);
  const auto worst = std::max_element(found.begin(), found.end(),
                                      [](const Imports& a, const Imports& b) { return a.seconds < b.seconds; });
  if (worst == found.end()) return {};
  Finding finding = finding_at(context, worst->at);
  finding.confidence = Confidence::likely;
  for (const Imports& each : found) finding.instances.push_back(each.process);
  // Threads may import side by side.
  const double longest = static_cast<double>(worst->at.length()) * context.telemetry.step_seconds;
  set_most_loss(context, finding, std::min(worst->seconds, longest),
                fmt::format("time of the imports of {}", context.rank_name(worst->process)));
  finding.evidence.push_back(fact(context, "stack.time", worst->process + std::string(kImports), "time of imports",
                                  four_digits(1e9 * worst->seconds), std::nullopt, "ns"));
  finding.evidence.push_back(fact(context, "process.cpu_time", worst->process, "mean while it imported",
                                  four_digits(worst->cpus), std::nullopt, "cpus"));
  const std::size_t others = found.size() - 1;
  const std::string as_others =
      others == 0 ? "" : fmt::format(", as did {} other process{}", others, others == 1 ? "" : "es");
  finding.sentence =
      fmt::format("{} on {} imported {} Python modules in {} and used {} meanwhile{}: it waited for files.",
                  context.rank_name(worst->process), context.telemetry.node, number(worst->modules),
                  duration(worst->seconds), quantity(worst->cpus, "cpus"), as_others);
  finding.runner_up = {"", "modules that compute while they are imported: then a cpu is in use"};
  return {finding};
}

const RegisteredRule kRule{{
    .id = "stack.import_storm",
    .title = "Imports of Python modules wait for files",
    .looks_for = "Processes that import Python modules for long (stack.time of python.import: --stack, for builds of "
                 "Python with marks for tracing) and use little cpu time meanwhile (process.cpu_time).",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::storage,
    .order = 314,
    .look_alikes = "modules that compute while they are imported, a process that waits for a cpu, short imports",
    .proof = Proof::test_double,
    .thresholds = {{"min_import", 15, "s", "least time of a process's imports"},
                   {"min_share", 0.01, "ratio", "least share of the run"},
                   {"max_cpus", 0.5, "cpus", "cpus that it uses or waits for meanwhile; with more, it computes"},
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy =
        {{"{python} -X importtime -c 'import torch'   # on {node}: the modules that take long; put a module of your "
          "program in place of torch",
          "torch"},
         {"strace -c -f -e trace=%file   # in a short run, several times slower: how many files are looked for"}},
    .advice =
        {"Put the environment into one file: a container image (Apptainer, Enroot), or a squashfs image that each "
         "node mounts.",
         {"Copy the environment to the node's own disk before the ranks start, and keep PYTHONPATH short: each module "
          "is searched in every folder of it.",
          kOr}},
    .admin_remedy = {},
    .verify = {.expected = "imports take a few seconds"},
    .sources = {"https://docs.python.org/3/reference/import.html",
                "https://docs.python.org/3/using/cmdline.html#cmdoption-X"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::stack_import_storm
