// Things of a host that come and go, each by its name: interfaces, mounts, namespaces. A container engine makes and
// ends fifty interfaces a second, and a row of a trace is never reused. So only lasting ones get rows of their own:
// those of the first look and, of later ones, as many as fit, once they have been there for a while.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/kernel_text/recording.h"

namespace reveal {

class LastingInstances {
 public:
  static constexpr std::size_t kMostNewcomers = 4096;  // at one time
  static constexpr std::chrono::nanoseconds kStay = std::chrono::seconds(10);
  static constexpr int kNoPlace = -1;

  struct Limits {
    std::size_t at_first = 256;
    std::size_t later = 24;  // half of them for those that stayed, whatever is awaited
  };

  struct Member {
    std::int64_t since_ns = 0;
    std::uint64_t look = 0;            // the last one that saw it
    bool fresh = true;                 // that was the first one
    bool wanted = true;                // set by the probe
    bool awaited = false;              // likewise: admitted at once if a place is free
    int place = kNoPlace;              // place of an admitted one: 0, 1, 2; it keeps it when it goes
    bool idle = false;                 // set by Instances: all its numbers were 0 until now
    std::vector<std::int64_t> before;  // numbers of a newcomer in the look before
  };

  LastingInstances() = default;
  explicit LastingInstances(const Limits& limits) : limits_(limits) {}

  void begin_look(std::int64_t now_ns) noexcept;
  /// Null where there are too many newcomers.
  [[nodiscard]] Member* see(std::string_view name);
  /// Gives it a place if it has lasted and one is free; true if it has one.
  bool admit(Member& member) noexcept;
  /// Forgets the newcomers that were not seen.
  void end_look() noexcept;

  /// No place is left for those that came later.
  [[nodiscard]] bool is_full() const noexcept { return look_ > 1 && places_ - places_at_first_ == limits_.later; }
  /// Counts all members that came after the first look.
  [[nodiscard]] std::uint64_t came_later() const noexcept { return came_later_; }

 private:
  Limits limits_;
  std::int64_t now_ns_ = 0;
  std::unordered_map<std::string, Member, TextHash, std::equal_to<>> members_;
  std::uint64_t look_ = 0;
  std::size_t places_ = 0;
  std::size_t places_at_first_ = 0;
  std::uint64_t came_later_ = 0;
};

}  // namespace reveal
