#include <gtest/gtest.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::file_system_test {
namespace {

constexpr char kMounts[] = "22 1 254:0 / / rw - ext4 /dev/vda rw\n23 22 0:5 / /tmp rw - tmpfs tmp rw\n";

TEST(FileSystem, SaysHowFullTheOneBelowTmpWasWhenItWasRecorded) {
  TestHost host;
  const std::string mounts = kMounts;
  host.write("/ticks.rec", "reveal recording 1\n+ 0 F/proc/self/mountinfo\n$ 0 " + std::to_string(mounts.size()) +
                               "\n" + mounts + "\n+ 1 @@statvfs/local\n$ 1 26\n/tmp 4096000 3000 2000 5 4\n= 1 1\n");
  ProbeBench bench(host, "file_system");
  EXPECT_EQ(bench.answered("storage/file_systems", "fs.total", "/tmp"), 4096000);
  EXPECT_EQ(bench.value("storage/file_systems", "fs.free", "/tmp"), 3000);
  EXPECT_EQ(bench.value("storage/file_system_files", "fs.files_free", "/tmp"), 4);
}

TEST(FileSystem, IsThatOfTheRecordedTmpdir) {
  const std::string mounts = std::string(kMounts) + "24 22 0:6 / /scratch rw - xfs /dev/vdb rw\n";
  const auto total = [&mounts](const std::string& recorded) {
    TestHost host;
    host.write("/ticks.rec", "reveal recording 1\n+ 0 F/proc/self/mountinfo\n$ 0 " + std::to_string(mounts.size()) +
                                 "\n" + mounts + "\n+ 1 @@statvfs/local\n$ 1 30\n/scratch 4096000 3000 2000 5 4\n" +
                                 "+ 2 @@job/roots\n$ 2 7\n50 0 0\n\n" + recorded + "= 1 1\n");
    ProbeBench bench(host, "file_system");
    bench.sample();
    return bench.value("storage/file_systems", "fs.total", "/scratch");
  };
  EXPECT_EQ(total("+ 3 @@tmpdir\n$ 3 13\n/scratch/4711\n"), 4096000);
  EXPECT_EQ(total(""), kMissing);
}

TEST(FileSystem, SaysNothingOfACopiedTreeBecauseItsDiskIsOurs) {
  TestHost host;
  host.write("/tmp/a_file", "");
  host.write("/proc/self/mountinfo", kMounts);
  const ProbeBench bench(host, "file_system");
  EXPECT_EQ(bench.coverage().state, Coverage::State::absent);
}

/// A job of one process that sleeps in "/" with this environment, on this machine.
class SleepingJob {
 public:
  explicit SleepingJob(const std::string& variable) : pid_(::fork()) {
    if (pid_ == 0) {
      std::string entry = variable;
      char* environment[] = {entry.data(), nullptr};
      if (::chdir("/") == 0) ::execle("/bin/sleep", "sleep", "60", nullptr, environment);
      ::_exit(127);
    }
    for (int i = 0; i < 2000 && fs_.word("/proc/" + std::to_string(pid_) + "/comm") != "sleep"; ++i) ::usleep(5000);
    sampler_.emplace(fs_, sink_,
                     Sampler::Options{.probes = {"file_system"}, .job = JobSource{.pid = pid_}, .own_pid = ::getpid()},
                     TickTime{1'000'000'000, 1'700'000'000'000'000'000});
    sampler_->look_first();
  }
  ~SleepingJob() {
    sampler_.reset();
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  SleepingJob(const SleepingJob&) = delete;
  SleepingJob& operator=(const SleepingJob&) = delete;

  [[nodiscard]] std::int64_t first_look(const std::string& mount) const {
    const Family* family = sink_.find("storage/file_systems");
    return family == nullptr ? kMissing : family->value("fs.total", mount);
  }
  /// kMissing where the file system is not looked at: that of "/" is, so its answer ends the wait.
  std::int64_t total(const std::string& mount) {
    for (std::int64_t row = 2; row < 2000; ++row) {
      sampler_->sample({.time = {row * 1'000'000'000, 1'700'000'000'000'000'000}, .number = row * 300});
      const Family* family = sink_.find("storage/file_systems");
      if (family != nullptr && family->value("fs.total", "/") != kMissing) return family->value("fs.total", mount);
      ::usleep(5000);
    }
    ADD_FAILURE() << "no answer";
    return kMissing;
  }

 private:
  pid_t pid_;
  KernelTree fs_;
  TraceSink sink_;
  std::optional<Sampler> sampler_;
};

/// A mount that neither "/", "/tmp" nor "/dev/shm" is on; "" where there is none.
std::string other_mount() {
  KernelTree fs;
  const std::string mountinfo = fs.text("/proc/self/mountinfo").value_or("");
  const auto is_mount = [&](const std::string& point) {
    return mountinfo.find(" " + point + " ") != std::string::npos;
  };
  if (is_mount("/dev") && is_mount("/dev/shm")) return "/dev";
  return is_mount("/run") ? "/run" : "";
}

TEST(FileSystem, IsToldWithTheFirstLook) {
  struct statvfs status {};
  ASSERT_EQ(::statvfs("/dev/shm", &status), 0);
  const SleepingJob job("NONE=1");
  const std::int64_t total = job.first_look("/dev/shm");
  if (total == kMissing) GTEST_SKIP() << "/dev/shm is no file system of its own here";
  EXPECT_EQ(total, static_cast<std::int64_t>(status.f_blocks * status.f_frsize));
}

TEST(FileSystem, IsAlsoThatOfTmpdir) {
  const std::string mount = other_mount();
  struct statvfs status {};
  if (mount.empty() || ::statvfs(mount.c_str(), &status) != 0) GTEST_SKIP() << "no file system to take for TMPDIR";
  const auto total = static_cast<std::int64_t>(status.f_blocks * status.f_frsize);
  EXPECT_EQ(SleepingJob("TMPDIR=" + mount).total(mount), total);
  EXPECT_EQ(SleepingJob("TMPDIR=" + mount + "/no-such-folder").total(mount), total) << "asked for at its mount point";
  EXPECT_EQ(SleepingJob("NO_TMPDIR=" + mount).total(mount), kMissing);
  EXPECT_EQ(SleepingJob("TMPDIR=relative").total(mount), kMissing);
}

}  // namespace
}  // namespace reveal::tests::file_system_test
