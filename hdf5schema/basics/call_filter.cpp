#include "hdf5schema/basics/call_filter.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <cerrno>
#include <cstddef>

namespace reveal {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t kArchitecture = 0;
#endif

constexpr std::uint32_t failure(int error) {
  return static_cast<std::uint32_t>(SECCOMP_RET_ERRNO) | static_cast<std::uint32_t>(error);
}

}  // namespace

CallFilter::CallFilter() {
  load(offsetof(seccomp_data, arch));
  jump(BPF_JEQ, kArchitecture, 1, 0);
  end(SECCOMP_RET_KILL_PROCESS);
  load(offsetof(seccomp_data, nr));
}

void CallFilter::refuse(std::span<const int> numbers) {
  for (const int number : numbers) {
    jump(BPF_JEQ, static_cast<std::uint32_t>(number), 0, 1);
    end(failure(EPERM));
  }
}

void CallFilter::refuse_with_flags(int number, unsigned argument, std::uint32_t flags, int error) {
  jump(BPF_JEQ, static_cast<std::uint32_t>(number), 0, 4);
  load_argument(argument);
  jump(BPF_JSET, flags, 0, 1);
  end(failure(error));
  end(SECCOMP_RET_ALLOW);
}

void CallFilter::allow_only(int number, unsigned argument, std::span<const std::uint32_t> values) {
  const int count = static_cast<int>(values.size());
  jump(BPF_JEQ, static_cast<std::uint32_t>(number), 0, count + 3);
  load_argument(argument);
  for (int i = 0; i < count; ++i) jump(BPF_JEQ, values[static_cast<std::size_t>(i)], count - i, 0);
  end(failure(EPERM));
  end(SECCOMP_RET_ALLOW);
}

void CallFilter::allow_only_with_flags(int number, unsigned argument, std::uint32_t flags) {
  jump(BPF_JEQ, static_cast<std::uint32_t>(number), 0, 4);
  load_argument(argument);
  jump(BPF_JSET, flags, 1, 0);
  end(failure(EPERM));
  end(SECCOMP_RET_ALLOW);
}

void CallFilter::refuse_newer(int first, std::span<const int> allowed) {
  for (const int number : allowed) {
    jump(BPF_JEQ, static_cast<std::uint32_t>(number), 0, 1);
    end(SECCOMP_RET_ALLOW);
  }
  jump(BPF_JGE, static_cast<std::uint32_t>(first), 0, 1);
  end(failure(ENOSYS));
}

bool CallFilter::install() noexcept {
  if (kArchitecture == 0) return false;
  end(SECCOMP_RET_ALLOW);
  const sock_fprog program{static_cast<unsigned short>(program_.size()), program_.data()};
  return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

void CallFilter::load(std::uint32_t at) {
  program_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at));
}

void CallFilter::end(std::uint32_t action) {
  program_.push_back(BPF_STMT(BPF_RET | BPF_K, action));
}

void CallFilter::jump(unsigned test, std::uint32_t value, int if_true, int if_false) {
  program_.push_back(BPF_JUMP(static_cast<std::uint16_t>(BPF_JMP | test | BPF_K), value,
                              static_cast<std::uint8_t>(if_true), static_cast<std::uint8_t>(if_false)));
}

/// The lower half: flags and requests are no wider.
void CallFilter::load_argument(unsigned argument) {
  load(static_cast<std::uint32_t>(offsetof(seccomp_data, args) + 8U * argument));
}

}  // namespace reveal
