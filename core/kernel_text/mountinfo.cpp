#include "core/kernel_text/mountinfo.h"

#include "core/kernel_text/kernel_words.h"
#include "hdf5schema/basics/text.h"

namespace reveal {

MountPoint mount_of(std::string_view mountinfo, std::string_view folder) {
  MountPoint mount;
  std::string_view line;
  while (next_line(mountinfo, line)) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    std::string_view tail = line.substr(dash + 3);
    skip_words(line, 4);
    const std::string_view point = next_word(line);
    const bool below =
        point == "/" || (folder.starts_with(point) && (folder.size() == point.size() || folder[point.size()] == '/'));
    if (below && point.size() >= mount.folder.size()) mount = {std::string(point), std::string(next_word(tail))};
  }
  return mount;
}

}  // namespace reveal
