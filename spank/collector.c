#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "spank/plugin.h"

enum {
  kLock = 3,    // the argument of --lock-fd
  kReport = 4,  // the pipe for the reason of a failed start; execve closes it
  kFirstToClose = 5,
  kWaitMs = 1000,
  kNoProgram = 127,
};

const char* find_variable(char** environment, const char* name) {
  const size_t length = strlen(name);
  for (char** entry = environment; entry != NULL && *entry != NULL; ++entry) {
    if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=') return *entry + length + 1;
  }
  return NULL;
}

void add_variable(struct Environment* environment, const char* name, const char* value) {
  char* const entry = environment->text + environment->used;
  const size_t room = sizeof environment->text - environment->used;
  if (environment->count == kMostEntries || find_variable(environment->entries, name) != NULL) return;
  const int length = snprintf(entry, room, "%s=%s", name, value);
  if (length < 0 || (size_t)length >= room) return;
  environment->used += (size_t)length + 1;
  environment->entries[environment->count++] = entry;
  environment->entries[environment->count] = NULL;
}

// slurmstepd has threads: between fork and execve only functions that are safe in a signal handler may be called. fork
// itself is not, it runs the handlers that Slurm registered for it; _Fork is. The processes are small (some 10 MB):
// copying their page tables is cheaper than the care that vfork would need.
// https://man7.org/linux/man-pages/man7/signal-safety.7.html
static pid_t plain_fork(void) {
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 34)
  return _Fork();
#else
  return fork();
#endif
}

static void close_from(int first) {
#ifdef SYS_close_range
  if (syscall(SYS_close_range, (unsigned)first, ~0U, 0U) == 0) return;
#endif
  enum { kOldKernelLimit = 65536 };
  struct rlimit limit;
  int end = kOldKernelLimit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < kOldKernelLimit) end = (int)limit.rlim_cur;
  for (int fd = first; fd < end; ++fd) close(fd);
}

static void forget_signals(void) {
  struct sigaction standard;
  memset(&standard, 0, sizeof standard);
  standard.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) sigaction(number, &standard, NULL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
}

static bool arrange_descriptors(int lock, int report) {
  // Out of the way first: any of them may have one of the numbers that another one shall get.
  const int null = open("/dev/null", O_RDWR);
  const int safe_null = fcntl(null, F_DUPFD, kFirstToClose);
  const int safe_lock = fcntl(lock, F_DUPFD, kFirstToClose);
  const int safe_report = fcntl(report, F_DUPFD, kFirstToClose);
  if (safe_null < 0 || safe_lock < 0 || safe_report < 0) return false;
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (dup2(safe_null, fd) < 0) return false;
  }
  if (dup2(safe_lock, kLock) < 0 || dup3(safe_report, kReport, O_CLOEXEC) < 0) return false;
  close_from(kFirstToClose);
  return true;
}

/// In the child. Async-signal-safe calls only.
static _Noreturn void become_collector(char* const argv[], char* const envp[], int lock, int report) {
  // A child of the prolog that stays in its session is killed with it.
  setsid();
  const pid_t pid = plain_fork();
  if (pid > 0) _exit(0);
  if (pid == 0 && arrange_descriptors(lock, report)) {
    report = kReport;
    forget_signals();
    umask(S_IRWXG | S_IRWXO);
    if (chdir("/") == 0) execve(argv[0], argv, envp);
  }
  const int error = errno;
  if (write(report, &error, sizeof error) != (ssize_t)sizeof error) _exit(kNoProgram + 1);
  _exit(kNoProgram);
}

static int64_t now_ms(void) {
  struct timespec now = {0};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/// 0 when the pipe was closed by execve, else the errno that came through it.
static int exec_error(int end_of_pipe) {
  const int64_t end = now_ms() + kWaitMs;
  for (int64_t left = kWaitMs; left >= 0; left = end - now_ms()) {
    struct pollfd ready = {.fd = end_of_pipe, .events = POLLIN};
    if (poll(&ready, 1, (int)left) <= 0) continue;
    int error = 0;
    const ssize_t size = read(end_of_pipe, &error, sizeof error);
    return size == (ssize_t)sizeof error ? error : 0;
  }
  return 0;  // a file system that hangs: whatever comes of it holds the lock
}

static void reap(pid_t pid) {
  const int64_t end = now_ms() + kWaitMs;
  while (waitpid(pid, NULL, WNOHANG) == 0 && now_ms() < end) {
    const struct timespec millisecond = {.tv_nsec = 1000000};
    nanosleep(&millisecond, NULL);
  }
}

int start_collector(const struct Settings* settings, const struct Start* start, struct Environment* environment,
                    int lock) {
  char job[32];
  char uid[16];
  char gid[16];
  snprintf(job, sizeof job, "slurm:%u", start->job);
  snprintf(uid, sizeof uid, "%u", (unsigned)start->uid);
  snprintf(gid, sizeof gid, "%u", (unsigned)start->gid);
  // clang-format off
  const char* const words[] = {
      settings->collector,
      "--job", job,
      "--node", start->node,
      "--spool", settings->spool,
      "--lock-fd", "3",
      "--uid", uid,
      "--gid", gid,
      "--config", settings->config,
      "--disable-file", settings->disable,
      start->orphan ? "--orphan" : NULL,
      NULL};
  // clang-format on

  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return errno;
  // A handler of slurmstepd's must not run in the child.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = plain_fork();
  if (pid == 0) become_collector((char* const*)words, environment->entries, lock, ends[1]);
  int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  close(ends[1]);
  if (pid > 0) {
    error = exec_error(ends[0]);
    reap(pid);
  }
  close(ends[0]);
  return error;
}
