#include "core/stack/process_maps.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hdf5schema/basics/call_filter.h"
#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/text.h"
#include "tests/unit/core/stack/many_mappings.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::process_maps_test {
namespace {

constexpr uid_t kNobody = 65534;

std::filesystem::path written(const std::filesystem::path& path) {
  std::ofstream(path) << std::string(8192, 'x');
  std::filesystem::permissions(path, std::filesystem::perms(0644));
  return path;
}

/// As a process without privilege, for which the file at the path is opened, not the mapped one.
Descriptor open_without_privilege(const Mapping& mapping) {
  const uid_t was = ::geteuid();
  if (was == 0 && ::seteuid(kNobody) != 0) ::_exit(10);
  Descriptor file = open_mapped(::getpid(), mapping);
  const int error = errno;
  if (was == 0 && ::seteuid(0) != 0) ::_exit(11);
  errno = error;
  return file;
}

enum Told : int { as_expected = 0, not_opened, another_opened, wrong_reason, not_mapped };

/// The mapping at an address, in the present text of the kernel.
std::optional<Mapping> mapping_at(const void* address, std::string& maps) {
  maps = file_text("/proc/self/maps");
  std::string_view rest = maps;
  std::string_view line;
  while (next_line(rest, line)) {
    const std::optional<Mapping> mapping = parse_mapping(line);
    if (mapping && mapping->begin == reinterpret_cast<std::uintptr_t>(address)) return mapping;
  }
  return std::nullopt;
}

Told open_both(const std::filesystem::path& library, const std::filesystem::path& other) {
  const Descriptor file(::open(library.c_str(), O_RDONLY | O_CLOEXEC));
  const void* const mapped = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, file.get(), 0);
  std::string before;
  std::string after;
  const std::optional<Mapping> at_first = mapping_at(mapped, before);
  if (!at_first) return not_mapped;
  if (!open_without_privilege(*at_first)) return not_opened;
  std::filesystem::rename(other, library);
  const std::optional<Mapping> by_now = mapping_at(mapped, after);
  if (!by_now || !by_now->path.ends_with(" (deleted)")) return not_mapped;
  for (const Mapping& each : {*at_first, *by_now}) {
    if (open_without_privilege(each)) return another_opened;
    if (errno != ESTALE) return wrong_reason;
  }
  return as_expected;
}

TEST(ProcessMaps, OpenTheFileAtThePathWithoutPrivilegeOnlyIfItIsTheOneThatIsMapped) {
  const TemporaryDirectory directory;
  std::filesystem::permissions(directory.path(), std::filesystem::perms(0755));
  const auto library = written(directory.path() / "libnccl.so.2");
  const auto other = written(directory.path() / "other");
  const pid_t child = ::fork();
  if (child == 0) ::_exit(open_both(library, other));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), as_expected);
}

TEST(ProcessMaps, NameTheProgramsThatReadTheCodeOfAProcess) {
  constexpr std::string_view kBegin = "58000000-58200000 r-xp 00000000 08:01 7                                  ";
  const auto reads = [&](std::string_view path) { return has_reader_of_code(std::string(kBegin).append(path) + '\n'); };
  for (const char* path :
       {"/usr/libexec/valgrind/memcheck-amd64-linux", "/opt/dynamorio/lib64/release/libdynamorio.so.11.0",
        "/opt/pin/intel64/bin/pinbin", "/usr/lib/dmtcp/libdmtcp.so"}) {
    EXPECT_TRUE(reads(path)) << path;
  }
  for (const char* path :
       {"/usr/lib/x86_64-linux-gnu/libc.so.6", "/opt/x-amd64-linux-gnu/libmpi.so.40", "/opt/pinbinder"}) {
    EXPECT_FALSE(reads(path)) << path;
  }
  EXPECT_FALSE(has_reader_of_code(""));
}

std::string line_of(std::size_t number, std::string_view path) {
  std::array<char, 128> place{};
  const std::size_t begin = (number + 1) << 12U;
  std::snprintf(place.data(), place.size(), "%zx-%zx r-xp 00000000 08:01 %zu    ", begin, begin + 4096, number + 1);
  return place.data() + std::string(path) + '\n';
}

/// So many lines of libraries with that name, and then `rest`.
StackMaps read_lines_of(const std::string& name, std::size_t lines, const std::string& rest,
                        std::size_t most = kMostMapsText) {
  const TemporaryDirectory directory;
  std::string text;
  for (std::size_t i = 0; i < lines; ++i) text += line_of(i, name);
  std::ofstream(directory.path() / "maps", std::ios::binary) << text << rest;
  return read_stack_maps(directory.path() / "maps", most);
}

