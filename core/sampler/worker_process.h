// Work that may hang (a dead file server, a lock of the job's), done by a child process that can be abandoned: the
// sampling thread sends a request, goes on, and looks for the answer at its next row.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/kernel_text/kernel_tree.h"
#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/descriptor.h"

namespace reveal {

class WorkerProcess {
 public:
  /// Runs in the child; paths are relative to `root`. The result has at most kLongestAnswer bytes.
  using Work = std::string (*)(const std::string& root, std::string_view request);
  static constexpr std::size_t kLongestAnswer = 32768;
  /// Under this number the child has the descriptor that it was given.
  static constexpr int kKeptFile = STDERR_FILENO + 2;

  enum class State : std::uint8_t { idle, busy, lost };

  /// Starts the child, unless a recording is replayed: it has the answers. `kept`: the only descriptor that it keeps of
  /// ours; -1: none.
  WorkerProcess(KernelTree& fs, std::string name, Work work, int kept = -1);
  ~WorkerProcess();  // does not wait for work that hangs
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  /// False while the last request is under way, and when the child was killed.
  bool ask(std::string_view request) noexcept;
  /// The answer since the last call, "" if there was none. Valid until the next call.
  [[nodiscard]] std::string_view answer() noexcept;
  /// The same, waited for.
  [[nodiscard]] std::string_view answer_within(std::chrono::milliseconds limit) noexcept;
  [[nodiscard]] State state() const noexcept { return state_; }
  /// True once, after it was killed.
  [[nodiscard]] bool was_lost() noexcept { return state_ == State::lost && !std::exchange(loss_reported_, true); }
  /// After it was killed: another child, which knows nothing of earlier requests. False if none could be started. Call
  /// it from the thread that made this object: the child ends with that thread. `kept` must still be open.
  bool start_again() noexcept;

 private:
  void start() noexcept;
  [[nodiscard]] std::string_view receive() noexcept;
  void lose() noexcept;

  KernelTree& fs_;
  std::string name_;
  Work work_;
  int kept_;
  std::string root_;
  std::string replayed_;
  std::vector<char> buffer_;
  State state_ = State::idle;
  bool loss_reported_ = false;
  Descriptor socket_;
  ChildProcess child_;
};

}  // namespace reveal
