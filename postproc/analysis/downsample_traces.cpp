#include "postproc/analysis/downsample_traces.h"

#include <sys/stat.h>
#include <unistd.h>

#include <exception>

#include "hdf5schema/disk_space.h"
#include "hdf5schema/rewrite.h"
#include "postproc/analysis/node_summary.h"
#include "postproc/telemetry/publish.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;

/// Not through a link, and not a file of another user: the file that replaces it is ours.
bool is_own_file(const fs::path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == ::geteuid();
}

/// The summary before the trace: if this is cut off between them, the summary does not fit its trace, which is still
/// whole and is analysed again. The time stays that of the recording: a report made before remains the younger one.
void downsample(const ListedTrace& trace, NodeSummary summary, const fs::path& smaller) {
  if (!compact(trace.path, smaller, {.form = Retention::Form::summary})) return;
  summary.downsampled = true;
  summary.trace_bytes = fs::file_size(smaller);
  if (summary.trace_bytes >= trace.bytes) return;
  fs::permissions(smaller, fs::status(trace.path).permissions());
  fs::last_write_time(smaller, fs::last_write_time(trace.path));
  publish_summary(trace.path, std::move(summary), Synced::yes);
  rename_and_sync(smaller, trace.path);
}

}  // namespace

std::vector<std::string> downsample_traces(const fs::path& directory, const std::string& node) {
  std::vector<std::string> problems;
  for (const ListedTrace& trace : node.empty() ? list_traces(directory) : traces_of_node(directory, node)) {
    if (trace.part || !is_own_file(trace.path)) continue;
    auto summary = summary_of(trace);
    if (!summary || summary->downsampled) continue;
    // Another process that does the same has a file of its own.
    const fs::path smaller =
        trace.path.parent_path() / ("." + trace.path.filename().string() + ".thinner" + std::to_string(::getpid()));
    try {
      downsample(trace, *std::move(summary), smaller);
    } catch (const std::exception& error) {
      problems.push_back(trace.path.string() + " was not reduced: " + error.what());
    }
    std::error_code ignored;
    fs::remove(smaller, ignored);
  }
  return problems;
}

}  // namespace reveal
