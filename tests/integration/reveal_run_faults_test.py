#!/usr/bin/python3
"""Every system call that reveal-run makes may fail: the command runs once, with its own status and output.

Runs reveal-run under ptrace, lists the calls it makes itself (in children of its own up to their exec, too), then
fails them one at a time, each with every error number it may plausibly return, and compares status and standard output
of the command with those of a run without reveal-run.

  reveal_run_faults_test.py            a random sample of 60 faults, as in the suite
  reveal_run_faults_test.py --all      every fault; prints a table: call x error number, runs, kept
  reveal_run_faults_test.py --only openat:EMFILE --verbose

A call may also never return, as on a file system that does not answer: the run ends all the same.

The collector and `reveal` are small scripts here, so that a run takes 20 ms. Calls of the C library before main() are
left out.
"""
import argparse
import collections
import ctypes
import errno
import os
import pathlib
import platform
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import program, skip  # noqa: E402

RUN = program("reveal-run")
LIMIT = 15  # seconds for one run; none of them needs it

(TRACEME, PEEKUSER, POKEUSER, CONT, SYSCALL, DETACH, SETOPTIONS, GETEVENTMSG) = (
    0, 3, 6, 7, 24, 17, 0x4200, 0x4201)
TRACESYSGOOD, TRACEFORK, TRACEVFORK, TRACECLONE, TRACEEXEC, EXITKILL = 1, 2, 4, 8, 16, 1 << 20
EVENT_EXEC = 4
WALL = 0x40000000
RAX, ORIG_RAX, RSI, RDI = 80, 120, 104, 112  # offsets in user_regs_struct of x86_64

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]

# x86_64; what cannot fail (getpid, exit, ...) or whose failure is the C library's own affair is not here.
CALLS = {
    "read": (0, "EIO EINTR"), "write": (1, "ENOSPC EIO EPIPE EDQUOT"), "close": (3, "EIO EINTR"),
    "stat": (4, "EIO ENOMEM"), "fstat": (5, "EIO ENOMEM"), "lstat": (6, "EIO ENOMEM"),
    "poll": (7, "EINTR ENOMEM"), "lseek": (8, "EINVAL"), "mmap": (9, "ENOMEM"), "mprotect": (10, "ENOMEM"),
    "munmap": (11, "ENOMEM"), "brk": (12, "ENOMEM"), "rt_sigaction": (13, "EINVAL"), "rt_sigprocmask": (14, "EINVAL"),
    "ioctl": (16, "EIO ENOTTY"), "pread64": (17, "EIO"), "pwrite64": (18, "ENOSPC EIO EFBIG"), "writev": (20, "EPIPE EIO ENOSPC"),
    "access": (21, "EACCES EIO ENOMEM"), "mremap": (25, "ENOMEM"), "dup2": (33, "EBUSY EINTR"),
    "nanosleep": (35, "EINTR"), "clone": (56, "EAGAIN ENOMEM"), "fork": (57, "EAGAIN ENOMEM"), "vfork": (58, "EAGAIN ENOMEM"),
    "execve": (59, "EAGAIN ENOMEM EMFILE ENFILE"), "wait4": (61, "EINTR ECHILD"), "kill": (62, "EPERM ESRCH"),
    "uname": (63, "EPERM"), "fcntl": (72, "EINVAL EMFILE"), "flock": (73, "ENOLCK EINTR EWOULDBLOCK"),
    "ftruncate": (77, "EIO EROFS"), "getcwd": (79, "ENOENT ENOMEM EACCES"), "rename": (82, "EIO EACCES EROFS"),
    "mkdir": (83, "EACCES ENOSPC EDQUOT EROFS EIO ENOENT"), "rmdir": (84, "EIO EBUSY"), "unlink": (87, "EIO EACCES EROFS"),
    "readlink": (89, "EACCES ENOMEM ENOENT"), "chmod": (90, "EPERM"), "setsid": (112, "EPERM"),
    "rt_sigpending": (127, "EPERM"), "rt_sigtimedwait": (128, "EINTR EAGAIN"), "statfs": (137, "EIO EACCES ENOSYS"),
    "prctl": (157, "EINVAL EPERM"), "getdents64": (217, "EIO ENOMEM"), "clock_nanosleep": (230, "EINTR"),
    "waitid": (247, "EINTR ECHILD"), "openat": (257, "EMFILE ENFILE ENOMEM EACCES EIO ENOSPC EROFS"),
    "newfstatat": (262, "EIO ENOMEM"), "unlinkat": (263, "EIO EACCES"), "renameat": (264, "EIO EACCES"),
    "readlinkat": (267, "EACCES ENOMEM"), "faccessat": (269, "EACCES EIO"), "pipe2": (293, "EMFILE ENFILE"),
    "rt_tgsigqueueinfo": (297, "EPERM"), "renameat2": (316, "EIO EINVAL"), "getrandom": (318, "ENOSYS EAGAIN"),
    "statx": (332, "EIO ENOSYS"), "clone3": (435, "EAGAIN ENOMEM ENOSYS"), "close_range": (436, "ENOSYS EPERM"),
    "pidfd_open": (434, "EMFILE ENFILE ENOMEM ENOSYS"), "signalfd4": (289, "EMFILE ENFILE ENOMEM ENODEV"),
    "faccessat2": (439, "EACCES EIO"),
}
NAMES = {number: name for name, (number, _) in CALLS.items()}
FCNTL, BRK, CLOSE = CALLS["fcntl"][0], CALLS["brk"][0], CALLS["close"][0]

