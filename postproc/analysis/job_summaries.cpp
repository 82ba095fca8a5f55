#include "postproc/analysis/job_summaries.h"

#include <spdlog/fmt/fmt.h>

#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "hdf5schema/basics/error.h"
#include "postproc/analysis/node_analysis.h"
#include "postproc/analysis/parallel.h"

namespace reveal {
namespace {

/// Memory of all nodes that are analysed at the same time; a larger node is analysed alone.
constexpr std::size_t kMostMemory = std::size_t{1} << 30;

using Variants = std::span<const AnalysisSettings>;

/// A summary for each of the settings.
std::vector<NodeSummary> summarise(const ListedTrace& trace, Variants settings, MemoryBudget& budget,
                                   std::size_t threads) {
  std::vector<NodeSummary> summaries = analyse_file(trace.path, settings, budget, threads);
  for (NodeSummary& summary : summaries) {
    summary.trace = trace.path.filename().string();
    summary.trace_bytes = trace.bytes;
    summary.trace_mtime_ns = trace.mtime_ns;
    auto& overhead = summary.part.overhead.front();
    if (summary.seconds > 0) overhead.bytes_per_second = static_cast<double>(trace.bytes) / summary.seconds;
  }
  return summaries;
}

/// The result for one trace.
struct NodeOutcome {
  std::optional<NodeSummary> summary;
  std::optional<InputProblem> problem;
  bool anew = false;  // the trace was analysed
};

NodeOutcome outcome_of(const ListedTrace& trace, NodeSummary summary, bool publish) {
  NodeOutcome outcome{.anew = true};
  try {
    summary = publish ? publish_summary(trace.path, summary) : parse_summary(render_summary(summary));
  } catch (const Error& error) {
    outcome.problem = {summary.node, fmt::format("summary not kept: {}", error.what())};
  }
  outcome.summary = std::move(summary);
  return outcome;
}

/// An outcome for each of the settings.
std::vector<NodeOutcome> analyse_anew(const ListedTrace& trace, Variants settings, bool publish, MemoryBudget& budget,
                                      std::size_t threads) {
  std::vector<NodeOutcome> outcomes;
  const auto unusable = [&](std::string why) {
    outcomes.assign(settings.size(), {.problem = InputProblem{trace.node, std::move(why), true}, .anew = true});
  };
  try {
    for (NodeSummary& summary : summarise(trace, settings, budget, threads)) {
      outcomes.push_back(outcome_of(trace, std::move(summary), publish));
    }
  } catch (const Error& error) {
    unusable(error.what());
  } catch (const std::bad_alloc&) {
    unusable(trace.path.string() + ": not enough memory to analyse it");
  }
  return outcomes;
}

std::size_t threads_of(const ReportOptions& options) {
  return options.threads > 0 ? options.threads : usable_threads();
}

/// False where another trace of the node stands next to it: their summaries may share a file, which then keeps one.
bool is_alone(std::span<const ListedTrace> traces, std::size_t i) {
  return (i == 0 || traces[i - 1].node != traces[i].node) &&
         (i + 1 == traces.size() || traces[i + 1].node != traces[i].node);
}

/// `parsed`: summaries of these traces that need not be read, in the same order, or none at all.
std::vector<NodeOutcome> outcomes_of(std::span<const ListedTrace> traces,
                                     std::vector<std::optional<NodeSummary>> parsed, const ReportOptions& options) {
  const std::string hash = config_hash(options.settings);
  const std::size_t threads = threads_of(options);
  std::vector<NodeOutcome> outcomes(traces.size());
  run_parallel(traces.size(), threads, [&](std::size_t i) {
    const bool alone = is_alone(traces, i);
    if (alone && i < parsed.size() && parsed[i] && is_fresh(*parsed[i], traces[i], hash)) {
      outcomes[i].summary = std::move(parsed[i]);
    } else {
      outcomes[i].summary = fresh_summary(traces[i], hash);
    }
    if (alone && outcomes[i].summary) leave_points_in_file(*outcomes[i].summary);
  });
  std::vector<std::size_t> anew;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const auto& summary = outcomes[i].summary;
    if (summary && summary->downsampled && (!options.reuse_summaries || summary->config_hash != hash)) {
      outcomes[i].problem = {summary->node, summary->node +
                                                "'s trace was reduced to one row a minute after its analysis: " +
                                                "the results of that analysis are used"};
    } else if (!options.reuse_summaries) {
      outcomes[i].summary.reset();
    }
    if (!outcomes[i].summary) anew.push_back(i);
  }
  if (!anew.empty()) keep_freed_memory();
  MemoryBudget budget(kMostMemory, anew.size());
  std::mutex one_line;
  run_parallel(anew.size(), threads, [&](std::size_t k) {
    const ListedTrace& trace = traces[anew[k]];
    if (options.progress) {
      const std::lock_guard lock(one_line);
      options.progress(trace.node, anew[k], traces.size());
    }
    NodeOutcome& outcome = outcomes[anew[k]];
    outcome = std::move(analyse_anew(trace, {&options.settings, 1}, options.publish, budget, threads).front());
    if (options.publish && !outcome.problem && is_alone(traces, anew[k])) leave_points_in_file(*outcome.summary);
  });
  return outcomes;
}

/// An outcome for each of the settings: from a stored summary, or from one analysis for all that have none.
std::vector<NodeOutcome> outcomes_with(const ListedTrace& trace, Variants settings, MemoryBudget& budget,
                                       std::size_t threads) {
  std::vector<NodeOutcome> outcomes(settings.size());
  std::vector<AnalysisSettings> anew;
  for (std::size_t k = 0; k < settings.size(); ++k) {
    outcomes[k].summary = fresh_summary(trace, config_hash(settings[k]));
    if (!outcomes[k].summary) anew.push_back(settings[k]);
  }
  if (anew.empty()) return outcomes;
  std::vector<NodeOutcome> results = analyse_anew(trace, anew, false, budget, threads);
  auto next = results.begin();
  for (NodeOutcome& outcome : outcomes) {
    if (!outcome.summary) outcome = std::move(*next++);
  }
  return outcomes;
}

std::vector<NodeSummary> usable(std::vector<NodeOutcome> outcomes, std::vector<InputProblem>& problems) {
  std::vector<NodeSummary> summaries;
  summaries.reserve(outcomes.size());
  for (NodeOutcome& outcome : outcomes) {
    if (outcome.summary) summaries.push_back(*std::move(outcome.summary));
    if (outcome.problem) problems.push_back(*std::move(outcome.problem));
  }
  return summaries;
}

}  // namespace

