#include "core/stack/process_maps.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/text.h"
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

Told open_both(const std::filesystem::path& library, const std::filesystem::path& other) {
  const Descriptor file(::open(library.c_str(), O_RDONLY | O_CLOEXEC));
  void* const mapped = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, file.get(), 0);
  const std::string maps = file_text("/proc/self/maps");
  std::string_view rest = maps;
  std::string_view line;
  while (next_line(rest, line)) {
    const std::optional<Mapping> mapping = parse_mapping(line);
    if (!mapping || mapping->begin != reinterpret_cast<std::uintptr_t>(mapped)) continue;
    if (!open_without_privilege(*mapping)) return not_opened;
    std::filesystem::rename(other, library);
    if (open_without_privilege(*mapping)) return another_opened;
    return errno == ESTALE ? as_expected : wrong_reason;
  }
  return not_mapped;
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

TEST(ProcessMaps, SayWhyAFileIsNotTheMappedOne) {
  EXPECT_EQ(why_not_opened(ESTALE), "another file is at its path now");
  EXPECT_EQ(why_not_opened(ENOENT), "No such file or directory");
}

}  // namespace
}  // namespace reveal::tests::process_maps_test
