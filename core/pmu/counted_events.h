// Several groups of events counted in one scope, opened and read together; the base of a perf probe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/kernel_text/kernel_tree.h"
#include "core/pmu/counter_group.h"
#include "core/pmu/counting_scope.h"
#include "core/pmu/job_tasks.h"

namespace reveal {

struct WantedEvent {
  PerfEvent event;
  std::size_t group = 0;
  bool kernel_side = false;  // happens in the kernel: a user without access to it would count none
};

class CountedEvents {
 public:
  CountedEvents(const ProbeContext& context, CountingScope scope, std::vector<WantedEvent> wanted);

  /// Opens every event that can be opened, on the cpus that are online; error() is about the rest.
  void open();
  void close() noexcept;
  [[nodiscard]] bool is_open() const noexcept { return open_; }
  /// Attaches to new processes, reads, and adds up. Costly reads are left out now and then: see kMostOfTheTime.
  void sample();

  [[nodiscard]] std::size_t groups() const noexcept { return sums_.size(); }
  /// 0 for an event that is counted, else the errno of its open.
  [[nodiscard]] int error(std::size_t event) const noexcept { return errors_[event]; }
  [[nodiscard]] bool any() const noexcept;
  /// A counter that never falls; kMissing where it is not known now.
  [[nodiscard]] std::int64_t total(std::size_t event) const noexcept;
  /// The part of its time in which the group really counted; -1: nothing was to be counted.
  [[nodiscard]] double counted_share(std::size_t group) const noexcept;
  [[nodiscard]] const CountingScope& scope() const noexcept { return scope_; }
  /// The lost events, in sentences; "" for none. `name_of` returns the name of an event, by its place among the
  /// requested ones.
  [[nodiscard]] std::string losses(const std::vector<std::string_view>& names) const;

  /// Reading may take this share of the period; beyond it ticks are left out, and the next one covers them.
  static constexpr double kMostOfTheTime = 0.01;

 private:
  [[nodiscard]] ScaledSums no_sums(std::size_t events) const;
  [[nodiscard]] std::vector<std::size_t> members(std::size_t group) const;
  [[nodiscard]] std::vector<PerfTarget> targets_online() const;
  void open_again_after_hotplug();
  void open_group(std::size_t group, std::span<const PerfTarget> targets, std::size_t& files_left);
  void try_out_tasks();
  int attach(const PerfTarget& target);
  void add_tasks();
  bool read_all() noexcept;
  void report_files() noexcept;

  KernelTree& fs_;
  const Job* job_;
  std::int64_t period_ns_;
  CountingScope scope_;
  std::vector<int> online_at_start_;
  KernelFile online_file_;   // not for tasks, whose events move from cpu to cpu with them
  std::string online_text_;  // when the events were opened
  std::vector<WantedEvent> wanted_;
  std::vector<int> errors_;                          // per requested event
  std::vector<std::vector<std::size_t>> counted_;    // per group: the requested events it counts
  std::vector<std::vector<CounterGroup>> counters_;  // per group and target
  std::vector<ScaledSums> sums_;                     // per group
  std::unique_ptr<JobTasks> tasks_;
  int files_reported_ = 0;  // to fs_, which shares the limit of open files with us
  bool open_ = false;
  bool known_ = false;  // the last tick was read
  int ticks_left_out_ = 0;
};

}  // namespace reveal
