// Sets of cpus as the kernel writes them: hexadecimal groups of 32 bits.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace reveal {

inline constexpr int kCpusInGroup = 32;

/// "00000000,0000000f" -> 0 to 3. Empty for any other text.
[[nodiscard]] inline std::vector<int> cpus_of_mask(std::string_view mask) {
  std::vector<int> cpus;
  for (int first = 0; !mask.empty(); first += kCpusInGroup) {
    const std::size_t comma = mask.rfind(',');
    const std::string_view group = comma == std::string_view::npos ? mask : mask.substr(comma + 1);
    mask = comma == std::string_view::npos ? std::string_view() : mask.substr(0, comma);
    std::uint32_t bits = 0;
    const auto [end, error] = std::from_chars(group.data(), group.data() + group.size(), bits, 16);
    if (error != std::errc() || end != group.data() + group.size()) return {};
    for (int bit = 0; bit < kCpusInGroup; ++bit) {
      if ((bits >> bit) & 1U) cpus.push_back(first + bit);
    }
  }
  return cpus;
}

}  // namespace reveal
