#include "core/stack/call_budget.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>
#include <tuple>
#include <utility>

namespace reveal {
namespace {

constexpr double kLeastTurnNs = 20e6;
constexpr double kIdleNs = 50e6;  // cpu time in a round below which a job makes few calls
constexpr int kIdleRounds = 5;
constexpr double kLeastPart = 0.01;  // a function with less of the cost need not rest

}  // namespace

std::string percent_of(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g %%", 100 * share);
  const std::string_view whole(text.data());
  return std::string(whole.starts_with("0.") ? whole.substr(1) : whole);
}

CallBudget::CallBudget(const std::vector<Rests>& order, double share) : share_(share) {
  functions_.reserve(order.size());
  for (const Rests each : order) functions_.push_back({.order = each});
}

/// Nothing is saved for the turns of the other ones.
bool CallBudget::needed_ones_rest() const noexcept {
  return std::any_of(functions_.begin(), functions_.end(),
                     [](const Function& each) { return each.rests && each.order != Rests::first; });
}

void CallBudget::begin(double cpu_ns) noexcept {
  const double earned = share_ * cpu_ns;
  cpu_ns_ += cpu_ns;
  earned_in_round_ += earned;
  const double more = left_ns_ + earned;
  const double most = std::max({kBurstNs, earned, saved_ns_});
  left_ns_ = needed_ones_rest() ? more : std::max(left_ns_, std::min(most, more));
}

void CallBudget::spend(std::size_t function, double calls, double cost_ns) noexcept {
  functions_[function].calls += calls;
  functions_[function].spent_ns += calls * cost_ns;
  left_ns_ -= calls * cost_ns;
}

void CallBudget::spend_on_turn(std::size_t function, double ns) noexcept {
  if (!functions_[function].has_rested) return;
  functions_[function].turn_ns += ns;
  left_ns_ -= ns;
}

std::vector<CallBudget::Excess> CallBudget::end() {
  double spent_ns = 0;
  for (const Function& each : functions_) spent_ns += each.spent_ns;
  if (cpu_ns_ <= 0 && spent_ns < kBurstNs) return {};  // it was not read since: what was earned is not known
  std::vector<Excess> all;
  double too_much = left_ns_ < 0 ? spent_ns - share_ * cpu_ns_ : 0;
  for (const std::size_t i : resting_order()) {
    Function& function = functions_[i];
    if (too_much <= 0) break;
    if (function.spent_ns < kLeastPart * spent_ns) continue;
    too_much -= function.spent_ns;
    all.push_back({.function = i, .calls = function.calls, .spent_ns = function.spent_ns, .cpu_ns = cpu_ns_});
    put_to_rest(function);
  }
  begin_period();
  return all;
}

/// The first one rests first.
std::vector<std::size_t> CallBudget::resting_order() const {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < functions_.size(); ++i) {
    if (!functions_[i].rests && functions_[i].spent_ns > 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
    return std::make_tuple(functions_[a].order, -functions_[a].spent_ns) <
           std::make_tuple(functions_[b].order, -functions_[b].spent_ns);
  });
  return order;
}

/// Soon after its last turn, the rest is twice as long.
void CallBudget::put_to_rest(Function& function) noexcept {
  if (function.order != Rests::first && !needed_ones_rest()) {
    const bool soon = had_turn_ && steady_rounds_ < kLongestRest;
    rest_ = soon ? std::min(2 * rest_, kLongestRest) : kShortestRest;
  }
  function.rests = function.has_rested = true;
  steady_rounds_ = 0;
}

void CallBudget::begin_period() noexcept {
  for (Function& each : functions_) each.calls = each.spent_ns = 0;
  cpu_ns_ = 0;
}

std::vector<std::size_t> CallBudget::next_turn() {
  ++steady_rounds_;
  const double earned = std::exchange(earned_in_round_, 0);
  idle_rounds_ = earned < share_ * kIdleNs ? idle_rounds_ + 1 : 0;
  const bool all = !needed_ones_rest();
  // A job that hangs earns nothing, and its calls cost nothing: that it makes none must be seen.
  const bool on_credit = !all && idle_rounds_ >= kIdleRounds && steady_rounds_ >= kShortestRest;
  if (!on_credit && steady_rounds_ < (all ? kLongestRest : rest_)) return {};
  std::vector<std::size_t> due;
  double price_ns = all ? kLeastTurnNs : std::max(kLeastTurnNs, kTurn * earned);  // nothing is saved for the first ones
  for (std::size_t i = 0; i < functions_.size(); ++i) {
    if (!functions_[i].rests || (!all && functions_[i].order == Rests::first)) continue;
    due.push_back(i);
    price_ns += functions_[i].turn_ns;
  }
  if (on_credit) left_ns_ = std::max(left_ns_, kLeastTurnNs);
  if (due.empty() || (!on_credit && left_ns_ < price_ns)) return {};
  begin_turn(due);
  return due;
}

void CallBudget::begin_turn(const std::vector<std::size_t>& due) noexcept {
  for (const std::size_t i : due) {
    functions_[i].rests = false;
    functions_[i].turn_ns = 0;
  }
  had_turn_ = true;
  steady_rounds_ = 0;
  saved_ns_ = left_ns_;
}

}  // namespace reveal
