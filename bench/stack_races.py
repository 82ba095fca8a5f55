#!/usr/bin/python3
"""Counted calls against what happens at the worst moment: short jobs under --stack, in each of which, at a random moment, a
rank begins another program, forks, loads a library, or is killed, or the collector is: the sampler, the process that
attaches, or the broker (kill -9). Is the job's exit status its own, is nothing attached afterwards, and has every process
ended?

  stack_races.py --build BUILD [--runs 1000] [--seed 1] [--kinds KIND,...] [--jobs 4] [--out DIR]

Needs root. One kind after the other has its turn, until there are so many runs; --jobs of them run side by side. Those
with a broker need a control group, and Slurm's part is played by shells with the title of its step daemons, as in
tests/integration/broker_test.py. Columns of the table:

  hit               runs in which there was something to kill at that moment
  while attached    of these, those in which functions of the job were attached by then (Linux 6.8)
  status kept       the job's exit status is the one that it would have without reveal
  nothing attached  no link of the kernel's lies on the job's libraries (Linux 6.8), and where the job outlives the
                    collector, its own code has no breakpoint any more
  no process left   of the job and of reveal

The folder of a run that was not as it should be stays, with its number. Exit status 1 where there is one."""
import argparse
import collections
import contextlib
import ctypes
import fcntl
import glob
import os
import pathlib
import pwd
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

TESTS = pathlib.Path(__file__).resolve().parents[1] / "tests"
PATIENCE = 20  # seconds; decides nothing when all is well
STATUS = 7     # of the job

# rank.py PLACE ACT MOMENT
RANK = f"""
import ctypes, os, sys, time
place, act, moment = sys.argv[1], sys.argv[2], float(sys.argv[3])
nccl, null = ctypes.CDLL(place + "/libnccl.so.2"), ctypes.c_void_p()
code = ctypes.cast(nccl.ncclAllReduce, ctypes.POINTER(ctypes.c_ubyte))
def call_until(condition):
    while not condition():
        nccl.ncclAllReduce(null, null, ctypes.c_size_t(512), 7, 0, null, null)
        time.sleep(.002)
def later(seconds):
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end
call_until(later(moment))
if act == "exec":
    os.execv(sys.executable, [sys.executable, sys.argv[0], place, "none", "0"])
if act == "fork" and os.fork() == 0:
    call_until(later(.3))
    os._exit(0)
if act == "dlopen":
    cuda = ctypes.CDLL(place + "/libcudart.so.13")
    for _ in range(100):
        cuda.cudaMalloc(null, ctypes.c_size_t(4096))
if act in ("dies", "outlives"):
    enough = later({PATIENCE})
    call_until(lambda: os.path.exists(place + "/struck") or enough())
if act == "outlives":
    enough = later({PATIENCE})
    if os.path.exists(place + "/hit"):
        call_until(lambda: code[0] != 0xcc or enough())
    with open(place + "/verdict", "w") as verdict:
        verdict.write("probed" if code[0] == 0xcc else "free")
call_until(later(.5))
if act == "fork":
    os.wait()
sys.exit({STATUS})
"""


@dataclass(frozen=True)
class Kind:
    name: str
    act: str                  # of the rank, at that moment or when it is struck
    victim: str | None = None  # the process that is killed; none: the rank itself does it
    by_broker: bool = False
    latest: float = 3         # seconds after the start; functions are attached after one to two, under a broker two to four


KINDS = (Kind("exec", "exec"), Kind("fork", "fork"), Kind("dlopen", "dlopen"), Kind("kill-rank", "dies", "rank"),
         Kind("kill-sampler", "outlives", "sampler"), Kind("kill-worker", "outlives", "worker"),
         Kind("broker-kill-sampler", "outlives", "sampler", True, 5),
         Kind("broker-kill-counter", "outlives", "counter", True, 5),
         Kind("broker-kill-broker", "outlives", "broker", True, 5))


