// A file descriptor that closes itself. Everything we open is close-on-exec: programs started by the wrapper or the
// broker must have exactly the descriptors that they would have without us.
#pragma once

#include <fcntl.h>
#include <unistd.h>

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

/// Without ends if pipe2() failed: errno has the reason.
[[nodiscard]] inline Pipe open_pipe(int flags = 0) noexcept {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | flags) != 0) return {};
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

}  // namespace reveal
