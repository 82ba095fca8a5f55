#include "core/broker/extern_step.h"

#include <utility>

#include "core/job/process_stat.h"
#include "core/job/slurm_step.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr int kGrace = 5;         // looks
constexpr int kLastSearch = 100;  // looks; each one is twice as late as the one before

std::int64_t start_of(KernelTree& fs, int pid) {
  const std::string text = fs.text("/proc/" + std::to_string(pid) + "/stat").value_or("");
  const auto stat = parse_process_stat(text);
  return stat && stat->state != 'Z' ? stat->start_ticks : 0;
}

}  // namespace

ExternStep::ExternStep(KernelTree& fs, std::string job, std::string node) noexcept
    : fs_(fs), job_(std::move(job)), node_(std::move(node)) {}

bool ExternStep::update() {
  ++looks_;
  if (pid_ == 0) {
    if (looks_ >= next_search_ && looks_ <= kLastSearch) search();
    return false;
  }
  missing_for_ = start_of(fs_, pid_) == start_ticks_ ? 0 : missing_for_ + 1;
  return missing_for_ > kGrace;
}

void ExternStep::search() {
  next_search_ *= 2;
  for (const std::string& process : fs_.list("/proc")) {
    const auto pid = parse_int(process);
    if (!pid) continue;
    const std::string name = fs_.text("/proc/" + process + "/comm").value_or("");
    if (!name.starts_with(kStepDaemon)) continue;
    const StepDaemon daemon = read_step_daemon(fs_, static_cast<int>(*pid));
    if (daemon.job != job_ || daemon.step != "extern" || (!daemon.node.empty() && daemon.node != node_)) continue;
    pid_ = static_cast<int>(*pid);
    start_ticks_ = start_of(fs_, pid_);
    return;
  }
}

}  // namespace reveal
