// Reveal's own programs among the processes of a job, known by their names and their files: a program of the job may
// have the name of one of ours.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "core/kernel_text/kernel_tree.h"

namespace reveal {

/// Programs of reveal may run below the job's own processes.
enum class ProgramOf : std::uint8_t {
  job,
  reveal,     // its own work is not the job's; processes that it starts are
  collector,  // nor are these
};

class OwnPrograms {
 public:
  /// `folder`: that of our programs.
  OwnPrograms(KernelTree& fs, const std::filesystem::path& folder);

  /// `command`: the name that the kernel has of the process.
  [[nodiscard]] ProgramOf program_of(int pid, std::string_view command) const;

 private:
  using File = std::pair<std::uint64_t, std::uint64_t>;  // device and inode

  [[nodiscard]] static File file_at(const char* path) noexcept;
  /// `otherwise`: where neither its file nor a verdict about it is known.
  [[nodiscard]] bool is_ours(int pid, bool otherwise) const;
  [[nodiscard]] bool is_beside_us(std::string_view path, bool otherwise) const;

  KernelTree& fs_;
  std::vector<File> files_;
};

}  // namespace reveal
