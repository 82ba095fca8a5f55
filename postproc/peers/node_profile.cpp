#include "postproc/peers/node_profile.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <span>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "postproc/numerics/median.h"
#include "postproc/numerics/present_values.h"
#include "postproc/numerics/simd.h"
#include "postproc/peers/profile_fields.h"
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
constexpr std::int64_t kMostForeignBlocks = 10'000;  // blocks of a file that may come from another user
constexpr std::size_t kMostForeignSparkline = 100'000;
constexpr int kSparklineLevels = 64;
constexpr char kFirstLevel = '0';  // '0' to 'o' in ASCII, without quotes; a backslash must be escaped, and JSON does it
constexpr char kNoLevel = '~';
constexpr double kBelowNoise = 0.2;
constexpr double kCut = 0.01;  // share of a line's values at both ends: one spike must not flatten the rest

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
                                              "env.NVIDIA_VISIBLE_DEV",
                                              "env.ROCR_VISIBLE_DEV",
                                              "env.HIP_VISIBLE_DEV",
                                              "env.ZE_AFFINITY_",
                                              "clock_state.",
                                              "since_start.",
                                              "pci_state.",
                                              "cpu_threads.",
                                              "address.",
                                              "gpu.gpu",
                                              "gpu.call_us.",
                                              "stack.way",
                                              "stack.attaching"};
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
      if (i >= kMostSparklines) channel.trend.reset();
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
    round_to_noise(means);
    return means;
  }

  /// Digits below a fifth of the usual change from one block to the next show chance only, and take space.
  static void round_to_noise(std::vector<float>& means) {
    std::vector<double> changes;
    for (std::size_t i = 1; i < means.size(); ++i) {
      if (!std::isnan(means[i]) && !std::isnan(means[i - 1])) changes.push_back(std::abs(means[i] - means[i - 1]));
    }
    const double noise = changes.empty() ? 0 : kBelowNoise * median_of(std::move(changes));
    if (!(noise > 0)) return;
    const double unit = std::pow(10, std::floor(std::log10(noise)));
    for (float& mean : means) {
      if (!std::isnan(mean)) mean = static_cast<float>(four_digits(std::round(mean / unit) * unit));
    }
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
    const double low = four_digits(sorted[cut]);
    const double high = four_digits(sorted[sorted.size() - 1 - cut]);
    const double range = high - low;
    if (!(range > 0)) return;
    ProfileTrend& trend = channel.trend.emplace();
    trend.low = low;
    trend.high = high;
    for (const double point : points) {
      if (std::isnan(point)) {
        trend.line += kNoLevel;
        continue;
      }
      const double level = std::clamp((point - low) / range, 0.0, 1.0) * (kSparklineLevels - 1);
      trend.line += static_cast<char>(kFirstLevel + std::lround(level));
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
  // The busiest instance is a matter of chance; an instance that is busier than those of the peers is not.
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

/// Five bits in each character, the lowest first; the sixth: more follow.
constexpr std::string_view kDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
constexpr int kBits = 5;
constexpr std::uint64_t kMoreFollow = 1U << kBits;
constexpr int kMostShift = 60;
constexpr char kMissingDecimal = '~';
constexpr char kEndOfBlocks = ',';
constexpr char kEndOfName = '\n';
constexpr std::size_t kMostForeignNames = 100'000;
constexpr int kMostPowers = 9;     // between the largest and the smallest of one list
constexpr int kMostExponent = 60;  // exponent of a float

constexpr std::uint8_t kNoDigit = 255;
constexpr std::array<std::uint8_t, 256> kDigitOf = [] {
  std::array<std::uint8_t, 256> digits{};
  digits.fill(kNoDigit);
  for (std::size_t i = 0; i < kDigits.size(); ++i) {
    digits[static_cast<unsigned char>(kDigits[i])] = static_cast<std::uint8_t>(i);
  }
  return digits;
}();

void put_number(std::uint64_t number, std::string& text) {
  for (; number >= kMoreFollow; number >>= kBits) text += kDigits[(number & (kMoreFollow - 1)) | kMoreFollow];
  text += kDigits[number];
}

std::uint64_t take_number(std::string_view& text) {
  std::uint64_t number = 0;
  for (int shift = 0; !text.empty() && shift <= kMostShift; shift += kBits) {
    const std::uint64_t digit = kDigitOf[static_cast<unsigned char>(text.front())];
    if (digit == kNoDigit) break;
    text.remove_prefix(1);
    number |= (digit & (kMoreFollow - 1)) << shift;
    if (digit < kMoreFollow) return number;
  }
  throw Error("the profile of a node contains invalid numbers");
}

std::uint64_t without_sign(std::int64_t number) {
  return number < 0 ? 2 * static_cast<std::uint64_t>(-(number + 1)) + 1 : 2 * static_cast<std::uint64_t>(number);
}

std::int64_t with_sign(std::uint64_t number) {
  const auto half = static_cast<std::int64_t>(number / 2);
  return number % 2 == 0 ? half : -half - 1;
}

/// 12.5 is {125, -1}.
struct Decimal {
  std::int64_t digits = 0;
  int exponent = 0;
};

Decimal decimal_of(float value) {
  constexpr int kDigitsOfFloat = 9;
  // The same text as in JSON: the shortest that is this number.
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value, std::chars_format::scientific).ptr;
  Decimal decimal;
  std::string_view rest(text, static_cast<std::size_t>(end - text));
  const std::size_t e = rest.find('e');
  std::from_chars(rest.data() + e + (rest[e + 1] == '+' ? 2 : 1), end, decimal.exponent);
  bool fraction = false;
  for (const char c : rest.substr(0, std::min<std::size_t>(e, kDigitsOfFloat + 2))) {
    if (c >= '0' && c <= '9') decimal.digits = 10 * decimal.digits + (c - '0');
    if (fraction) --decimal.exponent;
    fraction = fraction || c == '.';
  }
  if (value < 0) decimal.digits = -decimal.digits;
  return decimal;
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

std::string packed_decimals(std::span<const float> values) {
  std::vector<Decimal> decimals;
  int lowest = kMostExponent;
  int highest = -kMostExponent;
  for (const float value : values) {
    decimals.push_back(std::isfinite(value) ? decimal_of(value) : Decimal{});
    if (decimals.back().digits == 0) continue;
    lowest = std::min(lowest, decimals.back().exponent);
    highest = std::max(highest, decimals.back().exponent);
  }
  lowest = highest < lowest ? 0 : std::max(lowest, highest - kMostPowers);
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < values.size(); ++i) {
    Decimal& decimal = decimals[i];
    for (; decimal.exponent > lowest && decimal.digits != 0; --decimal.exponent) decimal.digits *= 10;
    for (; decimal.exponent < lowest && decimal.digits != 0; ++decimal.exponent) decimal.digits /= 10;
    if (std::isfinite(values[i])) least = std::min(least, decimal.digits);
  }
  std::string text;
  if (values.empty()) return text;
  if (least == std::numeric_limits<std::int64_t>::max()) least = 0;
  put_number(without_sign(lowest), text);
  put_number(without_sign(least), text);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) {
      put_number(static_cast<std::uint64_t>(decimals[i].digits - least), text);
    } else {
      text += kMissingDecimal;
    }
  }
  return text;
}