class Links:
    """Links of BPF to functions, by the file that has these: struct bpf_link_info of <linux/bpf.h>."""
    CALL, NEXT, OPEN, ASK, MULTI_UPROBE = 321, 31, 30, 15, 12  # bpf(2) on x86-64, its commands, a type of link

    def __init__(self):
        self.system = ctypes.CDLL(None, use_errno=True).syscall

    def bpf(self, command: int, attributes) -> int:
        return self.system(self.CALL, command, attributes, len(attributes))

    def files(self):
        number = 0
        while True:
            attributes = ctypes.create_string_buffer(struct.pack("=II", number, 0), 8)
            if self.bpf(self.NEXT, attributes) != 0:
                return
            number = struct.unpack("=II", attributes.raw)[1]
            link = self.bpf(self.OPEN, ctypes.create_string_buffer(struct.pack("=II", number, 0), 8))
            if link < 0:
                continue  # it has just been detached
            try:
                path = ctypes.create_string_buffer(4096)
                asked = struct.pack("=16xQ24xI12x", ctypes.addressof(path), len(path)).ljust(128, b"\0")
                info = ctypes.create_string_buffer(asked, len(asked))
                question = struct.pack("=IIQ", link, len(asked), ctypes.addressof(info))
                done = self.bpf(self.ASK, ctypes.create_string_buffer(question, len(question)))
                if done == 0 and struct.unpack_from("=I", info.raw)[0] == self.MULTI_UPROBE:
                    yield path.value.decode(errors="replace")
            finally:
                os.close(link)

    def below(self, place: pathlib.Path) -> int:
        return sum(path.startswith(f"{place}/") for path in self.files())


def until(condition, patience: float = PATIENCE) -> bool:
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def words_of(pid: int) -> list[str]:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read().decode(errors="replace").split("\0")
    return []


def status_of(pid: int) -> dict[str, str]:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status") as file:
        return {key: value.strip() for key, _, value in (line.partition(":") for line in file)}
    return {}


def has_bpf(pid: int) -> bool:
    with contextlib.suppress(OSError):
        for each in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{each}").startswith("anon_inode:bpf"):
                    return True
    return False


