// Functions marked REVEAL_WIDE are compiled twice, for AVX2 and for any x86-64, and the loader picks one. Both give the
// same bits: AVX2 alone has no fused multiply-add, and nothing is reassociated.
#pragma once

// Sanitizers instrument the loader's choice before they are ready for it.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define REVEAL_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define REVEAL_WIDE
#endif

namespace reveal {

/// Four doubles side by side. May stand on any address that is aligned for double.
using Wide [[gnu::vector_size(32), gnu::aligned(8), gnu::may_alias]] = double;

inline constexpr unsigned kWide = 4;

}  // namespace reveal
