// Memory of large tables of which much is zero: it comes as zeros, and pages that are never written are never there.
// Two thirds of the channels of a usual node count nothing during a job.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>

namespace reveal {

/// For std::vector: resize() writes nothing, so new elements are zeros in fresh memory; elements that a vector gave up
/// by shrinking and takes again still have their old values. Not even looked at: to write where only zeros were read
/// before interrupts all other threads of a process.
template <class Number>
struct CallocAllocator {
  using value_type = Number;

  CallocAllocator() = default;
  template <class Other>
  explicit CallocAllocator(const CallocAllocator<Other>& /*other*/) {}

  [[nodiscard]] Number* allocate(std::size_t n) {
    void* memory = std::calloc(n, sizeof(Number));
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<Number*>(memory);
  }
  void deallocate(Number* memory, std::size_t /*n*/) noexcept { std::free(memory); }

  void construct(Number* /*at*/) noexcept {}
  template <class... Arguments>
  void construct(Number* at, Arguments&&... arguments) {
    ::new (static_cast<void*>(at)) Number(std::forward<Arguments>(arguments)...);
  }
  bool operator==(const CallocAllocator& /*other*/) const = default;
};

}  // namespace reveal
