#include "hdf5schema/basics/child_answer.h"

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

}  // namespace

ChildAnswer query_child(const std::function<std::string()>& answer, std::chrono::milliseconds limit, std::size_t most) {
  ChildAnswer heard;
  Pipe pipe = open_pipe();
  ChildProcess child;
  if (pipe.read) {
    child = fork_child([&] {
      const int kept = keep_only_descriptor(pipe.write.get());
      return write_all(kept, answer()) ? 0 : 1;
    });
  }
  if (!child) {
    heard.start_error = errno;
    return heard;
  }
  pipe.write.close();
  const auto end = std::chrono::steady_clock::now() + limit;
  bool ended = false;
  while (heard.text.size() < most) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd wait{pipe.read.get(), POLLIN, 0};
    if (left.count() <= 0 || ::poll(&wait, 1, static_cast<int>(left.count())) <= 0) break;
    char part[16384];
    const ssize_t got = ::read(pipe.read.get(), part, sizeof part);
    ended = got == 0;
    if (got <= 0) break;
    heard.text.append(part, static_cast<std::size_t>(got));
  }
  if (!ended) child.signal(SIGKILL);
  heard.complete = child.wait(ended ? kAfterAnswer : kAfterKill) == 0 && ended;
  return heard;
}

}  // namespace reveal
