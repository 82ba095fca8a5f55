#include "core/job/net_namespaces.h"

#include <algorithm>

namespace reveal {
namespace {

constexpr std::size_t kMostProcesses = 64;  // looked at per second
constexpr std::int64_t kSecond = 1'000'000'000;

}  // namespace

NetNamespaces::NetNamespaces(RootFs& fs, const Job* job)
    : fs_(fs), job_(job), own_(fs.link("/proc/self/ns/net").value_or("")) {
  if (job_ != nullptr) update(0);
  if (list_.empty()) list_.push_back({"", "/proc/net", own_});
}

void NetNamespaces::update(std::int64_t now_ns) {
  if (job_ == nullptr || now_ns < next_ns_ || (looked_ && generation_ == job_->generation())) return;
  looked_ = !job_->processes().empty();
  generation_ = job_->generation();
  next_ns_ = now_ns + kSecond;
  std::size_t left = kMostProcesses;
  inhabited_.reset();
  bool all_seen = true;
  for (const auto& process : job_->processes()) {
    if (process->launcher || process->stat.state == 'Z') continue;  // a zombie is nowhere
    if (left-- == 0) return;
    all_seen = consider(process->pid) && all_seen;
  }
  if (!all_seen) return;
  // An open file would keep the network of a container that has ended. Our own is there anyway.
  for (std::size_t i = 0; i < list_.size(); ++i) {
    if (!inhabited_[i] && list_[i].inode != own_) list_[i].folder.clear();
  }
}

// False if it cannot be known where the process is.
bool NetNamespaces::consider(int pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  const auto inode = fs_.link(folder + "/ns/net");
  if (!inode) return false;
  auto known = std::find_if(list_.begin(), list_.end(), [&](const NetNamespace& each) { return each.inode == *inode; });
  if (known == list_.end()) {
    if (list_.size() >= kMost) return true;
    list_.push_back({list_.empty() ? "" : "ns" + std::to_string(list_.size() + 1), "", *inode});
    known = list_.end() - 1;
  }
  inhabited_.set(static_cast<std::size_t>(known - list_.begin()));
  if (known->folder.empty()) known->folder = *inode == own_ ? "/proc/net" : folder + "/net";
  return true;
}

}  // namespace reveal
