// Training steps that took longer for a while: the job's own clock, where the stack was measured. Ranks of a job work
// in step, so the time is that of all of them; the rank that begins later than the others is the one they wait for.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/not_measured.h"
#include "postproc/numerics/median.h"
#include "postproc/peers/job_rule.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::slow_steps {
namespace {

constexpr double kClear = 3;             // spreads
constexpr double kMost = 0.5;            // share of the extra time
constexpr std::size_t kLeastInside = 2;  // points
constexpr std::size_t kLeastUsual = 5;
constexpr std::size_t kMostIntervals = 64;  // a summary may hold anything

/// One rank's slow steps.
struct Seen {
  std::string_view node;
  const SlowSteps* slow = nullptr;
};

/// A rank of the job.
struct Rank {
  const NodeRanks* of = nullptr;
  const StepTrend* trend = nullptr;

  [[nodiscard]] std::string_view node() const { return of->node; }
  [[nodiscard]] std::string name() const { return fmt::format("{} on {}", trend->rank, node()); }
};

/// A summary may hold anything.
bool is_possible(const SlowSteps& slow) {
  constexpr std::int64_t kMostPossible = INT64_MAX / 4;
  return slow.first > 0 && slow.first <= slow.last && slow.last < kMostPossible && slow.begin_utc_ns > 0 &&
         slow.begin_utc_ns <= slow.end_utc_ns && slow.end_utc_ns < kMostPossible * 2 && slow.usual_seconds > 0 &&
         slow.extra() > 0;
}

bool overlap(const SlowSteps& a, const SlowSteps& b) {
  const std::int64_t both = std::min(a.end_utc_ns, b.end_utc_ns) - std::max(a.begin_utc_ns, b.begin_utc_ns);
  const std::int64_t shorter = std::min(a.end_utc_ns - a.begin_utc_ns, b.end_utc_ns - b.begin_utc_ns);
  return both > shorter / 2;
}

/// The changes of all ranks grouped by time, the clearest one first.
std::vector<std::vector<Seen>> by_time(const JobRuleContext& context) {
  std::vector<Seen> all;
  for (const NodeRanks& node : context.ranks) {
    for (const SlowSteps& slow : node.steps.slow) {
      if (is_possible(slow)) all.push_back({node.node, &slow});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Seen& a, const Seen& b) { return a.slow->score > b.slow->score; });
  std::vector<std::vector<Seen>> groups;
  for (const Seen& one : all) {
    const auto group = std::find_if(groups.begin(), groups.end(),
                                    [&](const auto& other) { return overlap(*other.front().slow, *one.slow); });
    if (group == groups.end()) {
      if (groups.size() < kMostIntervals) groups.push_back({one});
    } else {
      group->push_back(one);
    }
  }
  std::stable_sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    return a.front().slow->begin_utc_ns < b.front().slow->begin_utc_ns;
  });
  return groups;
}

/// Without processes that made a few passes beside the training, as to try out a library.
std::vector<Rank> ranks_of(const JobRuleContext& context) {
  constexpr double kFew = 0.1;  // share of the steps of the middle rank
  std::vector<Rank> ranks;
  for (const NodeRanks& node : context.ranks) {
    for (const StepTrend& trend : node.steps.ranks) ranks.push_back({&node, &trend});
  }
  std::vector<double> steps;
  steps.reserve(ranks.size());
  for (const Rank& rank : ranks) steps.push_back(static_cast<double>(rank.trend->steps));
  const double few = kFew * median_of(std::move(steps));
  std::erase_if(ranks, [few](const Rank& rank) { return static_cast<double>(rank.trend->steps) < few; });
  return ranks;
}

/// Begins of all ranks, of points of as many steps.
struct Begins {
  std::int64_t point_steps = 1;
  std::int64_t first_point = 0;
  std::vector<std::vector<double>> of_rank;  // [rank][point]

  [[nodiscard]] std::size_t points() const { return of_rank.empty() ? 0 : of_rank.front().size(); }
};

