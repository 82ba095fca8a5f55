#include "core/pmu/implemented_events.h"

#include <algorithm>
#include <set>

#include "core/pmu/event_source.h"

namespace reveal {
namespace {

/// Events with these numbers are described by registers of the core (PMCEID), and the kernel lists those that it has by
/// name. Events beyond them are only described in the manual of the core.
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
