#include "postproc/peers/hardware_kinds.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "postproc/peers/node_pair.h"
#include "postproc/telemetry/snapshot_facts.h"

namespace reveal {
namespace {

constexpr std::array<std::string_view, 3> kModels = {"machine.model", "cpu.model", kGpuModels};
constexpr std::array<std::string_view, 10> kByKind = {
    "cpu.", "firmware.", "gpu.", "gpu_driver.", "job.cpus_", "kernel.clocksource", "memory.", "numa.", "pci.", "rdma."};
constexpr std::string_view kOfInterfaces = "net.";  // "net.eth0.speed"; "net.rmem_max" is a setting of the kernel

std::string models_of(const NodeProfile& node, bool with_gpus) {
  std::string kind;
  for (const std::string_view key : kModels) {
    if (key == kGpuModels && !with_gpus) continue;
    kind += fact_in(node.facts, key).value_or("");
    kind += '\n';
  }
  return kind;
}

}  // namespace

bool names_the_kind(std::string_view key) noexcept {
  return std::find(kModels.begin(), kModels.end(), key) != kModels.end();
}

bool follows_the_kind(std::string_view key) noexcept {
  if (key.starts_with(kOfInterfaces)) {
    // Interfaces of all kinds are in the same network: their MTU is compared over all nodes.
    return key.find('.', kOfInterfaces.size()) != std::string_view::npos && !key.ends_with(".mtu");
  }
  if (key == "cpu.smt" || key == "gpu_driver.version") return false;  // the site sets them, on all models
  return std::any_of(kByKind.begin(), kByKind.end(), [key](std::string_view begin) { return key.starts_with(begin); });
}

std::vector<std::vector<std::size_t>> hardware_kinds(const std::vector<const NodeProfile*>& nodes) {
  const bool with_gpus = std::all_of(
      nodes.begin(), nodes.end(), [](const NodeProfile* node) { return fact_in(node->facts, kGpuModels).has_value(); });
  std::map<std::string, std::vector<std::size_t>> by_kind;
  for (std::size_t n = 0; n < nodes.size(); ++n) by_kind[models_of(*nodes[n], with_gpus)].push_back(n);
  std::vector<std::vector<std::size_t>> kinds;
  kinds.reserve(by_kind.size());
  for (auto& [kind, members] : by_kind) kinds.push_back(std::move(members));
  std::stable_sort(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
  while (kinds.size() > 1 && kinds.back().size() < kLeastOfKind) {
    kinds.front().insert(kinds.front().end(), kinds.back().begin(), kinds.back().end());
    kinds.pop_back();
  }
  if (!kinds.empty()) std::sort(kinds.front().begin(), kinds.front().end());
  return kinds;
}

}  // namespace reveal
