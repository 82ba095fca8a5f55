#include "postproc/telemetry/row_store.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "hdf5schema/basics/not_measured.h"
#include "hdf5schema/layout.h"
#include "hdf5schema/regular_rows.h"
#include "hdf5schema/row_buffer.h"
#include "postproc/telemetry/derived.h"
#include "postproc/telemetry/load.h"

namespace reveal {
namespace {

/// Rows that wait for the trace: its flushes are ten seconds apart.
constexpr std::size_t kMostWaiting = 1024;
/// Channels of an early row that the trace does not name yet; a family has no more that come late.
constexpr std::size_t kMostUnnamed = 2048;

constexpr float kNoValue = std::numeric_limits<float>::quiet_NaN();

double value_of(std::int64_t stored) {
  return stored == kMissing ? kNaN : static_cast<double>(stored);
}

/// Increments of one row add up, of levels the last known one stays.
void keep(double value, Kind kind, float& kept) {
  if (std::isnan(value)) return;
  kept = static_cast<float>(value) + (is_counted(kind) && !std::isnan(kept) ? kept : 0);
}

}  // namespace

std::int64_t LiveBlock::time_of(std::size_t sample) const {
  return first_ns + std::llround(static_cast<double>(sample) * telemetry.step_seconds * 1e9);
}

std::optional<std::size_t> RowStore::find(const std::string& path) const {
  for (std::size_t i = 0; i < families_.size(); ++i) {
    if (families_[i].spec.path == path) return i;
  }
  return std::nullopt;
}

std::size_t RowStore::learn(const FamilySpec& spec, const std::vector<ChannelKey>& channels,
                            std::int64_t utc_minus_monotonic_ns) {
  const auto known = find(spec.path);
  if (!known) {
    StoredFamily& family = families_.emplace_back();
    family.spec = spec;
    family.utc_minus_monotonic_ns = utc_minus_monotonic_ns;
    family.finer = spec.faster;
    if (const std::int64_t ticks = ticks_in_step(spec.period); ticks > 1) {
      family.finer = spec.period;
      family.spec.period = ticks * spec.period;
    }
  }
  StoredFamily& family = known ? families_[*known] : families_.back();
  family.channels = channels;
  return known.value_or(families_.size() - 1);
}

void RowStore::widen(StoredFamily& family, std::size_t width) {
  if (width <= family.width) return;
  family.width = width;
  family.values.resize(width * family.capacity, kNoValue);
}

/// Drops in one step all rows that are older than needed, when the space is used up.
void RowStore::make_room(StoredFamily& family, std::size_t rows) const {
  if (family.times.size() + rows <= family.capacity) return;
  const std::int64_t oldest = family.times.empty() ? 0 : family.times.back() - keep_.count();
  const auto keep_from = std::lower_bound(family.times.begin(), family.times.end(), oldest);
  const auto old = static_cast<std::size_t>(keep_from - family.times.begin());
  const std::size_t kept = family.times.size() - old;
  const std::size_t capacity = std::max<std::size_t>({64, family.capacity, (kept + rows) * 5 / 4});
  if (old > 0) family.forgot = true;
  std::vector<float> values(family.width * capacity, kNoValue);
  for (std::size_t channel = 0; channel < family.width; ++channel) {
    const auto from = family.values.begin() + static_cast<std::ptrdiff_t>(channel * family.capacity + old);
    std::copy_n(from, kept, values.begin() + static_cast<std::ptrdiff_t>(channel * capacity));
  }
  family.values = std::move(values);
  family.capacity = capacity;
  family.times.erase(family.times.begin(), keep_from);
}

std::size_t RowStore::place_of(StoredFamily& family, std::int64_t time_ns) const {
  const auto step = [&family](std::int64_t at) {
    return wall_period(at, family.utc_minus_monotonic_ns, family.spec.period, family.finer);
  };
  const bool may_be_late = family.finer == family.spec.faster;  // the other families have a row in each tick of a step
  const bool together = family.finer.count() > 0 && !family.times.empty() &&
                        step(family.times.back()) == step(time_ns) &&
                        (!may_be_late || are_close(family.times.back(), time_ns, family.spec.period));
  if (together) {
    family.times.back() = time_ns;
    return family.times.size() - 1;
  }
  make_room(family, 1);
  const std::size_t at = family.times.size();
  family.times.push_back(time_ns);
  for (std::size_t channel = 0; channel < family.width; ++channel)
    family.values[channel * family.capacity + at] = kNoValue;
  return at;
}

void RowStore::append(std::size_t index, std::span<const std::int64_t> times, std::span<const double> values) {
  StoredFamily& family = families_.at(index);
  const std::size_t rows = times.size();
  const std::size_t channels = rows > 0 ? values.size() / rows : 0;
  std::size_t known = 0;
  while (known < rows && !family.times.empty() && times[known] <= family.times.back()) ++known;
  if (known < rows && family.finer.count() > 0) {
    widen(family, channels);
    for (std::size_t row = known; row < rows; ++row) {
      const std::size_t at = place_of(family, times[row]);
      for (std::size_t channel = 0; channel < channels; ++channel)
        keep(values[channel * rows + row], family.spec.kind, family.values[channel * family.capacity + at]);
    }
  } else if (known < rows) {
    widen(family, channels);
    make_room(family, rows - known);
    const std::size_t at = family.times.size();
    family.times.insert(family.times.end(), times.begin() + static_cast<std::ptrdiff_t>(known), times.end());
    for (std::size_t channel = 0; channel < channels; ++channel) {
      const auto from = values.subspan(channel * rows + known, rows - known);
      std::transform(from.begin(), from.end(),
                     family.values.begin() + static_cast<std::ptrdiff_t>(channel * family.capacity + at),
                     [](double value) { return static_cast<float>(value); });
    }
    for (std::size_t channel = channels; channel < family.width; ++channel) {
      std::fill_n(family.values.begin() + static_cast<std::ptrdiff_t>(channel * family.capacity + at), rows - known,
                  kNoValue);
    }
  }
  take_waiting(family);
}

void RowStore::append_early(std::size_t index, std::int64_t time_ns, std::span<const std::int64_t> values) {
  StoredFamily& family = families_.at(index);
  if (values.size() > family.channels.size() + kMostUnnamed) return;  // damaged
  if (family.waiting.size() == kMostWaiting) family.waiting.pop_front();
  family.waiting.push_back({time_ns, {values.begin(), values.end()}});
  take_waiting(family);
}

void RowStore::take_waiting(StoredFamily& family) const {
  if (family.waiting.empty()) return;
  const bool continues = family.counted_ns > 0 && !family.times.empty() && family.counted_ns == family.times.back();
  const bool reaches_back = !family.times.empty() && family.waiting.front().time_ns <= family.times.back();
  if (!continues && !reaches_back) return;
  for (const EarlyRow& row : family.waiting) append_row(family, row);
  family.waiting.clear();
}

/// Stores the row as the trace will store it.
void RowStore::append_row(StoredFamily& family, const EarlyRow& row) const {
  const std::size_t channels = row.values.size();
  const bool fresh = family.times.empty() || row.time_ns > family.times.back();
  const bool counts = is_counted(family.spec.kind);
  if (fresh) widen(family, channels);
  const std::size_t at = fresh ? place_of(family, row.time_ns) : 0;
  family.counted.resize(std::max(family.counted.size(), channels), kMissing);
  family.counted_ns = std::max(family.counted_ns, row.time_ns);
  for (std::size_t channel = 0; channel < family.width; ++channel) {
    const std::int64_t value = channel < channels ? row.values[channel] : kMissing;
    const bool increases = counts && value != kMissing;
    const std::int64_t stored = increases ? take_increment(value, family.counted[channel]) : value;
    if (fresh) keep(value_of(stored), family.spec.kind, family.values[channel * family.capacity + at]);
  }
}

std::optional<double> RowStore::level(std::string_view metric, std::int64_t from_ns, std::int64_t until_ns) const {
  std::optional<double> level;
  means(from_ns, until_ns, [&](std::size_t index, std::size_t channel, double mean) {
    const StoredFamily& family = families_[index];
    if (family.channels[channel].metric != metric) return;
    const double seconds = std::chrono::duration<double>(family.spec.period).count();
    level = level.value_or(0) + (is_counted(family.spec.kind) ? mean / seconds : mean);
  });
  return level;
}

std::int64_t RowStore::newest_ns(std::size_t family) const {
  return families_.at(family).times.empty() ? 0 : families_[family].times.back();
}

std::int64_t RowStore::oldest_ns() const {
  std::int64_t oldest = 0;
  for (const StoredFamily& family : families_) {
    if (!family.times.empty() && (oldest == 0 || family.times.front() < oldest)) oldest = family.times.front();
  }
  return oldest;
}

std::optional<std::int64_t> RowStore::count_of(std::string_view metric) const {
  std::optional<std::int64_t> most;
  for (const StoredFamily& family : families_) {
    for (std::size_t i = 0; i < std::min(family.counted.size(), family.channels.size()); ++i) {
      if (family.channels[i].metric != metric || family.counted[i] == kMissing) continue;
      most = std::max(most.value_or(0), family.counted[i]);
    }
  }
  return most;
}

std::int64_t RowStore::newest_ns() const {
  std::int64_t newest = 0;
  for (std::size_t i = 0; i < families_.size(); ++i) {
    // Rows of a faster reading are up to a period ahead of their reading.
    const bool ahead = families_[i].spec.faster.count() > 0;
    newest = std::max(newest, newest_ns(i) - (ahead ? families_[i].spec.period.count() : 0));
  }
  return newest;
}

bool RowStore::rows_wait() const {
  return std::any_of(families_.begin(), families_.end(),
                     [](const StoredFamily& family) { return !family.waiting.empty(); });
}

bool RowStore::names_missing() const {
  return std::any_of(families_.begin(), families_.end(),
                     [](const StoredFamily& family) { return family.width > family.channels.size(); });
}

std::size_t RowStore::begin_at(std::size_t index, std::span<const std::int64_t> times) {
  if (times.empty()) return 0;
  const auto first = std::lower_bound(times.begin(), times.end(), times.back() - keep_.count());
  const auto row = static_cast<std::size_t>(first - times.begin());
  if (row > 0) families_.at(index).forgot = true;
  return row;
}

void RowStore::means(std::int64_t from_ns, std::int64_t until_ns, const Take& take) const {
  for (std::size_t index = 0; index < families_.size(); ++index) {
    const StoredFamily& family = families_[index];
    if (family.spec.period > std::chrono::seconds(1)) continue;
    const auto begin = std::upper_bound(family.times.begin(), family.times.end(), from_ns);
    const auto end = std::upper_bound(begin, family.times.end(), until_ns);
    if (begin == end) continue;
    const auto first = static_cast<std::size_t>(begin - family.times.begin());
    const auto rows = static_cast<std::size_t>(end - begin);
    for (std::size_t channel = 0; channel < std::min(family.width, family.channels.size()); ++channel) {
      double sum = 0;
      double present = 0;
      for (const float value : std::span(family.values).subspan(channel * family.capacity + first, rows)) {
        if (std::isnan(value)) continue;
        sum += value;
        present += 1;
      }
      if (present > 0) take(index, channel, sum / present);
    }
  }
}

std::size_t RowStore::channels() const {
  std::size_t count = 0;
  for (const StoredFamily& family : families_) count += std::min(family.width, family.channels.size());
  return count;
}

RowStore::StoredFamily::Range RowStore::StoredFamily::rows_between(std::int64_t first_ns, std::int64_t last_ns) const {
  // A level that is older still holds; a counter's increase needs the row before.
  auto begin = std::lower_bound(times.begin(), times.end(), first_ns);
  if (begin != times.begin()) --begin;
  const auto end = std::upper_bound(begin, times.end(), last_ns);
  return {static_cast<std::size_t>(begin - times.begin()), static_cast<std::size_t>(end - times.begin())};
}

FamilyRows RowStore::StoredFamily::named_channels() const {
  const std::size_t named = std::min(width, channels.size());
  return {spec, {channels.begin(), channels.begin() + static_cast<std::ptrdiff_t>(named)}, {}, {}};
}

FamilyRows RowStore::StoredFamily::named_channels(Range rows) const {
  FamilyRows part = named_channels();
  const std::size_t count = rows.end - rows.begin;
  part.time_ns.assign(times.begin() + static_cast<std::ptrdiff_t>(rows.begin),
                      times.begin() + static_cast<std::ptrdiff_t>(rows.end));
  part.values.reserve(part.channels.size() * count);
  for (std::size_t channel = 0; channel < part.channels.size(); ++channel) {
    const auto from = std::span(values).subspan(channel * capacity + rows.begin, count);
    part.values.insert(part.values.end(), from.begin(), from.end());
  }
  return part;
}

std::optional<LiveBlock> RowStore::block(const TraceHeader& header, std::int64_t utc_minus_monotonic_ns,
                                         std::int64_t until_ns, std::span<const std::string_view> paths) const {
  const StoredFamily* pace = pace_of(families_);
  if (pace == nullptr || header.interval.count() <= 0) return std::nullopt;
  const std::int64_t last = until_ns > 0 ? std::min(until_ns, pace->times.back()) : pace->times.back();
  const std::int64_t oldest = last - keep_.count();
  const auto first = std::lower_bound(pace->times.begin(), pace->times.end(), oldest);
  if (first == pace->times.end() || *first >= last) return std::nullopt;
  const Grid grid(*first, last, utc_minus_monotonic_ns, header.interval);
  LiveBlock block;
  block.first_ns = grid.begin_utc_ns() - utc_minus_monotonic_ns;
  block.starts = !pace->forgot && first == pace->times.begin();
  Telemetry& telemetry = block.telemetry;
  telemetry.node = header.node;
  telemetry.step_seconds = static_cast<double>(grid.step_ns()) * 1e-9;
  telemetry.begin_utc_ns = grid.begin_utc_ns();
  telemetry.samples = grid.samples();
  telemetry.channels.reserve(channels() + kDerivedChannels);
  std::vector<StoredFamily::Range> rows(families_.size());
  for (std::size_t f = 0; f < families_.size(); ++f) {
    const StoredFamily& family = families_[f];
    if (!paths.empty() && std::find(paths.begin(), paths.end(), family.spec.path) == paths.end()) continue;
    if (std::min(family.width, family.channels.size()) > 0) rows[f] = family.rows_between(*first, last);
    if (rows[f].begin < rows[f].end) append_channels(family.named_channels(), telemetry);
  }
  telemetry.values.reserve((telemetry.channels.size() + kDerivedChannels) * telemetry.samples);
  telemetry.values.resize(telemetry.channels.size() * telemetry.samples);
  FamilyRows part;
  const auto rows_of = [&](std::size_t f) -> const FamilyRows* {
    if (rows[f].begin == rows[f].end) return nullptr;
    part = families_[f].named_channels(rows[f]);
    return &part;
  };
  // Zeros are not written: channels that count nothing take no memory.
  lay_part_on_grid(grid, 0, telemetry.samples, families_.size(), rows_of, 0, telemetry);
  if (paths.empty()) append_derived(telemetry);
  return block;
}

}  // namespace reveal