class Run:
    """A job under reveal-run, whose processes all have its folder in their command lines."""

    def __init__(self, build: pathlib.Path, place: pathlib.Path, rank: list[str]):
        self.place, self.rank = place, rank
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "REVEAL_"))}
        self.job = subprocess.Popen(
            [build / "bin/reveal-run", "--quiet", "--stack", "--no-report", "--node", "n1", "--output", place / "trace",
             "--", *rank], env=environment | {"XDG_RUNTIME_DIR": str(place), "HOME": str(place)}, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def processes(self) -> dict[int, list[str]]:
        found = {int(pid): words_of(int(pid)) for pid in os.listdir("/proc") if pid.isdigit()}
        return {pid: words for pid, words in found.items() if any(f"{self.place}/" in word for word in words)}

    def collectors(self) -> dict[int, dict[str, str]]:
        return {pid: status_of(pid) for pid, words in self.processes().items() if words[0].endswith("/reveal-collect")}

    def find(self, victim: str) -> int | None:
        collectors = self.collectors()
        first = [pid for pid, status in collectors.items() if int(status.get("PPid", 0)) not in collectors]
        if victim == "rank":
            found = [pid for pid, words in self.processes().items() if words[:len(self.rank)] == self.rank]
        elif victim == "sampler":
            found = first
        else:
            found = [pid for pid in collectors if pid not in first and has_bpf(pid)]
        return found[0] if found else None

    def strike(self, victim: str) -> bool:
        """Kills it; false if there is none, nor one soon."""
        end = time.monotonic() + 1
        while (pid := self.find(victim)) is None and time.monotonic() < end:
            time.sleep(0.02)
        if pid is None:
            return False
        (self.place / "hit").touch()
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return True

    def finish(self):
        """After the job's end."""

    def clean(self):
        for pid in self.processes():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self.job.wait()


class BrokerRun(Run):
    """The same as a step of Slurm's, whose collector is root's broker and the user's sampler."""

    def __init__(self, build: pathlib.Path, place: pathlib.Path, rank: list[str], number: int, group: pathlib.Path):
        self.place, self.rank, self.number, self.group, self.user = place, rank, number, group, pwd.getpwnam("games")
        os.chown(place, self.user.pw_uid, self.user.pw_gid)
        self.spool = place.parent / "spool"
        lock = os.open(self.spool / f"run/{number}.n1", os.O_RDWR | os.O_CREAT, 0o600)
        environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "SLURMD_NODENAME": "n1", "SLURM_JOB_NODELIST": "n1",
                       "REVEAL_PROLOG_NODES": "n1", "SLURM_JOB_WORK_DIR": str(place), "REVEAL_REQUEST": "stack=on",
                       "SLURM_CONF": "/nonexistent"}
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.broker = subprocess.Popen(
                ["bash", "-c", 'exec 3<&"$0" && exec "$@"', str(lock),  # it keeps no other descriptor
                 build / "bin/reveal-collect", "--job", f"slurm:{number}", "--node", "n1", "--spool", self.spool,
                 "--lock-fd", "3", "--uid", str(self.user.pw_uid), "--gid", str(self.user.pw_gid), "--config",
                 place.parent / "reveal.conf", "--disable-file", place / "disable"], env=environment, pass_fds=[lock],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        finally:
            os.close(lock)
        group.mkdir(parents=True)
        as_user = f"setpriv --reuid {self.user.pw_uid} --regid {self.user.pw_gid} --clear-groups"
        task = f"echo $$ >{group}/cgroup.procs && {as_user} {' '.join(rank)}; exit $?"
        self.job = subprocess.Popen([f"slurmstepd: [{number}.0]", "-c", task], executable=place.parent / "slurmstepd",
                                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def find(self, victim: str) -> int | None:
        collectors = self.collectors()
        counters = [pid for pid, status in collectors.items() if status.get("CapEff") == "000000c000000000"]
        children = [pid for pid, status in collectors.items() if status.get("PPid") == str(self.broker.pid)]
        found = {"broker": [self.broker.pid], "counter": counters,
                 "sampler": [pid for pid in children if pid not in counters]}[victim]
        return found[0] if found else None

    def finish(self):
        self.broker.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.broker.wait(3 * PATIENCE)

    def clean(self):
        super().clean()
        self.broker.wait()
        leftover = glob.glob(f"/sys/fs/cgroup/reveal/{self.number}.n1.*") + glob.glob(
            f"/sys/fs/cgroup/*/reveal/{self.number}.n1.*")  # of a broker that was killed
        for folder in [self.group, self.group.parent, *leftover]:
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        shutil.rmtree(self.spool / str(self.number), ignore_errors=True)


@dataclass
class Outcome:
    kind: Kind
    seconds: float
    hit: bool = False
    attached: bool = False
    kept: bool = False
    detached: bool = False
    gone: bool = False
    facts: str = ""


def race(args, kind: Kind, number: int) -> Outcome:
    place, begin, links = args.out / f"run{number}", time.monotonic(), Links()
    moment = random.Random(f"{args.seed} {number}").uniform(0, kind.latest)
    place.mkdir(mode=0o755)
    for library in "libnccl.so.2", "libcudart.so.13":
        shutil.copy(args.build / "doubles" / library, place / library)
    rank = ["/usr/bin/python3", str(args.out / "rank.py"), f"{place}/", kind.act, "0" if kind.victim else f"{moment:.3f}"]
    if kind.by_broker:
        job = 2_000_000_000 + number  # no job of this machine has such a number
        run = BrokerRun(args.build, place, rank, job, args.scope / f"job_{job}/step_0")
    else:
        run = Run(args.build, place, rank)
    outcome = Outcome(kind, 0)
    try:
        time.sleep(moment)
        outcome.attached = links.below(place) > 0
        outcome.hit = kind.victim is None or run.strike(kind.victim)
        (place / "struck").touch()
        try:
            status = run.job.wait(3 * PATIENCE)
        except subprocess.TimeoutExpired:
            status = None
        run.finish()
        expected = 128 + signal.SIGKILL if kind.act == "dies" and outcome.hit else STATUS
        verdict = (place / "verdict").read_text() if (place / "verdict").exists() else ""
        outcome.kept = status == expected
        outcome.gone = until(lambda: not run.processes())
        outcome.detached = until(lambda: links.below(place) == 0) and (
            kind.act != "outlives" or not outcome.hit or verdict == "free")
        outcome.facts = (f"{kind.name}, run {number}, after {moment:.2f} s: exit status {status} ({expected} expected), "
                         f"{links.below(place)} links, its code {verdict or 'not seen'}, processes {run.processes()}")
    finally:
        run.clean()
    outcome.seconds = time.monotonic() - begin
    if outcome.kept and outcome.detached and outcome.gone:
        shutil.rmtree(place, ignore_errors=True)
    else:
        print(outcome.facts, flush=True)
    return outcome


def table(outcomes: list[Outcome]):
    by_kind = collections.defaultdict(list)
    for outcome in outcomes:
        by_kind[outcome.kind.name].append(outcome)
    rows = [["kind", "runs", "hit", "while attached", "status kept", "nothing attached", "no process left", "s"]]
    for name, group in [*by_kind.items(), ("all", outcomes)]:
        count = lambda key, among=group: sum(getattr(each, key) for each in among)
        hit = [each for each in group if each.hit]
        rows.append([name, len(group), len(hit), count("attached", hit), count("kept"), count("detached"), count("gone"),
                     f"{sum(each.seconds for each in group) / len(group):.1f}"])
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(rows[0]))]
    for number, row in enumerate(rows):
        print("| " + " | ".join(str(cell).ljust(width) for cell, width in zip(row, widths)) + " |")
        if number == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")


