#include "postproc/telemetry/job_file.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_pattern.h"
#include "hdf5schema/disk_space.h"
#include "hdf5schema/rewrite.h"
#include "hdf5schema/trace_reader.h"
#include "postproc/telemetry/job.h"

namespace reveal {
namespace {

/// Under a temporary name first, so that a reader of an earlier merge's result never sees half of this one.
double recover_whole(const std::filesystem::path& part, const std::filesystem::path& to) {
  const std::filesystem::path temporary = to.parent_path() / ("." + to.filename().string() + ".tmp");
  std::error_code ignored;
  std::filesystem::remove(temporary, ignored);  // left by a merge that was cut off
  try {
    const double seconds = recover(part, temporary);
    rename_and_sync(temporary, to);
    return seconds;
  } catch (...) {
    std::filesystem::remove(temporary, ignored);
    throw;
  }
}

}  // namespace

MergedJob merge_job_directory(const std::filesystem::path& directory, MergeForm form) {
  MergedJob job;
  job.path = directory / "job.h5";
  std::vector<NodeFile> files;
  std::vector<std::filesystem::path> temporary;
  std::vector<UnreadFolder> unread;
  const std::vector<ListedTrace> traces = list_traces(directory, &unread);
  for (const auto& [folder, why] : unread) {
    job.problems.push_back(fmt::format("the nodes in {} are left out: {}", (directory / folder).string(), why));
  }
  for (const ListedTrace& trace : traces) {
    try {
      std::filesystem::path path = trace.path;
      bool complete = true;
      std::string node;
      {
        const TraceReader reader(path);
        complete = reader.complete();
        node = reader.header().node;
        for (const TraceReader::Damage& damage : reader.damages())
          job.problems.push_back(fmt::format("{}: {}; {}", path.string(), damage.text(),
                                             form == MergeForm::links ? "damaged" : "left out"));
      }
      // The name becomes a group of job.h5.
      if (!is_file_name(node)) node = trace.node;
      const auto same = std::find(job.nodes.begin(), job.nodes.end(), node);
      if (same != job.nodes.end()) {
        job.problems.push_back(fmt::format("{}: a second trace of {} is omitted", trace.path.string(), node));
        continue;
      }
      if (!complete) {
        path = trace.path.parent_path() / (trace.node + ".recovered.h5");
        const double seconds = recover_whole(trace.path, path);
        job.problems.push_back(fmt::format("{}: cut off; {:.1f} s of it are merged", trace.path.string(), seconds));
        if (form == MergeForm::self_contained) temporary.push_back(path);
      }
      job.nodes.push_back(node);
      files.push_back({node, path});
    } catch (const Error& error) {
      job.problems.emplace_back(error.what());
    }
  }
  const auto clean = [&temporary] {
    for (const auto& path : temporary) {
      std::error_code ignored;
      std::filesystem::remove(path, ignored);
    }
  };
  if (files.empty()) throw Error(job.problems.front());
  try {
    merge_traces(files, job.path, form);
  } catch (...) {
    clean();
    throw;
  }
  clean();
  return job;
}

}  // namespace reveal
