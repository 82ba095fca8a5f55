#!/usr/bin/python3
"""What it costs to watch a node ten times a second: reveal beside its peers and beside a floor that reads the same files.

  overhead.py peers --build BUILD [--rounds 5] [--seconds 10] [--only reveal,floor,...]
  overhead.py parts --build BUILD [--against BUILD] [--rounds 4] [--seconds 20]   cost per thread, and of child processes
  overhead.py interval --build BUILD [--rounds 3] [--seconds 10]       the paper's figure 5
  overhead.py slowdown --build BUILD [--rounds 12] [--seconds 10]     of two kinds of jobs, with a confidence interval
  overhead.py slowdown --stack --build BUILD [--rounds 30]             of two trainings, with calls counted
  overhead.py peers --stack --build BUILD [--rounds 5] [--seconds 10]  reveal with and without --stack beside these
  overhead.py probes --build BUILD [--seconds 60]                      cost per probe, as the collector says it
  overhead.py churn --build BUILD [--against BUILD] [--rounds 3] [--seconds 30]   beside what comes and goes

Needs root, control groups (v1 cpuacct or v2), a quiet machine; `peers` also strace, and takes of pcp, collectl,
sysstat, linux-perf, prometheus-node-exporter what is installed (Debian's packages).

CPU: of the program's control group, everything that it starts included, as percent of one core over --seconds, after
three seconds of warming up; programs take turns, the order is another one in each round; the median is told. reveal
writes every ten seconds: --seconds is a multiple of that, or the writing is counted too little. Idle: beside a job that
sleeps. Loaded: beside a training job of two ranks that exchanges gradients over TCP and writes checkpoints. Bytes: of
what is stored, by the whole run of the program. Channels: numbers in one sample, as each program stores or shows them,
those that never change included, as everybody counts them; "changed": of reveal's trace. us / channel-sample: for
reveal, families that are read every second count a tenth. Read calls: read system calls of the processes that live, per
tenth of a second (the bash agents' come and go). The floor gets its list of files from strace looking at the collector
beside the same job, and has the same channels by definition; counters that are no files (perf events) are not in it.
sadc can only every second; it is not scaled up.

The slow-down of a job is judged by its own pace, with a fresh collector and without one in turn, --seconds each; the
interval is that of the trimmed mean of the pairs (bootstrap, 95 %), the upper bound its 95th percentile.

--stack: beside trainings of two ranks (training.py), eight seconds after the collector's start. Each trace is read: if no
call was counted in a window, there is no result. Calls are those of all ranks."""
import argparse
import bisect
import collections
import contextlib
import importlib.util
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
from counted_calls import NoResult, counted_calls, median_calls, summary  # noqa: E402

WARM_UP = 3.0
STEADY, TRAININGS = ("memory", "communication"), ("encoder", "deep", "numpy")
ATTACHING = 8.0  # seconds after the start of a collector with --stack
EVENTS = ("cpu-clock,task-clock,context-switches,cpu-migrations,minor-faults,major-faults,alignment-faults,"
          "emulation-faults,page-faults,dummy")