/// Means over `fold` points that belong together, of those that are whole.
std::vector<double> folded(const std::vector<double>& begins, std::int64_t first, std::int64_t fold,
                           std::int64_t first_folded, std::size_t points) {
  std::vector<double> means(points, kNaN);
  for (std::size_t p = 0; p < points; ++p) {
    double sum = 0;
    for (std::int64_t i = 0; i < fold; ++i) {
      const std::int64_t at = (first_folded + static_cast<std::int64_t>(p)) * fold + i - first;
      sum += at >= 0 && at < std::ssize(begins) ? begins[static_cast<std::size_t>(at)] : kNaN;
    }
    means[p] = sum / static_cast<double>(fold);
  }
  return means;
}

Begins begins_of_all(const std::vector<Rank>& ranks) {
  constexpr std::int64_t kMostSteps = std::int64_t{1} << 40;
  Begins all;
  for (const Rank& rank : ranks) {
    const StepTrend& trend = *rank.trend;
    const bool power = trend.point_steps > 0 && (trend.point_steps & (trend.point_steps - 1)) == 0;
    if (!power || trend.point_steps > kMostSteps || trend.first_point < 0 ||
        trend.first_point > kMostSteps / trend.point_steps)
      return {};
    all.point_steps = std::max(all.point_steps, trend.point_steps);
  }
  std::int64_t end = kMostSteps;
  std::vector<std::vector<double>> begins;
  begins.reserve(ranks.size());
  for (const Rank& rank : ranks) {
    const std::int64_t fold = all.point_steps / rank.trend->point_steps;
    begins.push_back(begins_of(*rank.trend));
    all.first_point = std::max(all.first_point, (rank.trend->first_point + fold - 1) / fold);
    end = std::min(end, (rank.trend->first_point + std::ssize(begins.back())) / fold);
  }
  if (end <= all.first_point) return {};
  all.of_rank.reserve(ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    all.of_rank.push_back(folded(begins[r], ranks[r].trend->first_point, all.point_steps / ranks[r].trend->point_steps,
                                 all.first_point, static_cast<std::size_t>(end - all.first_point)));
  }
  return all;
}

/// The points within slow steps, and those far from all of them.
struct Places {
  std::vector<std::size_t> inside, usual;
};

Places places_of(const Begins& begins, const SlowSteps& slow, const std::vector<std::vector<Seen>>& groups) {
  Places places;
  for (std::size_t p = 0; p < begins.points(); ++p) {
    const std::int64_t first = (begins.first_point + static_cast<std::int64_t>(p)) * begins.point_steps + 1;
    const std::int64_t last = first + begins.point_steps - 1;
    if (first >= slow.first && last <= slow.last) places.inside.push_back(p);
    const bool near = std::any_of(groups.begin(), groups.end(), [&](const auto& group) {
      const SlowSteps& other = *group.front().slow;
      return last + begins.point_steps >= other.first && first - begins.point_steps <= other.last;
    });
    if (!near) places.usual.push_back(p);
  }
  return places;
}

double median_at(const std::vector<double>& values, const std::vector<std::size_t>& places) {
  std::vector<double> some;
  some.reserve(places.size());
  for (const std::size_t place : places) some.push_back(values[place]);
  return median_of(std::move(some));
}

/// The ranks for which the others waited.
struct Late {
  std::vector<std::size_t> ranks;
  double seconds = 0;  // later than usual, for each step; of the latest
  double passes = 1;   // that this rank made for each one of the others'
  bool known = false;  // whether it is known at all
};

/// A rank that begins a part of the step behind the others, as in a pipeline, is later by as much of what each step
/// takes longer: `scaled` is without that.
struct Growth {
  double plain = 0, scaled = 0;
};

