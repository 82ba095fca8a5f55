#include "hdf5schema/basics/run_key.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>

#include "hdf5schema/basics/own_program.h"
#include "hdf5schema/basics/program_name.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;

__extension__ typedef unsigned __int128 Wide;  // NOLINT(modernize-use-using): the attribute needs it

// FNV-1a of 128 bits (Fowler, Noll, Vo).
constexpr Wide kOffset = Wide{0x6c62272e07bb0142} << 64 | 0x62b821756295c58d;
constexpr Wide kPrime = Wide{1} << 88 | 0x13b;

/// Words behind an interpreter that add nothing about what it runs.
constexpr std::string_view kSessionOptions[] = {"-i", "-l", "-il", "-li", "--login", "--pty"};

std::string_view base_name_of(std::string_view word) {
  return word.substr(word.rfind('/') + 1);  // npos + 1 is 0
}

bool is_file(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

/// A text whose first line names its interpreter: the kernel starts that.
bool names_its_interpreter(const std::string& path) {
  char begin[2] = {};
  std::ifstream file(path, std::ios::binary);
  return file.read(begin, sizeof begin) && begin[0] == '#' && begin[1] == '!';
}

std::string absolute_path(const std::string& path) {
  std::error_code error;
  return fs::absolute(path, error).lexically_normal().string();
}

void add(Wide& hash, std::string_view text) noexcept {
  const auto add_byte = [&hash](unsigned char byte) { hash = (hash ^ byte) * kPrime; };
  for (const char letter : text) add_byte(static_cast<unsigned char>(letter));
  add_byte(0);  // "a b" is not "ab"
}

}  // namespace

bool runs_something_unknown(std::span<const std::string> command) {
  const auto is_session_option = [](std::string_view word) {
    return std::find(std::begin(kSessionOptions), std::end(kSessionOptions), word) != std::end(kSessionOptions);
  };
  for (std::size_t i = 0; i < command.size(); ++i) {
    const bool interpreter = is_interpreter(base_name_of(command[i]));
    if (!interpreter && (i == 0 || !is_session_option(command[i]))) return false;
  }
  return true;
}

std::string run_key(std::span<const std::string> command) {
  if (runs_something_unknown(command)) return "";
  Wide hash = kOffset;
  bool script_expected = false;
  bool program_expected = true;  // so far, only programs that run another one
  for (std::size_t i = 0; i < command.size(); ++i) {
    const std::string& word = command[i];
    const std::string_view name = base_name_of(word);
    const bool interpreter = is_interpreter(name);
    const bool program = program_expected && !interpreter && name.size() < word.size() && is_executable(word);
    const bool script = (script_expected && is_file(word)) || (program && names_its_interpreter(word));
    if (script) {
      add(hash, absolute_path(word));
    } else if (i == 0) {
      add(hash, name);
    } else {
      add(hash, word);
    }
    script_expected = !script && (script_expected || runs_scripts(name));  // also behind mpirun, env, numactl
    program_expected = program_expected && !script && !program && (i > 0 || interpreter);
  }
  std::string text(32, '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, hash >>= 4) {
    *digit = "0123456789abcdef"[static_cast<unsigned>(hash & 0xf)];
  }
  return text;
}

}  // namespace reveal
