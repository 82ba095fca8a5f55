// The profile of one node, which is compared with its peers and with later runs of the same job: how much of everything
// it did, in a few blocks of wall time, and how it is configured. Small enough to compare thousands of nodes without
// opening a trace.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hdf5schema/trace.h"
#include "postproc/peers/rare.h"
#include "postproc/telemetry/telemetry.h"
#include "postproc/words/shared_text.h"

namespace reveal {

/// The trend of a channel over the job, see sparkline_value().
struct ProfileTrend {
  double low = 0, high = 0;  // the values of the line's ends
  std::string line;
  bool operator==(const ProfileTrend&) const = default;
};

/// A metric of the whole node: the sum of its instances (the mean where a sum means nothing, as of frequencies).
/// Few devices are kept one by one as well, "gpu.power/gpu0"; of many, the busiest: "cpu.softirq/busiest".
struct ProfileChannel {
  SharedText name;
  SharedText unit;  // as shown to people: "cpus", "bytes/s", "Hz"
  Subsystem subsystem = Subsystem::cpu;
  Kind kind = Kind::gauge;
  bool carried_over = false;  // a level that depends on earlier jobs of the node: free memory, page cache
  double mean = 0;
  std::vector<float> blocks;  // means of NodeProfile's blocks, NaN where less than half is covered; empty: constant
  Rare<ProfileTrend> trend;   // most nodes of a large job keep those of a few channels

  [[nodiscard]] bool has_line() const { return trend.has_value() && !trend->line.empty(); }
  [[nodiscard]] double range() const { return trend.has_value() ? trend->high - trend->low : 0; }
  bool operator==(const ProfileChannel&) const = default;
};

/// "gpu.power/gpu0" -> "gpu.power"
[[nodiscard]] std::string base_metric(const std::string& channel);

struct NodeProfile {
  std::string node;
  std::int64_t begin_utc_ns = 0;
  std::int64_t end_utc_ns = 0;
  std::int64_t block_ns = 0;     // 2^k seconds, so that blocks of a short-lived node fold into those of its peers
  std::int64_t first_block = 0;  // block i of a channel covers [(first_block + i) * block_ns, ...) UTC
  std::int64_t sparkline_step_ns = 0;
  std::vector<ProfileChannel> channels;  // by name
  std::size_t channels_left_out = 0;
  bool all_trends = true;         // false: only of the channels that this node's report needs
  std::vector<SharedText> zeros;  // measured, and 0 all the time; by name
  SharedPairs facts;              // configuration that should not differ; by key

  [[nodiscard]] double seconds() const { return static_cast<double>(end_utc_ns - begin_utc_ns) * 1e-9; }
  [[nodiscard]] const ProfileChannel* find(std::string_view name) const;
  [[nodiscard]] bool is_zero(std::string_view name) const;
  bool operator==(const NodeProfile&) const = default;
};

/// Time in which the job's processes were held by their own node: running, ready to run, or waiting for a disk, in
/// cpus.
inline constexpr std::string_view kOwnTime = "job.own_time";

/// Whether a fact of the snapshot is a setting: neither the node's own name nor a moment's state.
[[nodiscard]] bool is_setting(std::string_view key);

[[nodiscard]] NodeProfile profile_of(const Telemetry& telemetry, const Snapshot& begin);

/// Clears the trends of all other channels.
void keep_trends_of(const std::set<std::string>& channels, NodeProfile& profile);

/// Decimals of at most four digits as a short text, which stays the same for equal numbers, and back. Missing ones are
/// NaN. Throws Error where the text is none of these.
[[nodiscard]] std::string packed_decimals(std::span<const float> values);
[[nodiscard]] std::vector<float> unpacked_decimals(std::string_view text);

/// Point `i` of a channel's line, NaN where there is none.
[[nodiscard]] double sparkline_value(const ProfileChannel& channel, std::size_t i);

/// Differences of `unit` below this are negligible: the scale on which "twice as much" begins to matter.
[[nodiscard]] double unit_floor(std::string_view unit, Kind kind);

/// Brings a profile that was read from a file into order. Throws Error where it cannot be one.
void check_profile(NodeProfile& profile);

}  // namespace reveal
