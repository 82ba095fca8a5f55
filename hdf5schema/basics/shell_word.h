// A command line that a user can paste.
#pragma once

#include <string>

namespace reveal {

/// "my dir" -> 'my dir'
[[nodiscard]] std::string shell_word(const std::string& word);

}  // namespace reveal
