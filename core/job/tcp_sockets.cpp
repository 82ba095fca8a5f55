#include "core/job/tcp_sockets.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <linux/sock_diag.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "core/kernel_text/kernel_words.h"

namespace reveal {
namespace {

// net/tcp_states.h of the kernel. TIME_WAIT has no state worth telling, and sockets that listen have no peer.
enum TcpState : std::uint8_t {
  established = 1,
  syn_sent = 2,
  syn_received = 3,
  fin_wait1 = 4,
  fin_wait2 = 5,
  close_wait = 8,
  last_ack = 9,
  closing = 11
};
constexpr std::uint32_t kStates = 1U << established | 1U << syn_sent | 1U << syn_received | 1U << fin_wait1 |
                                  1U << fin_wait2 | 1U << close_wait | 1U << last_ack | 1U << closing;

constexpr int kAddressFamilies[] = {AF_INET, AF_INET6};

struct Request {
  nlmsghdr header;
  inet_diag_req_v2 body;
};

Request request_of(int family) {
  Request request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.body.sdiag_family = static_cast<std::uint8_t>(family);
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_ext = 1U << (INET_DIAG_INFO - 1);
  request.body.idiag_states = kStates;
  return request;
}

Request request_for_all(int family) {
  Request request = request_of(family);
  request.header.nlmsg_flags |= NLM_F_DUMP;
  return request;
}

IpAddress address_of(int family, const std::uint32_t (&words)[4]) {
  IpAddress address{};
  constexpr std::size_t kIpv4At = 12;
  if (family == AF_INET6) {
    std::memcpy(address.data(), words, address.size());
  } else {
    address[kIpv4At - 2] = address[kIpv4At - 1] = 0xff;
    std::memcpy(address.data() + kIpv4At, words, sizeof words[0]);
  }
  return address;
}

void read_socket(std::span<const std::byte> body, const SeeSocket& see) {
  const auto message = head_of_message<inet_diag_msg>(body);
  if (!message) return;
  TcpSocket socket;
  socket.cookie = std::uint64_t{message->id.idiag_cookie[1]} << 32 | message->id.idiag_cookie[0];
  socket.inode = message->idiag_inode;
  socket.peer = address_of(message->idiag_family, message->id.idiag_dst);
  socket.id = {message->idiag_family, message->id};
  socket.state = message->idiag_state;
  const bool whole = each_attribute(body.subspan(std::min<std::size_t>(body.size(), NLMSG_ALIGN(sizeof *message))),
                                    [&socket](std::uint16_t type, std::span<const std::byte> value) {
                                      if (type == INET_DIAG_INFO) socket.info = value;
                                    });
  if (whole && (!socket.info.empty() || socket.begins())) see(socket);
}

SeeMessage sockets_to(const SeeSocket& see) {
  return [&see](std::uint16_t type, std::span<const std::byte> body) {
    if (type == SOCK_DIAG_BY_FAMILY) read_socket(body, see);
  };
}

}  // namespace

bool TcpSocket::begins() const noexcept {
  return state == syn_sent || state == syn_received;
}

bool TcpSocket::waits() const noexcept {
  return inode == 0 && (state == established || state == close_wait);
}

std::string text_of(const IpAddress& address) {
  constexpr IpAddress kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  constexpr std::size_t kIpv4At = 12;
  const bool is_ipv4 = std::equal(address.begin(), address.begin() + kIpv4At, kMapped.begin());
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(is_ipv4 ? AF_INET : AF_INET6, address.data() + (is_ipv4 ? kIpv4At : 0), text.data(), text.size());
  return text.data();
}

std::string dump_tcp_sockets(int diagnosis, std::span<std::byte> buffer, const SeeSocket& see) {
  for (const int family : kAddressFamilies) {
    const Request request = request_for_all(family);
    std::string problem = receive_dump(diagnosis, std::as_bytes(std::span(&request, 1)), buffer, sockets_to(see));
    if (!problem.empty()) return problem;
  }
  return "";
}

std::string look_up_tcp_socket(int diagnosis, std::span<std::byte> buffer, const TcpSocketId& id,
                               const SeeSocket& see) {
  Request request = request_of(id.family);
  request.body.id = id.ends;
  const int error = receive_answer(diagnosis, std::as_bytes(std::span(&request, 1)), buffer, sockets_to(see));
  const bool ended = error == ENOENT || error == ESTALE;  // ESTALE: another one has its ports by now
  return error == 0 || ended ? "" : std::strerror(error);
}

std::string why_no_tcp_sockets() {
  std::vector<std::byte> buffer(1 << 16);
  for (const int family : kAddressFamilies) {
    const OpenedNetlink opened = open_netlink(NETLINK_SOCK_DIAG);
    if (!opened.socket) return std::string("netlink is refused (") + std::strerror(opened.error) + ')';
    const Request request = request_for_all(family);
    bool listed = false;
    const std::string why = receive_dump(
        opened.socket.get(), std::as_bytes(std::span(&request, 1)), buffer,
        [&listed](std::uint16_t, std::span<const std::byte>) { listed = true; }, 1);
    if (!why.empty() && !listed) return "the kernel does not report the state of TCP connections (" + why + ')';
  }
  return "";
}

bool read_diagnosis(std::span<const std::byte> messages, const SeeSocket& see, std::string& problem) {
  return read_dump(messages, sockets_to(see), problem);
}

bool add_socket_inodes(const std::string& process_folder, std::vector<std::uint32_t>& inodes) {
  constexpr std::string_view kSocket = "socket:[";
  DIR* folder = ::opendir((process_folder + "/fd").c_str());
  if (folder == nullptr) return errno == ENOENT || errno == ESRCH;  // it has ended, and holds none
  while (const dirent* entry = ::readdir(folder)) {
    std::array<char, 64> target;
    const ssize_t size = ::readlinkat(::dirfd(folder), entry->d_name, target.data(), target.size());
    if (size <= 0) continue;
    const std::string_view text(target.data(), static_cast<std::size_t>(size));
    std::int64_t inode = 0;
    if (!text.starts_with(kSocket) || !text.ends_with(']')) continue;
    if (!parse_counter(text.substr(kSocket.size(), text.size() - kSocket.size() - 1), inode)) continue;
    inodes.push_back(static_cast<std::uint32_t>(inode));
  }
  ::closedir(folder);
  return true;
}

}  // namespace reveal
