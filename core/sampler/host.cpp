#include "core/sampler/host.h"

#include <unistd.h>

#include "hdf5schema/basics/text.h"

namespace reveal {

Host Host::look(RootFs& fs) {
  Host host;
  const std::string constants = fs.fact("@sysconf", [] {
    return std::to_string(::sysconf(_SC_CLK_TCK)) + ' ' + std::to_string(::sysconf(_SC_PAGESIZE));
  });
  std::string_view rest = constants;
  const auto ticks_per_second = parse_int(next_word(rest));
  const auto page = parse_int(next_word(rest));
  if (ticks_per_second && *ticks_per_second > 0 && *ticks_per_second <= 1'000'000)
    host.tick_ns = 1'000'000'000 / *ticks_per_second;
  if (page && *page > 0 && *page <= (1 << 30)) host.page_bytes = *page;
  host.cpus_online = parse_cpu_list(fs.word("/sys/devices/system/cpu/online"));
  if (host.cpus_online.empty()) host.cpus_online.push_back(0);
  return host;
}

}  // namespace reveal