/// How much later each rank began the steps inside than usual, against the reference. Numbers of ranks may be off by a
/// few steps: those that were made before a rank was looked at. NaN where it may be the clock that is off.
std::vector<Growth> growth_of(const std::vector<Rank>& ranks, const Begins& begins, std::size_t reference,
                              const Places& places, const SlowSteps& slow, double& noise) {
  std::vector<Growth> growth;
  growth.reserve(ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const std::vector<double>& its = begins.of_rank[r];
    std::vector<double> behind(its.size());
    for (std::size_t p = 0; p < its.size(); ++p) behind[p] = its[p] - begins.of_rank[reference][p];
    const double apart = median_at(behind, places.usual);
    const double off = std::round(apart / slow.usual_seconds);
    const double usual = apart - off * slow.usual_seconds;
    const bool clock = off != 0 && std::abs(apart) <= clock_error_between(*ranks[r].of, *ranks[reference].of);
    const double plain = clock ? kNaN : median_at(behind, places.inside) - off * slow.seconds - usual;
    growth.push_back({plain, plain - usual * slow.extra() / slow.usual_seconds});
    std::vector<double> distance(behind.size());
    for (std::size_t p = 0; p < behind.size(); ++p)
      distance[p] = std::abs(behind[p] - off * slow.usual_seconds - usual);
    noise = std::max(noise, kSpreadOverMad * median_at(distance, places.usual));
  }
  return growth;
}

/// Seconds from one of these points to the next.
double pace_at(const std::vector<double>& begins, const std::vector<std::size_t>& places) {
  std::vector<double> paces;
  for (std::size_t i = 1; i < places.size(); ++i) {
    if (places[i] == places[i - 1] + 1) paces.push_back(begins[places[i]] - begins[places[i - 1]]);
  }
  return median_of(std::move(paces));
}

/// A rank that repeats passes, because it has more to do, makes more of them in the same time.
struct Ahead {
  std::size_t rank = 0;
  double ratio = 1;  // against the others
};
Ahead most_ahead(const Begins& begins, const std::vector<std::size_t>& places) {
  std::vector<double> paces;
  paces.reserve(begins.of_rank.size());
  for (const std::vector<double>& its : begins.of_rank) paces.push_back(pace_at(its, places));
  const auto fastest = std::min_element(paces.begin(), paces.end());
  const auto rank = static_cast<std::size_t>(fastest - paces.begin());
  const double its = *fastest;
  paces.erase(fastest);
  return {.rank = rank, .ratio = its > 0 ? median_of(paces) / its : kNaN};
}

Late late_in(const std::vector<Rank>& ranks, const Begins& begins, std::size_t reference,
             const std::vector<std::vector<Seen>>& groups, const SlowSteps& slow) {
  constexpr double kInStep = 1.1;  // ratio of their paces
  constexpr double kRepeats = 1.4;
  constexpr double kPossible =
      1.5;  // the delay of a rank that is waited for equals the extra time of the others' steps
  Late late;
  if (begins.of_rank.size() < 2) return late;
  const Places places = places_of(begins, slow, groups);
  if (places.inside.size() < kLeastInside || places.usual.size() < kLeastUsual) return late;
  if (!(most_ahead(begins, places.usual).ratio <= kInStep)) return late;
  if (const Ahead ahead = most_ahead(begins, places.inside); ahead.ratio >= kRepeats) {
    return {.ranks = {ahead.rank}, .passes = ahead.ratio, .known = true};
  }
  double noise = 0;
  const std::vector<Growth> growth = growth_of(ranks, begins, reference, places, slow, noise);
  if (std::any_of(growth.begin(), growth.end(), [](const Growth& each) { return std::isnan(each.plain); })) return late;
  const auto by_plain = [](const Growth& a, const Growth& b) { return a.plain < b.plain; };
  const auto by_scaled = [](const Growth& a, const Growth& b) { return a.scaled < b.scaled; };
  const Growth least{std::min_element(growth.begin(), growth.end(), by_plain)->plain,
                     std::min_element(growth.begin(), growth.end(), by_scaled)->scaled};
  const double most = std::max_element(growth.begin(), growth.end(), by_plain)->plain;
  if (most - least.plain > kPossible * slow.extra() + kClear * noise) return late;
  late.known = kClear * noise < kMost * slow.extra();
  for (std::size_t r = 0; r < growth.size(); ++r) {
    const double later = std::min(growth[r].plain - least.plain, growth[r].scaled - least.scaled);
    if (later < kMost * slow.extra() || later < kClear * noise) continue;
    late.ranks.push_back(r);
    late.seconds = std::max(late.seconds, later);
  }
  if (2 * late.ranks.size() > growth.size()) late.ranks.clear();  // one of them is early, which delays no other rank
  return late;
}

using Part = std::optional<double> SlowSteps::*;
/// By how much a part of the step grew; nothing where that is not known.
using PartGrowth = std::optional<double> (*)(const SlowSteps&);

