// A rank that enters the collectives of the job later than the others: each of these waits for it, and so the job has
// the pace of that rank. The calls are matched over the ranks one by one, so no step of the program has to be known.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/not_measured.h"
#include "postproc/diagnose/excursion.h"
#include "postproc/numerics/median.h"
#include "postproc/numerics/percentile.h"
#include "postproc/numerics/running_medians.h"
#include "postproc/peers/job_rule.h"
#include "postproc/peers/lateness.h"
#include "postproc/telemetry/call_facts.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"
#include "postproc/words/times.h"

namespace reveal::rule::late_rank {
namespace {

constexpr std::size_t kCallsOfBin = 6;  // at least: those of two half seconds
constexpr std::size_t kMostBins = 128;
constexpr std::size_t kFewestBins = 8;
constexpr std::size_t kSmoothed = 5;     // bins
constexpr std::size_t kLeastInside = 3;  // bins
constexpr std::size_t kLeastUsual = 5;
constexpr std::size_t kWarmUp = 2;
constexpr std::size_t kHabit = 4;      // intervals: a rank that is late so often is so by the program
constexpr double kWildest = 98;        // percent: larger distances count no more than this one
constexpr double kLowest = 10;         // percent
constexpr double kMostBinsLate = 0.9;  // share
constexpr double kClear = 3;           // spreads
constexpr double kClockErrors = 3;
constexpr double kLateToo = 0.5;    // share of the lateness of the latest rank
constexpr double kTogether = 0.35;  // likewise: the ranks that wait are not farther apart
constexpr double kPossible = 0.9;   // share of the calls
constexpr double kAlmostAll = 0.9;  // likewise
constexpr std::size_t kMostFindings = 8;

/// The calls of one communicator in groups that follow each other, so that single ones do not count.
struct Bins {
  const MatchedCollectives* of = nullptr;
  std::vector<Interval> at;  // calls
  std::vector<double> pace;  // s from one call to the next; NaN for the last bin
  double middle_pace = 0;
  std::vector<std::vector<double>> late;    // [rank][bin]
  std::vector<std::vector<double>> smooth;  // the same as medians of neighbours
  std::vector<double> noise;                // spread of one bin, by rank

  [[nodiscard]] std::size_t size() const { return at.size(); }
  [[nodiscard]] std::size_t ranks() const { return late.size(); }
  [[nodiscard]] double begin_of(std::size_t bin) const { return of->begins[at[bin].begin]; }
  /// Where the next one begins.
  [[nodiscard]] double end_of(std::size_t bin) const {
    return bin + 1 < size() ? begin_of(bin + 1) : of->begins[at[bin].end - 1];
  }
  [[nodiscard]] double seconds(Interval bins) const { return end_of(bins.end - 1) - begin_of(bins.begin); }
  /// Calls that were made, looked at or not.
  [[nodiscard]] double calls(Interval bins) const {
    const std::size_t next = bins.end < size() ? at[bins.end].begin : at.back().end - 1;
    return static_cast<double>(of->numbers[next] - of->numbers[at[bins.begin].begin]);
  }
};

/// A call that took seconds is one event among hundreds.
double wildest_of(const std::vector<double>& late) {
  std::vector<double> distances;
  distances.reserve(late.size());
  for (const double each : late) {
    if (!std::isnan(each)) distances.push_back(std::abs(each));
  }
  return percentile(std::move(distances), kWildest);
}

Bins bins_of(const MatchedCollectives& matched) {
  Bins bins{.of = &matched, .at = {}, .pace = {}, .late = {}, .smooth = {}, .noise = {}};
  const std::size_t length = std::max(kCallsOfBin, (matched.calls() + kMostBins - 1) / kMostBins);
  for (std::size_t begin = 0; begin + length <= matched.calls(); begin += length) {
    bins.at.push_back({begin, begin + length});
  }
  for (std::size_t bin = 0; bin < bins.size(); ++bin) {
    const double calls = bin + 1 < bins.size() ? bins.calls({bin, bin + 1}) : 0;
    bins.pace.push_back(calls > 0 ? (bins.end_of(bin) - bins.begin_of(bin)) / calls : kNaN);
  }
  bins.middle_pace = median_of(bins.pace);
  for (const RankLateness& rank : matched.ranks) {
    const double most = wildest_of(rank.late);
    std::vector<double> limited = rank.late;
    for (double& each : limited) each = std::isnan(each) ? each : std::clamp(each, -most, most);
    std::vector<double> means;
    means.reserve(bins.size());
    for (const Interval at : bins.at) means.push_back(mean_inside(limited, at));
    std::vector<double> smooth = running_medians(means, kSmoothed);
    std::vector<double> distances;
    distances.reserve(means.size());
    for (std::size_t bin = 0; bin < means.size(); ++bin) distances.push_back(std::abs(means[bin] - smooth[bin]));
    bins.noise.push_back(kSpreadOverMad * median_of(std::move(distances)));
    bins.late.push_back(std::move(means));
    bins.smooth.push_back(std::move(smooth));
  }
  return bins;
}

/// A time in which a rank was late.
struct Late {
  std::size_t rank = 0;
  Interval bins;
  std::vector<Interval> others;  // times in which it was late, with this one: outside it is as usual
  bool always = false;           // from the first call to the last
  double seconds = 0;            // later than usual, in each looked-at call on average
};

/// The latest rank, and all that are late with it.
struct LateRanks {
  const Bins* bins = nullptr;
  Late of_latest;
  double extra = 0;  // s that each call, looked at or not, came later for it
  std::vector<std::size_t> ranks;

