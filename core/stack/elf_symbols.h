// Where in a library's file its functions begin, and where its marks for tracing are. The file is a user's: nothing in
// it is believed, everything is bounded. https://refspecs.linuxfoundation.org/elf/gabi4+/contents.html
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reveal {

/// Fills `into` with the bytes of the file at `offset`; false if it does not have so much.
using ReadFile = std::function<bool(std::uint64_t offset, std::span<std::byte> into)>;
/// Reads a file that stays open meanwhile.
[[nodiscard]] ReadFile reader_of(int file);

struct FoundFunctions {
  /// Offsets in the file, in the order of `wanted`; 0, where the file's own header is: not found.
  std::vector<std::uint64_t> offsets;
  std::string problem;  // why the file could not be read as a library of this machine; ""
};

/// Looks the names up in .dynsym and, for those that are missing there, in .symtab. Only functions that the file
/// defines, in a segment that is executable.
[[nodiscard]] FoundFunctions find_functions(const ReadFile& read, std::span<const std::string_view> wanted);

struct FoundObjects {
  /// How far behind the address at which the file's first byte is mapped, in the order of `wanted`; 0: not found.
  std::vector<std::uint64_t> distances;
  std::string problem;
};

/// The same for data that the file defines, in any of its segments.
[[nodiscard]] FoundObjects find_objects(const ReadFile& read, std::span<const std::string_view> wanted);

/// A mark for static tracing (USDT): an instruction without effect, which the program reaches only while the mark's
/// counter is not 0. https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation
struct Mark {
  std::uint64_t offset = 0;   // in the file
  std::uint64_t counter = 0;  // offset of its counter in the file; 0: it has none
};
struct FoundMarks {
  std::vector<std::vector<Mark>> marks;  // in the order of `wanted`
  std::string problem;
};

/// Looks marks up by "provider:name", as in "python:gc__start". A mark may be in several places of the code.
[[nodiscard]] FoundMarks find_marks(const ReadFile& read, std::span<const std::string_view> wanted);

/// The part of the file in which its linker has put the counters of marks; empty: there is none.
struct CounterPart {
  static constexpr std::uint64_t kCounter = 2;  // bytes
  std::uint64_t offset = 0, size = 0;
  [[nodiscard]] bool has(std::uint64_t counter) const noexcept {
    return size >= kCounter && counter >= offset && counter - offset <= size - kCounter;
  }
};
[[nodiscard]] CounterPart find_counters(const ReadFile& read);

}  // namespace reveal
