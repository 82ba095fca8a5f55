#include "hdf5schema/basics/descriptor.h"

#include <algorithm>

namespace reveal {

int most_descriptors() noexcept {
  constexpr long kMost = 65536;
  const long most = ::sysconf(_SC_OPEN_MAX);
  return static_cast<int>(most > 0 ? std::min(most, kMost) : kMost);
}

void close_descriptors_from(int first) noexcept {
  // https://man7.org/linux/man-pages/man2/close_range.2.html
  if (::close_range(static_cast<unsigned>(first), ~0U, 0) == 0) return;
  const int most = most_descriptors();
  for (int fd = first; fd < most; ++fd) ::close(fd);
}

int keep_only_descriptor(int fd) noexcept {
  constexpr int kKept = STDERR_FILENO + 1;
  if (fd != kKept && ::dup2(fd, kKept) != kKept) return fd;
  close_descriptors_from(kKept + 1);
  const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) ::dup2(nowhere, stream);
  return kKept;
}

}  // namespace reveal
