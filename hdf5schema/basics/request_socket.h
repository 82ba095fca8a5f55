// Requests from one process to another and the answers, with descriptors: structures of fixed size, no text.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "hdf5schema/basics/descriptor.h"

namespace reveal {

struct RequestSockets {
  Descriptor broker;   // the end that answers
  Descriptor sampler;  // the end that sends requests
};

/// Throws Error. The broker's end sends SIGIO to the calling process when a request has come.
[[nodiscard]] RequestSockets make_request_sockets();

/// Descriptors that come with a message; a message with more is invalid.
using MessageFiles = std::array<Descriptor, 2>;

template <typename Body>
class Message {
 public:
  explicit Message(Body* body) {
    part_ = {body, sizeof(Body)};
    header_.msg_iov = &part_;
    header_.msg_iovlen = 1;
    header_.msg_control = control_.data();
    header_.msg_controllen = control_.size();
  }

  bool send(int socket, std::span<const int> files) {
    if (CMSG_SPACE(files.size_bytes()) > control_.size()) return false;
    header_.msg_controllen = files.empty() ? 0 : CMSG_SPACE(files.size_bytes());
    if (!files.empty()) {
      cmsghdr* const head = CMSG_FIRSTHDR(&header_);
      head->cmsg_level = SOL_SOCKET;
      head->cmsg_type = SCM_RIGHTS;
      head->cmsg_len = CMSG_LEN(files.size_bytes());
      std::memcpy(CMSG_DATA(head), files.data(), files.size_bytes());
    }
    return ::sendmsg(socket, &header_, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(sizeof(Body));
  }

  enum class Got : std::uint8_t {
    message,
    without_files,  // this process can open no more
    something_else,
    nothing,
  };
  /// Its descriptors are closed with `files`, used or not.
  Got receive(int socket, MessageFiles& files) {
    const ssize_t got = ::recvmsg(socket, &header_, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got <= 0) return Got::nothing;
    for (cmsghdr* head = CMSG_FIRSTHDR(&header_); head != nullptr; head = CMSG_NXTHDR(&header_, head)) {
      if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof fd);
        Descriptor file(fd);
        if (i < files.size()) files[i] = std::move(file);
      }
    }
    if (got != static_cast<ssize_t>(sizeof(Body)) || (header_.msg_flags & MSG_TRUNC) != 0) return Got::something_else;
    if ((header_.msg_flags & MSG_CTRUNC) == 0) return Got::message;
    return files[0] ? Got::something_else : Got::without_files;
  }

 private:
  iovec part_{};
  msghdr header_{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(std::tuple_size_v<MessageFiles> * sizeof(int))> control_{};
};

}  // namespace reveal
