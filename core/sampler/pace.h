// How often to read a text if its cost grows with the host.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>

namespace reveal {

/// One such text may take this share of a core.
inline constexpr double kShareOfACore = 0.003;

/// The shortest of a few fixed periods that keeps a text within its share, if each cpu adds `per_cpu` to one read. The
/// same on all hosts of one size: their recordings stay comparable.
[[nodiscard]] inline std::chrono::nanoseconds paced(std::size_t cpus, std::chrono::nanoseconds per_cpu,
                                                    double share = kShareOfACore) noexcept {
  using namespace std::chrono_literals;
  constexpr std::array<std::chrono::nanoseconds, 8> kPeriods = {100ms, 200ms, 500ms, 1s, 2s, 5s, 10s, 30s};
  const double cost = static_cast<double>(per_cpu.count()) * static_cast<double>(cpus);
  for (const std::chrono::nanoseconds period : kPeriods) {
    if (cost <= share * static_cast<double>(period.count())) return period;
  }
  return kPeriods.back();
}

}  // namespace reveal
