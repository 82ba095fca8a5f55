// CLI11 says that something was not expected; this says what was probably meant.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace reveal {

/// Complains in one line; the exit status.
[[nodiscard]] int usage_error(const CLI::App& app, const CLI::ParseError& error,
                              const std::vector<std::string>& arguments);

}  // namespace reveal
