// Where the main threads of the job's Python processes stood: over the whole job, and while a finding lasted. Names out
// of the job's own program, which are its owner's business: mail to administrators leaves them out.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "postproc/diagnose/finding.h"
#include "postproc/telemetry/python_samples.h"

namespace reveal {

struct PythonPlace {
  std::string place;   // "load (data.py:88)"
  double samples = 0;  // at the usual pace: see PythonSamples::Sample::weight
  bool operator==(const PythonPlace&) const = default;
};

/// The main thread of one process over the whole job.
struct PythonThread {
  std::string node;
  std::string process;              // "rank0"
  double samples = 0;               // in which it was read where it stood
  std::vector<PythonPlace> places;  // most frequent first, a few
  bool operator==(const PythonThread&) const = default;
};

[[nodiscard]] std::vector<PythonThread> python_threads(std::span<const PythonSamples> processes,
                                                       const std::string& node);

/// Adds to each finding the place of the main threads while it lasted, if it was mostly one place, and less so at other
/// times; for a finding that lasted the whole job, if it was almost always one place.
void add_main_threads(std::span<const PythonSamples> processes, std::int64_t utc_minus_monotonic_ns,
                      std::span<Finding> findings);

}  // namespace reveal
