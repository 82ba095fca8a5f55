#include "core/stack/process_maps.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <utility>

#include "core/kernel_text/kernel_words.h"
#include "core/stack/stack_functions.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

/// In the lines of files that such programs map: the tools of Valgrind ("memcheck-amd64-linux"), and the others.
constexpr std::string_view kReadersOfCode[] = {"-amd64-linux\n", "/libdynamorio.so", "/pinbin\n", "/libdmtcp.so"};

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

/// Passes on a text of the kernel in pieces of whole lines until `take` returns false. False if there was more than
/// `most`.
template <typename Take>
bool read_lines(const std::string& path, std::size_t most, const Take& take) {
  constexpr std::size_t kPiece = 64 << 10;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return true;
  std::string text;  // begins with a line
  for (std::size_t all = 0; all < most;) {
    const std::size_t begin = text.size();
    text.resize(begin + kPiece);
    const ssize_t got = ::read(file.get(), text.data() + begin, kPiece);
    text.resize(begin + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      static_cast<void>(take(std::string_view(text)));
      return true;
    }
    all += static_cast<std::size_t>(got);
    const std::size_t last = std::string_view(text).substr(begin).rfind('\n');
    if (last == std::string_view::npos) continue;
    const std::size_t end = begin + last + 1;
    if (!take(std::string_view(text).substr(0, end))) return true;
    text.erase(0, end);
  }
  return false;
}

/// PROCMAP_QUERY, since Linux 6.11, which is newer than the headers of the oldest system that this is built on: one
/// mapping of a process, without the text of thousands of others.
/// https://docs.kernel.org/filesystems/proc.html
struct MapQuery {
  static constexpr std::uint64_t kExecutable = 0x04;
  static constexpr std::uint64_t kHereOrNext = 0x10;
  static constexpr std::uint64_t kOfFile = 0x20;
  std::uint64_t size = sizeof(MapQuery), flags = 0, address = 0;
  std::uint64_t begin = 0, end = 0, permissions = 0, page_size = 0, offset = 0, inode = 0;
  std::uint32_t major = 0, minor = 0;
  std::uint32_t name_size = 0, build_id_size = 0;  // 0: they are not asked for
  std::uint64_t name = 0, build_id = 0;
};

/// 0, or an errno: ENOENT where there is no such mapping.
int ask_for_mapping(int maps, std::uint64_t flags, std::uint64_t address, Mapping& mapping) noexcept {
  MapQuery query{.flags = flags, .address = address};
  if (::ioctl(maps, _IOWR('f', 17, MapQuery), &query) != 0) return errno;
  mapping.begin = query.begin;
  mapping.end = query.end;
  mapping.offset = query.offset;
  mapping.device = gnu_dev_makedev(query.major, query.minor);
  mapping.inode = query.inode;
  mapping.executable = (query.permissions & MapQuery::kExecutable) != 0;
  return 0;
}

/// Passes on mappings of files as code until `take` returns false, without their paths. False where they cannot be
/// asked for, or not all of them.
template <typename Take>
bool ask_for_code(const std::string& path, const Take& take) {
  constexpr std::size_t kMost = 1 << 20;
  const Descriptor maps(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::uint64_t from = 0;
  for (std::size_t i = 0; i < kMost; ++i) {
    Mapping mapping;
    constexpr std::uint64_t kFlags = MapQuery::kHereOrNext | MapQuery::kOfFile | MapQuery::kExecutable;
    const int error = ask_for_mapping(maps.get(), kFlags, from, mapping);
    if (error != 0) return error == ENOENT;
    if (mapping.end <= from) return false;
    if (!take(mapping)) return true;
    from = mapping.end;
  }
  return false;
}

bool may_have_functions(const Mapping& mapping) noexcept {
  return mapping.executable && mapping.path.starts_with('/') && is_stack_library(file_name_of(mapping));
}

/// Without its path.
std::optional<Mapping> own_mapping(std::uint64_t address) {
  constexpr const char* kMaps = "/proc/self/maps";
  Mapping asked;
  if (ask_for_mapping(Descriptor(::open(kMaps, O_RDONLY | O_CLOEXEC)).get(), 0, address, asked) == 0) return asked;
  const std::string maps = file_text(kMaps);
  std::string_view rest = maps;
  std::string_view line;
  while (next_line(rest, line)) {
    std::optional<Mapping> mapping = parse_mapping(line);
    if (!mapping || address < mapping->begin || address >= mapping->end) continue;
    mapping->path = {};
    return mapping;
  }
  return std::nullopt;
}

/// The device and the inode by which /proc/PID/maps names the file, seen on a mapping of our own: where the file lies
/// in layers (overlayfs before Linux 6.8) or in a subvolume (btrfs), fstat() returns another device. None: errno has
/// the reason.
std::optional<std::pair<std::uint64_t, std::uint64_t>> named_in_maps(int file) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const mapped = ::mmap(nullptr, page, PROT_READ, MAP_PRIVATE, file, 0);
  if (mapped == MAP_FAILED) return std::nullopt;
  const auto address = reinterpret_cast<std::uintptr_t>(mapped);
  const std::optional<Mapping> found = own_mapping(address);
  ::munmap(mapped, page);
  errno = ENOENT;
  return found ? std::optional(std::pair(found->device, found->inode)) : std::nullopt;
}

