// TCP sockets as the kernel lists them by netlink, and their owners. An ordinary user gets all sockets of his network
// namespace; entering another one takes CAP_SYS_ADMIN. https://man7.org/linux/man-pages/man7/sock_diag.7.html
#pragma once

#include <linux/inet_diag.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/kernel_text/netlink.h"

namespace reveal {

/// IPv6, or IPv4 mapped into it.
using IpAddress = std::array<std::uint8_t, 16>;
/// "10.0.0.1", "fe80::1".
[[nodiscard]] std::string text_of(const IpAddress& address);

/// By this the kernel finds one connection of a network namespace.
struct TcpSocketId {
  std::uint8_t family = 0;
  inet_diag_sockid ends{};
};

struct TcpSocket {
  std::uint64_t cookie = 0;  // never given twice in one namespace
  std::uint32_t inode = 0;   // 0: no process has it, not yet or no more
  IpAddress peer{};
  std::span<const std::byte> info;  // struct tcp_info, as long as this kernel has it; valid during the call
  TcpSocketId id{};
  std::uint8_t state = 0;  // TCP_ESTABLISHED ... of net/tcp_states.h

  /// Not established yet: it has no numbers.
  [[nodiscard]] bool begins() const noexcept;
  /// Established, and no process has accepted it yet.
  [[nodiscard]] bool waits() const noexcept;
};

using SeeSocket = std::function<void(const TcpSocket&)>;

/// Lists all connections that are not in TIME_WAIT, IPv4 and IPv6, those included that begin. Returns "" or why the
/// list is incomplete.
/// `diagnosis`: a socket of NETLINK_SOCK_DIAG.
[[nodiscard]] std::string dump_tcp_sockets(int diagnosis, std::span<std::byte> buffer, const SeeSocket& see);

/// The same for one connection, which the kernel finds without a walk. Nothing is seen if it has ended.
[[nodiscard]] std::string look_up_tcp_socket(int diagnosis, std::span<std::byte> buffer, const TcpSocketId& id,
                                             const SeeSocket& see);

/// "" if this kernel lists connections. Reads the begin of the list only.
[[nodiscard]] std::string why_no_tcp_sockets();

/// One answer of the kernel: its sockets; true at the end of the list. `problem` gets why it is not whole.
[[nodiscard]] bool read_diagnosis(std::span<const std::byte> messages, const SeeSocket& see, std::string& problem);

/// Inodes of the sockets that a process holds open; false if its descriptors cannot be read.
[[nodiscard]] bool add_socket_inodes(const std::string& process_folder, std::vector<std::uint32_t>& inodes);

}  // namespace reveal