TEST(ProcessMaps, AreReadToTheEndWhereAProgramHasLoadedThousandsOfLibraries) {
  constexpr std::size_t kLines = 60'000;
  const std::string name = "/opt/plugins/" + std::string(80, 'p') + ".so";
  const std::string wanted = line_of(kLines, "/usr/lib/libcudart.so.13");
  const StackMaps found = read_lines_of(name, kLines, wanted);
  EXPECT_GT(kLines * name.size(), kMuchMapsText);
  EXPECT_EQ(found.lines, wanted);
  EXPECT_FALSE(found.has_more || found.has_code_reader || found.is_cut_off);
  const StackMaps unended = read_lines_of(name, 3, wanted.substr(0, wanted.size() - 1));
  EXPECT_EQ(unended.lines, wanted) << "its last line has no end";
}

TEST(ProcessMaps, TellWhatIsNotLookedInto) {
  const std::string name = "/usr/lib/libnccl.so.2";
  const std::string tool = line_of(9'999, "/opt/pin/intel64/bin/pinbin");
  const StackMaps fits = read_lines_of(name, kMostStackMappings, "");
  EXPECT_EQ(stack_mappings(fits.lines).size(), kMostStackMappings);
  EXPECT_FALSE(fits.has_more);
  const StackMaps more = read_lines_of(name, 10 * kMostStackMappings, "");
  EXPECT_EQ(stack_mappings(more.lines).size(), kMostStackMappings);
  EXPECT_TRUE(more.has_more);
  EXPECT_FALSE(more.is_cut_off || more.has_code_reader);
  EXPECT_TRUE(read_lines_of(name, 10 * kMostStackMappings, tool).has_code_reader) << "behind those that are kept";
  const StackMaps cut_off = read_lines_of("/usr/lib/libc.so.6", 10'000, tool, 128 << 10);
  EXPECT_TRUE(cut_off.is_cut_off);
  EXPECT_FALSE(cut_off.has_code_reader) << "it was not read, and nobody knows";
  const StackMaps none = read_stack_maps("/proc/self/no-such-text");
  EXPECT_TRUE(none.lines.empty());
  EXPECT_FALSE(none.is_cut_off || none.has_more);
}

/// The kernel can be asked for one mapping (PROCMAP_QUERY).
bool answers_about_mappings() {
  utsname system{};
  unsigned major = 0;
  unsigned minor = 0;
  return ::uname(&system) == 0 && std::sscanf(system.release, "%u.%u", &major, &minor) == 2 &&
         (major > 6 || (major == 6 && minor >= 11));
}

// Before Linux 6.11 they are read out of the text.
TEST(ProcessMaps, HaveTheCodeOfALibraryBehindThousandsOfMappings) {
  enum Outcome : int { found = 0, refused, too_short, no_filter, not_found, not_code };
  const TemporaryDirectory directory;
  const auto library = written(directory.path() / "libnccl.so.2");
  const auto look_without = [&](int system_call) {
    ChildProcess child = fork_child([&]() -> int {
      if (!map_behind_many(directory.path(), library)) return refused;
      if (file_text("/proc/self/maps").size() < kMuchMapsText) return too_short;
      const Descriptor file(::open(library.c_str(), O_RDONLY | O_CLOEXEC));
      const std::array<std::uint64_t, 4> offsets = {1 << 20, 0, ~std::uint64_t{0}, 0};
      CallFilter filter;
      filter.refuse(std::span(&system_call, 1));
      if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || !filter.install()) return no_filter;
      const std::vector<bool> mapped = are_mapped_as_code(::getpid(), file.get(), offsets);
      if (!mapped[1] || !mapped[3]) return not_found;
      return mapped[0] || mapped[2] ? not_code : found;
    });
    return exit_status(child.wait());
  };
  const int told = look_without(SYS_ioctl);
  if (told == refused) GTEST_SKIP() << "a process may not have so many mappings here";
  if (told == no_filter) GTEST_SKIP() << "this kernel has no filters of system calls";
  EXPECT_EQ(told, found) << "by the text";
  if (answers_about_mappings()) {
    EXPECT_EQ(look_without(SYS_read), found) << "by a question for each mapping";
  }
}

/// A file of code, mapped so that this process can replace the code in its memory. It begins with a push and a mov;
/// then comes a nop of five bytes.
class MappedCode {
 public:
  static constexpr std::size_t kBytes = 16;
  static constexpr std::size_t kNop = 4;

  MappedCode() {
    std::string text(2 * kPage, '\x90');
    text.replace(0, kNop + 5, std::string("\x55\x48\x89\xe5\x0f\x1f\x44\0\0", kNop + 5));
    std::ofstream(directory_.path() / "libnccl.so.2", std::ios::binary) << text;
    const Descriptor file(::open((directory_.path() / "libnccl.so.2").c_str(), O_RDONLY | O_CLOEXEC));
    memory_ = static_cast<std::byte*>(::mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.get(), 0));
    std::transform(text.begin(), text.begin() + kBytes, code_.begin(), [](char letter) { return std::byte(letter); });
  }
  ~MappedCode() { ::munmap(memory_, 2 * kPage); }
  MappedCode(const MappedCode&) = delete;
  MappedCode& operator=(const MappedCode&) = delete;

  void write(std::size_t at, std::initializer_list<unsigned char> bytes) {
    std::transform(bytes.begin(), bytes.end(), memory_ + at, [](unsigned char byte) { return std::byte{byte}; });
  }
  void restore() { std::copy(code_.begin(), code_.end(), memory_); }
  [[nodiscard]] bool is_as_in_file() const {
    return has_code_of_file(::getpid(), reinterpret_cast<std::uintptr_t>(memory_), code_);
  }
  /// Likewise, over the end of a page, of which the first one was written to.
  [[nodiscard]] bool is_as_in_file_behind() const {
    const std::array<std::byte, 2> nops = {std::byte{0x90}, std::byte{0x90}};
    return has_code_of_file(::getpid(), reinterpret_cast<std::uintptr_t>(memory_) + kPage - 1, nops);
  }
  void hide() { EXPECT_EQ(::mprotect(memory_, 2 * kPage, PROT_NONE), 0); }

 private:
  static constexpr std::size_t kPage = 4096;
  TemporaryDirectory directory_;
  std::byte* memory_ = nullptr;
  std::array<std::byte, kBytes> code_{};
};

