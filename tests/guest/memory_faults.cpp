// Programs that use memory in the ways that the guest of memory.sh examines; pages are small unless said otherwise.
//
//   memory_faults sweep MEGABYTES SECONDS      writes to each page in turn
//   memory_faults share MEGABYTES SECONDS      the same with two threads: of a program with one, the kernel's automatic
//                                              NUMA balancing leaves the pages alone that are where it runs
//   memory_faults chase MEGABYTES MILLIONS     follows so many random pointers through huge pages: its run time is
//                                              the time of the accesses
//   memory_faults visit MEGABYTES SECONDS      sweeps, while other processes keep the cpus of each NUMA node busy in
//                                              turn: the kernel moves it where cpus are free
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kMega = 1 << 20;

using Clock = std::chrono::steady_clock;

std::span<char> mapped(std::size_t megabytes, int advice) {
  void* memory =
      ::mmap(nullptr, megabytes * kMega, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("mmap");
    std::exit(1);
  }
  if (advice != MADV_NORMAL) static_cast<void>(::madvise(memory, megabytes * kMega, advice));
  return {static_cast<char*>(memory), megabytes * kMega};
}

void write_pages(std::span<char> memory) {
  for (std::size_t at = 0; at < memory.size(); at += kPage) {
    volatile char& byte = memory[at];
    byte = 1;
  }
}

void sweep(std::span<char> memory, Clock::time_point end) {
  while (Clock::now() < end) write_pages(memory);
}

void share(std::span<char> memory, Clock::time_point end) {
  std::thread other(sweep, memory.first(memory.size() / 2), end);
  sweep(memory.last(memory.size() / 2), end);
  other.join();
}

/// One cycle through a word of each cache line, in random order (Sattolo's algorithm).
void chase(std::span<char> memory, std::uint64_t steps) {
  constexpr std::size_t kLine = 64 / sizeof(std::uint32_t);
  std::uint32_t* words = reinterpret_cast<std::uint32_t*>(memory.data());
  const std::size_t lines = memory.size() / 64;
  std::vector<std::uint32_t> order(lines);
  std::iota(order.begin(), order.end(), 0U);
  std::mt19937 draw(17);
  for (std::size_t i = lines - 1; i > 0; --i) std::swap(order[i], order[draw() % i]);
  for (std::size_t i = 0; i < lines; ++i) words[i * kLine] = order[i];
  std::uint32_t at = 0;
  for (std::uint64_t i = 0; i < steps; ++i) at = words[at * kLine];
  std::printf("%u\n", at);
}

/// The first and the last cpu of a NUMA node with consecutive cpus: "2-3".
cpu_set_t cpus_of_node(int node) {
  std::ifstream file("/sys/devices/system/node/node" + std::to_string(node) + "/cpulist");
  int first = 0;
  int last = 0;
  char dash = 0;
  file >> first;
  if (!(file >> dash >> last)) last = first;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu = first; cpu <= last; ++cpu) CPU_SET(static_cast<unsigned>(cpu), &set);
  return set;
}

/// Keeps the cpus of a NUMA node busy for each second turn.
void keep_busy(int node, Clock::time_point end) {
  constexpr std::chrono::milliseconds kTurn(300);
  const cpu_set_t cpus = cpus_of_node(node);
  for (int i = 0; i < CPU_COUNT(&cpus); ++i) {
    if (::fork() != 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::sched_setaffinity(0, sizeof cpus, &cpus) != 0) std::exit(1);
    for (auto now = Clock::now(); now < end; now = Clock::now()) {
      const auto turn = now.time_since_epoch() / kTurn;
      if (turn % 2 != node) std::this_thread::sleep_until(Clock::time_point((turn + 1) * kTurn));
    }
    std::exit(0);
  }
}

void visit(std::span<char> memory, Clock::time_point end) {
  for (const int node : {0, 1}) keep_busy(node, end);
  sweep(memory, end);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string mode = argv[1];
  const std::size_t megabytes = std::strtoul(argv[2], nullptr, 10);
  const std::uint64_t amount = std::strtoul(argv[3], nullptr, 10);
  const Clock::time_point end = Clock::now() + std::chrono::seconds(amount);
  if (mode == "chase") {
    chase(mapped(megabytes, MADV_HUGEPAGE), amount * 1'000'000);
    return 0;
  }
  const std::span<char> memory = mapped(megabytes, MADV_NOHUGEPAGE);
  if (mode == "sweep")
    sweep(memory, end);
  else if (mode == "share")
    share(memory, end);
  else if (mode == "visit")
    visit(memory, end);
  else
    return 2;
  return 0;
}
