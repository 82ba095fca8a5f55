// System calls that a process gives up for good, with those it starts.
// https://docs.kernel.org/userspace-api/seccomp_filter.html
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <span>
#include <vector>

namespace reveal {

/// A seccomp program of the classic kind, composed from its begin to its end.
class CallFilter {
 public:
  /// Ends processes of another architecture: their numbers mean other calls.
  CallFilter();

  /// These fail with EPERM.
  void refuse(std::span<const int> numbers);
  /// This one fails with `error`, if `flags` of its argument `argument` has one of these bits.
  void refuse_with_flags(int number, unsigned argument, std::uint32_t flags, int error);
  /// This one fails with EPERM unless its argument is one of these.
  void allow_only(int number, unsigned argument, std::span<const std::uint32_t> values);
  /// This one fails with EPERM unless its argument has one of these bits.
  void allow_only_with_flags(int number, unsigned argument, std::uint32_t flags);
  /// Numbers from `first` on fail with ENOSYS, as on an older kernel, but for `allowed`.
  void refuse_newer(int first, std::span<const int> allowed);

  /// Everything else is allowed. Needs no_new_privs or CAP_SYS_ADMIN. False where the kernel has no filters, and on
  /// architectures that are not listed.
  bool install() noexcept;

 private:
  void load(std::uint32_t at);
  void end(std::uint32_t action);
  void jump(unsigned test, std::uint32_t value, int if_true, int if_false);
  void load_argument(unsigned argument);

  std::vector<sock_filter> program_;
};

}  // namespace reveal
