#include "hdf5schema/basics/own_program.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/unit/temporary_directory.h"

namespace reveal::tests::own_program_test {
namespace {

namespace fs = std::filesystem;

void make_program(const fs::path& file) {
  std::ofstream(file) << "#!/bin/sh\n";
  fs::permissions(file, fs::perms::owner_all);
}

TEST(OwnProgram, IsAnAbsolutePathAndFindsItsNeighbours) {
  EXPECT_TRUE(own_path().is_absolute());
  EXPECT_EQ(beside_us(own_path().filename().string()), own_path().string());
  EXPECT_EQ(beside_us("no-such-program"), "no-such-program");
}

TEST(FindInPath, TakesTheFirstFileThatCanBeStarted) {
  const TemporaryDirectory directory;
  const fs::path top = directory.path();
  for (const char* folder : {"a", "a/tool", "b", "c", "d"}) fs::create_directory(top / folder);
  std::ofstream(top / "b/tool") << "not executable";
  make_program(top / "c/tool");
  make_program(top / "d/tool");
  const auto found = [&](const std::string& names) {
    std::string path;
    for (const char name : names) path += (path.empty() ? "" : ":") + (top / std::string(1, name)).string();
    return find_in_path("tool", path);
  };
  EXPECT_EQ(found("abcd"), (top / "c/tool").string());
  EXPECT_EQ(found("ab"), "");
  EXPECT_EQ(found(""), "");
  EXPECT_EQ(find_in_path("tool", ":" + (top / "d").string()), (top / "d/tool").string());
}

}  // namespace
}  // namespace reveal::tests::own_program_test
