#include "postproc/deliver/missing_nodes.h"

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

MissingNodes::MissingNodes(std::filesystem::path directory, NodeFiles layout, const std::vector<std::string>& nodes,
                           const std::set<std::string>& delivered)
    : directory_(std::move(directory)), layout_(layout) {
  for (const std::string& node : nodes) {
    if (!delivered.contains(node)) missing_.push_back(node);
  }
}

bool MissingNodes::have_come() {
  while (!missing_.empty() && has_come(missing_.back())) missing_.pop_back();
  return missing_.empty();
}

bool MissingNodes::has_come(const std::string& node) const {
  struct stat status {};
  const std::string name = node + ".summary.json";
  const std::filesystem::path file =
      layout_ == NodeFiles::in_folders ? directory_ / node_folder(node) / name : directory_ / name;
  return ::lstat(file.c_str(), &status) == 0;
}

}  // namespace reveal
