// The disk that was busy most of an interval.
#pragma once

#include <string>

#include "postproc/diagnose/excursion.h"
#include "postproc/diagnose/rule.h"

namespace reveal {

struct BusiestDisk {
  std::string name;  // "" where none was busy, or none was measured
  double busy = 0;   // share of the time
};
[[nodiscard]] BusiestDisk busiest_disk(const RuleContext& context, Interval at);

}  // namespace reveal
