#include "wrapper/signal_witness.h"

#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "wrapper/process.h"

namespace reveal {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kRemembered = 200ms;  // longer than any sender needs for the processes of a node

struct Record {
  int signal;
  pid_t sender;
};

// All signals are blocked here as in the parent.
int stand_by(int writer, pid_t parent) {
  ::prctl(PR_SET_NAME, "reveal-witness", 0, 0, 0);  // so that the collector does not take it for the job
  end_with_parent(parent);
  // It must keep neither the job's streams nor a lock of the wrapper alive.
  if (::dup2(writer, STDIN_FILENO) < 0) return 0;
  if (::close_range(1, ~0U, 0) != 0) {
    const int most = most_descriptors();
    for (int fd = 1; fd < most; ++fd) ::close(fd);
  }
  sigset_t all;
  sigfillset(&all);
  while (true) {
    siginfo_t signal{};
    if (::sigwaitinfo(&all, &signal) <= 0) continue;
    const Record record{signal.si_signo, signal.si_pid};
    if (::write(STDIN_FILENO, &record, sizeof record) < 0 && errno == EPIPE) return 0;
  }
}

}  // namespace

SignalWitness::SignalWitness() noexcept {
  Pipe pipe = open_pipe(O_NONBLOCK);
  if (!pipe.read) return;
  const pid_t parent = ::getpid();
  child_ = fork_child([&] { return stand_by(pipe.write.get(), parent); });
  reader_ = std::move(pipe.read);
}

SignalWitness::~SignalWitness() {
  if (child_.signal(SIGKILL)) child_.wait();  // otherwise it ends with us
}

bool SignalWitness::saw(const siginfo_t& signal, std::chrono::milliseconds limit) noexcept try {
  if (!child_) return false;
  const auto deadline = Clock::now() + limit;
  while (true) {
    Record record{};
    while (::read(reader_.get(), &record, sizeof record) == sizeof record) {
      sightings_.push_back({record.signal, record.sender, Clock::now()});
    }
    std::erase_if(sightings_, [](const Sighting& each) { return Clock::now() - each.time > kRemembered; });
    for (auto each = sightings_.begin(); each != sightings_.end(); ++each) {
      if (each->signal != signal.si_signo || each->sender != signal.si_pid) continue;
      sightings_.erase(each);
      return true;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left <= 0ms) return false;
    pollfd readable{reader_.get(), POLLIN, 0};
    // The other end is closed: the witness was killed.
    if (::poll(&readable, 1, static_cast<int>(left.count())) > 0 && (readable.revents & POLLIN) == 0) return false;
  }
} catch (const std::bad_alloc&) {
  return false;
}

}  // namespace reveal
