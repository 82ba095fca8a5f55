#include "injected_faults.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <string_view>

namespace {

using reveal::FileCall;

const reveal::Fault* armed = nullptr;
reveal::FileCallCounts* counts = nullptr;

/// The errno of this call, 0 if it is to be made.
int error_of(FileCall call) noexcept {
  if (counts == nullptr) return 0;
  const int number = ++(*counts)[static_cast<std::size_t>(call)];
  if (armed == nullptr || armed->call != call) return 0;
  if (number != armed->number && !(armed->lasting && number > armed->number)) return 0;
  if (armed->error == 0) ::kill(::getpid(), SIGKILL);
  return armed->error;
}

bool is_written_file(int fd) noexcept {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && (::fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY;
}

int error_on_file(FileCall call, int fd) noexcept {
  return counts != nullptr && is_written_file(fd) ? error_of(call) : 0;
}

void lose_half(int fd) noexcept {
  char link[64];
  char path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = ::readlink(link, path, sizeof path);
  const std::string_view name(path, size > 0 ? static_cast<std::size_t>(size) : 0);
  struct stat status {};
  for (const std::string_view replacing : {".compact", ".thinner", ".delivering", ".tmp"}) {
    if (name.find(replacing) == std::string_view::npos || ::fstat(fd, &status) != 0) continue;
    ::syscall(SYS_ftruncate, fd, status.st_size / 2);
  }
}

template <typename... Words>
long call_or(int error, long number, Words... words) noexcept {
  if (error == 0) return ::syscall(number, words...);
  errno = error;
  return -1;
}

int open_at(int folder, const char* path, int flags, mode_t mode) noexcept {
  return static_cast<int>(
      call_or((flags & O_CREAT) != 0 ? error_of(FileCall::create) : 0, SYS_openat, folder, path, flags, mode));
}

int sync_with(long number, int fd) noexcept {
  const int error = counts != nullptr ? error_of(FileCall::sync) : 0;
  if (error != 0) lose_half(fd);
  return static_cast<int>(call_or(error, number, fd));
}

}  // namespace

void reveal::arm(const Fault* fault, FileCallCounts& into) noexcept {
  armed = fault;
  counts = &into;
}

extern "C" {

ssize_t write(int fd, const void* from, size_t bytes) {
  return call_or(error_on_file(FileCall::write, fd), SYS_write, fd, from, bytes);
}
ssize_t pwrite(int fd, const void* from, size_t bytes, off_t at) {
  return call_or(error_on_file(FileCall::pwrite, fd), SYS_pwrite64, fd, from, bytes, at);
}
ssize_t pwrite64(int fd, const void* from, size_t bytes, off64_t at) {
  return ::pwrite(fd, from, bytes, at);
}
int fallocate(int fd, int mode, off_t from, off_t bytes) {
  return static_cast<int>(call_or(error_on_file(FileCall::fallocate, fd), SYS_fallocate, fd, mode, from, bytes));
}
int ftruncate(int fd, off_t bytes) noexcept {
  return static_cast<int>(call_or(error_on_file(FileCall::ftruncate, fd), SYS_ftruncate, fd, bytes));
}
int ftruncate64(int fd, off64_t bytes) noexcept {
  return ::ftruncate(fd, bytes);
}
int fsync(int fd) {
  return sync_with(SYS_fsync, fd);
}
int fdatasync(int fd) {
  return sync_with(SYS_fdatasync, fd);
}
int close(int fd) {
  const int error = error_on_file(FileCall::close, fd);
  if (error != 0) lose_half(fd);
  const long closed = ::syscall(SYS_close, fd);
  return static_cast<int>(error == 0 ? closed : call_or(error, SYS_close, -1));
}
int rename(const char* from, const char* to) noexcept {
  return static_cast<int>(call_or(error_of(FileCall::rename), SYS_rename, from, to));
}
int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  return static_cast<int>(call_or(error_of(FileCall::rename), SYS_renameat, from_folder, from, to_folder, to));
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  return static_cast<int>(call_or(error_of(FileCall::rename), SYS_renameat2, from_folder, from, to_folder, to, flags));
}
int link(const char* from, const char* to) noexcept {
  return static_cast<int>(call_or(error_of(FileCall::link), SYS_link, from, to));
}
int unlink(const char* path) noexcept {
  return static_cast<int>(call_or(error_of(FileCall::unlink), SYS_unlink, path));
}
int unlinkat(int folder, const char* path, int flags) noexcept {
  return static_cast<int>(call_or(error_of(FileCall::unlink), SYS_unlinkat, folder, path, flags));
}
int remove(const char* path) noexcept {
  const int error = error_of(FileCall::unlink);
  const long removed = call_or(error, SYS_unlink, path);
  return static_cast<int>(removed != 0 && error == 0 && errno == EISDIR ? ::syscall(SYS_rmdir, path) : removed);
}
int open(const char* path, int flags, ...) {
  va_list words;
  va_start(words, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(words, mode_t) : 0;
  va_end(words);
  return open_at(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list words;
  va_start(words, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(words, mode_t) : 0;
  va_end(words);
  return open_at(AT_FDCWD, path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  va_list words;
  va_start(words, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(words, mode_t) : 0;
  va_end(words);
  return open_at(folder, path, flags, mode);
}

}  // extern "C"
