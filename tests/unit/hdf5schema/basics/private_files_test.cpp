#include "hdf5schema/basics/private_files.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "hdf5schema/basics/error.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::private_files_test {
namespace {

TEST(PrivateFiles, HaveNamesWithoutASlashAtTheirEnd) {
  EXPECT_EQ(without_slash("/var/spool/"), "/var/spool");
  EXPECT_EQ(without_slash("folder//"), "folder");
  EXPECT_EQ(without_slash("/"), "/");
  EXPECT_EQ(without_slash("//"), "/");
  EXPECT_EQ(without_slash(""), "");
}

TEST(PrivateFiles, AreInNoDirectoryThatIsALink) {
  const TemporaryDirectory directory;
  const std::filesystem::path link = directory.path() / "link";
  const std::filesystem::path folder = directory.path() / "folder";
  std::filesystem::create_directory(folder);
  std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
  std::filesystem::create_directory_symlink("folder", link);
  EXPECT_TRUE(open_private_directory(without_slash(folder.string() + "/")));
  EXPECT_THROW(static_cast<void>(open_private_directory(without_slash(link.string() + "/"))), Error);
}

}  // namespace
}  // namespace reveal::tests::private_files_test
