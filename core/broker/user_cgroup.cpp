#include "core/broker/user_cgroup.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <thread>

#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/text.h"
#include "hdf5schema/basics/user_memory.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr const char* kMostTasks = "128";
constexpr auto kGroupKillLimit = 1s;
constexpr auto kKillLook = 10ms;

// Controllers of version 1 that limit or end the processes of a group. The others (cpuset, net_cls ...) have nothing
// for us. https://docs.kernel.org/admin-guide/cgroup-v1/index.html
constexpr std::string_view kUsed[] = {"memory", "pids", "cpu", "freezer", "devices", "unified"};

// The weights of nice 0, 5 and 10, for all processes of the group together.
// https://docs.kernel.org/admin-guide/cgroup-v2.html#weights
constexpr struct {
  const char* shares;  // version 1, of 1024
  const char* weight;  // version 2, of 100
} kCpuShares[] = {{"1024", "100"}, {"335", "33"}, {"110", "11"}};

/// False where there is no such file: each version and controller has its own.
bool set(const fs::path& file, std::string_view value) noexcept {
  const Descriptor opened(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  return opened && ::write(opened.get(), value.data(), value.size()) == static_cast<ssize_t>(value.size());
}

/// PARENT/NAME; again where another broker has just removed the parent as its last one.
bool make_group(const fs::path& parent, const std::string& name) {
  constexpr int kAttempts = 10;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (::mkdir(parent.c_str(), 0755) != 0 && errno != EEXIST) return false;
    // Only controllers that the root has already enabled for children: more would change how everything else is
    // scheduled. https://docs.kernel.org/admin-guide/cgroup-v2.html#enabling-and-disabling
    for (const char* controller : {"+memory", "+pids", "+cpu"}) set(parent / "cgroup.subtree_control", controller);
    if (::mkdir((parent / name).c_str(), 0755) == 0 || errno == EEXIST) return true;
    if (errno != ENOENT) return false;
  }
  return false;
}

bool is_used(const fs::path& root) {
  const auto controllers = split_names(root.filename().string(), ",");  // "cpu,cpuacct"
  return std::any_of(controllers.begin(), controllers.end(), [](const std::string& name) {
    return std::find(std::begin(kUsed), std::end(kUsed), name) != std::end(kUsed);
  });
}

void limit(const fs::path& group) {
  const std::string memory = std::to_string(user_memory_of_node());
  for (const char* file : {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.max"}) {
    set(group / file, memory);
  }
  set(group / "memory.swap.max", "0");
  set(group / "pids.max", kMostTasks);
}

/// True when it had no process.
bool kill_processes_of(const fs::path& group) {
  if (set(group / "cgroup.kill", "1")) return file_text((group / "cgroup.procs").string()).empty();  // Linux 5.14
  // No process forks faster than we kill: neither when no process may be added nor when all stand still.
  // https://docs.kernel.org/admin-guide/cgroup-v2.html#core-interface-files (cgroup.kill, cgroup.freeze)
  set(group / "pids.max", "0");
  set(group / "freezer.state", "FROZEN");
  set(group / "cgroup.freeze", "1");
  const std::string processes = (group / "cgroup.procs").string();
  const auto is_member = [&processes](pid_t pid) { return has_word(file_text(processes), std::to_string(pid)); };
  const std::string text = file_text(processes);
  std::string_view rest = text;
  std::string_view line;
  while (next_line(rest, line)) {
    if (const auto pid = parse_int(line); pid && *pid > 1) kill_member(static_cast<pid_t>(*pid), is_member);
  }
  set(group / "freezer.state", "THAWED");
  set(group / "cgroup.freeze", "0");
  return text.empty();
}

}  // namespace

bool kill_member(pid_t pid, const std::function<bool(pid_t)>& is_member) {
  const Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if ((!process && errno == ESRCH) || !is_member(pid)) return false;
  if (process) return ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0) == 0;
  return ::kill(pid, SIGKILL) == 0;  // before Linux 5.3
}

UserCgroup::UserCgroup(std::string run, const fs::path& root) : run_(std::move(run)) {
  const std::string name = run_ + "." + std::to_string(::getpid());
  try {
    const bool version_2 = fs::exists(root / "cgroup.controllers");
    if (version_2) roots_.push_back(root);  // folders in it are no roots
    if (!version_2 && fs::is_directory(root)) {
      for (const auto& entry : fs::directory_iterator(root)) {
        if (!entry.is_symlink() && entry.is_directory()) roots_.push_back(entry.path());
      }
    }
    for (const fs::path& hierarchy : roots_) {
      if (!version_2 && !is_used(hierarchy)) continue;
      const fs::path parent = hierarchy / "reveal";
      if (!make_group(parent, name)) continue;
      parents_.push_back(parent);
      groups_.push_back(parent / name);
      limit(groups_.back());
    }
  } catch (const std::exception&) {
    return;  // no control groups here, or fewer
  }
}

UserCgroup::~UserCgroup() {
  try {
    kill_all();
    std::vector<fs::path> left = groups_;
    for (const fs::path& group : abandoned(false)) left.push_back(group);  // groups that are empty now
    for (const fs::path& group : left) ::rmdir(group.c_str());
    for (const fs::path& parent : parents_) ::rmdir(parent.c_str());  // the last one
  } catch (const std::exception&) {
    return;
  }
}

void UserCgroup::leave_foreign_groups() const noexcept {
  for (const fs::path& root : roots_) set(root / "cgroup.procs", "0");  // 0: the writer
}

void UserCgroup::join() const noexcept {
  for (const fs::path& group : groups_) set(group / "cgroup.procs", "0");
}

void UserCgroup::set_cpu_share(CpuShare share) const noexcept {
  const auto& values = kCpuShares[static_cast<std::size_t>(share)];
  for (const fs::path& group : groups_) {
    set(group / "cpu.shares", values.shares);
    set(group / "cpu.weight", values.weight);
  }
}

void UserCgroup::deny_devices() const noexcept {
  for (const fs::path& group : groups_) {
    if (set(group / "devices.deny", "a")) set(group / "devices.allow", "c 1:* rw");  // /dev/null and its like
  }
}

void UserCgroup::kill_all() const noexcept {
  try {
    std::vector<fs::path> groups = groups_;
    for (const fs::path& group : abandoned(true)) groups.push_back(group);
    const auto end = std::chrono::steady_clock::now() + kGroupKillLimit;
    while (true) {
      bool all_empty = true;
      for (const fs::path& group : groups) all_empty = kill_processes_of(group) && all_empty;
      if (all_empty || std::chrono::steady_clock::now() > end) return;
      std::this_thread::sleep_for(kKillLook);
    }
  } catch (const std::exception&) {
    return;
  }
}

/// Groups without a running broker.
std::vector<fs::path> UserCgroup::abandoned(bool of_this_run) const noexcept {
  std::vector<fs::path> found;
  try {
    for (const fs::path& parent : parents_) {
      for (const auto& entry : fs::directory_iterator(parent)) {
        const std::string name = entry.path().filename().string();
        const std::size_t dot = name.rfind('.');
        if (!entry.is_directory() || dot == std::string::npos) continue;
        if (of_this_run && name.substr(0, dot) != run_) continue;
        const auto pid = parse_int(std::string_view(name).substr(dot + 1));
        if (pid && ::kill(static_cast<pid_t>(*pid), 0) != 0 && errno == ESRCH) found.push_back(entry.path());
      }
    }
  } catch (const std::exception&) {
    return found;
  }
  return found;
}

}  // namespace reveal
