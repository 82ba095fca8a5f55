#include "postproc/deliver/missing_nodes.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "postproc/telemetry/node_folders.h"

namespace reveal {

std::chrono::milliseconds next_look(std::chrono::milliseconds waited) noexcept {
  constexpr std::chrono::milliseconds kFirst{100};
  return std::max(kFirst, waited / 4);
}

bool Looks::wait() const {
  const Clock::time_point now = Clock::now();
  if (now >= end_) return false;
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(now - begin_);
  std::this_thread::sleep_for(std::min<Clock::duration>(next_look(waited), end_ - now));
  return true;
}

Descriptor open_as_it_is(const std::filesystem::path& directory) noexcept {
  return Descriptor(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

bool has_name(int folder, const std::string& name) noexcept {
  struct stat status {};
  return ::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
}

MissingNodes::MissingNodes(std::filesystem::path directory, NodeFiles layout, const std::vector<std::string>& nodes,
                           const std::set<std::string>& delivered)
    : directory_(std::move(directory)), layout_(layout) {
  for (const std::string& node : nodes) {
    if (!delivered.contains(node)) missing_.push_back(node);
  }
  if (layout_ == NodeFiles::flat) return;
  std::sort(missing_.begin(), missing_.end(), [](const std::string& a, const std::string& b) {  // each folder once
    return std::pair(node_folder(a), a) < std::pair(node_folder(b), b);
  });
}

bool MissingNodes::have_come() {
  if (missing_.empty()) return true;
  const Descriptor directory = open_as_it_is(directory_);
  Descriptor folder;
  std::string opened;
  while (directory && !missing_.empty()) {
    const std::string& node = missing_.back();
    if (layout_ == NodeFiles::in_folders && opened != node_folder(node)) {
      opened = node_folder(node);
      folder = Descriptor(::openat(directory.get(), opened.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    }
    const int place = layout_ == NodeFiles::in_folders ? folder.get() : directory.get();
    if (place < 0 || !has_name(place, node + ".summary.json")) return false;
    missing_.pop_back();
  }
  return missing_.empty();
}

}  // namespace reveal
