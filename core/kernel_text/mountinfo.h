// /proc/PID/mountinfo: https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html
#pragma once

#include <string>
#include <string_view>

namespace reveal {

struct MountPoint {
  std::string folder, type;
};

/// The mount a folder is on: its longest mount point, the last one if several lie over each other. "" if there is none.
[[nodiscard]] MountPoint mount_of(std::string_view mountinfo, std::string_view folder);

}  // namespace reveal
