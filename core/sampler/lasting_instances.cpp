#include "core/sampler/lasting_instances.h"

#include <limits>

namespace reveal {
namespace {

constexpr std::int64_t kLongAgo = std::numeric_limits<std::int64_t>::min() / 2;

}  // namespace

void LastingInstances::begin_look(std::int64_t now_ns) noexcept {
  ++look_;
  now_ns_ = now_ns;
}

LastingInstances::Member* LastingInstances::see(std::string_view name) {
  auto found = members_.find(name);
  const bool fresh = found == members_.end();
  if (fresh) {
    if (members_.size() >= places_ + kMostNewcomers) return nullptr;
    found = members_.emplace(std::string(name), Member()).first;
    found->second.since_ns = look_ == 1 ? kLongAgo : now_ns_;
    if (look_ > 1) ++came_later_;
  }
  Member& member = found->second;
  member.fresh = fresh;
  member.look = look_;
  return &member;
}

bool LastingInstances::admit(Member& member) noexcept {
  if (member.place != kNoPlace) return true;
  const std::size_t later = places_ - places_at_first_;
  if (look_ == 1 ? places_ == limits_.at_first : later == limits_.later) return false;
  const bool at_once = member.awaited && later < limits_.later / 2;
  if (!at_once && now_ns_ - member.since_ns < kStay.count()) return false;
  member.place = static_cast<int>(places_++);
  if (look_ == 1) places_at_first_ = places_;
  return true;
}

void LastingInstances::end_look() noexcept {
  std::erase_if(members_,
                [this](const auto& entry) { return entry.second.place == kNoPlace && entry.second.look != look_; });
}

}  // namespace reveal