class Group:
    """A control group that charges a process and all of its children; gone when left."""

    def __enter__(self):
        for mount, usage, scale in (("/sys/fs/cgroup/cpuacct", "cpuacct.usage", 1), ("/sys/fs/cgroup", "cpu.stat", 1000),
                                    ("/sys/fs/cgroup/unified", "cpu.stat", 1000)):
            folder = pathlib.Path(mount) / f"reveal-bench-{os.getpid()}-{time.monotonic_ns()}"
            with contextlib.suppress(OSError):
                folder.mkdir()
                if (folder / usage).exists():
                    self.folder, self.usage, self.scale = folder, folder / usage, scale
                    return self
                folder.rmdir()
        sys.exit("overhead: no control group that accounts for processor time can be made here")

    def __exit__(self, *_):
        self.end()
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    def end(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            for _ in range(40):
                if not (pids := self.pids()):
                    break
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
                time.sleep(0.05)

    def pids(self) -> list[int]:
        return [int(pid) for pid in (self.folder / "cgroup.procs").read_text().split()]

    def enter(self):
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def nanoseconds(self) -> int:
        return int(re.search(r"\d+", self.usage.read_text())[0]) * self.scale

    def resident(self) -> int:
        pages = 0
        for pid in self.pids():
            with contextlib.suppress(OSError):
                pages += int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def read_calls(self) -> int:
        calls = 0
        for pid in self.pids():
            with contextlib.suppress(OSError):
                calls += int(re.search(r"syscr: (\d+)", pathlib.Path(f"/proc/{pid}/io").read_text())[1])
        return calls


def size_of(folder: pathlib.Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def output(*command, **options) -> str:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, **options).stdout


class Peer:
    """command(folder, job, seconds) -> words of a shell line, run in `folder`; channels(folder, job) -> numbers in a
    sample, asked once after a run."""

    def __init__(self, needs: str, command, channels, stores=True, interval=0.1, client=None):
        self.needs, self.command, self.channels, self.stores, self.interval = needs, command, channels, stores, interval
        self.client = client  # asks it, and is not charged

    def missing(self) -> str:
        return "" if shutil.which(self.needs) or os.access(self.needs, os.X_OK) else f"{self.needs} is not installed"


def numbers_in(text: str) -> int:
    return len(re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])", text))


BASH = r"""while :; do {
  cat /proc/stat /proc/meminfo /proc/diskstats /proc/net/dev; nstat -az --json; ss -s
} >> agents.log; sleep .1; done"""
COLLECTL = "exec collectl -s bcdfijmnstCDJMNT -i 0.1 -F 1 -f . "
PCP = "/usr/lib/pcp/bin"
PCP_CONFIG = """log mandatory on 100 msec {
  kernel.all kernel.percpu.cpu kernel.percpu.interrupts mem network.interface network.ip network.tcp network.udp
  network.softnet disk.all disk.dev swap vfs
}
"""


def trace_channels(folder: pathlib.Path, _job) -> int:
    import h5py
    with h5py.File(next(folder.glob("*.h5"))) as trace:
        count = []
        trace.visititems(lambda name, item: count.append(item.shape[0])
                         if isinstance(item, h5py.Dataset) and f"{name}_channels" in trace else None)
    return sum(count)


def trace_changed(folder: pathlib.Path) -> int:
    import h5py
    changed = []

    def visit(name, item):
        if isinstance(item, h5py.Dataset) and f"{name}_channels" in trace and item.shape[1] > 1:
            rows = item[:]
            known = rows != item.fillvalue
            if trace[name].attrs["kind"] in (b"gauge", b"state", "gauge", "state"):
                changed.append(sum(len(set(row[at])) > 1 for row, at in zip(rows, known)))
            else:  # increments
                changed.append(sum(bool((row[at] != 0).any()) for row, at in zip(rows, known)))

    with h5py.File(next(folder.glob("*.h5"))) as trace:
        trace.visititems(visit)
    return int(sum(changed))


def values_per_tick(folder: pathlib.Path) -> float:
    """Numbers that a tenth of a second brings: families of a second count a tenth."""
    import h5py
    shapes = []
    with h5py.File(next(folder.glob("*.h5"))) as trace:
        trace.visititems(lambda name, item: shapes.append(item.shape)
                         if isinstance(item, h5py.Dataset) and f"{name}_channels" in trace else None)
    return sum(a * b for a, b in shapes) / max(b for _, b in shapes)


def scrape() -> str:
    with urllib.request.urlopen("http://127.0.0.1:9137/metrics") as answer:
        return answer.read().decode()


