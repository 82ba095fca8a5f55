// A ring of processes over TCP and the all-reduce that distributed training spends its communication in.
#pragma once

#include <span>
#include <string>

namespace reveal::bench {

class Ring {
 public:
  /// Rank 0 is the meeting point: it accepts on `listener` (or on master's port, if -1), sends every rank the address
  /// of its successor, and the ring is closed. Throws std::runtime_error.
  Ring(int rank, int ranks, const std::string& master_host, int master_port, int listener);
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  /// Every rank ends up with the sum over all ranks: reduce-scatter, then all-gather, each in ranks - 1 steps.
  void all_reduce(std::span<float> values);

 private:
  void exchange(std::span<const float> out, std::span<float> in);

  int rank_, ranks_;
  int next_ = -1, previous_ = -1;
};

/// Listens on the host's port (0: any free one); the socket, and the port through `port`.
int listen_on(const std::string& host, int& port);

}  // namespace reveal::bench