/// Linux 6.18 turns a nop of five bytes that has a breakpoint into a call.
bool is_same_code(std::span<const std::byte> of_file, std::span<const std::byte> in_memory) noexcept {
  constexpr std::byte kBreakpoint{0xcc};
  constexpr std::byte kCall{0xe8};
  constexpr std::array kNop = {std::byte{0x0f}, std::byte{0x1f}, std::byte{0x44}, std::byte{0x00}, std::byte{0x00}};
  for (std::size_t i = 0; i < of_file.size(); ++i) {
    if (in_memory[i] == of_file[i] || in_memory[i] == kBreakpoint) continue;
    const std::span<const std::byte> rest = of_file.subspan(i, std::min(kNop.size(), of_file.size() - i));
    if (in_memory[i] != kCall || !std::equal(rest.begin(), rest.end(), kNop.begin())) return false;
    i += rest.size() - 1;
  }
  return true;
}

ssize_t read_memory(pid_t pid, std::uint64_t address, std::span<std::byte> memory) noexcept {
  const iovec here{memory.data(), memory.size()};
  const iovec there{reinterpret_cast<void*>(address), memory.size()};
  return ::process_vm_readv(pid, &here, 1, &there, 1, 0);
}

/// By Yama, where a user may trace his own children only: it still shows which pages were written to.
bool is_refused(int error) noexcept {
  return error == EPERM || error == ENOSYS;
}

/// The process has written nothing there: the kernel gives it a copy of a page that it writes to.
/// https://docs.kernel.org/admin-guide/mm/pagemap.html
bool has_pages_of_file(pid_t pid, std::uint64_t address, std::size_t size) {
  constexpr std::uint64_t kOfFile = std::uint64_t{1} << 61U;
  constexpr std::uint64_t kSwapped = std::uint64_t{1} << 62U;
  constexpr std::uint64_t kPresent = std::uint64_t{1} << 63U;
  const auto bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const Descriptor pages(::open(("/proc/" + std::to_string(pid) + "/pagemap").c_str(), O_RDONLY | O_CLOEXEC));
  for (std::uint64_t page = address / bytes; page <= (address + size - 1) / bytes; ++page) {
    std::uint64_t entry = 0;
    const auto at = static_cast<off_t>(page * sizeof entry);
    if (!pages || ::pread(pages.get(), &entry, sizeof entry, at) != static_cast<ssize_t>(sizeof entry)) return false;
    if ((entry & kSwapped) != 0 || ((entry & kPresent) != 0 && (entry & kOfFile) == 0)) return false;
  }
  return true;
}

