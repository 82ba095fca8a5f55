#include "postproc/peers/node_profile.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "postproc/numerics/present_values.h"
#include "postproc/numerics/simd.h"
#include "postproc/telemetry/metric_facts.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

constexpr std::int64_t kMostBlocks = 16;
constexpr std::size_t kLinePoints = 160;
constexpr std::size_t kMostSparklines = 150;
constexpr std::size_t kMostProfiled = 400;
constexpr std::size_t kFewInstances = 8;
constexpr std::int64_t kLatest = INT64_MAX / 2;      // sums of times stay numbers
constexpr std::int64_t kMostForeignBlocks = 10'000;  // of a file that may come from another user
constexpr std::size_t kMostForeignSparkline = 100'000;
constexpr int kSparklineLevels = 64;
constexpr char kFirstLevel = '0';  // '0' to 'o' in ASCII, without quotes; a backslash must be escaped, and JSON does it
constexpr char kNoLevel = '~';
constexpr double kCut = 0.01;  // of a line's values at both ends: one spike must not flatten the rest

/// A node's own name or a moment's choice: never equal, and nothing to compare.
constexpr std::string_view kPrivateFacts[] = {"kernel.boot_id",
                                              "reveal.capabilities",
                                              "job.cgroup",
                                              "env.SLURM_JOB_ID",
                                              "env.SLURM_ARRAY",
                                              "irq.",
                                              "job.limit.",
                                              "node.other_jobs",
                                              "kernel.command_line_hash",
                                              "env.SLURM_JOB_GPUS",
                                              "env.SLURM_STEP_GPUS",
                                              "env.SLURM_JOB_NODELIST",
                                              "env.CUDA_VISIBLE_DEV",
                                              "job.nodelist",
                                              "env.ROCR_VISIBLE_DEV",
                                              "clock_state.",
                                              "since_start.",
                                              "pci_state.",
                                              "cpu_threads.",
                                              "address.",
                                              "gpu.gpu"};
constexpr std::string_view kSharedFacts[] = {"irq.irqbalance"};  // out of a private family, and worth comparing

/// Floors in the shown unit.
struct Floor {
  std::string_view unit;
  double value;
};
constexpr Floor kFloors[] = {
    {"cpus", 0.05},   {"s/s", 0.02}, {"bytes/s", 1e5}, {"bytes", 64e6}, {"count/s", 10}, {"count", 1}, {"ratio", 0.02},
    {"percent", 2.0}, {"Hz", 50e6},  {"Cel", 5},       {"W", 5},        {"J/s", 5},      {"ns", 1e6},
};
constexpr double kEventFloor = 0.1;  // per second

struct Group {
  const Channel* first = nullptr;
  std::vector<std::size_t> members;
};

using Values = std::vector<double>;

bool sums(const Channel& channel) {
  if (per_second(channel)) return true;
  return channel.unit == Unit::count || channel.unit == Unit::bytes || channel.unit == Unit::watts ||
         channel.unit == Unit::joules || channel.unit == Unit::nanoseconds;
}

/// total[t] += values[t] * factor where there is a value, and counts these.
REVEAL_WIDE void add_scaled(std::span<const double> values, double factor, std::span<double> total,
                            std::span<double> present) {
  std::size_t t = 0;
  for (; t + kWide <= values.size(); t += kWide) {
    const Wide v = *reinterpret_cast<const Wide*>(values.data() + t);
    const auto is_present = v == v;  // NOLINT(misc-redundant-expression): NaN is not
    *reinterpret_cast<Wide*>(total.data() + t) += is_present ? v * factor : Wide{};
    *reinterpret_cast<Wide*>(present.data() + t) += is_present ? Wide{} + 1.0 : Wide{};
  }
  for (; t < values.size(); ++t) {
    if (std::isnan(values[t])) continue;
    total[t] += values[t] * factor;
    present[t] += 1;
  }
}

REVEAL_WIDE void scale(std::span<double> values, double factor) {
  std::size_t t = 0;
  for (; t + kWide <= values.size(); t += kWide) {
    Wide& four = *reinterpret_cast<Wide*>(values.data() + t);
    four = four * factor + 0.0;  // no -0
  }
  for (; t < values.size(); ++t) values[t] = values[t] * factor + 0.0;
}

