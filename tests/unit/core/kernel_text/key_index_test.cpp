#include "core/kernel_text/key_index.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace reveal::tests::key_index_test {
namespace {

TEST(KeyedValues, AreMadeOncePerKeyInWhicheverOrderKeysCome) {
  KeyedValues<int> values;
  int made = 0;
  const auto read = [&](std::string_view key) { return values.at(key, [&] { return ++made; }); };
  EXPECT_EQ(read("pgfault"), 1);
  EXPECT_EQ(read("pgmajfault"), 2);
  values.rewind();
  EXPECT_EQ(read("pgfault"), 1);
  EXPECT_EQ(read("oom_kill"), 3) << "a line that came between two others";
  EXPECT_EQ(read("pgmajfault"), 2);
  values.rewind();
  EXPECT_EQ(read("pgmajfault"), 2) << "the first line is gone";
  EXPECT_EQ(read("pgfault"), 1);
  EXPECT_EQ(read("pgf"), 4) << "a prefix of another key";
  EXPECT_EQ(made, 4);
}

TEST(KeyedValues, CanBeChanged) {
  KeyedValues<std::string> values;
  const auto make = [] { return std::string("new"); };
  values.at("a", make) = "known";
  values.rewind();
  EXPECT_EQ(values.at("a", make), "known");
}

}  // namespace
}  // namespace reveal::tests::key_index_test
