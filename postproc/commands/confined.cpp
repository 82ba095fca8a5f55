#include "postproc/commands/confined.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>
#include <utility>

#include "hdf5schema/basics/call_filter.h"
#include "hdf5schema/basics/child_answer.h"
#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/error.h"
#include "postproc/commands/terminal.h"
#include "postproc/telemetry/node_folders.h"
#include "postproc/telemetry/publish.h"
#include "postproc/words/quantity.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;

constexpr rlim_t kMostMemory = rlim_t{4} << 30;
constexpr rlim_t kCpuSeconds = 600;

std::string name_of_user(uid_t uid) {
  const passwd* entry = ::getpwuid(uid);
  return entry == nullptr ? "user " + std::to_string(uid) : entry->pw_name;
}

// Landlock, where the kernel has it (5.13): its own numbers, since headers of build hosts are older. The system call is
// the same on every architecture.

struct LandlockRuleset {
  std::uint64_t files = 0;
  std::uint64_t network = 0;
  std::uint64_t scopes = 0;
};
struct [[gnu::packed]] LandlockPath {
  std::uint64_t files = 0;
  std::int32_t parent = -1;
};
constexpr long kCreateRuleset = 444;
constexpr long kAddRule = 445;
constexpr long kRestrictSelf = 446;
constexpr unsigned kAskVersion = 1;
constexpr int kBeneath = 1;
constexpr std::uint64_t kReadFile = 1 << 2;
constexpr std::uint64_t kReadDirectory = 1 << 3;