def peers(build: pathlib.Path, files: pathlib.Path) -> dict[str, Peer]:
    collect = build / "bin/reveal-collect"
    client = [sys.executable, str(HERE / "scraper.py"), "9137"]
    exporter = ("prometheus-node-exporter --web.listen-address=127.0.0.1:9137 --collector.interrupts "
                "--collector.meminfo_numa --collector.processes")
    return {
        "reveal": Peer(str(collect), lambda job, s: f"exec {collect} --output n.h5 --job pid:{job} --duration {s}s",
                       trace_channels),
        "floor": Peer(str(build / "bin/floor"), lambda job, s: f"exec {build / 'bin/floor'} {files} {s}", None, stores=False),
        "PCP pmlogger": Peer(
            f"{PCP}/pmcd", lambda job, s: f"export PCP_DERIVED_CONFIG=; {PCP}/pmcd -f -l pmcd.log -p 44399 -s ./pmcd.socket & sleep 1; "
            f"echo '{PCP_CONFIG}' > pmlogger.config; pmlogger -h 127.0.0.1:44399 -c pmlogger.config -l pmlogger.log archive",
            lambda folder, job: max(len(re.findall(r"value -?\d", record)) for record in
                                    output("pmdumplog", folder / "archive").split("\n\n"))),
        "collectl -P": Peer("collectl", lambda job, s: COLLECTL + "-P",
                            lambda folder, job: sum(
                                len(line.split()) - 2 for path in folder.glob("*") if path.is_file() for line in
                                output("zcat", "-f", path).splitlines() if line.startswith("#Date "))),
        "collectl raw": Peer("collectl", lambda job, s: COLLECTL, None),
        "sadc 1 s": Peer("/usr/lib/sysstat/sadc", lambda job, s: "exec /usr/lib/sysstat/sadc -S XALL 1 sa",
                          lambda folder, job: numbers_in(output("sadf", "-j", folder / "sa", "1", "1", "--", "-A")
                                                         .partition('"statistics"')[2].partition("},\n\t\t\t\t{")[0]),
                          interval=1),
        "perf stat 10 events": Peer("perf", lambda job, s: f"exec perf stat -a -I 100 -x, -e {EVENTS} -o perf.csv sleep {s}",
                                     lambda folder, job: len(EVENTS.split(","))),
        "node_exporter 10/s": Peer("prometheus-node-exporter", lambda job, s: f"exec {exporter} 2> log", None, stores=False,
                                   client=client),
        "bash agents": Peer("bash", lambda job, s: BASH, None),
    }


def trainings(args) -> list[str]:
    """The jobs beside which calls are counted: of PyTorch where it is there."""
    torch = importlib.util.find_spec("torch") is not None
    if not torch:
        print("PyTorch is not installed: only Python's own functions can be counted")
    names = ("encoder", "deep") if torch else ("numpy",)
    return [name for name in names if not args.only or name in args.only.split(",")]


def wait_for_steps(done: pathlib.Path):
    """A training loads its libraries first."""
    deadline = time.monotonic() + 120
    while done.read_text().count("\n") < 10:
        if time.monotonic() > deadline:
            sys.exit("overhead: the training makes no steps")
        time.sleep(0.2)


@contextlib.contextmanager
def load(kind: str, build: pathlib.Path, folder: pathlib.Path):
    """A job to watch, of one process tree that stays. Those that are slowed down write when they did a piece of work."""
    if kind == "idle":
        command = ["sleep", "1000000"]
    elif kind in STEADY:
        command = [build / "bin/steady_work", kind]
    elif kind in TRAININGS:
        command = [sys.executable, HERE / "training.py", kind]
    else:
        (folder / "data").mkdir()
        command = [str(build / "bin/training_job"), "--ranks", "2", "--seconds", "1000000", "--dir", str(folder / "data")]
    with open(folder / "done" if kind in STEADY + TRAININGS else os.devnull, "w") as done:
        job = subprocess.Popen(command, stdout=done, start_new_session=True)
    time.sleep(2)
    try:
        if kind in TRAININGS:
            wait_for_steps(folder / "done")
        yield job.pid
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()


def lasting(path: str) -> str:
    """strace resolves /proc/net to /proc/PID/net of the collector, which is gone when the floor runs."""
    return path if pathlib.Path(path).exists() else re.sub(r"^/proc/\d+(?=/)", "/proc/self", path)


