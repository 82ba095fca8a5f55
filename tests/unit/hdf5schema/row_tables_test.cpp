// The columns of the tables of single rows. A file of any version has them at these places.
#include "hdf5schema/row_tables.h"

#include <H5Cpp.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "hdf5schema/record_types.h"

namespace reveal::tests::row_tables_test {
namespace {

/// "rank 0 32": name, offset and width of each column.
std::vector<std::string> columns_of(const H5::CompType& type) {
  std::vector<std::string> columns;
  for (unsigned i = 0; i < static_cast<unsigned>(type.getNmembers()); ++i) {
    columns.push_back(type.getMemberName(i) + " " + std::to_string(type.getMemberOffset(i)) + " " +
                      std::to_string(type.getMemberDataType(i).getSize()));
  }
  return columns;
}

TEST(RowTables, HaveTheColumnsOfEarlierVersions) {
  EXPECT_EQ(columns_of(row_type<TrainingStep>()),
            (std::vector<std::string>{"rank 0 32", "number 32 8", "begin_ns 40 8", "duration_ns 48 8",
                                      "waiting_ns 56 8", "bytes 64 8", "gc_ns 72 8"}));
  EXPECT_EQ(row_type<TrainingStep>().getSize(), 80U);
  EXPECT_EQ(columns_of(row_type<SampledCollective>()),
            (std::vector<std::string>{"rank 0 32", "function 32 32", "communicator 64 8", "ranks 72 8", "id 80 8",
                                      "number 88 8", "begin_ns 96 8", "last 104 8"}));
  EXPECT_EQ(row_type<SampledCollective>().getSize(), 112U);
}

TEST(RowTables, CutTextsToTheirWidth) {
  const SampledCollective call{.rank = std::string(40, 'r'), .function = "MPI_Bcast", .communicator = 1, .last = 1};
  const RowRecord<SampledCollective> record = row_record(call);
  const std::string_view bytes(record.bytes, sizeof record.bytes);
  EXPECT_EQ(bytes.substr(0, 32), std::string(32, 'r'));
  EXPECT_EQ(bytes.substr(32, 32), "MPI_Bcast" + std::string(23, '\0'));
  std::int64_t last = 0;
  std::memcpy(&last, record.bytes + 104, sizeof last);
  EXPECT_EQ(last, 1);
}

}  // namespace
}  // namespace reveal::tests::row_tables_test
