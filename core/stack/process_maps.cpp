#include "core/stack/process_maps.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>

#include "core/kernel_text/kernel_words.h"
#include "core/stack/stack_functions.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::size_t kMostMappings = 64;  // of interest, in one process

bool parse_hexadecimal(std::string_view word, std::uint64_t& number) noexcept {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number, 16);
  return error == std::errc() && end == word.data() + word.size() && !word.empty();
}

/// "7f00-7f01", "08:01"
bool parse_pair(std::string_view word, char between, std::uint64_t& first, std::uint64_t& second) noexcept {
  const std::size_t middle = word.find(between);
  return middle != std::string_view::npos && parse_hexadecimal(word.substr(0, middle), first) &&
         parse_hexadecimal(word.substr(middle + 1), second);
}

}  // namespace

std::optional<Mapping> parse_mapping(std::string_view line) noexcept {
  Mapping mapping;
  std::uint64_t major = 0;
  std::uint64_t minor = 0;
  std::int64_t inode = 0;
  if (!parse_pair(cut_word(line), '-', mapping.begin, mapping.end)) return std::nullopt;
  const std::string_view permissions = cut_word(line);
  if (permissions.size() != 4 || mapping.begin >= mapping.end) return std::nullopt;
  if (!parse_hexadecimal(cut_word(line), mapping.offset)) return std::nullopt;
  if (!parse_pair(cut_word(line), ':', major, minor) || !parse_counter(cut_word(line), inode)) return std::nullopt;
  mapping.executable = permissions[2] == 'x';
  mapping.device = gnu_dev_makedev(static_cast<unsigned>(major), static_cast<unsigned>(minor));
  mapping.inode = static_cast<std::uint64_t>(inode);
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  mapping.path = line;
  return mapping;
}

std::string_view file_name_of(const Mapping& mapping) noexcept {
  constexpr std::string_view kDeleted = " (deleted)";
  std::string_view name = mapping.path.substr(mapping.path.rfind('/') + 1);
  if (name.ends_with(kDeleted)) name.remove_suffix(kDeleted.size());
  return name;
}

std::vector<Mapping> stack_mappings(std::string_view maps) {
  std::vector<Mapping> found;
  std::string_view line;
  while (next_line(maps, line) && found.size() < kMostMappings) {
    const std::optional<Mapping> mapping = parse_mapping(line);
    if (!mapping || !mapping->executable || !mapping->path.starts_with('/')) continue;
    if (is_stack_library(file_name_of(*mapping))) found.push_back(*mapping);
  }
  return found;
}

Descriptor open_mapped(pid_t pid, const Mapping& mapping) {
  // The path is the job's: what lies there by now may be a device, which to open is to use. O_PATH opens nothing.
  constexpr int kFlags = O_PATH | O_CLOEXEC;
  const std::string folder = "/proc/" + std::to_string(pid);
  std::array<char, 64> range{};
  std::snprintf(range.data(), range.size(), "/map_files/%llx-%llx", static_cast<unsigned long long>(mapping.begin),
                static_cast<unsigned long long>(mapping.end));
  Descriptor place(::open((folder + range.data()).c_str(), kFlags));
  const bool as_mapped = static_cast<bool>(place);
  if (!place) place = Descriptor(::open((folder + "/root" + std::string(mapping.path)).c_str(), kFlags));
  struct stat status {};
  if (!place || ::fstat(place.get(), &status) != 0) return Descriptor();
  const bool same = as_mapped || (status.st_dev == mapping.device && status.st_ino == mapping.inode);
  if (!S_ISREG(status.st_mode) || !same) {
    errno = ESTALE;
    return Descriptor();
  }
  return Descriptor(::open(("/proc/self/fd/" + std::to_string(place.get())).c_str(), O_RDONLY | O_CLOEXEC));
}

}  // namespace reveal
