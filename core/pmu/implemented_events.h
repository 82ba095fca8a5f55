// Which events a processor really has, where it can be asked: Arm numbers the events of all cores, a core need not have
// all of them, and one that it lacks can be opened all the same and counts nothing, which is no measurement.
#pragma once

#include <vector>

#include "core/pmu/event_table.h"
#include "core/root/root_fs.h"

namespace reveal {

/// Takes the events out of the table that the kernel's list says are not there, and returns their metrics.
[[nodiscard]] std::vector<std::string_view> drop_unimplemented(RootFs& fs, std::vector<HardwareEvent>& table);

}  // namespace reveal
