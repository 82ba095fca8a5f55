#include "core/job/namespace_sockets.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/kernel_text/kernel_words.h"
#include "core/kernel_text/netlink.h"
#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/request_socket.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

/// "/proc/4711/ns/user" of "/proc/4711/net".
std::string namespace_file(const std::string& folder, const char* kind) {
  return folder.substr(0, folder.rfind('/')) + "/ns/" + kind;
}

/// Another process may have this number by now.
bool is_namespace(int descriptor, const std::string& inode) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 && inode == "net:[" + std::to_string(status.st_ino) + ']';
}

}  // namespace

void append_namespaces(std::string& request, const std::vector<NetNamespace>& spaces) {
  for (std::size_t place = 0; place < spaces.size(); ++place) {
    if (spaces[place].folder.empty()) continue;
    request.append(std::to_string(place)).append(1, ' ').append(spaces[place].folder);
    request.append(1, ' ').append(spaces[place].inode).append(1, '\n');
  }
}

std::string_view NamespaceSockets::follow(std::string_view request) {
  for (Space& space : spaces_) space.listed = false;
  std::string_view rest = request;
  std::string_view line;
  while (next_line(rest, line)) {
    std::int64_t place = 0;
    if (!parse_counter(cut_word(line), place)) break;
    request = rest;
    const auto is_here = [place](const Space& space) { return space.place == static_cast<std::size_t>(place); };
    auto known = std::find_if(spaces_.begin(), spaces_.end(), is_here);
    if (known == spaces_.end()) known = spaces_.insert(spaces_.end(), Space{.place = static_cast<std::size_t>(place)});
    const std::string_view folder = cut_word(line);
    known->refused = known->refused && known->folder == folder;
    known->folder = folder;
    known->inode = cut_word(line);
    known->listed = true;
  }
  // An open socket would keep the network of a container that has ended.
  std::erase_if(spaces_, [](const Space& space) { return !space.listed; });
  return request;
}

std::string NamespaceSockets::open(Space& space) {
  if (space.netlink) return "";
  const bool own = space.folder == "/proc/net";
  const int error = space.refused ? EPERM : own ? open_here(space) : open_there(space);
  space.refused = error == EPERM || error == EACCES;
  const bool vanished = error == ENOENT || error == ESRCH;
  refused_ += space.refused ? 1 : 0;
  vanished_ += vanished ? 1 : 0;
  if (error == 0 || space.refused || vanished) return "";
  return std::string("a network namespace could not be entered: ") + std::strerror(error);
}

void NamespaceSockets::close_others() {
  for (Space& space : spaces_) {
    if (space.folder == "/proc/net") continue;
    space.netlink.close();
    space.control.close();
  }
}

int NamespaceSockets::open_here(Space& space) const {
  OpenedNetlink opened = open_netlink(protocol_);
  space.netlink = std::move(opened.socket);
  if (!space.control) space.control = Descriptor(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return opened.error;
}

int NamespaceSockets::open_there(Space& space) const {
  const Descriptor own(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  const Descriptor there(::open(namespace_file(space.folder, "net").c_str(), O_RDONLY | O_CLOEXEC));
  if (!own || !there) return errno;
  if (!is_namespace(there.get(), space.inode)) return ESRCH;
  if (::setns(there.get(), CLONE_NEWNET) != 0) return errno == EPERM ? open_as_owner(space, there.get()) : errno;
  const int error = open_here(space);
  // Otherwise the next requests of this process would reach another network.
  if (::setns(own.get(), CLONE_NEWNET) != 0) ::_exit(1);
  return error;
}

// A user has all capabilities in a user namespace that he made, once he is in it. There is no way back, so another
// process enters it and hands the sockets over.
int NamespaceSockets::open_as_owner(Space& space, int there) const {
  const Descriptor users(::open(namespace_file(space.folder, "user").c_str(), O_RDONLY | O_CLOEXEC));
  int ends[2];
  if (!users || ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return errno;
  const Descriptor ours(ends[0]);
  const Descriptor theirs(ends[1]);
  char answer = 0;
  ChildProcess child = fork_child([&] {
    if (::setns(users.get(), CLONE_NEWUSER) != 0 || ::setns(there, CLONE_NEWNET) != 0) return 1;
    Space opened;
    if (open_here(opened) != 0) return 1;
    const int files[] = {opened.netlink.get(), opened.control.get()};
    return Message(&answer).send(theirs.get(), files) ? 0 : 1;
  });
  if (!child) return errno;
  static_cast<void>(child.wait());
  MessageFiles files;
  if (Message(&answer).receive(ours.get(), files) != Message<char>::Got::message) return EPERM;
  space.netlink = std::move(files[0]);
  space.control = std::move(files[1]);
  return 0;
}

}  // namespace reveal
