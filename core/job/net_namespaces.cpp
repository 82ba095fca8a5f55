#include "core/job/net_namespaces.h"

#include "hdf5schema/basics/clocks.h"

namespace reveal {
namespace {

constexpr std::size_t kProcessesPerSecond = 64;  // looked at per second
/// Between two rounds while no process begins or ends: one may enter another namespace.
constexpr std::int64_t kRound = 10 * kSecond;

}  // namespace

NetNamespaces::NetNamespaces(KernelTree& fs, const Job* job)
    : fs_(fs), job_(job), own_(fs.link("/proc/self/ns/net").value_or("")) {
  if (job_ != nullptr) update(0);
  if (!list_.empty()) return;
  if (job_ == nullptr) lasting_.begin_look(0);
  static_cast<void>(place_of(own_));
  list_.front().folder = "/proc/net";
}

std::string NetNamespaces::name_of(std::size_t place) {
  return place == 0 ? "" : "ns" + std::to_string(place + 1);
}

void NetNamespaces::update(std::int64_t now_ns) {
  if (job_ == nullptr || now_ns < next_ns_) return;
  const bool is_settled = position_ == 0 && looked_ && !newcomers_ && generation_ == job_->generation();
  if (is_settled && now_ns < next_ns_ + kRound - kSecond) return;
  next_ns_ = now_ns + kSecond;
  if (position_ == 0) begin_round(now_ns);
  const auto& processes = job_->processes();
  for (std::size_t left = kProcessesPerSecond; left > 0 && position_ < processes.size(); ++position_) {
    const JobProcess& process = *processes[position_];
    if (process.launcher || process.stat.state == 'Z') continue;  // a zombie is nowhere
    --left;
    all_seen_ = consider(process.pid) && all_seen_;
  }
  if (position_ >= processes.size()) end_round();
}

void NetNamespaces::begin_round(std::int64_t now_ns) {
  looked_ = !job_->processes().empty();
  // A process that has just begun enters its container's namespace a moment later: another round follows.
  newcomers_ = generation_ != job_->generation();
  generation_ = job_->generation();
  all_seen_ = true;
  inhabited_.reset();
  folder_lives_.reset();
  lasting_.begin_look(now_ns);
}

void NetNamespaces::end_round() {
  position_ = 0;
  for (std::size_t i = 0; i < list_.size(); ++i) {
    if (inhabited_[i] && !folder_lives_[i]) list_[i].folder = other_folders_[i];
  }
  if (!all_seen_) return;
  lasting_.end_look();
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
  const std::optional<std::size_t> place = place_of(*inode);
  if (!place) return true;
  NetNamespace& known = list_[*place];
  other_folders_[*place] = *inode == own_ ? "/proc/net" : folder + "/net";
  if (known.folder.empty()) known.folder = other_folders_[*place];
  inhabited_.set(*place);
  if (known.folder == other_folders_[*place]) folder_lives_.set(*place);
  return true;
}

std::optional<std::size_t> NetNamespaces::place_of(const std::string& inode) {
  LastingInstances::Member* member = lasting_.see(inode);
  if (member != nullptr) member->awaited = true;  // the job's own begin after the first look
  if (member == nullptr || !lasting_.admit(*member)) {
    newcomers_ = true;
    overflowed_ = overflowed_ || lasting_.is_full();
    return std::nullopt;
  }
  const auto place = static_cast<std::size_t>(member->place);
  if (place == list_.size()) list_.push_back({name_of(place), "", inode});
  return place;
}

}  // namespace reveal
