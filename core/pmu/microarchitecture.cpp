#include "core/pmu/microarchitecture.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

using enum Microarchitecture;

constexpr MicroarchitectureName kNames[] = {
    {unknown, "unknown", ""},
    {skylake_sp, "Skylake-SP", "skx"},
    {cascade_lake, "Cascade Lake", "clx"},
    {ice_lake_sp, "Ice Lake-SP", "icx"},
    {sapphire_rapids, "Sapphire Rapids", "spr"},
    {emerald_rapids, "Emerald Rapids", "spr"},  // missing in libpfm 4.13; the core is the same
    {zen2, "Zen 2", "amd64_fam17h_zen2"},
    {zen3, "Zen 3", "amd64_fam19h_zen3"},
    {zen4, "Zen 4", "amd64_fam19h_zen4"},
    {neoverse_n1, "Neoverse N1", "arm_n1"},
    {neoverse_v1, "Neoverse V1", "arm_v1"},
    {neoverse_n2, "Neoverse N2", "arm_n2"},
    {neoverse_v2, "Neoverse V2", "arm_v2"},
};

// CPUID: Intel's models from its list of processors, AMD's from the revision guides.
struct Model {
  std::string_view vendor;
  int family, first_model, last_model;
  int first_stepping;
  Microarchitecture is;
};
constexpr Model kModels[] = {
    {"GenuineIntel", 6, 0x55, 0x55, 5, cascade_lake},    {"GenuineIntel", 6, 0x55, 0x55, 0, skylake_sp},
    {"GenuineIntel", 6, 0x6a, 0x6a, 0, ice_lake_sp},     {"GenuineIntel", 6, 0x6c, 0x6c, 0, ice_lake_sp},
    {"GenuineIntel", 6, 0x8f, 0x8f, 0, sapphire_rapids}, {"GenuineIntel", 6, 0xcf, 0xcf, 0, emerald_rapids},
    {"AuthenticAMD", 0x17, 0x30, 0x4f, 0, zen2},         {"AuthenticAMD", 0x17, 0x60, 0x7f, 0, zen2},
    {"AuthenticAMD", 0x17, 0x90, 0x91, 0, zen2},         {"AuthenticAMD", 0x17, 0xa0, 0xaf, 0, zen2},
    {"AuthenticAMD", 0x19, 0x00, 0x0f, 0, zen3},         {"AuthenticAMD", 0x19, 0x20, 0x5f, 0, zen3},
    {"AuthenticAMD", 0x19, 0x10, 0x1f, 0, zen4},         {"AuthenticAMD", 0x19, 0x60, 0xaf, 0, zen4},
};

// MIDR_EL1 of Arm's own designs (implementer 0x41): the part number.
struct Part {
  int part;
  Microarchitecture is;
};
constexpr Part kParts[] = {{0xd0c, neoverse_n1}, {0xd40, neoverse_v1}, {0xd49, neoverse_n2}, {0xd4f, neoverse_v2}};

/// "model\t\t: 85" of the first processor; "" without such a line.
std::string_view value_of(std::string_view text, std::string_view key) {
  std::string_view line;
  while (next_line(text, line)) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::size_t end = line.find_last_not_of(" \t", colon == 0 ? 0 : colon - 1);
    if (line.substr(0, end + 1) != key) continue;
    line.remove_prefix(colon + 1);
    return next_word(line);
  }
  return {};
}

int number_of(std::string_view word) {
  const bool hexadecimal = word.starts_with("0x");
  if (hexadecimal) word.remove_prefix(2);
  int number = -1;
  std::from_chars(word.data(), word.data() + word.size(), number, hexadecimal ? 16 : 10);
  return number;
}

}  // namespace

std::span<const MicroarchitectureName> microarchitectures() {
  return kNames;
}

const MicroarchitectureName& name_of(Microarchitecture microarchitecture) {
  return *std::find_if(std::begin(kNames), std::end(kNames),
                       [&](const MicroarchitectureName& name) { return name.is == microarchitecture; });
}

Microarchitecture microarchitecture_of(std::string_view cpuinfo) {
  const std::string_view vendor = value_of(cpuinfo, "vendor_id");
  const int family = number_of(value_of(cpuinfo, "cpu family"));
  const int number = number_of(value_of(cpuinfo, "model"));
  const int stepping = number_of(value_of(cpuinfo, "stepping"));
  for (const Model& model : kModels) {
    if (model.vendor == vendor && model.family == family && number >= model.first_model && number <= model.last_model &&
        stepping >= model.first_stepping) {
      return model.is;
    }
  }
  if (number_of(value_of(cpuinfo, "CPU implementer")) != 0x41) return unknown;
  for (const Part& part : kParts) {
    if (part.part == number_of(value_of(cpuinfo, "CPU part"))) return part.is;
  }
  return unknown;
}

Microarchitecture microarchitecture_of(KernelTree& fs) {
  return microarchitecture_of(fs.text("/proc/cpuinfo").value_or(""));
}

}  // namespace reveal
