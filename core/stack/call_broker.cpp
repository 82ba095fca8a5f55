#include "core/stack/call_broker.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <utility>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/request_socket.h"

namespace reveal {
namespace {

constexpr int kCallPatienceMs = 10'000;  // longer than the answering side lets anything hang

}  // namespace

/// Attaching and reading happen in two threads, which ask in the order in which they come. By a mutex, the one that
/// detaches many links would have its next turn before the one that waits to read.
class CallBroker::Turn {
 public:
  explicit Turn(CallBroker& broker) : broker_(broker) {
    const std::uint64_t own = broker_.turns_++;
    for (std::uint64_t now = broker_.turn_; now != own; now = broker_.turn_) broker_.turn_.wait(now);
  }
  ~Turn() {
    ++broker_.turn_;
    broker_.turn_.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  CallBroker& broker_;
};

CallBroker::CallBroker(Descriptor socket, std::size_t places) : socket_(std::move(socket)) {
  const auto answer = ask<CallAnswer>({.what = CallRequest::open, .count = places});
  const std::string why(answer.why.data(), ::strnlen(answer.why.data(), answer.why.size()));
  if (answer.error != 0) {
    throw Unavailable((why.empty() ? std::strerror(answer.error) : why) + "; under Slurm it needs Linux 6.6 or newer");
  }
  if (!opened_.counts || !opened_.steps) throw Unavailable("there is no room for another open file");
  opened_.multi = answer.multi != 0;
  opened_.costs = answer.costs;
}

CallBroker::Linked CallBroker::prepare(bool timed) {
  const auto answer = ask<CallAnswer>({.what = CallRequest::prepare, .count = timed ? 1U : 0U});
  return {.link = answer.link, .error = answer.error, .since_ns = answer.since_ns[0]};
}

std::vector<CallBroker::Linked> CallBroker::attach(int file, pid_t pid, std::span<const AskedPoint> points) {
  std::vector<Linked> linked;
  linked.reserve(points.size());
  while (!points.empty()) {
    const std::span<const AskedPoint> now = points.first(std::min(points.size(), CallQuestion::kMostPoints));
    CallQuestion question{.what = CallRequest::attach, .pid = pid, .count = now.size()};
    std::copy(now.begin(), now.end(), question.points.begin());
    const auto answer = ask<CallAnswer>(question, file);
    for (std::size_t i = 0; i < now.size(); ++i) {
      linked.push_back({.link = answer.link + i,
                        .error = answer.error != 0 ? answer.error : answer.errors[i],
                        .since_ns = answer.since_ns[i]});
    }
    points = points.subspan(now.size());
  }
  return linked;
}

void CallBroker::reset(std::size_t first, std::size_t count) {
  static_cast<void>(ask<CallAnswer>({.what = CallRequest::reset, .count = count, .index = first}));
}

void CallBroker::forget(std::size_t index) {
  static_cast<void>(ask<CallAnswer>({.what = CallRequest::forget, .index = index}));
}

std::map<std::size_t, std::int64_t> CallBroker::pending() {
  const auto answer = ask<PendingCalls>({.what = CallRequest::pending});
  std::map<std::size_t, std::int64_t> begun;
  for (std::size_t index = 0; index < answer.begun_ns.size(); ++index) {
    if (answer.begun_ns[index] != 0) begun.emplace(index, answer.begun_ns[index]);
  }
  return begun;
}

void CallBroker::detach(std::span<const std::uint64_t> links) noexcept {
  try {
    const std::size_t most = opened_.multi ? CallQuestion::kMostLinks : 1;
    while (!links.empty()) {
      const std::span<const std::uint64_t> now = links.first(std::min(links.size(), most));
      CallQuestion question{.what = CallRequest::detach, .count = now.size()};
      std::copy(now.begin(), now.end(), question.links.begin());
      static_cast<void>(ask<CallAnswer>(question));
      links = links.subspan(now.size());
    }
  } catch (const std::exception&) {
    return;  // no process is left that could have attached probes
  }
}

void CallBroker::hang_up() noexcept {
  ::shutdown(socket_.get(), SHUT_RDWR);
}

template <typename Answer>
Answer CallBroker::ask(CallQuestion question, int file) {
  const Turn turn(*this);
  Answer answer;
  MessageFiles files;
  pollfd ready{socket_.get(), POLLIN, 0};
  if (!Message<CallQuestion>(&question).send(socket_.get(), std::span(&file, file >= 0 ? 1 : 0)) ||
      ::poll(&ready, 1, kCallPatienceMs) <= 0 ||
      Message<Answer>(&answer).receive(socket_.get(), files) != Message<Answer>::Got::message) {
    hang_up();  // a process that is only slow detaches everything, too
    throw Unavailable("the broker's counting process has ended");
  }
  if (question.what == CallRequest::open) {
    opened_.counts = std::move(files[0]);
    opened_.steps = std::move(files[1]);
  }
  if constexpr (requires { answer.cpu_ns; }) cpu_ns_ = answer.cpu_ns;
  return answer;
}

}  // namespace reveal
