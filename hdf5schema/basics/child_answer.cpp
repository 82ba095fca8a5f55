#include "hdf5schema/basics/child_answer.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string_view>

#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/descriptor.h"

namespace reveal {
namespace {

constexpr std::chrono::milliseconds kAfterKill{200};
constexpr std::chrono::milliseconds kAfterAnswer{10'000};  // its end closed the pipe

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

[[noreturn]] void say(int fd, const std::function<std::string()>& answer) noexcept {
  bool written = false;
  try {
    written = write_all(fd, answer());
  } catch (...) {  // the stack above is the parent's: nothing may unwind into it
  }
  ::_exit(written ? 0 : 1);
}

}  // namespace

ChildAnswer ask_child(const std::function<std::string()>& answer, std::chrono::milliseconds limit, std::size_t most) {
  ChildAnswer heard;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    heard.start_error = errno;
    return heard;
  }
  const Descriptor reader(ends[0]);
  Descriptor writer(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) say(writer.get(), answer);
  if (child < 0) heard.start_error = errno;
  writer.close();
  if (child < 0) return heard;
  ChildProcess process(child);
  const auto end = std::chrono::steady_clock::now() + limit;
  bool ended = false;
  while (heard.text.size() < most) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd wait{reader.get(), POLLIN, 0};
    if (left.count() <= 0 || ::poll(&wait, 1, static_cast<int>(left.count())) <= 0) break;
    char part[16384];
    const ssize_t got = ::read(reader.get(), part, sizeof part);
    ended = got == 0;
    if (got <= 0) break;
    heard.text.append(part, static_cast<std::size_t>(got));
  }
  if (!ended) process.signal(SIGKILL);
  heard.complete = process.wait(ended ? kAfterAnswer : kAfterKill) == 0 && ended;
  return heard;
}

}  // namespace reveal