TEST(ProcessMaps, TellCodeThatAProgramHasReplacedInItsMemory) {
  MappedCode code;
  if (::syscall(SYS_process_vm_readv, ::getpid(), nullptr, 0, nullptr, 0, 0) != 0) {
    GTEST_SKIP() << "the memory of a process cannot be read here";
  }
  EXPECT_TRUE(code.is_as_in_file());
  code.write(0, {0xcc});  // breakpoints
  code.write(9, {0xcc});
  EXPECT_TRUE(code.is_as_in_file());
  code.write(MappedCode::kNop, {0xe8, 1, 2, 3, 4});  // the kernel's own call
  EXPECT_TRUE(code.is_as_in_file());
  code.restore();
  code.write(0, {0xe8, 1, 2, 3, 4});
  EXPECT_FALSE(code.is_as_in_file());
  code.restore();
  code.write(0, {0xe9, 0x10, 0x20, 0x30, 0});  // a jump
  EXPECT_FALSE(code.is_as_in_file());
  code.restore();
  code.write(MappedCode::kBytes - 1, {0xc3});
  EXPECT_FALSE(code.is_as_in_file());
  code.restore();
  EXPECT_TRUE(code.is_as_in_file());
  EXPECT_TRUE(code.is_as_in_file_behind());
  code.hide();
  EXPECT_FALSE(code.is_as_in_file());
}

// The kernel's Yama refuses it where a user may trace his own children only.
TEST(ProcessMaps, TellAPageThatAProgramHasWrittenToWhereItsMemoryIsNotShown) {
  constexpr int kNotShown[] = {SYS_process_vm_readv};
  enum Told : int { as_is_right = 0, no_filter, not_the_file, replaced, replaced_in_part };
  ChildProcess child = fork_child([&]() -> int {
    MappedCode code;
    CallFilter filter;
    filter.refuse(kNotShown);
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || !filter.install()) return no_filter;
    if (!code.is_as_in_file() || !code.is_as_in_file_behind()) return not_the_file;
    code.write(0, {0xe9});
    if (code.is_as_in_file()) return replaced;
    return code.is_as_in_file_behind() ? replaced_in_part : as_is_right;
  });
  const int told = exit_status(child.wait());
  if (told == no_filter) GTEST_SKIP() << "this kernel has no filters of system calls";
  EXPECT_EQ(told, as_is_right);
}

TEST(ProcessMaps, SayWhyAFileIsNotTheMappedOne) {
  EXPECT_EQ(why_not_opened(ESTALE), "another file is at its path now");
  EXPECT_EQ(why_not_opened(ENOENT), "No such file or directory");
}

}  // namespace
}  // namespace reveal::tests::process_maps_test
