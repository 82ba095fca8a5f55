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

/// One for each interface: that at its root has the sums of those below it.
[[nodiscard]] inline std::optional<InterfaceQueue> root_queue(std::span<const std::byte> body) {
  const auto message = head_of_message<tcmsg>(body);
  if (!message || message->tcm_parent != TC_H_ROOT) return std::nullopt;
  const auto attributes = body.subspan(std::min<std::size_t>(body.size(), NLMSG_ALIGN(sizeof(tcmsg))));
  const auto counts =
      head_of_message<gnet_stats_queue>(attribute_of(attribute_of(attributes, TCA_STATS2), TCA_STATS_QUEUE));
  if (!counts) return std::nullopt;
  return InterfaceQueue{message->tcm_ifindex, kind_of_queue(attribute_of(attributes, TCA_KIND)), *counts};
}

enum class QueueList : std::uint8_t { goes_on, ended, broken };

/// One answer of the kernel; `see` gets its queues.
template <typename See>
[[nodiscard]] QueueList read_queues(std::span<const std::byte> messages, const See& see) {
  while (const auto header = head_of_message<nlmsghdr>(messages)) {
    if (header->nlmsg_len < sizeof(nlmsghdr) || header->nlmsg_len > messages.size()) return QueueList::broken;
    const auto body = messages.subspan(sizeof(nlmsghdr), header->nlmsg_len - sizeof(nlmsghdr));
    if (header->nlmsg_type == NLMSG_ERROR || (header->nlmsg_flags & NLM_F_DUMP_INTR) != 0) return QueueList::broken;
    if (header->nlmsg_type == NLMSG_DONE) {
      return head_of_message<int>(body).value_or(0) < 0 ? QueueList::broken : QueueList::ended;
    }
    if (const auto queue = root_queue(body)) see(*queue);
    messages = messages.subspan(std::min<std::size_t>(messages.size(), NLMSG_ALIGN(header->nlmsg_len)));
  }
  return messages.empty() ? QueueList::goes_on : QueueList::broken;
}

}  // namespace reveal
