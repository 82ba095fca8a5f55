// Standard streams that were closed before this program began.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <initializer_list>

namespace reveal {

/// Lets no file that we open take the place of a closed stdin, stdout or stderr: messages would be written into it.
/// Programs that we start still find them closed. Call it first of all.
inline void guard_standard_streams() noexcept {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", O_RDWR | O_CLOEXEC);  // the lowest free number: fd itself
  }
}

}  // namespace reveal
