// Programs that use memory in the ways that the guest of memory.sh examines; pages are small unless said otherwise.
//
//   memory_faults sweep MEGABYTES SECONDS      writes to each page in turn
//   memory_faults chase MEGABYTES MILLIONS     follows so many random pointers through huge pages: its run time is
//                                              the time of the accesses
//   memory_faults visit MEGABYTES SECONDS      sweeps, and takes its orders in turn from a process on each NUMA node:
//                                              the kernel wakes it near the process that sent the order
//   memory_faults fragment MEGABYTES SECONDS   leaves each second page free, then asks for huge pages, again and again
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
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
    byte = static_cast<char>(byte + 1);
  }
}

void sweep(std::span<char> memory, Clock::time_point end) {
  while (Clock::now() < end) write_pages(memory);
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

struct Orderer {
  int ask = -1;    // to it
  int order = -1;  // from it
};

Orderer orderer_on(int node) {
  int ask[2];
  int order[2];
  if (::pipe(ask) != 0 || ::pipe(order) != 0) std::exit(1);
  if (::fork() == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const cpu_set_t cpus = cpus_of_node(node);
    if (::sched_setaffinity(0, sizeof cpus, &cpus) != 0) std::exit(1);
    char token = 0;
    while (::read(ask[0], &token, 1) == 1 && ::write(order[1], &token, 1) == 1) {
    }
    std::exit(0);
  }
  return {ask[1], order[0]};
}

void visit(std::span<char> memory, Clock::time_point end) {
  constexpr std::chrono::milliseconds kStay(300);
  const Orderer orderers[] = {orderer_on(0), orderer_on(1)};
  for (std::size_t turn = 0; Clock::now() < end; ++turn) {
    const Orderer& orderer = orderers[turn % 2];
    char token = 0;
    if (::write(orderer.ask, &token, 1) != 1 || ::read(orderer.order, &token, 1) != 1) std::exit(1);
    sweep(memory, std::min(end, Clock::now() + kStay));
  }
}

/// A random half of the filling's pages is free in turn: hardly a free page has free neighbours when huge pages are
/// asked for, and the kernel has to move pages first. A fixed half would lie together after the first time.
void fragment(std::span<char> filling, Clock::time_point end) {
  const std::size_t pages = filling.size() / kPage;
  std::vector<bool> is_free(pages);
  std::mt19937 draw(17);
  write_pages(filling);
  unsigned rounds = 0;
  for (; Clock::now() < end; ++rounds) {
    for (std::size_t page = 0; page < pages; ++page) {
      is_free[page] = draw() % 2 == 0;
      if (is_free[page]) static_cast<void>(::madvise(filling.data() + page * kPage, kPage, MADV_DONTNEED));
    }
    const std::span<char> huge = mapped(filling.size() / kMega / 3, MADV_NORMAL);
    write_pages(huge);
    ::munmap(huge.data(), huge.size());
    for (std::size_t page = 0; page < pages; ++page) {
      if (is_free[page]) write_pages(filling.subspan(page * kPage, kPage));
    }
  }
  std::printf("%u rounds\n", rounds);
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
  else if (mode == "visit")
    visit(memory, end);
  else if (mode == "fragment")
    fragment(memory, end);
  else
    return 2;
  return 0;
}
