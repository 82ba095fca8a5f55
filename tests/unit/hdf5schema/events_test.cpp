// More events than are read.
#include <H5Cpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/layout.h"
#include "hdf5schema/trace_reader.h"
#include "sample_trace.h"

namespace reveal::tests::events_test {
namespace {

constexpr std::size_t kRead = 250'000;

/// Writes a closed trace with these codes in its table of events, as many times each.
void record(const std::filesystem::path& path, const std::vector<std::pair<std::string, std::size_t>>& codes) {
  TraceWriter writer(path, sample_header());
  const auto family = writer.add_family(gauge_family());
  writer.add_channel(family, {.metric = "level"});
  writer.start();
  writer.append_event({1, "rank0", "some", "text"});
  writer.close();
  H5::H5File file(path.string(), H5F_ACC_RDWR);
  const H5::DataType type = file.openDataSet("events").getDataType();
  std::vector<EventRecord> records;
  for (const auto& [code, times] : codes) {
    EventRecord record{};
    std::memcpy(record.code, code.c_str(), code.size() + 1);
    record.time_ns = std::ssize(records);
    records.insert(records.end(), times, record);
  }
  ASSERT_EQ(type.getSize(), sizeof(EventRecord));
  file.unlink("events");
  const hsize_t length = records.size();
  const hsize_t chunk = 4096;
  H5::DSetCreatPropList list;
  list.setChunk(1, &chunk);
  list.setShuffle();
  list.setDeflate(1);
  list.setFletcher32();
  file.createDataSet("events", type, H5::DataSpace(1, &length), list).write(records.data(), type);
}

std::size_t count(const std::vector<Event>& events, std::string_view code) {
  return static_cast<std::size_t>(
      std::count_if(events.begin(), events.end(), [code](const Event& event) { return event.code == code; }));
}

TEST(Events, AreReadBehindThoseOfPythonsFrames) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  record(path, {{"python_frames", kRead + 1000}, {"gpu_xid", 3}});
  const std::vector<Event> events = TraceReader(path).events();
  EXPECT_EQ(count(events, "python_frames"), kRead);
  EXPECT_EQ(count(events, "gpu_xid"), 3U);
  ASSERT_EQ(count(events, "events_lost"), 1U);
  EXPECT_TRUE(events.back().text.starts_with("1000 events ")) << events.back().text;
}

TEST(Events, OfAnyOtherKindAreCountedWhereTheyAreTooMany) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  record(path, {{"process_begin", kRead + 7}, {"python_frames", 5}});
  const std::vector<Event> events = TraceReader(path).events();
  EXPECT_EQ(count(events, "process_begin"), kRead);
  EXPECT_EQ(count(events, "python_frames"), 5U);
  EXPECT_TRUE(events.back().text.starts_with("7 events ")) << events.back().text;
}

/// Replaces the table by one with a text of this width in its row, and this text.
void replace_by_wide(const std::filesystem::path& path, const std::string& table, const std::string& column,
                     std::size_t width) {
  H5::H5File file(path.string(), H5F_ACC_RDWR);
  const H5::CompType old(file.openDataSet(table));
  H5::CompType type(old.getSize() + width);
  for (int i = 0; i < old.getNmembers(); ++i) {
    const auto index = static_cast<unsigned>(i);
    if (old.getMemberName(index) != column)
      type.insertMember(old.getMemberName(index), old.getMemberOffset(index), old.getMemberDataType(index));
  }
  type.insertMember(column, old.getSize(), H5::StrType(H5::PredType::C_S1, width));
  file.unlink(table);
  const std::vector<char> row(type.getSize(), 'a');
  const hsize_t one = 1;
  file.createDataSet(table, type, H5::DataSpace(1, &one)).write(row.data(), type);
}

TEST(Events, AreRefusedWhereTheirRowsAreWiderThanThoseOfATrace) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  record(path, {{"gpu_xid", 4096}});
  replace_by_wide(path, "events", "text", 512);
  EXPECT_EQ(TraceReader(path).events().at(0).text, std::string(512, 'a')) << "of a later version, perhaps";
  replace_by_wide(path, "events", "text", 1 << 20);
  replace_by_wide(path, "steps", "rank", 1 << 20);
  EXPECT_THROW(static_cast<void>(TraceReader(path).events()), Error);
  EXPECT_THROW(static_cast<void>(TraceReader(path).steps()), Error);
}

}  // namespace
}  // namespace reveal::tests::events_test
