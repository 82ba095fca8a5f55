// Inputs of a report that cannot be used as they are: missing and unread nodes, two traces of one node, recordings
// apart.
#pragma once

#include <string>
#include <vector>

#include "postproc/analysis/node_summary.h"
#include "postproc/report/report.h"
#include "postproc/telemetry/node_folders.h"

namespace reveal {

/// One line about an input that could not be used as it is; it is also in the report.
struct InputProblem {
  std::string node;
  std::string text;
  bool unusable = false;
};

/// Keeps one trace for each node: the longest, and a closed one before a cut one of the same length.
void drop_duplicates(std::vector<NodeSummary>& summaries, std::vector<InputProblem>& problems);

/// Adds the nodes without a trace, of those that traces name and the `expected` ones; an unread folder for which no
/// node was expected stands for itself.
void note_missing_nodes(const std::vector<NodeSummary>& summaries, const std::vector<std::string>& expected,
                        const std::vector<UnreadFolder>& unread, std::vector<InputProblem>& problems);

/// Nodes that recorded at another time than most of them, by their clocks: then the job's begin and end are not those
/// of one node, and its length is no run time.
[[nodiscard]] std::vector<InputProblem> recordings_apart(const std::vector<NodeSummary>& summaries);

/// The problems become notes of the report's coverage and missing nodes.
void add_problems(const std::vector<InputProblem>& problems, Report& report);

/// A collector that started late on a busy node saw less than the command's time, which the page gives.
void note_unrecorded_time(const std::vector<NodeSummary>& summaries, Report& report);

}  // namespace reveal
