// Files of gzip, by libdeflate. The same input gives the same bytes.
#pragma once

#include <string>
#include <string_view>

namespace reveal {

/// A file as gzip writes it, without name and time (RFC 1952).
[[nodiscard]] std::string gzip_file(std::string_view bytes);

}  // namespace reveal