HANG = -1

Call = collections.namedtuple("Call", "role name occurrence")  # role: 0 reveal-run, then its children as they come

STUB_COLLECTOR = """#!/bin/sh
while [ $# -gt 0 ]; do [ "$1" = --output ] && trace="$2"; shift; done
: >"$trace.part"
trap 'mv "$trace.part" "$trace"; exit 0' TERM
i=0
while [ $i -lt 1000 ]; do sleep 0.02; i=$((i + 1)); done
"""
STUB_REVEAL = """#!/bin/sh
echo '{}' >"$2/report.json"
echo a report
"""

MODES = {
    "short": ([], "echo out; exit 7", 7),
    "kept": (["--output", "kept", "--no-report"], "echo out", 0),
    "killed": (["--no-report", "--tag", "a=b"], "echo out; kill -9 $$", 137),
    "hung": (["--output", "hung", "--no-report", "--report-limit", "1s"], "echo out; exit 5", 5),
    "swept": (["--output", "swept", "--no-report"], "rm -r run/reveal/*; echo out; exit 5", 5),
    "reported": (["--output", "reported", "--name", "x"], "echo out; exit 3", 3),
}


def ptrace(request, pid, address=0, data=0):
    ctypes.set_errno(0)
    result = libc.ptrace(request, pid, address, data)
    number = ctypes.get_errno()
    if number:
        raise OSError(number, os.strerror(number))
    return result


def text_at(pid, address):
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        memory.seek(address & (1 << 64) - 1)
        return memory.read(256).split(b"\0")[0].decode(errors="replace")


class Hung(Exception):
    """The tracee stays where it is."""


class Tracee:
    def __init__(self, role, counts):
        self.role, self.counts = role, counts
        self.inside = False  # a system call
        self.result = None   # what to return from it
        self.number = -1
        self.last_break = 0
        self.in_main = role > 0


