// The kernel's answers by netlink: messages, which are lists of attributes, and dumps, which are lists of messages.
// https://man7.org/linux/man-pages/man7/netlink.7.html
#pragma once

#include <linux/netlink.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include "hdf5schema/basics/descriptor.h"

namespace reveal {

/// The structure at the begin of a message; nothing if it is cut off.
template <typename T>
[[nodiscard]] std::optional<T> head_of_message(std::span<const std::byte> bytes) {
  T value{};
  if (bytes.size() < sizeof value) return std::nullopt;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

/// Calls see(type, value) for each attribute of a list. False where the list is cut off or its lengths are wrong:
/// attributes before that are right.
template <typename See>
bool each_attribute(std::span<const std::byte> list, const See& see) {
  while (const auto attribute = head_of_message<nlattr>(list)) {
    if (attribute->nla_len < sizeof(nlattr) || attribute->nla_len > list.size()) return false;
    see(static_cast<std::uint16_t>(attribute->nla_type & NLA_TYPE_MASK),
        list.subspan(sizeof(nlattr), attribute->nla_len - sizeof(nlattr)));
    list = list.subspan(std::min<std::size_t>(list.size(), NLA_ALIGN(attribute->nla_len)));
  }
  return list.empty();
}

/// The first attribute of this type in a list of them; empty if there is none.
[[nodiscard]] inline std::span<const std::byte> attribute_of(std::span<const std::byte> list, std::uint16_t type) {
  std::optional<std::span<const std::byte>> found;
  each_attribute(list, [&](std::uint16_t each, std::span<const std::byte> value) {
    if (each == type && !found) found = value;
  });
  return found.value_or(std::span<const std::byte>());
}

struct OpenedNetlink {
  Descriptor socket;
  int error = 0;
};
/// Reading from it gives up after five seconds.
[[nodiscard]] OpenedNetlink open_netlink(int protocol);

using SeeMessage = std::function<void(std::uint16_t type, std::span<const std::byte> body)>;

/// One answer to a request for a list; true at the end of the list. `problem` gets why it is not whole.
[[nodiscard]] bool read_dump(std::span<const std::byte> messages, const SeeMessage& see, std::string& problem);

/// Sends the request and reads the whole list, in at most so many pieces. Returns "" or why it is incomplete. After a
/// problem, close the socket: the rest of the list would be taken for the next answer.
[[nodiscard]] std::string receive_dump(int socket, std::span<const std::byte> request, std::span<std::byte> buffer,
                                       const SeeMessage& see,
                                       std::size_t most_pieces = std::numeric_limits<std::size_t>::max());

/// The answer to a request for one thing: 0, or the error with which the kernel refused it.
[[nodiscard]] int read_answer(std::span<const std::byte> message, const SeeMessage& see);

/// Sends the request and reads its answer. Returns 0 or the error.
[[nodiscard]] int receive_answer(int socket, std::span<const std::byte> request, std::span<std::byte> buffer,
                                 const SeeMessage& see);

}  // namespace reveal
