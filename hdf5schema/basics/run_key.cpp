#include "hdf5schema/basics/run_key.h"

#include <filesystem>
#include <string_view>
#include <system_error>

#include "hdf5schema/basics/program_name.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;

__extension__ typedef unsigned __int128 Wide;  // NOLINT(modernize-use-using): the attribute needs it

// FNV-1a of 128 bits (Fowler, Noll, Vo).
constexpr Wide kOffset = Wide{0x6c62272e07bb0142} << 64 | 0x62b821756295c58d;
constexpr Wide kPrime = Wide{1} << 88 | 0x13b;

bool is_file(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

void add(Wide& hash, std::string_view text) noexcept {
  const auto add_byte = [&hash](unsigned char byte) { hash = (hash ^ byte) * kPrime; };
  for (const char letter : text) add_byte(static_cast<unsigned char>(letter));
  add_byte(0);  // "a b" is not "ab"
}

}  // namespace

std::string run_key(std::span<const std::string> command) {
  Wide hash = kOffset;
  bool script_expected = false;
  for (std::size_t i = 0; i < command.size(); ++i) {
    const std::string& word = command[i];
    std::error_code error;
    if (i == 0) {
      add(hash, fs::path(word).filename().string());
    } else if (script_expected && is_file(word)) {
      add(hash, fs::absolute(word, error).lexically_normal().string());
      script_expected = false;
      continue;
    } else {
      add(hash, word);
    }
    script_expected =
        script_expected ||
        runs_scripts(std::string_view(word).substr(word.rfind('/') + 1));  // also behind mpirun, env, numactl
  }
  std::string text(32, '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, hash >>= 4) {
    *digit = "0123456789abcdef"[static_cast<unsigned>(hash & 0xf)];
  }
  return text;
}

}  // namespace reveal