std::vector<NodeSummary> summaries_of(std::span<const ListedTrace> traces, const ReportOptions& options,
                                      std::vector<InputProblem>& problems) {
  return usable(outcomes_of(traces, {}, options), problems);
}

std::vector<NodeSummary> summaries_of_job(const std::filesystem::path& directory, std::span<const ListedTrace> traces,
                                          const ReportOptions& options, std::vector<InputProblem>& problems) {
  std::vector<std::optional<NodeSummary>> parsed;
  if (options.reuse_summaries) {
    parsed = summaries_in_parts(directory, traces, config_hash(options.settings), threads_of(options), options.remark);
  }
  std::vector<NodeSummary> summaries = usable(outcomes_of(traces, std::move(parsed), options), problems);
  if (summaries.size() > kNodesOfPart) return_freed_memory();  // the memory of their texts
  return summaries;
}

std::vector<TriedSummaries> tried_summaries(std::span<const ListedTrace> traces, Variants settings,
                                            const ReportOptions& options) {
  const std::size_t threads = threads_of(options);
  std::vector<std::vector<NodeOutcome>> outcomes(traces.size());
  keep_freed_memory();
  MemoryBudget budget(kMostMemory, traces.size());
  run_parallel(traces.size(), threads,
               [&](std::size_t i) { outcomes[i] = outcomes_with(traces[i], settings, budget, threads); });
  std::vector<TriedSummaries> tried(settings.size());
  for (std::size_t k = 0; k < settings.size(); ++k) {
    std::vector<NodeOutcome> of_settings;
    of_settings.reserve(outcomes.size());
    for (std::vector<NodeOutcome>& of_trace : outcomes) of_settings.push_back(std::move(of_trace[k]));
    tried[k].nodes = usable(std::move(of_settings), tried[k].problems);
  }
  return tried;
}

void write_summaries(const std::filesystem::path& directory, const std::string& node,
                     const AnalysisSettings& settings) {
  for (const ListedTrace& trace : traces_of_node(directory, node)) {
    try {
      MemoryBudget budget(kMostMemory, 1);
      publish_summary(trace.path, summarise(trace, {&settings, 1}, budget, usable_threads()).front());
    } catch (const std::exception&) {
      continue;  // the report of the job tries again, and reports the error
    }
  }
}

std::size_t write_merge_part(const std::filesystem::path& directory, PartNumber part, const ReportOptions& options,
                             std::vector<InputProblem>& problems) {
  std::vector<UnreadFolder> unread;  // the report names them
  const std::vector<ListedTrace> all = list_traces(directory, &unread);
  const std::span<const ListedTrace> traces = traces_of_part(all, part);
  std::vector<std::optional<FileState>> states;
  states.reserve(traces.size());
  for (const ListedTrace& trace : traces) states.push_back(state_of_summary(trace));  // before they are read
  std::vector<NodeOutcome> outcomes = outcomes_of(traces, {}, options);
  std::vector<PartNode> nodes;
  nodes.reserve(traces.size());
  for (std::size_t i = 0; i < traces.size(); ++i) {
    NodeOutcome& outcome = outcomes[i];
    const bool stored = !outcome.anew || !outcome.problem;
    const auto state = outcome.anew ? state_of_summary(traces[i]) : states[i];
    if (outcome.summary && stored && state) nodes.push_back({traces[i], *outcome.summary, *state});
    if (outcome.problem) problems.push_back(*std::move(outcome.problem));
  }
  write_part(directory, part, config_hash(options.settings), nodes);
  return nodes.size();
}

}  // namespace reveal
