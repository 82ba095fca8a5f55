// Makes one call to the kernel fail, or be the last one of its process. The program that links injected_faults.cpp has
// these calls in place of the C library's, also where libraries make them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

namespace reveal {

enum class FileCall : std::size_t {
  create,  // open with O_CREAT
  write,
  pwrite,
  fallocate,
  ftruncate,
  sync,  // fsync and fdatasync
  close,
  rename,
  link,
  unlink,
};
inline constexpr std::array kFileCallNames = {"create", "write", "pwrite", "fallocate", "ftruncate",
                                              "sync",   "close", "rename", "link",      "unlink"};

struct Fault {
  FileCall call = FileCall::write;
  int number = 0;        // the first such call after arm() is 1
  int error = 0;         // errno; 0: SIGKILL in its place
  bool lasting = false;  // all such calls from that one on
};

using FileCallCounts = std::array<std::atomic<int>, kFileCallNames.size()>;

/// From now on calls on regular files and on names are counted, and `fault` happens (nullptr: none). A failing sync or
/// close also cuts a file in half that is to replace another: that is how a full network file system fails.
void arm(const Fault* fault, FileCallCounts& counts) noexcept;

}  // namespace reveal
