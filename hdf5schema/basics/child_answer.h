// Runs a function that may hang, crash or leak in a child process and returns its result.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace reveal {

struct ChildAnswer {
  int start_error = 0;  // an errno: there was no child
  std::string text;
  bool complete = false;  // the child sent the whole answer in time and ended by itself
};

/// Forks: call it where no other thread holds a lock that `answer` needs. The child has none of our descriptors, and no
/// standard streams. It is killed when its time is up or it writes more than `most` bytes, and left alone where it
/// cannot be killed (a file system that does not answer).
[[nodiscard]] ChildAnswer query_child(const std::function<std::string()>& answer, std::chrono::milliseconds limit,
                                      std::size_t most);

}  // namespace reveal
