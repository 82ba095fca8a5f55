#!/usr/bin/env python3
"""kill -9 of the collector at random moments: how many traces can be read, how much is lost, and does the job notice?

kill9.py --build DIR --out DIR [--trials 20] [--seed 1]
All trials run beside each other, each with a job of its own (sleep) and a moment of its own between 12 s and 45 s.
"""
import argparse
import pathlib
import random
import subprocess
import time

import h5py  # Debian's: the traces must be readable by others, too

parser = argparse.ArgumentParser()
parser.add_argument("--build", type=pathlib.Path, required=True)
parser.add_argument("--out", type=pathlib.Path, required=True)
parser.add_argument("--trials", type=int, default=20)
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()
moments = random.Random(args.seed)
args.out.mkdir(parents=True)

trials = []
for index in range(args.trials):
    directory = args.out / f"trial{index}"
    job = subprocess.Popen([args.build / "bin/reveal-run", "--quiet", "--no-report", "--output", directory, "--node", "n1",
                            "--", "sh", "-c", "sleep 50; exit 7"])
    trials.append([time.monotonic() + moments.uniform(12, 45), directory, job, None])

for moment, directory, job, _ in sorted(trials, key=lambda trial: trial[0]):
    time.sleep(max(0, moment - time.monotonic()))
    pids = subprocess.run(["pgrep", "-f", f"reveal-collect --output {directory}/"], capture_output=True, text=True)
    for pid in pids.stdout.split():
        subprocess.run(["kill", "-9", pid])
    next(trial for trial in trials if trial[1] == directory)[3] = time.clock_gettime_ns(time.CLOCK_MONOTONIC)

readable, unharmed, lost = 0, 0, []
for _, directory, job, killed in trials:
    unharmed += job.wait() == 7
    with h5py.File(directory / "n1.h5.part", "r", libver="latest", swmr=True) as trace:
        rows = trace["cpu/times"].shape[1]
        last = trace["cpu/time_100ms"][rows - 1] if rows else 0
    report = subprocess.run([args.build / "bin/reveal", "report", directory], capture_output=True, text=True)
    readable += report.returncode == 0 and rows > 0
    lost.append((killed - last) / 1e9)
print(f"{readable} of {args.trials} traces readable by h5py and by reveal report; {unharmed} of {args.trials} jobs "
      f"ended with their own status; lost: {min(lost):.1f} to {max(lost):.1f} s")
