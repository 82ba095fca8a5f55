#include "core/job/process_slots.h"

#include <algorithm>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr int kMostNewAtOnce = 8;  // new processes with a slot between two looks: most of many are gone before the next
constexpr std::int64_t kWorthASlot = 5;  // clock ticks used lately, to take the place of an idle process

}  // namespace

ProcessSlots::ProcessSlots(KernelTree& fs, const Job& job, TraceSink& sink) : fs_(fs), job_(job), sink_(sink) {
  slots_.reserve(kSlots);
  threads_.reserve(kSlots);
}

bool ProcessSlots::in_slot(int pid) const noexcept {
  return std::any_of(slots_.begin(), slots_.end(), [pid](const ProcessSlot& slot) { return slot.pid == pid; });
}

void ProcessSlots::update(std::int64_t now_ns) {
  ++looks_;
  bool lost_a_rank = false;
  for (ProcessSlot& slot : slots_) {
    if (slot.pid == 0) continue;
    slot.process = job_.find(slot.pid);
    const bool there = slot.process != nullptr && slot.process->start_ticks == slot.start_ticks;
    if (there && !slot.process->launcher) continue;  // one may become a program of reveal
    sink_.event("process " + std::to_string(slot.pid), "process_end", slot.instance);
    slot.process = nullptr;
    slot.pid = 0;
    lost_a_rank = lost_a_rank || slot.rank >= 0;
  }
  const bool due = now_ns >= next_assignment_ns_;
  // A new process is given a free slot at once: short steps would otherwise stay unseen for most of their life.
  if (due) entered_ = 0;
  if (due || lost_a_rank || (generation_ != job_.generation() && entered_ < kMostNewAtOnce)) assign(now_ns);
  generation_ = job_.generation();
  if (due) next_assignment_ns_ = now_ns + kSecond;
  std::int64_t total = 0;
  bool known = false;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Threads& threads = threads_[i];
    const JobProcess* process = slots_[i].process;
    if (due && process != nullptr && (threads.stale || threads.count != process->stat.threads)) list_threads(i);
    read_threads(i);
    // A process that ends before its threads are read keeps its part: the sum would fall, and rise again by all of it.
    if (!threads.measured) continue;
    total = wrapping_sum(total, threads.wait);
    known = true;
  }
  total_wait_ns_ = known ? total : kMissing;
}

void ProcessSlots::assign(std::int64_t now_ns) {
  // The main process of a rank is the first one that its launcher started and that is still there, or the root itself.
  for (const auto& process : job_.processes()) {
    if (process->rank < 0 || process->rank >= static_cast<int>(kSlots) || process->launcher) continue;
    const JobProcess* parent = job_.find(process->stat.parent);
    const bool main = process->root || (parent != nullptr && parent->launcher);
    if (!main || in_slot(process->pid)) continue;
    auto slot = std::find_if(slots_.begin(), slots_.end(),
                             [&](const ProcessSlot& other) { return other.rank == process->rank; });
    if (slot != slots_.end() && slot->pid != 0) continue;
    if (slot == slots_.end()) {
      if (slots_.size() >= kSlots) continue;
      ProcessSlot fresh;
      fresh.rank = process->rank;
      fresh.instance = "rank" + std::to_string(process->rank);
      fresh.role = "rank";
      slots_.push_back(fresh);
      threads_.emplace_back();
      slot = slots_.end() - 1;
    }
    occupy(static_cast<std::size_t>(slot - slots_.begin()), *process, now_ns);
  }
  for (const auto& process : job_.processes()) {
    if (process->launcher || in_slot(process->pid)) continue;
    auto slot = std::find_if(slots_.begin(), slots_.end(),
                             [](const ProcessSlot& other) { return other.rank < 0 && other.pid == 0; });
    if (slot == slots_.end() && slots_.size() < kSlots) {
      ProcessSlot fresh;
      fresh.instance = "slot" + std::to_string(slots_.size());
      fresh.role = "job";
      slots_.push_back(fresh);
      threads_.emplace_back();
      slot = slots_.end() - 1;
    }
    if (slot == slots_.end()) {
      if (process->weight < kWorthASlot) continue;
      slot = std::min_element(slots_.begin(), slots_.end(), [](const ProcessSlot& a, const ProcessSlot& b) {
        const auto weight = [](const ProcessSlot& each) {
          return each.rank >= 0 || each.process == nullptr ? INT64_MAX : each.process->weight;
        };
        return weight(a) < weight(b);
      });
      if (slot->rank >= 0 || slot->process == nullptr || slot->process->weight * 4 > process->weight) continue;
    }
    occupy(static_cast<std::size_t>(slot - slots_.begin()), *process, now_ns);
  }
}

