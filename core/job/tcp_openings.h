// How many connections a network namespace has begun and accepted since its start: while these numbers stay, no
// connection is new. https://docs.kernel.org/networking/snmp_counter.html (TcpActiveOpens, TcpPassiveOpens)
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace reveal {

struct TcpOpenings {
  std::int64_t active = 0;
  std::int64_t passive = 0;

  bool operator==(const TcpOpenings&) const = default;
};

/// Reads a text of /proc/net/snmp; nothing if it lacks one of them.
[[nodiscard]] std::optional<TcpOpenings> tcp_openings(std::string_view snmp) noexcept;

}  // namespace reveal