Values scaled(const Telemetry& telemetry, std::size_t channel, double factor) {
  const auto series = telemetry.series(channel);
  Values values(series.begin(), series.end());
  scale(values, factor);
  return values;
}

Values whole_node(const Telemetry& telemetry, const Group& group, double factor) {
  if (group.members.size() == 1) return scaled(telemetry, group.members.front(), factor);
  Values total(telemetry.samples, 0.0);
  Values present(telemetry.samples, 0.0);
  for (const std::size_t member : group.members) add_scaled(telemetry.series(member), factor, total, present);
  const bool mean = !sums(*group.first);
  for (std::size_t t = 0; t < total.size(); ++t) {
    if (present[t] == 0) {
      total[t] = kNaN;
    } else if (mean) {
      total[t] /= present[t];
    }
  }
  return total;
}

/// Shapes one node's series into channels of its profile.
class Shaper {
 public:
  Shaper(const Telemetry& telemetry, NodeProfile& profile) : profile_(profile) {
    const auto step_ns = static_cast<std::int64_t>(std::llround(telemetry.step_seconds * 1e9));
    profile.node = telemetry.node;
    profile.begin_utc_ns = telemetry.begin_utc_ns;
    profile.end_utc_ns = telemetry.begin_utc_ns + step_ns * static_cast<std::int64_t>(telemetry.samples);
    profile.block_ns = kSecond;
    while ((profile.end_utc_ns - profile.begin_utc_ns) / profile.block_ns > kMostBlocks) profile.block_ns *= 2;
    profile.first_block = profile.begin_utc_ns / profile.block_ns;
    block_of_.resize(telemetry.samples);
    std::size_t blocks = 0;
    for (std::size_t t = 0; t < telemetry.samples; ++t) {
      const std::int64_t at = profile.begin_utc_ns + step_ns * static_cast<std::int64_t>(t);
      block_of_[t] = static_cast<std::size_t>(at / profile.block_ns - profile.first_block);
      blocks = block_of_[t] + 1;
    }
    blocks_ = blocks;
    half_block_ = static_cast<double>(profile.block_ns) / static_cast<double>(step_ns) / 2;
    per_point_ = std::max<std::size_t>(1, (telemetry.samples + kLinePoints - 1) / kLinePoints);
    profile.sparkline_step_ns = step_ns * static_cast<std::int64_t>(per_point_);
  }

  void add(const std::string& name, const std::string& unit, const Channel& channel, const Values& values) {
    const PresentValues all = present_values(values);
    const double mean = all.mean();
    if (!std::isfinite(mean)) return;  // nothing was measured, or something that is no number
    const double low = all.low;
    const double high = all.high;
    if (low == 0 && high == 0) {
      profile_.zeros.push_back(name);
      return;
    }
    ProfileChannel shaped{.name = name,
                          .unit = unit,
                          .subsystem = channel.subsystem,
                          .kind = channel.kind,
                          .carried_over = is_carried_over(channel),
                          .mean = four_digits(mean)};
    if (low != high) {
      shaped.blocks = blocks(values);
      draw(values, shaped);
    }
    lively_.push_back({low == high ? 0 : changes_in(values, kNaN), profile_.channels.size()});
    profile_.channels.push_back(std::move(shaped));
  }

