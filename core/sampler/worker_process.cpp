#include "core/sampler/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <exception>
#include <filesystem>

namespace reveal {
namespace {

constexpr std::size_t kLongestRequest = 8192;
constexpr int kSocketOfChild = STDERR_FILENO + 1;

// The trace, its locks, and the pipes with an end that waits for ours to close belong to the parent: a child that hangs
// must not hold them.
int keep_only(int socket, int kept) {
  constexpr int kLast = WorkerProcess::kKeptFile;
  if (kept >= 0) kept = ::fcntl(kept, F_DUPFD_CLOEXEC, kLast + 1);  // not where the socket comes
  if (socket != kSocketOfChild) ::dup2(socket, kSocketOfChild);
  if (kept >= 0 && ::dup2(kept, kLast) == kLast) {
    close_descriptors_from(kLast + 1);
  } else {
    close_descriptors_from(kSocketOfChild + 1);
  }
  const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) ::dup2(nowhere, stream);
  if (::chdir("/") != 0) ::_exit(0);
  return kSocketOfChild;
}

int serve(int socket_of_parent, int kept, const std::string& root, WorkerProcess::Work work, pid_t parent) {
  end_with_parent(parent);
  ::signal(SIGTERM, SIG_DFL);
  ::signal(SIGINT, SIG_IGN);  // the parent decides
  const int socket = keep_only(socket_of_parent, kept);
  std::vector<char> request(kLongestRequest);
  while (true) {
    const ssize_t got = ::recv(socket, request.data(), request.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return 0;
    std::string answer;
    try {
      answer = work(root, {request.data(), static_cast<std::size_t>(got)});
    } catch (const std::exception&) {
      answer.clear();
    }
    if (answer.size() > WorkerProcess::kLongestAnswer) answer.resize(WorkerProcess::kLongestAnswer);
    if (answer.empty()) answer = "\n";  // an empty message would be the end
    if (::send(socket, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) return 0;
  }
}

}  // namespace

WorkerProcess::WorkerProcess(KernelTree& fs, std::string name, Work work, int kept)
    : fs_(fs),
      name_("@" + std::move(name)),
      work_(work),
      kept_(kept),
      root_(fs.root().empty() ? "" : std::filesystem::absolute(fs.root()).string()) {
  if (fs.recorded()) return;
  buffer_.resize(kLongestAnswer);
  start();
}

void WorkerProcess::start() noexcept {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    state_ = State::lost;
    return;
  }
  const Descriptor socket_of_child(ends[1]);
  socket_ = Descriptor(ends[0]);
  const pid_t parent = ::getpid();
  child_ = fork_child([&] { return serve(socket_of_child.get(), kept_, root_, work_, parent); });
  state_ = State::idle;
  if (!child_) lose();
}

bool WorkerProcess::start_again() noexcept {
  if (fs_.recorded() || state_ != State::lost) return false;
  start();
  loss_reported_ = state_ == State::lost;  // the same loss goes on
  return state_ == State::idle;
}

WorkerProcess::~WorkerProcess() {
  lose();
}

bool WorkerProcess::ask(std::string_view request) noexcept {
  if (fs_.recorded() || state_ != State::idle || request.empty() || request.size() > kLongestRequest) return false;
  if (::send(socket_.get(), request.data(), request.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno != EAGAIN && errno != EINTR) lose();
    return false;
  }
  state_ = State::busy;
  return true;
}

std::string_view WorkerProcess::answer() noexcept {
  if (fs_.recorded()) {
    replayed_ = fs_.fact(name_, [] { return std::string(); });
    return replayed_;
  }
  const std::string_view text = receive();
  if (fs_.recording()) static_cast<void>(fs_.fact(name_, [text] { return std::string(text); }));
  return text;
}

std::string_view WorkerProcess::answer_within(std::chrono::milliseconds limit) noexcept {
  pollfd waited{.fd = socket_.get(), .events = POLLIN, .revents = 0};
  if (state_ == State::busy) static_cast<void>(::poll(&waited, 1, static_cast<int>(limit.count())));
  return answer();
}

std::string_view WorkerProcess::receive() noexcept {
  if (state_ != State::busy) return {};
  const ssize_t got = ::recv(socket_.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  if (got <= 0) {
    lose();
    return {};
  }
  state_ = State::idle;
  return {buffer_.data(), static_cast<std::size_t>(got)};
}

// Not waited for where it hangs inside the kernel: then nothing but the end of that call lets it go.
void WorkerProcess::lose() noexcept {
  state_ = State::lost;
  socket_.close();
  constexpr std::chrono::milliseconds kForItsEnd{10};
  child_.kill(kForItsEnd);
  child_ = {};
}

}  // namespace reveal