  [[nodiscard]] double lost() const { return extra * bins->calls(of_latest.bins); }
  [[nodiscard]] TimeSpan span() const {
    return {std::llround(bins->begin_of(of_latest.bins.begin) * 1e9),
            std::llround(bins->end_of(of_latest.bins.end - 1) * 1e9)};
  }
};

bool is_outside(std::size_t bin, std::span<const Interval> intervals) {
  return std::none_of(intervals.begin(), intervals.end(),
                      [bin](Interval at) { return bin >= at.begin && bin < at.end; });
}

/// The median outside of all times in which a rank was late; 0 where it always was.
double usual_of(const std::vector<double>& values, const Late& late) {
  if (late.always) return 0;
  std::vector<double> outside;
  for (std::size_t bin = 0; bin < values.size(); ++bin) {
    if (is_outside(bin, late.others)) outside.push_back(values[bin]);
  }
  return median_of(std::move(outside));
}

/// Calls that were looked at, and those in which the rank was late.
struct Looked {
  std::size_t calls = 0, late = 0;
  double seconds = kNaN;        // median of those, against the middle rank
  double usual_seconds = kNaN;  // the same of all calls at other times
};

Looked looked_at(const Bins& bins, const Late& late) {
  const std::vector<double>& its = bins.of->ranks[late.rank].late;
  Looked looked;
  looked.usual_seconds = usual_of(bins.late[late.rank], late);
  std::vector<double> seconds;
  for (std::size_t call = bins.at[late.bins.begin].begin; call < bins.at[late.bins.end - 1].end; ++call) {
    if (std::isnan(its[call])) continue;
    ++looked.calls;
    if (its[call] - looked.usual_seconds >= late.seconds / 2) seconds.push_back(its[call]);
  }
  looked.late = seconds.size();
  looked.seconds = median_of(std::move(seconds));
  return looked;
}

/// By how much a rank was later than usual.
double excess_of(const Bins& bins, std::size_t rank, const Late& late) {
  return mean_inside(bins.late[rank], late.bins) - usual_of(bins.late[rank], late);
}

/// The spread of an excess by chance.
double chance_of(const Bins& bins, std::size_t rank, const Late& late) {
  double usual = 0;
  for (std::size_t bin = 0; bin < bins.size(); ++bin) usual += is_outside(bin, late.others) ? 1 : 0;
  const double inside = 1 / static_cast<double>(late.bins.length());
  return bins.noise[rank] * std::sqrt(inside + (late.always || usual == 0 ? 0 : 1 / usual));
}

/// Less may be a clock that is off, or nothing that anyone would notice.
double least_late(const Bins& bins, std::size_t rank, const EffectiveRule& rule) {
  return std::max({rule.threshold("min_late") * 1e-3, kClockErrors * bins.of->ranks[rank].clock_error,
                   rule.threshold("min_share") * bins.middle_pace});
}

/// Intervals of bins in which a rank stands above its lowest level.
std::vector<Interval> late_intervals(const Bins& bins, std::size_t rank, double least) {
  const std::vector<double>& smooth = bins.smooth[rank];
  std::vector<double> known;
  std::copy_if(smooth.begin(), smooth.end(), std::back_inserter(known), [](double each) { return !std::isnan(each); });
  if (known.size() < kFewestBins) return {};
  const double level = percentile(std::move(known), kLowest) + std::max(least / 2, kClear * bins.noise[rank]);
  std::vector<Interval> intervals;
  for (std::size_t bin = 0; bin < smooth.size(); ++bin) {
    if (!(smooth[bin] > level)) continue;
    const bool follows = !intervals.empty() && bin <= intervals.back().end + 1;
    if (follows) {
      intervals.back().end = bin + 1;
    } else {
      intervals.push_back({bin, bin + 1});
    }
  }
  return intervals;
}

/// With their begin and end, of at least some seconds.
std::vector<Late> onsets_of(const Bins& bins, std::size_t rank, const EffectiveRule& rule) {
  const double least = least_late(bins, rank, rule);
  if (!std::isfinite(least)) return {};
  const std::vector<Interval> intervals = late_intervals(bins, rank, least);
  std::size_t inside = 0;
  for (const Interval at : intervals) inside += at.length();
  if (inside + kLeastUsual > bins.size()) return {};
  std::vector<Late> onsets;
  for (const Interval at : intervals) {
    Late late{.rank = rank, .bins = at, .others = intervals};
    late.seconds = excess_of(bins, rank, late);
    const bool clear = late.seconds >= least && late.seconds >= kClear * chance_of(bins, rank, late);
    const bool lasts = at.length() >= kLeastInside && bins.seconds(at) >= rule.threshold("min_seconds");
    // Ranks may be late until all is set up.
    if (clear && lasts && at.begin >= kWarmUp) onsets.push_back(std::move(late));
  }
  if (onsets.size() >= kHabit) onsets.clear();
  return onsets;
}

/// A call that ends when the others have come. Those of NCCL are only put into the queue of a GPU, which may be behind
/// anyway, and those of gloo run in threads beside the program.
enum class EndsWith : std::uint8_t { others, maybe_others, nothing };
EndsWith call_ends_with(std::string_view function) {
  // All wait for one rank, or that one for all; in a scan, each waits for those before it.
  constexpr std::string_view kOneSided[] = {"MPI_Bcast",   "MPI_Reduce",   "MPI_Gather", "MPI_Gatherv",
                                            "MPI_Scatter", "MPI_Scatterv", "MPI_Scan"};
  const CallLibrary library = call_facts(function).library;
  const bool one_sided = std::find(std::begin(kOneSided), std::end(kOneSided), function) != std::end(kOneSided);
  if (library == CallLibrary::gloo || one_sided) return EndsWith::maybe_others;
  const bool blocks = library == CallLibrary::mpi && !function.starts_with("MPI_I");
  return blocks ? EndsWith::others : EndsWith::nothing;
}

/// Late in nearly all of the job, at a cost that is worth an answer: some imbalance is in most programs.
std::optional<Late> always_late(const Bins& bins, std::size_t rank, const EffectiveRule& rule, double job_seconds) {
  if (call_ends_with(bins.of->function) == EndsWith::nothing)
    return std::nullopt;  // a change of the pace would show it
  Late late{.rank = rank, .bins = {0, bins.size()}, .others = {}, .always = true};
  late.seconds = excess_of(bins, rank, late);
  const double least = least_late(bins, rank, rule);
  if (!(late.seconds >= least && late.seconds >= kClear * chance_of(bins, rank, late))) return std::nullopt;
  const std::vector<double>& smooth = bins.smooth[rank];
  const auto most = std::count_if(smooth.begin(), smooth.end(), [&](double each) { return each > late.seconds / 2; });
  if (static_cast<double>(most) < kMostBinsLate * static_cast<double>(bins.size())) return std::nullopt;
  const Looked looked = looked_at(bins, late);
  if (2 * looked.late < looked.calls) return std::nullopt;
  const double share = late.seconds * bins.calls(late.bins) / job_seconds;
  return share >= rule.threshold("min_cost") / 100 ? std::optional(std::move(late)) : std::nullopt;
}

double pace_inside(const Bins& bins, const Late& late) {
  return median_of({bins.pace.begin() + static_cast<std::ptrdiff_t>(late.bins.begin),
                    bins.pace.begin() + static_cast<std::ptrdiff_t>(late.bins.end)});
}

/// A rank enters a call after the others have entered the one before. Where a rank seems later than that, the numbers
/// are not those of the same calls, or the others do not wait.
bool is_possible(const Bins& bins, std::size_t rank, const Late& late) {
  constexpr double kTolerance = 1.05;
  constexpr double kClockSteps = 20e-6;  // s
  const RankLateness& its = bins.of->ranks[rank];
  double known = 0;
  double possible = 0;
  for (std::size_t call = bins.at[late.bins.begin].begin; call < bins.at[late.bins.end - 1].end; ++call) {
    if (std::isnan(its.gap[call]) || !(its.late[call] > 0)) continue;
    const double most = kTolerance * its.gap[call] + kClockErrors * its.clock_error + kClockSteps;
    known += 1;
    possible += its.late[call] <= most ? 1 : 0;
  }
  if (known > 0) return possible >= kPossible * known;
  return late.seconds <= kTolerance * pace_inside(bins, late);
}

/// The time that each call costs. Calls behind a long time without one are looked at more often than others: the pace
/// of all calls has no such error. Without a change of it, the others had to wait as long anyway.
double extra_of(const Bins& bins, const Late& late) {
  if (late.always) return late.seconds;
  return std::min(late.seconds, pace_inside(bins, late) - usual_of(bins.pace, late));
}

/// Calls that are put into a queue: a rank that waits for its GPU in each step, as to print a loss, is behind the
/// others anyway, and the more the longer all of them take.
bool is_behind_anyway(const Bins& bins, const Late& late, const EffectiveRule& rule) {
  if (late.always || call_ends_with(bins.of->function) != EndsWith::nothing) return false;
  const double longer = pace_inside(bins, late) / usual_of(bins.pace, late);
  const double expected = usual_of(bins.late[late.rank], late) * longer;
  return !(mean_inside(bins.late[late.rank], late.bins) - expected >= least_late(bins, late.rank, rule));
}

/// The ranks that are late by most of the same; nothing where this one is not the latest, where the others are not
/// together, as in a pipeline, or where they are fewer: a few are early then, and delay nobody.
std::optional<LateRanks> ranks_late_in(const Bins& bins, const Late& late, const EffectiveRule& rule) {
  constexpr double kSlower = 0.5;  // share of the least lateness
  LateRanks all{.bins = &bins, .of_latest = late, .extra = extra_of(bins, late), .ranks = {}};
  if (!(all.extra >= kSlower * rule.threshold("min_share") * usual_of(bins.pace, late))) return std::nullopt;
  if (is_behind_anyway(bins, late, rule)) return std::nullopt;
  const bool two = bins.ranks() == 2;
  for (std::size_t rank = 0; rank < bins.ranks(); ++rank) {
    const double excess = excess_of(bins, rank, late);
    if (std::isnan(excess)) continue;
    if (excess > late.seconds) return std::nullopt;
    if (excess >= kLateToo * late.seconds && excess >= least_late(bins, rank, rule)) {
      all.ranks.push_back(rank);
    } else if (!two && std::abs(excess) > kTogether * late.seconds + kClear * chance_of(bins, rank, late)) {
      return std::nullopt;
    }
  }
  const bool sure =
      std::all_of(all.ranks.begin(), all.ranks.end(), [&](std::size_t rank) { return is_possible(bins, rank, late); });
  const bool few = !all.ranks.empty() && 2 * all.ranks.size() <= bins.ranks();
  return sure && few ? std::optional(std::move(all)) : std::nullopt;
}

std::vector<LateRanks> late_ranks_of(const Bins& bins, const EffectiveRule& rule, double job_seconds) {
  std::vector<LateRanks> all;
  if (bins.size() < kFewestBins || !(bins.seconds({0, bins.size()}) > 0)) return all;
  for (std::size_t rank = 0; rank < bins.ranks(); ++rank) {
    std::vector<Late> times = onsets_of(bins, rank, rule);
    auto always = times.empty() ? always_late(bins, rank, rule, job_seconds) : std::nullopt;
    if (always) times.push_back(*std::move(always));
    for (const Late& late : times) {
      if (auto ranks = ranks_late_in(bins, late, rule)) all.push_back(*std::move(ranks));
    }
  }
  return all;
}

bool overlap_in_time(const LateRanks& a, const LateRanks& b) {
  const TimeSpan one = a.span();
  const TimeSpan other = b.span();
  const std::int64_t both = std::min(one.end_utc_ns, other.end_utc_ns) - std::max(one.begin_utc_ns, other.begin_utc_ns);
  const std::int64_t shorter = std::min(one.end_utc_ns - one.begin_utc_ns, other.end_utc_ns - other.begin_utc_ns);
  return both > shorter / 2;
}

std::string milliseconds(double seconds) {
  return quantity(seconds * 1e9, "ns");
}

/// "rank3 on n7 entered MPI_Allreduce 12 ms later than the middle rank in 812 of 900 recorded calls, from 12:01:05 to
/// 12:03:10 UTC (usually 0.1 ms)."
std::string sentence_of(const LateRanks& found, const Looked& looked) {
  const MatchedCollectives& matched = *found.bins->of;
  std::vector<std::string> names;
  for (const std::size_t rank : found.ranks) {
    names.push_back(fmt::format("{} on {}", matched.ranks[rank].rank, matched.ranks[rank].node));
  }
  const TimeSpan span = found.span();
  const std::string when =
      found.of_latest.always
          ? std::string("from the first to the last")
          : fmt::format("from {} to {} UTC (usually {})", clock_time(span.begin_utc_ns), clock_time(span.end_utc_ns),
                        looked.usual_seconds > 0 ? milliseconds(looked.usual_seconds) + " later" : "not later");
  return fmt::format(
      "{} entered {} {} later than the {} rank in {} of {} recorded calls, {}. The others waited for {}.",
      listed(names, 3), matched.function, milliseconds(looked.seconds), matched.ranks.size() == 2 ? "other" : "middle",
      number(static_cast<double>(looked.late)), number(static_cast<double>(looked.calls)), when,
      found.ranks.size() == 1 ? "it" : "them");
}

Finding describe(const LateRanks& found, const EffectiveRule& rule, double job_seconds) {
  const MatchedCollectives& matched = *found.bins->of;
  std::set<std::string> nodes;
  for (const std::size_t rank : found.ranks) nodes.emplace(matched.ranks[rank].node);
  Finding finding = rule.finding({nodes.begin(), nodes.end()});
  for (const std::size_t rank : found.ranks) finding.instances.emplace_back(matched.ranks[rank].rank);
  finding.intervals = {found.span()};
  finding.confidence = Confidence::likely;
  finding.severity = Severity::notice;
  finding.impact.seconds = found.lost();
  if (job_seconds > 0) finding.impact.percent = 100 * found.lost() / job_seconds;
  finding.impact.how =
      fmt::format("{} calls, {} for each", number(found.bins->calls(found.of_latest.bins)), milliseconds(found.extra));
  const Looked looked = looked_at(*found.bins, found.of_latest);
  const bool sure = static_cast<double>(looked.late) >= kAlmostAll * static_cast<double>(looked.calls) &&
                    call_ends_with(matched.function) == EndsWith::others;
  finding.impact.at_most = found.of_latest.always && !sure;
  finding.sentence = sentence_of(found, looked);
  const RankLateness& latest = matched.ranks[found.of_latest.rank];
  Evidence evidence;
  evidence.metric = "stack.calls";
  evidence.instance = fmt::format("{}/{}", latest.rank, matched.function);
  evidence.node = latest.node;
  evidence.feature = "entered later than the middle rank, mean of the calls";
  evidence.observed = four_digits((found.of_latest.seconds + looked.usual_seconds) * 1e9);
  evidence.expected = four_digits(looked.usual_seconds * 1e9);
  evidence.unit = "ns";
  evidence.span = finding.intervals.front();
  evidence.detectors = {Method::interval_search};
  finding.evidence.push_back(std::move(evidence));
  finding.runner_up = {"", found.of_latest.always
                               ? "a program that gives this rank more to do: that costs the same"
                               : "a part of the program in which this rank has more to do: look at what it does then"};
  return finding;
}

/// Values for the lines of the remedy: the late ranks, and the interval for a journal.
JobValues values_of(const LateRanks& found) {
  std::vector<std::string> ranks;
  ranks.reserve(found.ranks.size());
  for (const std::size_t rank : found.ranks) ranks.emplace_back(found.bins->of->ranks[rank].rank);
  const TimeSpan span = found.span();
  return {{"ranks", joined(ranks, ",")},
          {"begin", std::to_string(span.begin_utc_ns / kSecond)},
          {"end", std::to_string(span.end_utc_ns / kSecond + 1)}};
}

std::vector<JobFinding> check(const JobRuleContext& context, const EffectiveRule& rule) {
  const double job_seconds = context.job.seconds();
  const std::vector<MatchedCollectives> matched = match_collectives(context.ranks, context.end);
  std::vector<Bins> bins;
  bins.reserve(matched.size());
  for (const MatchedCollectives& each : matched) bins.push_back(bins_of(each));
  std::vector<LateRanks> all;
  for (const Bins& each : bins) {
    for (LateRanks& late : late_ranks_of(each, rule, job_seconds)) all.push_back(std::move(late));
  }
  std::stable_sort(all.begin(), all.end(), [](const LateRanks& a, const LateRanks& b) { return a.lost() > b.lost(); });
  std::vector<const LateRanks*> told;
  for (const LateRanks& late : all) {
    const bool known = std::any_of(told.begin(), told.end(), [&](const LateRanks* one) {
      return overlap_in_time(*one, late);  // the same on another communicator, or a rank that was late with it
    });
    if (!known && told.size() < kMostFindings) told.push_back(&late);
  }
  std::vector<JobFinding> findings;
  findings.reserve(told.size());
  for (const LateRanks* late : told) findings.emplace_back(describe(*late, rule, job_seconds), values_of(*late));
  return findings;
}

const RegisteredJobRule kLateRank(
    check,
    {
        .id = "stack.late_rank",
        .title = "The other ranks waited for a late one",
        .looks_for = "A rank that enters the collectives of a communicator later than the middle one of its ranks (the "
                     "table of collectives: --stack), for a while or from the first call to the last: by more than "
                     "three errors of the clocks, and by a part of the time from one call to the next.",
        .kind = FindingKind::peer,
        .states = Stated::difference,
        .subsystem = Subsystem::process,
        .order = 610,
        .look_alikes = "start-up, clocks that are off, a pipeline, calls for which nobody waits, a part of the program "
                       "that comes again and again",
        .proof = Proof::real,
        .names_place = true,
        .thresholds = {{"min_share", 0.1, "ratio", "least lateness, relative to the time from one call to the next"},
                       {"min_late", 0.1, "ms", "least lateness"},
                       {"min_seconds", 10, "s", "shortest interval"},
                       {"min_cost", 10, "%",
                        "least cost, in the time of the job, of a rank that is late from the first to the last call"}},
        .user_remedy = {{"for p in $(pgrep -u \"$USER\" -x {process}); do py-spy dump --pid $p; done   # on {node}, in "
                         "the next run, with py-spy of PyPI (it needs kernel.yama.ptrace_scope=0): the line that each "
                         "rank executes",
                         "python"},
                        {"for p in $(pgrep -u \"$USER\" -x {process}); do eu-stack -p $p; done   # on {node}, in the "
                         "next run, with the package elfutils (it needs kernel.yama.ptrace_scope=0): the function that "
                         "each rank executes",
                         "!python"},
                        "ps -eo pid,user,psr,pcpu,comm --sort=-pcpu | head -15   # on {node}, in the next run: other "
                        "processes on the cpus (column psr) of {ranks}"},
        .advice = {"Compare the work of {ranks} on {nodes} with that of the other ranks: its part of the data, and the "
                   "files that only it reads or writes. If it has the same work, look for other processes on its cpus, "
                   "a low clock, a quota or slow files on {nodes}.",
                   {"Run the job once with #SBATCH --exclude={nodes}: if a rank on another node is late then, the "
                    "program is the cause.",
                    "job,peer"}},
        .admin_remedy = {"journalctl -S @{begin} -U @{end}   # on {nodes}: messages of the kernel and of services at "
                         "that time",
                         "Look at {nodes} in that interval: clocks, throttling, leftover processes, quotas, network."},
        .verify = {.expected = "no rank is late by as much"},
        .sources = {"https://arxiv.org/abs/2410.12588"},
    });

}  // namespace
}  // namespace reveal::rule::late_rank