template <Part inside, Part usual>
std::optional<double> part_growth(const SlowSteps& slow) {
  return slow.*inside && slow.*usual ? std::optional(*(slow.*inside) - *(slow.*usual)) : std::nullopt;
}
constexpr PartGrowth kGcGrowth = part_growth<&SlowSteps::gc, &SlowSteps::usual_gc>;
constexpr PartGrowth kCpuGrowth = part_growth<&SlowSteps::cpu, &SlowSteps::usual_cpu>;

/// By how much the wait for the data loader grew at least: chance is left out.
std::optional<double> input_growth(const SlowSteps& slow) {
  constexpr double kChance = 2;  // standard errors
  if (!slow.input || !slow.usual_input || !slow.input_error) return std::nullopt;
  return *slow.input - *slow.usual_input - kChance * *slow.input_error;
}

/// The growth in the middle rank; nothing where it is not known of most.
std::optional<double> growth_in(const std::vector<Seen>& group, PartGrowth growth) {
  std::vector<double> grown;
  for (const Seen& one : group) {
    if (const auto by = growth(*one.slow)) grown.push_back(*by);
  }
  if (grown.empty() || 2 * grown.size() < group.size()) return std::nullopt;
  return median_of(grown);
}

std::string milliseconds(double seconds) {
  return quantity(seconds * 1e9, "ns");
}

/// By how much the parts of a step grew, where that is known.
struct Grown {
  std::optional<double> waiting, cpu, communication, gc, input;

  [[nodiscard]] static bool is_most(std::optional<double> part, double extra) {
    constexpr double kWithin = 1.2;  // threads beside the training wait, too
    return part && *part >= kMost * extra && *part <= kWithin * extra;
  }
};

bool is_of(const Rank& rank, const Seen& one) {
  return one.node == rank.node() && one.slow->rank == rank.trend->rank;
}

bool is_late(const std::vector<Rank>& ranks, const Late& late, const Seen& one) {
  return std::any_of(late.ranks.begin(), late.ranks.end(), [&](std::size_t rank) { return is_of(ranks[rank], one); });
}

/// By how much a part of the step grew in each late rank; empty where that is not known of one of them.
std::vector<double> growths_of_late(const std::vector<Rank>& ranks, const std::vector<Seen>& group, const Late& late,
                                    PartGrowth growth_of_part) {
  std::vector<double> growths;
  growths.reserve(late.ranks.size());
  for (const std::size_t rank : late.ranks) {
    const auto its = std::find_if(group.begin(), group.end(), [&](const Seen& one) { return is_of(ranks[rank], one); });
    const auto growth = its == group.end() ? std::nullopt : growth_of_part(*its->slow);
    if (!growth) return {};
    growths.push_back(*growth);
  }
  return growths;
}

/// The part of the delay that all late ranks spent so; nothing where it is not most of it, or not known of one of them.
std::optional<double> part_of_delay(const std::vector<Rank>& ranks, const std::vector<Seen>& group, const Late& late,
                                    PartGrowth growth_of_part) {
  const std::vector<double> growths = growths_of_late(ranks, group, late, growth_of_part);
  if (growths.empty()) return std::nullopt;
  if (!std::all_of(growths.begin(), growths.end(), [&](double each) { return Grown::is_most(each, late.seconds); }))
    return std::nullopt;
  return std::min(late.seconds, *std::min_element(growths.begin(), growths.end()));
}

/// The part of the step that grew: words of the sentence, and the value that lines of the remedy need.
struct Told {
  std::string words;
  const char* part = "";
};

