#include "core/pmu/counter_group.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/vocabulary.h"

namespace reveal {
namespace {

/// So many ticks in a row that were counted too little are made up for by a longer look over all of them; after more,
/// the time of the events in between is not known. The analysis spreads an increment over no more than this either.
constexpr int kLongestLook = 20;

bool read_words(int fd, std::span<std::uint64_t> words) noexcept {
  return ::read(fd, words.data(), words.size_bytes()) == static_cast<ssize_t>(words.size_bytes());
}

}  // namespace

int CounterGroup::add(const OpenPerf& open, const PerfEvent& event, bool user_only) {
  PerfOpened opened = open({.event = event,
                            .target = target_,
                            .group_fd = files_.empty() ? -1 : files_.front().get(),
                            .user_only = user_only});
  if (!opened.fd) return opened.error;
  files_.push_back(std::move(opened.fd));
  words_.assign(group_words(files_.size()), 0);
  reading_.values.assign(files_.size(), 0);
  return 0;
}

void CounterGroup::start() const noexcept {
  if (!files_.empty()) start_group(files_.front().get());
}

bool CounterGroup::read() noexcept {
  return !files_.empty() && (target_.with_children ? read_each() : read_group());
}

bool CounterGroup::read_group() noexcept {
  if (!read_words(files_.front().get(), words_) || words_[0] != files_.size()) return false;
  reading_.enabled_ns = words_[1];
  reading_.running_ns = words_[2];
  std::copy(words_.begin() + 3, words_.end(), reading_.values.begin());
  return true;
}

// The events are read microseconds apart, which does not matter in a sum over a second. The times are the first
// event's.
bool CounterGroup::read_each() noexcept {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const std::span<std::uint64_t> words(words_.data(), 3);  // value, enabled, running
    if (!read_words(files_[i].get(), words)) return false;
    reading_.values[i] = words[0];
    if (i > 0) continue;
    reading_.enabled_ns = words[1];
    reading_.running_ns = words[2];
  }
  return true;
}

std::int64_t ScaledSums::total(std::size_t event) const noexcept {
  return valid_ ? totals_[event] : kMissing;
}

void ScaledSums::restart() noexcept {
  last_.clear();
  valid_ = false;
  missing_ = kLongestLook;
}

void ScaledSums::forget(std::size_t group) {
  if (group < last_.size()) last_.erase(last_.begin() + static_cast<std::ptrdiff_t>(group));
}

void ScaledSums::follow(std::span<const CounterGroup> groups) noexcept {
  begin(groups.size());
  for (std::size_t i = 0; i < groups.size(); ++i) add(i, groups[i].reading());
  end();
}

void ScaledSums::begin(std::size_t groups) noexcept {
  const GroupReading zero{.values = std::vector<std::uint64_t>(last_.size() < groups ? totals_.size() : 0)};
  last_.resize(groups, zero);
  now_.resize(groups);
  std::fill(growth_.begin(), growth_.end(), 0);
  share_ = -1;
}

void ScaledSums::add(std::size_t group, const GroupReading& now) noexcept {
  now_[group] = now;
  const GroupReading& last = last_[group];
  if (now.enabled_ns <= last.enabled_ns) {  // the cgroup or the task had no cpu: nothing to count
    if (enabled_ == Enabled::always) share_ = 0;
    return;
  }
  const auto enabled = static_cast<double>(now.enabled_ns - last.enabled_ns);
  const double share = std::min(1.0, static_cast<double>(now.running_ns - last.running_ns) / enabled);
  share_ = share_ < 0 ? share : std::min(share_, share);
  if (share < kLeastCounted) return;
  for (std::size_t e = 0; e < growth_.size(); ++e) {
    growth_[e] += static_cast<double>(now.values[e] - last.values[e]) / share;
  }
}

void ScaledSums::end() noexcept {
  valid_ = share_ < 0 || share_ >= kLeastCounted;
  const bool unknown_before = missing_ >= kLongestLook;
  missing_ = valid_ ? 0 : std::min(missing_ + 1, kLongestLook);
  for (std::size_t e = 0; valid_ && e < growth_.size(); ++e) {
    totals_[e] += unknown_before ? -1 : std::llround(growth_[e]);
  }
  // An interval with too little counting time is joined with the next one, but not for ever.
  if (valid_ || missing_ >= kLongestLook) std::swap(last_, now_);
}

}  // namespace reveal
