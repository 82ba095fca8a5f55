// How often to list all sockets of a node, where that takes so long that the rows between would be of no use: then the
// job's own are looked up one by one in between.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/sampler/pace.h"
#include "hdf5schema/basics/clocks.h"

namespace reveal {

class ListingPace {
 public:
  /// Parts of kShareOfACore for the two kinds of looks, while there are both.
  static constexpr double kShareOfListing = kShareOfACore * 2 / 3;
  static constexpr double kShareOfLookUps = kShareOfACore - kShareOfListing;
  /// The report leaves rows out that are further apart.
  static constexpr std::int64_t kUsefulRows = 3 * kSecond;

  /// A listing has taken so much processor time.
  void note_listing(std::int64_t now_ns, std::int64_t cost_ns) noexcept {
    const double rest = static_cast<double>(cost_ns) / kShareOfListing;
    const bool is_dear = static_cast<double>(cost_ns) / kShareOfACore > static_cast<double>(kUsefulRows);
    cost_ns_ = cost_ns;
    every_ns_ = is_dear ? std::llround(std::clamp(rest, 0.0, 3600e9)) : 0;
    next_ns_ = now_ns + every_ns_;
  }
  /// Whether sockets are listed less often than they are looked up.
  [[nodiscard]] bool is_apart() const noexcept { return every_ns_ > 0; }
  [[nodiscard]] bool is_due(std::int64_t now_ns) const noexcept { return now_ns >= next_ns_; }
  /// Time between two listings; 0: each look lists.
  [[nodiscard]] std::int64_t every_ns() const noexcept { return every_ns_; }
  /// The last listing's.
  [[nodiscard]] std::int64_t cost_ns() const noexcept { return cost_ns_; }

 private:
  std::int64_t cost_ns_ = 0;
  std::int64_t every_ns_ = 0;
  std::int64_t next_ns_ = 0;
};

}  // namespace reveal