class TracedRun:
    """One run of reveal-run, in which at most one call fails."""

    def __init__(self, place, mode, fault=None, error=0):
        """`error`: a number, or HANG."""
        self.place, self.fault, self.error = place, fault, error
        self.calls, self.fired, self.roles = [], False, 0
        self.named = []  # (call, path) of calls with the path of a file
        options, script, _ = MODES[mode]
        self.argv = [str(place / "bin" / "reveal-run"), *options, "--", "/bin/sh", "-c", script]
        self.tracees, self.early = {}, set()

    def start(self):
        pid = os.fork()
        if pid:
            return pid
        try:
            os.chdir(self.place)
            for name, stream in (("out", 1), ("err", 2)):
                os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
            os.closerange(3, 64)
            resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))  # which may be closed one by one
            ptrace(TRACEME, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
            os.execv(self.argv[0], self.argv)
        finally:
            os._exit(99)

    def run(self):
        main = self.start()
        os.waitpid(main, 0)
        ptrace(SETOPTIONS, main, 0, TRACESYSGOOD | TRACEFORK | TRACEVFORK | TRACECLONE | TRACEEXEC | EXITKILL)
        self.tracees[main] = Tracee(0, collections.Counter())
        ptrace(SYSCALL, main)
        self.main, self.execs = main, 0
        signal.alarm(LIMIT)
        try:
            while True:
                pid, status = os.waitpid(-1, WALL)
                if os.WIFSTOPPED(status):
                    try:
                        self.stopped(pid, status)
                    except (ProcessLookupError, Hung):  # killed meanwhile
                        pass
                    continue
                self.tracees.pop(pid, None)
                if pid == main:
                    return os.waitstatus_to_exitcode(status)
        finally:
            signal.alarm(0)
            self.clean_up()

    def clean_up(self):
        for pid in list(self.tracees):
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, WALL)
            except OSError:
                pass

    def stopped(self, pid, status):
        event, number = status >> 16, os.WSTOPSIG(status)
        tracee = self.tracees.get(pid)
        if tracee is None:  # its first stop, before or after its parent's event
            self.early.add(pid)
            return
        deliver = 0
        if event == EVENT_EXEC:
            self.execs += pid == self.main
            if pid != self.main or self.execs > 1:  # another program now
                ptrace(DETACH, pid)
                if pid != self.main:
                    del self.tracees[pid]
                return
        elif event:
            self.adopt(tracee, pid)
        elif number == signal.SIGTRAP | 0x80:
            self.at_call(pid, tracee)
        elif number != signal.SIGSTOP or tracee.role == 0:
            deliver = number
        ptrace(SYSCALL, pid, 0, deliver)

    def adopt(self, parent, parent_pid):
        child = ctypes.c_ulong()
        ptrace(GETEVENTMSG, parent_pid, 0, ctypes.addressof(child))
        self.roles += 1
        tracee = Tracee(self.roles, collections.Counter())
        tracee.last_break = parent.last_break
        self.tracees[child.value] = tracee
        if child.value not in self.early:
            os.waitpid(child.value, WALL)
        self.early.discard(child.value)
        ptrace(SYSCALL, child.value)

    def at_call(self, pid, tracee):
        if tracee.inside:
            tracee.inside = False
            if tracee.result is not None:
                ptrace(POKEUSER, pid, RAX, tracee.result & (1 << 64) - 1)
                tracee.result = None
            elif tracee.number == BRK:
                tracee.last_break = ptrace(PEEKUSER, pid, RAX)
            return
        tracee.inside = True
        number = tracee.number = ptrace(PEEKUSER, pid, ORIG_RAX)
        # The first thing main() does is to look whether descriptor 0 is open.
        if number == FCNTL and ptrace(PEEKUSER, pid, RDI) == 0 and ptrace(PEEKUSER, pid, RSI) == 1:
            tracee.in_main = True
        if not tracee.in_main or number not in NAMES:
            return
        call = Call(tracee.role, NAMES[number], tracee.counts[number])
        tracee.counts[number] += 1
        self.calls.append(call)
        if call.name in ("stat", "newfstatat", "unlink"):
            self.named.append((call, text_at(pid, ptrace(PEEKUSER, pid, RSI if call.name == "newfstatat" else RDI))))
        if call == self.fault:
            self.fired = True
            if self.error == HANG:
                raise Hung
            # A brk() that fails returns the break as it is; a close() that fails has closed.
            tracee.result = tracee.last_break if number == BRK else -self.error
            if number != CLOSE:
                ptrace(POKEUSER, pid, ORIG_RAX, (1 << 64) - 1)


def prepare(place):
    for name in ("bin", "run", "home"):
        (place / name).mkdir(mode=0o700)
    shutil.copy(RUN, place / "bin")
    for name, text in (("reveal-collect", STUB_COLLECTOR), ("reveal", STUB_REVEAL)):
        (place / "bin" / name).write_text(text)
        (place / "bin" / name).chmod(0o755)
    os.environ.update(XDG_RUNTIME_DIR=str(place / "run"), HOME=str(place / "home"), PATH="/usr/bin:/bin", LC_ALL="C")
    for name in list(os.environ):
        if name.startswith(("SLURM_", "REVEAL_", "OMPI_", "PMI", "XDG_CONFIG")):
            del os.environ[name]


