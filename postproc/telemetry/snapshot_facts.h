// Looking a fact up in the configuration of a node.
#pragma once

#include <optional>
#include <string_view>

#include "hdf5schema/trace.h"
#include "postproc/words/shared_text.h"

namespace reveal {

/// Its value, valid as long as the snapshot.
[[nodiscard]] inline std::optional<std::string_view> fact_in(const Snapshot& snapshot, std::string_view key) noexcept {
  for (const auto& [name, value] : snapshot) {
    if (name == key) return value;
  }
  return std::nullopt;
}
[[nodiscard]] inline std::optional<std::string_view> fact_in(const SharedPairs& facts, std::string_view key) noexcept {
  for (const auto& [name, value] : facts) {
    if (name == key) return value.str();
  }
  return std::nullopt;
}

}  // namespace reveal
