// The version of a JSON file, before anything else in it is read.
#pragma once

#include <string>

namespace reveal {

/// The value of "schema": "reveal.mail/1"; "" where the text is no JSON object or has none.
[[nodiscard]] std::string schema_of(const std::string& json) noexcept;

}  // namespace reveal