/// " It waited at least 20 ms of that for its data loader.": what the late ranks did, as far as known of all of them.
Told told_of_delay(const std::vector<Rank>& ranks, const std::vector<Seen>& group, const Late& late,
                   std::optional<double> gc) {
  constexpr double kHardly = 0.2;  // share of the delay
  const bool several = late.ranks.size() > 1;
  const char* const subject = several ? "They" : "It";
  if (gc) {
    return {fmt::format(" {} spent {} of that in Python's garbage collector.", subject, milliseconds(*gc)), "gc"};
  }
  if (const auto input = part_of_delay(ranks, group, late, input_growth)) {
    return {fmt::format(" {} waited at least {} of that for {} data loader{}.", subject, milliseconds(*input),
                        several ? "their" : "its", several ? "s" : ""),
            "input"};
  }
  const std::vector<double> cpu = growths_of_late(ranks, group, late, kCpuGrowth);
  if (cpu.empty()) return {"", "delay"};
  const auto [least, most] = std::minmax_element(cpu.begin(), cpu.end());
  if (*least >= kMost * late.seconds) {
    return {fmt::format(" {} used {} more cpu time in each step: {} computed longer.", subject, milliseconds(*least),
                        several ? "they" : "it"),
            "computes"};
  }
  if (*most >= kHardly * late.seconds) return {"", "delay"};
  return {fmt::format(" {} used hardly more cpu time: {} waited for something else.", subject, several ? "they" : "it"),
          "delay"};
}

std::vector<std::string> names_of(const std::vector<Rank>& ranks, const Late& late) {
  std::vector<std::string> names;
  names.reserve(late.ranks.size());
  for (const std::size_t rank : late.ranks) names.push_back(ranks[rank].name());
  return names;
}

/// The work on which the time was spent, as far as known.
Told told_of(const std::vector<Rank>& ranks, const std::vector<Seen>& group, const Late& late,
             std::optional<double> late_gc, const Grown& grown, double extra) {
  const std::vector<std::string> names = names_of(ranks, late);
  if (late.passes > 1) {
    return {fmt::format("{} made {} backward passes for each one of the other ranks': it has more to do.",
                        names.front(), number(late.passes)),
            "passes"};
  }
  if (!names.empty()) {
    Told told = told_of_delay(ranks, group, late, late_gc);
    told.words = fmt::format("The other ranks waited for {}, which began each backward pass {} later than usual.{}",
                             listed(names, 3), milliseconds(late.seconds), told.words);
    return told;
  }
  const auto of_this = [&](double part, std::string_view bound = "") {
    return fmt::format("{} {}{}", late.known ? "No rank was late; of this time," : "Of this time,", bound,
                       milliseconds(std::min(part, extra)));
  };
  if (Grown::is_most(grown.gc, extra)) {
    return {of_this(*grown.gc) + " were spent in Python's garbage collector.", "gc"};
  }
  if (Grown::is_most(grown.input, extra)) {
    return {of_this(*grown.input, "at least ") + " were waits of the main thread for its data loader.", "input"};
  }
  if (Grown::is_most(grown.waiting, extra)) {
    return {of_this(*grown.waiting) + " were spent in calls that wait for other ranks.",
            late.known ? "exchange" : "waits"};
  }
  if (Grown::is_most(grown.communication, extra)) {
    return {of_this(*grown.communication) +
                " more passed with a collective of gloo under way: the ranks exchanged their "
                "data more slowly.",
            "exchange"};
  }
  if (ranks.size() == 1) {
    return {"The process did not compute longer: it waited, for the network, files or a cpu.", "waits"};
  }
  return {fmt::format("{}, and the ranks did not compute longer: they waited, for the network, files or a cpu.",
                      late.known ? "No rank was late" : "It is not known which rank was late"),
          "waits"};
}

/// Values for the lines of the remedy: the part that grew, the late ranks, and the interval for a journal.
JobValues values_of(const std::vector<Rank>& ranks, const Late& late, const SlowSteps& slow, const Told& told) {
  JobValues values{{told.part, "yes"},
                   {"begin", std::to_string(slow.begin_utc_ns / kSecond)},
                   {"end", std::to_string(slow.end_utc_ns / kSecond + 1)}};
  std::vector<std::string> late_ranks;
  late_ranks.reserve(late.ranks.size());
  for (const std::size_t rank : late.ranks) late_ranks.push_back(ranks[rank].trend->rank);
  if (!late_ranks.empty()) values["ranks"] = joined(late_ranks, ",");
  return values;
}

