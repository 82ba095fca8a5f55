// The interfaces of a network namespace, as rtnetlink lists them (RTM_GETLINK): /sys shows only those of the namespace
// in which it was mounted. https://man7.org/linux/man-pages/man7/rtnetlink.7.html
#pragma once

#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/kernel_text/netlink.h"

namespace reveal {

struct LinkRequest {
  nlmsghdr header{};
  ifinfomsg body{};
  nlattr filter{};
  std::uint32_t flags = 0;
};

/// A request for all interfaces without their statistics, which are most of such a list.
[[nodiscard]] inline LinkRequest request_for_links() {
  LinkRequest request;
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = RTM_GETLINK;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.filter = {sizeof(nlattr) + sizeof request.flags, IFLA_EXT_MASK};
  request.flags = RTEXT_FILTER_SKIP_STATS;
  return request;
}

struct NetworkLink {
  std::string name;
  std::string kind;  // "veth", "bond"; "" of a hardware device
  bool loopback = false;
  std::optional<std::uint32_t> carrier_down;  // times that the link went down
};

[[nodiscard]] inline std::string text_in(std::span<const std::byte> attribute) {
  std::string text(reinterpret_cast<const char*>(attribute.data()), attribute.size());
  return text.substr(0, text.find('\0'));
}

/// Nothing if the message is cut off or has no name.
[[nodiscard]] inline std::optional<NetworkLink> link_of_message(std::span<const std::byte> body) {
  const auto message = head_of_message<ifinfomsg>(body);
  if (!message) return std::nullopt;
  NetworkLink link;
  link.loopback = (message->ifi_flags & IFF_LOOPBACK) != 0;
  const bool whole = each_attribute(body.subspan(std::min<std::size_t>(body.size(), NLMSG_ALIGN(sizeof(ifinfomsg)))),
                                    [&link](std::uint16_t type, std::span<const std::byte> value) {
                                      if (type == IFLA_IFNAME) link.name = text_in(value);
                                      if (type == IFLA_LINKINFO)
                                        link.kind = text_in(attribute_of(value, IFLA_INFO_KIND));
                                      if (type == IFLA_CARRIER_DOWN_COUNT)
                                        link.carrier_down = head_of_message<std::uint32_t>(value);
                                    });
  if (!whole || link.name.empty()) return std::nullopt;
  return link;
}

}  // namespace reveal
