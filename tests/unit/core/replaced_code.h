// A program that replaces the begin of a function in its memory, as UCX does with functions of CUDA's driver.
#pragma once

#include <sys/mman.h>

#include <array>
#include <cstdint>
#include <cstring>

namespace reveal::tests {

/// From now on a call of `function` goes to `other`: `mov $..., %r11; jmp *%r11`, as UCX has it. False: it is refused.
/// Both are addresses of functions.
inline bool replace_code(std::uintptr_t function, std::uintptr_t other) {
  std::array<unsigned char, 13> jump = {0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0xff, 0xe3};
  std::memcpy(jump.data() + 2, &other, sizeof other);
  constexpr std::uintptr_t kPage = 4096;
  const std::uintptr_t within = function % kPage;
  void* const page = reinterpret_cast<void*>(function - within);
  if (::mprotect(page, within + jump.size(), PROT_READ | PROT_WRITE) != 0) return false;
  std::memcpy(reinterpret_cast<void*>(function), jump.data(), jump.size());
  return ::mprotect(page, within + jump.size(), PROT_READ | PROT_EXEC) == 0;
}

}  // namespace reveal::tests
