// A Python program of a few lines, run by the python3 of this machine, that tells when it has come where it should be.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "tests/unit/temporary_directory.h"

namespace reveal {

inline constexpr const char* kPython = "/usr/bin/python3";

class PythonProcess {
 public:
  explicit PythonProcess(const std::string& program, const std::string& name = "job.py") {
    const std::filesystem::path script = folder_.path() / name;
    std::ofstream(script) << program;
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error("no process");
    if (pid_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::execl(kPython, kPython, "-u", "-S", "-E", script.c_str(), nullptr);
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

}  // namespace reveal
