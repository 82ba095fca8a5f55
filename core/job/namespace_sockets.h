// Sockets in the network namespaces of the job, for the child process of a probe: a socket stays in the namespace in
// which it was opened. Only for a process with one thread. An ordinary user may enter those of his own containers.
// https://man7.org/linux/man-pages/man2/setns.2.html
// https://man7.org/linux/man-pages/man7/user_namespaces.7.html
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/job/net_namespaces.h"
#include "hdf5schema/basics/descriptor.h"

namespace reveal {

/// A line for each namespace with a process of the job, "0 /proc/net net:[4026531840]", "1 /proc/4711/net net:[...]":
/// its place in the list, its folder and its inode.
void append_namespaces(std::string& request, const std::vector<NetNamespace>& spaces);

class NamespaceSockets {
 public:
  struct Space {
    std::size_t place = 0;
    std::string folder;
    std::string inode;
    Descriptor netlink;
    Descriptor control;  // for requests by ioctl(2)
    bool listed = false;
    bool refused = false;  // and will be again
  };

  /// The protocol of the netlink sockets.
  explicit NamespaceSockets(int protocol) : protocol_(protocol) {}

  /// Takes the lines of append_namespaces() off the begin of a request and returns the rest of it.
  std::string_view follow(std::string_view request);

  /// Calls query(space) for each namespace that can be entered. It returns "" or why its answer is incomplete; each()
  /// returns the last such reason.
  template <typename Query>
  [[nodiscard]] std::string each(const Query& query) {
    refused_ = vanished_ = 0;
    std::string problem;
    for (Space& space : spaces_) {
      std::string why = open(space);
      if (why.empty() && space.netlink) {
        why = query(space);
        if (!why.empty()) space.netlink.close();  // the rest of this answer would be taken for the next one
      }
      if (!why.empty()) problem = std::move(why);
    }
    return problem;
  }
  /// Where requests are rare: an open socket keeps the network of a container that has ended, and its cards.
  void close_others();
  /// Namespaces that each() was not allowed to enter, and those whose process had ended.
  [[nodiscard]] int refused() const noexcept { return refused_; }
  [[nodiscard]] int vanished() const noexcept { return vanished_; }

 private:
  [[nodiscard]] std::string open(Space& space);
  [[nodiscard]] int open_here(Space& space) const;
  [[nodiscard]] int open_there(Space& space) const;
  [[nodiscard]] int open_as_owner(Space& space, int there) const;

  int protocol_;
  std::vector<Space> spaces_;
  int refused_ = 0;
  int vanished_ = 0;
};

}  // namespace reveal
