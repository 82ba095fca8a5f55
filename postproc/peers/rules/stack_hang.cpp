// All ranks stand still at once: some wait in a collective that another one has not entered, or all are inside and
// nothing comes. To the end of the job that is a hang, else a stall. Times between two collectives in which a rank
// computes, loads or saves are the job's own.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "hdf5schema/basics/clocks.h"
#include "postproc/numerics/median.h"
#include "postproc/peers/job_rule.h"
#include "postproc/peers/matched_calls.h"
#include "postproc/telemetry/call_facts.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"
#include "postproc/words/times.h"

namespace reveal::rule::stack_hang {
namespace {

constexpr double kShortest = 5;  // s
constexpr std::size_t kMostNames = 3;
constexpr std::int64_t kMostPossible = INT64_MAX / 4;  // a summary may hold anything

struct Rank {
  std::string_view node;
  const RankCalls* of = nullptr;

  [[nodiscard]] std::string name() const { return fmt::format("{} on {}", of->rank, node); }
};

/// All others that did not end soon after this process went on for long without it. One that has waited since may wait
/// for it.
bool is_long_ended(const Rank& rank, const std::vector<Rank>& ranks) {
  constexpr std::int64_t kLong = 600 * kSecond;
  const std::int64_t ended = rank.of->quiet.empty() ? 0 : rank.of->quiet.back().process_ended_utc_ns;
  if (ended <= 0) return false;
  bool any = false;
  for (const Rank& other : ranks) {
    if (other.of->quiet.empty()) continue;
    const QuietTime& last = other.of->quiet.back();
    const bool with_it = last.process_ended_utc_ns > 0 && last.process_ended_utc_ns - kLong <= ended;
    if (with_it) continue;
    if (std::max<std::int64_t>(0, last.begin_utc_ns) - kLong <= ended) return false;
    any = true;
  }
  return any;
}

/// The others wait for none of these.
void leave_out_long_ended(std::vector<Rank>& ranks) {
  const std::vector<Rank> all = ranks;
  std::erase_if(ranks, [&all](const Rank& rank) { return is_long_ended(rank, all); });
}

/// Without processes that make a few collectives beside the job, as to try out a library. A rank that made none belongs
/// to the others only while they have made some: the first ones of a job are made by all.
std::vector<Rank> ranks_of(const JobRuleContext& context) {
  constexpr double kFew = 0.1;  // share of the calls of the middle rank
  constexpr double kFirst = 10;
  std::vector<Rank> ranks;
  for (const NodeRanks& node : context.ranks) {
    for (const RankCalls& rank : node.calls.ranks) ranks.push_back({node.node, &rank});
  }
  std::vector<double> calls;
  calls.reserve(ranks.size());
  for (const Rank& rank : ranks) {
    if (rank.of->calls != 0) calls.push_back(static_cast<double>(rank.of->calls));
  }
  if (calls.empty()) return {};
  const double middle = median_of(std::move(calls));
  std::erase_if(ranks, [middle](const Rank& rank) {
    return rank.of->calls == 0 ? middle > kFirst : static_cast<double>(rank.of->calls) < kFew * middle;
  });
  leave_out_long_ended(ranks);
  return ranks;
}

/// Nodes of the job that may have ranks without a recorded call.
std::vector<std::string> unrecorded_nodes(const JobRuleContext& context) {
  std::vector<std::string> nodes(context.nodes_missing.begin(), context.nodes_missing.end());
  for (const NodeRanks& node : context.ranks) {
    if (node.calls.ranks.empty()) nodes.emplace_back(node.node);
  }
  return nodes;
}

/// No rank called anything that waits for others.
struct Standstill {
  std::int64_t begin_utc_ns = 0, end_utc_ns = 0;
  bool to_the_end = true;
  std::vector<const QuietTime*> of_rank;

