#include "core/broker/privileges.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/error.h"

namespace reveal {

void become_user(uid_t uid, gid_t gid) {
  if (::geteuid() == 0) {
    const passwd* entry = ::getpwuid(uid);
    const int grouped = entry != nullptr ? ::initgroups(entry->pw_name, gid) : ::setgroups(1, &gid);
    if (grouped != 0) throw system_error("the user's groups", errno);
  }
  if (::setresgid(gid, gid, gid) != 0) throw system_error("the user's group", errno);
  if (::setresuid(uid, uid, uid) != 0) throw system_error("the user", errno);
  if (uid != 0 && ::setuid(0) == 0) throw Error("privileges came back");
  ::prctl(PR_SET_DUMPABLE, 0);
  const rlimit none{};
  ::setrlimit(RLIMIT_CORE, &none);
  ::umask(077);
}

void offer_to_oom_killer() noexcept {
  const Descriptor file(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  [[maybe_unused]] const auto written = file ? ::write(file.get(), "900", 3) : 0;
}

void leave_control_groups() noexcept {
  const auto enter = [](const std::filesystem::path& root) {
    const Descriptor file(::open((root / "cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
    [[maybe_unused]] const auto written = file ? ::write(file.get(), "0", 1) : 0;  // 0: the writer
  };
  try {
    const std::filesystem::path mounts = "/sys/fs/cgroup";
    if (std::filesystem::exists(mounts / "cgroup.controllers")) {  // version 2 alone: folders in it are no roots
      enter(mounts);
      return;
    }
    for (const auto& entry : std::filesystem::directory_iterator(mounts)) {
      if (!entry.is_symlink() && entry.is_directory()) enter(entry.path());
    }
  } catch (const std::exception&) {
    return;  // no control groups here
  }
}

}  // namespace reveal
