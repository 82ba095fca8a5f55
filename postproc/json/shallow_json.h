// JSON from a file is checked before it is parsed: a parser, and code that walks its result, may recurse.
#pragma once

#include <string>

namespace reveal {

/// The text itself. Throws Error where lists and objects are nested deeper than anything we write.
[[nodiscard]] const std::string& shallow(const std::string& json);

}  // namespace reveal
