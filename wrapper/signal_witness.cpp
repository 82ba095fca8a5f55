#include "wrapper/signal_witness.h"

#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string_view>

namespace reveal {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kRemembered = 200ms;  // longer than any sender needs for the processes of a node

struct Record {
  int signal;
  pid_t sender;
};

/// Some senders choose processes by their command line (pkill -f). With the words of the command behind a name of its
/// own, the witness is sent signals for the command, but none for reveal-run: those are forwarded.
void take_words_of(char* const* command) noexcept {
  constexpr std::string_view kName = "witness";
  char* const own = program_invocation_name;  // the kernel has put all words into one place, one behind the other
  if (own == nullptr || command[0] == nullptr || own >= command[0]) return;
  char* const* last = command;
  while (last[1] != nullptr) ++last;
  const auto size = static_cast<std::size_t>(*last + std::strlen(*last) + 1 - command[0]);
  const auto room = static_cast<std::size_t>(command[0] - own);
  const std::size_t name = std::min(kName.size(), room - 1);
  std::memmove(own + name + 1, command[0], size);
  std::memcpy(own, kName.data(), name);
  own[name] = '\0';
  std::memset(own + name + 1 + size, '\0', room - name - 1);
}

// All signals are blocked here as in the parent.
int stand_by(int writer, pid_t parent, char* const* command) {
  take_words_of(command);
  ::prctl(PR_SET_NAME, "reveal-witness", 0, 0, 0);  // so that the collector does not take it for the job
  end_with_parent(parent);
  // It must keep neither the job's streams nor a lock of the wrapper alive.
  if (::dup2(writer, STDIN_FILENO) < 0) return 0;
  close_descriptors_from(STDOUT_FILENO);
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

SignalWitness::SignalWitness(char* const* command) noexcept {
  Pipe pipe = open_pipe(O_NONBLOCK);
  if (!pipe.read) return;
  const pid_t parent = ::getpid();
  child_ = fork_child([&] { return stand_by(pipe.write.get(), parent, command); });
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
