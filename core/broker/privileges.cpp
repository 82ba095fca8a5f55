#include "core/broker/privileges.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <iterator>
#include <vector>

#include "hdf5schema/basics/call_filter.h"
#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/user_memory.h"

namespace reveal {
namespace {

constexpr struct {
  decltype(RLIMIT_CORE) resource;
  rlim_t most;
} kDelivererLimits[] = {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // these reserve terabytes
    {RLIMIT_AS, kMostUserMemory},
#endif
    {RLIMIT_NPROC, 16'384},  // counts all of the user's on this node; the control group counts ours
    {RLIMIT_NOFILE, 4096},
    {RLIMIT_CPU, 900},  // seconds: three times the longest analysis that `reveal deliver` begins
};

// A process that executes a program is dumpable again, and its user may trace it until the program has forbidden it.
// The kernel also refuses tracing to a process with fewer capabilities than the traced one (ptrace(2), "Ptrace access
// mode checking"). So the programs that we start keep one that allows next to nothing, and that no user's process has:
// to keep the system from being suspended, or to set an alarm that wakes it.
// https://man7.org/linux/man-pages/man2/ptrace.2.html
constexpr unsigned kHarmless[] = {CAP_BLOCK_SUSPEND, CAP_WAKE_ALARM};

enum class Refused : std::uint8_t { to_both, to_samplers, to_deliverers };

struct RefusedCall {
  int number;
  Refused to = Refused::to_both;
};

// Numbers instead of names are newer than headers of build hosts.
constexpr RefusedCall kRefusedCalls[] = {
    {SYS_execve, Refused::to_samplers},  // a deliverer starts sbatch and mail programs
    {SYS_execveat, Refused::to_samplers},
    {SYS_ptrace},
    {SYS_process_vm_writev},
    {SYS_process_vm_readv, Refused::to_deliverers},
    {SYS_mount},
    {SYS_umount2},
    {428},  // open_tree
    {429},  // move_mount
    {430},  // fsopen
    {431},  // fsconfig
    {432},  // fsmount
    {433},  // fspick
    {SYS_pivot_root},
    {SYS_chroot},
    {SYS_unshare},
    {SYS_setns, Refused::to_deliverers},  // a sampler reads in the network namespaces of its user
    {SYS_bpf, Refused::to_deliverers},
    {SYS_perf_event_open, Refused::to_deliverers},
    {425, Refused::to_deliverers},  // io_uring_setup
    {438, Refused::to_deliverers},  // pidfd_getfd
    {SYS_userfaultfd},
    {SYS_add_key},
    {SYS_request_key},
    {SYS_keyctl},
    {SYS_swapon},
    {SYS_swapoff},
    {SYS_reboot},
    {SYS_init_module},
    {SYS_finit_module},
    {SYS_delete_module},
    {SYS_kexec_load},
    {SYS_acct},
    {SYS_settimeofday},
    {SYS_clock_settime},
    {SYS_sethostname},
    {SYS_setdomainname},
    {SYS_open_by_handle_at},
};
constexpr std::uint32_t kJoinSessionKeyring = 1;  // KEYCTL_JOIN_SESSION_KEYRING
constexpr int kOtherTable = 0x4000'0000;          // on x86, the same calls with 32-bit pointers

struct Capabilities {
  __user_cap_data_struct words[_LINUX_CAPABILITY_U32S_3]{};

  [[nodiscard]] bool has(unsigned capability) const noexcept {
    return (words[CAP_TO_INDEX(capability)].permitted & CAP_TO_MASK(capability)) != 0;
  }
  bool get() noexcept {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    return ::syscall(SYS_capget, &header, words) == 0;
  }
  bool set() const noexcept {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    return ::syscall(SYS_capset, &header, words) == 0;
  }
};

/// The one to keep, as an inheritable one: only while we are root it can be made that. Nothing where root has none.
const unsigned* keep_one_capability() noexcept {
  Capabilities ours;
  if (!ours.get()) return nullptr;
  const auto* kept =
      std::find_if(std::begin(kHarmless), std::end(kHarmless), [&](unsigned each) { return ours.has(each); });
  if (kept == std::end(kHarmless)) return nullptr;
  for (auto& word : ours.words) word.inheritable = 0;
  ours.words[CAP_TO_INDEX(*kept)].inheritable = CAP_TO_MASK(*kept);
  if (!ours.set() || ::prctl(PR_SET_KEEPCAPS, 1) != 0) return nullptr;
  return kept;
}

/// All others go. `used`: capabilities that the process itself keeps, as far as it has them.
void drop_capabilities(const unsigned* kept, std::span<const unsigned> used) {
  Capabilities ours;
  Capabilities rest;
  for (const unsigned capability : used) {
    if (!ours.get() || !ours.has(capability)) continue;
    rest.words[CAP_TO_INDEX(capability)].permitted |= CAP_TO_MASK(capability);
    rest.words[CAP_TO_INDEX(capability)].effective |= CAP_TO_MASK(capability);
  }
  if (kept != nullptr) {
    rest.words[CAP_TO_INDEX(*kept)].permitted = CAP_TO_MASK(*kept);
    rest.words[CAP_TO_INDEX(*kept)].inheritable = CAP_TO_MASK(*kept);
  }
  if (!rest.set()) throw system_error("the capabilities", errno);
  if (kept != nullptr) ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, *kept, 0, 0);
}

void empty_bounding_set() noexcept {
  for (unsigned capability = 0; ::prctl(PR_CAPBSET_DROP, capability) == 0; ++capability) {
  }  // EINVAL behind the last one
}

}  // namespace

void become_user(uid_t uid, gid_t gid, Programs programs, std::span<const unsigned> capabilities) {
  const unsigned* kept = nullptr;
  if (::geteuid() == 0) {
    const passwd* entry = ::getpwuid(uid);
    const int grouped = entry != nullptr ? ::initgroups(entry->pw_name, gid) : ::setgroups(1, &gid);
    if (grouped != 0) throw system_error("the user's groups", errno);
    if (uid != 0 && capabilities.empty()) kept = keep_one_capability();
    if (!capabilities.empty()) ::prctl(PR_SET_KEEPCAPS, 1);
    if (programs == Programs::none) empty_bounding_set();
  }
  if (::setresgid(gid, gid, gid) != 0) throw system_error("the user's group", errno);
  if (::setresuid(uid, uid, uid) != 0) throw system_error("the user", errno);
  if (uid != 0 || !capabilities.empty()) drop_capabilities(kept, capabilities);
  if (uid != 0 && ::setuid(0) == 0) throw Error("privileges could be regained");
  if (programs == Programs::none) ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  // https://man7.org/linux/man-pages/man2/keyctl.2.html
  ::syscall(SYS_keyctl, kJoinSessionKeyring, nullptr);  // slurmd's is not the user's
  ::prctl(PR_SET_DUMPABLE, 0);
  const rlimit none{};
  ::setrlimit(RLIMIT_CORE, &none);
  ::umask(077);
}

bool refuse_system_calls(UserProcess process) noexcept {
  const Refused others = process == UserProcess::sampler ? Refused::to_deliverers : Refused::to_samplers;
  try {
    std::vector<int> numbers;
    numbers.reserve(std::size(kRefusedCalls));
    for (const RefusedCall& call : kRefusedCalls) {
      if (call.to != others) numbers.push_back(call.number);
    }
    CallFilter filter;
    // become_user() comes after it.
    if (process == UserProcess::deliverer) filter.allow_only(SYS_keyctl, 0, {&kJoinSessionKeyring, 1});
    filter.refuse(numbers);
    filter.refuse_newer(kOtherTable, {});
    return filter.install();
  } catch (const std::exception&) {  // without memory
    return false;
  }
}

void offer_to_oom_killer() noexcept {
  const Descriptor file(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  [[maybe_unused]] const auto written = file ? ::write(file.get(), "900", 3) : 0;
}

void limit_deliverer() noexcept {
  for (const auto& each : kDelivererLimits) {
    rlimit limit{};
    if (::getrlimit(each.resource, &limit) != 0) continue;
    limit.rlim_max = std::min(limit.rlim_max, each.most);
    limit.rlim_cur = std::min(limit.rlim_cur, limit.rlim_max);
    ::setrlimit(each.resource, &limit);
  }
  // https://man7.org/linux/man-pages/man2/ioprio_set.2.html
  constexpr int kIdle = 3 << 13;  // IOPRIO_CLASS_IDLE
  ::syscall(SYS_ioprio_set, 1 /* of a process */, 0, kIdle);
}

}  // namespace reveal
