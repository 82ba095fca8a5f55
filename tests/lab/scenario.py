#!/usr/bin/python3
"""A laboratory of nodes: network namespaces on one switch, a real job over them with reveal-run on every node, and a
fault at a random moment on a random node, whose truth is written beside the traces. Needs root and network namespaces.

  scenario.py list
  scenario.py loss1 --build BUILD --out DIR [--runs 5] [--nodes 2] [--workload cnn-train] [--seconds 60] [--seed 1]
  scenario.py clean        removes what a killed laboratory left

Each run is DIR/NAME-WORKLOAD-SEED/ with job/ (the traces and the report), phases.jsonl (the job's own log) and
truth.json. The nodes share one kernel, disk and memory: only their network, their processes and, with at most as many
nodes as cpus, their cpus differ. SIGINT and SIGTERM end a run cleanly; what SIGKILL leaves, the next run removes."""
import argparse
import contextlib
import ctypes
import fnmatch
import json
import os
import pathlib
import random
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import faults
from faults import Unavailable
from scenario_table import SCENARIOS

HERE = pathlib.Path(__file__).resolve().parent
TICK = os.sysconf("SC_CLK_TCK")


def adopt_orphans():
    """Daemons of ours (reveal-collect, orted) become our children when their parents end, so that we can wait for them
    and know what they used."""
    PR_SET_CHILD_SUBREAPER = 36
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def wait_for_orphans(patience: float = 5):
    deadline = time.monotonic() + patience
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.05)


def torch(model: str, task: str, *more: str) -> list[str]:
    return ["/usr/bin/python3", str(HERE / "ddp.py"), "--model", model, "--task", task, *more]


# Epochs of a few seconds on one cpu per rank; data from disk where a real data set would not fit into memory.
WORKLOADS = {
    "mlp-train": torch("mlp", "train", "--data-mb", "96", "--cold"),
    "cnn-train": torch("cnn", "train", "--data-mb", "48", "--cold"),
    "encoder-train": torch("encoder", "train", "--data-mb", "12"),
    "lora-train": torch("decoder", "train", "--data-mb", "8"),
    "recommender-train": torch("recommender", "train", "--data-mb", "400", "--cold", "--checkpoint-mb", "64"),
    "accelerator-train": torch("narrow", "train", "--data-mb", "12", "--batch", "8", "--checkpoint-mb", "2",
                               "--accelerator", "60"),
    "deep-train": torch("deep", "train", "--data-mb", "12", "--batch", "8", "--checkpoint-mb", "2", "--accelerator",
                        "60"),
    "mlp-infer": torch("mlp", "infer", "--data-mb", "192"),
    "cnn-infer": torch("cnn", "infer", "--data-mb", "96"),
    "encoder-infer": torch("encoder", "infer", "--data-mb", "32"),
    "decoder-infer": torch("decoder", "infer", "--data-mb", "24"),
    "encoder-serve": torch("encoder", "serve", "--data-mb", "12", "--batch", "8"),
    "decoder-serve": torch("decoder", "serve", "--data-mb", "12", "--batch", "8"),
    "io-heavy": torch("mlp", "infer", "--data-mb", "800", "--cold", "--batch", "256"),
    "ring-train": ["{build}/bin/training_job", "--samples", "2048", "--width", "512"],
    "mpi-solver": ["/usr/bin/python3", str(HERE / "mpi_solver.py")],
} | {kind: ["/usr/bin/python3", str(HERE / "work.py"), kind] for kind in
     ("compile", "sort", "blas", "stencil", "checkpoint", "copy", "sqlite", "compress", "loader", "service", "bursts",
      "stream", "scan", "flow", "processes")}
NEEDS = {"ddp.py": "torch", "mpi_solver.py": "mpi4py", "work.py": "numpy"}


