#include "hdf5schema/basics/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "hdf5schema/basics/child_process.h"
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
Descriptor above_standard_streams(int fd) {
  Descriptor file(fd);
  return fd > STDERR_FILENO ? std::move(file) : Descriptor(::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

struct Pipe {
  Descriptor read, write;

  void open() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw system_error("pipe", errno);
    read = above_standard_streams(ends[0]);
    write = above_standard_streams(ends[1]);
    if (!read || !write) throw system_error("pipe", errno);
  }
};

void never_block(const Descriptor& file) {
  if (file) ::fcntl(file.get(), F_SETFL, ::fcntl(file.get(), F_GETFL) | O_NONBLOCK);
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  all.reserve(words.size() + 1);
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

/// The three streams of the program, as file actions of posix_spawn().
class Streams {
 public:
  Streams() { posix_spawn_file_actions_init(&actions_); }
  ~Streams() { posix_spawn_file_actions_destroy(&actions_); }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  void from(const Descriptor& file, int stream) {
    if (file) {
      posix_spawn_file_actions_adddup2(&actions_, file.get(), stream);
    } else {
      posix_spawn_file_actions_addopen(&actions_, stream, "/dev/null", O_RDWR, 0);
    }
  }
  [[nodiscard]] const posix_spawn_file_actions_t* get() const noexcept { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

/// The errno of starting it, or 0.
int start(const ProgramRun& run, const Streams& streams, const sigset_t& mask, pid_t& child) {
  std::vector<std::string> command = run.command;
  std::vector<std::string> environment = run.environment.value_or(std::vector<std::string>());
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  const int group = run.limit ? POSIX_SPAWN_SETPGROUP : 0;
  posix_spawnattr_setflags(&attributes, static_cast<short>(POSIX_SPAWN_SETSIGMASK | group));
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setsigmask(&attributes, &mask);
  const std::vector<char*> own_environment = pointers(environment);
  const int failure = ::posix_spawnp(&child, run.command.front().c_str(), streams.get(), &attributes,
                                     pointers(command).data(), run.environment ? own_environment.data() : environ);
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
  if (!run.input.empty()) input.open();
  if (run.listen != ProgramRun::Listen::nothing) output.open();
  pid_t pid = -1;
  {
    const Descriptor nowhere;
    Streams streams;
    streams.from(input.read, STDIN_FILENO);
    streams.from(run.listen == ProgramRun::Listen::output ? output.write : nowhere, STDOUT_FILENO);
    if (run.listen != ProgramRun::Listen::output) streams.from(output.write, STDERR_FILENO);
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

int exit_status(int waitpid_status) noexcept {
  return WIFEXITED(waitpid_status) ? WEXITSTATUS(waitpid_status) : 128 + WTERMSIG(waitpid_status);
}

}  // namespace reveal
