#include "hdf5schema/number_chunk.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "hdf5schema/trace.h"

namespace reveal::tests::number_chunk_test {
namespace {

/// Stretches of zeros, of small numbers, of any numbers, and of numbers whose low bytes are zero.
std::vector<std::int64_t> numbers_of(std::size_t count) {
  std::mt19937_64 random(count);
  std::vector<std::int64_t> numbers(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t any = random();
    const std::uint64_t kinds[] = {0, any % 200, any, any << 48};
    numbers[i] = static_cast<std::int64_t>(kinds[i / 700 % 4]);
    if (any % 97 == 0) numbers[i] = kMissing;
  }
  return numbers;
}

NumberChunk chunk_of(const std::vector<std::int64_t>& numbers, bool shuffled) {
  NumberChunk chunk;
  chunk.shuffled = shuffled;
  chunk.bytes.resize(numbers.size() * 8);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    for (std::size_t byte = 0; byte < 8; ++byte)
      chunk.bytes[shuffled ? byte * numbers.size() + i : 8 * i + byte] =
          static_cast<unsigned char>(static_cast<std::uint64_t>(numbers[i]) >> 8 * byte);
  }
  return chunk;
}

TEST(NumberChunk, GivesAnyPartOfItsNumbers) {
  for (const std::size_t count : {1U, 15U, 16U, 33U, 512U, 2900U}) {
    const std::vector<std::int64_t> numbers = numbers_of(count);
    for (const bool shuffled : {false, true}) {
      const NumberChunk chunk = chunk_of(numbers, shuffled);
      for (const std::size_t first : {std::size_t{0}, count / 3, count - 1}) {
        for (const std::size_t few : {std::size_t{0}, std::size_t{1}, (count - first) / 2, count - first}) {
          if (few > count - first) continue;
          std::vector<std::int64_t> got(few + 1, -7);
          chunk.copy(first, std::as_writable_bytes(std::span(got).first(few)));
          for (std::size_t i = 0; i < few; ++i) ASSERT_EQ(got[i], numbers[first + i]) << count << " " << first + i;
          EXPECT_EQ(got[few], -7) << "written behind the end";
        }
      }
    }
  }
}

TEST(NumberChunk, ConvertsIntegersAsTheLanguageDoes) {
  std::vector<std::int64_t> numbers = numbers_of(2900);
  const std::int64_t special[] = {-1, INT64_MAX, INT64_MIN + 1, (std::int64_t{1} << 53) + 1, -(std::int64_t{1} << 60)};
  std::copy(std::begin(special), std::end(special), numbers.begin());
  for (const bool shuffled : {false, true}) {
    const NumberChunk chunk = chunk_of(numbers, shuffled);
    std::vector<double> reals(numbers.size());
    chunk.copy_as_reals(0, std::as_writable_bytes(std::span(reals)));
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const double expected = numbers[i] == kMissing ? kNan : static_cast<double>(numbers[i]);
      ASSERT_EQ(std::bit_cast<std::uint64_t>(reals[i]), std::bit_cast<std::uint64_t>(expected)) << numbers[i];
    }
  }
}

}  // namespace
}  // namespace reveal::tests::number_chunk_test
