// A Python program of a few lines, run by the python3 of this machine, that reports when it has reached its position.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/stack/elf_symbols.h"
#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/descriptor.h"
#include "tests/unit/temporary_directory.h"

namespace reveal {

inline constexpr const char* kPython = "/usr/bin/python3";

class PythonProcess {
 public:
  explicit PythonProcess(const std::string& program, const std::string& python = kPython) {
    const std::filesystem::path script = folder_.path() / "job.py";
    std::ofstream(script) << program;
    Pipe pipe = open_pipe();
    child_ = fork_child([&] {
      ::dup2(pipe.write.get(), STDOUT_FILENO);
      return ::execl(python.c_str(), python.c_str(), "-u", "-S", "-E", script.c_str(), nullptr);
    });
    if (!pipe.read || !child_) throw std::runtime_error("no process");
    said_ = std::move(pipe.read);
  }
  ~PythonProcess() { end(); }
  PythonProcess(const PythonProcess&) = delete;
  PythonProcess& operator=(const PythonProcess&) = delete;

  [[nodiscard]] int pid() const { return child_.pid(); }
  /// The next line it prints, "" at its end.
  [[nodiscard]] std::string line() const {
    std::string text;
    char letter = 0;
    while (::read(said_.get(), &letter, 1) == 1 && letter != '\n') text += letter;
    return text;
  }
  void end() {
    if (child_.signal(SIGKILL)) child_.wait();
    child_ = {};
  }

 private:
  TemporaryDirectory folder_;
  ChildProcess child_;
  Descriptor said_;
};

/// Whether its interpreter was built with marks for tracing.
inline bool has_marks(const PythonProcess& python) {
  constexpr std::string_view kWanted[] = {"python:gc__start"};
  const Descriptor file(::open(("/proc/" + std::to_string(python.pid()) + "/exe").c_str(), O_RDONLY | O_CLOEXEC));
  return file && !find_marks(reader_of(file.get()), kWanted).marks.at(0).empty();
}

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
