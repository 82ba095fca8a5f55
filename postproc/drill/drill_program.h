// The two processes of a drill: the program of the job, and, for the disturbance `outsider`, the one beside it. Both
// use at most one cpu, at a low priority, end themselves, and write into the drill's own directory alone.
#pragma once

#include <sys/types.h>

#include <filesystem>

#include "postproc/drill/drill.h"

namespace reveal {

struct DrillPlan {
  std::filesystem::path place;  // the drill's own directory, which both see
  std::string disturbance = "outsider";
  int cpu = -1;         // on which both stay; -1: wherever they may run
  double seconds = 60;  // length of the job; the disturbance takes a quarter of it, a little before its end

  [[nodiscard]] double begin_seconds() const { return 0.45 * seconds; }
  [[nodiscard]] double length_seconds() const { return 0.25 * seconds; }
};

/// The program of the job; its exit status.
int run_drill_program(const DrillPlan& plan);

/// Waits until that one has begun, and disturbs it; its exit status.
int run_drill_outsider(const DrillPlan& plan);

/// The records of both processes. Throws Error where the disturbance did not happen.
[[nodiscard]] DrillTruth truth_of_drill(const DrillPlan& plan);

struct IdleCpu {
  int cpu = -1;
  double idle = 0;  // share of the time
};
/// The cpu that was idle for the largest part of two seconds, of those that this process may use; -1 if the kernel
/// does not report it.
[[nodiscard]] IdleCpu idlest_cpu();

}  // namespace reveal
