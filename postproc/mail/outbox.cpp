#include "postproc/mail/outbox.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <spdlog/fmt/fmt.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <thread>
#include <vector>

#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/report/untrusted.h"

namespace reveal {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostWords = 4096;  // of what the program complains; the first line is shown
constexpr auto kLook = 20ms;              // between looks whether it has ended
constexpr auto kAfterKill = 1s;           // a set-uid program may not be ours to kill

/// Writing to a program that has ended raises SIGPIPE, which would end us, too; here it is an EPIPE.
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

  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw system_error("pipe", errno);
    read = above_standard_streams(ends[0]);
    write = above_standard_streams(ends[1]);
    if (!read || !write) throw system_error("pipe", errno);
  }
};

void never_block(const Descriptor& file) {
  ::fcntl(file.get(), F_SETFL, ::fcntl(file.get(), F_GETFL) | O_NONBLOCK);
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  all.reserve(words.size() + 1);
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

/// What a mail program may want to know; LD_* and the like of whoever runs us are none of it.
std::vector<std::string> environment_of_mail() {
  std::vector<std::string> environment{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"};
  for (const char* name : {"HOME", "USER", "LOGNAME"}) {
    if (const char* value = std::getenv(name); value != nullptr) environment.push_back(std::string(name) + "=" + value);
  }
  return environment;
}

pid_t start(std::span<const std::string> program, const Pipe& mail, const Pipe& words, const sigset_t& mask) {
  std::vector<std::string> arguments(program.begin(), program.end());
  std::vector<std::string> environment = environment_of_mail();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, mail.read.get(), STDIN_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, words.write.get(), STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // A group of its own: what the program started ends with it.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setsigmask(&attributes, &mask);
  pid_t child = -1;
  const int failure = ::posix_spawn(&child, arguments.front().c_str(), &actions, &attributes,
                                    pointers(arguments).data(), pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) throw system_error(arguments.front(), failure);
  return child;
}

std::optional<int> status_of(pid_t child) {
  int status = 0;
  const pid_t ended = ::waitpid(child, &status, WNOHANG);
  if (ended == child) return status;
  if (ended < 0 && errno != EINTR) return 0;  // somebody else reaps: nothing is known, nothing to wait for
  return std::nullopt;
}

/// Feeds and listens until the program ends or `end` has come; nothing then.
class Conversation {
 public:
  Conversation(pid_t child, std::string_view mail, Descriptor to, Descriptor from)
      : child_(child), mail_(mail), to_(std::move(to)), from_(std::move(from)) {
    never_block(to_);
    never_block(from_);
  }

  std::optional<int> run_until(Clock::time_point end) {
    std::optional<int> status;
    while (!(status = status_of(child_))) {
      if (Clock::now() >= end) return std::nullopt;
      std::array<pollfd, 2> ends{pollfd{to_.get(), POLLOUT, 0}, pollfd{from_.get(), POLLIN, 0}};  // -1: left out
      ::poll(ends.data(), ends.size(), static_cast<int>(std::chrono::milliseconds(kLook).count()));
      if (ends[0].revents != 0) feed();
      if (ends[1].revents != 0) listen();
    }
    while (said_.size() < kMostWords && listen()) {
    }
    return status;
  }

  [[nodiscard]] bool all_taken() const noexcept { return mail_.empty(); }

  /// The first line of what it said.
  [[nodiscard]] std::string said() const {
    std::string_view rest = said_;
    std::string_view line;
    while (next_line(rest, line)) {
      if (line.find_first_not_of(" \t\r") != std::string_view::npos) return printable(line, 200);
    }
    return {};
  }

 private:
  void feed() {
    const ssize_t written = ::write(to_.get(), mail_.data(), mail_.size());
    if (written > 0) mail_.remove_prefix(static_cast<std::size_t>(written));
    const bool gone = written < 0 && errno != EAGAIN && errno != EINTR;
    if (gone || mail_.empty()) to_.close();
  }

  /// False when there is nothing more.
  bool listen() {
    if (!from_) return false;
    std::array<char, 1024> buffer;
    const ssize_t got = ::read(from_.get(), buffer.data(), buffer.size());
    if (got > 0) {
      if (said_.size() < kMostWords) said_.append(buffer.data(), static_cast<std::size_t>(got));
      return true;
    }
    if (got == 0) from_.close();
    return false;
  }

  pid_t child_;
  std::string_view mail_;
  Descriptor to_, from_;
  std::string said_;
};

void kill_group(pid_t child) {
  ::kill(-child, SIGKILL);
  const auto end = Clock::now() + kAfterKill;
  while (!status_of(child) && Clock::now() < end) std::this_thread::sleep_for(kLook);
}

}  // namespace

void send_mail(std::span<const std::string> program, std::string_view mail, std::chrono::milliseconds limit) {
  if (program.empty()) throw Error("no mail program is configured");
  const auto end = Clock::now() + limit;
  const NoSigpipe quiet;
  Pipe input;
  Pipe errors;
  const pid_t child = start(program, input, errors, quiet.former());
  input.read.close();
  errors.write.close();
  Conversation conversation(child, mail, std::move(input.write), std::move(errors.read));
  const std::optional<int> status = conversation.run_until(end);
  if (!status) {
    kill_group(child);
    throw Error(fmt::format("{} did not finish within {:.3g} s", program.front(),
                            std::chrono::duration<double>(limit).count()));
  }
  const std::string said = conversation.said();
  const std::string words = said.empty() ? "" : ": " + said;
  if (WIFSIGNALED(*status)) {
    throw Error(fmt::format("{} was ended by signal {}{}", program.front(), WTERMSIG(*status), words));
  }
  if (WEXITSTATUS(*status) != 0) {
    throw Error(fmt::format("{} failed with status {}{}", program.front(), WEXITSTATUS(*status), words));
  }
  if (!conversation.all_taken()) throw Error(fmt::format("{} did not take the whole mail{}", program.front(), words));
}

}  // namespace reveal