void allow_reading(int ruleset, const fs::path& path) {
  const Descriptor place(::open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat status {};
  if (!place || ::fstat(place.get(), &status) != 0) return;  // what is not there cannot be read
  const LandlockPath rule{S_ISDIR(status.st_mode) ? kReadFile | kReadDirectory : kReadFile, place.get()};
  ::syscall(kAddRule, ruleset, kBeneath, &rule, 0U);
}

/// Nothing but reading below these places.
void restrict_files(const std::vector<fs::path>& readable) {
  const long version = ::syscall(kCreateRuleset, nullptr, 0, kAskVersion);
  if (version < 1) return;
  // Rights that came with version 2, 3 and 5; sockets with 4, signals with 6.
  LandlockRuleset rights;
  rights.files = version >= 5 ? 0xffff : version >= 3 ? 0x7fff : version == 2 ? 0x3fff : 0x1fff;
  rights.network = version >= 4 ? 3 : 0;
  rights.scopes = version >= 6 ? 3 : 0;
  const std::size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
  const Descriptor ruleset(static_cast<int>(::syscall(kCreateRuleset, &rights, size, 0U)));
  if (!ruleset) return;
  for (const fs::path& path : readable) allow_reading(ruleset.get(), path);
  ::syscall(kRestrictSelf, ruleset.get(), 0U);
}

// Seccomp: no file is made, changed, removed or opened for writing, no program started, nobody else signalled, traced
// or talked to, nothing typed into the terminal. It does not see names: reading elsewhere is Landlock's to refuse.

constexpr int kRefused[] = {
    SYS_execve,
    SYS_execveat,
    SYS_socket,
    SYS_socketpair,
    SYS_connect,
    SYS_bind,
    SYS_sendto,
    SYS_sendmsg,
    SYS_sendmmsg,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kill,
    SYS_tkill,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_unlinkat,
    SYS_renameat2,
    SYS_mkdirat,
    SYS_mknodat,
    SYS_linkat,
    SYS_symlinkat,
    SYS_fchmod,
    SYS_fchmodat,
    SYS_fchown,
    SYS_fchownat,
    SYS_truncate,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_utimensat,
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_fsetxattr,
    SYS_removexattr,
    SYS_lremovexattr,
    SYS_fremovexattr,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_setns,
    SYS_unshare,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_open_by_handle_at,
    SYS_memfd_create,
    SYS_quotactl,
    SYS_swapon,
    SYS_reboot,
    SYS_init_module,
    SYS_finit_module,
    SYS_kexec_load,
    SYS_setuid,
    SYS_setgid,
    SYS_setreuid,
    SYS_setresuid,
    SYS_setresgid,
    SYS_setregid,
    SYS_setgroups,
    SYS_shmget,
    SYS_msgget,
    SYS_semget,
    SYS_mq_open,
#if defined(__x86_64__)
    SYS_fork,
    SYS_vfork,
    SYS_creat,
    SYS_unlink,
    SYS_rename,
    SYS_renameat,
    SYS_mkdir,
    SYS_rmdir,
    SYS_mknod,
    SYS_link,
    SYS_symlink,
    SYS_chmod,
    SYS_chown,
    SYS_lchown,
    SYS_utime,
    SYS_utimes,
    SYS_futimesat,
#endif
};
/// Newer than all of the above; of those, what the C library needs.
constexpr int kFirstNewer = 424;
constexpr int kNewerAllowed[] = {439 /* faccessat2 */, 449 /* futex_waitv */};

void restrict_calls() {
  constexpr std::uint32_t kWriting = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND;
  constexpr std::uint32_t kTerminal[] = {TCGETS, TIOCGWINSZ};  // TIOCSTI would type into the caller's shell
  constexpr std::uint32_t kThread = 0x00010000;                // CLONE_THREAD
  const std::uint32_t itself[] = {static_cast<std::uint32_t>(::getpid())};  // which abort() signals
  CallFilter filter;
  filter.refuse(kRefused);
  filter.refuse_newer(kFirstNewer, kNewerAllowed);
  filter.refuse_with_flags(SYS_openat, 2, kWriting, EACCES);
#if defined(__x86_64__)
  filter.refuse_with_flags(SYS_open, 1, kWriting, EACCES);
#endif
  filter.allow_only(SYS_ioctl, 1, kTerminal);
  filter.allow_only(SYS_tgkill, 0, itself);
  filter.allow_only_with_flags(SYS_clone, 0, kThread);  // no processes
  filter.install();                                     // a kernel without it: the rest holds
}

void limit(__rlimit_resource resource, rlim_t soft, rlim_t hard) {
  rlimit now{};
  if (::getrlimit(resource, &now) != 0) return;
  now = {std::min(now.rlim_cur, soft), std::min(now.rlim_max, hard)};
  ::setrlimit(resource, &now);
}

/// Root looks with the owner's rights: it sees what he may see, and has nothing to lose.
void become_owner(const fs::path& input) {
  struct stat status {};
  if (::geteuid() != 0 || ::stat(input.c_str(), &status) != 0 || status.st_uid == 0) return;
  if (::setgroups(1, &status.st_gid) != 0 || ::setresgid(status.st_gid, status.st_gid, status.st_gid) != 0 ||
      ::setresuid(status.st_uid, status.st_uid, status.st_uid) != 0)
    throw system_error("rights of " + name_of_user(status.st_uid), errno);
  for (const char* variable : {"HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"}) ::unsetenv(variable);  // root's
  if (::access(input.c_str(), R_OK) != 0)
    throw Error(input.string() + ": " + name_of_user(status.st_uid) +
                ", its owner, cannot read it here; copy it as yourself: cp -r --no-preserve=ownership");
}

std::vector<fs::path> readable_places(const std::vector<fs::path>& inputs) {
  std::vector<fs::path> places = inputs;
  for (const char* system :
       {"/etc/reveal", "/etc/passwd", "/etc/nsswitch.conf", "/etc/localtime", "/usr/share/zoneinfo", "/proc/self",
        "/proc/cpuinfo", "/sys/devices/system/cpu", "/sys/fs/cgroup"})
    places.emplace_back(system);
  const char* base = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  if (base != nullptr && *base != '\0') {
    places.push_back(fs::path(base) / "reveal");
  } else if (home != nullptr && *home != '\0') {
    places.push_back(fs::path(home) / ".config/reveal");
  }
  return places;
}

void confine(pid_t parent, const Inputs& inputs, rlim_t cpu_seconds = kCpuSeconds) {
  ::tzset();
  become_owner(inputs.paths.front());
  const std::vector<fs::path> places = readable_places(inputs.paths);
  end_with_parent(parent);  // changing the user would forget it
  ::prctl(PR_SET_DUMPABLE, 0);
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  limit(RLIMIT_CORE, 0, 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  limit(RLIMIT_AS, kMostMemory, kMostMemory);
#endif
  if (!inputs.followed) limit(RLIMIT_CPU, cpu_seconds, cpu_seconds + 5);  // SIGXCPU, then SIGKILL
  restrict_files(places);
  restrict_calls();
}

std::optional<Foreign> g_foreign;  // in the child: what it was started for
pid_t g_child = 0;
extern "C" void pass_on(int signal) {
  if (g_child > 0) ::kill(g_child, signal);
}

int end_of(ChildProcess& child, const std::string& place,
           std::chrono::seconds cpu = std::chrono::seconds(kCpuSeconds)) {
  const int status = child.wait();
  if (status == ChildProcess::kUnknownEnd) throw Error(place + ": the end of the reading process is not known");
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  const int signal = WTERMSIG(status);
  if (signal == SIGXCPU)
    throw Error(place + ": reading it took more than " + duration(static_cast<double>(cpu.count())) +
                " of processor time");
  if (signal == SIGINT || signal == SIGTERM || signal == SIGPIPE) return 128 + signal;
  throw Error(place + ": reading it ended with " + ::strsignal(signal) + "; the file is damaged or malicious");
}

/// The terminal must not see a word of a child that somebody else's file may have taken over.
void print_nothing() {
  const Descriptor nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (!nowhere || ::dup2(nowhere.get(), STDOUT_FILENO) < 0 || ::dup2(nowhere.get(), STDERR_FILENO) < 0)
    throw system_error("/dev/null", errno);
}

std::optional<Foreign> foreign_file(const fs::path& path, uid_t me) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || status.st_uid == me) return std::nullopt;
  return Foreign{path, name_of_user(status.st_uid)};
}

