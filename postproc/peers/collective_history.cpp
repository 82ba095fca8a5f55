#include "postproc/peers/collective_history.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/text.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

constexpr std::size_t kMostTrends = 32;  // on a node: twice as many as it has slots for processes
constexpr std::size_t kMostCommunicatorsOfRank = 2;
constexpr std::size_t kMostCollectivePoints = 2048;  // on a node: 20 kB, and half of it when it is compressed
constexpr std::size_t kMostPointsOfTrend = 512;
constexpr std::int64_t kSlot = kSecond / 2;              // the period in which the collector keeps calls
constexpr std::int64_t kMostCallNumber = INT64_MAX / 8;  // sums of a few numbers, and of two times, are within the type
constexpr std::int64_t kFarthestCall = INT64_MAX / 3;
constexpr std::int64_t kMostRanksOfCommunicator = std::int64_t{1} << 22;
constexpr std::size_t kLongestTrendName = 64;

/// Rank, communicator, id and number of ranks.
using TrendKey = std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t>;
/// In order: a trace may hold anything.
using TrendCalls = std::vector<const SampledCollective*>;

bool is_possible_call(const SampledCollective& call) {
  const auto within = [](std::int64_t value, std::int64_t least, std::int64_t most) {
    return value >= least && value < most;
  };
  return !call.rank.empty() && within(call.communicator, 0, kMostCallNumber) &&
         within(call.ranks, 0, kMostRanksOfCommunicator) && within(call.id, 0, kMostCallNumber) &&
         within(call.number, 1, kMostCallNumber) && within(call.begin_ns, -kFarthestCall, kFarthestCall);
}

std::map<TrendKey, TrendCalls> calls_by_trend(const std::vector<SampledCollective>& collectives) {
  constexpr std::size_t kMostKeys = 4096;
  std::map<TrendKey, TrendCalls> trends;
  for (const SampledCollective& call : collectives) {
    if (!is_possible_call(call)) continue;
    const TrendKey key{call.rank, call.communicator, call.id, call.ranks};
    if (trends.size() == kMostKeys && !trends.contains(key)) continue;
    TrendCalls& calls = trends[key];
    // A lower number at a later time is that of another process, or of another communicator in the same place.
    if (!calls.empty() && call.number <= calls.back()->number && call.begin_ns > calls.back()->begin_ns) calls.clear();
    if (calls.empty() || (call.number > calls.back()->number && call.begin_ns > calls.back()->begin_ns)) {
      calls.push_back(&call);
    } else if (call.last == 1 && call.number == calls.back()->number && call.begin_ns == calls.back()->begin_ns) {
      calls.back() = &call;  // the same call, now that its process has ended
    }
  }
  return trends;
}

/// Keeps the communicators on which each rank made the most calls.
void keep_busiest(std::map<TrendKey, TrendCalls>& trends) {
  std::vector<std::pair<std::int64_t, TrendKey>> order;
  order.reserve(trends.size());
  for (const auto& [key, calls] : trends) order.emplace_back(calls.back()->number, key);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::map<std::string, std::size_t> of_rank;
  std::size_t kept = 0;
  for (const auto& [calls, key] : order) {
    if (kept < kMostTrends && ++of_rank[std::get<0>(key)] <= kMostCommunicatorsOfRank) {
      ++kept;
    } else {
      trends.erase(key);
    }
  }
}

std::int64_t slot_of(const SampledCollective& call, std::int64_t utc_ns) {
  const std::int64_t utc = call.begin_ns + utc_ns;
  return utc / kSlot - (utc % kSlot < 0 ? 1 : 0);
}

/// Slots of the wall clock are left out by their number, a power of two: nodes with more calls leave out more of the
/// same.
std::int64_t kept_slots(const std::map<TrendKey, TrendCalls>& trends, std::int64_t utc_ns) {
  const std::size_t most =
      std::min(kMostPointsOfTrend, kMostCollectivePoints / std::max<std::size_t>(trends.size(), 1));
  const auto fits = [&](std::int64_t every) {
    return std::all_of(trends.begin(), trends.end(), [&](const auto& trend) {
      const auto points = std::count_if(trend.second.begin(), trend.second.end(), [&](const SampledCollective* call) {
        return slot_of(*call, utc_ns) % every == 0;
      });
      return static_cast<std::size_t>(points) <= most;
    });
  };
  std::int64_t every = 1;
  while (every < (std::int64_t{1} << 40) && !fits(every)) every *= 2;
  return every;
}

