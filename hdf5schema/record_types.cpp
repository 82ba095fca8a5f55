#include "hdf5schema/record_types.h"

#include <H5Cpp.h>

#include <algorithm>

#include "hdf5schema/layout.h"
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

H5::CompType step_type() {
  H5::CompType type(sizeof(StepRecord));
  type.insertMember("rank", HOFFSET(StepRecord, rank), text_type(sizeof(StepRecord::rank)));
  type.insertMember("number", HOFFSET(StepRecord, number), PredType::NATIVE_INT64);
  type.insertMember("begin_ns", HOFFSET(StepRecord, begin_ns), PredType::NATIVE_INT64);
  type.insertMember("duration_ns", HOFFSET(StepRecord, duration_ns), PredType::NATIVE_INT64);
  type.insertMember("waiting_ns", HOFFSET(StepRecord, waiting_ns), PredType::NATIVE_INT64);
  type.insertMember("bytes", HOFFSET(StepRecord, bytes), PredType::NATIVE_INT64);
  return type;
}

H5::CompType collective_type() {
  H5::CompType type(sizeof(CollectiveRecord));
  type.insertMember("rank", HOFFSET(CollectiveRecord, rank), text_type(sizeof(CollectiveRecord::rank)));
  type.insertMember("function", HOFFSET(CollectiveRecord, function), text_type(sizeof(CollectiveRecord::function)));
  type.insertMember("communicator", HOFFSET(CollectiveRecord, communicator), PredType::NATIVE_INT64);
  type.insertMember("ranks", HOFFSET(CollectiveRecord, ranks), PredType::NATIVE_INT64);
  type.insertMember("id", HOFFSET(CollectiveRecord, id), PredType::NATIVE_INT64);
  type.insertMember("number", HOFFSET(CollectiveRecord, number), PredType::NATIVE_INT64);
  type.insertMember("begin_ns", HOFFSET(CollectiveRecord, begin_ns), PredType::NATIVE_INT64);
  type.insertMember("last", HOFFSET(CollectiveRecord, last), PredType::NATIVE_INT64);
  return type;
}

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
