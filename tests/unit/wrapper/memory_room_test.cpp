#include "wrapper/memory_room.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/temporary_directory.h"

namespace reveal::tests::memory_room_test {
namespace {

class MemoryRoom : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) const {
    const auto path = root_ / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

 private:
  TemporaryDirectory directory_of_test_;

 protected:
  const std::filesystem::path root_ = directory_of_test_.path();
};

TEST_F(MemoryRoom, TheTightestLimitOfVersion2Counts) {
  write("proc/self/cgroup", "0::/slurm/job_7/step_0\n");
  write("sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n");
  write("sys/fs/cgroup/slurm/job_7/step_0/memory.current", "90000\n");
  write("sys/fs/cgroup/slurm/job_7/memory.max", "100000\n");
  write("sys/fs/cgroup/slurm/job_7/memory.current", "90000\n");
  write("sys/fs/cgroup/slurm/memory.max", "1000000\n");
  write("sys/fs/cgroup/slurm/memory.current", "95000\n");
  EXPECT_EQ(memory_room(root_), 10000U);
}

TEST_F(MemoryRoom, PageCacheIsFree) {
  write("proc/self/cgroup", "0::/job\n");
  write("sys/fs/cgroup/job/memory.max", "100000\n");
  write("sys/fs/cgroup/job/memory.current", "90000\n");
  write("sys/fs/cgroup/job/memory.stat", "anon 30000\ninactive_file 40000\nactive_file 5000\nshmem 7\n");
  EXPECT_EQ(memory_room(root_), 55000U);
}

TEST_F(MemoryRoom, ReadsVersion1) {
  write("proc/self/cgroup", "5:devices:/\n4:memory:/job\n0::/\n");
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "100000\n");
  write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "120000\n");  // a limit that was lowered
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n");
  EXPECT_EQ(memory_room(root_), 0U);
}

TEST_F(MemoryRoom, WithoutALimitNothingIsKnown) {
  EXPECT_EQ(memory_room(root_), std::nullopt);
  write("proc/self/cgroup", "0::/job\nnonsense\n:\n");
  write("sys/fs/cgroup/job/memory.max", "max\n");
  write("sys/fs/cgroup/job/memory.current", "9\n");
  EXPECT_EQ(memory_room(root_), std::nullopt);
}

}  // namespace
}  // namespace reveal::tests::memory_room_test
