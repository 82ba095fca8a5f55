#include "core/python/interpreter.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <span>
#include <vector>

#include "core/job/process_stat.h"
#include "core/kernel_text/kernel_words.h"
#include "core/stack/elf_symbols.h"
#include "core/stack/process_maps.h"
#include "hdf5schema/basics/file_text.h"

namespace reveal {
namespace {

constexpr int kMostMapLines = 65'536;  // a process has no more mappings by default
constexpr std::size_t kMostCandidates = 4;

struct Candidate {
  std::string line;  // line of /proc/PID/maps
  bool library = false;
};

/// The first mappings of files that may be the interpreter, a shared library before the program that it is linked to.
/// None: errno has the reason if they cannot be read, or 0.
std::vector<Candidate> candidates_of(pid_t pid) {
  std::vector<Candidate> found;
  errno = 0;
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  if (!maps.is_open()) return found;
  errno = 0;
  std::string line;
  for (int i = 0; i < kMostMapLines && found.size() < kMostCandidates && std::getline(maps, line); ++i) {
    const std::optional<Mapping> mapping = parse_mapping(line);
    if (!mapping || mapping->offset != 0 || !mapping->path.starts_with('/')) continue;
    const std::string_view name = file_name_of(*mapping);
    if (!minor_in_name(name)) continue;
    const bool library = name.starts_with("lib");
    found.insert(library ? found.begin() : found.end(), Candidate{.line = line, .library = library});
  }
  return found;
}

std::uint64_t own_number(pid_t pid) {
  std::int64_t number = pid;
  const std::string status = file_text("/proc/" + std::to_string(pid) + "/status");
  std::string_view numbers = field_of(status, "NSpid");  // in each pid namespace, its own one last
  for (std::string_view word = cut_word(numbers); !word.empty(); word = cut_word(numbers)) {
    if (!parse_counter(word, number)) return static_cast<std::uint64_t>(pid);
  }
  return static_cast<std::uint64_t>(number);
}

struct PythonSymbol {
  enum Place : std::size_t { runtime, code_type, text_type, bytes_type, version, all };
};
constexpr std::array<std::string_view, PythonSymbol::all> kPythonSymbols = {
    "_PyRuntime", "PyCode_Type", "PyUnicode_Type", "PyBytes_Type", "Py_Version"};

FoundInterpreter unread(MemoryRead result) {
  if (result == MemoryRead::refused) return {std::nullopt, why_refused(), true};
  return {std::nullopt, result == MemoryRead::gone ? "it has ended" : "its memory could not be read"};
}

FoundInterpreter interpreter_in(pid_t pid, const Candidate& candidate, const ReadMemory& read) {
  const Mapping mapping = parse_mapping(candidate.line).value_or(Mapping{});
  const std::string name(file_name_of(mapping));
  const Descriptor file = open_mapped(pid, mapping);
  if (!file) return {std::nullopt, name + " cannot be read: " + why_not_opened(errno)};
  const FoundObjects objects = find_objects(reader_of(file.get()), kPythonSymbols);
  if (!objects.problem.empty()) return {std::nullopt, name + " cannot be read: " + objects.problem};
  const auto address = [&](PythonSymbol::Place symbol) {
    return objects.distances[symbol] == 0 ? 0 : mapping.begin + objects.distances[symbol];
  };
  if (address(PythonSymbol::runtime) == 0) return {};  // linked to the library that has it, or a script's name
  if (address(PythonSymbol::code_type) == 0 || address(PythonSymbol::text_type) == 0 ||
      address(PythonSymbol::bytes_type) == 0) {
    return {std::nullopt, "the symbols of " + name + " are stripped"};
  }
  int minor = minor_in_name(name).value_or(0);
  if (address(PythonSymbol::version) != 0) {  // since 3.11
    std::uint64_t number = 0;
    const MemoryPiece piece{address(PythonSymbol::version), std::as_writable_bytes(std::span(&number, 1))};
    if (const MemoryRead result = read(std::span(&piece, 1)); result != MemoryRead::whole) {
      return unread(result);
    }
    minor = static_cast<int>((number >> 16U) & 0xffU);
  }
  constexpr int kTellsItself = 13;
  Interpreter found{.layout = {},
                    .runtime = address(PythonSymbol::runtime),
                    .code_type = address(PythonSymbol::code_type),
                    .text_type = address(PythonSymbol::text_type),
                    .bytes_type = address(PythonSymbol::bytes_type),
                    .main_thread = own_number(pid)};
  std::optional<PythonLayout> layout = layout_of_minor(minor);
  if (minor == kTellsItself) {
    std::array<std::byte, kDebugOffsets> begin{};
    const MemoryPiece piece{found.runtime, begin};
    if (const MemoryRead result = read(std::span(&piece, 1)); result != MemoryRead::whole) {
      return unread(result);
    }
    layout = layout_in(begin);
    if (!layout) return {std::nullopt, "it is a build of Python 3.13 without the global interpreter lock"};
  }
  if (!layout) {
    return {std::nullopt, minor == 0 ? "the version of " + name + " is not known"
                                     : "Python 3." + std::to_string(minor) + " is not among 3.8 to 3.13"};
  }
  found.layout = *layout;
  return {found, ""};
}

}  // namespace

std::optional<int> minor_in_name(std::string_view file_name) noexcept {
  constexpr std::string_view kLibrary = "libpython3.";
  constexpr std::string_view kProgram = "python";
  constexpr std::string_view kVersioned = "python3.";
  if (file_name == kProgram || file_name == "python3") return 0;
  const bool library = file_name.starts_with(kLibrary);
  if (!library && !file_name.starts_with(kVersioned)) return std::nullopt;
  file_name.remove_prefix(library ? kLibrary.size() : kVersioned.size());
  int minor = 0;
  std::size_t digits = 0;
  for (; digits < file_name.size() && file_name[digits] >= '0' && file_name[digits] <= '9'; ++digits) {
    if (digits == 2) return std::nullopt;
    minor = minor * 10 + (file_name[digits] - '0');
  }
  if (digits == 0 || (library && file_name.find(".so", digits) == std::string_view::npos)) return std::nullopt;
  return minor;
}

FoundInterpreter find_interpreter(pid_t pid, const ReadMemory& read) {
  FoundInterpreter first;
  const std::vector<Candidate> candidates = candidates_of(pid);
  if (candidates.empty() && (errno == EACCES || errno == EPERM)) return unread(MemoryRead::refused);
  for (const Candidate& candidate : candidates) {
    FoundInterpreter found = interpreter_in(pid, candidate, read);
    if (found.interpreter) return found;
    if (first.problem.empty()) first = std::move(found);
  }
  return first;
}

std::string why_refused() {
  const std::string scope = file_text("/proc/sys/kernel/yama/ptrace_scope");
  std::string why = "the kernel does not let reveal read its memory";
  if (!scope.empty() && scope.front() != '0') {
    why += " (kernel.yama.ptrace_scope is " + scope.substr(0, scope.find('\n')) + ')';
  }
  return why;
}

}  // namespace reveal
