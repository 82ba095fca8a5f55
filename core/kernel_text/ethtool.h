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

struct CardRing {
  std::uint32_t now = 0;   // packets for which it has room
  std::uint32_t most = 0;  // and for which it could have room; 0: the driver does not know
};
struct CardRings {
  CardRing receive;  // packets until the node takes them
  CardRing send;     // packets until the card has sent them
};
[[nodiscard]] std::optional<CardRings> card_rings(int socket, const std::string& interface);

/// Megabits per second; nothing where the link is down or the driver does not know it.
[[nodiscard]] std::optional<std::int64_t> link_speed(int socket, const std::string& interface);

}  // namespace reveal