def why_no_broker(scope: pathlib.Path | None) -> str:
    if scope is None:
        return "there are no control groups of version 2"
    if shutil.which("setpriv") is None:
        return "setpriv is not installed"
    return "" if any(each.pw_name == "games" for each in pwd.getpwall()) else "there is no user games"


def make_scope() -> pathlib.Path | None:
    """A folder as that of Slurm's daemon, in which the groups of jobs are."""
    for mount in map(pathlib.Path, ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")):
        with contextlib.suppress(OSError):
            if (mount / "cgroup.controllers").exists():
                scope = mount / f"reveal-races-{os.getpid()}_slurmstepd.scope"
                scope.mkdir()
                return scope
    return None


def prepare(out: pathlib.Path):
    """What all runs share: the rank, and of the broker the spool, the site's configuration and a step daemon."""
    (out / "rank.py").write_text(RANK)
    for folder, mode in (out, 0o755), (out / "spool", 0o711), (out / "spool/run", 0o700):
        folder.mkdir(exist_ok=True)
        folder.chmod(mode)
    # A job as short as these is not delivered.
    (out / "reveal.conf").write_text('[slurm]\nmin_seconds = 60\nreport = "lazy"\n')
    (out / "slurmstepd").symlink_to("/bin/bash")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="with bin/reveal-run and doubles/")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default=",".join(kind.name for kind in KINDS))
    parser.add_argument("--jobs", type=int, default=4, help="so many runs at once: they mostly wait")
    parser.add_argument("--out", type=pathlib.Path, help="default: a folder for this time")
    args = parser.parse_args()
    wanted = args.kinds.split(",")
    if unknown := set(wanted) - {kind.name for kind in KINDS}:
        parser.error(f"no such kind: {', '.join(sorted(unknown))}")
    os.environ["REVEAL_BUILD"] = str(args.build.resolve())
    sys.path.insert(0, str(TESTS))
    sys.dont_write_bytecode = True
    from stack_runs import why_not_counted  # pylint: disable=import-outside-toplevel
    if reason := "needs root" if os.geteuid() != 0 else why_not_counted():
        print(f"skipped: {reason}")
        return 77
    args.build = args.build.resolve()
    kinds = [kind for kind in KINDS if kind.name in wanted]
    args.scope = make_scope()
    if reason := why_no_broker(args.scope):
        print(f"none with a broker: {reason}")
        kinds = [kind for kind in kinds if not kind.by_broker]
    if args.out is None:
        args.out = pathlib.Path(tempfile.mkdtemp(prefix="reveal-races."))
    else:
        args.out = args.out.resolve()
        args.out.mkdir(parents=True)
    prepare(args.out)
    begin = time.monotonic()
    try:
        with ThreadPoolExecutor(args.jobs) as pool:
            runs = range(args.runs if kinds else 0)
            outcomes = list(pool.map(lambda number: race(args, kinds[number % len(kinds)], number), runs))
    finally:
        if args.scope is not None:
            with contextlib.suppress(OSError):
                args.scope.rmdir()
    if outcomes:
        table(outcomes)
    wrong = [each for each in outcomes if not (each.kept and each.detached and each.gone)]
    print(f"{len(outcomes)} runs with seed {args.seed}, of which {len(wrong)} not as they should be; {args.jobs} at once, "
          f"{(time.monotonic() - begin) / max(1, len(outcomes)):.2f} s for each")
    if not wrong:
        shutil.rmtree(args.out, ignore_errors=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