def missing(workload: str, build: pathlib.Path) -> str | None:
    """Why this workload cannot run here."""
    program = WORKLOADS[workload][0].format(build=build)
    module = NEEDS.get(os.path.basename(WORKLOADS[workload][1]))
    if not os.access(program, os.X_OK):
        return f"{program} is not built"
    find = f"import importlib.util as u, sys; sys.exit(u.find_spec('{module}') is None)"
    if module and subprocess.run([program, "-c", find]).returncode:
        return f"python3-{module} is not installed"
    if module == "mpi4py" and not shutil.which("mpirun"):
        return "openmpi-bin is not installed"
    if workload == "compile" and not shutil.which("g++"):
        return "g++ is not installed"
    return None


def suits(workload: str, scenario: str) -> bool:
    return any(fnmatch.fnmatch(workload, pattern) for pattern in SCENARIOS[scenario].workloads)


class Lab:
    """The nodes and the job on them. A context manager: whatever happens, nothing of it stays."""

    def __init__(self, build: pathlib.Path, out: pathlib.Path, count: int, workload: str, seconds: float, seed: int,
                 scenario: str, stack: bool = False):
        self.stack = stack
        self.build, self.out, self.count, self.workload, self.seconds = build, out, count, workload, seconds
        self.name, self.random, self.seed = f"rvlab{os.getpid()}", random.Random(f"{scenario} {seed}"), seed
        self.switch, self.jobs, self.longest = f"{self.name}-sw", [], seconds
        self.options: list[str] = []  # more of the job's program
        self.obeys = WORKLOADS[workload][1].endswith(("ddp.py", "work.py"))
        # What a setting changes: variables for all, and by node what starts the collector, and the job under it.
        self.environment: dict[str, str] = {}
        self.within: dict[int, list[str]] = {}
        self.wrap: dict[int, list[str]] = {}

    def __enter__(self):
        # Not in /tmp, which may be memory: data are to come from the disk that the traces are on.
        self.scratch = tempfile.mkdtemp(prefix=f"{self.name}.", dir=self.out)
        try:
            faults.run("bash", str(HERE / "nodes.sh"), "up", self.name, str(self.count))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(sign, signal.SIG_IGN)  # once is enough; this must not be interrupted
        for job in self.jobs:
            if job.poll() is None:
                with contextlib.suppress(OSError):
                    os.killpg(job.pid, signal.SIGTERM)
        deadline = time.monotonic() + 5
        while any(job.poll() is None for job in self.jobs) and time.monotonic() < deadline:
            time.sleep(0.1)
        subprocess.run(["bash", HERE / "nodes.sh", "down", self.name], check=False)
        shutil.rmtree(self.scratch, ignore_errors=True)
        catch_signals()

    def node(self, i: int) -> str:
        return f"{self.name}-n{i}"

    def address(self, i: int) -> str:
        return f"10.77.0.{i + 1}"

    def data(self, i: int) -> str:
        return os.path.join(self.scratch, f"node{i}")

    def cpus(self, i: int) -> set[int]:
        """The node's own, as long as there are enough; else all nodes share all."""
        allowed = sorted(os.sched_getaffinity(0))
        each = len(allowed) // self.count
        return set(allowed[i * each:(i + 1) * each]) if each else set(allowed)

    def ranks(self, i: int) -> list[int]:
        """The job's processes on a node, less ours."""
        pids = []
        for pid in map(int, faults.run("ip", "netns", "pids", self.node(i)).split()):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/comm") as file:
                if file.read().strip().startswith(("python3", "training_job")):
                    pids.append(pid)
        return pids

    def start(self):
        log = self.out / "phases.jsonl"
        output = open(self.out / "job.log", "w")
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "REVEAL_"))}
        threads = max(1, len(os.sched_getaffinity(0)) // self.count)
        environment |= {"REVEAL_LAB": self.name, "OMP_NUM_THREADS": str(threads), "MASTER_ADDR": self.address(0),
                        "MASTER_PORT": "29500", "GLOO_SOCKET_IFNAME": "eth0", "WORLD_SIZE": str(self.count),
                        "PYTHONDONTWRITEBYTECODE": "1"} | self.environment

        def words_of(i: int) -> list[str]:
            words = [word.format(build=self.build) for word in WORKLOADS[self.workload]]
            words += ["--seconds", f"{self.seconds:g}", "--dir", self.data(i), "--log", str(log)]
            if self.workload == "ring-train":
                words += ["--rank", str(i), "--hosts", ",".join(map(self.address, range(self.count)))]
            if self.workload != "mpi-solver":
                words += ["--seed", str(self.seed)]
            if self.stack and "ddp.py" in words[1]:
                words.append("--steps")
            words += self.options
            os.makedirs(self.data(i), exist_ok=True)
            return [*self.within.get(i, []), str(self.build / "bin/reveal-run"), "--quiet", "--no-report",
                    *["--stack"] * self.stack, "--output", str(self.out / "job"), "--node", f"node{i}", "--",
                    *self.wrap.get(i, []), *words]

        def launch(i: int, words: list[str], more: dict[str, str], folder: str | None = None):
            pinned = ["taskset", "-c", ",".join(map(str, sorted(self.cpus(i)))), "bash", str(HERE / "nodes.sh"), "exec",
                      self.node(i)]
            self.jobs.append(subprocess.Popen(pinned + words, env=environment | more, stdin=subprocess.DEVNULL,
                                              stdout=output, stderr=output, start_new_session=True, cwd=folder))

        if self.workload == "mpi-solver":
            words = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "plm_rsh_agent",
                     str(HERE / "mpi_agent.sh"), "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "eth0",
                     "--mca", "oob_tcp_if_include", "eth0"]
            for i in range(self.count):
                pinned = ["taskset", "-c", ",".join(map(str, sorted(self.cpus(i))))]
                words += [":"] * (i > 0) + ["--host", self.address(i), "-n", "1", *pinned, *words_of(i)]
            launch(0, ["taskset", "-c", ",".join(map(str, sorted(os.sched_getaffinity(0)))), *words], {})
        else:
            for i in range(self.count):
                launch(i, words_of(i), {"RANK": str(i)}, self.data(i))

    def wait(self, until: float) -> bool:
        """False if the job ended before."""
        while time.monotonic() < until:
            if any(job.poll() is not None for job in self.jobs):
                return False
            time.sleep(0.05)
        return True

    def wait_until_prepared(self, patience: float = 90):
        log, deadline = self.out / "phases.jsonl", time.monotonic() + patience
        while not log.exists() or log.read_text().count('"prepare"') < self.count:
            if time.monotonic() > deadline or not self.wait(time.monotonic() + 0.2):
                raise RuntimeError(f"the job did not begin: {(self.out / 'job.log').read_text()[-600:]}")

    def network(self) -> dict[str, dict[str, int]]:
        """What each node's own namespace counted since it was made."""
        return {f"node{i}": self.network_of(i) for i in range(self.count)}

    def network_of(self, i: int) -> dict[str, int]:
        files = [f"/proc/net/{name}" for name in ("snmp", "netstat", "dev")]
        text = faults.run("ip", "netns", "exec", self.node(i), "cat", *files)
        lines, counters = text.splitlines(), {}
        for names, values in zip(lines, lines[1:]):
            protocol = names.split(":")[0]
            if protocol in ("Tcp", "TcpExt") and values.startswith(protocol + ":") and names.split()[1][0].isalpha():
                counters |= {f"{protocol.lower()}.{k}": int(v) for k, v in zip(names.split()[1:], values.split()[1:])}
        keep = ("tcp.InSegs", "tcp.OutSegs", "tcp.RetransSegs", "tcpext.TCPOFOQueue", "tcpext.TCPSackRecovery",
                "tcpext.TCPDSACKRecv", "tcpext.TCPTimeouts", "tcpext.TCPLossProbes")
        result = {key: counters[key] for key in keep if key in counters}
        received = next(line for line in lines if line.strip().startswith("eth0:"))
        return result | {"net.rx_bytes": int(received.split(":")[1].split()[0])}


