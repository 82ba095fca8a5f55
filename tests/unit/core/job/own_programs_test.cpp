// Programs of reveal below a job are told from programs of the job that have their names.
#include "core/job/own_programs.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "hdf5schema/basics/descriptor.h"
#include "test_host.h"

namespace reveal::tests::own_programs_test {
namespace {

/// A program that sleeps, in a file of this name.
class SleepingProgram {
 public:
  SleepingProgram(const std::filesystem::path& folder, const std::string& name) {
    std::filesystem::create_directories(folder);
    std::filesystem::copy_file("/bin/sleep", folder / name);
    Pipe executed = open_pipe();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::execl((folder / name).c_str(), name.c_str(), "600", nullptr);
      ::_exit(1);
    }
    executed.write.close();
    char none = 0;
    EXPECT_EQ(::read(executed.read.get(), &none, 1), 0) << "the end: its copy was closed by the exec";
  }
  ~SleepingProgram() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  SleepingProgram(const SleepingProgram&) = delete;
  SleepingProgram& operator=(const SleepingProgram&) = delete;

  [[nodiscard]] int pid() const { return pid_; }

 private:
  int pid_ = -1;
};

TEST(OwnPrograms, AreKnownByTheirFilesAndNotByTheirNames) {
  const TestHost host;  // a folder for files
  const std::filesystem::path installed = host.root() / "bin";
  const SleepingProgram ours(installed, "reveal-collect");
  const SleepingProgram run(installed, "reveal-run");
  const SleepingProgram disguised(host.root() / "home/ada/bin", "reveal-collect");
  KernelTree fs;
  const OwnPrograms programs(fs, installed);
  EXPECT_EQ(programs.program_of(ours.pid(), "reveal-collect"), ProgramOf::collector);
  EXPECT_EQ(programs.program_of(run.pid(), "reveal-run"), ProgramOf::reveal);
  EXPECT_EQ(programs.program_of(run.pid(), "reveal-witness"), ProgramOf::reveal) << "a process of reveal-run";
  EXPECT_EQ(programs.program_of(disguised.pid(), "reveal-collect"), ProgramOf::job);
  EXPECT_EQ(programs.program_of(ours.pid(), "reveal-drill"), ProgramOf::job) << "the job of a drill";
  EXPECT_EQ(programs.program_of(1 << 22, "reveal-run"), ProgramOf::job) << "it has ended: its file is not known";
}

TEST(OwnPrograms, StayKnownWhereTheirFileWasReplacedMeanwhile) {
  const TestHost host;
  const std::filesystem::path installed = host.root() / "bin";
  const SleepingProgram ours(installed, "reveal-run");
  KernelTree fs;
  const OwnPrograms programs(fs, installed);
  std::filesystem::rename(installed / "reveal-run", installed / "reveal-run.old");
  std::filesystem::copy_file("/bin/true", installed / "reveal-run");
  EXPECT_EQ(programs.program_of(ours.pid(), "reveal-run"), ProgramOf::reveal);
}

}  // namespace
}  // namespace reveal::tests::own_programs_test
