// Deflated bytes, by libdeflate, as PNG files and gzip have them. The same input gives the same bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace reveal {

/// A stream of zlib (RFC 1950).
[[nodiscard]] std::string zlib_stream(std::string_view bytes);
/// A file as gzip writes it, without name and time (RFC 1952).
[[nodiscard]] std::string gzip_file(std::string_view bytes);

[[nodiscard]] std::uint32_t crc32_of(std::string_view bytes) noexcept;

}  // namespace reveal
