#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "spank/plugin.h"

enum {
  kCrashesThatOpen = 3,
  kCrashAge = 24 * 60 * 60,  // seconds; older ones are history
  kMostFiles = 10000,        // looked at in SPOOL/run
  kPollMs = 10,
  kTurnMs = 200,  // the longest wait for another job that starts here at this moment
  kLongestName = 300,
  kAttempts = 10,
};

// Names beside JOB.NODE; those begin with a digit.
static const char kBreaker[] = "breaker";
static const char kFailed[] = "failed.";  // before JOB.NODE: the collector could not be started, its steps need not try

static void nap(void) {
  const struct timespec time = {.tv_nsec = kPollMs * 1000000L};
  nanosleep(&time, NULL);
}

static int64_t clock_ms(clockid_t clock) {
  struct timespec now = {0};
  clock_gettime(clock, &now);
  return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static void file_name(char name[kLongestName], const char* prefix, uint32_t job, const char* node) {
  snprintf(name, kLongestName, "%s%u.%s", prefix, job, node);
}

/// A directory that only root can write, created with `mode` if that is not 0 and it is missing; -1 with the reason
/// otherwise.
static int open_private(int at, const char* name, mode_t mode, const char** why) {
  const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  int fd = openat(at, name, flags);
  bool fresh = false;
  if (fd < 0 && errno == ENOENT && mode != 0) {
    fresh = mkdirat(at, name, mode) == 0;
    if (fresh || errno == EEXIST) fd = openat(at, name, flags);
  }
  if (fd < 0) {
    *why = errno == ENOTDIR || errno == ELOOP ? "is not a directory itself" : strerror(errno);
    return -1;
  }
  struct stat status;
  const bool as_wanted = !fresh || fchmod(fd, mode) == 0;  // the umask was applied
  if (!as_wanted || fstat(fd, &status) != 0 || status.st_uid != 0 || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    *why = "must belong to root and be writable only by root";
    close(fd);
    errno = EPERM;
    return -1;
  }
  return fd;
}

enum Creation { create_missing, take_what_is_there };

/// SPOOL/run; -1 with the reason.
static int open_run(const struct Settings* settings, enum Creation creation, const char** why) {
  const int spool = open_private(AT_FDCWD, settings->spool, creation == create_missing ? 0711 : 0, why);
  if (spool < 0) return -1;
  const int run = open_private(spool, "run", creation == create_missing ? 0700 : 0, why);
  close(spool);
  return run;
}

/// One plugin at a time between here and the close of `run`. Another one that is stuck delays us, but not for long.
static void wait_for_turn(int run) {
  const int64_t end = clock_ms(CLOCK_MONOTONIC) + kTurnMs;
  while (flock(run, LOCK_EX | LOCK_NB) != 0 && clock_ms(CLOCK_MONOTONIC) < end) nap();
}

/// The file of a collector that ended without removing it: it exists, and no process holds its lock. A clock that was
/// set back leaves files from the future: they count once their time has come.
static bool is_crash(int run, const char* name, time_t since, time_t now) {
  struct stat status;
  if (name[0] < '0' || name[0] > '9') return false;
  if (fstatat(run, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return false;
  if (!S_ISREG(status.st_mode) || status.st_mtime < since || status.st_mtime > now) return false;
  const int fd = openat(run, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return false;
  const bool free_lock = flock(fd, LOCK_EX | LOCK_NB) == 0;
  close(fd);
  return free_lock;
}

static int64_t boot_time(void) {
  return (clock_ms(CLOCK_REALTIME) - clock_ms(CLOCK_BOOTTIME)) / 1000;
}

static bool breaker_is_open(int run) {
  // Whatever ran when the node went down left its file too, and did not crash.
  const int64_t now = clock_ms(CLOCK_REALTIME) / 1000;
  const int64_t boot = boot_time();
  const int64_t day = now - kCrashAge;
  const int list = openat(run, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const files = list >= 0 ? fdopendir(list) : NULL;
  if (files == NULL) {
    if (list >= 0) close(list);
    return false;
  }
  int crashes = 0;
  const struct dirent* file = NULL;
  for (int seen = 0; crashes < kCrashesThatOpen && seen < kMostFiles && (file = readdir(files)) != NULL; ++seen) {
    if (is_crash(run, file->d_name, (time_t)(boot > day ? boot : day), (time_t)now)) ++crashes;
  }
  closedir(files);
  return crashes >= kCrashesThatOpen;
}

/// Logged once: while the marker is there, it has been logged.
static void say_breaker(const struct Settings* settings, int run, const char* node) {
  const int marker = openat(run, kBreaker, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (marker < 0) return;
  close(marker);
  slurm_info(
      "reveal: %s: %d collectors crashed within a day, so no collector starts on this node; to allow new "
      "starts: " REVEAL_JANITOR " --reset-breaker %s",
      node, kCrashesThatOpen, settings->spool);
}

static int lock_file(int run, const char* name, enum Entrance entrance) {
  const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | (entrance == first_only ? O_EXCL : 0);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const int fd = openat(run, name, flags, 0600);
    if (fd < 0) return -1;
    struct stat status;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 || fstat(fd, &status) != 0 ||
        (status.st_nlink > 0 && ftruncate(fd, 0) != 0)) {
      const int error = errno;
      close(fd);
      errno = error;
      return -1;
    }
    if (status.st_nlink > 0) return fd;
    close(fd);  // its collector left between our two calls and took the file along: once more
  }
  errno = EAGAIN;
  return -1;
}

static bool is_there(int run, const char* name) {
  return faccessat(run, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int take_run_lock(const struct Settings* settings, uint32_t job, const char* node, enum Entrance entrance) {
  const char* why = "";
  const int run = open_run(settings, create_missing, &why);
  if (run < 0) {
    slurm_info("reveal: job %u: %s: no profile: %s: %s", job, node, settings->spool, why);
    return -1;
  }
  char name[kLongestName];
  char failed[kLongestName];
  file_name(name, "", job, node);
  file_name(failed, kFailed, job, node);
  int fd = -1;
  if (entrance == first_only && (is_there(run, name) || is_there(run, failed))) {
    close(run);  // the usual case of a step: nothing to wait for
    return -1;
  }
  wait_for_turn(run);
  if (breaker_is_open(run)) {
    say_breaker(settings, run, node);
  } else {
    unlinkat(run, kBreaker, 0);
    fd = lock_file(run, name, entrance);
    if (fd < 0 && errno == EWOULDBLOCK && entrance == first_or_again) {
      slurm_info("reveal: job %u: %s: no profile of this run: the collector of an earlier run is still running", job,
                 node);
    } else if (fd < 0 && errno != EWOULDBLOCK && errno != EEXIST) {
      slurm_info("reveal: job %u: %s: no profile: %s/run/%s: %s", job, node, settings->spool, name, strerror(errno));
    }
  }
  close(run);
  return fd;
}

void drop_run_lock(const struct Settings* settings, uint32_t job, const char* node, int lock) {
  const char* why = "";
  char name[kLongestName];
  char failed[kLongestName];
  file_name(name, "", job, node);
  file_name(failed, kFailed, job, node);
  const int run = open_run(settings, take_what_is_there, &why);
  if (run >= 0) {
    if (renameat(run, name, run, failed) != 0) unlinkat(run, name, 0);
    close(run);
  }
  close(lock);
}

/// Field 22 of /proc/PID/stat, which distinguishes a process from a later one with the same id; 0 if there is none.
static unsigned long long start_time(pid_t pid) {
  enum { kStartTime = 22, kFirstAfterName = 3 };
  char text[1024];
  snprintf(text, sizeof text, "/proc/%d/stat", (int)pid);
  const int fd = open(text, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t size = read(fd, text, sizeof text - 1);
  close(fd);
  text[size > 0 ? size : 0] = '\0';
  const char* field = strrchr(text, ')');  // the name before it may hold anything
  for (int i = kFirstAfterName; field != NULL && i <= kStartTime; ++i) field = strchr(field + 1, ' ');
  return field != NULL ? strtoull(field + 1, NULL, 10) : 0;
}

/// Root must not end a later process with the same id.
static bool terminate(pid_t pid, unsigned long long started) {
#if defined(SYS_pidfd_open) && defined(SYS_pidfd_send_signal)
  const int process = (int)syscall(SYS_pidfd_open, pid, 0);
  if (process >= 0) {  // from Linux 5.3 on
    const bool sent = start_time(pid) == started && syscall(SYS_pidfd_send_signal, process, SIGTERM, NULL, 0) == 0;
    close(process);
    return sent;
  }
#endif
  return start_time(pid) == started && kill(pid, SIGTERM) == 0;
}

/// False while the file does not name a process that runs.
static bool ask_to_end(int lock) {
  char text[64];
  const ssize_t size = pread(lock, text, sizeof text - 1, 0);
  text[size > 0 ? size : 0] = '\0';
  char* rest = NULL;
  const long pid = strtol(text, &rest, 10);
  const unsigned long long started = strtoull(rest, NULL, 10);
  return pid > 1 && pid <= INT32_MAX && started != 0 && terminate((pid_t)pid, started);
}

static void forget_failure(int run, uint32_t job, const char* node) {
  char failed[kLongestName];
  file_name(failed, kFailed, job, node);
  unlinkat(run, failed, 0);
}

int stop_collector(const struct Settings* settings, uint32_t job, const char* node) {
  const char* why = "";
  const int run = open_run(settings, take_what_is_there, &why);
  if (run < 0) {
    if (errno != ENOENT) {  // else nothing was ever started here
      slurm_info("reveal: job %u: %s: %s: %s; a running collector ends with the job's extern step", job, node,
                 settings->spool, why);
    }
    return -1;
  }
  char name[kLongestName];
  file_name(name, "", job, node);
  const int lock = openat(run, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (lock < 0) {
    forget_failure(run, job, node);
    close(run);
    return -1;
  }

  const int64_t end = clock_ms(CLOCK_MONOTONIC) + settings->epilog_seconds * INT64_C(1000);
  bool ended = flock(lock, LOCK_EX | LOCK_NB) == 0;
  bool asked = !ended && ask_to_end(lock);  // also by an epilog that does not wait
  while (!ended && clock_ms(CLOCK_MONOTONIC) < end) {
    nap();
    // It may have been started a moment ago and not yet have written its id.
    if (!asked) asked = ask_to_end(lock);
    ended = flock(lock, LOCK_EX | LOCK_NB) == 0;
  }
  forget_failure(run, job, node);  // now, when it cannot come any more
  struct stat status = {.st_nlink = 0};
  const bool left = ended && fstat(lock, &status) == 0 && status.st_nlink > 0;
  const bool node_went_down = left && status.st_mtime < boot_time();
  // The collector that delivers writes into it: then it would be younger than the boot, and count for the breaker.
  if (node_went_down) unlinkat(run, name, 0);
  close(run);
  if (!ended) {
    slurm_info("reveal: job %u: %s: the collector did not end within %d s; it will end by itself", job, node,
               settings->epilog_seconds);
  } else if (node_went_down) {
    slurm_info("reveal: job %u: %s: the node went down while the collector ran; its recording is delivered", job, node);
  } else if (left) {
    slurm_info("reveal: job %u: %s: the collector crashed; %s/run/%s is kept and counts for the breaker", job, node,
               settings->spool, name);
  }
  if (left) return lock;
  close(lock);
  return -1;
}
