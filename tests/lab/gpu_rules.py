#!/usr/bin/python3
"""The rules about GPUs, their links and places, without gpu.small_kernels, from reveal-run to the report, with a double of
NVIDIA's library and, in a mount namespace, other cards in /sys: a job with the fault, and one without it.

    gpu_rules.py [--runs N] [--only NAME,...] [--keep DIR [--probes NAME,...]]

All jobs run at the same time, for a bit more than two minutes. Prints a table: rule, jobs with the fault in which the
report names rule and GPU, jobs without it in which the report names a rule of GPUs. --keep leaves the runs in DIR, in the
form that tests/lab/keep.py packs."""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "doubles")]
from cards import Cards, address_of_adapter, address_of_gpu, gpu_lines, replace_text, unavailable  # noqa: E402
from harness import BUILD, check, end, program, skip  # noqa: E402

NODE = "here"
LONG, SHORT = 132, 80  # seconds; gpu.allocated_unused needs two minutes, the others one
RULES = ("gpu.", "pcie.", "numa.")
# The job: it names its process to the double, works for a part of the time, and leaves with status 7.
JOB = """
import os, sys, time
begin, seconds, part, lines = time.time(), float(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
text = open(lines).read().replace("THIS", str(os.getpid()))
with open(lines + ".new", "w") as file:
    file.write(text)
os.rename(lines + ".new", lines)
while (now := time.time()) < begin + seconds:
    while time.time() < now + part * .1:
        sum(range(1000))
    if part < 1:
        time.sleep(.1 * (1 - part))
sys.exit(7)
"""
# It fills its cpu, whatever else runs there; nice(1) alone counts within a session.
FIRST = 'echo -15 2>/dev/null >/proc/self/autogroup; exec nice -n -15 "$@" 2>/dev/null'
PAUSES = "95*6,3*4"
# One fault at each GPU but the first, and what looks like it.
STATES = {
    "gpu.hw_slowdown": (1, {"reasons": "0*10,8*6", "sm_clock": "1900*10,900*6"}, {"reasons": "0*10,8*1"}),
    "gpu.power_cap": (2, {"power_limit": "500000", "reasons": "4"}, {"reasons": "4"}),
    "gpu.thermal_throttle": (3, {"reasons": "0*10,32*5", "sm_clock": "1900*10,1300*5"},
                             {"reasons": "0*10,32*5", "utilization": "97*10,0*5"}),
    "gpu.ecc_remap": (4, {"ecc_uncorrected": "0+0*20,0.2*5,0*1000"}, {"ecc_corrected": "0+5"}),
    "gpu.xid": (5, {"xid": "79"}, {}),
    "gpu.ecc_remap (row)": (6, {"remap_pending": "1"}, {"remapped_rows": "2"}),
    "gpu.nvlink_down": (7, {"link3": "1*30,0*1000"}, {"link3": "1*30,0*12,1*1000"}),
    "gpu.clocks_locked_low": (8, {"sm_clock": "1200", "reasons": "2"}, {"sm_clock": "1200"}),
    "gpu.mem_pressure": (9, {"memory_used": "40000000000+500000000*60,130000000*60,0*1000"},
                         {"memory_used": "79000000000"}),
    "gpu.allocated_unused": (10, {"utilization": "0", "memory_used": "500000000"}, {}),
}


def states(faulty):
    changes = {}
    for number, fault, alike in STATES.values():
        changes |= {f"gpu{number}_{key}": value for key, value in (fault if faulty else alike).items()}
    return gpu_lines(11, link17="0", **changes)


class Case:
    """A job; `rules`: the rules that its report must name, with an instance; none for what only looks like them."""

    def __init__(self, name, rules, lines, gpus=2, seconds=SHORT, part=0.1, cpu=-1, cards=None, prepare=None, move=None,
                 mounts=()):
        self.name, self.rules, self.lines, self.gpus, self.seconds = name, rules, lines, gpus, seconds
        self.part, self.cpu, self.cards, self.prepare, self.move, self.mounts = part, cpu, cards, prepare, move, mounts


class Stalls:
    """A text of /proc/pressure in which tasks wait for storage for four fifths of the time."""

    def __init__(self, path):
        self.path, self.begin = path, time.monotonic()
        self.move(0)

    def move(self, _cards):
        waited = int(800_000 * (time.monotonic() - self.begin))
        line = f"avg10=0.00 avg60=0.00 avg300=0.00 total={waited:015d}\n"
        replace_text(self.path, f"some {line}full {line}")


