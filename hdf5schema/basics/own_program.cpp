#include "hdf5schema/basics/own_program.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>

namespace reveal {

namespace fs = std::filesystem;

fs::path own_path() {
  std::error_code error;
  fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (!error) return self;
  // Without /proc, the kernel still provides the path of the program.
  const unsigned long address = ::getauxval(AT_EXECFN);
  // The interface of getauxval is an integer that is a pointer. NOLINTNEXTLINE(performance-no-int-to-ptr)
  return address == 0 ? fs::path() : fs::path(reinterpret_cast<const char*>(address));
}

std::string beside_us(const std::string& program) {
  const fs::path own = own_path();
  const fs::path beside = own.parent_path() / program;
  return own.has_parent_path() && is_executable(beside) ? beside.string() : program;
}

std::string find_in_path(const std::string& program, std::string_view path) {
  while (!path.empty()) {
    const std::size_t end = std::min(path.find(':'), path.size());
    const fs::path directory = end == 0 ? fs::path(".") : fs::path(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
    if (is_executable(directory / program)) return (directory / program).string();
  }
  return "";
}

std::string find_in_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  return find_in_path(program, path == nullptr ? "" : path);
}

bool is_executable(const fs::path& path) {
  std::error_code error;
  return ::access(path.c_str(), X_OK) == 0 && fs::is_regular_file(path, error);
}

}  // namespace reveal
