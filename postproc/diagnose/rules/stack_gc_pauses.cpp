// A program that spends its time in Python's garbage collector, which stops all its Python threads meanwhile. A full
// collection visits every object, and the data of a training are many.
// https://docs.python.org/3/library/gc.html
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "postproc/diagnose/called_functions.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::stack_gc_pauses {
namespace {

constexpr double kNearlyAll = 0.9;

/// Nanoseconds; 0 if it is not known.
double longest_of(const RuleContext& context, const std::string& process, Interval at) {
  double longest = 0;
  for (const std::size_t channel : context.channels("stack.longest", process + "/python.gc")) {
    const std::span<const double> series = context.telemetry.series(channel);
    for (std::size_t t = at.begin; t < at.end; ++t) longest = std::max(longest, std::isnan(series[t]) ? 0 : series[t]);
  }
  return longest;
}

std::optional<BusyProcess> busiest_in(const RuleContext& context, Interval at) {
  const auto collects = [](const CallFacts& facts) { return facts.function == "python.gc"; };
  return busiest_process(context, at, calls_by_process(context, at, collects));
}

std::vector<Finding> check(const RuleContext& context) {
  Interval at = after_start(context);
  auto busiest = busiest_in(context, at);
  if (!busiest) return {};
  // A program may do so for a part of the run only.
  const Interval part = busy_part(context, busiest->calls, at);
  bool lasting = true;
  if (static_cast<double>(part.length()) < kNearlyAll * static_cast<double>(at.length())) {
    if (auto in_part = busiest_in(context, part); in_part && in_part->name == busiest->name) {
      busiest = std::move(in_part);
      at = part;
      lasting = false;
    }
  }
  const auto& [process, all, seconds, share, rate] = *busiest;
  Finding finding = context.finding();
  finding.confidence = Confidence::likely;
  finding.instances = {process};
  finding.intervals = {context.span(at.begin, at.end)};
  set_most_loss_of_share(
      context, finding, std::min(1.0, share), all.measured_steps(), at,
      fmt::format("time in the collector of {}; a GPU may have worked meanwhile", context.rank_name(process)));
  finding.evidence.push_back(fact(context, "stack.time", process + "/python.gc", "share of the time",
                                  four_digits(share), std::nullopt, "ratio"));
  const double longest = longest_of(context, process, at);
  if (longest > 0) {
    finding.evidence.push_back(fact(context, "stack.longest", process + "/python.gc", "longest collection",
                                    four_digits(longest), std::nullopt, "ns"));
  }
  add_durations(context, process + "/python.gc", at, finding);
  finding.sentence = fmt::format(
      "{} on {} spent {} % of {} in Python's garbage collector: {} a second{}{}.", context.rank_name(process),
      context.telemetry.node, number(100 * share), lasting ? "the time" : duration(context.seconds(at.length())),
      counted(rate, "collection"), longest > 0 ? ", the longest took " + quantity(longest, "ns") : "",
      part_measured(context, all.measured_steps(), at));
  finding.runner_up = {"", lasting ? "collections while the program starts: these went on all the time"
                                   : "collections while the program starts: these came later"};
  return {finding};
}

const RegisteredRule kRule{{
    .id = "stack.gc_pauses",
    .title = "Python's garbage collector stops the program",
    .looks_for =
        "The share of the time that a process spends in Python's garbage collector after its start (stack.time "
        "of python.gc: --stack, for builds of Python with marks for tracing).",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::process,
    .order = 313,
    .look_alikes = "collections while the program starts, a few phases with many new objects",
    .proof = Proof::real,
    .thresholds = {{"min_share", 0.03, "ratio", "least share of the time in the collector"},
                   kMinAfterStart,
                   kMinAfterSeconds,
                   kMinMeasured,
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy = {},
    .advice =
        {"In the program, once all is set up: import gc; gc.collect(); gc.freeze(). Later collections leave these "
         "objects out.",
         {"In the training loop: gc.disable() before it, and gc.collect() every 1000 steps, on all ranks in the same "
          "step.",
          kOr},
         {"Keep large lists and dictionaries of Python objects as arrays (numpy, pyarrow).", kOr}},
    .admin_remedy = {},
    .verify = {.expected = "the time in python.gc is near 0 after the start"},
    .sources = {"https://docs.python.org/3/library/gc.html", "https://docs.python.org/3/howto/instrumentation.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::stack_gc_pauses
