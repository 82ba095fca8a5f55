// A file descriptor that closes itself. Everything we open is close-on-exec: programs started by the wrapper or the
// broker must have exactly the descriptors that they would have without us.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string_view>
#include <utility>

namespace reveal {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }

  [[nodiscard]] int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  void close() noexcept {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

struct Pipe {
  Descriptor read, write;
};

/// Has no ends if pipe2() failed: errno has the reason.
[[nodiscard]] inline Pipe open_pipe(int flags = 0) noexcept {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | flags) != 0) return {};
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

/// No open descriptor has this number or a higher one, according to the limit of the process; at most 65536.
[[nodiscard]] int most_descriptors() noexcept;

/// Closes all descriptors from this number on; one by one where the kernel has no call for that (before Linux 5.9).
void close_descriptors_from(int first) noexcept;

/// For a child that may hang: it holds no pipe and no lock of its parent then. Returns the new number of `fd`; the
/// standard streams lead nowhere. Everything stays open where there is no room for that number.
[[nodiscard]] int keep_only_descriptor(int fd) noexcept;

/// False, with the reason in errno, where not all of it was written.
[[nodiscard]] inline bool write_all(int fd, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace reveal
