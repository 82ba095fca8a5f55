#include "wrapper/memory_room.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kUnlimited = std::int64_t{1} << 60;  // nearly 2^63 in version 1

struct Files {
  const char* mount;
  const char* limit;
  const char* used;
  const char* cache[2];  // in memory.stat
};
constexpr Files kVersion1{
    "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};
constexpr Files kVersion2{"", "memory.max", "memory.current", {"inactive_file", "active_file"}};

std::optional<std::int64_t> number_in(const fs::path& file) {
  const std::string text = file_text(file.string());
  std::string_view rest = text;
  return parse_int(next_word(rest));
}

std::int64_t droppable(const fs::path& group, const Files& files) {
  const std::string text = file_text((group / "memory.stat").string());
  std::string_view rest = text;
  std::string_view line;
  std::int64_t bytes = 0;
  while (next_line(rest, line)) {
    const std::string_view key = next_word(line);
    if (key == files.cache[0] || key == files.cache[1]) bytes += parse_int(next_word(line)).value_or(0);
  }
  return bytes;
}

std::optional<std::int64_t> room_of(const fs::path& group, const Files& files) {
  const auto limit = number_in(group / files.limit);  // "max" is no number
  const auto used = number_in(group / files.used);
  if (!limit || !used || *limit >= kUnlimited) return std::nullopt;
  return std::max<std::int64_t>(0, *limit - *used + std::min(*used, droppable(group, files)));
}

}  // namespace

std::optional<std::uint64_t> memory_room(const fs::path& root) {
  std::optional<std::uint64_t> room;
  const std::string groups = file_text((root / "proc/self/cgroup").string());
  std::string_view rest = groups;
  std::string_view line;
  while (next_line(rest, line)) {  // 4:memory:/slurm/uid_1000/job_4711, or 0::/system.slice/slurmstepd.scope/job_4711
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const bool version2 = line.substr(0, first) == "0" && controllers.empty();
    if (!version2 && controllers != "memory") continue;
    const Files& files = version2 ? kVersion2 : kVersion1;
    const fs::path mount = root / "sys/fs/cgroup" / files.mount;
    // A limit above binds as well. In a container the path may be one of the host's: then only the mount is there.
    fs::path below = fs::path(line.substr(second + 1)).relative_path();
    while (true) {
      if (const auto here = room_of(mount / below, files)) {
        room = std::min(room.value_or(UINT64_MAX), static_cast<std::uint64_t>(*here));
      }
      if (below.empty()) break;
      below = below.parent_path();
    }
  }
  return room;
}

}  // namespace reveal
