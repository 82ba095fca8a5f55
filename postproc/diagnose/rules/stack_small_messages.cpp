// Ranks that exchange their data in many small messages: each one costs a latency, whatever its size. NCCL joins the
// calls of a group (ncclGroupStart to ncclGroupEnd) to one launch.
// https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/groups.html
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "postproc/diagnose/called_functions.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::stack_small_messages {
namespace {

/// Functions of a library: those that move data, those that join several of them or carry them out.
struct Messages {
  std::string process;
  CallLibrary library = CallLibrary::unknown;
  double count = 0;  // after joining
  double bytes = 0;
  double seconds = 0;
  std::size_t measured = 0;  // steps
  double share_of_windows = 0;
  double share_beyond_waits = 0;  // 0 where it is not known

  /// A measure to compare processes by.
  [[nodiscard]] double share() const { return seconds / static_cast<double>(measured); }
};

bool joins(const CallFacts& facts) {
  return facts.function == "ncclGroupEnd";
}
/// A whole collective of gloo's in a thread of PyTorch's, while gloo's own function has the bytes.
bool carries_out(const CallFacts& facts) {
  return facts.function == "c10d.work";
}
bool moves(const CallFacts& facts) {
  return facts.meets != Meets::nobody && !joins(facts) && !carries_out(facts);
}

/// The time in collectives that no wait for a late rank explains: in each step, that rank holds up one call of each
/// thread that carries them out, and none of these takes longer than the longest.
double share_beyond_waits(const RuleContext& context, const std::string& process, Interval at) {
  constexpr double kThreads = 2;  // PyTorch's for gloo
  const auto only = [&](std::string_view metric, const std::string& instance) {
    const std::vector<std::size_t> found = context.channels(metric, instance);
    return found.size() == 1 ? context.telemetry.series(found.front()) : std::span<const double>();
  };
  const auto time = only("stack.time", process + "/c10d.work");
  const auto longest = only("stack.longest", process + "/c10d.work");
  const auto steps = only("stack.steps", process);
  if (time.empty() || longest.empty() || steps.empty()) return 0;
  double beyond = 0;
  std::size_t known = 0;
  for (std::size_t t = at.begin; t < at.end; ++t) {
    const double rest = time[t] - kThreads * steps[t] * longest[t];
    if (std::isnan(rest)) continue;
    beyond += std::max(0.0, rest);
    ++known;
  }
  return known > 0 ? 1e-9 * beyond / context.seconds(known) : 0;
}

std::vector<Messages> messages_in(const RuleContext& context, Interval at, CallLibrary library) {
  const auto of_library = [library](const CallFacts& facts) {
    return facts.library == library && facts.meets != Meets::nobody;
  };
  const auto sums_of = [&](bool (*kind)(const CallFacts&)) {
    return calls_by_process(
        context, at, [&](const CallFacts& facts) { return of_library(facts) && kind(facts); }, of_library);
  };
  auto joined = sums_of(joins);
  auto carried_out = sums_of(carries_out);
  std::vector<Messages> all;
  for (const auto& [process, moved] : sums_of(moves)) {
    if (moved.sized == 0) continue;
    const double groups = joined[process].calls;
    all.push_back({.process = process,
                   .library = library,
                   .count = groups > 0 ? std::min(moved.sized, groups) : moved.sized,
                   .bytes = moved.bytes,
                   .seconds = moved.seconds + joined[process].seconds + carried_out[process].seconds,
                   .measured = moved.measured_steps(),
                   .share_of_windows = share_of_windows(context, moved, at),
                   .share_beyond_waits = library == CallLibrary::gloo ? share_beyond_waits(context, process, at) : 0});
  }
  return all;
}

bool are_short(const RuleContext& context, const Messages& all) {
  return all.seconds <= context.threshold("max_mean") * 1e-3 * all.count;
}

bool are_small(const RuleContext& context, const Messages& all) {
  constexpr double kMostWindows = 0.5;
  const double seconds = context.seconds(all.measured);
  return is_measured_enough(context, all.measured) && all.count >= context.threshold("min_rate") * seconds &&
         all.bytes <= context.threshold("max_bytes") * 1024 * all.count &&
         all.seconds >= context.threshold("min_share") * seconds &&
         (are_short(context, all) || all.share_beyond_waits >= context.threshold("min_share")) &&
         all.share_of_windows >= kMostWindows;
}

Finding describe(const RuleContext& context, const Messages& all, Interval at) {
  const bool on_gpu = all.library == CallLibrary::nccl;
  const double seconds = context.seconds(all.measured);
  const double share = std::min(1.0, all.seconds / seconds);
  Finding finding = context.finding({{on_gpu ? "by_nccl" : "by_gloo", "yes"}});
  finding.confidence = on_gpu || !are_short(context, all) ? Confidence::possible : Confidence::likely;
  finding.instances = {all.process};
  finding.intervals = {context.span(at.begin, at.end)};
  if (on_gpu) {
    finding.severity = Severity::notice;
    finding.impact.how = "not known: NCCL moves the data on the GPU after these calls have returned";
  } else {
    set_most_loss_of_share(
        context, finding, share, all.measured, at,
        fmt::format("time of the collectives of {}; computing may go on meanwhile", context.rank_name(all.process)));
  }
  finding.evidence.push_back(fact(context, "stack.bytes", all.process, "mean of each message",
                                  four_digits(all.bytes / all.count), std::nullopt, "bytes"));
  finding.evidence.push_back(
      fact(context, "stack.calls", all.process, "messages", four_digits(all.count / seconds), std::nullopt, "/s"));
  finding.evidence.push_back(
      fact(context, "stack.time", all.process, "share of the time", four_digits(share), std::nullopt, "ratio"));
  finding.sentence = fmt::format(
      "{} on {} exchanged {} messages a second with other ranks, of {} each on average, and spent {} % of the time in "
      "these calls{}.",
      context.rank_name(all.process), context.telemetry.node, number(all.count / seconds),
      quantity(all.bytes / all.count, "bytes"), number(100 * share), part_measured(context, all.measured, at));
  finding.runner_up = {"", "calls that wait for a late rank: these took " +
                               quantity(1e9 * all.seconds / all.count, "ns") + " each on average"};
  return finding;
}

std::vector<Finding> check(const RuleContext& context) {
  const Interval at = after_start(context);
  std::optional<Messages> worst;
  for (const CallLibrary library : {CallLibrary::nccl, CallLibrary::gloo}) {
    for (Messages& all : messages_in(context, at, library)) {
      const bool counts = at.length() > 0 && are_small(context, all);
      if (counts && (!worst || all.share() > worst->share())) worst = std::move(all);
    }
  }
  return worst ? std::vector{describe(context, *worst, at)} : std::vector<Finding>();
}

const RegisteredRule kRule{{
    .id = "stack.small_messages",
    .title = "Ranks exchanged many small messages",
    .looks_for =
        "Many collectives and messages of NCCL or gloo a second with few bytes each (stack.calls, stack.bytes: "
        "--stack), in which a rank spends min_share of its time or more (stack.time) after its start: below, larger "
        "messages would gain little. Where these are counted in turns, the parts count in which both were.",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::network,
    .order = 311,
    .look_alikes = "calls that wait for a late rank, calls that NCCL joins (ncclGroupStart), a few phases with small "
                   "messages",
    .proof = Proof::real,
    .thresholds = {{"min_rate", 100, "/s", "least messages a second; those of one NCCL group count once"},
                   {"max_bytes", 64, "KiB", "most bytes of a message, on average"},
                   {"min_share", 0.05, "ratio", "least share of the time in these calls"},
                   {"max_mean", 1, "ms", "mean time of a call above which it may wait for other ranks"},
                   kMinAfterStart,
                   kMinAfterSeconds,
                   kMinMeasured,
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy =
        {{"export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL   # in one run: NCCL writes each call with its size",
          "by_nccl"}},
    .advice =
        {{"In the program: DistributedDataParallel(model, bucket_cap_mb=25) exchanges all gradients in parts of 25 "
          "MB; do not call all_reduce() for each parameter.",
          "torch"},
         {"With FSDP: wrap whole blocks of layers (auto_wrap_policy), not each layer.", "torch,by_nccl", kOr},
         {"Put the calls between ncclGroupStart() and ncclGroupEnd(), or copy the data into one buffer first.",
          "!torch,by_nccl"},
         {"Copy the data into one buffer first, and exchange that.", "!torch,by_gloo"}},
    .admin_remedy = {},
    .verify = {.expected = "fewer calls of more bytes each"},
    .sources = {"https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html",
                "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/groups.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::stack_small_messages
