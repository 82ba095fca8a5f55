// Huge pages of every size, on the whole host and on each NUMA node. Reserved pages that no process uses look like used
// memory everywhere else.
// https://docs.kernel.org/admin-guide/mm/hugetlbpage.html
#include <array>

#include "core/sampler/number_files.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::hugepages {
namespace {

constexpr std::string_view kHost = "/sys/kernel/mm/hugepages";
constexpr std::string_view kNodes = "/sys/devices/system/node";

constexpr MetricHelp kMetrics[] = {
    {"hugepages.total", "Memory reserved as huge pages of this size."},
    {"hugepages.free", "Unused part of it."},
    {"hugepages.reserved", "Part of the free huge pages that is already reserved by a program."},
    {"hugepages.surplus", "Huge pages allocated on demand beyond the reserved ones."},
};
constexpr std::array<std::string_view, 4> kFiles = {"nr_hugepages", "free_hugepages", "resv_hugepages",
                                                    "surplus_hugepages"};
constexpr FamilyTable kFamilies[] = {{"memory/hugepages_by_size", Kind::gauge, Unit::bytes, Scope::numa,
                                      Subsystem::memory, "Huge pages of every size, of the host and of each NUMA node",
                                      "/sys/kernel/mm/hugepages, /sys/devices/system/node/node*/hugepages", kMetrics}};

void add_sizes(KernelTree& fs, const std::string& folder, const std::string& prefix, std::vector<NumberFile>& files) {
  constexpr std::string_view kPrefix = "hugepages-";
  for (const std::string& name : fs.list(folder)) {
    if (!name.starts_with(kPrefix) || !name.ends_with("kB")) continue;
    const std::string size = name.substr(kPrefix.size());
    const auto kibibytes = parse_int(std::string_view(size).substr(0, size.size() - 2));
    if (!kibibytes || *kibibytes <= 0 || *kibibytes > (INT64_MAX >> 10)) continue;
    for (std::size_t i = 0; i < kFiles.size(); ++i) {
      KernelFile file = fs.open(folder + '/' + name + '/' + std::string(kFiles[i]), 64);
      if (file.read().empty()) continue;  // a node reserves nothing
      files.push_back({.metric = i, .instance = prefix + size, .file = std::move(file), .scale = *kibibytes * 1024});
    }
  }
}

std::unique_ptr<Probe> open_hugepages(const ProbeContext& context) {
  std::vector<NumberFile> files;
  add_sizes(context.fs, std::string(kHost), "", files);
  std::vector<std::string> nodes = context.fs.list(kNodes);
  std::erase_if(nodes, [](const std::string& name) { return !name.starts_with("node") || !parse_int(name.substr(4)); });
  if (nodes.size() < 2) nodes.clear();  // the only one has the same numbers
  for (const std::string& node : nodes) {
    add_sizes(context.fs, std::string(kNodes) + '/' + node + "/hugepages", node + '/', files);
  }
  if (files.empty()) throw Unavailable("this kernel has no huge pages");
  return open_number_files(context, kFamilies[0], std::move(files));
}

const RegisteredProbe entry{{.name = "hugepages",
                             .help = "Huge pages of every size: total, free, reserved, surplus",
                             .period = 5s,
                             .families = kFamilies,
                             .open = open_hugepages,
                             .remedy = "a kernel built with CONFIG_HUGETLBFS"}};

}  // namespace
}  // namespace reveal::probe::hugepages
