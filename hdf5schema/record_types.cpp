#include "hdf5schema/record_types.h"

#include <H5Cpp.h>

#include <algorithm>

#include "hdf5schema/layout.h"
#include "hdf5schema/row_tables.h"
#include "hdf5schema/trace.h"

namespace reveal {

using H5::PredType;

H5::StrType text_type(std::size_t width) {
  H5::StrType type(PredType::C_S1, std::max<std::size_t>(width, 1));
  type.setStrpad(H5T_STR_NULLPAD);
  type.setCset(H5T_CSET_UTF8);
  return type;
}

H5::CompType event_type() {
  H5::CompType type(sizeof(EventRecord));
  type.insertMember("time_ns", HOFFSET(EventRecord, time_ns), PredType::NATIVE_INT64);
  type.insertMember("object", HOFFSET(EventRecord, object), text_type(sizeof(EventRecord::object)));
  type.insertMember("code", HOFFSET(EventRecord, code), text_type(sizeof(EventRecord::code)));
  type.insertMember("text", HOFFSET(EventRecord, text), text_type(sizeof(EventRecord::text)));
  return type;
}

template <class Row>
H5::CompType row_type() {
  H5::CompType type(sizeof(RowRecord<Row>));
  std::size_t offset = 0;
  for (const RowColumn<Row>& column : RowTable<Row>::kColumns) {
    if (column.text != nullptr) {
      type.insertMember(column.name, offset, text_type(column.width()));
    } else {
      type.insertMember(column.name, offset, PredType::NATIVE_INT64);
    }
    offset += column.width();
  }
  return type;
}
template H5::CompType row_type<TrainingStep>();
template H5::CompType row_type<SampledCollective>();

H5::CompType clock_type() {
  H5::CompType type(sizeof(ClockPair));
  type.insertMember("monotonic_ns", HOFFSET(ClockPair, monotonic_ns), PredType::NATIVE_INT64);
  type.insertMember("utc_ns", HOFFSET(ClockPair, utc_ns), PredType::NATIVE_INT64);
  type.insertMember("max_error_ns", HOFFSET(ClockPair, max_error_ns), PredType::NATIVE_INT64);
  return type;
}

H5::CompType coverage_type() {
  H5::CompType type(sizeof(CoverageRecord));
  type.insertMember("probe", HOFFSET(CoverageRecord, probe), text_type(sizeof(CoverageRecord::probe)));
  type.insertMember("state", HOFFSET(CoverageRecord, state), text_type(sizeof(CoverageRecord::state)));
  type.insertMember("reason", HOFFSET(CoverageRecord, reason), text_type(sizeof(CoverageRecord::reason)));
  return type;
}

H5::CompType life_type() {
  H5::CompType type(sizeof(LifeRecord));
  type.insertMember("born_ns", HOFFSET(LifeRecord, born_ns), PredType::NATIVE_INT64);
  type.insertMember("died_ns", HOFFSET(LifeRecord, died_ns), PredType::NATIVE_INT64);
  return type;
}

H5::CompType stored_type() {
  H5::CompType type(sizeof(StoredRecord));
  type.insertMember("path", HOFFSET(StoredRecord, path), text_type(sizeof(StoredRecord::path)));
  type.insertMember("channels", HOFFSET(StoredRecord, channels), PredType::NATIVE_INT64);
  type.insertMember("rows", HOFFSET(StoredRecord, rows), PredType::NATIVE_INT64);
  type.insertMember("chunks", HOFFSET(StoredRecord, chunks), PredType::NATIVE_INT64);
  type.insertMember("digest", HOFFSET(StoredRecord, digest), PredType::NATIVE_INT64);
  return type;
}

H5::CompType pair_type(std::size_t key_width, std::size_t value_width) {
  H5::CompType type(key_width + value_width);
  type.insertMember("key", 0, text_type(key_width));
  type.insertMember("value", key_width, text_type(value_width));
  return type;
}

}  // namespace reveal