std::vector<float> unpacked_decimals(std::string_view text) {
  std::vector<float> values;
  if (text.empty()) return values;
  const auto exponent =
      static_cast<int>(std::clamp<std::int64_t>(with_sign(take_number(text)), -kMostExponent, kMostExponent));
  const auto least = static_cast<double>(with_sign(take_number(text)));
  const double power = std::pow(10.0, std::abs(exponent));
  values.reserve(static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](unsigned char digit) {
    return kDigitOf[digit] < kMoreFollow || digit == kMissingDecimal;
  })));
  while (!text.empty()) {
    if (text.front() == kMissingDecimal) {
      text.remove_prefix(1);
      values.push_back(std::numeric_limits<float>::quiet_NaN());
      continue;
    }
    const double digits = least + static_cast<double>(take_number(text));
    values.push_back(static_cast<float>(exponent < 0 ? digits / power : digits * power));
  }
  return values;
}

std::string folded_names(const std::vector<SharedText>& names) {
  std::string text;
  std::string_view before;
  for (const std::string_view name : names) {
    const std::size_t most = std::min({name.size(), before.size(), kDigits.size() - 1});
    std::size_t shared = 0;
    const auto is_ascii = [&name](std::size_t i) { return static_cast<unsigned char>(name[i]) < 0x80; };
    while (shared < most && name[shared] == before[shared] && is_ascii(shared)) ++shared;  // others are not cut in two
    text += kDigits[shared];
    for (const char letter : name.substr(shared)) text += letter == kEndOfName ? ' ' : letter;
    text += kEndOfName;
    before = name;
  }
  return text;
}

