#include "core/kernel_text/netlink.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <limits>

namespace reveal {
namespace {

/// The kernel's numbers are negative.
int error_number_of(int number) {
  return number == std::numeric_limits<int>::min() ? EPROTO : -number;
}

std::string words_of_error(int number) {
  return std::strerror(error_number_of(number));
}

}  // namespace

OpenedNetlink open_netlink(int protocol) {
  OpenedNetlink opened{Descriptor(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol))};
  if (!opened.socket) opened.error = errno;
  // The kernel answers within the call: a longer wait is useless.
  const timeval patience{.tv_sec = 5, .tv_usec = 0};
  if (opened.socket) ::setsockopt(opened.socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return opened;
}

bool read_dump(std::span<const std::byte> messages, const SeeMessage& see, std::string& problem) {
  while (const auto header = head_of_message<nlmsghdr>(messages)) {
    if (header->nlmsg_len < sizeof(nlmsghdr) || header->nlmsg_len > messages.size()) break;
    if ((header->nlmsg_flags & NLM_F_DUMP_INTR) != 0) problem = "the list changed while it was read";
    const auto body = messages.subspan(sizeof(nlmsghdr), header->nlmsg_len - sizeof(nlmsghdr));
    if (header->nlmsg_type == NLMSG_DONE) {
      if (const int error = head_of_message<int>(body).value_or(0); error < 0) problem = words_of_error(error);
      return true;
    }
    if (header->nlmsg_type == NLMSG_ERROR) {
      problem = words_of_error(head_of_message<int>(body).value_or(-EPROTO));
      return true;
    }
    see(header->nlmsg_type, body);
    messages = messages.subspan(std::min<std::size_t>(messages.size(), NLMSG_ALIGN(header->nlmsg_len)));
  }
  if (messages.empty()) return false;
  problem = "the kernel's answer was cut off";
  return true;
}

int read_answer(std::span<const std::byte> message, const SeeMessage& see) {
  const auto header = head_of_message<nlmsghdr>(message);
  if (!header || header->nlmsg_len < sizeof(nlmsghdr) || header->nlmsg_len > message.size()) return EPROTO;
  const auto body = message.subspan(sizeof(nlmsghdr), header->nlmsg_len - sizeof(nlmsghdr));
  if (header->nlmsg_type == NLMSG_ERROR) return error_number_of(head_of_message<int>(body).value_or(-EPROTO));
  see(header->nlmsg_type, body);
  return 0;
}

int receive_answer(int socket, std::span<const std::byte> request, std::span<std::byte> buffer, const SeeMessage& see) {
  if (::send(socket, request.data(), request.size(), 0) < 0) return errno;
  while (true) {
    const ssize_t got = ::recv(socket, buffer.data(), buffer.size(), MSG_TRUNC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    const auto size = static_cast<std::size_t>(got);
    return size > buffer.size() ? EMSGSIZE : read_answer(buffer.first(size), see);
  }
}

std::string receive_dump(int socket, std::span<const std::byte> request, std::span<std::byte> buffer,
                         const SeeMessage& see, std::size_t most_pieces) {
  if (::send(socket, request.data(), request.size(), 0) < 0) return std::strerror(errno);
  std::string problem;
  while (true) {
    const ssize_t got = ::recv(socket, buffer.data(), buffer.size(), MSG_TRUNC);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0 ? "the kernel ended its answer" : std::strerror(errno);
    if (static_cast<std::size_t>(got) > buffer.size()) return "the kernel's answer was too long";
    if (read_dump(std::span(buffer).first(static_cast<std::size_t>(got)), see, problem)) return problem;
    if (--most_pieces == 0) return "the list is too long";
  }
}

}  // namespace reveal
