// Counts calls for who may not: in a process that the broker of a Slurm job starts when it is asked for it. That
// process has the identity of the job's user and two capabilities (kCallCapabilities). It reads structures of fixed
// size, numbers in /proc and sixteen bytes of code, and no text of the user's; what it cannot know for certain it
// refuses. What it attached ends with it, and it ends with the broker, with the last one who could ask, and when nobody
// asks.
#pragma once

#include <cstddef>
#include <string>

namespace reveal {

/// What a sampler may ask for, whoever speaks for it.
struct CallLimits {
  std::size_t links = 4096;
  /// Seconds of attaching at once, and in a second later: meanwhile, no process of the node can begin another one. The
  /// first is enough for a node full of ranks.
  double attaching = 20, attaching_later = .02;
  double requests = 5000, requests_later = 200;
  /// Whoever asks keeps the budget of what counting costs the job, and asks every second; the longest interval of a
  /// site is a minute.
  int silence_ms = 300'000;
};

/// Answers the questions that come (call_requests.h) until nobody asks any more; 0. `job`: Slurm's number of it.
int serve_call_requests(int socket, const std::string& job, const CallLimits& limits = {});

}  // namespace reveal
