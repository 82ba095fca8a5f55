// The client of the call server, without a privilege to count calls: it sends the requests of call_requests.h.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/stack/call_requests.h"
#include "hdf5schema/basics/descriptor.h"

namespace reveal {

class CallBroker {
 public:
  /// Throws Unavailable.
  CallBroker(Descriptor socket, std::size_t places);

  struct Opened {
    Descriptor counts, steps;
    bool multi = false;
    CallCosts costs;
  };
  [[nodiscard]] Opened& opened() noexcept { return opened_; }
  /// Processor time of the server until its last answer.
  [[nodiscard]] std::int64_t cpu_ns() const noexcept { return cpu_ns_; }

  // Each of these throws Unavailable when the server does not answer any more: then nothing is attached either.
  struct Linked {
    std::uint64_t link = 0;
    int error = 0;
    std::int64_t since_ns = 0;  // CLOCK_MONOTONIC
  };
  /// See CallCounters::prepare().
  [[nodiscard]] Linked prepare(bool timed);
  /// One for each point, in their order.
  [[nodiscard]] std::vector<Linked> attach(int file, pid_t pid, std::span<const AskedPoint> points);
  void reset(std::size_t first, std::size_t count);
  void forget(std::size_t index);
  [[nodiscard]] std::map<std::size_t, std::int64_t> pending();

  void detach(std::span<const std::uint64_t> links) noexcept;

  /// Ends the server, and with it detaches everything; from any thread, also while another one waits for an answer.
  void hang_up() noexcept;

 private:
  class Turn;
  template <typename Answer>
  [[nodiscard]] Answer ask(CallQuestion question, int file = -1);

  std::atomic<std::uint64_t> turns_ = 0, turn_ = 0;  // those that were given out, and the one that it is
  Descriptor socket_;
  Opened opened_;
  std::atomic<std::int64_t> cpu_ns_ = 0;
};

}  // namespace reveal
