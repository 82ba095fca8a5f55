#include "postproc/peers/lateness.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "hdf5schema/basics/not_measured.h"
#include "postproc/numerics/median.h"

namespace reveal {
namespace {

constexpr std::size_t kFewestMatched = 8;  // calls
constexpr double kFewCalls = 0.1;          // share of the calls of the middle rank

/// A rank of a communicator.
struct Entrant {
  const NodeRanks* node = nullptr;
  const CollectiveTrend* trend = nullptr;
};
using Entrants = std::vector<Entrant>;

/// A summary may hold anything.
bool is_possible(const CollectiveTrend& trend) {
  constexpr std::int64_t kMost = INT64_MAX / 8;
  return trend.last >= 1 && trend.last < kMost && trend.communicator >= 0 && trend.ranks >= 0;
}

/// Without an id, the place and the number of ranks tell communicators apart.
std::vector<Entrants> entrants_by_communicator(std::span<const NodeRanks> nodes) {
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, Entrants> all;
  for (const NodeRanks& node : nodes) {
    for (const CollectiveTrend& trend : node.collectives.trends) {
      if (!is_possible(trend)) continue;
      const bool known = trend.id > 0;
      all[{known ? trend.id : 0, known ? 0 : trend.communicator, known ? 0 : trend.ranks}].push_back({&node, &trend});
    }
  }
  std::vector<Entrants> communicators;
  communicators.reserve(all.size());
  for (auto& [key, entrants] : all) communicators.push_back(std::move(entrants));
  return communicators;
}

/// Processes beside the job make a few calls, as to try out a library.
void leave_out_helpers(Entrants& entrants) {
  std::vector<double> calls;
  calls.reserve(entrants.size());
  for (const Entrant& each : entrants) calls.push_back(static_cast<double>(each.trend->last));
  const double few = kFewCalls * median_of(std::move(calls));
  std::erase_if(entrants, [few](const Entrant& each) { return static_cast<double>(each.trend->last) < few; });
}

/// Each process once. Without an id: all ranks, where their number is known, else the first communicator of each
/// process, which is that of all of them in most programs.
bool are_one_communicator(const Entrants& entrants) {
  std::set<std::pair<std::string_view, std::string_view>> processes;
  for (const Entrant& each : entrants) processes.emplace(each.node->node, each.trend->rank);
  const CollectiveTrend& first = *entrants.front().trend;
  if (processes.size() != entrants.size() || entrants.size() < 2) return false;
  if (first.id > 0) return true;
  return first.ranks > 0 ? std::ssize(entrants) == first.ranks : first.communicator == 0;
}

/// To be added to the numbers of each rank, so that they mean the same calls; nothing where that is not known.
std::optional<std::vector<std::int64_t>> shifts_of(const Entrants& entrants, JobOutcome end) {
  std::vector<std::int64_t> shifts(entrants.size(), 0);
  if (entrants.front().trend->id > 0) return shifts;
  std::int64_t most = 0;
  for (const Entrant& each : entrants) most = std::max(most, each.trend->last);
  bool ended = end == JobOutcome::well;
  for (std::size_t i = 0; i < entrants.size(); ++i) {
    shifts[i] = most - entrants[i].trend->last;
    ended = ended && entrants[i].trend->ended;
  }
  const bool equal = std::all_of(shifts.begin(), shifts.end(), [](std::int64_t shift) { return shift == 0; });
  return equal || ended ? std::optional(std::move(shifts)) : std::nullopt;
}

/// One rank's entry into one call.
struct RankEntry {
  std::int64_t number = 0;
  std::size_t rank = 0;
  double seconds = 0;
};

/// In the order of the numbers.
std::vector<RankEntry> entries_of(const Entrants& entrants, const std::vector<std::int64_t>& shifts) {
  std::vector<RankEntry> entries;
  for (std::size_t rank = 0; rank < entrants.size(); ++rank) {
    for (const EnteredCall& call : entered_calls(*entrants[rank].trend)) {
      entries.push_back({call.number + shifts[rank], rank, call.seconds});
    }
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const RankEntry& a, const RankEntry& b) { return a.number < b.number; });
  return entries;
}

/// The middle rank; of an even number the earlier one, so that half of them may be late. Two ranks are held against
/// each other.
double reference_for(const std::vector<double>& ascending, double its, std::size_t ranks) {
  return ranks == 2 ? median_without(ascending, its) : ascending[(ascending.size() - 1) / 2];
}

/// The calls are those that at least half of the ranks were seen to enter.
MatchedCollectives lateness_of(std::size_t ranks, const std::vector<RankEntry>& entries) {
  MatchedCollectives matched{.function = {}, .numbers = {}, .begins = {}, .ranks = {}};
  matched.ranks.resize(ranks);
  std::vector<double> before(ranks, kNaN);  // when each rank entered the call before
  std::int64_t number_before = 0;
  for (std::size_t i = 0; i < entries.size();) {
    const std::int64_t number = entries[i].number;
    std::vector<double> times(ranks, kNaN);
    std::vector<double> known;
    for (; i < entries.size() && entries[i].number == number; ++i) {
      times[entries[i].rank] = entries[i].seconds;
      known.push_back(entries[i].seconds);
    }
    if (number_before + 1 != number) before.assign(ranks, kNaN);
    number_before = number;
    if (known.size() >= 2 && 2 * known.size() >= ranks) {
      std::sort(known.begin(), known.end());
      matched.numbers.push_back(number);
      matched.begins.push_back(median_without(known, kNaN));
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        matched.ranks[rank].late.push_back(times[rank] - reference_for(known, times[rank], ranks));
        matched.ranks[rank].gap.push_back(times[rank] - before[rank]);
      }
    }
    before = std::move(times);
  }
  return matched;
}

/// Against the middle one of the others, as the lateness itself.
double clock_error_of(const Entrants& entrants, std::size_t rank) {
  std::vector<double> errors;
  errors.reserve(entrants.size());
  for (std::size_t other = 0; other < entrants.size(); ++other) {
    if (other != rank) errors.push_back(clock_error_between(*entrants[rank].node, *entrants[other].node));
  }
  return median_of(std::move(errors));
}

std::string common_function(const Entrants& entrants) {
  std::map<std::string_view, std::size_t> votes;
  for (const Entrant& each : entrants) ++votes[each.trend->function];
  return std::string(std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) {
                       return a.second < b.second;
                     })->first);
}

}  // namespace

std::vector<MatchedCollectives> match_collectives(std::span<const NodeRanks> nodes, JobOutcome end) {
  std::vector<MatchedCollectives> all;
  for (Entrants& entrants : entrants_by_communicator(nodes)) {
    leave_out_helpers(entrants);
    if (!are_one_communicator(entrants)) continue;
    const auto shifts = shifts_of(entrants, end);
    if (!shifts) continue;
    MatchedCollectives matched = lateness_of(entrants.size(), entries_of(entrants, *shifts));
    if (matched.calls() < kFewestMatched) continue;
    matched.function = common_function(entrants);
    matched.communicator = entrants.front().trend->communicator;
    for (std::size_t rank = 0; rank < entrants.size(); ++rank) {
      matched.ranks[rank].node = entrants[rank].node->node;
      matched.ranks[rank].rank = entrants[rank].trend->rank;
      matched.ranks[rank].clock_error = clock_error_of(entrants, rank);
    }
    all.push_back(std::move(matched));
  }
  return all;
}

}  // namespace reveal
