#include "core/job/opened_devices.h"

#include <algorithm>
#include <vector>

#include "core/job/cpu_set.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::int64_t kDevicesPeriod = 10'000'000'000;
constexpr std::size_t kProcessesAsked = 64;  // looked at in one go
constexpr int kDescriptors = 512;            // descriptors of each process, from 0 on: a driver is opened early
constexpr std::string_view kGpu = "/dev/nvidia";
constexpr std::string_view kVerbs = "/dev/infiniband/uverbs";

std::string list_of(const std::set<int>& numbers) {
  return format_cpu_list(std::vector<int>(numbers.begin(), numbers.end()));
}

}  // namespace

void OpenedDevices::look(std::int64_t now_ns, const Job& job) {
  if (!looked_at_node_) {
    looked_at_node_ = true;
    has_gpus_ = !fs_.list("/proc/driver/nvidia/gpus").empty();
    has_rdma_ = !fs_.list("/sys/class/infiniband_verbs").empty();
  }
  if ((!has_gpus_ && !has_rdma_) || now_ns < next_ns_) return;
  next_ns_ = now_ns + kDevicesPeriod;
  const std::string devices = fs_.fact("@job/devices", [&] { return open_now(job); });
  std::string_view rest = devices;
  while (!rest.empty()) {
    const std::string_view device = next_word(rest);
    for (const auto& [prefix, opened] : {std::pair{kGpu, &gpus_}, std::pair{kVerbs, &rdma_}}) {
      if (!device.starts_with(prefix)) continue;  // nvidiactl and nvidia-uvm have no number
      if (const auto number = parse_int(device.substr(prefix.size()))) opened->insert(static_cast<int>(*number));
    }
  }
  looked_at_job_ = looked_at_job_ || std::any_of(job.processes().begin(), job.processes().end(),
                                                 [](const auto& process) { return !process->launcher; });
}

std::string OpenedDevices::open_now(const Job& job) {
  std::set<std::string> open;
  const auto& processes = job.processes();
  for (std::size_t i = 0; i < std::min(processes.size(), kProcessesAsked); ++i) {
    const JobProcess& process = *processes[turn_++ % processes.size()];
    if (process.launcher) continue;
    const std::string folder = "/proc/" + std::to_string(process.pid) + "/fd/";
    for (int fd = 0; fd < kDescriptors; ++fd) {
      std::string target = fs_.link(folder + std::to_string(fd)).value_or("");
      if (target.starts_with(kGpu) || target.starts_with(kVerbs)) open.insert(std::move(target));
    }
  }
  std::string text;
  for (const std::string& device : open) text += device + ' ';
  return text;
}

std::string OpenedDevices::gpus() const {
  return list_of(gpus_);
}

std::string OpenedDevices::rdma() const {
  if (!has_rdma_ || !looked_at_job_) return "";
  return rdma_.empty() ? "none" : list_of(rdma_);
}

}  // namespace reveal
