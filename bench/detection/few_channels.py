#!/usr/bin/python3
"""Steps in series of few channels: what `reveal score` finds of them, and what it finds in noise.

  bench/detection/few_channels.py [--reveal BIN] [--jobs DIR] [--seeds N]

White noise of 20 channels at 0.1 s, three of them raised by 4, 8 or 15 standard deviations for 5, 10 or 15 s; a step is
found if a finding and it have an intersection over union of at least 0.8. Noise without a step: any finding is false.
--jobs: recorded jobs (see jobs.py), of which a few moving channels are taken at random."""
import argparse
import csv
import glob
import os
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np

csv.field_size_limit(1 << 24)
CHANNELS, SHIFTED, INTERVAL = 20, 3, 0.1


def findings(reveal, values, interval=INTERVAL, names=None, kind=(), subsystem=()):
    with tempfile.TemporaryDirectory() as folder:
        path, windows, episodes = (os.path.join(folder, name) for name in ("s.h5", "w.csv", "e.csv"))
        with h5py.File(path, "w") as file:
            file["values"] = values
            file["channels"] = np.array(names or [f"c{i}" for i in range(values.shape[1])], dtype="S")
            if len(kind):
                file["kind"], file["subsystem"] = np.array(kind, dtype="S"), np.array(subsystem, dtype="S")
            file.attrs["interval_seconds"] = interval
        subprocess.run([reveal, "score", path, "--out", windows, "--episodes", episodes], check=True, stdout=subprocess.DEVNULL)
        with open(episodes, newline="") as lines:
            return [(int(e["begin"]), int(e["end"])) for e in csv.DictReader(lines) if e["tier"] == "finding"]


def overlap(one, other):
    common = min(one[1], other[1]) - max(one[0], other[0])
    return max(0, common) / (max(one[1], other[1]) - min(one[0], other[0]))


def walk(rng, samples, channels, memory):
    """A first-order autoregressive series."""
    values = rng.normal(size=(samples, channels))
    for t in range(1, samples):
        values[t] += memory * values[t - 1]
    return values


NOISE = {
    "white": lambda rng, shape: rng.normal(size=shape),
    "Student's t, 2 degrees": lambda rng, shape: rng.standard_t(2, size=shape),
    "bursts of single samples": lambda rng, shape: rng.normal(size=shape) + 5 * (rng.random(shape) < 0.01),
    "autoregressive .9": lambda rng, shape: walk(rng, *shape, 0.9),
    "autoregressive .98": lambda rng, shape: walk(rng, *shape, 0.98),
}


def steps(options, pool):
    print("| samples | deviations | 5 s | 10 s | 15 s |\n|---|---|---|---|---|")
    for samples in (500, 1000, 2000, 6000):
        for deviations in (4, 8, 15):
            row = []
            for seconds in (5, 10, 15):
                begin = samples // 2
                place = (begin, begin + round(seconds / INTERVAL))

                def is_found(seed, place=place):
                    values = np.random.default_rng(seed).normal(size=(samples, CHANNELS))
                    values[place[0]:place[1], :SHIFTED] += deviations
                    return any(overlap(place, one) >= 0.8 for one in findings(options.reveal, values))

                row.append(f"{sum(pool.map(is_found, range(options.seeds)))}/{options.seeds}")
            print(f"| {samples} | {deviations} | {' | '.join(row)} |", flush=True)


def noise(options, pool):
    print("\n| noise | channels | 1000 samples | 6000 samples |\n|---|---|---|---|")
    for name, make in NOISE.items():
        for channels in (3, 8, 20, 40):
            row = []
            for samples in (1000, 6000):
                def is_false(seed, samples=samples):
                    return bool(findings(options.reveal, make(np.random.default_rng(seed), (samples, channels))))

                row.append(f"{sum(pool.map(is_false, range(options.seeds)))}/{options.seeds}")
            print(f"| {name} | {channels} | {' | '.join(row)} |", flush=True)


def of_jobs(options, pool):
    print("\n| channels | healthy with a finding | disturbed found |\n|---|---|---|")
    for channels in (5, 10, 20, 40, 80):
        counts = {True: [0, 0], False: [0, 0]}
        for path in sorted(glob.glob(os.path.join(options.jobs, "*.h5"))):
            with h5py.File(path) as file:
                values, interval, truth = file["values"][:], file.attrs["interval_seconds"], file["truth"]
                texts = {key: file[key].asstr()[:] if h5py.check_string_dtype(file[key].dtype) else file[key][:].astype(str)
                         for key in ("channels", "kind", "subsystem")}
                healthy = bool(truth["healthy"][()])
                event = (0, 1) if healthy else (int(truth["event_begin"][()]), int(truth["event_end"][()]))
            moving = np.flatnonzero(np.nanmax(values, axis=0) > np.nanmin(values, axis=0))

            def is_told(seed, healthy=healthy, event=event):
                some = np.random.default_rng(seed).choice(moving, min(channels, len(moving)), replace=False)
                found = findings(options.reveal, values[:, some], interval, list(texts["channels"][some]),
                                 list(texts["kind"][some]), list(texts["subsystem"][some]))
                return bool(found) if healthy else any(overlap(event, one) >= 0.1 for one in found)

            told = list(pool.map(is_told, range(6)))
            counts[healthy][0] += sum(told)
            counts[healthy][1] += len(told)
        print(f"| {channels} | {counts[True][0]}/{counts[True][1]} | {counts[False][0]}/{counts[False][1]} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reveal", default="build/gcc/bin/reveal")
    parser.add_argument("--jobs", default="")
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    with ThreadPoolExecutor(2) as pool:
        steps(options, pool)
        noise(options, pool)
        if options.jobs:
            of_jobs(options, pool)


main()