class Machine:
    """What others took from our cpus of this machine since the beginning: hypervisor and processes that are not ours. The
    kernel's own threads are nobody's: they send our packets and write our pages back."""

    def __init__(self):
        self.begin, self.ticks, self.own = time.monotonic(), self.stat(), self.used()

    @staticmethod
    def stat() -> list[int]:
        ours = {f"cpu{cpu}" for cpu in os.sched_getaffinity(0)}
        with open("/proc/stat") as file:
            rows = [line.split() for line in file if line.split()[0] in ours]
        return [sum(int(row[i]) for row in rows) for i in range(1, 9)]

    @staticmethod
    def used() -> float:
        """Of our ended children, of ourselves and of kernel threads, in seconds."""
        usage = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        seconds = sum(each.ru_utime + each.ru_stime for each in usage)
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
                if int(fields[6]) & 0x00200000:  # PF_KTHREAD
                    seconds += (int(fields[11]) + int(fields[12])) / TICK
        return seconds

    def so_far(self) -> dict[str, float]:
        """Only after all children were waited for: their time is known then."""
        seconds = time.monotonic() - self.begin
        user, nice, system, _, _, irq, softirq, steal = (b - a for a, b in zip(self.ticks, self.stat()))
        outside = (user + nice + system + irq + softirq) / TICK - (self.used() - self.own)
        return {"seconds": round(seconds, 2), "outside_cpus": round(outside / seconds, 3),
                "steal_percent": round(100 * steal / TICK / seconds / len(os.sched_getaffinity(0)), 2)}


