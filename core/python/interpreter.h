// The CPython that a process runs: its version, and the address in the process's memory from which all else follows.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/python/process_memory.h"
#include "core/python/python_layout.h"

namespace reveal {

/// Addresses in the process.
struct Interpreter {
  PythonLayout layout;
  std::uint64_t runtime = 0;  // _PyRuntime
  std::uint64_t code_type = 0, text_type = 0, bytes_type = 0;
  std::uint64_t main_thread = 0;  // its number, as the process itself sees it
};

struct FoundInterpreter {
  std::optional<Interpreter> interpreter;
  /// Why not, as the end of "not measured, because ..."; "": the process is no Python.
  std::string problem;
  bool refused = false;  // by the kernel
};

[[nodiscard]] FoundInterpreter find_interpreter(pid_t pid, const ReadMemory& read);

/// 11 of "python3.11" and "libpython3.11.so.1.0"; 0 of "python3"; nothing if a file of this name is no interpreter.
[[nodiscard]] std::optional<int> minor_in_name(std::string_view file_name) noexcept;

/// Why the kernel refused to read a process.
[[nodiscard]] std::string why_refused();

}  // namespace reveal