def files_of(build: pathlib.Path, job: int, folder: pathlib.Path) -> pathlib.Path:
    """What the collector reads beside this job, and how often, as floor.cpp takes it. It reads more at its begin and at its
    end: that is left out."""
    begin, seconds, log = 8, 20, folder / "strace"
    subprocess.run(["strace", "-ttt", "-y", "-e", "trace=openat,pread64", "-o", log, build / "bin/reveal-collect", "--output",
                    folder / "strace.h5", "--job", f"pid:{job}", "--duration", f"{begin + seconds + 3}s"],
                   capture_output=True)
    reads, opens = collections.Counter(), collections.Counter()
    lines = log.read_text(errors="replace").splitlines()
    begin += float(lines[0].split()[0])
    for line in lines:
        if not begin <= float(line.split()[0]) < begin + seconds:
            continue
        if found := re.search(r"pread64\(\d+<(/(?:proc|sys)[^>]*)>.*, 0\) = \d", line):
            reads[lasting(found[1])] += 1
        elif found := re.search(r"openat\(.* = \d+<(/(?:proc|sys)[^>]*)>", line):
            opens[lasting(found[1])] += 1
    listed = folder / "files"
    with listed.open("w") as out:
        for path, count in reads.items():
            if count < 2:
                continue  # not read regularly
            period = max(100, round(seconds * 10 / count) * 100)
            out.write(f"{period} {'open' if opens[path] > count / 2 else 'keep'} {path}\n")
    return listed


def measure(peer: Peer, job: int, seconds: float, keep: pathlib.Path | None = None, warm_up: float = WARM_UP) -> dict:
    with tempfile.TemporaryDirectory(prefix="reveal-bench.") as name, Group() as group:
        folder = pathlib.Path(name)
        begun = time.monotonic()
        line = peer.command(job, int(seconds + warm_up + 2))
        process = subprocess.Popen(["bash", "-c", line], cwd=folder, preexec_fn=group.enter, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        time.sleep(warm_up / 2)
        client = subprocess.Popen(peer.client) if peer.client else None
        time.sleep(warm_up / 2)
        cpu, calls, since = group.nanoseconds(), group.read_calls(), time.monotonic()
        time.sleep(seconds)
        took = time.monotonic() - since
        result = {"cpu": 100 * (group.nanoseconds() - cpu) / (took * 1e9), "resident": group.resident(),
                  "calls": (group.read_calls() - calls) / (took / 0.1)}
        alive = bool(group.pids()) and (client is None or client.poll() is None)
        if client:
            client.kill()
            client.wait()
        if not alive:
            raise RuntimeError(f"ended early: {line}")
        if "reveal-collect" in line or "perf stat" in line:
            process.wait()
        group.end()
        process.wait()
        ran = time.monotonic() - begun
        result["bytes"] = size_of(folder) / ran if peer.stores else None
        if " --stack" in line:
            result["counted"] = counted_calls(folder / "n.h5", since, since + took)
        if keep:
            shutil.copytree(folder, keep, dirs_exist_ok=True)
        return result


def channels_of(name: str, peer: Peer, folder: pathlib.Path, job: int) -> int | None:
    if name == "bash agents":
        text = (folder / "agents.log").read_text()
        return numbers_in(text) // max(1, text.count("MemTotal"))
    if name.startswith("node_exporter"):
        with Group() as group:
            subprocess.Popen(["bash", "-c", peer.command(job, 5)], cwd=folder, preexec_fn=group.enter,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(2)
            return sum(not line.startswith("#") for line in scrape().splitlines())
    return peer.channels(folder, job) if peer.channels else None


def table(rows: list[list]):
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(rows[0]))]
    for number, row in enumerate(rows):
        print("| " + " | ".join(str(cell).ljust(width) for cell, width in zip(row, widths)) + " |", flush=True)
        if number == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")


