// Deflate for bytes that are mostly long runs, as shuffled increments are: nothing but runs is looked for, so that it
// takes little longer than reading them. Any inflate reads it.
#pragma once

#include <cstddef>
#include <span>

namespace reveal {

/// The largest output of deflate_runs() for so many bytes.
[[nodiscard]] constexpr std::size_t deflate_runs_bound(std::size_t bytes) noexcept {
  return bytes + bytes / 8 + 16;  // literals have nine bits at most; the stream's head, its checksum, the last byte
}

/// A zlib stream (RFC 1950, 1951) of `bytes`: the fixed codes, and matches of distance 1. Returns its length; `to` has
/// space for deflate_runs_bound().
std::size_t deflate_runs(std::span<const unsigned char> bytes, unsigned char* to) noexcept;

}  // namespace reveal
