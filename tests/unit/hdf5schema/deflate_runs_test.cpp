#include "hdf5schema/deflate_runs.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <random>
#include <vector>

namespace reveal::tests::deflate_runs_test {
namespace {

std::vector<unsigned char> deflated(const std::vector<unsigned char>& bytes) {
  std::vector<unsigned char> stream(deflate_runs_bound(bytes.size()));
  stream.resize(deflate_runs(bytes, stream.data()));
  return stream;
}

std::vector<unsigned char> inflated(const std::vector<unsigned char>& stream, std::size_t size) {
  std::vector<unsigned char> bytes(size + 1);
  uLongf length = bytes.size();
  EXPECT_EQ(::uncompress(bytes.data(), &length, stream.data(), stream.size()), Z_OK);
  bytes.resize(length);
  return bytes;
}

TEST(DeflateRuns, IsUndoneByZlib) {
  std::mt19937 random(1);
  for (const unsigned most : {0U, 1U, 200U}) {  // the longest stretch of random bytes between two runs
    for (std::size_t size = 0; size < 1200; ++size) {
      std::vector<unsigned char> bytes;
      while (bytes.size() < size) {
        bytes.insert(bytes.end(), random() % 600, static_cast<unsigned char>(random()));
        for (unsigned i = most == 0 ? 0 : random() % (most + 1); i > 0; --i)
          bytes.push_back(static_cast<unsigned char>(random()));
      }
      bytes.resize(size);
      ASSERT_EQ(inflated(deflated(bytes), size), bytes) << most << " " << size;
    }
  }
}

TEST(DeflateRuns, KnowsARunOfEveryLength) {
  for (std::size_t length = 1; length < 1100; ++length) {
    std::vector<unsigned char> bytes(length, 0xaa);
    bytes.push_back(0);
    ASSERT_EQ(inflated(deflated(bytes), bytes.size()), bytes) << length;
  }
}

TEST(DeflateRuns, HasRoomForTheWorst) {
  std::vector<unsigned char> bytes(100'000);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<unsigned char>(144 + i % 100);  // nine bits each
  EXPECT_EQ(inflated(deflated(bytes), bytes.size()), bytes);
}

TEST(DeflateRuns, MakesLittleOfNothing) {
  EXPECT_LT(deflated(std::vector<unsigned char>(800'000)).size(), 800'000U / 150);
}

}  // namespace
}  // namespace reveal::tests::deflate_runs_test
