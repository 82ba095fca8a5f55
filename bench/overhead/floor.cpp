// The floor of a node collector: reads given kernel texts at given rates, and does nothing with them. No collector that
// reads these files one by one can cost less.
//
//   floor LIST SECONDS     LIST has a line per file: period in ms, "keep" or "open" (for each read), path
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

namespace {

constexpr std::int64_t kTick = 100'000'000;
constexpr std::size_t kKernelPage = 4096;
constexpr std::size_t kLongRecord = 768;

struct Text {
  std::int64_t every = 1;  // ticks
  bool keep = true;
  std::string path;
  int fd = -1;
  std::size_t size = 0;  // when it was read last
};

// Reads a whole text in as few reads as possible: the kernel returns at most a page of records at once. No read
// requests more bytes than needed: for files below /proc/sys the kernel makes, and clears, a buffer of the requested
// size.
void read_all(Text& text, std::vector<char>& buffer) {
  if (text.fd < 0) text.fd = ::open(text.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (text.fd < 0) return;
  const std::size_t expected = std::min(buffer.size(), text.size + kKernelPage);
  std::size_t size = 0;
  while (size < buffer.size()) {
    const std::size_t left = size < expected ? expected - size : kKernelPage;
    const std::size_t most = std::min(left, buffer.size() - size);
    const ssize_t got = ::pread(text.fd, buffer.data() + size, most, static_cast<off_t>(size));
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
    if (size + kLongRecord < kKernelPage) break;
  }
  text.size = size;
  if (text.keep) return;
  ::close(text.fd);
  text.fd = -1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::vector<Text> texts;
  std::ifstream list(argv[1]);
  std::int64_t milliseconds = 0;
  std::string how;
  std::string path;
  while (list >> milliseconds >> how >> std::ws && std::getline(list, path)) {
    texts.push_back({std::max<std::int64_t>(1, milliseconds * 1'000'000 / kTick), how == "keep", path});
  }
  std::vector<char> buffer(1 << 20);
  timespec next{};
  ::clock_gettime(CLOCK_MONOTONIC, &next);
  const std::int64_t ticks = static_cast<std::int64_t>(std::atof(argv[2]) * 1e9) / kTick;
  for (std::int64_t tick = 0; tick < ticks; ++tick) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      // A good collector does not read all texts of one second in the same tick.
      if ((tick + static_cast<std::int64_t>(i)) % texts[i].every == 0) read_all(texts[i], buffer);
    }
    next.tv_nsec += kTick;
    if (next.tv_nsec >= 1'000'000'000) {
      next.tv_nsec -= 1'000'000'000;
      ++next.tv_sec;
    }
    ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, nullptr);
  }
  return 0;
}
