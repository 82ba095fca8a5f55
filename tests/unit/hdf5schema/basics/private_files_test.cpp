#include "hdf5schema/basics/private_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "hdf5schema/basics/descriptor.h"
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

TEST(PrivateFiles, AreCopiedAsideWhateverIsDeliveredMeanwhile) {
  const TemporaryDirectory directory;
  const std::filesystem::path job = directory.path() / "job";
  const Descriptor folder = open_private_directory(job.string());
  for (const char* text : {"thinned", "whole"}) std::ofstream(directory.path() / text) << text;
  const auto aside = copy_aside(directory.path() / "thinned", folder.get(), job, "n01.h5");
  const auto name_of = [](int number) { return number == 1 ? "n01.h5" : "n01-" + std::to_string(number) + ".h5"; };
  EXPECT_EQ(copy_new(directory.path() / "whole", folder.get(), job, name_of), "n01.h5");
  EXPECT_EQ(std::filesystem::file_size(job / "n01.h5"), 5U);
  aside->publish(Synced::content);
  EXPECT_EQ(std::filesystem::file_size(job / "n01.h5"), 7U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(job), std::filesystem::directory_iterator()), 1);
}

}  // namespace
}  // namespace reveal::tests::private_files_test
