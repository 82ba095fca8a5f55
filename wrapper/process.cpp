#include "wrapper/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/run_program.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

// Signals that a batch system or an impatient user sends to every process of a job. None of it is meant for the
// collector.
constexpr int kSignalsOfTheJob[] = {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGPIPE, SIGXCPU};
// Our own programs ignore these: we wait for them after the command, without stopping. The second comes for a line from
// the background where `stty tostop` is set.
constexpr int kStops[] = {SIGTSTP, SIGTTOU};
// Loaded into every program of the job, or chosen for its HDF5: another library under ours ends it.
constexpr const char* kForTheJobOnly[] = {"LD_PRELOAD",  "LD_LIBRARY_PATH",    "LD_AUDIT",
                                          "HDF5_DRIVER", "HDF5_VOL_CONNECTOR", "HDF5_PLUGIN_PATH"};

/// False while a full pipe takes nothing: its reader may be waiting for our end first, as for that of the command.
bool takes_a_line(int fd) noexcept {
  constexpr int kReaderLimitMs = 500;
  pollfd ready{fd, POLLOUT, 0};
  return ::poll(&ready, 1, kReaderLimitMs) != 0;
}

bool is_shortage(int error_number) noexcept {
  return error_number == EAGAIN || error_number == ENOMEM || error_number == EMFILE || error_number == ENFILE;
}

void leave_the_jobs_descriptors() noexcept {
  // A pipe of the job must not stay open through the collector.
  if (::close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC) == 0) return;
  // https://man7.org/linux/man-pages/man2/close_range.2.html
  const int most = most_descriptors();  // one by one where the kernel cannot mark them all at once (before 5.11)
  for (int fd = STDERR_FILENO + 1; fd < most; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

void be_the_first_without_memory() noexcept {
  const Descriptor file(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  [[maybe_unused]] const auto written = file ? ::write(file.get(), "900", 3) : 0;
}

int become(char* const* argv, const ProgramStart& start, const BlockedSignals& signals, pid_t parent,
           int error_pipe) noexcept {
  using Role = ProgramStart::Role;
  const std::pair<int, int> streams[] = {
      {start.input, STDIN_FILENO}, {start.output, STDOUT_FILENO}, {start.error, STDERR_FILENO}};
  for (const auto& [from, to] : streams) {
    if (from >= 0) ::dup2(from, to);
  }
  if (start.role == Role::detached) {
    ::setsid();  // may be refused in a container; the job is not harmed by a collector in its session
    for (const int signal : kSignalsOfTheJob) ::signal(signal, SIG_IGN);
    leave_the_jobs_descriptors();
  } else {
    end_with_parent(parent);
  }
  if (start.role != Role::command) {
    for (const int signal : kStops) ::signal(signal, SIG_IGN);
    be_the_first_without_memory();
    for (const char* name : kForTheJobOnly) ::unsetenv(name);
  }
  signals.restore();
  ::execvp(argv[0], argv);
  const int error_number = errno;
  [[maybe_unused]] const auto written = ::write(error_pipe, &error_number, sizeof error_number);
  return kCommandNotFound;
}

std::string read_small_file(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[1024];
  const ssize_t size = file ? ::read(file.get(), text, sizeof text) : 0;
  return size > 0 ? std::string(text, static_cast<std::size_t>(size)) : std::string();
}

// The fields of /proc/PID/stat after the command name, which may itself contain blanks and parentheses.
// https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
std::string_view fields_after_name(std::string_view stat) {
  const std::size_t name_end = stat.rfind(')');
  return name_end == std::string_view::npos ? std::string_view() : stat.substr(name_end + 1);
}

}  // namespace

void say_line(std::initializer_list<std::string_view> parts) noexcept {
  constexpr std::size_t kMostParts = 8;
  std::array<iovec, kMostParts> line{};
  std::size_t count = 0;
  const auto add = [&](std::string_view part) {
    // writev() only reads it. NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
    if (count < line.size()) line[count++] = {const_cast<char*>(part.data()), part.size()};
  };
  add("reveal-run: ");
  for (const std::string_view part : parts) add(part);
  add("\n");
  if (!takes_a_line(STDERR_FILENO)) return;
  [[maybe_unused]] const auto written = ::writev(STDERR_FILENO, line.data(), static_cast<int>(count));
}

BlockedSignals::BlockedSignals() noexcept {
  struct sigaction by_default {};
  by_default.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &by_default, &child_before_);
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before_);
}

