#include "hdf5schema/basics/child_answer.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace reveal {
namespace {

constexpr std::chrono::milliseconds kAfterKill{200};

}  // namespace

ChildAnswer hear_child(ChildProcess& child, const Descriptor& from, const AnswerLimits& limits) {
  ChildAnswer heard;
  const auto end = std::chrono::steady_clock::now() + limits.time;
  bool closed = false;
  while (heard.text.size() <= limits.bytes) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd wait{from.get(), POLLIN, 0};
    const int ready = left.count() <= 0 ? 0 : ::poll(&wait, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) break;
    char part[16384];  // a job may have a small stack (ulimit -s)
    const ssize_t got = ::read(from.get(), part, sizeof part);
    if (got < 0 && errno == EINTR) continue;
    closed = got == 0;
    if (got <= 0) break;
    heard.text.append(part, static_cast<std::size_t>(got));
  }
  heard.ended = closed && child.wait(limits.after_answer).has_value();
  if (!heard.ended) child.kill(kAfterKill);
  heard.complete = heard.ended && child.status() == 0;
  return heard;
}

ChildAnswer query_child(const std::function<std::string()>& answer, std::chrono::milliseconds limit, std::size_t most) {
  Pipe pipe = open_pipe();
  ChildProcess child;
  if (pipe.read) {
    child = fork_child([&] {
      const int kept = keep_only_descriptor(pipe.write.get());
      return write_all(kept, answer()) ? 0 : 1;
    });
  }
  if (!child) return {.start_error = errno, .text = {}};
  pipe.write.close();
  ChildAnswer heard = hear_child(child, pipe.read, {.time = limit, .bytes = most});
  if (!heard.complete) heard.text.clear();
  return heard;
}

}  // namespace reveal
