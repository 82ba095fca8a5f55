// Lists of names, and long texts, cut to the width of a line.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace reveal {

/// {"n01","n02","n04"} -> "n[01-02,04]"; other names are listed, and counted beyond `limit` parts.
[[nodiscard]] std::string node_list(std::span<const std::string> nodes, std::size_t limit = 8);

/// All of them, as Slurm writes and reads them: "login,n[01-02,04]".
[[nodiscard]] std::string slurm_node_list(std::span<const std::string> nodes);

[[nodiscard]] std::string joined(std::span<const std::string> words, std::string_view separator);

/// "a, b and 3 more".
[[nodiscard]] std::string listed(std::span<const std::string> words, std::size_t limit = 8,
                                 std::string_view separator = ", ");

/// Cuts a text to at most `limit` characters, behind a part of the sentence or else a word, and adds "...".
[[nodiscard]] std::string shortened(std::string_view text, std::size_t limit);

}  // namespace reveal