void ProcessSlots::occupy(std::size_t index, const JobProcess& process, std::int64_t now_ns) {
  ProcessSlot& slot = slots_[index];
  slot.pid = process.pid;
  slot.start_ticks = process.start_ticks;
  slot.process = &process;
  // The counters of a process that was long without a slot do not belong to the moment in which it gets one.
  slot.from_birth = process.from_birth && now_ns - process.found_ns <= kSecond;
  ++slot.occupants;
  ++entered_;
  sink_.event("process " + std::to_string(process.pid), "process_begin", slot.instance + ' ' + process.command);
  Threads& threads = threads_[index];
  for (Thread& thread : threads.list) {
    threads.gone_run = wrapping_sum(threads.gone_run, thread.run.total());
    threads.gone_wait = wrapping_sum(threads.gone_wait, thread.wait.total());
  }
  threads.list.clear();
  threads.from_birth = slot.from_birth;
  list_threads(index);
}

void ProcessSlots::list_threads(std::size_t index) {
  const ProcessSlot& slot = slots_[index];
  Threads& threads = threads_[index];
  const std::string folder = "/proc/" + std::to_string(slot.pid) + "/task";
  std::size_t others = 0;
  for (std::size_t i = 0; i < threads_.size(); ++i) others += i == index ? 0 : threads_[i].list.size();
  threads.count = slot.process == nullptr ? 1 : slot.process->stat.threads;
  threads.stale = false;
  for (Thread& thread : threads.list) thread.listed = false;
  const auto include = [&](int tid) {
    for (Thread& thread : threads.list) {
      if (thread.tid != tid) continue;
      thread.listed = true;
      return;
    }
    Thread thread;
    thread.tid = tid;
    thread.listed = true;
    thread.file = fs_.open(folder + '/' + std::to_string(tid) + "/schedstat", 96);
    if (threads.from_birth) {
      thread.run.restart(0);
      thread.wait.restart(0);
    }
    threads.list.push_back(std::move(thread));
  };
  include(slot.pid);
  const auto count = static_cast<std::size_t>(threads.count);
  if (count > 1 && others + count <= kThreads) {
    for (const std::string& name : fs_.list(folder)) {
      if (const auto tid = parse_int(name)) include(static_cast<int>(*tid));
    }
  } else if (count > 1) {
    main_threads_only_ = true;
    threads.from_birth = false;  // one that is listed later may have been left out meanwhile
  }
  std::erase_if(threads.list, [&](const Thread& thread) {
    if (thread.listed) return false;
    threads.gone_run = wrapping_sum(threads.gone_run, thread.run.total());
    threads.gone_wait = wrapping_sum(threads.gone_wait, thread.wait.total());
    return true;
  });
}

void ProcessSlots::read_threads(std::size_t index) {
  ProcessSlot& slot = slots_[index];
  Threads& threads = threads_[index];
  slot.wait_ns = kMissing;
  slot.run_ns = kMissing;
  std::int64_t run = threads.gone_run;
  std::int64_t wait = threads.gone_wait;
  bool known = slot.pid == 0 && threads.measured;
  const bool before_birth = looks_ == 1 && slot.from_birth;  // the first row is their start value
  for (Thread& thread : threads.list) {
    if (before_birth) {
      known = threads.measured = true;
    } else if (slot.pid != 0) {
      if (const auto times = parse_schedstat(thread.file.read())) {
        thread.run.follow(times->run_ns);
        thread.wait.follow(times->wait_ns);
        known = true;
        threads.measured = true;
      } else {
        threads.stale = true;
      }
    }
    run = wrapping_sum(run, thread.run.total());
    wait = wrapping_sum(wait, thread.wait.total());
  }
  threads.wait = wait;
  if (!known) return;
  slot.run_ns = run;
  slot.wait_ns = wait;
}

}  // namespace reveal
