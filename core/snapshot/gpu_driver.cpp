// The NVIDIA driver as the kernel shows it, without its library.
// https://download.nvidia.com/XFree86/Linux-x86_64/550.54.14/README/procinterface.html
#include <algorithm>
#include <array>

#include "core/snapshot/snapshot.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

// 550.54.15 of "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar ..."
std::string version_number(std::string_view text) {
  for (std::string_view word = next_word(text); !word.empty(); word = next_word(text)) {
    const std::size_t dot = word.find('.');
    if (dot != std::string_view::npos && parse_int(word.substr(0, dot))) return std::string(word);
  }
  return "";
}

}  // namespace

Snapshot gpu_driver(KernelTree& fs) {
  const std::string version = fs.text("/proc/driver/nvidia/version").value_or("");
  if (version.empty()) return {};
  // The fabric reaches a GPU's memory through one of these, or through the open kernel module itself.
  constexpr std::array<std::string_view, 2> kPeerMemory = {"nvidia_peermem", "nv_peer_mem"};
  const bool peer_memory = std::any_of(kPeerMemory.begin(), kPeerMemory.end(), [&](std::string_view module) {
    return !fs.list("/sys/module/" + std::string(module)).empty();
  });
  const bool open = version.find("Open Kernel Module") != std::string::npos;
  return {{"gpu_driver.version", version_number(version)},
          {"gpu_driver.kernel_module", open ? "open" : "proprietary"},
          {"gpu_driver.peer_memory", peer_memory ? "loaded" : "not loaded"},
          {"gpu_driver.gdrcopy", fs.list("/sys/module/gdrdrv").empty() ? "not loaded" : "loaded"}};
}

}  // namespace reveal
