// Deflate for bytes that are mostly long runs, as shuffled increments are: nothing but runs is looked for, so that it
// takes little longer than reading them. Any inflate reads it.
#pragma once

#include <span>
#include <vector>

namespace reveal {

/// A zlib stream (RFC 1950, 1951) of `bytes` in place of `into`: the fixed codes, and matches of distance 1.
void deflate_runs(std::span<const unsigned char> bytes, std::vector<unsigned char>& into);

}  // namespace reveal
