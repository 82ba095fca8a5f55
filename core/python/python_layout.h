// Where CPython keeps the fields for the sampling of a thread, by version. Of its structures only these few fields are
// used, and of each object the type is checked: a layout that does not fit finds nothing, and shows no wrong name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace reveal {

/// The form of the table of lines in a code object.
enum class LineTable : std::uint8_t {
  lnotab,  // pairs of increments; https://github.com/python/cpython/blob/3.9/Objects/lnotab_notes.txt
  ranges,  // pairs of a length and an increment; https://github.com/python/cpython/blob/3.10/Objects/lnotab_notes.txt
  locations,  // https://github.com/python/cpython/blob/3.11/Objects/locations.md
};

/// Offsets in bytes. Fields that a version does not have are kNone.
struct PythonLayout {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  int minor = 0;  // minor version of Python 3
  LineTable lines = LineTable::locations;

  // _PyRuntime
  std::uint32_t runtime_interpreter = kNone;  // the main one; where `interpreter_next` is known, the newest
  std::uint32_t runtime_main_thread = kNone;  // its pthread_t, where threads do not have their number
  std::uint32_t interpreter_next = kNone;
  std::uint32_t interpreter_threads = kNone;

  // PyThreadState
  std::uint32_t thread_next = kNone;
  std::uint32_t thread_pthread = kNone;
  std::uint32_t thread_number = kNone;  // thread id of the kernel
  std::uint32_t thread_frame = kNone;   // or, where `cframe_frame` is known, the structure that has it
  std::uint32_t cframe_frame = kNone;

  // PyFrameObject, _PyInterpreterFrame
  std::uint32_t frame_code = kNone;
  std::uint32_t frame_back = kNone;
  std::uint32_t frame_instruction = kNone;  // an index (int), with LineTable::locations a pointer
  std::uint32_t frame_owner = kNone;        // 3: a place holder between two calls of the interpreter

  // PyCodeObject
  std::uint32_t code_name = kNone;
  std::uint32_t code_file = kNone;
  std::uint32_t code_first_line = kNone;
  std::uint32_t code_lines = kNone;         // a bytes object
  std::uint32_t code_instructions = kNone;  // where they begin, in the object itself

  // PyUnicodeObject, PyBytesObject
  std::uint32_t text_state = 32;
  std::uint32_t text_ascii = kNone;    // where the letters of an ASCII text begin
  std::uint32_t text_compact = kNone;  // offset of a text that is not ASCII
};

/// Offsets for Python 3.8 to 3.12.
[[nodiscard]] std::optional<PythonLayout> layout_of_minor(int minor) noexcept;

/// How much of _PyRuntime layout_in() needs.
inline constexpr std::size_t kDebugOffsets = 512;

/// Python 3.13 has its own offsets at the begin of _PyRuntime. Nothing if they are not those of 3.13, or of a build
/// without the global interpreter lock.
[[nodiscard]] std::optional<PythonLayout> layout_in(std::span<const std::byte, kDebugOffsets> runtime) noexcept;

}  // namespace reveal