enum class Below : std::uint8_t { nothing, node_folders };

/// In the directory, or in its folders of nodes.
std::optional<Foreign> foreign_entry(const fs::path& directory, uid_t me, Below below) {
  std::error_code error;
  for (fs::directory_iterator entries(directory, error), none; !error && entries != none; entries.increment(error)) {
    const fs::path& path = entries->path();
    if (auto foreign = foreign_file(path, me)) return foreign;
    if (below == Below::nothing || !is_node_folder(path.filename().native())) continue;
    if (auto foreign = foreign_entry(path, me, Below::nothing)) return foreign;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Foreign> foreign_part(const std::vector<fs::path>& inputs, bool entries) {
  if (g_foreign) return g_foreign;
  const uid_t me = ::geteuid();
  for (const fs::path& input : inputs) {
    struct stat status {};
    const bool is_there = ::stat(input.c_str(), &status) == 0;
    if (!is_there || !S_ISDIR(status.st_mode)) {
      if (auto foreign = foreign_file(input, me)) return foreign;
    }
    if (!is_there) continue;  // the command reports the missing file
    if (status.st_uid != me) return Foreign{input, name_of_user(status.st_uid)};
    if (!entries) continue;
    if (auto foreign = foreign_entry(input, me, Below::node_folders)) return foreign;
  }
  return std::nullopt;
}

void need_own_directory(const std::string& directory) {
  if (const auto foreign = foreign_part({directory}))
    throw Error(foreign->path.string() + " belongs to " + foreign->owner + ": nothing is written in " + directory);
}

int run_confined(const Inputs& inputs, const Foreign& foreign, int failure, const std::function<int()>& work) {
  const std::string place = inputs.paths.front().string();
  Pipe outputs = open_pipe();
  if (!outputs.read) throw system_error(place, errno);
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  ChildProcess child = fork_child([&] {
    int status = failure;
    try {
      g_foreign = foreign;
      send_outputs_to(outputs.write.get());
      confine(parent, inputs);
      status = work();
    } catch (const std::bad_alloc&) {
      complain(place + ": not enough memory to read it");
    } catch (const std::exception& error) {
      complain(error.what());
    }
    std::fflush(nullptr);
    return status;
  });
  if (!child) throw system_error(place, errno);
  outputs.write.close();
  // The terminal signals both; the child has the last word.
  g_child = child.pid();
  struct sigaction action {};
  action.sa_handler = pass_on;
  ::sigaction(SIGTERM, &action, nullptr);
  ::signal(SIGINT, SIG_IGN);
  write_outputs_from(outputs.read.get(), inputs.outputs, inputs.how);
  outputs.read.close();  // a child that has more to write than may be written must not wait for a reader
  return end_of(child, place);
}

std::string query_confined(const fs::path& directory, const ConfinedLimits& limits,
                           const std::function<std::string()>& work) {
  Pipe answers = open_pipe();
  if (!answers.read) throw system_error(directory.string(), errno);
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  ChildProcess child = fork_child([&] {
    int status = kFailure;
    std::string answer;
    try {
      g_foreign = Foreign{directory, "another user"};
      print_nothing();
      confine(parent, {.paths = {directory}}, static_cast<rlim_t>(limits.cpu.count()));
      answer = work();
      status = 0;
    } catch (const std::bad_alloc&) {
      answer = directory.string() + ": not enough memory to read it";
    } catch (const std::exception& error) {
      answer = error.what();
    }
    return write_all(answers.write.get(), answer) ? status : kFailure;
  });
  if (!child) throw system_error(directory.string(), errno);
  answers.write.close();
  ChildAnswer heard = hear_child(child, answers.read, {.time = limits.time, .bytes = limits.answer});
  if (!heard.ended) throw Error(directory.string() + ": reading it took too long or did not end");
  if (end_of(child, directory.string(), limits.cpu) != 0) throw Error(printable(heard.text));
  return std::move(heard.text);
}

}  // namespace reveal