def compare_stack(args):
    """The cost of the collector itself: what the kernel does at each call is charged to the job."""
    collect = args.build / "bin/reveal-collect"
    ways = {name: Peer(str(collect), lambda job, s, more=more:
                       f"exec {collect} --output n.h5 --job pid:{job} --duration {s}s{more}", None)
            for name, more in (("without --stack", ""), ("with --stack", " --stack"))}
    rows, said = [["beside", "collector", "CPU, % of a core", "bytes/s", "resident MB"]], []
    for kind in trainings(args):
        results = collections.defaultdict(list)
        with tempfile.TemporaryDirectory(prefix="reveal-bench.") as name, \
                load(kind, args.build, pathlib.Path(name)) as job:
            for turn in range(args.rounds):
                for each in random.Random(turn).sample(list(ways), len(ways)):
                    try:
                        results[each].append(measure(ways[each], job, args.seconds, warm_up=ATTACHING))
                    except (NoResult, RuntimeError) as reason:
                        sys.exit(f"overhead: no result beside {kind}: {reason}")
        for each, runs in results.items():
            cpu = [run["cpu"] for run in runs]
            median = lambda key: statistics.median(run[key] for run in runs)
            rows.append([kind, each, f"{median('cpu'):.3f} ({min(cpu):.3f}-{max(cpu):.3f})", f"{median('bytes'):.0f}",
                         f"{median('resident') / 1e6:.1f}"])
        said.append(f"{kind}: {summary([run['counted'] for run in results['with --stack']])}")
    table(rows)
    print(*said, sep="\n")


def compare_peers(args):
    if args.stack:
        return compare_stack(args)
    if not shutil.which("strace"):
        sys.exit("overhead: strace is not installed: what the floor is to read is not known")
    for kind in ("idle", "loaded"):
        with tempfile.TemporaryDirectory(prefix="reveal-bench.") as name:
            folder = pathlib.Path(name)
            with load(kind, args.build, folder) as job:
                known = peers(args.build, files_of(args.build, job, folder))
                wanted = {n: p for n, p in known.items() if not args.only or n.split()[0] in args.only.split(",")}
                for peer_name, peer in list(wanted.items()):
                    if reason := peer.missing():
                        print(f"{peer_name}: not measured, because {reason}")
                        del wanted[peer_name]
                results = collections.defaultdict(list)
                for turn in range(args.rounds):
                    for peer_name in random.Random(turn).sample(list(wanted), len(wanted)):
                        try:
                            results[peer_name].append(measure(wanted[peer_name], job, args.seconds,
                                                              folder / peer_name if turn == 0 else None))
                        except RuntimeError as reason:
                            print(f"{peer_name}: not measured, because it {reason}")
                            del wanted[peer_name]
                channels = {n: channels_of(n, p, folder / n, job) for n, p in wanted.items()}
                channels["floor"] = channels.get("reveal")
                channels["collectl raw"] = channels.get("collectl -P")
                changed, values = (trace_changed(folder / "reveal"), values_per_tick(folder / "reveal")) \
                    if "reveal" in wanted else (None, None)
                report_peers(kind, wanted, results, channels, changed, values)


def report_peers(kind: str, wanted, results, channels, changed, values_per_tick):
    print(f"\n{kind}, median of {len(next(iter(results.values())))} (range)\n")
    rows = [["program", "channels", "changed", "read calls / .1 s", "CPU, % of a core", "us / channel-sample", "bytes/s",
             "resident MB"]]
    median = lambda name, key: statistics.median(result[key] for result in results[name])
    for name, peer in wanted.items():
        cpu, count = [result["cpu"] for result in results[name]], channels.get(name)
        sampled = values_per_tick if name in ("reveal", "floor") else count
        each = median(name, "cpu") * 1e4 * peer.interval / sampled if sampled else None
        rows.append([name, count or "not counted", changed if name == "reveal" else "", f"{median(name, 'calls'):.1f}",
                     f"{median(name, 'cpu'):.3f} ({min(cpu):.3f}-{max(cpu):.3f})", f"{each:.3f}" if each else "",
                     f"{median(name, 'bytes'):.0f}" if peer.stores else "stores nothing",
                     f"{median(name, 'resident') / 1e6:.1f}"])
    table(rows)
    if {"reveal", "floor"} <= set(wanted):
        ratios = [a["cpu"] / b["cpu"] for a, b in zip(results["reveal"], results["floor"])]
        print(f"reveal / floor: {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})")


