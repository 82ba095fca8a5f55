#include "postproc/peers/matched_calls.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

namespace reveal {
namespace {

struct Member {
  std::size_t rank = 0;  // index
  const LastCollectives* last = nullptr;
};
using Members = std::vector<Member>;

/// A summary may hold anything.
bool is_possible(const LastCollectives& last) {
  constexpr std::int64_t kMostCalls = INT64_MAX / 4;
  return last.calls >= 0 && last.calls < kMostCalls && last.order >= 0 && last.order < kMostCalls && last.ranks >= 0 &&
         last.ranks < kMostCalls && last.rank >= 0 && std::ssize(last.newest) <= last.calls;
}

/// Ids are hashes: communicators whose ranks do not fit together are left out, and those of which a rank is missing.
bool fit_together(const Members& members) {
  if (members.size() < 2 || std::ssize(members) != members.front().last->ranks) return false;
  std::set<std::size_t> processes;
  std::set<std::int64_t> ranks;
  for (const Member& member : members) {
    const LastCollectives& last = *member.last;
    const bool own = processes.insert(member.rank).second && ranks.insert(last.rank).second;
    if (!own || last.ranks != members.front().last->ranks || last.rank >= last.ranks) return false;
  }
  return true;
}

/// The largest first.
std::vector<Members> communicators_of(std::span<const QuietTime* const> ranks) {
  std::map<std::int64_t, Members> by_id;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const LastCollectives& last : ranks[rank]->communicators) {
      if (last.id != 0 && is_possible(last)) by_id[last.id].push_back({rank, &last});
    }
  }
  std::vector<Members> all;
  for (auto& [id, members] : by_id) {
    if (fit_together(members)) all.push_back(std::move(members));
  }
  std::stable_sort(all.begin(), all.end(), [](const Members& a, const Members& b) { return a.size() > b.size(); });
  return all;
}

/// Null where it was too long ago.
const SizedCall* call_at(const LastCollectives& last, std::int64_t number) {
  const std::int64_t back = last.calls - number;
  return back >= 0 && back < std::ssize(last.newest) ? &last.newest[static_cast<std::size_t>(back)] : nullptr;
}

CommunicatorCall call_on(const LastCollectives& last, const SizedCall& call, std::int64_t number) {
  return {.function = call.function, .bytes = call.bytes, .order = last.order, .ranks = last.ranks, .number = number};
}

std::int64_t least_calls(const Members& members) {
  return std::min_element(members.begin(), members.end(),
                          [](const Member& a, const Member& b) { return a.last->calls < b.last->calls; })
      ->last->calls;
}

/// A rank may wait in a communicator that has an id, and of which another rank is not known.
bool is_known(const QuietTime& rank, const std::vector<Members>& all) {
  return std::all_of(rank.communicators.begin(), rank.communicators.end(), [&all](const LastCollectives& last) {
    return last.id == 0 || std::any_of(all.begin(), all.end(),
                                       [&last](const Members& members) { return members.front().last->id == last.id; });
  });
}

/// The ranks that have made fewer calls, and wait for nobody themselves.
std::optional<MatchedCalls> behind_in(const std::vector<Members>& all, std::span<const QuietTime* const> ranks) {
  std::set<std::size_t> waiting;
  for (const Members& members : all) {
    const std::int64_t least = least_calls(members);
    for (const Member& member : members) {
      if (member.last->calls > least) waiting.insert(member.rank);
    }
  }
  for (const Members& members : all) {
    MatchedCalls matched{.present = {}, .absent = {}, .call = {}, .others = {}, .calls = {}};
    matched.calls.assign(ranks.size(), -1);
    const std::int64_t number = least_calls(members) + 1;
    for (const Member& member : members) {
      matched.calls[member.rank] = member.last->calls;
      if (member.last->calls >= number) {
        matched.present.push_back(member.rank);
        const SizedCall* const call = call_at(*member.last, number);
        if (call != nullptr) matched.call = call_on(*member.last, *call, number);
      } else if (!waiting.contains(member.rank)) {
        matched.absent.push_back(member.rank);
      }
    }
    if (matched.present.empty() || matched.absent.empty()) continue;
    const bool known = std::all_of(matched.absent.begin(), matched.absent.end(),
                                   [&](std::size_t rank) { return is_known(*ranks[rank], all); });
    return known ? std::optional(std::move(matched)) : std::nullopt;
  }
  return std::nullopt;
}

/// A size that is not known is equal to every other one.
bool are_equal(const SizedCall& a, const SizedCall& b) {
  return a.function == b.function && (a.bytes == b.bytes || a.bytes < 0 || b.bytes < 0);
}

/// The call by which ranks are held against each other; null where it is not known.
using CallOf = std::function<const SizedCall*(const LastCollectives&)>;

/// Groups of ranks with an equal call; the largest first. Empty where one of them is not known.
std::vector<Members> groups_by(const Members& members, const CallOf& call_of) {
  std::vector<Members> groups;
  for (const Member& member : members) {
    const SizedCall* const call = call_of(*member.last);
    if (call == nullptr) return {};
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const Members& group) {
      return are_equal(*call_of(*group.front().last), *call);
    });
    if (same == groups.end()) {
      groups.push_back({member});
    } else {
      same->push_back(member);
    }
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Members& a, const Members& b) { return a.size() > b.size(); });
  return groups;
}

