#include "core/python/python_layout.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace reveal {
namespace {

// As declared in CPython's Include/ and Include/internal/, on x86-64. Tried with 3.8.18, 3.9.18, 3.10.13, 3.11.2 and
// 3.11.7, 3.12.1; below, with 3.13.0.
// clang-format off
constexpr PythonLayout kLayouts[] = {
    {.minor = 8, .lines = LineTable::lnotab,
     .runtime_interpreter = 40, .runtime_main_thread = 72, .interpreter_threads = 8,
     .thread_next = 8, .thread_pthread = 176, .thread_frame = 24,
     .frame_code = 32, .frame_back = 24, .frame_instruction = 104,
     .code_name = 112, .code_file = 104, .code_first_line = 40, .code_lines = 120,
     .text_ascii = 48, .text_compact = 72},
    {.minor = 9, .lines = LineTable::lnotab,
     .runtime_interpreter = 40, .runtime_main_thread = 72, .interpreter_threads = 8,
     .thread_next = 8, .thread_pthread = 176, .thread_frame = 24,
     .frame_code = 32, .frame_back = 24, .frame_instruction = 104,
     .code_name = 112, .code_file = 104, .code_first_line = 40, .code_lines = 120,
     .text_ascii = 48, .text_compact = 72},
    {.minor = 10, .lines = LineTable::ranges,
     .runtime_interpreter = 40, .runtime_main_thread = 72, .interpreter_threads = 8,
     .thread_next = 8, .thread_pthread = 176, .thread_frame = 24,
     .frame_code = 32, .frame_back = 24, .frame_instruction = 96,
     .code_name = 112, .code_file = 104, .code_first_line = 40, .code_lines = 120,
     .text_ascii = 48, .text_compact = 72},
    {.minor = 11, .lines = LineTable::locations,
     .runtime_interpreter = 48, .interpreter_threads = 16,
     .thread_next = 8, .thread_number = 160, .thread_frame = 56, .cframe_frame = 8,
     .frame_code = 32, .frame_back = 48, .frame_instruction = 56, .frame_owner = 69,
     .code_name = 120, .code_file = 112, .code_first_line = 72, .code_lines = 136, .code_instructions = 184,
     .text_ascii = 48, .text_compact = 72},
    {.minor = 12, .lines = LineTable::locations,
     .runtime_interpreter = 48, .interpreter_threads = 72,
     .thread_next = 8, .thread_number = 144, .thread_frame = 56, .cframe_frame = 0,
     .frame_code = 0, .frame_back = 8, .frame_instruction = 56, .frame_owner = 70,
     .code_name = 120, .code_file = 112, .code_first_line = 68, .code_lines = 136, .code_instructions = 192,
     .text_ascii = 40, .text_compact = 56},
};
// clang-format on

/// The words of _Py_DebugOffsets of 3.13 that are used, by their place in it.
/// https://github.com/python/cpython/blob/3.13/Include/internal/pycore_runtime.h
struct DebugWord {
  enum Place : std::size_t {
    version = 1,
    free_threaded = 2,
    runtime_interpreters = 5,
    interpreter_next = 8,
    interpreter_threads = 9,
    thread_next = 21,
    thread_frame = 23,
    thread_number = 25,
    frame_back = 29,
    frame_code = 30,
    frame_instruction = 31,
    frame_owner = 33,
    code_file = 35,
    code_name = 36,
    code_lines = 38,
    code_first_line = 39,
    code_instructions = 43,
  };
};

/// Largest offsets that are believed. They bound how much is read.
constexpr std::uint64_t kInRuntime = std::uint64_t{1} << 20;
constexpr std::uint64_t kInThread = 4096;
constexpr std::uint64_t kInObject = 512;

}  // namespace

std::optional<PythonLayout> layout_of_minor(int minor) noexcept {
  const auto* const found =
      std::find_if(std::begin(kLayouts), std::end(kLayouts), [minor](const auto& row) { return row.minor == minor; });
  return found == std::end(kLayouts) ? std::nullopt : std::optional(*found);
}

std::optional<PythonLayout> layout_in(std::span<const std::byte, kDebugOffsets> runtime) noexcept {
  constexpr std::string_view kCookie = "xdebugpy";
  constexpr int kVersionOfRelease = 16;  // bits of PY_VERSION_HEX below the minor version
  std::array<std::uint64_t, kDebugOffsets / sizeof(std::uint64_t)> words{};
  std::memcpy(words.data(), runtime.data(), runtime.size());
  if (std::memcmp(runtime.data(), kCookie.data(), kCookie.size()) != 0) return std::nullopt;
  if (words[DebugWord::version] >> kVersionOfRelease != 0x030d || words[DebugWord::free_threaded] != 0) {
    return std::nullopt;
  }
  bool fits = true;
  const auto offset = [&](DebugWord::Place place, std::uint64_t most) {
    fits = fits && words[place] < most;
    return static_cast<std::uint32_t>(words[place]);
  };
  PythonLayout layout;
  layout.minor = 13;
  layout.runtime_interpreter = offset(DebugWord::runtime_interpreters, kInRuntime);
  layout.interpreter_next = offset(DebugWord::interpreter_next, kInRuntime);
  layout.interpreter_threads = offset(DebugWord::interpreter_threads, kInRuntime);
  layout.thread_next = offset(DebugWord::thread_next, kInThread);
  layout.thread_number = offset(DebugWord::thread_number, kInThread);
  layout.thread_frame = offset(DebugWord::thread_frame, kInThread);
  layout.frame_code = offset(DebugWord::frame_code, kInObject);
  layout.frame_back = offset(DebugWord::frame_back, kInObject);
  layout.frame_instruction = offset(DebugWord::frame_instruction, kInObject);
  layout.frame_owner = offset(DebugWord::frame_owner, kInObject);
  layout.code_name = offset(DebugWord::code_name, kInObject);
  layout.code_file = offset(DebugWord::code_file, kInObject);
  layout.code_first_line = offset(DebugWord::code_first_line, kInObject);
  layout.code_lines = offset(DebugWord::code_lines, kInObject);
  layout.code_instructions = offset(DebugWord::code_instructions, kInObject);
  layout.text_ascii = 40;
  layout.text_compact = 56;
  return fits ? std::optional(layout) : std::nullopt;
}

}  // namespace reveal