  [[nodiscard]] double seconds() const { return static_cast<double>(end_utc_ns - begin_utc_ns) * 1e-9; }
};

bool is_possible(const QuietTime& quiet) {
  return quiet.begin_utc_ns > 0 && quiet.begin_utc_ns < quiet.end_utc_ns && quiet.end_utc_ns < kMostPossible * 2;
}

std::int64_t overlap(const QuietTime& a, const QuietTime& b) {
  return std::min(a.end_utc_ns, b.end_utc_ns) - std::max(a.begin_utc_ns, b.begin_utc_ns);
}

/// No standstill if one of the ranks made progress.
std::optional<Standstill> standstill_at(const std::vector<Rank>& ranks, const QuietTime& of_one) {
  Standstill all{.begin_utc_ns = of_one.begin_utc_ns, .end_utc_ns = of_one.end_utc_ns, .of_rank = {}};
  all.of_rank.reserve(ranks.size());
  for (const Rank& rank : ranks) {
    const QuietTime* nearest = nullptr;
    for (const QuietTime& quiet : rank.of->quiet) {
      if (!is_possible(quiet)) continue;
      if (nearest == nullptr || overlap(quiet, of_one) > overlap(*nearest, of_one)) nearest = &quiet;
    }
    if (nearest == nullptr || overlap(*nearest, of_one) <= 0) return std::nullopt;
    all.begin_utc_ns = std::max(all.begin_utc_ns, nearest->begin_utc_ns);
    all.end_utc_ns = std::min(all.end_utc_ns, nearest->end_utc_ns);
    all.to_the_end = all.to_the_end && nearest->to_the_end;
    all.of_rank.push_back(nearest);
  }
  return all.seconds() >= kShortest ? std::optional(std::move(all)) : std::nullopt;
}

std::vector<Standstill> standstills_of(const std::vector<Rank>& ranks) {
  std::vector<Standstill> all;
  const auto fewest = std::min_element(
      ranks.begin(), ranks.end(), [](const Rank& a, const Rank& b) { return a.of->quiet.size() < b.of->quiet.size(); });
  if (fewest == ranks.end()) return all;
  for (const QuietTime& quiet : fewest->of->quiet) {
    if (!is_possible(quiet)) continue;
    if (auto one = standstill_at(ranks, quiet)) all.push_back(*std::move(one));
  }
  return all;
}

/// The longest of the other ones shows how long the job's ranks are quiet anyway.
double longest_but(const std::vector<Standstill>& all, const Standstill& one) {
  double longest = 0;
  for (const Standstill& other : all) {
    if (&other != &one) longest = std::max(longest, other.seconds());
  }
  return longest;
}

std::int64_t calls_of(const QuietTime& quiet, std::string_view function) {
  for (const FunctionCalls& each : quiet.calls) {
    if (each.function == function) return std::clamp<std::int64_t>(each.calls, 0, kMostPossible);
  }
  return 0;
}

std::int64_t collectives_of(const QuietTime& quiet) {
  std::int64_t sum = 0;
  for (const FunctionCalls& each : quiet.calls) {
    if (is_collective(each.function)) sum = std::min(kMostPossible, sum + calls_of(quiet, each.function));
  }
  return sum;
}

/// By how many collectives each rank was behind the first one, in a part of the seconds before they stood still: in the
/// best of these, since a rank that is waited for is behind most of the time. Calls are counted from the moment on in
/// which a rank was found, which need not be the same.
std::vector<std::int64_t> least_behind(const Standstill& all, std::int64_t begin_s, std::int64_t end_s) {
  std::vector<std::vector<std::int64_t>> calls;
  calls.reserve(all.of_rank.size());
  for (const QuietTime* quiet : all.of_rank) calls.push_back(calls_before(*quiet));
  std::vector<std::int64_t> least(all.of_rank.size(), kMostPossible);
  for (std::int64_t second = begin_s; second < end_s; ++second) {
    std::int64_t most = 0;
    const auto at = [&](std::size_t rank) {
      return calls[rank][static_cast<std::size_t>(second - all.of_rank[rank]->before_utc_s)];
    };
    for (std::size_t r = 0; r < calls.size(); ++r) most = std::max(most, at(r));
    for (std::size_t r = 0; r < calls.size(); ++r) least[r] = std::min(least[r], most - at(r));
  }
  return least;
}

/// How many collectives fewer than the first one each rank has made, beyond what was so before; nothing where ranks do
/// not work in step, or where too little is known of the time before.
std::optional<std::vector<std::int64_t>> missing_collectives(const Standstill& all) {
  constexpr std::int64_t kLeastSeconds = 8;
  std::int64_t begin_s = 0;
  std::int64_t end_s = kMostPossible;
  for (const QuietTime* quiet : all.of_rank) {
    if (quiet->before_utc_s <= 0 || quiet->before_utc_s >= kMostPossible) return std::nullopt;
    begin_s = std::max(begin_s, quiet->before_utc_s);
    end_s = std::min(end_s, quiet->before_utc_s + std::ssize(calls_before(*quiet)));
  }
  if (end_s - begin_s < kLeastSeconds) return std::nullopt;
  const std::int64_t middle_s = (begin_s + end_s) / 2;
  const std::vector<std::int64_t> early = least_behind(all, begin_s, middle_s);
  const std::vector<std::int64_t> late = least_behind(all, middle_s, end_s);
  std::int64_t most = 0;
  for (const QuietTime* quiet : all.of_rank) most = std::max(most, collectives_of(*quiet));
  std::vector<std::int64_t> missing;
  missing.reserve(all.of_rank.size());
  for (std::size_t r = 0; r < all.of_rank.size(); ++r) {
    if (std::abs(early[r] - late[r]) > 1) return std::nullopt;
    missing.push_back(std::max<std::int64_t>(0, most - collectives_of(*all.of_rank[r]) - late[r]));
  }
  return missing;
}

enum class Kind : std::uint8_t { rank_absent, calls_differ, none_came_back };

struct Waiting {
  Kind kind = Kind::none_came_back;
  std::vector<std::size_t> absent;  // ranks for which the others wait
  std::vector<std::size_t> present;
  bool counted = false;                                    // by their calls
  bool gpu = false;                                        // they wait for their GPUs, which may work
  std::string function;                                    // in which they wait; "": not known
  std::string absent_is_ahead_in;                          // calls that differ
  bool matched = false;                                    // by communicators: the calls are known one by one
  std::optional<CommunicatorCall> call = {}, others = {};  // by those present; by those absent, if they differ
  std::vector<std::int64_t> calls_made = {};               // on the communicator, by rank; empty or -1: not known
};

/// Whether the process ended before the middle of the standstill, and not only when the job was ended.
bool process_ended(const Standstill& all, const QuietTime& quiet) {
  return quiet.process_ended_utc_ns > 0 &&
         quiet.process_ended_utc_ns < all.begin_utc_ns + (all.end_utc_ns - all.begin_utc_ns) / 2;
}

bool is_inside(const QuietTime& quiet) {
  return waits_for_ranks(quiet.inside);
}

/// The collective of which those present have made more than the others; else the one that they called last.
std::string awaited(const Standstill& all, const std::vector<std::size_t>& present,
                    const std::vector<std::size_t>& absent) {
  std::map<std::string, std::int64_t> votes;
  for (const std::size_t rank : present) ++votes[all.of_rank[rank]->last];
  votes.erase("");
  for (auto& [function, count] : votes) {
    const bool more = std::any_of(absent.begin(), absent.end(), [&, name = function](std::size_t rank) {
      return calls_of(*all.of_rank[rank], name) < calls_of(*all.of_rank[present.front()], name);
    });
    if (more) count += std::ssize(all.of_rank);
  }
  const auto most =
      std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == votes.end() ? "" : most->first;
}

/// Two groups of ranks, each of which made one collective that the other did not make.
std::optional<Waiting> differing_calls(const Standstill& all) {
  constexpr std::int64_t kMostApart = 4;
  std::set<std::string> functions;
  for (const QuietTime* quiet : all.of_rank) {
    for (const FunctionCalls& each : quiet->calls) {
      if (is_collective(each.function)) functions.insert(each.function);
    }
  }
  std::vector<std::pair<std::string, std::vector<std::size_t>>> ahead;  // the ranks that have made more of them
  for (const std::string& function : functions) {
    std::int64_t least = kMostPossible;
    std::int64_t most = 0;
    for (const QuietTime* quiet : all.of_rank) {
      least = std::min(least, calls_of(*quiet, function));
      most = std::max(most, calls_of(*quiet, function));
    }
    if (most == least) continue;
    if (most - least > kMostApart) return std::nullopt;
    ahead.emplace_back(function, std::vector<std::size_t>{});
    for (std::size_t r = 0; r < all.of_rank.size(); ++r) {
      if (calls_of(*all.of_rank[r], function) == most) ahead.back().second.push_back(r);
    }
  }
  if (ahead.size() != 2) return std::nullopt;
  if (ahead[0].second.size() < ahead[1].second.size()) std::swap(ahead[0], ahead[1]);
  const std::vector<std::size_t>& more = ahead[0].second;
  const std::vector<std::size_t>& fewer = ahead[1].second;
  const bool apart = std::none_of(fewer.begin(), fewer.end(), [&more](std::size_t rank) {
    return std::find(more.begin(), more.end(), rank) != more.end();
  });
  if (!apart || more.size() + fewer.size() != all.of_rank.size()) return std::nullopt;
  return Waiting{.kind = Kind::calls_differ,
                 .absent = fewer,
                 .present = more,
                 .counted = true,
                 .function = ahead[0].first,
                 .absent_is_ahead_in = ahead[1].first};
}

Waiting waiting_by(MatchedCalls matched) {
  const bool differ = matched.others.has_value();
  return {.kind = differ ? Kind::calls_differ : Kind::rank_absent,
          .absent = std::move(matched.absent),
          .present = std::move(matched.present),
          .counted = true,
          .function = matched.call ? matched.call->function : "",
          .absent_is_ahead_in = differ ? matched.others->function : "",
          .matched = true,
          .call = std::move(matched.call),
          .others = std::move(matched.others),
          .calls_made = std::move(matched.calls)};
}

/// For other ranks, or for its GPU.
bool waits_itself(const QuietTime& quiet) {
  return is_inside(quiet) || call_facts(quiet.inside).role == CallRole::waits_for_gpu;
}

/// A rank that is behind and waits itself, as for a message, need not be the cause.
Waiting waiting_by_numbers(const Standstill& all, MatchedCalls matched) {
  Waiting waiting = waiting_by(std::move(matched));
  const bool sure = waiting.kind == Kind::calls_differ ||
                    std::none_of(waiting.absent.begin(), waiting.absent.end(),
                                 [&all](std::size_t rank) { return waits_itself(*all.of_rank[rank]); });
  waiting.matched = waiting.counted = sure;
  return waiting;
}

/// The ranks for which the others wait; nothing if it is not known that they wait.
std::optional<Waiting> find_waiting(const Standstill& all) {
  if (auto matched = match_numbered_calls(all.of_rank)) return waiting_by_numbers(all, *std::move(matched));
  const auto missing = missing_collectives(all);
  const bool any_inside =
      std::any_of(all.of_rank.begin(), all.of_rank.end(), [](const auto* each) { return is_inside(*each); });
  Waiting waiting;
  waiting.counted = missing.has_value();
  for (std::size_t r = 0; r < all.of_rank.size(); ++r) {
    const QuietTime& quiet = *all.of_rank[r];
    const bool behind = missing ? (*missing)[r] > 0 : any_inside && quiet.timed && !is_inside(quiet);
    (process_ended(all, quiet) || behind ? waiting.absent : waiting.present).push_back(r);
  }
  if (waiting.present.empty()) return std::nullopt;
  const auto all_present = [&](auto holds) {
    return std::all_of(waiting.present.begin(), waiting.present.end(),
                       [&](std::size_t rank) { return holds(*all.of_rank[rank]); });
  };
  if (!waiting.absent.empty()) {
    // A process that has ended may have been done: the others must be known to wait.
    const bool waits =
        missing ? std::any_of(missing->begin(), missing->end(), [](auto each) { return each > 0; }) : any_inside;
    if (!waits && !any_inside) return std::nullopt;
    waiting.kind = Kind::rank_absent;
    waiting.function = awaited(all, waiting.present, waiting.absent);
    return waiting;
  }
  // A rank that is outside of all calls does not wait: then different numbers of calls are the program's own.
  const auto outside = [](const QuietTime* quiet) { return quiet->timed && !waits_itself(*quiet); };
  if (std::none_of(all.of_rank.begin(), all.of_rank.end(), outside)) {
    auto differing = missing ? differing_calls(all) : std::nullopt;
    if (differing) return differing;
    if (auto matched = match_sizes(all.of_rank)) return waiting_by(*std::move(matched));
  }
  if (all.of_rank.size() < 2 || !all_present(waits_itself)) return std::nullopt;
  waiting.gpu = !all_present(is_inside);
  waiting.function = waiting.gpu ? all.of_rank.front()->inside : awaited(all, waiting.present, {});
  return waiting;
}

std::optional<Waiting> waiting_in(const Standstill& all) {
  auto waiting = find_waiting(all);
  if (!waiting || waiting->matched || waiting->kind == Kind::calls_differ) return waiting;
  auto call = common_call(all.of_rank, waiting->present);
  if (call && (waiting->gpu || call->function == waiting->function)) waiting->call = std::move(call);
  const bool numbered = !waiting->calls_made.empty();
  if (waiting->kind == Kind::rank_absent && !numbered && waiting->call &&
      are_all_members(all.of_rank, waiting->present)) {
    // The others are no members: these ranks wait for nobody, or all of them in one call.
    const bool all_inside = std::all_of(waiting->present.begin(), waiting->present.end(),
                                        [&](std::size_t rank) { return is_inside(*all.of_rank[rank]); });
    if (!all_inside || waiting->present.size() < 2) return std::nullopt;
    waiting->kind = Kind::none_came_back;
    waiting->absent.clear();
  }
  return waiting;
}

/// Whether the rank computes, reads or writes: the others wait for it as they always do.
bool is_busy(const Standstill& all, const QuietTime& quiet, double least_cpus) {
  constexpr double kLeastBytes = 1e6;  // a second
  constexpr double kLeastCalls = 0.2;  // a second
  if (process_ended(all, quiet)) return false;
  return !quiet.cpus || *quiet.cpus >= least_cpus || quiet.job_cpus.value_or(0) >= least_cpus ||
         quiet.io_bytes.value_or(0) >= kLeastBytes * quiet.seconds() ||
         static_cast<double>(quiet.other_calls) >= kLeastCalls * quiet.seconds();
}

/// For `ratio` times `seconds`, each rank went on, and no gap between its collectives was so long that a wait of
/// `seconds` would be less than `ratio` times as long.
bool was_steady(const Standstill& all, double seconds, double ratio) {
  return std::all_of(all.of_rank.begin(), all.of_rank.end(), [&](const QuietTime* quiet) {
    const std::vector<std::int64_t> calls = calls_before(*quiet);
    const auto first = std::find_if(calls.begin(), calls.end(), [](std::int64_t count) { return count > 0; });
    if (static_cast<double>(calls.end() - first) < ratio * seconds) return false;
    auto last = first;  // when there was a new one
    for (auto second = first; second != calls.end(); ++second) {
      if (*second > *last) last = second;
      if (static_cast<double>(second - last) * ratio > seconds) return false;
    }
    return true;
  });
}

bool trains(const std::vector<Rank>& ranks) {
  return std::any_of(ranks.begin(), ranks.end(), [](const Rank& rank) { return rank.of->passes > 0; });
}

/// In the report of a job, some seconds at its end may be those in which it was ended. In one that goes on, a hang can
/// be told sooner, if the pace of the job is known.
double shortest_hang(const JobRuleContext& context, const EffectiveRule& rule, const std::vector<Rank>& ranks,
                     const Standstill& last, const Waiting& waiting) {
  const double shortest = rule.threshold("min_seconds");
  const double live = std::min(shortest, rule.threshold("min_live_seconds"));
  const bool any_inside =
      std::any_of(last.of_rank.begin(), last.of_rank.end(), [](const QuietTime* quiet) { return is_inside(*quiet); });
  // In a service, numbers of calls alone do not show that the ranks wait for each other.
  const bool waits = any_inside || trains(ranks);
  const bool sure = waiting.kind != Kind::calls_differ || waiting.matched;
  const bool soon =
      context.goes_on && waiting.counted && waits && sure && was_steady(last, live, rule.threshold("min_ratio"));
  return soon ? live : shortest;
}

/// PyTorch without a training: all ranks wait for the one to which requests come.
bool serves(const std::vector<Rank>& ranks, const Standstill& all) {
  return !trains(ranks) && std::any_of(all.of_rank.begin(), all.of_rank.end(), [](const QuietTime* quiet) {
    return std::any_of(quiet->calls.begin(), quiet->calls.end(), [](const FunctionCalls& each) {
      return call_facts(each.function).library == CallLibrary::gloo;
    });
  });
}

/// Whether the ranks may wait for a request, which comes when it comes.
bool may_be_idle(const std::vector<Rank>& ranks, const Standstill& all, const Waiting& waiting) {
  return waiting.kind == Kind::rank_absent && serves(ranks, all) &&
         std::none_of(waiting.absent.begin(), waiting.absent.end(),
                      [&](std::size_t rank) { return process_ended(all, *all.of_rank[rank]); });
}

/// Ranks of MPI that wait for the next order of one of them, as of a program with a prompt, do so in these.
bool may_wait_for_orders(const std::vector<Rank>& ranks, const Standstill& all, const Waiting& waiting) {
  constexpr std::string_view kFromOne[] = {"MPI_Bcast", "MPI_Ibcast", "MPI_Scatter", "MPI_Scatterv"};
  return waiting.kind == Kind::rank_absent && waiting.absent.size() == 1 && !trains(ranks) &&
         !process_ended(all, *all.of_rank[waiting.absent.front()]) &&
         std::find(std::begin(kFromOne), std::end(kFromOne), waiting.function) != std::end(kFromOne);
}

bool may_work(const Standstill& all, const Waiting& waiting, double least_cpus) {
  const auto is_at_work = [&](std::size_t rank) { return is_busy(all, *all.of_rank[rank], least_cpus); };
  if (waiting.gpu) return true;
  if (waiting.kind == Kind::rank_absent) return std::any_of(waiting.absent.begin(), waiting.absent.end(), is_at_work);
  if (waiting.kind == Kind::none_came_back) {
    // A collective of much data takes long: the cpus move it, and ranks that stand still in one use none.
    return call_facts(waiting.function).library == CallLibrary::gloo &&
           std::any_of(waiting.present.begin(), waiting.present.end(),
                       [&](std::size_t rank) { return all.of_rank[rank]->cpus.value_or(0) >= least_cpus; });
  }
  if (waiting.matched) return false;
  // By their numbers alone, these may be calls on different communicators, as of MPI, after which the ranks compute.
  const auto may_compute = [&](std::size_t rank) { return !all.of_rank[rank]->timed && is_at_work(rank); };
  return std::any_of(waiting.present.begin(), waiting.present.end(), may_compute) ||
         std::any_of(waiting.absent.begin(), waiting.absent.end(), may_compute);
}

/// Ranks of the communicator without recorded calls: of many processes of a node, not all are measured one by one.
std::int64_t ranks_not_recorded(const std::vector<Rank>& ranks, const Waiting& waiting) {
  return waiting.call ? std::max<std::int64_t>(0, waiting.call->ranks - std::ssize(ranks)) : 0;
}

/// Nodes on which a process of the job was in state T meanwhile.
std::vector<std::string> stopped_on(const std::vector<Rank>& ranks, const Standstill& all) {
  constexpr double kMostly = 0.5;  // part of the time
  std::set<std::string> nodes;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (all.of_rank[r]->stopped.value_or(0) >= kMostly) nodes.emplace(ranks[r].node);
  }
  return {nodes.begin(), nodes.end()};
}

class Words {
 public:
  Words(const std::vector<Rank>& ranks, const Standstill& all, const Waiting& waiting,
        const std::vector<std::string>& unrecorded)
      : ranks_(ranks), all_(all), waiting_(waiting), unrecorded_(unrecorded) {}

