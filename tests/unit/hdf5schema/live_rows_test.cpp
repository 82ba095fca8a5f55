#include "hdf5schema/live_rows.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "sample_trace.h"

namespace reveal::tests::live_rows_test {
namespace {

struct Row {
  std::string family;
  std::int64_t time_ns;
  std::vector<std::int64_t> values;
  bool operator==(const Row&) const = default;
};

std::vector<Row> poll(LiveRowsReader& reader) {
  std::vector<Row> rows;
  reader.poll([&](const std::string& family, std::int64_t time_ns, std::span<const std::int64_t> values) {
    rows.push_back({family, time_ns, {values.begin(), values.end()}});
  });
  return rows;
}

TEST(LiveRows, AreReadAsTheyCome) {
  const TemporaryDirectory directory;
  const auto trace = directory.path() / "n01.h5";
  LiveRowsReader reader(trace);
  EXPECT_TRUE(poll(reader).empty());
  LiveRowsWriter writer(trace, {"cpu/times", "memory/vmstat"});
  EXPECT_TRUE(poll(reader).empty());
  ASSERT_TRUE(writer.write(std::vector<std::int64_t>{live_row_tag(1, 2), 100, 7, kMissing}));
  EXPECT_EQ(poll(reader), (std::vector<Row>{{"memory/vmstat", 100, {7, kMissing}}}));
  EXPECT_TRUE(poll(reader).empty());
  ASSERT_TRUE(writer.write(std::vector<std::int64_t>{live_row_tag(0, 1), 200, 8, live_row_tag(1, 0), 300}));
  EXPECT_EQ(poll(reader), (std::vector<Row>{{"cpu/times", 200, {8}}, {"memory/vmstat", 300, {}}}));
}

TEST(LiveRows, SurviveAFreshFileThatBeginsInTheMiddleOfTheRing) {
  const TemporaryDirectory directory;
  const auto trace = directory.path() / "n01.h5";
  LiveRowsReader reader(trace);
  LiveRowsWriter writer(trace, {"cpu/times"});
  std::vector<std::int64_t> words{live_row_tag(0, 1000), 0};
  words.resize(1002, 5);
  std::size_t got = 0;
  constexpr std::size_t kRows = 2000;  // 16 MB: several files
  for (std::size_t row = 0; row < kRows; ++row) {
    words[1] = static_cast<std::int64_t>(row);
    const std::size_t cut = row % words.size();
    ASSERT_TRUE(writer.write(std::span(words).first(cut), std::span(words).subspan(cut)));
    for (const Row& each : poll(reader)) {
      ASSERT_EQ(each.time_ns, static_cast<std::int64_t>(got++));
      ASSERT_EQ(each.values.size(), 1000U);
    }
  }
  EXPECT_EQ(got, kRows);
  EXPECT_LT(std::filesystem::file_size(live_rows_path(trace)), 5U << 20);
}

TEST(LiveRows, WaitForTheRestOfARow) {
  const TemporaryDirectory directory;
  const auto trace = directory.path() / "n01.h5";
  LiveRowsWriter writer(trace, {"cpu/times"});
  LiveRowsReader reader(trace);
  ASSERT_TRUE(writer.write(std::vector<std::int64_t>{live_row_tag(0, 2), 100, 1}));
  EXPECT_TRUE(poll(reader).empty());
  ASSERT_TRUE(writer.write(std::vector<std::int64_t>{2}));
  EXPECT_EQ(poll(reader), (std::vector<Row>{{"cpu/times", 100, {1, 2}}}));
}

TEST(LiveRows, DamageIsSaidAndAFreshFileHeals) {
  const TemporaryDirectory directory;
  const auto trace = directory.path() / "n01.h5";
  std::ofstream(live_rows_path(trace)) << "this is no file of ours, whatever its name says";
  LiveRowsReader reader(trace);
  EXPECT_FALSE(reader.poll([](const auto&, auto, auto) { FAIL(); }));
  LiveRowsWriter writer(trace, {"cpu/times"});
  ASSERT_TRUE(writer.write(std::vector<std::int64_t>{live_row_tag(0, 1), 100, 1}));
  EXPECT_EQ(poll(reader).size(), 1U);
  ASSERT_TRUE(writer.write(std::vector<std::int64_t>{live_row_tag(9, 1), 200, 1}));  // no such family
  EXPECT_FALSE(reader.poll([](const auto&, auto, auto) { FAIL(); }));
}

TEST(LiveRows, DoNotFollowALinkAndGoWithTheirWriter) {
  const TemporaryDirectory directory;
  const auto trace = directory.path() / "n01.h5";
  const auto target = directory.path() / "target";
  std::ofstream(target) << "mine";
  std::filesystem::create_symlink(target, live_rows_path(trace));
  {
    LiveRowsWriter writer(trace, {"cpu/times"});
    EXPECT_FALSE(std::filesystem::is_symlink(live_rows_path(trace)));
    EXPECT_EQ(std::filesystem::file_size(target), 4U);
  }
  EXPECT_FALSE(std::filesystem::exists(live_rows_path(trace)));
}

TEST(LiveRows, AHoleInTheFileIsNotReadToItsEnd) {
  const TemporaryDirectory directory;
  const auto trace = directory.path() / "n01.h5";
  LiveRowsWriter writer(trace, {"cpu/times"});
  std::filesystem::resize_file(live_rows_path(trace), 64U << 20);  // zeros: rows of no values
  LiveRowsReader reader(trace);
  std::size_t rows = 0;
  EXPECT_FALSE(reader.poll([&rows](const auto&, auto, auto) { ++rows; }));
  EXPECT_LE(rows, (16U << 20) / (kLiveRowHead * sizeof(std::int64_t)));
}

}  // namespace
}  // namespace reveal::tests::live_rows_test
