#include "core/pmu/implemented_events.h"

#include <algorithm>
#include <set>

#include "core/pmu/event_source.h"

namespace reveal {
namespace {

/// Of these numbers the core has registers that say which it has (PMCEID), and the kernel lists them by name. What a
/// core has beyond them its manual says.
bool is_common_event(std::uint64_t code) {
  return code < 0x40 || (code >= 0x4000 && code < 0x4040);
}

/// Codes in events/ of Arm's PMUs; empty elsewhere.
std::set<std::uint64_t> listed_events(KernelTree& fs) {
  std::set<std::uint64_t> listed;
  for (const std::string& name : event_source_names(fs, "armv")) {
    const auto source = EventSource::look(fs, name);
    if (!source) continue;
    for (const std::string& event : source->event_names(fs)) {
      if (const auto code = source->event(fs, event)) listed.insert(code->config);
    }
  }
  return listed;
}

}  // namespace

std::vector<std::string_view> drop_unimplemented(KernelTree& fs, std::vector<HardwareEvent>& table) {
  std::vector<std::string_view> dropped;
  const std::set<std::uint64_t> listed = listed_events(fs);
  if (listed.empty()) return dropped;
  std::erase_if(table, [&](const HardwareEvent& event) {
    if (!is_common_event(event.code.config) || listed.contains(event.code.config)) return false;
    dropped.push_back(metric_of(event.signal));
    return true;
  });
  return dropped;
}

}  // namespace reveal