def one_run(place, mode, fault=None, error=0):
    """Returns the run, its status as a shell has it, and the command's standard output."""
    for entry in (*MODES, *(f"{mode}-2" for mode in MODES)):
        shutil.rmtree(place / entry, ignore_errors=True)
    run = TracedRun(place, mode, fault, error)
    status = run.run()
    return run, 128 - status if status < 0 else status, (place / "out").read_text()


def faults_of(place):
    for mode in MODES:
        run, status, output = one_run(place, mode)
        if mode in ("hung", "swept"):
            continue
        if (status, output) != (MODES[mode][2], "out\n"):
            sys.exit(f"without a fault, {mode}: status {status}, output {output!r}: {(place / 'err').read_text()}")
        for call in run.calls:
            for name in CALLS[call.name][1].split():
                yield mode, call, name


def hangs_of(place):
    """A look for a file that a word of the command may name, a call on the job's directory in the child that makes it,
    one in the child that ends the run, and one where the run's own directory was removed."""
    run = one_run(place, "hung")[0]
    asked = next(call for call, path in run.named if path == "-c")
    made = next(call for call in run.calls if call.name == "mkdir" and call.role > 0)
    closed = [call for call in run.calls if call.role > 0 and call.name in ("lstat", "newfstatat")][-1]
    released = next(call for call, path in one_run(place, "swept")[0].named if path.endswith(".claimed"))
    return [*(("hung", call, "HANG") for call in (asked, made, closed)), ("swept", released, "HANG")]


def complaint(place, mode, fault, name):
    """"" if the command was run as without reveal-run; None if the call was not made this time."""
    try:
        run, status, output = one_run(place, mode, fault, HANG if name == "HANG" else getattr(errno, name))
    except TimeoutError:
        return "not ended"
    if not run.fired:
        return None
    if (status, output) == (MODES[mode][2], "out\n"):
        return ""
    return f"status {status}, output {output!r}: {(place / 'err').read_text()!r}"


def on_alarm(*_):
    raise TimeoutError


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--all", action="store_true")
    options.add_argument("--sample", type=int, default=60)
    options.add_argument("--seed", type=int, default=int(time.time()))
    options.add_argument("--only", help="CALL or CALL:ERROR")
    options.add_argument("--verbose", action="store_true")
    options = options.parse_args()
    if platform.machine() != "x86_64":
        skip("knows the system calls of x86_64 only")
    signal.signal(signal.SIGALRM, on_alarm)
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        prepare(place)
        try:
            faults = list(faults_of(place))
            hangs = hangs_of(place)
        except PermissionError:
            skip("ptrace is not permitted here")
        known = len(faults)
        if options.only:
            name, _, error = options.only.partition(":")
            faults = [each for each in faults if each[1].name == name and error in ("", each[2])]
        elif not options.all:
            print(f"seed {options.seed}")
            faults = random.Random(options.seed).sample(faults, min(options.sample, known)) + hangs
        began = time.monotonic()
        runs, kept, failures = collections.Counter(), collections.Counter(), []
        for mode, fault, name in faults:
            said = complaint(place, mode, fault, name)
            if options.verbose:
                print(mode, *fault, name, "not made" if said is None else said or "kept", flush=True)
            if said is None:
                continue
            runs[fault.name, name] += 1
            kept[fault.name, name] += not said
            if said:
                failures.append(f"{mode}: {fault.name} #{fault.occurrence} of process {fault.role}: {name}: {said}")
        if options.all or options.only:
            for key in sorted(runs):
                print(f"{key[0]:<16} {key[1]:<12} {runs[key]:5} runs {kept[key]:5} kept")
        print(f"{sum(runs.values())} faults of {known} known, {sum(kept.values())} kept status and output, "
              f"{time.monotonic() - began:.0f} s")
        for failure in failures[:40]:
            print("FAIL:", failure)
        sys.exit(1 if failures or not runs else 0)


if __name__ == "__main__":
    main()