/// The largest group is present.
MatchedCalls differing_by(const std::vector<Members>& groups, const CallOf& call_of, std::int64_t number) {
  MatchedCalls matched{.present = {}, .absent = {}, .call = {}, .others = {}, .calls = {}};
  for (const Members& group : groups) {
    std::vector<std::size_t>& ranks = &group == &groups.front() ? matched.present : matched.absent;
    for (const Member& member : group) ranks.push_back(member.rank);
  }
  std::sort(matched.absent.begin(), matched.absent.end());
  const LastCollectives& one = *groups[0].front().last;
  const LastCollectives& other = *groups[1].front().last;
  matched.call = call_on(one, *call_of(one), number);
  matched.others = call_on(other, *call_of(other), number);
  return matched;
}

/// By the first of the newest calls that all have made, and that differs.
std::optional<MatchedCalls> differing_in(const std::vector<Members>& all) {
  for (const Members& members : all) {
    const std::int64_t last = least_calls(members);
    const std::int64_t known = std::ssize(members.front().last->newest);
    for (std::int64_t number = std::max<std::int64_t>(1, last - known + 1); number <= last; ++number) {
      const CallOf this_one = [number](const LastCollectives& of) { return call_at(of, number); };
      const std::vector<Members> groups = groups_by(members, this_one);
      if (groups.size() > 1) return differing_by(groups, this_one, number);
    }
  }
  return std::nullopt;
}

/// The communicator that the rank called last; null where that is not known.
const LastCollectives* newest_of(const QuietTime& quiet) {
  if (quiet.communicators.empty()) return nullptr;
  const LastCollectives& last = quiet.communicators.front();
  return is_possible(last) && !last.newest.empty() ? &last : nullptr;
}

bool has_made(const LastCollectives& last, const SizedCall& call) {
  return std::any_of(last.newest.begin(), last.newest.end(),
                     [&](const SizedCall& each) { return are_equal(each, call); });
}

/// Enough calls are known to exclude that one of the two only made them in another order.
bool are_apart(const LastCollectives& a, const LastCollectives& b) {
  const auto knows_enough = [](const LastCollectives& last) {
    constexpr std::int64_t kLeastKnown = 4;
    return std::ssize(last.newest) >= std::min(kLeastKnown, last.calls);
  };
  return knows_enough(a) && knows_enough(b) && !has_made(a, b.newest.front()) && !has_made(b, a.newest.front());
}

}  // namespace

std::string details_of(const CommunicatorCall& call) {
  std::string text = " (";
  if (call.bytes >= 0) text += std::to_string(call.bytes) + " bytes, ";
  if (call.number > 0) text += "call " + std::to_string(call.number) + ' ';
  text += "on communicator " + std::to_string(call.order + 1);
  if (call.ranks > 0) text += " with " + std::to_string(call.ranks) + " ranks";
  return text + ')';
}

std::optional<MatchedCalls> match_numbered_calls(std::span<const QuietTime* const> ranks) {
  const std::vector<Members> all = communicators_of(ranks);
  auto differing = differing_in(all);
  return differing ? std::move(differing) : behind_in(all, ranks);
}

std::optional<MatchedCalls> match_sizes(std::span<const QuietTime* const> ranks) {
  Members members;
  members.reserve(ranks.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const LastCollectives* const last = newest_of(*ranks[rank]);
    if (last == nullptr || last->id != 0 || last->newest.front().bytes < 0) return std::nullopt;
    const LastCollectives& first = rank == 0 ? *last : *members.front().last;
    const bool of_all = last->ranks == std::ssize(ranks);
    const bool same = last->order == first.order && last->newest.front().function == first.newest.front().function;
    if (!of_all || !same) return std::nullopt;
    members.push_back({rank, last});
  }
  const CallOf newest = [](const LastCollectives& last) { return &last.newest.front(); };
  const std::vector<Members> groups = groups_by(members, newest);
  if (groups.size() < 2) return std::nullopt;
  for (const Members& group : groups) {
    const LastCollectives& one = *group.front().last;
    const bool apart = std::all_of(members.begin(), members.end(), [&](const Member& member) {
      return are_equal(*newest(one), *newest(*member.last)) || are_apart(one, *member.last);
    });
    if (!apart) return std::nullopt;
  }
  return differing_by(groups, newest, 0);
}

std::optional<CommunicatorCall> common_call(std::span<const QuietTime* const> ranks,
                                            std::span<const std::size_t> some) {
  std::optional<CommunicatorCall> common;
  for (const std::size_t rank : some) {
    const LastCollectives* const last = newest_of(*ranks[rank]);
    if (last == nullptr) return std::nullopt;
    const CommunicatorCall call = call_on(*last, last->newest.front(), last->id != 0 ? last->calls : 0);
    const bool same = !common || (common->function == call.function && common->bytes == call.bytes &&
                                  common->order == call.order && common->ranks == call.ranks);
    if (!same) return std::nullopt;
    if (!common) common = call;
    if (common->number != call.number) common->number = 0;
  }
  return common;
}

bool are_all_members(std::span<const QuietTime* const> ranks, std::span<const std::size_t> some) {
  if (!common_call(ranks, some)) return false;
  std::set<std::int64_t> numbers;
  for (const std::size_t rank : some) {
    const LastCollectives& last = *newest_of(*ranks[rank]);
    if (last.ranks != std::ssize(some) || last.rank >= last.ranks || !numbers.insert(last.rank).second) return false;
  }
  return true;
}

}  // namespace reveal
