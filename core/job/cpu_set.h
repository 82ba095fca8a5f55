// A set of cpu numbers without allocation, from the kernel's lists ("0-3,8").
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
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
  void keep(const CpuSet& other) noexcept { members_ &= other.members_; }
  [[nodiscard]] bool contains(int cpu) const noexcept {
    return cpu >= 0 && static_cast<std::size_t>(cpu) < kMost && members_[static_cast<std::size_t>(cpu)];
  }
  [[nodiscard]] bool contains(const CpuSet& other) const noexcept { return (other.members_ & ~members_).none(); }
  [[nodiscard]] std::size_t size() const noexcept { return members_.count(); }
  bool operator==(const CpuSet&) const = default;
  /// "0-3,8"
  [[nodiscard]] std::string list() const;

  /// This process runs on these cpus; unchanged where the set is empty or the kernel allows none of them.
  void bind_this_process() const noexcept { static_cast<void>(bind_thread(0)); }
  /// The same for a thread, 0: the calling one. Returns an errno, 0 if it was done.
  [[nodiscard]] int bind_thread(int tid) const noexcept;
  /// Nothing where the kernel knows no such thread.
  [[nodiscard]] static std::optional<CpuSet> of_thread(int tid) noexcept;

 private:
  std::bitset<kMost> members_;
};

}  // namespace reveal
