#include "bench/ring.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <vector>

namespace reveal::bench {
namespace {

constexpr int kConnectSeconds = 60;  // ranks are started by hand or by a scheduler, not at the same moment
constexpr int kIdleSeconds = 300;    // a rank that is silent for so long has died with its machine

struct Greeting {
  std::int32_t rank;
  std::int32_t port;
};
struct Successor {
  std::uint32_t address;  // network order
  std::int32_t port;
};

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

sockaddr_in resolve(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    throw std::runtime_error(host + ": " + ::gai_strerror(error));
  }
  sockaddr_in address{};
  std::memcpy(&address, found->ai_addr, sizeof address);
  ::freeaddrinfo(found);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

int connect_to(const sockaddr_in& address) {
  for (int attempt = 0; attempt < kConnectSeconds * 10; ++attempt) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
    ::close(fd);
    const timespec step{0, 100'000'000};
    ::nanosleep(&step, nullptr);
  }
  fail("no connection to port " + std::to_string(ntohs(address.sin_port)));
}

int accept_from(int listener) {
  pollfd waiting{listener, POLLIN, 0};
  if (::poll(&waiting, 1, kConnectSeconds * 1000) <= 0) throw std::runtime_error("not all ranks came within 60 s");
  const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) fail("accept");
  return fd;
}

template <typename T>
void send_whole(int fd, const T& value) {
  if (::send(fd, &value, sizeof value, MSG_NOSIGNAL) != sizeof value) fail("send");
}

template <typename T>
T receive_whole(int fd) {
  T value{};
  if (::recv(fd, &value, sizeof value, MSG_WAITALL) != sizeof value) fail("a rank has gone");
  return value;
}

void prepare(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

}  // namespace

int listen_on(const std::string& host, int& port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (!host.empty()) address = resolve(host, port);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || ::listen(fd, 128) != 0) {
    fail("cannot listen on port " + std::to_string(port));
  }
  socklen_t size = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  port = ntohs(address.sin_port);
  return fd;
}

Ring::Ring(int rank, int ranks, const std::string& master_host, int master_port, int listener)
    : rank_(rank), ranks_(ranks) {
  if (ranks == 1) return;
  int own_port = 0;
  const int own = listen_on("", own_port);
  Successor successor{};
  if (rank == 0) {
    if (listener < 0) listener = listen_on(master_host, master_port);
    std::vector<int> sockets(static_cast<std::size_t>(ranks), -1);
    std::vector<Successor> places(static_cast<std::size_t>(ranks));
    places[0] = {resolve(master_host, 0).sin_addr.s_addr, own_port};
    for (int come = 1; come < ranks; ++come) {
      const int fd = accept_from(listener);
      const auto greeting = receive_whole<Greeting>(fd);
      if (greeting.rank <= 0 || greeting.rank >= ranks || sockets[static_cast<std::size_t>(greeting.rank)] >= 0) {
        throw std::runtime_error("rank " + std::to_string(greeting.rank) + " came twice or is not one of ours");
      }
      sockaddr_in peer{};
      socklen_t size = sizeof peer;
      ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size);
      sockets[static_cast<std::size_t>(greeting.rank)] = fd;
      places[static_cast<std::size_t>(greeting.rank)] = {peer.sin_addr.s_addr, greeting.port};
    }
    for (std::size_t each = 1; each < places.size(); ++each) {
      send_whole(sockets[each], places[(each + 1) % places.size()]);
      ::close(sockets[each]);
    }
    ::close(listener);
    successor = places[1];
  } else {
    const int fd = connect_to(resolve(master_host, master_port));
    send_whole(fd, Greeting{rank, own_port});
    successor = receive_whole<Successor>(fd);
    ::close(fd);
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = successor.address;
  address.sin_port = htons(static_cast<std::uint16_t>(successor.port));
  next_ = connect_to(address);
  previous_ = accept_from(own);
  ::close(own);
  prepare(next_);
  prepare(previous_);
}

Ring::~Ring() {
  if (next_ >= 0) ::close(next_);
  if (previous_ >= 0) ::close(previous_);
}

// Sends and receives at once: with blocking calls a ring in which every member sends first stands still when the chunks
// outgrow the socket buffers.
void Ring::exchange(std::span<const float> out, std::span<float> in) {
  const auto* send_at = reinterpret_cast<const char*>(out.data());
  auto* receive_at = reinterpret_cast<char*>(in.data());
  std::size_t to_send = out.size_bytes();
  std::size_t to_receive = in.size_bytes();
  while (to_send > 0 || to_receive > 0) {
    pollfd ready[2] = {{to_send > 0 ? next_ : -1, POLLOUT, 0}, {to_receive > 0 ? previous_ : -1, POLLIN, 0}};
    const int count = ::poll(ready, 2, kIdleSeconds * 1000);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw std::runtime_error("a rank has been silent for 300 s");
    if (ready[0].revents != 0) {
      const ssize_t sent = ::send(next_, send_at, to_send, MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN && errno != EINTR) fail("the next rank has gone");
      if (sent > 0) {
        send_at += sent;
        to_send -= static_cast<std::size_t>(sent);
      }
    }
    if (ready[1].revents != 0) {
      const ssize_t received = ::recv(previous_, receive_at, to_receive, 0);
      if (received == 0) throw std::runtime_error("the previous rank has gone");
      if (received < 0 && errno != EAGAIN && errno != EINTR) fail("the previous rank has gone");
      if (received > 0) {
        receive_at += received;
        to_receive -= static_cast<std::size_t>(received);
      }
    }
  }
}

void Ring::all_reduce(std::span<float> values) {
  if (ranks_ == 1) return;
  const auto ranks = static_cast<std::size_t>(ranks_);
  const auto rank = static_cast<std::size_t>(rank_);
  const std::size_t length = (values.size() + ranks - 1) / ranks;
  const auto chunk = [&](std::size_t index) {
    const std::size_t begin = std::min(index % ranks * length, values.size());
    return values.subspan(begin, std::min(length, values.size() - begin));
  };
  std::vector<float> incoming(length);
  for (std::size_t step = 0; step + 1 < ranks; ++step) {
    const std::span<float> sum = chunk(rank + 2 * ranks - step - 1);
    const std::span<float> part(incoming.data(), sum.size());
    exchange(chunk(rank + ranks - step), part);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  for (std::size_t step = 0; step + 1 < ranks; ++step) {
    exchange(chunk(rank + 1 + ranks - step), chunk(rank + ranks - step));
  }
}

}  // namespace reveal::bench
