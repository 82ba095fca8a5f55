// The tables of rows that arrive one by one, /steps and /collectives: their columns, and a row as it is stored.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>

#include "hdf5schema/sampled_collective.h"
#include "hdf5schema/training_step.h"

namespace reveal {

/// A text, of which the file has a fixed width, or a number. `later`: earlier versions wrote none, which reads as
/// missing.
template <class Row>
struct RowColumn {
  const char* name;
  std::string Row::*text = nullptr;
  std::int64_t Row::*number = nullptr;
  bool later = false;

  [[nodiscard]] constexpr std::size_t width() const { return text != nullptr ? 32 : sizeof(std::int64_t); }
};

/// kMost: rows in one trace; kLost: the event with the number of those that were left out.
template <class Row>
struct RowTable;

template <>
struct RowTable<TrainingStep> {
  static constexpr const char* kName = "steps";
  static constexpr const char* kLost = "steps_lost";
  static constexpr std::size_t kMost = std::size_t{1} << 22;  // half a day at ten steps a second and eight ranks
  static constexpr RowColumn<TrainingStep> kColumns[] = {
      {.name = "rank", .text = &TrainingStep::rank},
      {.name = "number", .number = &TrainingStep::number},
      {.name = "begin_ns", .number = &TrainingStep::begin_ns},
      {.name = "duration_ns", .number = &TrainingStep::duration_ns},
      {.name = "waiting_ns", .number = &TrainingStep::waiting_ns},
      {.name = "bytes", .number = &TrainingStep::bytes},
      {.name = "gc_ns", .number = &TrainingStep::gc_ns, .later = true},
  };
};

template <>
struct RowTable<SampledCollective> {
  static constexpr const char* kName = "collectives";
  static constexpr const char* kLost = "collectives_lost";
  static constexpr std::size_t kMost = std::size_t{1} << 21;  // eleven hours of eight ranks with one communicator each
  static constexpr RowColumn<SampledCollective> kColumns[] = {
      {.name = "rank", .text = &SampledCollective::rank},
      {.name = "function", .text = &SampledCollective::function},
      {.name = "communicator", .number = &SampledCollective::communicator},
      {.name = "ranks", .number = &SampledCollective::ranks},
      {.name = "id", .number = &SampledCollective::id},
      {.name = "number", .number = &SampledCollective::number},
      {.name = "begin_ns", .number = &SampledCollective::begin_ns},
      {.name = "last", .number = &SampledCollective::last},
  };
};

/// Something for each of the tables.
template <template <class> class Of>
using RowTables = std::tuple<Of<TrainingStep>, Of<SampledCollective>>;

template <class Tables, class Visit>
void for_each_table(Tables& tables, const Visit& visit) {
  std::apply([&visit](auto&... each) { (visit(each), ...); }, tables);
}

/// The columns of a row one behind the other; a text that fills its width has no terminator.
template <class Row>
struct RowRecord {
  static constexpr std::size_t kWidth = [] {
    std::size_t width = 0;
    for (const RowColumn<Row>& column : RowTable<Row>::kColumns) width += column.width();
    return width;
  }();
  char bytes[kWidth];
};

template <class Row>
[[nodiscard]] RowRecord<Row> row_record(const Row& row) noexcept {
  RowRecord<Row> record{};
  char* at = record.bytes;
  for (const RowColumn<Row>& column : RowTable<Row>::kColumns) {
    if (column.text != nullptr) {
      const std::string& text = row.*column.text;
      std::copy_n(text.data(), std::min(text.size(), column.width()), at);
    } else {
      std::memcpy(at, &(row.*column.number), sizeof(std::int64_t));
    }
    at += column.width();
  }
  return record;
}

}  // namespace reveal
