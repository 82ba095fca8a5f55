#include "hdf5schema/vocabulary.h"

#include <gtest/gtest.h>

namespace reveal::tests::vocabulary_test {
namespace {

TEST(Vocabulary, NamesEveryWordAndFindsItAgain) {
  for (int i = 0; i < 4; ++i) EXPECT_EQ(kind_of(name_of(static_cast<Kind>(i))), static_cast<Kind>(i));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(unit_of(name_of(static_cast<Unit>(i))), static_cast<Unit>(i));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(scope_of(name_of(static_cast<Scope>(i))), static_cast<Scope>(i));
  for (int i = 0; i < 7; ++i) EXPECT_EQ(subsystem_of(name_of(static_cast<Subsystem>(i))), static_cast<Subsystem>(i));
}

TEST(Vocabulary, KeepsTheNamesThatFilesContain) {
  EXPECT_EQ(name_of(Kind::counter), "counter");
  EXPECT_EQ(name_of(Unit::nanoseconds), "ns");
  EXPECT_EQ(name_of(Unit::celsius), "Cel");
  EXPECT_EQ(name_of(Scope::reveal), "reveal");
  EXPECT_EQ(name_of(Subsystem::self), "self");
}

TEST(Vocabulary, DoesNotGuessUnknownWords) {
  EXPECT_EQ(kind_of(""), std::nullopt);
  EXPECT_EQ(unit_of("byte"), std::nullopt);
  EXPECT_EQ(scope_of("Node"), std::nullopt);
  EXPECT_EQ(subsystem_of("memory "), std::nullopt);
}

}  // namespace
}  // namespace reveal::tests::vocabulary_test
