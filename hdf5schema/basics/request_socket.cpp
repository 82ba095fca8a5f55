#include "hdf5schema/basics/request_socket.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "hdf5schema/basics/error.h"

namespace reveal {

RequestSockets make_request_sockets() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) throw system_error("a socket", errno);
  RequestSockets sockets{Descriptor(ends[0]), Descriptor(ends[1])};
  ::fcntl(ends[0], F_SETOWN, ::getpid());
  ::fcntl(ends[0], F_SETFL, O_ASYNC | O_NONBLOCK);
  return sockets;
}

}  // namespace reveal
