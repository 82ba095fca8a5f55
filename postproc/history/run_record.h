// The record of one run of a job for the next ones: run.json beside its report. These files are the authority on
// earlier runs; the index (run_index.h) only finds them faster.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "postproc/peers/node_profile.h"
#include "postproc/telemetry/job_files.h"

namespace reveal {

inline constexpr std::size_t kLargestRunRecord = 256 << 10;
/// Begin of RunRecord::why_not of a run with a finding; its id follows.
inline constexpr std::string_view kHadFinding = "it had a finding: ";

struct RunChannel {
  std::string name;
  std::string unit;
  Subsystem subsystem = Subsystem::cpu;
  Kind kind = Kind::gauge;
  double value = 0;  // mean over the run and over the nodes that do the job's main work
  bool operator==(const RunChannel&) const = default;
};

struct RunRecord {
  std::string run_id;  // the same for every report of this run
  std::string key;     // the same for all runs of this command and shape
  std::string name, command, ranks;
  std::string job, array, het;  // numbers of the job: "4713", "4710_3", "4711+1"; "" if it has none
  std::string state;            // that of the batch system: "COMPLETED"; "" if it is not known
  std::optional<int> exit_code;
  std::size_t nodes = 0;
  std::int64_t begin_utc_ns = 0;
  double seconds = 0;
  std::string verdict;
  std::vector<std::string> findings;
  bool accepted = false;                                   // usable as a baseline
  std::string why_not;                                     // accepted
  std::vector<RunChannel> channels;                        // by name
  std::vector<std::string> zeros;                          // measured, and 0; by name
  std::vector<std::pair<std::string, std::string>> facts;  // by key
  std::vector<std::string> mixed_facts;                    // keys of those that differ among the nodes, sorted

  [[nodiscard]] const RunChannel* find(std::string_view channel) const;
  /// NaN when it was not measured.
  [[nodiscard]] double value_of(std::string_view channel) const;
  bool operator==(const RunRecord&) const = default;
};

/// "3" for RunRecord::array 4710_3; "" outside an array. The number of the task is an argument of its program: the
/// other tasks do other work.
[[nodiscard]] std::string task_in_array(const std::string& array);

/// Fills channels and facts from the nodes that do the same work; levels that earlier jobs left behind are not a run's.
void summarise_nodes(const std::vector<const NodeProfile*>& nodes, RunRecord& record);

[[nodiscard]] std::string render_run(const RunRecord& record);
/// Throws Error.
[[nodiscard]] RunRecord parse_run(const std::string& json);

}  // namespace reveal
