// Looking a fact up in the configuration of a node, and what it means.
#pragma once

#include <optional>
#include <string_view>

#include "hdf5schema/basics/text.h"
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

/// Whether the bytes of an interface are counted a second time, at a card below it. `cards`: its fact net.NAME.cards,
/// which a bond, a VLAN or a bridge has; `is_measured` of a card's name.
template <typename IsMeasured>
[[nodiscard]] bool is_counted_at_cards(std::string_view cards, const IsMeasured& is_measured) {
  for (std::string_view card = next_word(cards); !card.empty(); card = next_word(cards)) {
    if (is_measured(card)) return true;
  }
  return false;
}

}  // namespace reveal