class Watch:
    """`reveal watch` beside the job: when it said that the ranks hang, and how."""

    def __init__(self, build: pathlib.Path, job: pathlib.Path):
        self.hangs: list[dict] = []
        self.process = subprocess.Popen([build / "bin/reveal", "watch", job, "--json"], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            came, line = time.time_ns(), json.loads(line)
            if line.get("news") == "hang":
                self.hangs.append({"came_utc_ns": came, "text": line["text"]})

    def end(self, patience: float = 0):
        """It ends by itself after the job."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(patience)
        self.process.terminate()
        self.process.wait()
        self.reader.join()


def run_once(name: str, workload: str, build: pathlib.Path, out: pathlib.Path, nodes: int, seconds: float,
             fault_seconds: float, seed: int, stack: bool = False, options: str = "") -> dict:
    """One run; returns what truth.json says."""
    scenario = SCENARIOS[name]
    out.mkdir(parents=True)
    adopt_orphans()
    machine = Machine()
    names = [f"node{i}" for i in range(nodes)]
    truth = {"schema": "reveal.lab/1", "scenario": name, "workload": workload, "seed": seed, "nodes": names,
             "node": None, "nodes_touched": [], "begin_utc_ns": None, "end_utc_ns": None,
             "subsystem": scenario.subsystem, "also": scenario.also, "rule": scenario.rule,
             "more_rules": scenario.more_rules, "or_rules": scenario.or_rules, "remark": scenario.remark,
             "kills": scenario.kills, "counters": {}}
    fault_seconds = max(fault_seconds, scenario.least_seconds)
    seconds = max(seconds, 2.5 * scenario.least_seconds)
    with contextlib.ExitStack() as entered:
        lab = entered.enter_context(
            Lab(build, out, nodes, workload, seconds, seed, name, stack or scenario.stack))
        lab.options = shlex.split(options)
        truth["cpus"] = [sorted(lab.cpus(i)) for i in range(nodes)]
        # Drawn before anything can differ, so that a seed means the same moment and node everywhere.
        earliest, latest = 0.25 * seconds, max(0.25 * seconds, 0.85 * seconds - fault_seconds)
        start, victim = lab.random.uniform(earliest, latest), lab.random.randrange(nodes)
        place = {"node": names[victim], "nodes_touched": names if scenario.everywhere else [names[victim]]}
        lab.longest = fault_seconds + 5
        if scenario.setting is not None:
            counters = entered.enter_context(scenario.setting(lab, victim, scenario.setting_amount))
            truth |= place | {"counters": counters}
        truth["begin_utc_ns"] = time.time_ns() if scenario.setting is not None else None
        lab.start()
        lab.wait_until_prepared()
        watch = Watch(build, out / "job") if "stack.hang" in (scenario.rule, *scenario.or_rules) else None
        if watch:
            entered.callback(watch.end)
        if scenario.fault is not None:
            if not lab.wait(time.monotonic() + start):
                raise RuntimeError("the job ended before the fault began")
            before = lab.network()
            with scenario.fault(lab, victim, scenario.amount) as counters:
                truth["begin_utc_ns"] = time.time_ns()
                whole = lab.wait(time.monotonic() + (4 * seconds if scenario.lasting else fault_seconds))
                truth["end_utc_ns"] = time.time_ns()
            after = lab.network()
            truth |= place | {
                "counters": counters, "job_outlived_fault": whole,
                "network_during": {n: {k: after[n][k] - before[n][k] for k in after[n]} for n in names}}
        deadline = time.monotonic() + 4 * seconds + 60
        for job in lab.jobs:
            job.wait(timeout=max(1.0, deadline - time.monotonic()))
        truth["exit_status"] = [job.returncode for job in lab.jobs]
        if watch:
            watch.end(15)
            truth["hangs"] = watch.hangs
        if truth["end_utc_ns"] is None and scenario.setting is not None:
            truth["end_utc_ns"] = time.time_ns()
        wait_for_orphans()
        truth["network"] = lab.network()
        truth["machine"] = machine.so_far()
    with open(out / "truth.json.part", "w") as file:
        json.dump(truth, file, indent=1)
    os.rename(out / "truth.json.part", out / "truth.json")
    return truth


def catch_signals():
    def leave(number, _):
        raise SystemExit(128 + number)

    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, leave)


def usable() -> str | None:
    """Why there can be no laboratory here."""
    if os.geteuid() != 0:
        return "needs root for network namespaces"
    for program in ("ip", "tc", "iptables", "ethtool", "taskset"):
        if not shutil.which(program):
            return f"{program} is not installed"
    probe = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True)
    return f"no network namespaces: {probe.stderr.strip()}" if probe.returncode else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", choices=["list", "clean", *SCENARIOS])
    parser.add_argument("--build", type=pathlib.Path, default="build/gcc", help="folder with bin/reveal-run")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--nodes", type=int, help="default: what the scenario is meant for, 1 or 2")
    parser.add_argument("--workload", choices=WORKLOADS, help="default: the first that suits the scenario and is here")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--fault-seconds", type=float, default=12)
    parser.add_argument("--stack", action="store_true", help="count calls and training steps, and log these")
    parser.add_argument("--options", default="", help="more of the workload's program: --options='--batch 64'")
    parser.add_argument("--seed", type=int, help="of the first run; the others count on (default: from the clock)")
    args = parser.parse_args()
    if args.scenario == "list":
        for name, scenario in SCENARIOS.items():
            print(f"{name:19}{scenario.help}; expected: {scenario.rule or 'nothing'}, {scenario.subsystem or '-'}")
        print("workloads: " + ", ".join(WORKLOADS))
        return 0
    if reason := usable():
        print(f"skipped: {reason}")
        return 77
    subprocess.run(["bash", HERE / "nodes.sh", "clean"], check=True)
    if args.scenario == "clean":
        return 0
    if args.out is None:
        parser.error("--out is missing")
    catch_signals()
    build, first = args.build.resolve(), args.seed if args.seed is not None else int(time.time()) % 1_000_000
    suitable = [each for each in WORKLOADS if suits(each, args.scenario)]
    workload = args.workload or next((each for each in suitable if not missing(each, build)), suitable[0])
    if reason := missing(workload, build):
        print(f"skipped: {reason}")
        return 77
    failed = 0
    for seed in range(first, first + args.runs):
        out = args.out.resolve() / f"{args.scenario}-{workload}-{seed}"
        try:
            truth = run_once(args.scenario, workload, build, out, args.nodes or SCENARIOS[args.scenario].nodes,
                             args.seconds, args.fault_seconds, seed, args.stack, args.options)
        except Unavailable as reason:
            print(f"skipped: {reason}")
            return 77
        failed += any(truth["exit_status"]) and not truth["kills"]
        machine = truth["machine"]
        print(f"{out.name}: {truth['node'] or 'no fault'}, job exited {truth['exit_status']}, "
              f"{json.dumps(truth['counters'])}, others used {machine['outside_cpus']} cpus, "
              f"steal {machine['steal_percent']} %", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