def compare_intervals(args):
    intervals = (10, 50, 100, 200, 300, 600)
    results = collections.defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="reveal-bench.") as name, load("loaded", args.build, pathlib.Path(name)) as job:
        collect = args.build / "bin/reveal-collect"
        for turn in range(args.rounds):
            for interval in random.Random(turn).sample(intervals, len(intervals)):
                peer = Peer(str(collect), lambda job, s, ms=interval:
                            f"exec {collect} --output n.h5 --job pid:{job} --duration {s}s --interval {ms}ms", None)
                results[interval].append(measure(peer, job, args.seconds))
    rows = [["interval, ms", "CPU, % of a core", "bytes/s", "read calls/s"]]
    for interval in intervals:
        cpu = [result["cpu"] for result in results[interval]]
        rows.append([interval, f"{statistics.median(cpu):.3f} ({min(cpu):.3f}-{max(cpu):.3f})",
                     f"{statistics.median(r['bytes'] for r in results[interval]):.0f}",
                     f"{10 * statistics.median(r['calls'] for r in results[interval]):.0f}"])
    table(rows)


def pace(done: list[float], begin: float, end: float) -> float:
    """Pieces of work per second between the first and the last that were done in this time."""
    inside = done[bisect.bisect(done, begin):bisect.bisect(done, end)]
    return (len(inside) - 1) / (inside[-1] - inside[0])


def compare_slowdown(args):
    """Pairs of windows that follow each other, without a collector and with a fresh one: what it holds open costs the job,
    too, so that stopping it would not do. --control: of a program that sleeps, too: what the method itself says of no cost. A
    fifth of the pairs on either side is left out: this machine has windows of ten times the usual noise. reveal writes
    every ten seconds: windows of ten seconds have one writing each."""
    import numpy
    from scipy import stats
    rows = [["job", "beside it", "pairs", "slow-down, %", "95 % interval", "upper bound, 95 %", "calls/s"]]
    said = []
    for kind in trainings(args) if args.stack else [kind for kind in STEADY if not args.only or kind in args.only.split(",")]:
        with tempfile.TemporaryDirectory(prefix="reveal-bench.") as name:
            folder, pairs, counted = pathlib.Path(name), [], []
            with load(kind, args.build, folder) as job:
                compare_alone(args, folder, job, pairs, counted)
            done = [int(line) / 1e9 for line in (folder / "done").read_text().split("\n")[:-1]]
        for watcher in sorted({each for each, *_ in pairs}, reverse=True):
            losses = numpy.array([100 * (pace(done, *alone) / pace(done, *beside) - 1)
                                  for each, alone, beside in pairs if each == watcher])
            draws = numpy.random.default_rng(1).choice(losses, (4000, len(losses)))
            low, most, high = numpy.percentile(stats.trim_mean(draws, 0.2, axis=1), (2.5, 95, 97.5))
            rows.append([kind, watcher, len(losses), f"{stats.trim_mean(losses, 0.2):.2f}", f"{low:.2f} to {high:.2f}",
                         f"{most:.2f}", f"{median_calls(counted):.0f}" if counted and watcher == "reveal" else ""])
        said += [f"{kind}: {summary(counted)}"] if counted else []
    table(rows)
    if said:
        print(*said, sep="\n")


def compare_alone(args, folder: pathlib.Path, job: int, pairs: list, counted: list):
    """Appends the windows of each pair, and the calls that were counted in the second one."""
    collect = [args.build / "bin/reveal-collect", "--output", folder / "n.h5", "--job", f"pid:{job}", *["--stack"] * args.stack]
    watchers = {"reveal": collect} | ({"nothing": ["sleep", "1000"]} if args.control else {})
    for turn in range(args.rounds):
        for watcher in random.Random(turn).sample(list(watchers), len(watchers)):
            time.sleep(0.25)
            alone = window(args.seconds)
            running = subprocess.Popen(watchers[watcher], stderr=subprocess.DEVNULL, start_new_session=True)
            time.sleep(ATTACHING if args.stack else 0.6)
            pairs.append((watcher, alone, window(args.seconds)))
            if running.poll() is not None:
                sys.exit(f"overhead: {watchers[watcher][0]} ended with {running.returncode}")
            if args.stack and watcher == "reveal":
                running.terminate()  # it closes its trace
                running.wait(60)
                try:
                    counted.append(counted_calls(folder / "n.h5", *pairs[-1][2]))
                except NoResult as reason:
                    sys.exit(f"overhead: no result: in window {turn + 1}, {reason}")
            else:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()
            for left in folder.glob("n.*"):
                left.unlink()


