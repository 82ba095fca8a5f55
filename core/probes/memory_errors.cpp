// Memory errors that the kernel's EDAC drivers count, corrected and not, of each controller and module.
// https://docs.kernel.org/driver-api/edac.html
#include <algorithm>

#include "core/sampler/number_files.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::memory_errors {
namespace {

constexpr std::string_view kFolder = "/sys/devices/system/edac/mc";

constexpr MetricHelp kMetrics[] = {
    {"edac.corrected", "Corrected errors; many errors of one module often precede its failure."},
    {"edac.uncorrected", "Uncorrected errors."},
    {"edac.corrected_nowhere", "Corrected errors whose module is not known."},
    {"edac.uncorrected_nowhere", "Uncorrected errors whose module is not known."},
};
constexpr FamilyTable kFamilies[] = {{"memory/errors", Kind::event, Unit::count, Scope::device, Subsystem::memory,
                                      "Memory errors of each controller and module",
                                      "/sys/devices/system/edac/mc/mc*/{,dimm*/,rank*/,csrow*/}*_count", kMetrics}};

struct Count {
  std::string_view file;
  std::size_t metric;
};
constexpr Count kOfController[] = {{"ce_count", 0}, {"ue_count", 1}, {"ce_noinfo_count", 2}, {"ue_noinfo_count", 3}};
constexpr Count kOfModule[] = {{"dimm_ce_count", 0}, {"dimm_ue_count", 1}};
constexpr Count kOfRow[] = {{"ce_count", 0}, {"ue_count", 1}};

// Their names, in the order in which a kernel offers them; older ones have only the last.
struct Level {
  std::string_view prefix;
  std::span<const Count> counts;
};
constexpr Level kLevels[] = {{"dimm", kOfModule}, {"rank", kOfModule}, {"csrow", kOfRow}};

void add(KernelTree& fs, const std::string& folder, std::span<const Count> counts, const std::string& instance,
         std::vector<NumberFile>& files) {
  for (const Count& count : counts) {
    KernelFile file = fs.open_each_time(folder + '/' + std::string(count.file));
    if (file.read().empty()) continue;
    files.push_back({.metric = count.metric, .instance = instance, .file = std::move(file)});
  }
}

void add_modules(KernelTree& fs, const std::string& folder, const std::string& controller,
                 std::vector<NumberFile>& files) {
  const std::vector<std::string> names = fs.list(folder);
  for (const Level& level : kLevels) {
    const std::size_t before = files.size();
    for (const std::string& name : names) {
      if (!name.starts_with(level.prefix)) continue;
      std::string label = fs.word(folder + '/' + name + "/dimm_label");
      std::replace(label.begin(), label.end(), ' ', '_');
      add(fs, folder + '/' + name, level.counts, controller + '/' + (label.empty() ? name : label), files);
    }
    if (files.size() > before) return;  // the others have the same counts
  }
}

/// The instances are "mc0" and "mc0/CPU_SrcID#0_MC#0_Chan#0_DIMM#0".
std::unique_ptr<Probe> open_memory_errors(const ProbeContext& context) {
  std::vector<NumberFile> files;
  for (const std::string& name : context.fs.list(kFolder)) {
    if (!name.starts_with("mc") || !parse_int(name.substr(2))) continue;
    const std::string folder = std::string(kFolder) + '/' + name;
    add(context.fs, folder, kOfController, name, files);
    add_modules(context.fs, folder, name, files);
  }
  if (files.empty()) throw Unavailable("no EDAC driver counts memory errors (no ECC memory, or a virtual machine)");
  return open_number_files(context, kFamilies[0], std::move(files));
}

const RegisteredProbe entry{{.name = "memory_errors",
                             .help = "Corrected and uncorrected memory errors of each controller and module",
                             .period = 10s,
                             .families = kFamilies,
                             .open = open_memory_errors,
                             .remedy =
                                 "hardware with ECC memory only; admin: load its EDAC driver (skx_edac, i10nm_edac, "
                                 "amd64_edac)",
                             .absence = Absence::hardware}};

}  // namespace
}  // namespace reveal::probe::memory_errors
