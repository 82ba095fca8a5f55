#include "core/sampler/own_memory.h"

#include <gtest/gtest.h>

#include <fstream>

namespace reveal::tests::own_memory_test {
namespace {

long resident_file_pages() {
  long size = 0;
  long resident = 0;
  long of_files = 0;
  std::ifstream("/proc/self/statm") >> size >> resident >> of_files;
  return of_files;
}

TEST(OwnMemory, OfTheProgramItselfIsGivenBackAndComesBack) {
  const long before = resident_file_pages();
  if (before == 0) GTEST_SKIP() << "no /proc/self/statm";
  give_back_memory();
  const long after = resident_file_pages();
  EXPECT_LT(after, before);
  EXPECT_GT(after, 0);  // the pages of the running code came back
}

}  // namespace
}  // namespace reveal::tests::own_memory_test
