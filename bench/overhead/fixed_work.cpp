// Two jobs that do a fixed amount of work and say how long it took: what a profiler beside them costs.
//
//   fixed_work memory|communication AMOUNT     an amount of 1 takes about a second
//
// memory: two threads, a = b + s * c over arrays far larger than the caches (the triad of STREAM), meeting after each
// pass, so that the slower one counts. communication: two processes, 4 KiB there and back over TCP on one machine.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t kElements = 8 << 20;  // 3 x 64 MiB per thread
constexpr int kPassesPerAmount = 40;
constexpr int kTripsPerAmount = 30'000;

void triads(int passes) {
  std::barrier meeting(2);
  const auto work = [&] {
    std::vector<double> a(kElements, 0), b(kElements, 1), c(kElements, 2);
    for (int pass = 0; pass < passes; ++pass) {
      const double scale = 1.0 / (pass + 1);
      for (std::size_t i = 0; i < kElements; ++i) a[i] = b[i] + scale * c[i];
      a.swap(b);
      meeting.arrive_and_wait();
    }
    return b[kElements / 2];
  };
  double result = 0;
  std::thread other([&] { static_cast<void>(work()); });
  result = work();
  other.join();
  if (result < 0) std::abort();  // used, so that it is worked out
}

void must(bool done) {
  if (done) return;
  std::perror("fixed_work");
  std::exit(1);
}

void send_all(int socket, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t sent = ::send(socket, data, size, 0);
    must(sent > 0);
    data += sent;
    size -= static_cast<std::size_t>(sent);
  }
}

void receive_all(int socket, char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t got = ::recv(socket, data, size, 0);
    must(got > 0);
    data += got;
    size -= static_cast<std::size_t>(got);
  }
}

void round_trips(int count) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  must(::bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0 && ::listen(listener, 1) == 0);
  must(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  std::array<char, 4096> message{};
  const int on = 1;
  const pid_t peer = ::fork();
  if (peer == 0) {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    must(::connect(socket, reinterpret_cast<sockaddr*>(&address), size) == 0);
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    for (int i = 0; i < count; ++i) {
      receive_all(socket, message.data(), message.size());
      send_all(socket, message.data(), message.size());
    }
    ::_exit(0);
  }
  const int socket = ::accept(listener, nullptr, nullptr);
  must(socket >= 0);
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  for (int i = 0; i < count; ++i) {
    send_all(socket, message.data(), message.size());
    receive_all(socket, message.data(), message.size());
  }
  ::waitpid(peer, nullptr, 0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const double amount = std::atof(argv[2]);
  const auto begin = std::chrono::steady_clock::now();
  if (std::string_view(argv[1]) == "memory") {
    triads(static_cast<int>(amount * kPassesPerAmount));
  } else {
    round_trips(static_cast<int>(amount * kTripsPerAmount));
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("seconds: %.4f\n", took.count());
  return 0;
}