/// Without the mark of a file that is no longer there: another one may be.
std::string_view path_when_mapped(const Mapping& mapping) noexcept {
  constexpr std::string_view kDeleted = " (deleted)";
  std::string_view path = mapping.path;
  if (path.ends_with(kDeleted)) path.remove_suffix(kDeleted.size());
  return path;
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

bool has_place(const Mapping& mapping, std::uint64_t offset) noexcept {
  return offset >= mapping.offset && offset - mapping.offset < mapping.end - mapping.begin;
}

std::string_view file_name_of(const Mapping& mapping) noexcept {
  const std::string_view path = path_when_mapped(mapping);
  return path.substr(path.rfind('/') + 1);
}

std::vector<Mapping> stack_mappings(std::string_view maps) {
  std::vector<Mapping> found;
  std::string_view line;
  while (found.size() < kMostStackMappings && next_line(maps, line)) {
    const std::optional<Mapping> mapping = parse_mapping(line);
    if (mapping && may_have_functions(*mapping)) found.push_back(*mapping);
  }
  return found;
}

StackMaps read_stack_maps(const std::string& path, std::size_t most) {
  StackMaps found;
  std::size_t kept = 0;
  const bool whole = read_lines(path, most, [&](std::string_view lines) {
    found.has_code_reader = has_reader_of_code(lines);
    std::string_view line;
    while (!found.has_more && next_line(lines, line)) {
      const std::optional<Mapping> mapping = parse_mapping(line);
      if (!mapping || !may_have_functions(*mapping)) continue;
      found.has_more = kept == kMostStackMappings;
      if (found.has_more) break;
      found.lines.append(line).append(1, '\n');
      ++kept;
    }
    return !found.has_code_reader;  // one may come behind the last mapping that is kept
  });
  found.is_cut_off = !whole;
  return found;
}

Descriptor open_mapped(pid_t pid, const Mapping& mapping) {
  // The path is the job's: a device may lie there by now, and opening a device uses it. O_PATH opens nothing.
  constexpr int kFlags = O_PATH | O_CLOEXEC;
  const std::string folder = "/proc/" + std::to_string(pid);
  std::array<char, 64> range{};
  std::snprintf(range.data(), range.size(), "/map_files/%llx-%llx", static_cast<unsigned long long>(mapping.begin),
                static_cast<unsigned long long>(mapping.end));
  Descriptor place(::open((folder + range.data()).c_str(), kFlags));
  const bool as_mapped = static_cast<bool>(place);
  if (!place) place = Descriptor(::open((folder + "/root" + std::string(path_when_mapped(mapping))).c_str(), kFlags));
  struct stat status {};
  if (!place || ::fstat(place.get(), &status) != 0) return Descriptor();
  if (!S_ISREG(status.st_mode)) {
    errno = ESTALE;
    return Descriptor();
  }
  Descriptor file(::open(("/proc/self/fd/" + std::to_string(place.get())).c_str(), O_RDONLY | O_CLOEXEC));
  if (as_mapped || !file) return file;
  const auto name = named_in_maps(file.get());
  if (!name) return Descriptor();
  if (*name == std::pair(mapping.device, mapping.inode)) return file;
  errno = ESTALE;
  return Descriptor();
}

std::vector<bool> are_mapped_as_code(pid_t pid, int file, std::span<const std::uint64_t> offsets) {
  std::vector<bool> mapped(offsets.size());
  const auto name = named_in_maps(file);
  if (!name) return mapped;
  std::size_t missing = offsets.size();
  const auto take = [&](const Mapping& mapping) {
    const bool is_code = mapping.executable && *name == std::pair(mapping.device, mapping.inode);
    for (std::size_t i = 0; is_code && i < offsets.size(); ++i) {
      if (mapped[i] || !has_place(mapping, offsets[i])) continue;
      mapped[i] = true;
      --missing;
    }
    return missing > 0;
  };
  const std::string maps = "/proc/" + std::to_string(pid) + "/maps";
  if (ask_for_code(maps, take)) return mapped;
  static_cast<void>(read_lines(maps, kMostMapsText, [&](std::string_view lines) {
    std::string_view line;
    while (missing > 0 && next_line(lines, line)) {
      if (const std::optional<Mapping> mapping = parse_mapping(line)) static_cast<void>(take(*mapping));
    }
    return missing > 0;
  }));
  return mapped;
}

bool has_reader_of_code(std::string_view maps) noexcept {
  return std::any_of(std::begin(kReadersOfCode), std::end(kReadersOfCode),
                     [maps](std::string_view name) { return maps.find(name) != std::string_view::npos; });
}

bool has_code_of_file(pid_t pid, std::uint64_t address, std::span<const std::byte> code) {
  std::vector<std::byte> memory(code.size());
  const ssize_t got = read_memory(pid, address, memory);
  if (got >= 0) return static_cast<std::size_t>(got) == memory.size() && is_same_code(code, memory);
  return is_refused(errno) && has_pages_of_file(pid, address, code.size());
}

bool shows_memory(pid_t pid, std::uint64_t address) {
  std::byte any{};
  return read_memory(pid, address, std::span(&any, 1)) >= 0 || !is_refused(errno);
}

std::string why_not_opened(int error) {
  return error == ESTALE ? "another file is at its path now" : std::strerror(error);
}

}  // namespace reveal