def window(seconds: float) -> tuple[float, float]:
    begin = time.monotonic()
    time.sleep(seconds)
    return begin, time.monotonic()


def compare_probes(args):
    with tempfile.TemporaryDirectory(prefix="reveal-bench.") as name:
        folder = pathlib.Path(name)
        with load("loaded", args.build, folder) as job:
            print(output(args.build / "bin/reveal-collect", "--output", folder / "n.h5", "--job", f"pid:{job}", "--duration",
                         f"{args.seconds:.0f}s", "--verbose", stderr=None) or "")
        import h5py
        with h5py.File(folder / "n.h5") as trace:
            channels = trace["self/time_channels"]
            metrics, parts = channels["metric"].asstr()[:], channels["instance"].asstr()[:]
            spent = trace["self/time"][:].clip(min=0).sum(1) / 1e9
            names = [part or metric for metric, part in zip(metrics, parts)]
    rows = [["part", "% of a core"]]
    rows += [[part, f"{100 * s / args.seconds:.4f}"] for s, part in sorted(zip(spent, names), reverse=True)]
    table(rows)


def times_of(pid: int) -> dict[tuple[str, str], int]:
    """Nanoseconds on a cpu of each thread of a process and of its children."""
    threads = ("sampling", "writing", "status", "publishing")
    times, pids = {}, [pid]
    for number, each in enumerate(pids):
        for place, task in enumerate(sorted(pathlib.Path(f"/proc/{each}/task").iterdir(), key=lambda path: int(path.name))):
            name = "children" if number else threads[place] if place < len(threads) else "others"
            with contextlib.suppress(OSError):
                times[name, task.name] = int((task / "schedstat").read_text().split()[0])
                pids += map(int, (task / "children").read_text().split())
    return times


def compare_parts(args):
    """The collector, another one and the floor in turn. A difference of machines' days is in all of them."""
    for kind in ("idle", "loaded"):
        with tempfile.TemporaryDirectory(prefix="reveal-bench.") as name, \
                load(kind, args.build, pathlib.Path(name)) as job:
            folder = pathlib.Path(name)
            files = files_of(args.build, job, folder)
            builds = {"reveal": args.build} | ({"against": args.against.resolve()} if args.against else {})
            results = collections.defaultdict(lambda: collections.defaultdict(list))
            for turn in range(args.rounds):
                for each in random.Random(turn).sample([*builds, "floor"], len(builds) + 1):
                    length = f"{args.seconds + WARM_UP + 5:.0f}"
                    command = [args.build / "bin/floor", files, length] if each == "floor" else \
                        [builds[each] / "bin/reveal-collect", "--output", folder / f"{each}{turn}.h5", "--job", f"pid:{job}",
                         "--duration", f"{length}s"]
                    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
                    time.sleep(WARM_UP)
                    before, since = times_of(process.pid), time.monotonic()
                    time.sleep(args.seconds)
                    after, ticks = times_of(process.pid), 10 * (time.monotonic() - since)
                    process.terminate()
                    process.wait()
                    parts = collections.Counter()
                    for key in before.keys() & after.keys():
                        for part in (key[0], "all"):
                            parts[part] += (after[key] - before[key]) / 1000 / ticks
                    for part, spent in parts.items():
                        results[each][part].append(spent)
            print(f"\n{kind}, us per tenth of a second, median of {args.rounds} (range)\n")
            names = sorted({part for parts in results.values() for part in parts}, key=lambda part: (part == "all", part))
            rows = [["part", *results]]
            for part in names:
                spent = [parts.get(part, [0]) for parts in results.values()]
                rows.append([part, *(f"{statistics.median(each):.1f} ({min(each):.1f}-{max(each):.1f})" for each in spent)])
            table(rows)
            for each in builds:
                ratios = [a / b for a, b in zip(results[each]["all"], results["floor"]["all"])]
                print(f"{each} / floor: {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})")


