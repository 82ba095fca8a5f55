// Names of nodes in the form of Slurm: "n[01-03,7],login".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace reveal {

inline constexpr std::size_t kMostExpectedNodes = 65'536;

/// "n[01-03,7],login" -> n01 n02 n03 n7 login; at most kMostExpectedNodes names and a megabyte.
[[nodiscard]] std::vector<std::string> expand_node_list(std::string_view list);

}  // namespace reveal