  [[nodiscard]] std::string names(const std::vector<std::size_t>& some) const {
    std::vector<std::string> names;
    names.reserve(some.size());
    for (const std::size_t rank : some) names.push_back(ranks_[rank].name());
    return listed(names, kMostNames);
  }

  /// "rank0 on n1 waited in gloo.allreduce (80 bytes, on communicator 1 with 2 ranks) for rank1 on n2, which did not
  /// enter it and used 0.01 cpus."
  [[nodiscard]] std::string whom() const { return who_waited() + stopped(); }

 private:
  [[nodiscard]] std::string who_waited() const {
    const std::string call = named_call();
    switch (waiting_.kind) {
      case Kind::calls_differ:
        return fmt::format("{} called {}, and {} called {}{}: each waits for the others", names(waiting_.present), call,
                           names(waiting_.absent), waiting_.absent_is_ahead_in,
                           waiting_.others ? details_of(*waiting_.others) : "");
      case Kind::rank_absent:
        return fmt::format("{} waited in {} for {}, {}", names(waiting_.present), call, names(waiting_.absent),
                           about_absent());
      case Kind::none_came_back:
        break;
    }
    const std::string last =
        waiting_.gpu && waiting_.call
            ? fmt::format("; their last collective was {}{}", waiting_.call->function, details_of(*waiting_.call))
            : "";
    const std::int64_t others = ranks_not_recorded(ranks_, waiting_);
    if (unrecorded_.empty() && others > 0) {
      return fmt::format(
          "all {} recorded ranks were in {}, and it did not end{}; {} other{} of the communicator {} not "
          "recorded",
          waiting_.present.size(), call, last, others, others == 1 ? "" : "s", others == 1 ? "was" : "were");
    }
    if (unrecorded_.empty())
      return fmt::format("all {} ranks were in {}, and it did not end{}", waiting_.present.size(), call, last);
    return fmt::format("all {} recorded ranks were in {}, and it did not end{}; {} not recorded",
                       waiting_.present.size(), call, last,
                       unrecorded_.size() == 1 ? "the ranks of " + unrecorded_.front() + " were"
                                               : "those of " + node_list(unrecorded_) + " were");
  }

