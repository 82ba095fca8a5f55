// Two jobs that do the same piece of work again and again, and print when each was done (ns of CLOCK_MONOTONIC), until
// they are killed: the cost of a profiler beside them.
//
//   steady_work memory|communication
//
// memory: two threads, a = b + s * c over arrays far larger than the caches (the triad of STREAM), meeting after each
// pass, so that the slower one counts. communication: two processes, 4 KiB there and back over TCP on one machine.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
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
constexpr int kTripsTogether = 300;

void done() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  std::printf("%lld\n", static_cast<long long>(std::chrono::nanoseconds(now).count()));
  std::fflush(stdout);
}

[[noreturn]] void triads() {
  std::barrier meeting(2);
  const auto work = [&](bool tells) {
    std::vector<double> a(kElements, 0), b(kElements, 1), c(kElements, 2);
    for (int pass = 0;; ++pass) {
      const double scale = 1.0 / (pass + 1);
      for (std::size_t i = 0; i < kElements; ++i) a[i] = b[i] + scale * c[i];
      a.swap(b);
      if (b[kElements / 2] < 0) std::abort();  // used, so that it is worked out
      meeting.arrive_and_wait();
      if (tells) done();
    }
  };
  std::thread other([&] { work(false); });
  work(true);
  std::abort();
}

void must(bool succeeded) {
  if (succeeded) return;
  std::perror("steady_work");
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

[[noreturn]] void round_trips() {
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
    while (true) {
      receive_all(socket, message.data(), message.size());
      send_all(socket, message.data(), message.size());
    }
  }
  const int socket = ::accept(listener, nullptr, nullptr);
  must(socket >= 0);
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  while (true) {
    for (int i = 0; i < kTripsTogether; ++i) {
      send_all(socket, message.data(), message.size());
      receive_all(socket, message.data(), message.size());
    }
    done();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  if (std::string_view(argv[1]) == "memory") triads();
  round_trips();
}