def cards_case(folder, faulty):
    own = int(faulty)
    cards = Cards(folder, gpus=2, adapters=2, node_of_gpu=lambda number: own, node_of_adapter=lambda number: 1 - number,
                  numa_nodes=halves())

    def prepare():
        narrow = cards.pci(address_of_gpu(1))
        (narrow / "current_link_width").write_text("8\n")
        (narrow / "current_link_speed").write_text("2.5 GT/s PCIe\n")  # it saves power
        if not faulty:
            (narrow.parent / "max_link_width").write_text("8\n")  # the slot

    begin = time.monotonic()

    def move(_cards):
        cards.send(1, 0.1)  # ten times a second: 1 GB/s through the adapter of node 0
        errors = int(time.monotonic() - begin) if faulty else 3
        cards.set_link_errors(cards.pci(address_of_adapter(1)), errors)

    rules = {"numa.cpu_gpu_mismatch": "rank0/gpu0", "numa.nic_gpu_mismatch": "mlx5_1",
             "pcie.link_downtrained": address_of_gpu(1), "pcie.errors": address_of_adapter(1)}
    lines = gpu_lines(2, gpu0_process="THIS", gpu0_process_memory="5000000000")
    return Case("cards" if faulty else "cards-alike", rules if faulty else {}, lines, cpu=cpus()[0], cards=cards,
                prepare=prepare, move=move)


def cpus():
    return sorted(os.sched_getaffinity(0))


def halves():
    """Two NUMA nodes of the machine's cpus; the first cpu that may be used is on node 0."""
    online = list(range(os.cpu_count()))
    first = [cpu for cpu in online if cpu <= cpus()[0]]
    rest = [cpu for cpu in online if cpu > cpus()[0]]
    return [",".join(map(str, first)), ",".join(map(str, rest))]


def cases(folder):
    wide = {rule.split()[0]: f"gpu{number}" for rule, (number, *_) in STATES.items()}
    wide |= {"gpu.ecc_remap": "gpu4", "gpu.nvlink_down": "gpu7/link3"}
    yield Case("states", wide, states(True), gpus=11, seconds=LONG, part=0.3)
    yield Case("states-alike", {}, states(False), gpus=11, seconds=LONG, part=0.3)
    yield Case("skew", {"gpu.imbalance": "gpu1"}, gpu_lines(2, gpu1_utilization="25"))
    yield Case("skew-alike", {}, gpu_lines(2, gpu1_utilization="70"))
    pauses = gpu_lines(2, utilization=PAUSES)
    yield Case("starved_input", {"gpu.starved_input": ""}, pauses, part=1, cpu=cpus()[-1])
    yield Case("starved_input-alike", {}, gpu_lines(2), part=0.8, cpu=cpus()[0])
    traffic = {"field138": "0+50000*6,900000*4", "field139": "0+50000*6,900000*4"}
    yield Case("starved_comm", {"gpu.starved_comm": ""}, gpu_lines(2, utilization=PAUSES, **traffic))
    yield Case("starved_comm-alike", {}, gpu_lines(2, **traffic))
    why = unavailable()
    if why:
        print("not tried: gpu.starved_io, pcie.*, numa.*:", why)
        return
    if pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists() or not pathlib.Path("/proc/pressure/io").exists():
        print("not tried: gpu.starved_io: waits are counted by control group here, or not at all")
    else:
        for name, rules, lines in (("starved_io", {"gpu.starved_io": ""}, pauses), ("starved_io-alike", {}, gpu_lines(2))):
            cards = Cards(folder / f"{name}-cards", gpus=0, adapters=0)
            cards.put("io", "")
            stalls = Stalls(cards.path("io"))
            cards.path("addresses").mkdir()
            yield Case(name, rules, lines, cards=cards, move=stalls.move, mounts=[(cards.path("io"), "/proc/pressure/io")])
    if len(cpus()) < 2:
        print("not tried: pcie.*, numa.*: one cpu cannot be divided into NUMA nodes")
        return
    for faulty in (True, False):
        yield cards_case(folder / f"cards-{faulty}", faulty)