  [[nodiscard]] std::string stopped() const {
    const std::vector<std::string> nodes = stopped_on(ranks_, all_);
    return nodes.empty()
               ? ""
               : fmt::format("; on {}, a signal or a debugger had stopped a process of the job", node_list(nodes));
  }

  [[nodiscard]] std::string named_call() const {
    if (waiting_.function.empty()) return "a collective";
    const bool known = waiting_.call && waiting_.call->function == waiting_.function;
    return waiting_.function + (known ? details_of(*waiting_.call) : "");
  }

  [[nodiscard]] std::string about_absent() const {
    std::vector<const QuietTime*> ended;
    std::vector<const QuietTime*> there;
    for (const std::size_t rank : waiting_.absent) {
      const QuietTime& quiet = *all_.of_rank[rank];
      (process_ended(all_, quiet) ? ended : there).push_back(&quiet);
    }
    if (ended.empty()) return "which " + about_present(there);
    if (there.empty()) {
      return fmt::format("whose process{} ended{}", ended.size() > 1 ? "es" : "", since(ended));
    }
    return fmt::format("of which {} ended{} and {} {}", ended.size(), since(ended), there.size(), about_present(there));
  }

  /// ", the first at 22:14:42 UTC"
  [[nodiscard]] static std::string since(const std::vector<const QuietTime*>& ended) {
    std::int64_t first = kMostPossible;
    for (const QuietTime* quiet : ended) first = std::min(first, quiet->process_ended_utc_ns);
    return fmt::format("{} at {} UTC", ended.size() > 1 ? ", the first" : "", clock_time(first));
  }

