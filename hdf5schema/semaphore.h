// A counting semaphore that wakes up.
#pragma once

#include <semaphore.h>

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

 private:
  sem_t semaphore_{};
};

}  // namespace reveal
