// The telemetry of a job's nodes as one table, for exports: a row per sample, node after node, and a column per
// channel, derived metrics behind measured ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "postproc/telemetry/job.h"
#include "postproc/telemetry/left_out_traces.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

/// Whether a pattern as of the shell meets the channel's metric or its name.
[[nodiscard]] bool meets_pattern(const std::string& pattern, const Channel& channel);

/// The channel's name with its unit. Levels are as they are, "mem.dirty [bytes]", counters are increments per sample,
/// "cpu.user/cpu0 [ns per 0.1 s]".
[[nodiscard]] std::string column_name(const Channel& channel, double step_seconds);

struct TableColumn {
  std::string name;  // printable, and unlike all others
  std::string unit;
  std::string description;
};

class TelemetryTable {
 public:
  /// The columns of all nodes, those of the first node first. `metrics`: patterns as of the shell for names of metrics
  /// or channels; none: all. Throws Error if nothing can be exported.
  TelemetryTable(const std::vector<ListedTrace>& traces, const std::vector<std::string>& metrics);

  [[nodiscard]] const std::vector<TableColumn>& columns() const { return columns_; }

  /// Rows of one node that follow each other.
  struct Rows {
    const std::string& node;
    const Telemetry& telemetry;
    const std::vector<std::size_t>& in_column;

    [[nodiscard]] std::size_t count() const { return telemetry.samples; }
    [[nodiscard]] std::int64_t utc_ns(std::size_t row) const;
    /// NaN where nothing was measured; empty if the node has no such channel.
    [[nodiscard]] std::span<const double> values(std::size_t column) const;
  };
  /// Calls `each` with all rows, some megabytes at a time: jobs may be longer than memory. Throws Error if the only
  /// trace cannot be read, or if `each` does.
  void read(const std::function<void(const Rows&)>& each);

  /// A sentence for each pattern that meets no channel and for each of several traces that cannot be read.
  [[nodiscard]] const std::vector<std::string>& left_out() const { return left_out_.sentences(); }

 private:
  /// A node's place in the table.
  struct Node {
    ListedTrace trace;
    std::string name;
    std::size_t channels = 0;            // all of the trace
    std::vector<std::size_t> in_column;  // for each column of the table, 1 + its channel; 0: the node has none
  };
  using Places = std::map<std::string, std::size_t>;  // columns by name

  [[nodiscard]] Node opened(const ListedTrace& trace, const std::vector<std::string>& metrics,
                            std::set<std::string>& met, Places& places);

  std::vector<Node> nodes_;
  std::vector<TableColumn> columns_;
  LeftOutTraces left_out_;
};

}  // namespace reveal
