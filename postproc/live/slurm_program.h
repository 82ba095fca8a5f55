// A program of Slurm (srun, squeue) that runs in a process group of its own, so that Ctrl-C reaches only this process.
// Its input stays open until it is closed here or this process ends, however that happens: srun passes that on to all
// tasks of a step.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/descriptor.h"

namespace reveal {

class SlurmProgram {
 public:
  /// `words`: name and options. `variables`: "NAME=value", beside those of this process without options of Slurm.
  /// Throws Error if it cannot be started.
  explicit SlurmProgram(std::vector<std::string> words, const std::vector<std::string>& variables = {});
  ~SlurmProgram();  // ends it
  SlurmProgram(const SlurmProgram&) = delete;
  SlurmProgram& operator=(const SlurmProgram&) = delete;

  /// The next part of its output; "" if none comes for so long.
  [[nodiscard]] std::string read(std::chrono::milliseconds wait);
  /// Its errors since the last call, at most 16 KiB.
  [[nodiscard]] std::string take_errors();
  /// Its exit status, once it has ended and all its output was read.
  [[nodiscard]] std::optional<int> ended();
  void close_input() { input_.close(); }
  /// Requests its end and kills it 10 s later.
  void end();

 private:
  bool take(Descriptor& from, std::string& to, std::size_t most);

  ChildProcess child_;
  Descriptor input_, output_, errors_;
  std::string text_, complaints_;
};

/// The output of such a program that ends by itself. Throws Error with its own words if it fails or does not end.
[[nodiscard]] std::string output_of_slurm(std::vector<std::string> words, std::chrono::milliseconds limit);

}  // namespace reveal
