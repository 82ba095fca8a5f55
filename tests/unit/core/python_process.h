// A Python program of a few lines, run by the python3 of this machine, that tells when it has come where it should be.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/unit/temporary_directory.h"

namespace reveal {

inline constexpr const char* kPython = "/usr/bin/python3";

class PythonProcess {
 public:
  explicit PythonProcess(const std::string& program, const std::string& python = kPython) {
    const std::filesystem::path script = folder_.path() / "job.py";
    std::ofstream(script) << program;
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error("no process");
    if (pid_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::execl(python.c_str(), python.c_str(), "-u", "-S", "-E", script.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    said_ = ends[0];
  }
  ~PythonProcess() {
    end();
    ::close(said_);
  }
  PythonProcess(const PythonProcess&) = delete;
  PythonProcess& operator=(const PythonProcess&) = delete;

  [[nodiscard]] int pid() const { return pid_; }
  /// The next line it prints, "" at its end.
  [[nodiscard]] std::string line() const {
    std::string text;
    char letter = 0;
    while (::read(said_, &letter, 1) == 1 && letter != '\n') text += letter;
    return text;
  }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  TemporaryDirectory folder_;
  pid_t pid_ = -1;
  int said_ = -1;
};

/// One interpreter of each version that this machine has: in the PATH, or where pyenv puts them.
inline std::map<int, std::string> pythons() {
  std::vector<std::filesystem::path> folders;
  std::istringstream path(std::getenv("PATH") == nullptr ? "/usr/bin" : std::getenv("PATH"));
  for (std::string folder; std::getline(path, folder, ':');) folders.emplace_back(folder);
  std::error_code ignored;
  const std::filesystem::path home(std::getenv("HOME") == nullptr ? "/root" : std::getenv("HOME"));
  for (const auto& version : std::filesystem::directory_iterator(home / ".pyenv/versions", ignored)) {
    folders.push_back(version.path() / "bin");
  }
  std::map<int, std::string> found;
  for (const std::filesystem::path& folder : folders) {
    if (folder.filename() == "shims") continue;  // scripts
    for (int minor = 8; minor <= 13; ++minor) {
      const std::filesystem::path program = folder / ("python3." + std::to_string(minor));
      if (::access(program.c_str(), X_OK) == 0) found.emplace(minor, program);
    }
  }
  return found;
}

}  // namespace reveal
