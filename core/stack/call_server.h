// Counts calls for a process without the privilege: the broker of a Slurm job starts the server on the first request.
// That process has the identity of the job's user and two capabilities (kCallCapabilities). It reads structures of
// fixed size, numbers in /proc, sixteen bytes of code and, where the kernel is to change a mark's counter, the names of
// the file's sections; it refuses requests that it cannot verify. Its probes end with it, and it ends with the broker,
// with its last client, without requests, and by SIGALRM, for which no file system that hangs can hold it.
#pragma once

#include <cstddef>
#include <string>

namespace reveal {

/// The limits of a sampler's requests.
struct CallLimits {
  std::size_t links = 4096;
  /// Seconds of attaching, and of detaching later, at once, and in a second later: meanwhile, no process of the node
  /// can begin another one. The first is enough for a node full of ranks.
  double attaching = 20, attaching_later = .02;
  double requests = 5000, requests_later = 200;
  /// The client keeps the budget for the cost of counting, and sends a request every second; the longest interval of a
  /// site is a minute.
  int silence_ms = 300'000;
  unsigned with_a_file = 5;  // seconds for a request that comes with one, or that prepares for such a one
};

/// Answers requests (call_requests.h) until no client is left; returns 0. `job`: Slurm's number of it.
int serve_call_requests(int socket, const std::string& job, const CallLimits& limits = {});

}  // namespace reveal
