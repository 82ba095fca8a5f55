// The rules whose findings are about the node itself: its hardware, its settings, other users of it. All others are
// about the work of the job, on whatever node it runs.
#pragma once

#include <cstdint>
#include <string_view>

namespace reveal {

enum class Blame : std::uint8_t {
  job,
  node_unlike_others,  // the node's, where other nodes of the same job did without the finding
  node,                // also in a job of one node
};

[[nodiscard]] Blame blame_of(std::string_view rule) noexcept;

}  // namespace reveal
