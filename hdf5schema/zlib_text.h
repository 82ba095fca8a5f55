// Texts that are stored compressed (RFC 1950), as any zlib reads and writes them. They may come from another user.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace reveal {

enum class Deflating : std::uint8_t { small, fast };  // the smallest result, or a third larger in a tenth of the time

/// A text in JSON, or any other that does not begin with an 'x', is told from it by its first byte.
[[nodiscard]] std::string zlib_text(std::string_view text, Deflating how = Deflating::small);

/// The text itself, whether it was compressed or not. Throws Error where it is damaged, or longer than `most` bytes.
[[nodiscard]] std::string plain_text(std::string content, std::size_t most);

/// CRC-32, which finds a damaged file; no protection against a forged one.
[[nodiscard]] std::uint32_t checksum_of(std::string_view bytes) noexcept;

}  // namespace reveal