void BlockedSignals::restore() const noexcept {
  ::sigaction(SIGCHLD, &child_before_, nullptr);
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

bool raised_by_ourselves(const siginfo_t& signal) noexcept {
  return (signal.si_signo == SIGPIPE || signal.si_signo == SIGXFSZ) && signal.si_code <= 0 &&
         signal.si_pid == ::getpid();
}

void send_signal(pid_t to, const siginfo_t& signal) noexcept {
  // With the value, for programs that use sigqueue(3); the kernel fills in the sender.
  if (signal.si_code == SI_QUEUE) {
    ::sigqueue(to, signal.si_signo, signal.si_value);
  } else {
    ::kill(to, signal.si_signo);
  }
}

EarlySignals::EarlySignals() noexcept {
  sigset_t all;
  sigfillset(&all);
  constexpr timespec kNow{0, 0};
  siginfo_t signal{};
  while (count_ < taken_.size() && ::sigtimedwait(&all, &signal, &kNow) > 0) {
    if (signal.si_signo != SIGCHLD && !raised_by_ourselves(signal)) taken_[count_++] = signal;
  }
}

void EarlySignals::pass_on(pid_t to) const noexcept {
  for (std::size_t i = 0; i < count_; ++i) send_signal(to, taken_[i]);
}

StartedProgram start_program(char* const* argv, const ProgramStart& start, const BlockedSignals& signals) noexcept {
  // Closed by a successful exec, so reading nothing means that the program runs.
  Pipe problem = open_pipe();
  if (!problem.read) return {-1, errno, true};
  const pid_t parent = ::getpid();
  ChildProcess child = fork_child([&] { return become(argv, start, signals, parent, problem.write.get()); });
  if (!child) return {-1, errno, true};
  problem.write.close();

  int error_number = 0;
  ssize_t size = 0;
  do {
    size = ::read(problem.read.get(), &error_number, sizeof error_number);
  } while (size < 0 && errno == EINTR);
  if (size != sizeof error_number) return {child.pid(), 0, false};
  child.wait();
  return {-1, error_number, is_shortage(error_number)};
}

StartedProgram start_program(const std::vector<std::string>& words, const ProgramStart& start,
                             const BlockedSignals& signals) {
  return start_program(exec_pointers(words).data(), start, signals);
}

std::vector<std::string> environment_of_assistants() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const bool for_the_job = std::any_of(std::begin(kForTheJobOnly), std::end(kForTheJobOnly),
                                         [&](const char* name) { return text.substr(0, text.find('=')) == name; });
    if (!for_the_job) variables.emplace_back(text);
  }
  return variables;
}

int shell_status(const siginfo_t& ended) noexcept {
  return ended.si_code == CLD_EXITED ? ended.si_status : 128 + ended.si_status;
}

std::optional<long long> process_start_time(pid_t pid) {
  const std::string stat = read_small_file("/proc/" + std::to_string(pid) + "/stat");
  std::string_view rest = fields_after_name(stat);
  std::string_view word;
  for (int field = 3; field <= 22; ++field) word = next_word(rest);  // starttime is field 22
  return parse_int(word);
}

bool process_alive(pid_t pid, std::optional<long long> start_time) {
  if (::kill(pid, 0) != 0 && errno == ESRCH) return false;
  const std::string stat = read_small_file("/proc/" + std::to_string(pid) + "/stat");
  std::string_view rest = fields_after_name(stat);
  const std::string_view state = next_word(rest);
  if (state == "Z" || state == "X") return false;
  const auto now = process_start_time(pid);
  return !start_time || !now || *now == *start_time;
}

bool signal_process(pid_t pid, std::optional<long long> start_time, int signal) {
  const Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process_alive(pid, start_time)) return false;
  if (process) return ::syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0) == 0;
  return ::kill(pid, signal) == 0;
}

bool interrupted_within(std::chrono::milliseconds time) {
  sigset_t wake;
  sigemptyset(&wake);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&wake, signal);
  const timespec step{time.count() / 1000, time.count() % 1000 * 1'000'000};
  const int signal = ::sigtimedwait(&wake, nullptr, &step);
  return signal > 0 && signal != SIGCHLD;
}

WaitResult wait_for_end(pid_t pid, std::optional<long long> start_time, std::chrono::milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kStep{10};  // there is no signal at the end of another process's child
  const auto deadline = Clock::now() + limit;
  bool interrupted = false;
  while (true) {
    siginfo_t ended{};
    if (::waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOHANG) == 0) {
      if (ended.si_pid == pid) return {WaitEnd::ended, shell_status(ended)};
    } else if (!process_alive(pid, start_time)) {  // not our child
      return {WaitEnd::ended, std::nullopt};
    }
    if (interrupted) return {WaitEnd::interrupted, std::nullopt};
    if (Clock::now() >= deadline) return {WaitEnd::deadline, std::nullopt};
    interrupted = interrupted_within(kStep);
  }
}

}  // namespace reveal
