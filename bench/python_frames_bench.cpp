// The cost of reading the position of the main thread of a Python process: microseconds and system calls of one look,
// at a program that waits in a library fifteen frames deep, and at one that runs.
//   build/release/bin/python_frames_bench
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "core/python/interpreter.h"
#include "core/python/main_thread.h"
#include "hdf5schema/basics/clocks.h"

namespace reveal {
namespace {

constexpr const char* kPrograms[][2] = {
    {"waits",
     "import threading\n"
     "def down(n):\n"
     "    threading.Event().wait() if n == 0 else down(n - 1)\n"
     "down(12)\n"},
    {"runs",
     "def one(n): return n + 1\n"
     "def two(n): return one(one(n))\n"
     "while True: two(1)\n"},
};

void measure(const char* name, const char* program) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::execl("/usr/bin/python3", "python3", "-c", program, nullptr);
    ::_exit(127);
  }
  ::usleep(500'000);
  int calls = 0;
  const ReadMemory direct = memory_of(pid);
  const ReadMemory counted = [&](std::span<const MemoryPiece> pieces) {
    ++calls;
    return direct(pieces);
  };
  const std::int64_t begin = read_clock(CLOCK_MONOTONIC);
  const FoundInterpreter found = find_interpreter(pid, counted);
  const std::int64_t search_ns = read_clock(CLOCK_MONOTONIC) - begin;
  if (!found.interpreter) {
    std::printf("%s: not measured, because %s\n", name, found.problem.c_str());
  } else {
    constexpr int kLooks = 20'000;
    MainThread thread(counted, *found.interpreter);
    static_cast<void>(thread.look());
    calls = 0;
    std::map<StackSample::State, int> states;
    std::vector<std::int64_t> each;
    each.reserve(kLooks);
    std::string place;
    for (int i = 0; i < kLooks; ++i) {
      const std::int64_t before = read_clock(CLOCK_MONOTONIC);
      const StackSample stack = thread.look();
      each.push_back(read_clock(CLOCK_MONOTONIC) - before);
      ++states[stack.state];
      if (stack.state == StackSample::State::known) place = place_of(stack.frames);
    }
    std::sort(each.begin(), each.end());
    std::printf("%s: search %.1f ms; a look %.1f us (median; 99 %%: %.1f us), %.1f system calls; %.2f %% unread; %s\n",
                name, static_cast<double>(search_ns) / 1e6, static_cast<double>(each[kLooks / 2]) / 1e3,
                static_cast<double>(each[kLooks * 99 / 100]) / 1e3, static_cast<double>(calls) / kLooks,
                100.0 * (kLooks - states[StackSample::State::known]) / kLooks, place.c_str());
  }
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

}  // namespace
}  // namespace reveal

int main() {
  for (const auto& [name, program] : reveal::kPrograms) reveal::measure(name, program);
}
