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
constexpr std::string_view kRender = "/dev/dri/renderD";
constexpr std::string_view kRenderDrivers[] = {"amdgpu", "i915", "xe"};
// Place of the GPU within Intel's processors, which jobs do not compute on.
constexpr std::string_view kIntegrated = ":00:02.0";
constexpr std::string_view kVerbs = "/dev/infiniband/uverbs";

std::string list_of(const std::set<int>& numbers) {
  return format_cpu_list(std::vector<int>(numbers.begin(), numbers.end()));
}

/// "0000:c1:00.0" of the line "PCI_SLOT_NAME=0000:c1:00.0".
std::string_view value_after(std::string_view text, std::string_view key) {
  std::string_view line;
  while (next_line(text, line)) {
    if (line.starts_with(key) && line.substr(key.size()).starts_with('=')) return line.substr(key.size() + 1);
  }
  return {};
}

}  // namespace

std::vector<RenderDevice> render_devices(KernelTree& fs, std::string_view driver) {
  constexpr std::string_view kFolder = "/sys/class/drm/";
  constexpr std::string_view kName = "renderD";
  constexpr std::size_t kMostDevices = 256;  // a recording may hold any number
  std::vector<RenderDevice> devices;
  for (const std::string& name : fs.list(kFolder)) {
    if (!name.starts_with(kName) || devices.size() == kMostDevices) continue;
    const auto minor = parse_int(std::string_view(name).substr(kName.size()));
    const std::string text = fs.text(std::string(kFolder) + name + "/device/uevent").value_or("");
    const std::string_view address = value_after(text, "PCI_SLOT_NAME");
    const bool whole = !address.empty() && address.find_first_not_of("0123456789abcdef:.") == std::string_view::npos;
    if (!minor || *minor < 0 || !whole || value_after(text, "DRIVER") != driver) continue;
    if (driver != "amdgpu" && address.ends_with(kIntegrated)) continue;
    devices.push_back({static_cast<int>(*minor), std::string(address)});
  }
  std::sort(devices.begin(), devices.end(),
            [](const RenderDevice& a, const RenderDevice& b) { return a.minor < b.minor; });
  return devices;
}

void OpenedDevices::look(std::int64_t now_ns, const Job& job) {
  if (!looked_at_node_) {
    looked_at_node_ = true;
    for (const std::string_view driver : kRenderDrivers) {
      for (const RenderDevice& device : render_devices(fs_, driver)) render_minors_.insert(device.minor);
    }
    has_gpus_ = !fs_.list("/proc/driver/nvidia/gpus").empty() || !render_minors_.empty();
    has_rdma_ = !fs_.list("/sys/class/infiniband_verbs").empty();
  }
  if ((!has_gpus_ && !has_rdma_) || now_ns < next_ns_) return;
  next_ns_ = now_ns + kDevicesPeriod;
  const std::string devices = fs_.fact(recorded_as_, [&] { return open_now(job); });
  std::string_view rest = devices;
  while (!rest.empty()) {
    const std::string_view device = next_word(rest);
    for (const auto& [prefix, opened] :
         {std::pair{kGpu, &gpus_}, std::pair{kRender, &render_gpus_}, std::pair{kVerbs, &rdma_}}) {
      if (!device.starts_with(prefix)) continue;  // nvidiactl and nvidia-uvm have no number
      if (const auto number = parse_int(device.substr(prefix.size()))) opened->insert(static_cast<int>(*number));
    }
  }
  std::erase_if(render_gpus_, [this](int minor) { return !render_minors_.contains(minor); });
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
      const bool wanted = target.starts_with(kGpu) || target.starts_with(kRender) || target.starts_with(kVerbs);
      if (wanted) open.insert(std::move(target));
    }
  }
  std::string text;
  for (const std::string& device : open) text += device + ' ';
  return text;
}

std::string OpenedDevices::gpus() const {
  std::set<int> all = gpus_;
  all.insert(render_gpus_.begin(), render_gpus_.end());
  return list_of(all);
}

std::string OpenedDevices::rdma() const {
  if (!has_rdma_ || !looked_at_job_) return "";
  return rdma_.empty() ? "none" : list_of(rdma_);
}

}  // namespace reveal
