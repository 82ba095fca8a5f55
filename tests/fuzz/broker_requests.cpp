// Messages to the two processes that answer a sampler with privileges. For a job without control groups nothing is
// granted, no descriptor stays open, and no message has two answers.
//
// Input: a byte for the process (odd: the call server), then messages: a byte with the number of files that come along
// and the first of them, a byte with the length, the bytes. The highest bit of the first one: zeros are behind them, as
// many as a question to the call server lacks.
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "core/pmu/perf_broker.h"
#include "core/stack/call_requests.h"
#include "core/stack/call_server.h"
#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/request_socket.h"
#include "target.h"

namespace reveal::fuzz::broker_requests {
namespace {

constexpr std::size_t kMostMessages = 64;
constexpr std::size_t kMostFiles = 3;  // one more than a message may have
constexpr unsigned kFilledUp = 0x80;
constexpr const char* kJob = "4711";  // no machine has control groups of this job

void send_bytes(int socket, std::string_view bytes, std::span<const int> files) {
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostFiles * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!files.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(files.size_bytes());
    cmsghdr* const head = CMSG_FIRSTHDR(&header);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(files.size_bytes());
    std::memcpy(CMSG_DATA(head), files.data(), files.size_bytes());
  }
  static_cast<void>(::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT));
}

/// Sends what the input has, returns how many messages that were.
std::size_t send_all(std::string_view input, int socket) {
  const std::array<Descriptor, 3> pool = {Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)),
                                          Descriptor(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)),
                                          Descriptor(::open("/sys/fs/cgroup", O_RDONLY | O_DIRECTORY | O_CLOEXEC))};
  std::size_t sent = 0;
  for (; input.size() >= 2 && sent < kMostMessages; ++sent) {
    const auto head = static_cast<unsigned char>(input[0]);
    const std::size_t length = static_cast<unsigned char>(input[1]);
    std::string bytes(input.substr(2, length));
    if ((head & kFilledUp) != 0) bytes.resize(sizeof(CallQuestion));
    std::array<int, kMostFiles> files{};
    std::size_t count = 0;
    for (std::size_t i = 0; i < (head & 3U); ++i) {
      const Descriptor& file = pool[(((head & ~kFilledUp) >> 2U) + i) % pool.size()];
      if (file) files[count++] = file.get();
    }
    send_bytes(socket, bytes, std::span(files).first(count));
    input.remove_prefix(std::min(input.size(), 2 + length));
  }
  return sent;
}

/// The lowest free number: open descriptors that were not closed raise it.
int next_descriptor() {
  return Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)).get();
}

void run(std::string_view input) {
  if (input.empty()) return;
  const bool calls = (static_cast<unsigned char>(input[0]) & 1U) != 0;
  const int before = next_descriptor();
  struct sigaction alarms {};
  ::sigaction(SIGALRM, nullptr, &alarms);  // the fuzzer's own
  {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return;
    const Descriptor server(ends[0]);
    const Descriptor client(ends[1]);
    const std::size_t sent = send_all(input.substr(1), client.get());
    ::shutdown(client.get(), SHUT_WR);
    if (calls) {
      static_cast<void>(serve_call_requests(server.get(), kJob, {.silence_ms = 1000}));
    } else {
      serve_perf_requests(server.get(), kJob);
    }
    std::size_t answers = 0;
    for (;; ++answers) {
      CallAnswer answer;
      MessageFiles files;
      using Got = Message<CallAnswer>::Got;
      const Got got = Message<CallAnswer>(&answer).receive(client.get(), files);
      if (got == Got::nothing) break;
      require(calls || !files[0], "a job without control groups gets no counter");
    }
    require(answers <= sent, "a message has at most one answer");
  }
  ::sigaction(SIGALRM, &alarms, nullptr);
  require(next_descriptor() == before, "no descriptor stays open");
}

const RegisteredTarget kTarget{{"broker_requests", run}};

}  // namespace
}  // namespace reveal::fuzz::broker_requests
