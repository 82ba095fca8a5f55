// File systems that other nodes see, too: locks of SQLite do not hold there, and a trace is not written there directly.
#pragma once

#include <string>

namespace reveal {

/// False where `path` does not exist.
[[nodiscard]] bool is_on_network(const std::string& path);

}  // namespace reveal
