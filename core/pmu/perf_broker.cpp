#include "core/pmu/perf_broker.h"

#include <fcntl.h>
#include <glob.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "hdf5schema/basics/error.h"

namespace reveal {
namespace {

constexpr int kPatienceMs = 5000;
constexpr std::size_t kMostFiles = 2;  // the cgroup and the first event of the group

/// Where Slurm's daemon, and nobody but root, makes the groups of jobs: version 2, also beside version 1, and
/// version 1. The name of the folder that a descriptor shows proves nothing: in a name space of their own users call it
/// as they like.
constexpr std::string_view kJobCgroups[] = {
    "/sys/fs/cgroup/system.slice/*slurmstepd.scope/job_",
    "/sys/fs/cgroup/*slurmstepd.scope/job_",
    "/sys/fs/cgroup/unified/system.slice/*slurmstepd.scope/job_",
    "/sys/fs/cgroup/unified/*slurmstepd.scope/job_",
    "/sys/fs/cgroup/perf_event/slurm*/uid_*/job_",
};

struct Question {
  PerfEvent event;
  std::int32_t cpu = -1;
  std::uint32_t in_group = 0;
};
struct Answer {
  std::int32_t error = 0;
};

/// A message of fixed size with descriptors.
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

  bool send(int socket, std::initializer_list<int> files) {
    header_.msg_controllen = files.size() == 0 ? 0 : CMSG_SPACE(files.size() * sizeof(int));
    if (files.size() > 0) {
      cmsghdr* const head = CMSG_FIRSTHDR(&header_);
      head->cmsg_level = SOL_SOCKET;
      head->cmsg_type = SCM_RIGHTS;
      head->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
      std::memcpy(CMSG_DATA(head), files.begin(), files.size() * sizeof(int));
    }
    return ::sendmsg(socket, &header_, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(sizeof(Body));
  }

  enum class Got : std::uint8_t { message, something_else, nothing };
  /// What it brought is closed with `files`, wanted or not.
  Got receive(int socket, std::array<Descriptor, kMostFiles>& files) {
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
    const bool whole = got == static_cast<ssize_t>(sizeof(Body)) && (header_.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
    return whole ? Got::message : Got::something_else;
  }

 private:
  iovec part_{};
  msghdr header_{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostFiles * sizeof(int))> control_{};
};

/// Of one cgroup, nothing else is counted: events of the processor and of the kernel's software.
bool may_be_counted(const PerfEvent& event) noexcept {
  return event.type == PERF_TYPE_HARDWARE || event.type == PERF_TYPE_SOFTWARE || event.type == PERF_TYPE_HW_CACHE ||
         event.type == PERF_TYPE_RAW;
}

PerfOpened answer(const Question& question, const std::array<Descriptor, kMostFiles>& files, const std::string& job) {
  if (!files[0] || !may_be_counted(question.event) || !is_cgroup_of_job(files[0].get(), job)) {
    return {Descriptor(), EPERM};
  }
  return open_perf_event({.event = question.event,
                          .target = {.cpu = question.cpu, .cgroup_fd = files[0].get()},
                          .group_fd = question.in_group != 0 ? files[1].get() : -1});
}

}  // namespace

PerfBrokerSockets make_perf_broker_sockets() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) throw system_error("counters", errno);
  PerfBrokerSockets sockets{Descriptor(ends[0]), Descriptor(ends[1])};
  ::fcntl(ends[0], F_SETOWN, ::getpid());
  ::fcntl(ends[0], F_SETFL, O_ASYNC | O_NONBLOCK);
  return sockets;
}

OpenPerf ask_perf_broker(int socket) {
  return [socket](const PerfRequest& request) -> PerfOpened {
    Question question{.event = request.event, .cpu = request.target.cpu, .in_group = request.group_fd >= 0 ? 1U : 0U};
    Message<Question> message(&question);
    const bool sent = request.group_fd >= 0 ? message.send(socket, {request.target.cgroup_fd, request.group_fd})
                                            : message.send(socket, {request.target.cgroup_fd});
    pollfd ready{socket, POLLIN, 0};
    Answer reply;
    std::array<Descriptor, kMostFiles> files;
    if (!sent || ::poll(&ready, 1, kPatienceMs) <= 0 ||
        Message<Answer>(&reply).receive(socket, files) != Message<Answer>::Got::message) {
      return {Descriptor(), EPIPE};
    }
    if (reply.error == 0 && !files[0]) reply.error = EMFILE;  // it came, but there was no room for it here
    return {std::move(files[0]), reply.error};
  };
}

void serve_perf_requests(int socket, const std::string& job) noexcept {
  while (true) {
    Question question;
    std::array<Descriptor, kMostFiles> files;
    using Got = Message<Question>::Got;
    const Got got = Message<Question>(&question).receive(socket, files);
    if (got == Got::nothing) return;  // no more, or nobody is there any more
    const PerfOpened opened = got == Got::message ? answer(question, files, job) : PerfOpened{Descriptor(), EINVAL};
    Answer reply{.error = opened.error};
    Message<Answer> message(&reply);
    if (!(opened.fd ? message.send(socket, {opened.fd.get()}) : message.send(socket, {}))) return;
  }
}

bool is_cgroup_of_job(int directory, const std::string& job) noexcept {
  struct stat given {};
  if (::fstat(directory, &given) != 0 || job.find_first_not_of("0123456789") != std::string::npos) return false;
  for (const std::string_view place : kJobCgroups) {
    glob_t found{};
    bool same = false;
    if (::glob((std::string(place) + job).c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
      for (std::size_t i = 0; i < found.gl_pathc && !same; ++i) {
        struct stat own {};
        same = ::stat(found.gl_pathv[i], &own) == 0 && own.st_dev == given.st_dev && own.st_ino == given.st_ino;
      }
    }
    ::globfree(&found);
    if (same) return true;
  }
  return false;
}

}  // namespace reveal