  /// Absent ranks whose processes are there.
  [[nodiscard]] std::string about_present(const std::vector<const QuietTime*>& there) const {
    std::string text = all_.to_the_end ? "did not enter it" : "entered it only then";
    std::optional<double> most = 0;
    for (const QuietTime* quiet : there)
      most = most && quiet->cpus ? std::optional(std::max(*most, *quiet->cpus)) : std::nullopt;
    if (most)
      text +=
          fmt::format(" and {} {} meanwhile", there.size() > 1 ? "each used at most" : "used", quantity(*most, "cpus"));
    const std::string& inside = there.front()->inside;
    const bool same =
        std::all_of(there.begin(), there.end(), [&](const QuietTime* quiet) { return quiet->inside == inside; });
    if (same && !inside.empty()) text += fmt::format(" ({} in {})", there.size() > 1 ? "they were" : "it was", inside);
    return text;
  }

  const std::vector<Rank>& ranks_;
  const Standstill& all_;
  const Waiting& waiting_;
  const std::vector<std::string>& unrecorded_;
};

Evidence evidence_of(const Rank& rank, const Standstill& all, std::string metric, std::string instance,
                     std::string feature, double observed, std::optional<double> expected, std::string unit) {
  Evidence evidence;
  evidence.metric = std::move(metric);
  evidence.instance = std::move(instance);
  evidence.node = rank.node;
  evidence.feature = std::move(feature);
  evidence.observed = observed;
  evidence.expected = expected;
  evidence.unit = std::move(unit);
  evidence.span = {all.begin_utc_ns, all.end_utc_ns};
  evidence.detectors = {Method::kernel_counter};
  return evidence;
}

void add_evidence(const std::vector<Rank>& ranks, const Standstill& all, const Waiting& waiting, Finding& finding) {
  const auto made = [&](std::size_t rank) { return rank < waiting.calls_made.size() ? waiting.calls_made[rank] : -1; };
  const bool numbered = !waiting.absent.empty() && made(waiting.absent.front()) >= 0;
  const auto calls = [&](std::size_t rank) {
    return static_cast<double>(numbered ? made(rank) : collectives_of(*all.of_rank[rank]));
  };
  const std::string of_calls = numbered ? "calls on the communicator until then" : "collectives until then";
  for (std::size_t i = 0; i < std::min(kMostNames, waiting.absent.size()); ++i) {
    const std::size_t rank = waiting.absent[i];
    const QuietTime& quiet = *all.of_rank[rank];
    const std::string& name = ranks[rank].of->rank;
    if (waiting.others && waiting.others->bytes >= 0 && waiting.call->bytes >= 0) {
      finding.evidence.push_back(evidence_of(ranks[rank], all, "stack.bytes", name + '/' + waiting.others->function,
                                             "bytes of the call", static_cast<double>(waiting.others->bytes),
                                             static_cast<double>(waiting.call->bytes), "bytes"));
    }
    finding.evidence.push_back(evidence_of(ranks[rank], all, "stack.calls", name, of_calls, calls(rank),
                                           calls(waiting.present.front()), "count"));
    if (quiet.cpus && !process_ended(all, quiet)) {
      finding.evidence.push_back(evidence_of(ranks[rank], all, "process.cpu_time", ranks[rank].of->rank, "mean",
                                             four_digits(*quiet.cpus), std::nullopt, "cpus"));
    }
  }
  for (std::size_t i = 0; i < std::min(kMostNames, waiting.present.size()); ++i) {
    const Rank& rank = ranks[waiting.present[i]];
    const QuietTime& quiet = *all.of_rank[waiting.present[i]];
    if (quiet.inside.empty()) {
      finding.evidence.push_back(evidence_of(rank, all, "stack.calls", rank.of->rank, of_calls,
                                             calls(waiting.present[i]), std::nullopt, "count"));
    } else {
      finding.evidence.push_back(evidence_of(rank, all, "stack.in_flight", rank.of->rank + '/' + quiet.inside,
                                             "longest", four_digits(quiet.inside_seconds * 1e9), std::nullopt, "ns"));
    }
  }
}

/// The positions of Python threads: of the ranks for which the others wait, and of one of the others.
void add_places(const std::vector<Rank>& ranks, const Standstill& all, const Waiting& waiting, Finding& finding) {
  std::vector<std::size_t> asked = waiting.absent;
  asked.resize(std::min(asked.size(), kMostNames));
  asked.push_back(waiting.present.front());
  for (const std::size_t rank : asked) {
    const std::string& place = all.of_rank[rank]->place;
    if (!place.empty())
      finding.main_threads.push_back(fmt::format("the main thread of {} was in {}", ranks[rank].name(), place));
  }
}

JobValues values_of(const std::vector<Rank>& ranks, const Standstill& all, const Waiting& waiting) {
  JobValues values{{"begin", std::to_string(all.begin_utc_ns / kSecond)},
                   {"end", std::to_string(all.end_utc_ns / kSecond + 1)}};
  if (trains(ranks)) values["torch"] = "yes";
  for (const QuietTime* quiet : all.of_rank) {
    if (!quiet->place.empty()) values["python"] = "yes";
    for (const FunctionCalls& each : quiet->calls) {
      const CallLibrary library = call_facts(each.function).library;
      if (library == CallLibrary::nccl) values["nccl"] = "yes";
      if (library == CallLibrary::gloo) values["torch"] = "yes";
    }
  }
  if (values.contains("torch")) values["python"] = "yes";
  if (waiting.kind == Kind::calls_differ) values["differing_calls"] = "yes";
  // A rank that is stopped inside keeps the others there: neither the network nor a GPU is needed for that.
  if (waiting.kind == Kind::none_came_back && stopped_on(ranks, all).empty()) values["all_inside"] = "yes";
  std::vector<std::string> ended;
  for (const std::size_t rank : waiting.absent) {
    if (process_ended(all, *all.of_rank[rank])) ended.push_back(ranks[rank].of->rank);
  }
  if (!ended.empty()) values["ended"] = joined(ended, ",");
  return values;
}

Finding describe(const JobRuleContext& context, const EffectiveRule& rule, const std::vector<Rank>& ranks,
                 const Standstill& all, const Waiting& waiting) {
  std::set<std::string> nodes;
  const bool named = waiting.kind == Kind::rank_absent;
  for (const std::size_t rank : named ? waiting.absent : waiting.present) nodes.emplace(ranks[rank].node);
  for (const std::size_t rank : waiting.absent) nodes.emplace(ranks[rank].node);
  const std::vector<std::string> stopped = stopped_on(ranks, all);
  if (waiting.kind == Kind::none_came_back && !stopped.empty()) nodes = {stopped.begin(), stopped.end()};
  Finding finding = rule.finding({nodes.begin(), nodes.end()});
  for (const std::size_t rank : waiting.absent) finding.instances.push_back(ranks[rank].of->rank);
  finding.intervals = {{all.begin_utc_ns, all.end_utc_ns}};
  const double job = context.job.seconds();
  finding.impact.seconds = all.seconds();
  if (job > 0) finding.impact.percent = 100 * all.seconds() / job;
  finding.impact.how = "time in which no rank called anything that waits for other ranks";
  add_evidence(ranks, all, waiting, finding);
  add_places(ranks, all, waiting, finding);
  finding.runner_up = {"", waiting.kind == Kind::rank_absent
                               ? "a checkpoint, a validation or a compilation: the rank would have used a cpu or files"
                               : "a long computation between two collectives: the ranks were inside of one"};
  return finding;
}

std::vector<JobFinding> check_hang(const JobRuleContext& context, const EffectiveRule& rule) {
  const std::vector<Rank> ranks = ranks_of(context);
  const std::vector<Standstill> all = standstills_of(ranks);
  const auto last = std::find_if(all.begin(), all.end(), [](const Standstill& one) { return one.to_the_end; });
  if (last == all.end()) return {};
  const auto waiting = waiting_in(*last);
  if (!waiting || may_be_idle(ranks, *last, *waiting)) return {};
  const double least = std::max(shortest_hang(context, rule, ranks, *last, *waiting),
                                rule.threshold("min_ratio") * longest_but(all, *last));
  if (last->seconds() < least) return {};
  const bool works = may_work(*last, *waiting, rule.threshold("max_cpus"));
  if (works && last->seconds() < rule.threshold("min_busy_seconds")) return {};
  std::vector<JobFinding> findings;
  Finding finding = describe(context, rule, ranks, *last, *waiting);
  const bool unsure = works || may_wait_for_orders(ranks, *last, *waiting);
  finding.severity = unsure ? Severity::warning : Severity::critical;
  const std::vector<std::string> unrecorded = unrecorded_nodes(context);
  const bool maybe_elsewhere =
      waiting->kind == Kind::none_came_back && (!unrecorded.empty() || ranks_not_recorded(ranks, *waiting) > 0);
  finding.confidence = unsure || maybe_elsewhere || !waiting->counted ? Confidence::possible : Confidence::likely;
  const double into_job = static_cast<double>(last->begin_utc_ns - context.job.begin_utc_ns) * 1e-9;
  finding.sentence =
      fmt::format("The ranks made no progress in the last {} that were recorded, from {} UTC ({} into the job) on: {}.",
                  duration(last->seconds()), clock_time(last->begin_utc_ns), duration(into_job),
                  Words(ranks, *last, *waiting, unrecorded).whom());
  findings.emplace_back(std::move(finding), values_of(ranks, *last, *waiting));
  return findings;
}

std::vector<JobFinding> check_stall(const JobRuleContext& context, const EffectiveRule& rule) {
  const std::vector<Rank> ranks = ranks_of(context);
  const std::vector<Standstill> all = standstills_of(ranks);
  std::vector<JobFinding> findings;
  for (const Standstill& one : all) {
    const double into_job = static_cast<double>(one.begin_utc_ns - context.job.begin_utc_ns) * 1e-9;
    const double least = std::max(rule.threshold("min_seconds"), rule.threshold("min_ratio") * longest_but(all, one));
    if (one.to_the_end || one.seconds() < least || into_job < rule.threshold("min_after")) continue;
    const auto waiting = waiting_in(one);
    // Ranks that called different things do not go on.
    if (!waiting || waiting->kind == Kind::calls_differ || may_be_idle(ranks, one, *waiting)) continue;
    if (may_work(one, *waiting, rule.threshold("max_cpus"))) continue;
    Finding finding = describe(context, rule, ranks, one, *waiting);
    const bool material = finding.impact.percent.value_or(0) >= rule.threshold("min_lost_percent");
    finding.severity = material ? Severity::warning : Severity::notice;
    const std::vector<std::string> unrecorded = unrecorded_nodes(context);
    const bool maybe_elsewhere =
        waiting->kind == Kind::none_came_back && (!unrecorded.empty() || ranks_not_recorded(ranks, *waiting) > 0);
    finding.confidence = waiting->counted && !maybe_elsewhere ? Confidence::likely : Confidence::possible;
    finding.sentence =
        fmt::format("At {} UTC, {} into the job, the ranks made no progress for {}: {}.", clock_time(one.begin_utc_ns),
                    duration(into_job), duration(one.seconds()), Words(ranks, one, *waiting, unrecorded).whom());
    findings.emplace_back(std::move(finding), values_of(ranks, one, *waiting));
  }
  return findings;
}

constexpr Threshold kMaxCpus{"max_cpus", 0.2, "cpus", "cpu time above which a rank is at work"};
constexpr const char* kPythonLines =
    "for p in $(pgrep -u \"$USER\" -x {process}); do py-spy dump --pid $p; done   # on {node}, in the next run, while "
    "it stands still, with py-spy of PyPI (it needs kernel.yama.ptrace_scope=0): the line that each rank executes";
constexpr const char* kFunctions =
    "for p in $(pgrep -u \"$USER\" -x {process}); do eu-stack -p $p; done   # on {node}, in the next run, while it "
    "stands still, with the package elfutils (it needs kernel.yama.ptrace_scope=0): the function that each rank "
    "executes";
constexpr const char* kJournal =
    "journalctl -S @{begin} -U @{end}   # on {nodes}: messages of the kernel and of services at that time";

const RegisteredJobRule kHang(
    check_hang,
    {
        .id = "stack.hang",
        .title = "Ranks waited for each other until the job ended",
        .looks_for = "The last time of a job that did not end well, if no rank called anything that waits for other "
                     "ranks (stack.calls: --stack), and it is known that some did wait: by the number of collectives "
                     "that each rank has made, on each communicator if these are known, by sizes that differ, by calls "
                     "that did not return (stack.in_flight), or because a process ended.",
        .kind = FindingKind::peer,
        .subsystem = Subsystem::process,
        .order = 20,
        .look_alikes = "start-up, a checkpoint or a validation by one rank, a long computation, the end of a job, "
                       "a service that waits for requests",
        .proof = Proof::real,
        .never_ends_well = true,
        .thresholds = {{"min_seconds", 30, "s", "shortest time without progress"},
                       {"min_live_seconds", 8, "s", "the same in reveal watch, if the job was at a steady pace"},
                       {"min_ratio", 2, "ratio", "least length, against the longest such time before"},
                       kMaxCpus,
                       {"min_busy_seconds", 600, "s", "shortest time if the rank that is waited for may be at work"}},
        .user_remedy =
            {{kPythonLines, "python,!ended"},
             {kFunctions, "!python,!ended"},
             {"sacct -j {job} --format=JobID,NodeList,State,ExitCode,MaxRSS   # how the steps of the job ended",
              "job,ended"},
             {"nstat -az | grep -E 'TcpRetransSegs|TcpExtTCPTimeouts'   # on {nodes}, in the next run, twice while it "
              "stands still: where the numbers grow, segments are lost",
              "all_inside"},
             {"export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET   # in one run: the network that NCCL chose, and its "
              "errors",
              "nccl,all_inside"},
             {"export TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1   # PyTorch writes the last "
              "collectives of each rank when one times out",
              "nccl"},
             {"export TORCH_DISTRIBUTED_DEBUG=DETAIL   # PyTorch then compares the collectives of all ranks; slower",
              "torch,differing_calls"}},
        .advice =
            {{"Read the end of the output of {ended} on {nodes}: its process ended, and other ranks wait for it.",
              "ended"},
             {"Look at the network and the GPUs of {nodes} before the program: all recorded ranks made the same call.",
              "all_inside"},
             {"Look for a branch that only some ranks take, an exception that one rank swallows, and data that "
              "run out earlier on one rank.",
              "!ended,!all_inside"},
             {"Give the process group a time limit that suits your steps (timeout of "
              "torch.distributed.init_process_group): such a job then ends with an error instead of its time limit.",
              "torch"}},
        .admin_remedy = {kJournal, "Look at {nodes} from that moment on: GPUs, links, file systems."},
        .verify = {.expected = "the collectives of all ranks go on until the job ends"},
        .sources = {"https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html",
                    "https://docs.pytorch.org/docs/stable/distributed.html",
                    "https://docs.pytorch.org/tutorials/prototype/flight_recorder_tutorial.html"},
    });

const RegisteredJobRule kStall(
    check_stall,
    {
        .id = "stack.stall",
        .title = "All ranks stood still for a while",
        .looks_for = "A time in which no rank called anything that waits for other ranks, much longer than all others "
                     "(stack.calls: --stack), while a rank that neither computed nor used files was waited for, or "
                     "while all ranks were in one collective.",
        .kind = FindingKind::peer,
        .subsystem = Subsystem::process,
        .order = 590,
        .look_alikes = "start-up, checkpoints, validation, phases that come again, a long computation, a "
                       "service that waits for requests",
        .proof = Proof::real,
        .thresholds = {{"min_seconds", 10, "s", "shortest time without progress"},
                       {"min_ratio", 3, "ratio", "least length, against the longest other such time"},
                       {"min_after", 60, "s", "length of the start-up, in which ranks usually wait for each other"},
                       kMaxCpus,
                       {"min_lost_percent", 0.5, "percent", "lost share of the run from which it is a warning"}},
        .user_remedy = {{kPythonLines, "python"}, {kFunctions, "!python"}},
        .advice = {"Find what the rank waited for at that time (other findings of that time may name it): a lock, a "
                   "download, a file server that did not answer."},
        .admin_remedy = {kJournal, "Look at {nodes} in that interval: stopped processes, file systems, network."},
        .verify = {.expected = "no rank stands still"},
        .sources = {"https://arxiv.org/abs/2410.12588"},
    });

}  // namespace
}  // namespace reveal::rule::stack_hang
