#include "hdf5schema/basics/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/error.h"

namespace reveal {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kLook = 20ms;              // between looks whether it has ended
constexpr auto kKilledProgramLimit = 1s;  // a set-uid program may not be ours to kill

/// Writing to a program that has ended raises SIGPIPE, which would end us, too; here it is an EPIPE.
/// https://man7.org/linux/man-pages/man7/pipe.7.html
class NoSigpipe {
 public:
  NoSigpipe() noexcept {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &former_);
  }
  ~NoSigpipe() {
    const timespec now{};
    while (sigtimedwait(&pipe_, nullptr, &now) == SIGPIPE) {
    }
    pthread_sigmask(SIG_SETMASK, &former_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

  [[nodiscard]] const sigset_t& former() const noexcept { return former_; }

 private:
  sigset_t pipe_{};
  sigset_t former_{};
};

/// A program started with its standard streams closed would get its pipes there, where dup2 puts the child's.
Pipe pipe_above_standard_streams() {
  Pipe pipe = open_pipe();
  for (Descriptor* end : {&pipe.read, &pipe.write}) {
    if (*end && end->get() <= STDERR_FILENO) {
      *end = Descriptor(::fcntl(end->get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    }
    if (!*end) throw system_error("pipe", errno);
  }
  return pipe;
}

void never_block(const Descriptor& file) {
  if (file) ::fcntl(file.get(), F_SETFL, ::fcntl(file.get(), F_GETFL) | O_NONBLOCK);
}

/// The errno of starting it, or 0.
int start(const ProgramRun& run, const SpawnStreams& streams, const sigset_t& mask, pid_t& child) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  const int group = run.limit ? POSIX_SPAWN_SETPGROUP : 0;
  posix_spawnattr_setflags(&attributes, static_cast<short>(POSIX_SPAWN_SETSIGMASK | group));
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setsigmask(&attributes, &mask);
  const int failure =
      ::posix_spawnp(&child, run.command.front().c_str(), streams.get(), &attributes, exec_pointers(run.command).data(),
                     run.environment ? exec_pointers(*run.environment).data() : environ);
  posix_spawnattr_destroy(&attributes);
  return failure;
}

/// Feeds and listens until the program ends or its time is up.
class Conversation {
 public:
  Conversation(const ProgramRun& run, Descriptor to, Descriptor from)
      : input_(run.input), output_limit_(run.output_limit), to_(std::move(to)), from_(std::move(from)) {
    never_block(to_);
    never_block(from_);
  }

  ProgramEnd until(ChildProcess& child, std::optional<Clock::time_point> end) {
    while (!(end_.status = child.status())) {
      if (end && Clock::now() >= *end) break;
      std::array<pollfd, 2> ends{pollfd{to_.get(), POLLOUT, 0}, pollfd{from_.get(), POLLIN, 0}};  // -1: left out
      ::poll(ends.data(), ends.size(), static_cast<int>(std::chrono::milliseconds(kLook).count()));
      if (ends[0].revents != 0) feed();
      if (ends[1].revents != 0) listen();
    }
    while (end_.status && !end_.truncated && listen()) {
    }
    end_.input_taken = input_.empty();
    return std::move(end_);
  }

 private:
  void feed() {
    const ssize_t written = ::write(to_.get(), input_.data(), input_.size());
    if (written > 0) input_.remove_prefix(static_cast<std::size_t>(written));
    const bool gone = written < 0 && errno != EAGAIN && errno != EINTR;
    if (gone || input_.empty()) to_.close();
  }

  /// False when there is nothing more for now.
  bool listen() {
    if (!from_) return false;
    std::array<char, 16384> buffer;
    const ssize_t got = ::read(from_.get(), buffer.data(), buffer.size());
    if (got == 0) from_.close();
    if (got <= 0) return false;
    const std::size_t room = output_limit_ - end_.output.size();
    end_.output.append(buffer.data(), std::min(room, static_cast<std::size_t>(got)));
    end_.truncated = end_.truncated || static_cast<std::size_t>(got) > room;
    return true;
  }

  std::string_view input_;
  std::size_t output_limit_;
  Descriptor to_, from_;
  ProgramEnd end_;
};

}  // namespace

ProgramEnd run_program(const ProgramRun& run) {
  std::optional<Clock::time_point> end;
  if (run.limit) end = Clock::now() + *run.limit;
  const NoSigpipe quiet;
  Pipe input;
  Pipe output;
  if (!run.input.empty()) input = pipe_above_standard_streams();
  if (run.listen != ProgramRun::Listen::nothing) output = pipe_above_standard_streams();
  pid_t pid = -1;
  {
    SpawnStreams streams;
    streams.set(STDIN_FILENO, input.read.get());
    streams.set(STDOUT_FILENO, run.listen == ProgramRun::Listen::output ? output.write.get() : -1);
    if (run.listen != ProgramRun::Listen::output) streams.set(STDERR_FILENO, output.write.get());
    if (const int failure = start(run, streams, quiet.former(), pid); failure != 0) return {.start_error = failure};
  }
  input.read.close();
  output.write.close();
  ChildProcess child(pid);
  ProgramEnd ended = Conversation(run, std::move(input.write), std::move(output.read)).until(child, end);
  if (ended.status) return ended;
  child.signal_group(SIGKILL);
  static_cast<void>(child.wait(kKilledProgramLimit));
  return ended;
}

std::vector<char*> exec_pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  // exec only reads them. NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

void SpawnStreams::set(int stream, int fd) {
  if (fd >= 0) {
    posix_spawn_file_actions_adddup2(&actions_, fd, stream);
  } else {
    posix_spawn_file_actions_addopen(&actions_, stream, "/dev/null", stream == STDIN_FILENO ? O_RDONLY : O_WRONLY, 0);
  }
}

}  // namespace reveal
