// The events that a processor implements, if the kernel lists them. Arm numbers the events of all its cores; opening an
// event that this core lacks succeeds, but it never counts.
// https://developer.arm.com/documentation/ddi0487/latest (PMCEID0_EL0)
#pragma once

#include <vector>

#include "core/kernel_text/kernel_tree.h"
#include "core/pmu/event_table.h"

namespace reveal {

/// Removes the events from the table that are not in the kernel's list, and returns their metrics.
[[nodiscard]] std::vector<std::string_view> drop_unimplemented(KernelTree& fs, std::vector<HardwareEvent>& table);

}  // namespace reveal
