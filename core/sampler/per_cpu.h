// Values that every cpu has: a channel per cpu on small hosts. Beyond kMostInDetail cpus a few channels per metric
// stand for all of them, and for the extreme cpu:
//
//   counters  cpu.user/other_cpus     sum over the cpus without a channel of their own: the sum over all channels of a
//                                     metric is the node's on every host
//             cpu.user_spread         standard deviation over the cpus of the increase since the last row
//             cpu.user_max            increase of the busiest cpu; summed up, as counters are
//             cpu.user_max_cpu        the number of that cpu (in a family of states)
//   levels    cpu.frequency/other_cpus (their mean), _spread, _min, _max, _min_cpu, _max_cpu
//
// The job's cpus keep their own channels if they are few enough; otherwise they are summed apart, as "job_cpus".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/sampler/probe.h"

namespace reveal {

/// A family of per cpu times then has 640 channels, about as many as the rest of a node, and users do not read more one
/// by one.
inline constexpr std::size_t kMostInDetail = 64;

inline constexpr std::string_view kOtherCpus = "other_cpus";  // without channels of their own
inline constexpr std::string_view kJobCpus = "job_cpus";      // those of the job

class PerCpu {
 public:
  struct Options {
    std::string_view member = "cpu";   // instances are "cpu3"
    bool only_what_happened = false;   // no channel while it is still 0
    std::size_t most_metrics = 4096;   // channels for those with the most so far; the others are pooled
    std::string_view pool = {};        // as this one
    bool keep_busiest = false;         // cpus that stand out have channels of their own
    std::size_t members_expected = 0;  // 0: the host's cpus
  };

  /// `places` is the family of "_max_cpu"; on small hosts it is not made.
  PerCpu(const ProbeContext& context, const FamilyTable& values, const FamilyTable& places, const Options& options);
  PerCpu(const ProbeContext& context, const FamilyTable& values, const FamilyTable& places)
      : PerCpu(context, values, places, Options()) {}

  std::size_t add_metric(std::string_view name);
  void begin() noexcept;
  /// Returns its channel, if it has one of its own.
  std::int32_t set(std::size_t metric, int cpu, std::int64_t value);
  void commit() noexcept;

  [[nodiscard]] bool summarised() const noexcept { return places_ != nullptr; }
  [[nodiscard]] Family& family() noexcept { return values_; }

 private:
  struct Cell {
    int cpu = 0;
    std::int32_t channel = Family::kNoChannel;
    std::int64_t now = kMissing;
    std::int64_t before = kMissing;
  };
  enum Channel : std::uint8_t { sum, spread, least, most, least_place, most_place, kChannels };
  struct Group {
    std::array<std::int32_t, kChannels> channels{Family::kNoChannel, Family::kNoChannel, Family::kNoChannel,
                                                 Family::kNoChannel, Family::kNoChannel, Family::kNoChannel};
    std::array<std::int64_t, kChannels> totals{};
  };
  enum class Placement : std::uint8_t { waiting, own, pooled };
  struct Row {
    std::string metric;
    std::vector<Cell> cells;  // by cpu
    std::size_t cursor = 0;
    Placement placement = Placement::waiting;
    std::array<Group, 2> groups;  // other cpus, the job's cpus
  };
  struct Summary;

  [[nodiscard]] bool of_job(int cpu) const noexcept;
  [[nodiscard]] bool always_own(int cpu) const noexcept;
  void appear(int cpu);
  void own_channel(Row& row, Cell& cell);
  void add_channels(Row& row, Group& group, bool job);
  void choose_rows();
  void choose_cpus(Row& row);
  void store(Row& row);
  void store_group(Row& row, bool job);
  void store_summary(Group& group, const Summary& summary);
  void promote(Row& row, int cpu);
  [[nodiscard]] static bool moved(const Row& row) noexcept;
  void pool(const Row& row);

  const ProbeContext context_;
  Options options_;
  Family& values_;
  Family* places_ = nullptr;
  bool levels_ = false;
  bool own_job_ = false;  // the job's cpus keep their channels
  bool job_group_ = false;
  std::vector<Row> rows_;
  Row pool_;
  std::size_t metrics_ = 0;
  std::size_t own_ = 0;    // channels of cpus that stood out at the start
  std::size_t later_ = 0;  // and of those that did later
  std::int64_t sample_ = 0;
  std::vector<std::array<std::int64_t, 2>> seen_;  // by cpu: the last two samples that had it
};

}  // namespace reveal