CHURN = {
    "nothing": ["sleep", "1000000"],
    "100 forks/s": [sys.executable, HERE / "churn.py", "forks", "--rate", "100"],
    "50 interfaces/s": ["unshare", "--net", sys.executable, HERE / "churn.py", "interfaces"],
    "50 mounts/s": ["unshare", "--mount", sys.executable, HERE / "churn.py", "mounts"],
}


def compare_churn(args):
    """One collector, or two in turn, beside jobs in which things come and go."""
    collectors = {"reveal": args.build} | ({"against": args.against.resolve()} if args.against else {})
    rows = [["beside", "collector", "CPU, % of a core", "job tree, %", "channels", "stored MB", "bytes / channel-sample",
             "resident MB"]]
    for kind, command in CHURN.items():
        if args.only and kind.split()[-1] not in args.only.split(","):
            continue
        results = collections.defaultdict(list)
        job = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
        time.sleep(1)
        for turn in range(args.rounds):
            for name in random.Random(turn).sample(list(collectors), len(collectors)):
                collect = collectors[name] / "bin/reveal-collect"
                peer = Peer(str(collect), lambda job, s, collect=collect:
                            f"exec {collect} --output n.h5 --job pid:{job} --duration {s}s", trace_channels)
                with tempfile.TemporaryDirectory(prefix="reveal-bench.") as kept:
                    result = measure(peer, job.pid, args.seconds, pathlib.Path(kept))
                    result |= stored_of(pathlib.Path(kept) / "n.h5")
                results[name].append(result)
        os.killpg(job.pid, signal.SIGTERM)
        job.wait()
        for name, runs in results.items():
            median = lambda key: statistics.median(run[key] for run in runs)
            cpu = [run["cpu"] for run in runs]
            rows.append([kind, name, f"{median('cpu'):.2f} ({min(cpu):.2f}-{max(cpu):.2f})", f"{median('tree'):.2f}",
                         f"{median('channels'):.0f}", f"{median('size') / 1e6:.2f}",
                         f"{median('size') / median('values'):.3f}", f"{median('resident') / 1e6:.1f}"])
    table(rows)


def stored_of(path: pathlib.Path) -> dict:
    import h5py
    shapes = []
    with h5py.File(path) as trace:
        trace.visititems(lambda name, item: shapes.append(item.shape)
                         if isinstance(item, h5py.Dataset) and f"{name}_channels" in trace else None)
        parts = trace["self/time_channels/instance"].asstr()[:]
        times = trace["self/time"][list(parts).index("job tree")]
        tree = 100 * times[times > 0].sum() / 1e9 / (len(times) - 1)
    return {"size": path.stat().st_size, "channels": sum(shape[0] for shape in shapes), "tree": tree,
            "values": sum(shape[0] * shape[1] for shape in shapes)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = {"peers": (compare_peers, 5, 10), "interval": (compare_intervals, 3, 10), "slowdown": (compare_slowdown, 12, 10),
            "probes": (compare_probes, 1, 60), "churn": (compare_churn, 3, 30), "parts": (compare_parts, 4, 20)}
    parser.add_argument("what", choices=what)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--only", default="", help="peers by their first word; slowdown: of one job; churn: by its last")
    parser.add_argument("--against", type=pathlib.Path, help="churn, parts: another build to compare with")
    parser.add_argument("--control", action="store_true", help="slowdown: also of a program that only sleeps")
    parser.add_argument("--stack", action="store_true", help="slowdown, peers: of collectors that count calls")
    args = parser.parse_args()
    args.build = args.build.resolve()
    function, rounds, seconds = what[args.what]
    if args.stack and args.what not in ("slowdown", "peers"):
        parser.error(f"{args.what} has no --stack")
    rounds = 30 if args.stack and args.what == "slowdown" else rounds
    args.rounds, args.seconds = args.rounds or rounds, args.seconds or seconds
    function(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
