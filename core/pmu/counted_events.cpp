#include "core/pmu/counted_events.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr int kMostLeftOut = 19;  // ticks in a row: ScaledSums makes up for so many

}  // namespace

CountedEvents::CountedEvents(const ProbeContext& context, CountingScope scope, std::vector<WantedEvent> wanted)
    : fs_(context.fs),
      job_(context.job),
      period_ns_(context.period.count()),
      scope_(std::move(scope)),
      online_at_start_(context.host.cpus_online),
      wanted_(std::move(wanted)),
      errors_(wanted_.size(), 0) {
  if (scope_.kind != CountingScope::Kind::tasks) online_file_ = fs_.open("/sys/devices/system/cpu/online", 64);
  std::size_t groups = 0;
  for (const WantedEvent& each : wanted_) groups = std::max(groups, each.group + 1);
  counted_.resize(groups);
  counters_.resize(groups);
  for (std::size_t group = 0; group < groups; ++group) sums_.push_back(no_sums(members(group).size()));
}

ScaledSums CountedEvents::no_sums(std::size_t events) const {
  using Enabled = ScaledSums::Enabled;
  return ScaledSums(events, scope_.kind == CountingScope::Kind::cpus ? Enabled::always : Enabled::with_the_job);
}

std::vector<std::size_t> CountedEvents::members(std::size_t group) const {
  std::vector<std::size_t> members;
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    if (wanted_[i].group == group) members.push_back(i);
  }
  return members;
}

void CountedEvents::open() {
  close();
  std::size_t files_left = files_for_counters();
  if (scope_.kind == CountingScope::Kind::tasks) {
    try_out_tasks();
    tasks_ = std::make_unique<JobTasks>(fs_, *job_, [this](const PerfTarget& target) { return attach(target); });
  } else {
    online_text_ = online_file_.read();
    const std::vector<PerfTarget> targets = targets_online();
    for (std::size_t group = 0; group < counters_.size(); ++group) open_group(group, targets, files_left);
  }
  open_ = true;
  report_files();
}

void CountedEvents::close() noexcept {
  tasks_.reset();
  for (auto& group : counters_) group.clear();
  for (ScaledSums& sums : sums_) {
    if (open_) sums.restart();
  }
  open_ = known_ = false;
  report_files();
}

void CountedEvents::report_files() noexcept {
  std::size_t files = 0;
  for (const auto& group : counters_) {
    for (const CounterGroup& counters : group) files += counters.events();
  }
  fs_.spare_files(static_cast<int>(files) - files_reported_);
  files_reported_ = static_cast<int>(files);
}

/// The cpus of the scope, without those that have gone since; and those that were not there at the start, because the
/// job may run on them.
std::vector<PerfTarget> CountedEvents::targets_online() const {
  const std::vector<int> online = parse_cpu_list(online_text_);
  if (online.empty()) return scope_.targets;
  const auto is_in = [](const std::vector<int>& cpus, int cpu) {
    return std::find(cpus.begin(), cpus.end(), cpu) != cpus.end();
  };
  std::vector<PerfTarget> targets;
  for (const PerfTarget& target : scope_.targets) {
    if (is_in(online, target.cpu)) targets.push_back(target);
  }
  for (const int cpu : online) {
    if (!is_in(online_at_start_, cpu)) targets.push_back({.cpu = cpu, .cgroup_fd = scope_.cgroup.get()});
  }
  return targets;
}

/// The kernel takes the events of a cpu that goes away off it for good: a single one stands still from then on, a group
/// is none any more, also once the cpu has come back. https://docs.kernel.org/core-api/cpu_hotplug.html
void CountedEvents::open_again_after_hotplug() {
  if (scope_.kind == CountingScope::Kind::tasks) return;
  const std::string_view online = online_file_.read();
  if (!online.empty() && online != online_text_) open();
}

// An event that the first cpu refuses is left out everywhere; a group that some cpu refuses would be no sum.
void CountedEvents::open_group(std::size_t group, std::span<const PerfTarget> targets, std::size_t& files_left) {
  std::vector<std::size_t>& counted = counted_[group];
  counted.clear();
  for (const std::size_t event : members(group)) errors_[event] = 0;
  for (const PerfTarget& target : targets) {
    CounterGroup counters(target);
    for (const std::size_t event : counters_[group].empty() ? members(group) : counted) {
      const int error = files_left == 0 ? EMFILE : counters.add(scope_.open, wanted_[event].event, scope_.user_only);
      if (error == 0) {
        --files_left;
        if (counters_[group].empty()) counted.push_back(event);
        continue;
      }
      errors_[event] = error;
      if (counters_[group].empty() && error != EMFILE) continue;
      for (const std::size_t each : counted) errors_[each] = error;
      files_left += counters.events() + counters_[group].size() * counted.size();
      counted.clear();
      counters_[group].clear();
      return;
    }
    if (counters.events() == 0) return;
    counters.start();
    counters_[group].push_back(std::move(counters));
  }
  if (sums_[group].events() != counted.size()) sums_[group] = no_sums(counted.size());
}