std::string most_called(const TrendCalls& calls) {
  std::map<std::string_view, std::size_t> counts;
  for (const SampledCollective* call : calls) ++counts[call->function];
  const auto most =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return printable(most->first, kLongestTrendName);
}

CollectiveTrend trend_of_calls(const TrendKey& key, const TrendCalls& calls, std::int64_t every, std::int64_t utc_ns) {
  const auto& [rank, communicator, id, ranks] = key;
  CollectiveTrend trend{.rank = printable(rank, kLongestTrendName),
                        .function = most_called(calls),
                        .communicator = communicator,
                        .ranks = ranks,
                        .id = id,
                        .last = calls.back()->number,
                        .ended = calls.back()->last == 1,
                        .points = {}};
  std::int64_t number = 0;
  std::int64_t begin = 0;
  for (const SampledCollective* call : calls) {
    if (slot_of(*call, utc_ns) % every != 0) continue;
    if (trend.first == 0) {
      trend.first = number = call->number;
      trend.begin_utc_ns = call->begin_ns + utc_ns;
      begin = call->begin_ns;
      continue;
    }
    const std::int64_t microseconds = (call->begin_ns - begin) / 1000;
    trend.points += std::to_string(call->number - number) + ':' + std::to_string(microseconds) + ' ';
    number = call->number;
    begin += microseconds * 1000;  // the rounding error is not lost
  }
  if (!trend.points.empty()) trend.points.pop_back();
  return trend;
}

}  // namespace

CollectiveHistory collective_history_of(const NodeTrace& trace) {
  CollectiveHistory history;
  const std::int64_t utc_ns = trace.utc_minus_monotonic_ns;
  if (utc_ns < -kFarthestCall || utc_ns > kFarthestCall) return history;
  std::map<TrendKey, TrendCalls> trends = calls_by_trend(trace.collectives);
  if (trends.empty()) return history;
  keep_busiest(trends);
  const std::int64_t every = kept_slots(trends, utc_ns);
  for (const auto& [key, calls] : trends) {
    CollectiveTrend trend = trend_of_calls(key, calls, every, utc_ns);
    if (trend.first > 0) history.trends.push_back(std::move(trend));
  }
  return history;
}

std::vector<EnteredCall> entered_calls(const CollectiveTrend& trend) {
  constexpr std::int64_t kLatestUtc = INT64_MAX / 2;  // ns
  std::vector<EnteredCall> calls;
  const bool possible =
      trend.first >= 1 && trend.first < kMostCallNumber && trend.begin_utc_ns > 0 && trend.begin_utc_ns < kLatestUtc;
  if (!possible) return calls;
  std::int64_t number = trend.first;
  std::int64_t at = trend.begin_utc_ns / 1000;
  calls.push_back({number, static_cast<double>(at) * 1e-6});
  std::string_view rest = trend.points;
  for (std::string_view word = next_word(rest); !word.empty() && calls.size() < kMostPointsOfTrend;
       word = next_word(rest)) {
    const std::size_t mark = std::min(word.find(':'), word.size() - 1);
    const auto more = parse_int(word.substr(0, mark));
    const auto later = parse_int(word.substr(mark + 1));
    const auto within = [](std::optional<std::int64_t> value, std::int64_t least, std::int64_t most) {
      return value && *value >= least && *value <= most;
    };
    if (!within(more, 1, kMostCallNumber - number) || !within(later, 0, kLatestUtc / 1000 - at)) break;
    number += *more;
    at += *later;
    calls.push_back({number, static_cast<double>(at) * 1e-6});
  }
  return calls;
}

}  // namespace reveal
