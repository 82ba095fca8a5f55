// Requests to the driver of a network interface, as ethtool(8) makes them. An ordinary user may make these. `socket` is
// of the network namespace of the interface; a card answers from its firmware and may take long.
// https://man7.org/linux/man-pages/man8/ethtool.8.html
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace reveal {

/// The driver's own counters, as `ethtool -S` prints them: "rx_prio3_pause: 12\n". "" if it has none.
[[nodiscard]] std::string driver_statistics(int socket, const std::string& interface);

struct ReceiveRing {
  std::uint32_t now = 0;   // packets that the card can hold until the node takes them
  std::uint32_t most = 0;  // and those that it could
};
[[nodiscard]] std::optional<ReceiveRing> receive_ring(int socket, const std::string& interface);

/// Megabits per second; nothing where the link is down or the driver does not know it.
[[nodiscard]] std::optional<std::int64_t> link_speed(int socket, const std::string& interface);

}  // namespace reveal
