#!/usr/bin/python3
"""Steps in series of few channels: what `reveal score` finds of them, and what it finds in noise.

  bench/detection/few_channels.py [--reveal BIN] [--jobs DIR] [--seeds N] [--first SEED] [--only PART...]

White noise of 20 channels at 0.1 s, three of them raised by 4, 8 or 15 standard deviations for 5, 10 or 15 s; a step is
found if a strong interval and it have an intersection over union of at least 0.8. The same with a step at a random place in
white noise and in an autoregressive series, of 1 to 100 channels. Noise and series that wander, without a step: any
strong one is false.
--jobs: recorded jobs (see jobs.py), of which a few moving channels are taken at random.
--only: some of steps, places, noise, wander, jobs."""
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
            return [(int(e["begin"]), int(e["end"])) for e in csv.DictReader(lines) if e["tier"] == "strong"]


def overlap(one, other):
    common = min(one[1], other[1]) - max(one[0], other[0])
    return max(0, common) / (max(one[1], other[1]) - min(one[0], other[0]))


def walk(rng, samples, channels, memory):
    """A first-order autoregressive series, of deviation 1 (a random walk: of steps of deviation 1)."""
    values = rng.normal(size=(samples, channels))
    if memory < 1:
        values[1:] *= np.sqrt(1 - memory**2)
    for t in range(1, samples):
        values[t] += memory * values[t - 1]
    return values


def waves(rng, shape, periods, noise=0.1):
    """A sine of a random phase per channel, its period so many times the series, give or take a fifth."""
    length = periods * shape[0] * rng.uniform(0.8, 1.2, size=(1, shape[1]))
    phase = rng.random((1, shape[1]))
    return np.sin(2 * np.pi * (np.arange(shape[0])[:, None] / length + phase)) + noise * rng.normal(size=shape)


def sawtooth(rng, shape):
    """From one tooth to twelve; another number in every channel."""
    teeth = rng.uniform(1, 12, size=(1, shape[1]))
    return (teeth * np.arange(shape[0])[:, None] / shape[0] + rng.random((1, shape[1]))) % 1 + 0.03 * rng.normal(size=shape)


def trend(rng, shape):
    """A line under white noise; the rise over the series is normal, of deviation 4."""
    return 4 * rng.normal(size=(1, shape[1])) * np.arange(shape[0])[:, None] / shape[0] + rng.normal(size=shape)


def day(rng, shape):
    """Three harmonics of a period as long as the series."""
    return sum(rng.normal(size=(1, shape[1])) / k * waves(rng, shape, 1 / k, 0) for k in (1, 2, 3)) + 0.1 * rng.normal(size=shape)


NOISE = {
    "white": lambda rng, shape: rng.normal(size=shape),
    "Student's t, 2 degrees": lambda rng, shape: rng.standard_t(2, size=shape),
    "bursts of single samples": lambda rng, shape: rng.normal(size=shape) + 5 * (rng.random(shape) < 0.01),
    "autoregressive .9": lambda rng, shape: walk(rng, *shape, 0.9),
    "autoregressive .98": lambda rng, shape: walk(rng, *shape, 0.98),
}
WANDERING = {
    "white": NOISE["white"],
    "autoregressive .9": NOISE["autoregressive .9"],
    "autoregressive .99": lambda rng, shape: walk(rng, *shape, 0.99),
    "random walk": lambda rng, shape: walk(rng, *shape, 1),
    "sine, half the length": lambda rng, shape: waves(rng, shape, 0.5),
    "sine, the length": lambda rng, shape: waves(rng, shape, 1),
    "sine, three lengths": lambda rng, shape: waves(rng, shape, 3),
    "sine, the length, no noise": lambda rng, shape: waves(rng, shape, 1, 0),
    "sawtooth": sawtooth,
    "trend": trend,
    "day curve": day,
}
SERIES_LENGTHS = (1000, 2000, 6000)
CHANNEL_COUNTS = ((1, 1), (3, 3), (20, 3), (100, 10))  # and how many of them a step raises


def seeds_of(options):
    return range(options.first, options.first + options.seeds)


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

                row.append(f"{sum(pool.map(is_found, seeds_of(options)))}/{options.seeds}")
            print(f"| {samples} | {deviations} | {' | '.join(row)} |", flush=True)


def places(options, pool):
    print("\n| noise | samples | channels raised | deviations | 2 s | 10 s | 30 s |\n|---|---|---|---|---|---|---|")
    for name in ("white", "autoregressive .9"):
        for samples in SERIES_LENGTHS:
            for channels, raised in CHANNEL_COUNTS:
                for deviations in (4, 6, 8):
                    row = []
                    for seconds in (2, 10, 30):
                        length = round(seconds / INTERVAL)

                        def is_found(seed, length=length):
                            rng = np.random.default_rng([seed, samples, channels])
                            values = NOISE[name](rng, (samples, channels))
                            begin = int(rng.integers(samples // 5, samples * 4 // 5 - length))
                            values[begin:begin + length, :raised] += deviations
                            return any(overlap((begin, begin + length), one) >= 0.8 for one in findings(options.reveal, values))

                        row.append(f"{sum(pool.map(is_found, seeds_of(options)))}/{options.seeds}")
                    print(f"| {name} | {samples} | {raised} of {channels} | {deviations} | {' | '.join(row)} |", flush=True)


def wander(options, pool):
    head = " | ".join(f"{channels} x {samples}" for samples in SERIES_LENGTHS for channels, _ in CHANNEL_COUNTS)
    print(f"\n| series with a finding | all | {head} |\n|---|---|{'---|' * len(SERIES_LENGTHS) * len(CHANNEL_COUNTS)}")
    for name, make in WANDERING.items():
        row = []
        for samples in SERIES_LENGTHS:
            for channels, _ in CHANNEL_COUNTS:
                def is_false(seed, shape=(samples, channels)):
                    return bool(findings(options.reveal, make(np.random.default_rng([seed, *shape]), shape)))

                row.append(sum(pool.map(is_false, seeds_of(options))))
        print(f"| {name} | {sum(row)}/{len(row) * options.seeds} | {' | '.join(map(str, row))} |", flush=True)


def noise(options, pool):
    print("\n| noise | channels | 1000 samples | 6000 samples |\n|---|---|---|---|")
    for name, make in NOISE.items():
        for channels in (3, 8, 20, 40):
            row = []
            for samples in (1000, 6000):
                def is_false(seed, samples=samples):
                    return bool(findings(options.reveal, make(np.random.default_rng(seed), (samples, channels))))

                row.append(f"{sum(pool.map(is_false, seeds_of(options)))}/{options.seeds}")
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
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parts = {"steps": steps, "places": places, "noise": noise, "wander": wander, "jobs": of_jobs}
    parser.add_argument("--only", nargs="+", choices=parts, default=list(parts), metavar="PART")
    options = parser.parse_args()
    with ThreadPoolExecutor(2) as pool:
        for part in options.only:
            if part != "jobs" or options.jobs:
                parts[part](options, pool)


main()
