#include "hdf5schema/checked_dataset.h"

#include <H5Cpp.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "hdf5schema/basics/error.h"
#include "sample_trace.h"

namespace reveal::tests::checked_dataset_test {
namespace {

constexpr std::size_t kNumbers = 1000;

std::vector<std::int64_t> written_numbers() {
  std::vector<std::int64_t> numbers(kNumbers);
  std::iota(numbers.begin(), numbers.end(), -300);
  return numbers;
}

/// One chunk, by the filters in their order: s(huffle), d(eflate), f(letcher32).
void write(const H5::H5File& file, const std::string& filters) {
  const hsize_t length = kNumbers;
  H5::DSetCreatPropList list;
  list.setChunk(1, &length);
  for (const char filter : filters) {
    if (filter == 's') list.setShuffle();
    if (filter == 'd') list.setDeflate(1);
    if (filter == 'f') list.setFletcher32();
  }
  const std::vector<std::int64_t> numbers = written_numbers();
  file.createDataSet("d" + filters, H5::PredType::STD_I64LE, H5::DataSpace(1, &length), list)
      .write(numbers.data(), H5::PredType::NATIVE_INT64);
}

TEST(CheckedDataset, UndoesFiltersInAnyOrderThatItTakes) {
  const TemporaryDirectory directory;
  const H5::H5File file((directory.path() / "f.h5").string(), H5F_ACC_TRUNC);
  const std::vector<std::int64_t> numbers = written_numbers();
  const hsize_t at = 0;
  ByteBuffer bytes;  // both are used again
  NumberChunk chunk;
  for (const char* filters : {"", "s", "d", "f", "sd", "sf", "fs", "df", "fd", "sdf", "sfd", "fsd"}) {
    write(file, filters);
    const CheckedDataset dataset(file, std::string("d") + filters);
    ASSERT_TRUE(dataset.read_chunk(&at, bytes)) << filters;
    ASSERT_EQ(bytes.size(), kNumbers * 8) << filters;
    EXPECT_EQ(std::memcmp(bytes.data(), numbers.data(), bytes.size()), 0) << filters;
    dataset.read_numbers(&at, chunk);
    ASSERT_EQ(chunk.bytes.size(), kNumbers * 8) << filters;
    std::vector<std::int64_t> got(kNumbers);
    chunk.copy(0, std::as_writable_bytes(std::span(got)));
    EXPECT_EQ(got, numbers) << filters;
  }
}

TEST(CheckedDataset, HasNoNumbersWhereAChunkIsNotStored) {
  const TemporaryDirectory directory;
  const H5::H5File file((directory.path() / "f.h5").string(), H5F_ACC_TRUNC);
  const hsize_t length = kNumbers;
  H5::DSetCreatPropList list;
  list.setChunk(1, &length);
  file.createDataSet("d", H5::PredType::STD_I64LE, H5::DataSpace(1, &length), list);
  NumberChunk chunk;
  chunk.bytes.assign(8, 1);
  const hsize_t at = 0;
  CheckedDataset(file, "d").read_numbers(&at, chunk);
  EXPECT_TRUE(chunk.bytes.empty());
}

/// The file states another length than the dataset's own for a chunk without filters.
TEST(CheckedDataset, RefusesAChunkWithoutFiltersThatIsTooLongOrTooShort) {
  const TemporaryDirectory directory;
  const H5::H5File file((directory.path() / "f.h5").string(), H5F_ACC_TRUNC);
  const hsize_t length = kNumbers;
  const hsize_t at = 0;
  H5::DSetCreatPropList list;
  list.setChunk(1, &length);
  for (const std::size_t bytes : {kNumbers * 8 + 12'000, kNumbers * 8 - 4000}) {
    const std::string name = std::to_string(bytes);
    const H5::DataSet dataset = file.createDataSet(name, H5::PredType::STD_I64LE, H5::DataSpace(1, &length), list);
    const std::vector<unsigned char> content(bytes, 'x');
    ASSERT_GE(H5Dwrite_chunk(dataset.getId(), H5P_DEFAULT, 0, &at, bytes, content.data()), 0);
    const CheckedDataset checked(file, name);
    ByteBuffer read;
    NumberChunk chunk;
    EXPECT_THROW(checked.read_chunk(&at, read), Error) << bytes;
    EXPECT_THROW(checked.read_numbers(&at, chunk), Error) << bytes;
  }
}

}  // namespace
}  // namespace reveal::tests::checked_dataset_test
