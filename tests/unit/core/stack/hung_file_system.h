// Files that hang whoever uses them, as those of a server that is gone.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>

#include "hdf5schema/basics/descriptor.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests {

/// A file system of a user's own (FUSE) with one file. The program that answers for it hangs once that is open.
/// https://docs.kernel.org/filesystems/fuse/index.html
class HungFileSystem {
 public:
  HungFileSystem() : program_(::open("/dev/fuse", O_RDWR | O_CLOEXEC)) {
    const std::string options = "fd=" + std::to_string(program_.get()) +
                                ",rootmode=40000,user_id=" + std::to_string(kUser) +
                                ",group_id=" + std::to_string(kUser) + ",allow_other";
    if (!program_ || ::mount("reveal", place().c_str(), "fuse", MS_NODEV | MS_NOSUID, options.c_str()) != 0) return;
    std::thread answers([this] { answer(); });
    file_ = Descriptor(::open((place() + "/libnccl.so.2").c_str(), O_RDONLY | O_CLOEXEC));
    ::umount2(place().c_str(), MNT_DETACH);  // other programs look at what is mounted; the open file holds it
    answers.join();
  }
  ~HungFileSystem() {
    program_.close();  // no request waits any more
    file_.close();
  }
  HungFileSystem(const HungFileSystem&) = delete;
  HungFileSystem& operator=(const HungFileSystem&) = delete;
  [[nodiscard]] const Descriptor& file() const { return file_; }
  /// One request is with the program from now on: not even a signal that ends a process ends its wait.
  [[nodiscard]] bool comes_to_be_asked() const {
    constexpr int kPatienceMs = 10'000;
    std::array<char, 65'536> request{};
    pollfd ready{program_.get(), POLLIN, 0};
    while (::poll(&ready, 1, kPatienceMs) == 1 && ::read(program_.get(), request.data(), request.size()) > 0) {
      fuse_in_header head{};
      std::memcpy(&head, request.data(), sizeof head);
      if (head.opcode != FUSE_FORGET && head.opcode != FUSE_BATCH_FORGET) return true;  // nobody waits for these
    }
    return false;
  }
  /// In a child, which would keep it from its end.
  void leave() { program_.close(); }

 private:
  static constexpr std::uint64_t kFile = 2;  // its number
  static constexpr uid_t kUser = 65534;

  [[nodiscard]] std::string place() const { return folder_.path().string(); }
  template <typename Body>
  void say(std::uint64_t request, Body& body) const {
    fuse_out_header head{.len = sizeof head + sizeof body, .error = 0, .unique = request};
    const std::array<iovec, 2> parts = {iovec{&head, sizeof head}, iovec{&body, sizeof body}};
    EXPECT_EQ(::writev(program_.get(), parts.data(), parts.size()), static_cast<ssize_t>(head.len));
  }
  void refuse(std::uint64_t request) const {
    const fuse_out_header head{.len = sizeof head, .error = -ENOSYS, .unique = request};
    [[maybe_unused]] const ssize_t written = ::write(program_.get(), &head, sizeof head);
  }
  void answer() const {
    std::array<char, 65'536> request{};
    while (::read(program_.get(), request.data(), request.size()) > 0) {
      fuse_in_header head{};
      std::memcpy(&head, request.data(), sizeof head);
      if (head.opcode == FUSE_INIT) {
        fuse_init_out begin{};
        begin.major = FUSE_KERNEL_VERSION;
        begin.minor = FUSE_KERNEL_MINOR_VERSION;
        begin.max_write = 4096;
        say(head.unique, begin);
      } else if (head.opcode == FUSE_LOOKUP) {
        fuse_entry_out entry{};
        entry.nodeid = entry.attr.ino = kFile;
        entry.attr.mode = S_IFREG | 0644;
        entry.attr.nlink = 1;
        entry.attr.size = 4096;
        say(head.unique, entry);
      } else if (head.opcode == FUSE_OPEN) {
        fuse_open_out opened{};
        say(head.unique, opened);
        return;
      } else if (head.opcode != FUSE_FORGET) {
        refuse(head.unique);
      }
    }
  }

  TemporaryDirectory folder_;
  Descriptor program_, file_;
};

}  // namespace reveal::tests
