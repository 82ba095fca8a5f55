#include "core/sampler/host.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstring>

#include "core/job/cpu_set.h"
#include "core/job/process_stat.h"
#include "core/kernel_text/kernel_words.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::int64_t kMostTicks = 1'000'000;  // a second
constexpr std::int64_t kLargestPage = 1 << 30;

struct Constants {
  std::int64_t ticks_per_second = kMissing;
  std::int64_t page_bytes = kMissing;

  void take(std::int64_t ticks, std::int64_t page) noexcept {
    if (ticks_per_second == kMissing && ticks > 0 && ticks <= kMostTicks) ticks_per_second = ticks;
    if (page_bytes == kMissing && page > 0 && page <= kLargestPage &&
        std::has_single_bit(static_cast<std::uint64_t>(page)))
      page_bytes = page;
  }
};

// The auxiliary vector that the kernel gives each program at its start: pairs of 64-bit words.
// https://man7.org/linux/man-pages/man3/getauxval.3.html
void take_auxiliary_vector(std::string_view vector, Constants& constants) noexcept {
  std::array<std::uint64_t, 2> pair{};
  for (; vector.size() >= sizeof pair; vector.remove_prefix(sizeof pair)) {
    std::memcpy(pair.data(), vector.data(), sizeof pair);
    const auto value = static_cast<std::int64_t>(pair[1]);
    if (pair[0] == AT_CLKTCK) constants.take(value, kMissing);
    if (pair[0] == AT_PAGESZ) constants.take(kMissing, value);
  }
}

// Linux counts in hundredths of a second for programs, whatever its own clock, but on two old architectures.
// https://man7.org/linux/man-pages/man7/time.7.html
bool has_usual_ticks(KernelTree& fs) {
  const std::string cpus = fs.text("/proc/cpuinfo").value_or("");
  return cpus.find("IA-64") == std::string::npos && cpus.find("Alpha") == std::string::npos;
}

// Constants of this machine, of the recorded one, or of a copied tree: never those of this machine for another one.
Constants constants_of(KernelTree& fs) {
  Constants constants;
  const std::string text = fs.fact("@sysconf", [&fs] {
    if (!fs.live()) return std::string();
    return std::to_string(::sysconf(_SC_CLK_TCK)) + ' ' + std::to_string(::sysconf(_SC_PAGESIZE));
  });
  std::string_view rest = text;
  const auto ticks = parse_int(next_word(rest));
  const auto page = parse_int(next_word(rest));
  constants.take(ticks.value_or(kMissing), page.value_or(kMissing));
  if (fs.live()) return constants;
  for (const char* process : {"/proc/self/", "/proc/1/"}) {
    take_auxiliary_vector(fs.text(process + std::string("auxv")).value_or(""), constants);
    const std::string maps = fs.text(process + std::string("smaps")).value_or("");
    std::int64_t kibibytes = 0;
    if (parse_counter(field_of(maps, "KernelPageSize"), kibibytes)) constants.take(kMissing, scaled(kibibytes, 1024));
  }
  if (has_usual_ticks(fs)) constants.take(100, kMissing);
  return constants;
}

std::vector<int> online_cpus(KernelTree& fs) {
  for (const char* list : {"online", "present"}) {
    const std::vector<int> cpus = parse_cpu_list(fs.word(std::string("/sys/devices/system/cpu/") + list));
    if (!cpus.empty()) return cpus;
  }
  std::vector<int> cpus;
  const std::string stat = fs.text("/proc/stat").value_or("");
  std::string_view rest = stat;
  std::string_view line;
  while (next_line(rest, line)) {
    const std::string_view key = cut_word(line);
    if (!key.starts_with("cpu")) continue;
    const auto number = parse_int(key.substr(3));
    if (number && *number >= 0 && *number < static_cast<std::int64_t>(CpuSet::kMost)) {
      cpus.push_back(static_cast<int>(*number));
    }
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

}  // namespace

Host Host::look(KernelTree& fs) {
  Host host;
  const Constants constants = constants_of(fs);
  host.page_bytes = constants.page_bytes;
  if (constants.ticks_per_second != kMissing) host.tick_ns = kSecond / constants.ticks_per_second;
  if (host.page_bytes == kMissing)
    host.caveat = "values in pages are missing: this copy does not contain the page size";
  if (host.tick_ns == kMissing) {
    host.caveat += std::string(host.caveat.empty() ? "" : "; ") +
                   "values in clock ticks are missing: this copy does not contain the length of a tick";
  }
  host.cpus_online = online_cpus(fs);
  return host;
}

}  // namespace reveal
