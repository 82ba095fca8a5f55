#include "hdf5schema/chunk_codec.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

namespace reveal::tests::chunk_codec_test {
namespace {

/// The work of an HDF5 reader, with zlib: the inverse of the filters.
std::vector<std::int64_t> decoded(const ChunkCodec::Chunk& chunk, std::size_t count) {
  EXPECT_GE(chunk.bytes.size(), 4U);
  std::vector<unsigned char> bytes(count * 8);
  uLongf size = bytes.size();
  EXPECT_EQ(::uncompress(bytes.data(), &size, chunk.bytes.data(), chunk.bytes.size() - 4), Z_OK);
  EXPECT_EQ(size, bytes.size());
  std::vector<std::int64_t> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t value = 0;
    for (std::size_t byte = 0; byte < 8; ++byte)
      value |= std::uint64_t{chunk.skipped_filters == 1 ? bytes[8 * i + byte] : bytes[byte * count + i]} << 8 * byte;
    values[i] = static_cast<std::int64_t>(value);
  }
  return values;
}

std::vector<std::int64_t> random_values(std::size_t count, std::int64_t most) {
  std::mt19937_64 random(count);
  std::uniform_int_distribution<std::int64_t> any(-most, most);
  std::vector<std::int64_t> values(count);
  for (std::int64_t& value : values) value = any(random);
  return values;
}

TEST(ChunkCodec, IsUndoneByZlibAndUnshuffling) {
  using enum ChunkCodec::Effort;
  for (const auto effort : {temporary, live, closed}) {
    ChunkCodec codec(effort);
    for (const std::size_t count : {1, 2, 7, 100, 4096}) {
      for (const std::int64_t most : {std::int64_t{0}, std::int64_t{200}, std::numeric_limits<std::int64_t>::max()}) {
        const std::vector<std::int64_t> values = random_values(count, most);
        EXPECT_EQ(decoded(codec.encode(values), count), values) << count << " " << most;
      }
    }
  }
}

TEST(ChunkCodec, ShufflesOnlyWhereThatHelps) {
  ChunkCodec codec(ChunkCodec::Effort::live);
  std::vector<std::int64_t> noise = random_values(1000, 60'000);
  for (std::int64_t& value : noise) value = std::abs(value);
  EXPECT_EQ(codec.encode(noise).skipped_filters, 0U);
  std::vector<std::int64_t> ticks = random_values(1000, 9);
  for (std::int64_t& value : ticks) value = 10'000'000 * std::abs(value);
  EXPECT_EQ(codec.encode(ticks).skipped_filters, 1U);
}

TEST(ChunkCodec, GoesOnWhenItsTimeForThoroughnessIsUp) {
  ChunkCodec codec(ChunkCodec::Effort::closed);
  const std::vector<std::int64_t> values = random_values(1 << 16, 3);
  const std::size_t thorough = codec.encode(values).bytes.size();
  // What is all the same takes no time.
  const std::vector<std::int64_t> same(ChunkCodec::kThoroughValues - 2 * values.size());
  EXPECT_EQ(decoded(codec.encode(same), same.size()), same);
  EXPECT_EQ(codec.encode(values).bytes.size(), thorough) << "the last ones";
  const ChunkCodec::Chunk usual = codec.encode(values);
  EXPECT_GT(usual.bytes.size(), thorough);
  EXPECT_EQ(decoded(usual, values.size()), values);
}

TEST(Fletcher32, IsTheChecksumOfHdf5) {
  // Worked out by hand: words are big-endian, both sums modulo 65535, an odd byte is an upper half.
  const std::vector<unsigned char> words = {0x01, 0x02, 0x03, 0x04};
  EXPECT_EQ(fletcher32(words), 0x05080406U);
  const std::vector<unsigned char> odd = {0x01, 0x02, 0x03};
  EXPECT_EQ(fletcher32(odd), 0x05040402U);
  EXPECT_EQ(fletcher32({}), 0U);
}

}  // namespace
}  // namespace reveal::tests::chunk_codec_test
