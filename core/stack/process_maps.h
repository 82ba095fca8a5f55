// The files that a process has mapped as code: /proc/PID/maps, and the files themselves as that process sees them.
// https://man7.org/linux/man-pages/man5/proc_pid_maps.5.html
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hdf5schema/basics/descriptor.h"

namespace reveal {

struct Mapping {
  std::uint64_t begin = 0, end = 0;  // addresses
  std::uint64_t offset = 0;          // in the file
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  bool executable = false;
  std::string_view path;  // into the line
};
/// A process may have any number of mappings: no more of the text is read, and no more of them are looked into.
inline constexpr std::size_t kMostMapsText = 64 << 20;
inline constexpr std::size_t kMostStackMappings = 512;
/// Nothing if the line is none of such a text.
[[nodiscard]] std::optional<Mapping> parse_mapping(std::string_view line) noexcept;

/// Executable mappings of files that may have functions of the table, in a text like /proc/PID/maps: the first
/// kMostStackMappings.
[[nodiscard]] std::vector<Mapping> stack_mappings(std::string_view maps);

/// The parts of a text like /proc/PID/maps that matter here.
struct StackMaps {
  std::string lines;             // for stack_mappings()
  bool has_more = false;         // there are more of these than are kept
  bool has_code_reader = false;  // see has_reader_of_code()
  bool is_cut_off = false;       // the rest, which was not read, may have one, too
};
/// Reads the text in pieces: of thousands of libraries, only those that may have functions of the table are kept.
[[nodiscard]] StackMaps read_stack_maps(const std::string& path, std::size_t most = kMostMapsText);

/// Whether this place of its file is in it.
[[nodiscard]] bool has_place(const Mapping& mapping, std::uint64_t offset) noexcept;

/// "libnccl.so.2" of "/usr/lib/libnccl.so.2 (deleted)"
[[nodiscard]] std::string_view file_name_of(const Mapping& mapping) noexcept;

/// The file as it is mapped, whatever lies at its path by now. Without the privilege for that, the file at the path, if
/// it is the same one. None: errno has the reason.
[[nodiscard]] Descriptor open_mapped(pid_t pid, const Mapping& mapping);
[[nodiscard]] std::string why_not_opened(int error);

/// Whether the process has each of these places of the file mapped as code.
[[nodiscard]] std::vector<bool> are_mapped_as_code(pid_t pid, int file, std::span<const std::uint64_t> offsets);

/// Whether a program that reads the code of the process is in it, by a text like /proc/PID/maps. Valgrind, DynamoRIO
/// and Pin execute a translation of it, so that a breakpoint ends the process; the checkpoints of DMTCP would keep
/// them.
[[nodiscard]] bool has_reader_of_code(std::string_view maps) noexcept;

/// Whether the process still has this code of a file at the address. Some programs replace the begin of a function in
/// their memory by a jump, as UCX does with functions of CUDA's driver. Behind a breakpoint there, the kernel executes
/// the instruction of the file and goes on in the middle of the jump: the process would crash. Breakpoints themselves
/// do not count if the kernel shows the memory. False where it cannot be found out.
/// https://github.com/openucx/ucx/pull/6038
[[nodiscard]] bool has_code_of_file(pid_t pid, std::uint64_t address, std::span<const std::byte> code);

/// Whether the kernel shows us the memory of the process. Where Yama refuses that, has_code_of_file() is false for all
/// of a page in which something was written since it was read from the file, which a breakpoint is.
[[nodiscard]] bool shows_memory(pid_t pid, std::uint64_t address);

}  // namespace reveal
