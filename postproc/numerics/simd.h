// Functions marked REVEAL_WIDE are compiled twice, for AVX2 and for any x86-64, and the loader picks one. Both give the
// same bits: AVX2 alone has no fused multiply-add, and nothing is reassociated.
#pragma once

// Sanitizers instrument the loader's choice before they are ready for it.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define REVEAL_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define REVEAL_WIDE
#endif

// A vector of `bytes` that may stand on any address that is aligned for one element. clang++ takes the alignment of an
// alias for that of the whole vector, g++ 12 that of a typedef: each has its own form.
#ifdef __clang__
#define REVEAL_VECTOR(Name, Element, bytes) \
  typedef Element Name __attribute__((vector_size(bytes), aligned(alignof(Element)), may_alias))
#else
#define REVEAL_VECTOR(Name, Element, bytes) \
  using Name = Element __attribute__((vector_size(bytes), aligned(alignof(Element)), may_alias))
#endif

namespace reveal {

/// Four doubles side by side.
REVEAL_VECTOR(Wide, double, 32);
/// As many floats.
REVEAL_VECTOR(WideFloats, float, 16);

inline constexpr unsigned kWide = 4;

}  // namespace reveal
