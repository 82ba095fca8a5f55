// A counting semaphore that wakes up.
#pragma once

#include <semaphore.h>

#include <cerrno>
#include <cstdint>
#include <ctime>

#include "hdf5schema/basics/clocks.h"

#ifdef __GLIBC_PREREQ
#if __GLIBC_PREREQ(2, 30)
#define REVEAL_HAS_SEM_CLOCKWAIT
#endif
#endif

namespace reveal {

/// Not std::counting_semaphore: libstdc++ 12 can sleep through a release (https://gcc.gnu.org/PR104928).
class Semaphore {
 public:
  Semaphore() { ::sem_init(&semaphore_, 0, 0); }
  ~Semaphore() { ::sem_destroy(&semaphore_); }
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;
  void release() noexcept { ::sem_post(&semaphore_); }
  void acquire() noexcept {
    while (::sem_wait(&semaphore_) != 0) {
    }
  }
  /// False if nothing was released until then, by CLOCK_MONOTONIC.
  bool acquire_until(std::int64_t monotonic_ns) noexcept {
#ifdef REVEAL_HAS_SEM_CLOCKWAIT
    const timespec until{static_cast<time_t>(monotonic_ns / kSecond), static_cast<long>(monotonic_ns % kSecond)};
    while (::sem_clockwait(&semaphore_, CLOCK_MONOTONIC, &until) != 0) {
      if (errno != EINTR) return false;
    }
#else  // sem_timedwait would follow a clock that is set
    constexpr timespec kPause{0, 20'000'000};
    while (::sem_trywait(&semaphore_) != 0) {
      if (read_clock(CLOCK_MONOTONIC) >= monotonic_ns) return false;
      ::nanosleep(&kPause, nullptr);
    }
#endif
    return true;
  }

 private:
  sem_t semaphore_{};
};

}  // namespace reveal