  /// Keeps the channels that moved most if there are too many, and sorts all by name.
  void finish() {
    std::stable_sort(lively_.begin(), lively_.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<ProfileChannel> kept;
    for (std::size_t i = 0; i < lively_.size(); ++i) {
      ProfileChannel& channel = profile_.channels[lively_[i].second];
      if (i >= kMostSparklines) channel.sparkline.clear();
      if (i < kMostProfiled) kept.push_back(std::move(channel));
    }
    profile_.channels_left_out = lively_.size() - kept.size();
    profile_.channels = std::move(kept);
    std::sort(profile_.channels.begin(), profile_.channels.end(),
              [](const ProfileChannel& a, const ProfileChannel& b) { return a.name < b.name; });
    std::sort(profile_.zeros.begin(), profile_.zeros.end());
  }

 private:
  [[nodiscard]] std::vector<float> blocks(const Values& values) const {
    std::vector<float> means(blocks_, std::numeric_limits<float>::quiet_NaN());
    for (std::size_t begin = 0; begin < values.size();) {
      const std::size_t block = block_of_[begin];
      double sum = 0;
      double present = 0;
      for (; begin < values.size() && block_of_[begin] == block; ++begin) {
        const bool is_present = !std::isnan(values[begin]);
        sum += is_present ? values[begin] : 0;
        present += is_present ? 1 : 0;
      }
      if (present >= half_block_) means[block] = static_cast<float>(four_digits(sum / present));
    }
    return means;
  }

  void draw(const Values& values, ProfileChannel& channel) const {
    Values points;
    for (std::size_t begin = 0; begin < values.size(); begin += per_point_) {
      const auto first = values.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto last = values.begin() + static_cast<std::ptrdiff_t>(std::min(values.size(), begin + per_point_));
      points.push_back(mean_of({first, last}));
    }
    Values sorted;
    std::copy_if(points.begin(), points.end(), std::back_inserter(sorted),
                 [](double value) { return !std::isnan(value); });
    if (sorted.empty()) return;
    std::sort(sorted.begin(), sorted.end());
    const auto cut = static_cast<std::size_t>(kCut * static_cast<double>(sorted.size()));
    channel.low = four_digits(sorted[cut]);
    channel.high = four_digits(sorted[sorted.size() - 1 - cut]);
    const double range = channel.high - channel.low;
    if (!(range > 0)) return;
    for (const double point : points) {
      if (std::isnan(point)) {
        channel.sparkline += kNoLevel;
        continue;
      }
      const double level = std::clamp((point - channel.low) / range, 0.0, 1.0) * (kSparklineLevels - 1);
      channel.sparkline += static_cast<char>(kFirstLevel + std::lround(level));
    }
  }

  NodeProfile& profile_;
  std::vector<std::size_t> block_of_;  // per sample
  std::size_t blocks_ = 0;
  double half_block_ = 0;
  std::size_t per_point_ = 1;
  std::vector<std::pair<std::size_t, std::size_t>> lively_;  // changes, index
};

void add_group(const Telemetry& telemetry, const std::string& metric, const Group& group, Shaper& shaper) {
  const Channel& first = *group.first;
  const auto [unit, factor] = shown_unit(first, telemetry.step_seconds);
  shaper.add(metric, unit, first, whole_node(telemetry, group, factor));
  if (group.members.size() < 2) return;
  const bool devices = first.scope == Scope::device || first.scope == Scope::interface || first.scope == Scope::numa;
  if (devices && group.members.size() <= kFewInstances) {
    for (const std::size_t member : group.members) {
      shaper.add(telemetry.channels[member].name(), unit, first, scaled(telemetry, member, factor));
    }
    return;
  }
  if (!devices && first.scope != Scope::cpu && first.scope != Scope::interrupt) return;
  // Which instance is the busiest is chance; that one of them is busier than on the peers is not.
  Values busiest;
  double most = -std::numeric_limits<double>::infinity();
  for (const std::size_t member : group.members) {
    const PresentValues all = present_values(telemetry.series(member));
    if (all.low == 0 && all.high == 0 && most >= 0) continue;
    Values values = scaled(telemetry, member, factor);
    const double mean = mean_of(values);
    if (!(mean > most)) continue;
    most = mean;
    busiest = std::move(values);
  }
  if (!busiest.empty()) shaper.add(metric + "/busiest", unit, first, busiest);
}

/// Running, waiting for a cpu and waiting for a disk: the rest is waiting for other processes.
void add_own_time(const Telemetry& telemetry, const std::map<std::string, Group>& groups, Shaper& shaper) {
  const auto ran = groups.find("job.cpu_time");
  const auto waited = groups.find("job.wait_time");
  if (ran == groups.end() || waited == groups.end()) return;
  const double to_cpus = 1e-9 / telemetry.step_seconds;
  Values own = whole_node(telemetry, ran->second, to_cpus);
  const Values ready = whole_node(telemetry, waited->second, to_cpus);
  for (std::size_t t = 0; t < own.size(); ++t) own[t] += ready[t];
  if (const auto blocked = groups.find("job.blocked"); blocked != groups.end()) {
    const Values on_disk = whole_node(telemetry, blocked->second, 1);
    for (std::size_t t = 0; t < own.size(); ++t) own[t] += std::isnan(on_disk[t]) ? 0 : on_disk[t];
  }
  Channel channel = *ran->second.first;
  channel.metric = kOwnTime;
  shaper.add(std::string(kOwnTime), "cpus", channel, own);
}

bool starts_with_any(std::string_view text, std::span<const std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [text](std::string_view prefix) { return text.starts_with(prefix); });
}

}  // namespace