Evidence evidence_of(const Seen& one, std::string metric, std::string feature, double observed, double expected) {
  Evidence evidence;
  evidence.metric = std::move(metric);
  evidence.instance = one.slow->rank;
  evidence.node = one.node;
  evidence.feature = std::move(feature);
  evidence.observed = four_digits(observed * 1e9);
  evidence.expected = four_digits(expected * 1e9);
  evidence.unit = "ns";
  evidence.span = {one.slow->begin_utc_ns, one.slow->end_utc_ns};
  evidence.detectors = {Method::interval_search};
  return evidence;
}

/// A part of the step as evidence.
struct PartEvidence {
  Part inside, usual;
  const char* metric;
  const char* feature;
  bool only_grown = false;
};
constexpr PartEvidence kParts[] = {
    {&SlowSteps::waiting, &SlowSteps::usual_waiting, "stack.time", "median of the time that calls waited in a step"},
    {&SlowSteps::communication, &SlowSteps::usual_communication, "stack.communication",
     "time of a step with a collective under way"},
    {&SlowSteps::gc, &SlowSteps::usual_gc, "stack.time", "garbage collections in each step", true},
    {&SlowSteps::input, &SlowSteps::usual_input, "python.samples", "time of a step in a wait for the data loader",
     true},
    {&SlowSteps::cpu, &SlowSteps::usual_cpu, "process.cpu_time", "cpu time for each step"},
};

