// Completes the message of CLI11 about an unexpected word with the word that was probably meant.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace reveal {

/// Complains in one line; the exit status.
[[nodiscard]] int usage_error(const CLI::App& app, const CLI::ParseError& error,
                              const std::vector<std::string>& arguments);

}  // namespace reveal
