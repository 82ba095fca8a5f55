// Where the files of a node lie in the directory of its job.
#include "postproc/telemetry/node_folders.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "hdf5schema/basics/error.h"
#include "postproc/telemetry/job.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::node_folders_test {
namespace {

namespace fs = std::filesystem;

TEST(NodeFolder, FollowsFromTheNameOfTheNode) {
  EXPECT_EQ(node_folder("n4711"), "nodes-6e");
  EXPECT_EQ(node_folder("n01"), "nodes-06");
  EXPECT_EQ(node_folder(""), "nodes-45");
}

TEST(NodeFolder, HasAHundredthOfTenThousandNodes) {
  std::map<std::string, int> nodes;
  for (int number = 1; number <= 10'000; ++number) ++nodes[node_folder("n" + std::to_string(100'000 + number))];
  EXPECT_EQ(nodes.size(), 128U);
  for (const auto& [folder, count] : nodes) {
    EXPECT_LT(count, 130) << folder;
    EXPECT_TRUE(is_node_folder(folder));
  }
}

TEST(NodeFolder, IsNoDirectoryOfAnotherName) {
  for (const char* name : {"", "nodes-", "nodes-3", "nodes-3F", "nodes-3g", "nodes-3f0", "Nodes-3f", ".nodes-3f"}) {
    EXPECT_FALSE(is_node_folder(name)) << name;
  }
}

TEST(NodeFolder, IsBelowTheJobsDirectoryUnlessTheJobsDirectoryIsCalledLikeOne) {
  EXPECT_EQ(job_directory_of("reveal-7/nodes-06/n01.h5"), "reveal-7");
  EXPECT_EQ(job_directory_of("reveal-7/nodes-06/n01.summary.json"), "reveal-7");
  EXPECT_EQ(job_directory_of("reveal-7/n01.h5"), "reveal-7");
  EXPECT_EQ(job_directory_of("nodes-3f/report.json"), "nodes-3f");
  EXPECT_EQ(job_directory_of("nodes-3f/n01.h5"), "nodes-3f") << "the folder of n01 is nodes-06";
  EXPECT_EQ(job_directory_of("n01.h5"), "");
}

class NodeFolders : public testing::Test {
 protected:
  void write(const fs::path& file) const {
    fs::create_directories((directory_.path() / file).parent_path());
    std::ofstream(directory_.path() / file) << "trace";
  }
  [[nodiscard]] std::vector<std::string> listed() const {
    std::vector<std::string> names;
    for (const ListedTrace& trace : list_traces(directory_.path())) {
      names.push_back(trace.path.lexically_relative(directory_.path()).string());
    }
    return names;
  }
  const TemporaryDirectory directory_;
};

TEST_F(NodeFolders, AreReadWithTheDirectoryItself) {
  for (const char* file : {"nodes-06/n01.h5", "nodes-73/n02.h5.part", "n03.h5", "nodes-73/nodes-06/n04.h5",
                           "deep/n05.h5", "nodes-73/n02.summary.json"}) {
    write(file);
  }
  EXPECT_EQ(listed(), (std::vector<std::string>{"nodes-06/n01.h5", "nodes-73/n02.h5.part", "n03.h5"}));
  EXPECT_TRUE(has_more_traces_than(directory_.path(), 2));
  EXPECT_FALSE(has_more_traces_than(directory_.path(), 3));
  ASSERT_EQ(traces_of_node(directory_.path(), "n02").size(), 1U);
  EXPECT_TRUE(traces_of_node(directory_.path(), "n02")[0].part);
  EXPECT_EQ(traces_of_node(directory_.path(), "n03").size(), 1U);
  EXPECT_TRUE(traces_of_node(directory_.path(), "n04").empty());
}

TEST_F(NodeFolders, ThatCannotBeReadAreNamedAndTheOthersAreRead) {
  for (const char* file : {"nodes-06/n01.h5", "nodes-73/n02.h5", "n03.h5"}) write(file);
  std::vector<std::string> names;
  const auto unread = visit_node_files(directory_.path(), [&](const fs::path& file) {
    names.push_back(file.filename().string());
    if (names.back() == "n01.h5") fs::remove_all(directory_.path() / "nodes-73");  // its name was read
    return true;
  });
  EXPECT_EQ(names, (std::vector<std::string>{"n03.h5", "n01.h5"}));
  ASSERT_EQ(unread.size(), 1U);
  EXPECT_EQ(unread[0].name, "nodes-73");
  EXPECT_EQ(unread[0].why, "No such file or directory");
}

TEST_F(NodeFolders, AreNoLinks) {
  write("elsewhere/n01.h5");
  write("n03.h5");
  fs::create_directory_symlink("elsewhere", directory_.path() / "nodes-06");
  EXPECT_EQ(listed(), std::vector<std::string>{"n03.h5"});
  EXPECT_TRUE(traces_of_node(directory_.path(), "n01").empty());
}

}  // namespace
}  // namespace reveal::tests::node_folders_test