/// The parts that are known, the one that grew most first.
std::vector<Evidence> parts_of(const Seen& one) {
  std::vector<std::pair<double, Evidence>> grown;
  for (const PartEvidence& part : kParts) {
    const std::optional<double>& inside = one.slow->*part.inside;
    const std::optional<double>& usual = one.slow->*part.usual;
    if (!inside || !usual || (part.only_grown && *inside <= *usual)) continue;
    grown.emplace_back(*inside - *usual, evidence_of(one, part.metric, part.feature, *inside, *usual));
  }
  std::stable_sort(grown.begin(), grown.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Evidence> parts;
  parts.reserve(grown.size());
  for (auto& [growth, evidence] : grown) parts.push_back(std::move(evidence));
  return parts;
}

/// Late ranks come first: a page shows few rows.
void add_evidence(const std::vector<Rank>& ranks, std::vector<Seen> group, const Late& late, Finding& finding) {
  constexpr std::size_t kMostRanks = 4;
  std::stable_partition(group.begin(), group.end(), [&](const Seen& one) { return is_late(ranks, late, one); });
  for (std::size_t i = 0; i < std::min(kMostRanks, group.size()); ++i) {
    const SlowSteps& slow = *group[i].slow;
    finding.evidence.push_back(
        evidence_of(group[i], "stack.step_time", "median of the steps", slow.seconds, slow.usual_seconds));
    finding.evidence.back().score = shown_score(slow.score);
    if (late.ranks.size() == 1 && late.seconds > 0 && is_late(ranks, late, group[i])) {
      finding.evidence.push_back(
          evidence_of(group[i], "stack.step_time", "begin of each step, later than usual", late.seconds, 0));
      finding.evidence.back().expected.reset();
    }
    for (Evidence& part : parts_of(group[i])) finding.evidence.push_back(std::move(part));
  }
}

/// " while rank0 on n2 was late,"; "" if no rank was. A page may cut the sentence behind this.
std::string meanwhile(const std::vector<Rank>& ranks, const Late& late) {
  if (late.ranks.empty()) return "";
  const std::string names = listed(names_of(ranks, late), 3);
  if (late.passes > 1) return fmt::format(" while {} had more to do,", names);
  return fmt::format(" while {} {} late,", names, late.ranks.size() > 1 ? "were" : "was");
}

Finding describe(const JobRuleContext& context, const EffectiveRule& rule, const std::vector<Rank>& ranks,
                 const std::vector<Seen>& group, const Late& late, const std::string& part) {
  const SlowSteps& slow = *group.front().slow;
  std::set<std::string> nodes;
  for (const std::size_t rank : late.ranks) nodes.emplace(ranks[rank].node());
  for (const Seen& one : group) {
    if (late.ranks.empty()) nodes.emplace(one.node);
  }
  Finding finding = rule.finding({nodes.begin(), nodes.end()});
  for (const std::size_t rank : late.ranks) finding.instances.push_back(ranks[rank].trend->rank);
  finding.intervals = {{slow.begin_utc_ns, slow.end_utc_ns}};
  finding.confidence = late.ranks.empty() ? Confidence::possible : Confidence::likely;
  finding.severity = Severity::notice;
  const double lost = slow.extra() * slow.steps();
  const double job = context.job.seconds();
  finding.impact.seconds = lost;
  if (job > 0) finding.impact.percent = 100 * lost / job;
  finding.impact.how = fmt::format("{} steps of {} instead of {}", number(slow.steps()), milliseconds(slow.seconds),
                                   milliseconds(slow.usual_seconds));
  finding.sentence = fmt::format(
      "Each training step (backward pass) took {} longer from step {} to {},{} {} in all ({} instead of {} for each). "
      "{}",
      milliseconds(slow.extra()), number(static_cast<double>(slow.first)), number(static_cast<double>(slow.last)),
      meanwhile(ranks, late), duration(lost), milliseconds(slow.seconds), milliseconds(slow.usual_seconds), part);
  add_evidence(ranks, group, late, finding);
  finding.runner_up = {"", "steps with more to do: then the ranks compute longer in each of them, which was looked at"};
  return finding;
}

std::vector<JobFinding> check(const JobRuleContext& context, const EffectiveRule& rule) {
  const std::vector<Rank> ranks = ranks_of(context);
  const std::vector<std::vector<Seen>> groups = by_time(context);
  if (groups.empty()) return {};
  const Begins begins = begins_of_all(ranks);
  std::vector<JobFinding> findings;
  for (const std::vector<Seen>& group : groups) {
    const Seen& clearest = group.front();
    std::set<std::pair<std::string_view, std::string_view>> showing;
    for (const Seen& one : group) showing.emplace(one.node, one.slow->rank);
    // Ranks work in step: a change of only a few is their own.
    if (ranks.size() > 1 && 2 * showing.size() <= ranks.size()) continue;
    const auto reference = std::find_if(ranks.begin(), ranks.end(), [&](const Rank& rank) {
      return rank.node() == clearest.node && rank.trend->rank == clearest.slow->rank;
    });
    if (reference == ranks.end()) continue;
    const double extra = clearest.slow->extra();
    const Late late =
        late_in(ranks, begins, static_cast<std::size_t>(reference - ranks.begin()), groups, *clearest.slow);
    const Grown grown{
        .waiting = growth_in(group, part_growth<&SlowSteps::waiting, &SlowSteps::usual_waiting>),
        .cpu = growth_in(group, kCpuGrowth),
        .communication = growth_in(group, part_growth<&SlowSteps::communication, &SlowSteps::usual_communication>),
        .gc = growth_in(group, kGcGrowth),
        .input = growth_in(group, input_growth)};
    // Every rank computes longer: the program has more to do in each step, as with longer sequences. Where that is not
    // known, it may be so.
    const bool computes_longer = !grown.cpu || *grown.cpu >= kMost * extra;
    const bool known = Grown::is_most(grown.gc, extra) || Grown::is_most(grown.input, extra);
    if (late.ranks.empty() && computes_longer && !known) continue;
    // A rank that repeats its passes has more to do.
    const auto late_gc = late.passes > 1 ? std::nullopt : part_of_delay(ranks, group, late, kGcGrowth);
    const Told told = told_of(ranks, group, late, late_gc, grown, extra);
    findings.emplace_back(describe(context, rule, ranks, group, late, told.words),
                          values_of(ranks, late, *clearest.slow, told));
  }
  return findings;
}

const RegisteredJobRule kSlowSteps(
    check,
    {
        .id = "stack.slow_steps",
        .title = "Training steps took longer for a while",
        .looks_for = "Intervals in which the training steps of most ranks took longer than the others (the table of "
                     "steps: --stack), and the rank that began them late. Without such a rank only where the cpu time "
                     "of a step is known not to have grown, and no GPU is there that may have had more to do, or where "
                     "most of it was in Python's garbage collector or in waits for PyTorch's data loader (the samples "
                     "of the main thread).",
        .kind = FindingKind::peer,
        .states = Stated::difference,
        .subsystem = Subsystem::process,
        .order = 600,
        .look_alikes = "steps with more to do, warm-up, checkpoints, validation",
        .proof = Proof::real,
        .names_place = true,
        .thresholds = {{"min_share", 0.1, "ratio", "least growth of a step, relative to the usual step"},
                       {"min_extra", 1, "ms", "least growth of a step"},
                       {"min_steps", 20, "steps", "least number of slow steps"},
                       {"min_seconds", 5, "s", "shortest interval"},
                       {"min_score", 5, "sd",
                        "least distance from the usual step, in standard deviations of the steps"}},
        .user_remedy =
            {{"for p in $(pgrep -u \"$USER\" -x {process}); do py-spy dump --pid $p; done   # on {node}, in the "
              "next run, while the steps are slow, with py-spy of PyPI (it needs kernel.yama.ptrace_scope=0): the line "
              "that each rank executes"},
             {"ps -eo pid,user,psr,pcpu,comm --sort=-pcpu | head -15   # on {node}, in the next run, while "
              "the steps are slow: other processes on the cpus (column psr) of {ranks}",
              "ranks,!gc,!input,!passes"},
             {"grep MHz /proc/cpuinfo   # on {node} and on {peer}, in the next run, while the steps are "
              "slow: the clocks of the cpus",
              "computes"},
             {"cat /proc/pressure/io   # on {node}, in the next run, while the steps are slow: the share of "
              "time in which processes wait for storage",
              "input"},
             {"grep . /proc/pressure/*   # on {node}, in the next run, while the steps are slow: the share of time in "
              "which processes wait for cpus, memory or storage",
              "waits"},
             {"nstat -az | grep -E 'TcpRetransSegs|TCPOFOQueue'   # on {nodes}, in the next run, twice "
              "while the steps are slow: where the numbers grow, segments are lost",
              "exchange"},
             {"grep -s . /sys/class/net/*/speed /sys/class/infiniband/*/ports/*/rate   # on {nodes}: the "
              "speed of each link, which must be the same",
              "exchange"}},
        .advice =
            {{"In the program, once all is set up: import gc; gc.collect(); gc.freeze(). Later collections leave these "
              "objects out. Look for code that calls gc.collect() itself.",
              "gc"},
             {"Give the data loader on {nodes} more workers (num_workers: one less than the cpus of the rank), or "
              "copy its files to a disk of the node before the training.",
              "input"},
             {"Compare the data of {ranks} on {nodes} with that of the other ranks: it has more batches to do.",
              "ranks,passes"},
             {"Compare the work of {ranks} on {nodes} in these steps with that of the other ranks: longer samples, "
              "evaluation, logging. If it has the same work, its cpus were slower: look for other processes, a "
              "low clock or a quota on {nodes}.",
              "ranks,computes"},
             {"Find the cause of the delay of {ranks} on {nodes}: other processes on its cpus, a quota, slow "
              "files, or work that only this rank does (logging, checkpoints).",
              "ranks,delay"},
             {"Run the job once with #SBATCH --exclude={nodes}: if a rank on another node is late then, the "
              "program is the cause.",
              "job,ranks,peer,!passes"},
             {"Look at the network between {nodes}: the ranks computed as fast as usual, and their exchange of "
              "data took longer. Other jobs may load the same links.",
              "exchange"},
             {"Look for other processes, a cpu quota, slow files and a slow network on {nodes} at that time: the "
              "processes waited and did not compute longer.",
              "waits"}},
        .admin_remedy = {{"journalctl -S @{begin} -U @{end}   # on {nodes}: messages of the kernel and of services at "
                          "that time",
                          "!exchange,!gc,!passes"},
                         {"Look at {nodes} in that interval: clocks, throttling, leftover processes, quotas.",
                          "!exchange,!gc,!passes"},
                         {"grep . /sys/class/net/*/statistics/*err* /sys/class/net/*/statistics/*drop*   # on {nodes}",
                          "exchange"},
                         {"ibqueryerrors   # InfiniBand: ports of the fabric that count errors", "exchange"},
                         {"Check the error counters of the switch ports of {nodes}.", "exchange"}},
        .verify = {.expected = "the time of each step is as it was before"},
        .sources = {"https://arxiv.org/abs/2410.12588"},
    });

}  // namespace
}  // namespace reveal::rule::slow_steps
