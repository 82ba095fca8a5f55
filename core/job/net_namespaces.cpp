#include "core/job/net_namespaces.h"

#include <algorithm>

namespace reveal {
namespace {

constexpr std::size_t kMostNamespaces = 8;
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
  for (const auto& process : job_->processes()) {
    if (process->launcher) continue;
    if (left-- == 0 || list_.size() >= kMostNamespaces) return;
    consider(process->pid);
  }
}

void NetNamespaces::consider(int pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  const auto inode = fs_.link(folder + "/ns/net");
  if (!inode) return;
  const bool known =
      std::any_of(list_.begin(), list_.end(), [&](const NetNamespace& each) { return each.inode == *inode; });
  if (known) return;
  const std::string name = list_.empty() ? "" : "ns" + std::to_string(list_.size() + 1);
  list_.push_back({name, *inode == own_ ? "/proc/net" : folder + "/net", *inode});
}

}  // namespace reveal
