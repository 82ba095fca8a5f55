// The wait for the files of other nodes.
#include "postproc/deliver/missing_nodes.h"

#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "tests/unit/temporary_directory.h"

namespace reveal::tests::missing_nodes_test {
namespace {

using std::chrono::milliseconds;

/// Looks in so many milliseconds.
int looks_in(milliseconds limit) {
  int looks = 0;
  for (milliseconds waited{0}; waited < limit; waited += next_look(waited)) ++looks;
  return looks;
}

TEST(NextLook, ComesSoonAndEverMoreSeldom) {
  EXPECT_EQ(next_look(milliseconds(0)), milliseconds(100));
  EXPECT_EQ(next_look(milliseconds(400)), milliseconds(100));
  EXPECT_EQ(next_look(milliseconds(8000)), milliseconds(2000));
}

TEST(NextLook, IsOneOfFewHoweverLongTheWaitIs) {
  EXPECT_LE(looks_in(milliseconds(5'000)), 16);
  EXPECT_LE(looks_in(milliseconds(60'000)), 27);
  EXPECT_LE(looks_in(milliseconds(3'600'000)), 50);
}

TEST(NextLook, IsNotWaitedForWhenTheTimeIsUp) {
  EXPECT_FALSE(Looks(Looks::Clock::now()).wait());
}

TEST(MissingNodes, AreLookedForOneAtATime) {
  const TemporaryDirectory directory;
  const auto come = [&](const char* node) {
    std::ofstream(directory.path() / (std::string(node) + ".summary.json")) << "{}";
  };
  MissingNodes missing(directory.path(), NodeFiles::flat, {"n1", "n2", "n3"}, {"n2", "other"});
  EXPECT_FALSE(missing.have_come());
  come("n1");
  EXPECT_FALSE(missing.have_come());
  come("n3");
  EXPECT_TRUE(missing.have_come());
  std::filesystem::remove(directory.path() / "n3.summary.json");
  EXPECT_TRUE(missing.have_come()) << "a node that was there is not looked for again";
  EXPECT_TRUE(MissingNodes(directory.path(), NodeFiles::flat, {"n2"}, {"n2"}).have_come());
}

TEST(MissingNodes, AreAskedForByOpeningTheDirectoryEachTime) {
  const TemporaryDirectory directory;
  const Descriptor events(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  ASSERT_GE(::inotify_add_watch(events.get(), directory.path().c_str(), IN_OPEN), 0);
  MissingNodes missing(directory.path(), NodeFiles::flat, {"n1"}, {});
  for (int look = 1; look <= 2; ++look) {
    EXPECT_FALSE(missing.have_come());
    std::array<char, 4096> event{};
    EXPECT_GT(::read(events.get(), event.data(), event.size()), 0) << "NFS answers from what it knew, look " << look;
  }
}

TEST(MissingNodes, OfALargeJobComeToTheirFolders) {
  const TemporaryDirectory directory;
  std::filesystem::create_directory(directory.path() / "nodes-4e");
  MissingNodes missing(directory.path(), NodeFiles::in_folders, {"n0001"}, {});
  std::ofstream(directory.path() / "n0001.summary.json") << "{}";
  EXPECT_FALSE(missing.have_come());
  std::ofstream(directory.path() / "nodes-4e/n0001.summary.json") << "{}";
  EXPECT_TRUE(missing.have_come());
}

}  // namespace
}  // namespace reveal::tests::missing_nodes_test
