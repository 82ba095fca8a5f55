// From one node's trace to its summary: detect, run every rule, keep the data for the job's report.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "postproc/analysis/node_summary.h"
#include "postproc/analysis/parallel.h"
#include "postproc/diagnose/analysis_settings.h"
#include "postproc/diagnose/rule.h"
#include "postproc/telemetry/load.h"
#include "postproc/telemetry/telemetry.h"
#include "postproc/telemetry/trace_stream.h"

namespace reveal {

/// The samples of a node's job, read in pieces that follow each other, or in one if memory can hold the job.
struct JobSamples {
  std::size_t count = 0;
  bool in_one_piece = true;
  /// Reads samples [begin, begin + count) into `piece`. Samples of several pieces may be read a second time.
  std::function<void(std::size_t begin, std::size_t count, Telemetry& piece)> read;
};

/// Means to finish sooner; the result is the same.
struct AnalysisHelp {
  bool in_background = false;     // searches on a second thread
  WindowPool* windows = nullptr;  // memory of nodes that were analysed before
};

/// The configuration that nodes of a job are compared by. GPUs have other numbers on each of them, and may answer late.
[[nodiscard]] Snapshot compared_facts(const NodeTrace& trace);

/// A summary for each of the settings, which differ in rules only: samples are read and searched once. `trace`: all but
/// the samples.
[[nodiscard]] std::vector<NodeSummary> analyse(const NodeTrace& trace, const JobSamples& samples,
                                               std::span<const AnalysisSettings> settings, const AnalysisHelp& help);
/// A trace in memory, of which the analysis makes a copy.
[[nodiscard]] NodeSummary analyse(const NodeTrace& trace, const AnalysisSettings& settings);

/// Estimate of the memory that the analysis takes, tables of steps and collectives included, in bytes; no trace seen
/// took much more on one thread. A search in the background takes one more window.
[[nodiscard]] std::size_t memory_needed(const TraceStream& stream, bool in_one_piece);

/// Loads, analyses and frees the trace, as soon as it fits into the budget. `threads`: of all nodes together. Throws
/// Error.
[[nodiscard]] std::vector<NodeSummary> analyse_file(const std::filesystem::path& trace,
                                                    std::span<const AnalysisSettings> settings, MemoryBudget& budget,
                                                    std::size_t threads);

}  // namespace reveal
