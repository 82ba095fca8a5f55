#include "core/pmu/perf_broker.h"

#include <fcntl.h>
#include <glob.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>

#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/request_socket.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr int kPatienceMs = 5000;
constexpr int kMostQuestions = 4096;  // at once: the broker has the job's end to watch, too
constexpr std::size_t kMostGroupsText = 65'536;

/// The folders in which Slurm's daemon makes the groups of jobs, and only root can write: version 2, also beside
/// version 1, and version 1. The name of the folder that a descriptor shows proves nothing: in a namespace of their
/// own, users can give it any name.
struct JobCgroups {
  std::string_view mount;
  std::string_view job;  // a pattern, without the job's number
};
constexpr JobCgroups kJobCgroups[] = {
    {"/sys/fs/cgroup", "/system.slice/*slurmstepd.scope/job_"},
    {"/sys/fs/cgroup", "/*slurmstepd.scope/job_"},
    {"/sys/fs/cgroup/unified", "/system.slice/*slurmstepd.scope/job_"},
    {"/sys/fs/cgroup/unified", "/*slurmstepd.scope/job_"},
    {"/sys/fs/cgroup/perf_event", "/slurm*/uid_*/job_"},
};
/// The groups of version 1 in which Slurm keeps the processes of a job. Groups of crashed jobs stay there, so they do
/// not show which jobs run.
constexpr JobCgroups kFreezer = {"/sys/fs/cgroup/freezer", "/slurm*/uid_*/job_"};

/// PMUs that count parts of the node, none of which separates processes.
constexpr const char* kPlatformTypes[] = {
    "/sys/bus/event_source/devices/power/type",        "/sys/bus/event_source/devices/msr/type",
    "/sys/bus/event_source/devices/cstate_core/type",  "/sys/bus/event_source/devices/cstate_pkg/type",
    "/sys/bus/event_source/devices/uncore_imc_*/type", "/sys/bus/event_source/devices/amd_umc_*/type",
    "/sys/bus/event_source/devices/amd_df/type",       "/sys/bus/event_source/devices/amd_l3/type",
};

constexpr const char* kParanoid = "/proc/sys/kernel/perf_event_paranoid";
/// With a higher level users may count nothing or, on Debian, not even open events of their own programs.
constexpr long kMostOpenParanoid = 2;

/// Bits that a raw event of x86 may set: event, umask, edge, invert, threshold, and the extensions of the first two.
/// Not among them: "any thread", which also counts the core's other thread, and bits that the kernel sets itself.
constexpr std::uint64_t kRawBits = 0xff0f'ff84'ffff;

struct Question {
  PerfEvent event;
  std::int32_t cpu = -1;
  std::uint32_t user_only = 0;
  std::uint16_t in_group = 0;
  std::uint16_t of_cgroup = 0;
  std::uint64_t number = 0;
};
struct Answer {
  std::uint64_t number = 0;  // number of its question: a late answer is not taken for the next
  std::int32_t error = 0;
  std::int32_t unused = 0;
};

/// The names that match a pattern.
class Names {
 public:
  explicit Names(const std::string& pattern) {
    if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found_) != 0) found_.gl_pathc = 0;
  }
  ~Names() { ::globfree(&found_); }
  Names(const Names&) = delete;
  Names& operator=(const Names&) = delete;
  [[nodiscard]] char** begin() const { return found_.gl_pathv; }
  [[nodiscard]] char** end() const { return found_.gl_pathv + found_.gl_pathc; }

 private:
  glob_t found_{};
};

std::string pattern_of(const JobCgroups& place, const std::string& job) {
  return std::string(place.mount).append(place.job).append(job);
}

bool is_number(const std::string& job) noexcept {
  return !job.empty() && job.find_first_not_of("0123456789") == std::string::npos;
}

/// `groups`: lines of /proc/PID/cgroup, "8:freezer:/slurm/uid_1000/job_4711/step_0". A name has no line end in it.
bool is_in_group(std::string_view groups, std::string_view group) noexcept {
  std::string_view line;
  while (next_line(groups, line)) {
    const std::size_t path = line.find(":/");
    if (path == std::string_view::npos) continue;
    line.remove_prefix(path + 1);
    if (line.starts_with(group) && (line.size() == group.size() || line[group.size()] == '/')) return true;
  }
  return false;
}

bool is_event_of_tasks(const PerfEvent& event) noexcept {
#if defined(__x86_64__)
  if (event.type == PERF_TYPE_RAW && (event.config & ~kRawBits) != 0) return false;
#endif
  return event.type == PERF_TYPE_HARDWARE || event.type == PERF_TYPE_SOFTWARE || event.type == PERF_TYPE_HW_CACHE ||
         event.type == PERF_TYPE_RAW;
}

bool may_count_the_kernel() {
  std::array<char, 16> text{};
  const Descriptor file(::open(kParanoid, O_RDONLY | O_CLOEXEC));
  return file && ::read(file.get(), text.data(), text.size() - 1) > 0 &&
         std::strtol(text.data(), nullptr, 10) <= kMostOpenParanoid;
}