std::vector<SharedText> unfolded_names(std::string_view text) {
  std::vector<SharedText> names;
  names.reserve(static_cast<std::size_t>(std::count(text.begin(), text.end(), kEndOfName)));
  std::string name;
  while (!text.empty()) {
    const std::size_t end = text.find(kEndOfName);
    const std::size_t shared = kDigitOf[static_cast<unsigned char>(text.front())];
    if (end == 0 || end == std::string_view::npos || shared > name.size() || names.size() >= kMostForeignNames) {
      throw Error("the names in a node's profile are damaged");
    }
    name.resize(shared);
    names.emplace_back(name.append(text.substr(1, end - 1)));
    text.remove_prefix(end + 1);
  }
  return names;
}

ChannelColumns columns_of(const std::vector<ProfileChannel>& channels) {
  ChannelColumns columns;
  std::map<ChannelTraits, std::size_t> known;
  std::vector<SharedText> names;
  for (const ProfileChannel& channel : channels) {
    const ChannelTraits traits{channel.unit, channel.subsystem, channel.kind, channel.carried_over};
    const auto [at, added] = known.try_emplace(traits, columns.of_many.size());
    if (added) columns.of_many.push_back(traits);
    if (channel.trend) columns.trends.push_back({names.size(), *channel.trend});
    if (!names.empty()) columns.blocks += kEndOfBlocks;
    columns.blocks += packed_decimals(channel.blocks);
    names.push_back(channel.name);
    columns.means.push_back(channel.mean);
    put_number(at->second, columns.traits);
  }
  columns.names = folded_names(names);
  return columns;
}

std::vector<ProfileChannel> channels_of(ChannelColumns columns) {
  const std::vector<SharedText> names = unfolded_names(columns.names);
  if (columns.means.size() != names.size()) throw Error("the columns of a node's profile differ in length");
  std::vector<ProfileChannel> channels(names.size());
  std::string_view traits_left = columns.traits;
  std::string_view blocks_left = columns.blocks;
  for (std::size_t i = 0; i < channels.size(); ++i) {
    const std::uint64_t which = take_number(traits_left);
    if (which >= columns.of_many.size()) throw Error("a channel of a node's profile has no traits");
    const ChannelTraits& traits = columns.of_many[which];
    const std::size_t end = std::min(blocks_left.find(kEndOfBlocks), blocks_left.size());
    channels[i] = {.name = names[i],
                   .unit = traits.unit,
                   .subsystem = traits.subsystem,
                   .kind = traits.kind,
                   .carried_over = traits.carried_over,
                   .mean = columns.means[i],
                   .blocks = unpacked_decimals(blocks_left.substr(0, end))};
    blocks_left.remove_prefix(std::min(end + 1, blocks_left.size()));
  }
  for (StoredTrend& stored : columns.trends) {
    if (stored.channel >= channels.size()) throw Error("a trend of a node's profile has no channel");
    channels[stored.channel].trend = std::move(stored.trend);
  }
  return channels;
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

void keep_trends_of(const std::set<std::string>& channels, NodeProfile& profile) {
  for (ProfileChannel& channel : profile.channels) {
    if (!channels.contains(channel.name)) channel.trend.reset();
  }
  profile.all_trends = false;
}

double sparkline_value(const ProfileChannel& channel, std::size_t i) {
  if (!channel.trend || i >= channel.trend->line.size() || channel.trend->line[i] == kNoLevel) return kNaN;
  const double level = static_cast<double>(channel.trend->line[i] - kFirstLevel) / (kSparklineLevels - 1);
  return channel.trend->low + std::clamp(level, 0.0, 1.0) * channel.range();
}

void check_profile(NodeProfile& profile) {
  const bool sound =
      profile.block_ns > 0 && profile.sparkline_step_ns > 0 && profile.end_utc_ns >= profile.begin_utc_ns &&
      profile.begin_utc_ns >= 0 && profile.end_utc_ns <= kLatest && profile.block_ns <= kLatest &&
      (profile.end_utc_ns - profile.begin_utc_ns) / profile.block_ns <= kMostForeignBlocks &&
      (profile.end_utc_ns - profile.begin_utc_ns) / profile.sparkline_step_ns <= std::int64_t{kMostForeignSparkline};
  if (!sound) throw Error("a profile without a time axis");
  profile.first_block = profile.begin_utc_ns / profile.block_ns;
  for (const ProfileChannel& channel : profile.channels) {
    if (!std::isfinite(channel.mean) || channel.blocks.size() > std::size_t{kMostForeignBlocks} ||
        (channel.trend && channel.trend->line.size() > kMostForeignSparkline)) {
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
