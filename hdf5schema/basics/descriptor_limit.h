// The number of files that this process may have open.
#pragma once

#include <sys/resource.h>

#include <algorithm>

namespace reveal {

/// Raises the limit as far as this process may, and returns the number of descriptors that it can keep: some are left
/// for files that are read once. The job has limits of its own.
inline int raise_descriptor_limit() noexcept {
  constexpr rlim_t kAtMost = 16'384;
  constexpr rlim_t kForOthers = 64;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 128;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, kAtMost));
  ::setrlimit(RLIMIT_NOFILE, &limit);
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t usable = std::min(limit.rlim_cur, kAtMost);
  return usable > kForOthers ? static_cast<int>(usable - kForOthers) : 0;
}

}  // namespace reveal