class Run:
    def __init__(self, case, folder, installed, probes):
        self.case, self.folder, self.job = case, folder, folder / "job"
        for name in ("home", "run", "state"):
            (folder / name).mkdir(parents=True, mode=0o700)
        lines = folder / "gpus.txt"
        lines.write_text(case.lines)
        if case.cards and case.prepare:
            case.cards.write()
            case.prepare()
        words = [installed / "bin/reveal-run", "--output", self.job, "--node", NODE, *(["--probes", probes] if probes else []),
                 "--", "/usr/bin/python3", "-c", JOB, case.seconds, case.part, lines]
        if case.cpu >= 0:  # the job's; the collector leaves it
            words = ["taskset", "-c", case.cpu, *words]
        if case.part == 1:
            words = ["sh", "-c", FIRST, "sh", *words]
        command = case.cards.command(words, case.mounts) if case.cards else list(map(str, words))
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "REVEAL_RUN_"))}
        environment |= {"HOME": f"{folder}/home", "XDG_RUNTIME_DIR": f"{folder}/run", "XDG_STATE_HOME": f"{folder}/state",
                        "NVML_DOUBLE": str(lines), "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(case.gpus)))}
        self.begin = time.time_ns()
        with open(folder / "output.txt", "w", encoding="utf-8") as output:
            self.process = subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)

    def wait(self):
        status = self.process.wait(timeout=self.case.seconds + 200)
        check(status == 7, f"{self.case.name}: the job's exit status was not kept: {status}: "
              + (self.folder / "output.txt").read_text()[-2000:])
        self.write_truth()

    def write_truth(self):
        """As scenario.py writes it, for keep.py."""
        rule = next(iter(self.case.rules), None)
        truth = {"schema": "reveal.lab/1", "scenario": self.case.name, "workload": "double", "seed": 1, "nodes": [NODE],
                 "node": NODE, "nodes_touched": [NODE], "begin_utc_ns": self.begin,
                 "end_utc_ns": self.begin + self.case.seconds * 10**9, "subsystem": "gpu" if rule else None, "also": [],
                 "rule": rule, "more_rules": [], "remark": False, "kills": False}
        (self.folder / "truth.json").write_text(json.dumps(truth, indent=1))

    def findings(self):
        with contextlib.suppress(OSError, ValueError):
            return json.loads((self.job / "report.json").read_text())["findings"]
        return []


def install(folder):
    """An installation of its own, because only the site's file says which library is loaded."""
    double = BUILD / "doubles/nvml_double.so"
    if not double.exists():
        skip(f"{double} is not built")
    (folder / "bin").mkdir(parents=True)
    (folder / "etc/reveal").mkdir(parents=True)
    for name in ("reveal", "reveal-run", "reveal-collect"):
        shutil.copy(program(name), folder / "bin")
    (folder / "etc/reveal/reveal.conf").write_text(f'[gpu]\nlibrary = "{double}"\n')
    return folder


def move_all(runs, stop):
    while not stop.wait(0.1):
        for run in runs:
            if run.case.move:
                run.case.move(run.case.cards)


def judge(runs, faults, table):
    for run in runs:
        named = {(finding["id"], instance) for finding in run.findings() for instance in [*finding["instances"], ""]}
        for rule, instance in run.case.rules.items():
            right = (rule, instance) in named
            table[rule][0].append(right)
            check(right, f"{run.case.name}: {rule} at {instance or 'the node'} is not in the report: {sorted(named)}")
        if run.case.name == "states":
            row = ("gpu.ecc_remap", "gpu6") in named
            check(row, f"states: the row that waits is not in the report: {sorted(named)}")
            table["gpu.ecc_remap"][2].append(row)
        if not run.case.rules:
            wrong = sorted({rule for rule, _ in named if rule.startswith(RULES)})
            check(not wrong, f"{run.case.name}: the report names {wrong}")
            for rule in faults[run.case.name.removesuffix("-alike")]:
                table[rule][1].append(rule in wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--only", default="", help="names of cases")
    parser.add_argument("--probes", default="", help="instead of all")
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    wanted = set(filter(None, options.only.split(",")))
    table = collections.defaultdict(lambda: ([], [], []))
    with tempfile.TemporaryDirectory(prefix="reveal-gpu-") as scratch:
        scratch = pathlib.Path(scratch)
        installed = install(scratch / "installed")
        for number in range(options.runs):
            folder = (options.keep.resolve() if options.keep else scratch) / f"run{number}"
            folder.mkdir(parents=True)
            every = list(cases(folder))
            faults = {case.name: case.rules for case in every}
            chosen = [case for case in every if not wanted or case.name in wanted]
            stop = threading.Event()
            runs = [Run(case, folder / f"gpu_{case.name}", installed, options.probes) for case in chosen]
            mover = threading.Thread(target=move_all, args=(runs, stop))
            mover.start()
            for run in runs:
                run.wait()
            stop.set()
            mover.join()
            judge(runs, faults, table)
    print(f"{'rule':28} {'named with fault':>18} {'named without':>14}   proven by a double")
    for rule, (right, wrong, row) in sorted(table.items()):
        print(f"{rule:28} {f'{sum(right)} of {len(right)}':>18} {f'{sum(wrong)} of {len(wrong)}':>14}"
              + (f"   a row to be remapped: {sum(row)} of {len(row)}" if row else ""))
    end()


if __name__ == "__main__":
    main()
