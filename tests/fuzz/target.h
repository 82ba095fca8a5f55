// A fuzz target: one parser, or one family of them, fed with arbitrary bytes. It may throw Error; it must not crash,
// hang, read beyond its input, or break a promise that the target checks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace reveal::fuzz {

using Run = void (*)(std::string_view input);
/// Changes `input` in a way that keeps its outer form; for formats random bytes would never pass.
using Mutate = void (*)(std::string& input, std::size_t most, unsigned seed, void (*change)(std::string&, std::size_t));

struct Target {
  std::string_view name;  // and its folder of tests/fuzz/corpus
  Run run = nullptr;
  Mutate mutate = nullptr;  // none: bytes
};

[[nodiscard]] std::vector<Target>& targets();

struct RegisteredTarget {
  explicit RegisteredTarget(const Target& target) { targets().push_back(target); }
};

/// Aborts, so that the fuzzer keeps the input.
void require(bool promise, const char* what);

}  // namespace reveal::fuzz
