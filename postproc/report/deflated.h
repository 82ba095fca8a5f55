// Files of gzip and the checksum of PNG, by libdeflate. The same input gives the same bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace reveal {

/// A file as gzip writes it, without name and time (RFC 1952).
[[nodiscard]] std::string gzip_file(std::string_view bytes);

[[nodiscard]] std::uint32_t crc32_of(std::string_view bytes) noexcept;

}  // namespace reveal
