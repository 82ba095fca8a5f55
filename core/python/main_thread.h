// Where the main thread of a Python process stands, read out of its memory while it runs on. It is never stopped, so
// the data may change meanwhile: every object is checked for its type, and inconsistent results are dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/python/interpreter.h"
#include "core/python/process_memory.h"

namespace reveal {

struct PythonFrame {
  std::string function;
  std::string file;      // without its folders
  int line = 0;          // 0: not known
  bool library = false;  // Python itself, or an installed package: not the job's own code
};

struct StackSample {
  enum class State : std::uint8_t {
    known,
    no_frame,  // the thread runs no Python: before the program, or after it
    torn,      // it moved on each time it was read
    unmapped,  // the process has begun another program, or the interpreter is not the one it was taken for
    refused,
    lost,  // among more threads than are looked through
    gone
  };
  State state = State::torn;
  /// The innermost frame; before it, if that one is a library's, the innermost of the job's own code.
  std::vector<PythonFrame> frames;
};

class MainThread {
 public:
  /// Deeper ones are not looked at: PyTorch's loader waits for its workers nine frames below the loop that uses it.
  static constexpr std::size_t kMostFrames = 16;

  MainThread(ReadMemory read, const Interpreter& interpreter);
  [[nodiscard]] StackSample look();

 private:
  struct Frame {
    std::uint64_t code = 0;
    std::uint64_t instruction = 0;
  };
  struct Code {
    std::uint64_t name = 0, file = 0, lines = 0;
    int first_line = 0;
    std::int64_t instruction = 0;  // bytes behind the first one
  };
  struct Failed {
    StackSample::State state;
  };

  [[nodiscard]] StackSample look_once();
  void find_thread();
  [[nodiscard]] std::uint64_t innermost_frame();
  [[nodiscard]] std::vector<Frame> frames_from(std::uint64_t frame);
  [[nodiscard]] std::vector<Code> codes_of(std::span<const Frame> frames);
  [[nodiscard]] std::vector<PythonFrame> names_of(std::span<const Code> codes);
  void set_lines(std::span<const Code> codes, std::span<PythonFrame> frames);
  void read(std::span<const MemoryPiece> pieces);
  [[nodiscard]] std::uint64_t word_at(std::uint64_t address);

  ReadMemory read_;
  Interpreter interpreter_;
  std::uint64_t thread_ = 0;        // 0: not found yet
  std::uint64_t thread_name_ = 0;   // by which it is known: its number or its pthread_t
  std::vector<std::byte> window_;   // part of the stack
  std::uint64_t window_begin_ = 0;  // its address
};

/// "load(data.py:88)"; "train(train.py:40)>wait(threading.py:320)" if `train` waits in a library. Without blanks.
[[nodiscard]] std::string place_of(std::span<const PythonFrame> frames);

/// UTF-8 on one line, without blanks, brackets, control characters and marks of text direction.
[[nodiscard]] std::string plain_name(std::span<const std::byte> text, std::size_t width);

}  // namespace reveal