// On our own process, which always exists.
void CountedEvents::try_out_tasks() {
  for (std::size_t group = 0; group < counters_.size(); ++group) {
    counted_[group].clear();
    CounterGroup trial({.task = ::getpid(), .with_children = true});
    for (const std::size_t event : members(group)) {
      const bool hidden = scope_.user_only && wanted_[event].kernel_side;
      errors_[event] = hidden ? EACCES : trial.add(scope_.open, wanted_[event].event, scope_.user_only);
      if (errors_[event] == 0) counted_[group].push_back(event);
    }
    if (sums_[group].events() != counted_[group].size()) sums_[group] = ScaledSums(counted_[group].size());
  }
}

int CountedEvents::attach(const PerfTarget& target) {
  std::vector<CounterGroup> opened;
  for (const auto& counted : counted_) {
    opened.emplace_back(target);
    for (const std::size_t event : counted) {
      const int error = opened.back().add(scope_.open, wanted_[event].event, scope_.user_only);
      if (error != 0) return error;
    }
  }
  for (std::size_t group = 0; group < opened.size(); ++group) {
    opened[group].start();
    if (opened[group].events() > 0) counters_[group].push_back(std::move(opened[group]));
  }
  return 0;
}

bool CountedEvents::read_all() noexcept {
  bool whole = true;
  for (auto& group : counters_) {
    for (CounterGroup& counters : group) whole = counters.read() && whole;
  }
  return whole;
}

void CountedEvents::sample() {
  known_ = false;
  if (!open_) return;
  if (ticks_left_out_ > 0) {
    --ticks_left_out_;
    return;
  }
  open_again_after_hotplug();
  const std::int64_t begin = read_clock(CLOCK_THREAD_CPUTIME_ID);
  const std::vector<std::size_t> gone = tasks_ != nullptr ? tasks_->update() : std::vector<std::size_t>();
  known_ = read_all() && (tasks_ == nullptr || tasks_->attached());
  for (std::size_t group = 0; group < counters_.size() && known_; ++group) sums_[group].follow(counters_[group]);
  for (const std::size_t place : gone) {
    for (std::size_t group = 0; group < counters_.size(); ++group) {
      if (counters_[group].empty()) continue;
      counters_[group].erase(counters_[group].begin() + static_cast<std::ptrdiff_t>(place));
      sums_[group].forget(place);
    }
    tasks_->taken_out(place);
  }
  if (tasks_ != nullptr) report_files();
  const auto cost = static_cast<double>(read_clock(CLOCK_THREAD_CPUTIME_ID) - begin);
  const double ticks = cost / (kMostOfTheTime * static_cast<double>(period_ns_));
  ticks_left_out_ = gone.empty() ? std::clamp(static_cast<int>(std::floor(ticks)), 0, kMostLeftOut) : 0;
}

bool CountedEvents::any() const noexcept {
  return std::any_of(counted_.begin(), counted_.end(), [](const auto& counted) { return !counted.empty(); });
}

std::int64_t CountedEvents::total(std::size_t event) const noexcept {
  const std::size_t group = wanted_[event].group;
  const auto place = std::find(counted_[group].begin(), counted_[group].end(), event);
  if (!known_ || place == counted_[group].end()) return kMissing;
  return sums_[group].total(static_cast<std::size_t>(place - counted_[group].begin()));
}

double CountedEvents::counted_share(std::size_t group) const noexcept {
  return known_ ? sums_[group].counted_share() : -1;
}

std::string CountedEvents::losses(const std::vector<std::string_view>& names) const {
  const std::string paranoid = perf_event_paranoid(fs_);
  std::string text = scope_.note;
  std::vector<bool> listed(wanted_.size(), false);
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    if (errors_[i] == 0 || listed[i]) continue;
    if (!text.empty()) text += "; ";
    text += "not counted: ";
    for (std::size_t j = i; j < wanted_.size(); ++j) {
      if (errors_[j] != errors_[i]) continue;
      listed[j] = true;
      text += (j == i ? "" : ", ") + std::string(names[j]);
    }
    text += " (" + why_not_counted(errors_[i], paranoid) + ')';
  }
  if (tasks_ != nullptr && tasks_->missed() > 0) {
    text += "; " + std::to_string(tasks_->missed()) + " threads of the job are not counted (" +
            why_not_counted(tasks_->error(), paranoid) + ')';
  }
  return text;
}

}  // namespace reveal
