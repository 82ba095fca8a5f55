#include "core/job/gpu_devices.h"

#include <algorithm>
#include <vector>

#include "core/job/cpu_set.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::int64_t kPeriod = 10'000'000'000;
constexpr std::size_t kMostProcesses = 64;  // looked at in one go
constexpr int kDescriptors = 512;           // of each, from 0 on: a driver is opened early
constexpr std::string_view kDevice = "/dev/nvidia";

}  // namespace

void GpuDevices::look(std::int64_t now_ns, const Job& job) {
  if (node_ == Node::unknown) node_ = fs_.list("/proc/driver/nvidia/gpus").empty() ? Node::without : Node::with;
  if (node_ == Node::without || now_ns < next_ns_) return;
  next_ns_ = now_ns + kPeriod;
  const std::string numbers = fs_.fact("@job/gpus", [&] { return open_now(job); });
  std::string_view rest = numbers;
  while (!rest.empty()) {
    if (const auto number = parse_int(next_word(rest))) opened_.insert(static_cast<int>(*number));
  }
}

std::string GpuDevices::open_now(const Job& job) {
  std::set<int> open;
  const auto& processes = job.processes();
  for (std::size_t i = 0; i < std::min(processes.size(), kMostProcesses); ++i) {
    const JobProcess& process = *processes[turn_++ % processes.size()];
    if (process.launcher) continue;
    const std::string folder = "/proc/" + std::to_string(process.pid) + "/fd/";
    for (int fd = 0; fd < kDescriptors; ++fd) {
      const std::string target = fs_.link(folder + std::to_string(fd)).value_or("");
      if (!target.starts_with(kDevice)) continue;  // nvidiactl and nvidia-uvm have no number
      if (const auto number = parse_int(std::string_view(target).substr(kDevice.size()))) {
        open.insert(static_cast<int>(*number));
      }
    }
  }
  std::string text;
  for (const int number : open) text += std::to_string(number) + ' ';
  return text;
}

std::string GpuDevices::opened() const {
  return format_cpu_list(std::vector<int>(opened_.begin(), opened_.end()));
}

}  // namespace reveal
