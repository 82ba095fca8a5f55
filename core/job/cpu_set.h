// A set of cpu numbers without allocation, from the kernel's lists ("0-3,8").
#pragma once

#include <bitset>
#include <cstdint>
#include <string_view>

namespace reveal {

class CpuSet {
 public:
  static constexpr std::size_t kMost = 8192;

  [[nodiscard]] static CpuSet of_list(std::string_view list) noexcept;
  void insert(int cpu) noexcept {
    if (cpu >= 0 && static_cast<std::size_t>(cpu) < kMost) members_.set(static_cast<std::size_t>(cpu));
  }
  void insert(const CpuSet& other) noexcept { members_ |= other.members_; }
  void erase(const CpuSet& other) noexcept { members_ &= ~other.members_; }
  [[nodiscard]] bool contains(int cpu) const noexcept {
    return cpu >= 0 && static_cast<std::size_t>(cpu) < kMost && members_[static_cast<std::size_t>(cpu)];
  }
  [[nodiscard]] std::size_t size() const noexcept { return members_.count(); }
  /// This process runs on these cpus; unchanged where the set is empty or the kernel allows none of them.
  void bind_this_process() const noexcept;

 private:
  std::bitset<kMost> members_;
};

}  // namespace reveal
