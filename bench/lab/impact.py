#!/usr/bin/env python3
"""Is the cost that a report names the time that was really lost? The same fixed amount of work, in turns without and with
a fault that lasts a part of it; the truth is the run time with the fault less the median run time without.

  impact.py --build build/gcc --out DIR [--faults outsider100,outsider30,stop,quota,slow_disk] [--rounds 5]
            [--epochs N] [--fault-seconds 15] [--truth epochs]

With `--truth epochs`, the truth comes from the job's own log in the run with the fault: how much longer the epochs took
that overlap the fault than the others, which a machine that is slower an hour later does not change.

Needs root (control groups v1 for quota and slow_disk) and a quiet machine: before each run it waits until other
processes use less than 3 % of a cpu. Run times are those of the command, as reveal-run saw them."""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tests/lab")]

import faults  # noqa: E402
from lab import wait_until_quiet  # noqa: E402

AMOUNT = {"outsider100": (faults.outsider, 100), "outsider30": (faults.outsider, 30), "stop": (faults.stop, 30),
          "quota": (faults.quota, 25), "slow_disk": (faults.slow_disk, 4)}


class Job:
    """What a fault needs to know of the job beside it."""
    name = f"impact{os.getpid()}"

    def __init__(self, args, directory, cold):
        self.scratch = directory / "data"
        self.scratch.mkdir(parents=True)
        self.longest = args.fault_seconds + 5
        words = [args.build / "bin/reveal-run", "--quiet", "--output", directory / "job", "--",
                 args.build / "bin/training_job", "--ranks", "2", "--epochs", str(args.epochs), "--dir",
                 self.scratch]
        self.process = subprocess.Popen([*map(str, words), *(["--cold"] if cold else [])], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, text=True)
        self.ends = []  # of the epochs
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            if line.startswith("epoch"):
                self.ends.append(time.monotonic())

    def lost(self, begin, end):
        """What the epochs that overlap this time took longer than the others."""
        epochs = list(zip(self.ends, self.ends[1:]))
        inside = [last - first for first, last in epochs if first < end and last > begin]
        usual = statistics.median(last - first for first, last in epochs if first >= end or last <= begin)
        return sum(inside) - usual * len(inside)

    def ranks(self, _victim=0):
        found = subprocess.run(["pgrep", "-f", f"training_job .*{self.scratch}"], capture_output=True, text=True)
        pids = [int(word) for word in found.stdout.split()  # not reveal-run, which has these words, too
                if pathlib.Path(f"/proc/{word}/comm").read_text().strip() == "training_job"]
        parents = {int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) for pid in pids}
        return sorted(set(pids) - parents)[:1]  # one rank; the others wait for it

    def cpus(self, _victim=0):
        return os.sched_getaffinity(0)

    @property
    def random(self):
        return random


def run(args, directory, name):
    shutil.rmtree(directory, ignore_errors=True)
    wait_until_quiet(None)
    job = Job(args, directory, cold=args.cold)
    lost = None
    if name is not None:
        fault, amount = AMOUNT[name]
        time.sleep(args.begin)
        begin = time.monotonic()
        with fault(job, 0, amount):
            time.sleep(args.fault_seconds)
        end = time.monotonic()
    if job.process.wait() != 0:
        sys.exit(f"impact: the job exited with {job.process.returncode}")
    job.reader.join()
    if name is not None:
        lost = job.lost(begin, end)
    shutil.rmtree(job.scratch)
    report = json.loads((directory / "job/report.json").read_text())
    worth = [f for f in report["findings"] if f["severity"] in ("warning", "critical", "notice") and not f.get("caused_by")]
    first = worth[0] if worth else None
    return report["job"]["ran_seconds"], lost, first["id"] if first else None, first["impact"]["seconds"] if first else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--faults", default=",".join(AMOUNT))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--begin", type=float, default=15, help="seconds from the job's begin to the fault's")
    parser.add_argument("--fault-seconds", type=float, default=15)
    parser.add_argument("--truth", choices=["runs", "epochs"], default="runs")
    args = parser.parse_args()
    args.build = args.build.resolve()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print(f"{'fault':12} {'round':>5} {'without':>8} {'with':>8} {'lost':>7} {'told':>7} {'told/lost':>9}  primary")
    for name in args.faults.split(","):
        args.cold = name == "slow_disk"
        calm, pairs = [], []
        for number in range(args.rounds):
            if args.truth == "runs":
                calm.append(run(args, args.out / f"{name}-{number}-without", None)[0])
            pairs.append(run(args, args.out / f"{name}-{number}-with", name))
        usual = statistics.median(calm) if calm else float("nan")
        ratios = []
        for number, (ran, by_epochs, primary, told) in enumerate(pairs):
            lost = ran - usual if calm else by_epochs
            ratios.append(told / lost if told is not None and lost > 0 else float("nan"))
            shown = "unknown" if told is None else f"{told:.2f}"
            print(f"{name:12} {number:5} {usual:8.2f} {ran:8.2f} {lost:7.2f} {shown:>7} {ratios[-1]:9.2f}  {primary}",
                  flush=True)
        known = [ratio for ratio in ratios if ratio == ratio]
        if known:
            within = sum(abs(ratio - 1) <= 0.25 for ratio in known)
            print(f"{name:12} median told/lost {statistics.median(known):.2f}; within 25 %: {within} of {len(pairs)}",
                  flush=True)


if __name__ == "__main__":
    main()
