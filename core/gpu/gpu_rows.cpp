#include "core/gpu/gpu_rows.h"

#include <algorithm>

#include "core/gpu/call_pace.h"
#include "core/kernel_text/kernel_words.h"
#include "hdf5schema/basics/text.h"

namespace reveal {

GpuRows::GpuRows(std::span<const FamilyTable> tables) : tables_(tables) {
  for (std::size_t family = 0; family < tables.size(); ++family) {
    for (const MetricHelp& metric : tables[family].metrics) columns_.push_back({metric.name, family});
  }
}

void GpuRows::open(TraceSink& sink, std::string_view first_slow, std::chrono::nanoseconds period,
                   std::chrono::nanoseconds slow_period) {
  const auto first = std::find_if(tables_.begin(), tables_.end(),
                                  [first_slow](const FamilyTable& table) { return table.path == first_slow; });
  first_slow_ = static_cast<std::size_t>(first - tables_.begin());
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    const std::chrono::nanoseconds each = i < first_slow_ ? period : slow_period;
    families_.push_back(&sink.add_family(tables_[i], each, {}, {}, CallPace::kLongestGap * each));
  }
}

void GpuRows::begin(bool slow) noexcept {
  for (std::size_t i = 0; i < families(slow); ++i) families_[i]->begin();
}

void GpuRows::commit(bool slow) noexcept {
  for (std::size_t i = 0; i < families(slow); ++i) families_[i]->commit();
}

Family* GpuRows::family(std::string_view path) const noexcept {
  const auto found = std::find_if(families_.begin(), families_.end(),
                                  [path](const Family* family) { return family->spec().path == path; });
  return found == families_.end() ? nullptr : *found;
}

bool GpuRows::take(std::string_view prefix, std::string_view rest, std::string_view role, std::string_view words) {
  Place* place = place_of(prefix, rest, role);
  if (place == nullptr) return false;
  bool each_time = false;
  for (std::string_view metric = cut_word(words); !metric.empty(); metric = cut_word(words)) {
    std::int64_t value = 0;
    if (!parse_counter(cut_word(words), value)) continue;
    const std::size_t column = column_of(metric);
    if (column >= columns_.size()) continue;
    set(*place, column, value, kMissing);
    each_time = each_time || columns_[column].family < first_slow_;
  }
  return each_time;
}

void GpuRows::take_process(const ProcessSlots* slots, std::string_view line) {
  const auto pid = parse_int(cut_word(line));
  const std::string_view gpu = cut_word(line);
  if (!pid || slots == nullptr) return;
  for (const ProcessSlot& slot : slots->slots()) {
    if (slot.pid == *pid && slot.process != nullptr) take(slot.instance + "/gpu", gpu, slot.role, line);
  }
}

void GpuRows::set(std::string_view prefix, std::string_view rest, std::string_view role, std::string_view metric,
                  std::int64_t value, std::int64_t before) {
  const std::size_t column = column_of(metric);
  Place* place = place_of(prefix, rest, role);
  if (place != nullptr && column < columns_.size()) set(*place, column, value, before);
}

void GpuRows::set(Place& place, std::size_t column, std::int64_t value, std::int64_t before) {
  Family& family = *families_[columns_[column].family];
  std::int32_t& channel = place.channels[column];
  if (channel == Family::kNoChannel) {
    channel = family.add(columns_[column].metric, place.instance, place.role, before);
  }
  family.set(channel, value);
}

// The lines have the same order each time: the next one is the likely one.
// Null where there are more than any node has: a recording may hold anything.
GpuRows::Place* GpuRows::place_of(std::string_view prefix, std::string_view rest, std::string_view role) {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[(next_place_ + i) % places_.size()];
    const std::string_view instance = place.instance;
    if (!instance.starts_with(prefix) || instance.substr(prefix.size()) != rest) continue;
    next_place_ = (next_place_ + i + 1) % places_.size();
    return &place;
  }
  if (places_.size() == kMostPlaces) return nullptr;
  places_.push_back({std::string(prefix) + std::string(rest), std::string(role), {}});
  places_.back().channels.assign(columns_.size(), Family::kNoChannel);
  return &places_.back();
}

std::size_t GpuRows::column_of(std::string_view metric) {
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const std::size_t column = (next_column_ + i) % columns_.size();
    if (columns_[column].metric != metric) continue;
    next_column_ = column + 1;
    return column;
  }
  return columns_.size();
}

}  // namespace reveal
