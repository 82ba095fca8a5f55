// Runs a function that may hang, crash or leak in a child process and returns its result.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/descriptor.h"

namespace reveal {

struct ChildAnswer {
  int start_error = 0;  // an errno: there was no child
  std::string text;
  bool ended = false;     // the child sent the whole answer in time and ended by itself
  bool complete = false;  // and without a failure
};

struct AnswerLimits {
  std::chrono::milliseconds time;
  std::size_t bytes;
  std::chrono::milliseconds after_answer{10'000};  // for its end, which closed the pipe; it may have much to free
};

/// Reads from a child until it closes the other end of the pipe, and waits for its end. It is killed when its time is
/// up, it writes more, or it closes the pipe and stays.
[[nodiscard]] ChildAnswer hear_child(ChildProcess& child, const Descriptor& from, const AnswerLimits& limits);

/// Forks: call it where no other thread holds a lock that `answer` needs. The child has none of our descriptors, and no
/// standard streams. It is killed when its time is up or it writes more than `most` bytes, and left alone where it
/// cannot be killed (a file system that does not answer). The text of an answer that is not complete is empty: half of
/// one could pass for a whole one.
[[nodiscard]] ChildAnswer query_child(const std::function<std::string()>& answer, std::chrono::milliseconds limit,
                                      std::size_t most);

}  // namespace reveal