std::string base_metric(const std::string& channel) {
  return channel.substr(0, channel.find('/'));
}

double unit_floor(std::string_view unit, Kind kind) {
  if (kind == Kind::event) return kEventFloor;
  for (const Floor& floor : kFloors) {
    if (floor.unit == unit) return floor.value;
  }
  return 1;
}

const ProfileChannel* NodeProfile::find(std::string_view name) const {
  const auto at =
      std::lower_bound(channels.begin(), channels.end(), name,
                       [](const ProfileChannel& channel, std::string_view key) { return channel.name < key; });
  return at != channels.end() && at->name == name ? &*at : nullptr;
}

bool NodeProfile::is_zero(std::string_view name) const {
  return std::binary_search(zeros.begin(), zeros.end(), name);
}

bool is_setting(std::string_view key) {
  return !starts_with_any(key, kPrivateFacts) || starts_with_any(key, kSharedFacts);
}

NodeProfile profile_of(const Telemetry& telemetry, const Snapshot& begin) {
  NodeProfile profile;
  std::map<std::string, Group> groups;
  for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
    const Channel& channel = telemetry.channels[i];
    if (channel.kind == Kind::state || channel.subsystem == Subsystem::self || channel.scope == Scope::reveal) continue;
    Group& group = groups[channel.metric];
    if (group.first == nullptr) group.first = &channel;
    if (group.first->unit == channel.unit && group.first->kind == channel.kind) group.members.push_back(i);
  }
  Shaper shaper(telemetry, profile);
  for (const auto& [metric, group] : groups) add_group(telemetry, metric, group, shaper);
  add_own_time(telemetry, groups, shaper);
  shaper.finish();
  for (const auto& [key, value] : begin) {
    if (is_setting(key)) profile.facts.emplace_back(key, value);
  }
  std::sort(profile.facts.begin(), profile.facts.end());
  return profile;
}

double sparkline_value(const ProfileChannel& channel, std::size_t i) {
  if (i >= channel.sparkline.size() || channel.sparkline[i] == kNoLevel) return kNaN;
  const double level = static_cast<double>(channel.sparkline[i] - kFirstLevel) / (kSparklineLevels - 1);
  return channel.low + std::clamp(level, 0.0, 1.0) * (channel.high - channel.low);
}

void check_profile(NodeProfile& profile) {
  const bool sound = profile.block_ns > 0 && profile.sparkline_step_ns > 0 &&
                     profile.end_utc_ns >= profile.begin_utc_ns && profile.begin_utc_ns >= 0 &&
                     profile.end_utc_ns <= kLatest && profile.block_ns <= kLatest &&
                     (profile.end_utc_ns - profile.begin_utc_ns) / profile.block_ns <= kMostForeignBlocks;
  if (!sound) throw Error("a profile without a time axis");
  profile.first_block = profile.begin_utc_ns / profile.block_ns;
  for (const ProfileChannel& channel : profile.channels) {
    if (!std::isfinite(channel.mean) || channel.blocks.size() > std::size_t{kMostForeignBlocks} ||
        channel.sparkline.size() > kMostForeignSparkline) {
      throw Error("the profile of a node contains invalid numbers");
    }
  }
  // Written sorted; searched by halves, so the order in a file of another user must not matter.
  std::sort(profile.channels.begin(), profile.channels.end(),
            [](const ProfileChannel& a, const ProfileChannel& b) { return a.name < b.name; });
  std::sort(profile.zeros.begin(), profile.zeros.end());
  std::sort(profile.facts.begin(), profile.facts.end());
}

}  // namespace reveal
