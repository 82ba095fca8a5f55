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
  void insert(const CpuSet& other) noexcept { members_ |= other.members_; }
  [[nodiscard]] bool contains(int cpu) const noexcept {
    return cpu >= 0 && static_cast<std::size_t>(cpu) < kMost && members_[static_cast<std::size_t>(cpu)];
  }
  [[nodiscard]] std::size_t size() const noexcept { return members_.count(); }

 private:
  std::bitset<kMost> members_;
};

}  // namespace reveal
