// The queues behind network interfaces, as rtnetlink lists them (RTM_GETQDISC).
// https://man7.org/linux/man-pages/man7/rtnetlink.7.html
#pragma once

#include <linux/gen_stats.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/kernel_text/netlink.h"

namespace reveal {

struct InterfaceQueue {
  int interface = 0;
  std::string kind;  // "fq_codel"; "" where the answer does not have it
  gnet_stats_queue counts{};
};

/// One word of a text: the kernel's names of queues have letters, digits and "_".
[[nodiscard]] inline std::string kind_of_queue(std::span<const std::byte> name) {
  constexpr std::size_t kLongest = 15;
  std::string kind;
  for (const std::byte each : name) {
    const auto letter = static_cast<char>(each);
    if (letter == 0) return kind;
    const bool plain = (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '_';
    if (!plain || kind.size() == kLongest) return "";
    kind += letter;
  }
  return kind;
}

/// The queue of a message RTM_NEWQDISC if it is that at the root of an interface, which has the sums of those below it.
[[nodiscard]] inline std::optional<InterfaceQueue> root_queue(std::span<const std::byte> body) {
  const auto message = head_of_message<tcmsg>(body);
  if (!message || message->tcm_parent != TC_H_ROOT) return std::nullopt;
  const auto attributes = body.subspan(std::min<std::size_t>(body.size(), NLMSG_ALIGN(sizeof(tcmsg))));
  const auto counts =
      head_of_message<gnet_stats_queue>(attribute_of(attribute_of(attributes, TCA_STATS2), TCA_STATS_QUEUE));
  if (!counts) return std::nullopt;
  return InterfaceQueue{message->tcm_ifindex, kind_of_queue(attribute_of(attributes, TCA_KIND)), *counts};
}

}  // namespace reveal
