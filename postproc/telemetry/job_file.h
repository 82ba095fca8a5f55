// `reveal merge`: one job.h5 for all nodes of a job directory.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "hdf5schema/merge_traces.h"

namespace reveal {

struct MergedJob {
  std::filesystem::path path;
  std::vector<std::string> nodes;
  std::vector<std::string> problems;  // one line each: traces left out or recovered
};

/// A trace that was cut off is first rewritten as NODE.recovered.h5. Throws Error when nothing could be merged.
[[nodiscard]] MergedJob merge_job_directory(const std::filesystem::path& directory, MergeForm form);

}  // namespace reveal
