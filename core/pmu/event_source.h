// A PMU as the kernel describes it in /sys/bus/event_source/devices: its type number, the meaning of an event's bits,
// the events it names, and the cpus on which it is counted.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/kernel_text/kernel_tree.h"
#include "core/pmu/perf_event.h"

namespace reveal {

/// Where a term's bits go: "config1:0-7,32-35" is word 1 and two ranges, the lowest bits of the value first.
struct EventField {
  int word = 0;
  std::vector<std::pair<int, int>> bits;
};

/// Nothing for a text that is no format of a PMU.
[[nodiscard]] std::optional<EventField> parse_event_field(std::string_view text);

class EventSource {
 public:
  /// Nothing if there is no such PMU.
  static std::optional<EventSource> look(KernelTree& fs, const std::string& name);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::uint32_t type() const noexcept { return type_; }
  /// Each counts a part of the node for all others: a socket, a core. Empty: the PMU belongs to every cpu.
  [[nodiscard]] const std::vector<int>& cpus() const noexcept { return cpus_; }

  /// "event=0x04,umask=0x03"; nothing if the PMU does not have one of its terms, or if a value does not fit.
  [[nodiscard]] std::optional<PerfEvent> encode(std::string_view terms) const;
  /// The events that the kernel lists.
  [[nodiscard]] std::vector<std::string> event_names(KernelTree& fs) const;
  /// The event of this name, as the kernel encodes it.
  [[nodiscard]] std::optional<PerfEvent> event(KernelTree& fs, std::string_view event) const;
  /// One count in the unit of events/NAME.unit; 1 without.
  [[nodiscard]] double scale(KernelTree& fs, std::string_view event) const;
  /// "Joules", "MiB"; "" without.
  [[nodiscard]] std::string unit(KernelTree& fs, std::string_view event) const;

 private:
  std::string name_, folder_;
  std::uint32_t type_ = 0;
  std::vector<int> cpus_;
  std::map<std::string, EventField, std::less<>> fields_;
};

/// Names of all PMUs that begin with `prefix`, in the order of their numbers.
[[nodiscard]] std::vector<std::string> event_source_names(KernelTree& fs, std::string_view prefix);

}  // namespace reveal
