#include "postproc/report/thin_traces.h"

#include <exception>

#include "hdf5schema/rewrite.h"
#include "postproc/merge/publish.h"
#include "postproc/report/summary.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;

/// The summary before the trace: if this is cut off between them, the summary does not fit its trace, which is still
/// whole and is analysed again. The time stays that of the recording: a report made before remains the younger one.
void thin(const ListedTrace& trace, NodeSummary summary, const fs::path& thinner) {
  if (!compact(trace.path, thinner, {.form = Retention::Form::summary})) return;
  summary.thinned = true;
  summary.trace_bytes = fs::file_size(thinner);
  if (summary.trace_bytes >= trace.bytes) return;
  fs::last_write_time(thinner, fs::last_write_time(trace.path));
  publish_file(trace.path.parent_path(), summary_name(trace.path), render_summary(std::move(summary)));
  fs::rename(thinner, trace.path);
}

}  // namespace

void thin_traces(const fs::path& directory, const std::string& node) {
  for (const ListedTrace& trace : list_traces(directory)) {
    if (trace.part || (!node.empty() && trace.node != node)) continue;
    auto summary = summary_of(trace);
    if (!summary || summary->thinned) continue;
    const fs::path thinner = directory / ("." + trace.path.filename().string() + ".thinner");
    std::error_code ignored;
    fs::remove(thinner, ignored);  // of one that was killed here
    try {
      thin(trace, *std::move(summary), thinner);
    } catch (const std::exception&) {
      // stays whole
    }
    fs::remove(thinner, ignored);
  }
}

}  // namespace reveal