bool is_event_of_the_platform(const PerfEvent& event) {
  for (const char* pattern : kPlatformTypes) {
    for (const char* path : Names(pattern)) {
      std::array<char, 16> text{};
      const Descriptor file(::open(path, O_RDONLY | O_CLOEXEC));
      if (!file || ::read(file.get(), text.data(), text.size() - 1) <= 0) continue;
      if (std::strtoul(text.data(), nullptr, 10) == event.type) return true;
    }
  }
  return false;
}

PerfOpened answer(const Question& question, const MessageFiles& files, const std::string& job) {
  PerfRequest request{.event = question.event, .target = {.cpu = question.cpu}, .user_only = question.user_only != 0};
  bool granted = false;
  if (question.of_cgroup != 0) {
    request.target.cgroup_fd = files[0].get();
    if (question.in_group != 0) request.group_fd = files[1].get();
    granted = files[0] && is_event_of_tasks(question.event) && is_cgroup_of_job(files[0].get(), job);
  } else {
    if (question.in_group != 0) request.group_fd = files[0].get();
    granted = is_event_of_the_platform(question.event) && is_only_job(job);
  }
  if (granted && question.of_cgroup != 0 && !request.user_only && !may_count_the_kernel()) {
    return {Descriptor(), EACCES};
  }
  return granted ? open_perf_event(request) : PerfOpened{Descriptor(), EPERM};
}

}  // namespace

OpenPerf perf_broker_client(int socket) {
  return [socket](const PerfRequest& request) -> PerfOpened {
    static std::uint64_t questions = 0;
    Question question{.event = request.event,
                      .cpu = request.target.cpu,
                      .user_only = request.user_only ? 1U : 0U,
                      .in_group = request.group_fd >= 0 ? std::uint16_t{1} : std::uint16_t{0},
                      .of_cgroup = request.target.cgroup_fd >= 0 ? std::uint16_t{1} : std::uint16_t{0},
                      .number = ++questions};
    std::array<int, std::tuple_size_v<MessageFiles>> own{};
    std::size_t count = 0;
    for (const int fd : {request.target.cgroup_fd, request.group_fd}) {
      if (fd >= 0) own[count++] = fd;
    }
    const bool sent = Message<Question>(&question).send(socket, std::span(own).first(count));
    Answer reply;
    MessageFiles files;
    pollfd ready{socket, POLLIN, 0};
    while (reply.number != question.number) {
      files = {};
      if (!sent || ::poll(&ready, 1, kPatienceMs) <= 0 ||
          Message<Answer>(&reply).receive(socket, files) != Message<Answer>::Got::message) {
        return {Descriptor(), EPIPE};
      }
    }
    if (reply.error == 0 && !files[0]) reply.error = EMFILE;  // it came, but this process has too many open files
    return {std::move(files[0]), reply.error};
  };
}

void serve_perf_requests(int socket, const std::string& job) noexcept {
  for (int served = 0; served < kMostQuestions; ++served) {
    Question question;
    MessageFiles files;
    using Got = Message<Question>::Got;
    const Got got = Message<Question>(&question).receive(socket, files);
    if (got == Got::nothing) return;  // no more, or the other end is closed
    const PerfOpened opened = got == Got::message ? answer(question, files, job) : PerfOpened{Descriptor(), EINVAL};
    Answer reply{.number = question.number, .error = opened.error};
    const int fd = opened.fd.get();
    if (!Message<Answer>(&reply).send(socket, std::span(&fd, opened.fd ? 1 : 0))) return;
  }
}

bool is_only_job(const std::string& job) noexcept {
  bool ours = false;
  for (const JobCgroups& place : kJobCgroups) {
    for (const std::string_view folder : Names(pattern_of(place, "*"))) {
      if (!folder.ends_with("/job_" + job)) return false;
      ours = true;
    }
  }
  return ours;
}

bool is_cgroup_of_job(int directory, const std::string& job) noexcept {
  struct stat given {};
  if (::fstat(directory, &given) != 0 || !is_number(job)) return false;
  for (const JobCgroups& place : kJobCgroups) {
    for (const char* folder : Names(pattern_of(place, job))) {
      struct stat own {};
      if (::stat(folder, &own) == 0 && own.st_dev == given.st_dev && own.st_ino == given.st_ino) return true;
    }
  }
  return false;
}

bool is_process_of_job(pid_t pid, const std::string& job) noexcept {
  if (!is_number(job)) return false;
  const std::string groups = file_text("/proc/" + std::to_string(pid) + "/cgroup", kMostGroupsText);
  const auto is_in = [&](const JobCgroups& place) {
    const Names folders(pattern_of(place, job));
    return std::any_of(folders.begin(), folders.end(),
                       [&](std::string_view folder) { return is_in_group(groups, folder.substr(place.mount.size())); });
  };
  return std::any_of(std::begin(kJobCgroups), std::end(kJobCgroups), is_in) || is_in(kFreezer);
}

}  // namespace reveal
