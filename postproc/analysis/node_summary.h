// The input of the merge from one node: `NODE.summary.json`, small enough to read a thousand of them. It holds a report
// of this node alone, in the format of report.json, and the profile by which nodes are compared. Stored as zlib text.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "postproc/peers/call_history.h"
#include "postproc/peers/collective_history.h"
#include "postproc/peers/node_profile.h"
#include "postproc/peers/retransmits.h"
#include "postproc/peers/step_history.h"
#include "postproc/report/report.h"
#include "postproc/telemetry/job.h"
#include "postproc/telemetry/publish.h"

namespace reveal {

inline constexpr std::size_t kLargestSummary = 200'000;  // as JSON

inline constexpr std::size_t kMostTimelines = 12;  // that a report draws
inline constexpr std::size_t kPhaseReasons = 3;    // channels of an episode by which a phase of the whole job is told

struct NodeSummary {
  std::string node;
  std::string tool_version;
  std::string config_hash;
  std::string trace;  // file name within the job directory
  std::uint64_t trace_bytes = 0;
  std::int64_t trace_mtime_ns = 0;
  bool complete = true;                // the collector closed the trace
  bool downsampled = false;            // after the analysis, to one row a minute: it cannot be repeated
  double seconds = 0;                  // recorded
  std::string boot_id;                 // boot of the kernel: equal for "nodes" that are namespaces of one machine
  std::string insufficient;            // why the detectors had no result, or ""
  std::string damaged;                 // the lost part of the trace that could have been a finding, or ""
  std::vector<std::string> addresses;  // addresses of its interfaces
  std::string expected_nodes;          // nodes of the job, folded, as far as recorded on this node
  Retransmits retransmits;             // over TCP: decides whether a peer lost segments
  NodeProfile profile;                 // for the comparison with other nodes and runs
  StepHistory steps;                   // steps of its ranks, for the same comparison
  CallHistory calls;                   // calls of its ranks, for the same comparison
  CollectiveHistory collectives;       // collectives that its ranks entered, for the same comparison
  Report part;
  bool operator==(const NodeSummary&) const = default;
};

/// Reduces timeline and episodes until the text fits kLargestSummary; `omitted` counts the cut items.
[[nodiscard]] std::string render_summary(NodeSummary summary);
/// From JSON, compressed or not, of this or an earlier version. Throws Error for another schema or a damaged file.
[[nodiscard]] NodeSummary parse_summary(std::string content);

/// Writes it beside the trace. Returns the summary as a report reads it later, rounded and reduced. Throws Error.
NodeSummary publish_summary(const std::filesystem::path& trace, NodeSummary summary, Synced synced = Synced::no);

/// Whether it was made from exactly this file, and nothing better can be had: see fresh_summary().
[[nodiscard]] bool is_fresh(const NodeSummary& summary, const ListedTrace& trace, const std::string& config_hash);
/// The node's summary, if it was made from exactly this file, by whichever version and configuration.
[[nodiscard]] std::optional<NodeSummary> summary_of(const ListedTrace& trace);

/// The same, if nothing better can be had: made by this version and configuration, or the trace was downsampled since.
[[nodiscard]] std::optional<NodeSummary> fresh_summary(const ListedTrace& trace, const std::string& config_hash);

/// "n01.summary.json" for n01.h5 and n01.h5.part
[[nodiscard]] std::string summary_name(const std::filesystem::path& trace);

/// Removes the points of the lines, most of what a summary takes in memory: a report draws a few lines of all nodes,
/// and reads these again.
void leave_points_in_file(NodeSummary& summary);

/// The lines of the summary beside the trace, if it is of the same recording: the trace may be downsampled by now.
[[nodiscard]] std::vector<TimelineChannel> stored_lines(const ListedTrace& trace, const NodeSummary& summary);

/// Averages neighbouring points until at most `most` are left.
void downsample(TimelineChannel& channel, std::size_t most);

}  // namespace reveal
