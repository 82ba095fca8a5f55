#!/usr/bin/python3
"""Do the metrics of repeated runs follow the same course? After section 5.4 of the paper: the dynamic time warping
(DTW) distance of every run to the median trace, and a two-sided Wilcoxon signed-rank test over the runs.

  trajectories.py DIR [--node node0] [--seconds 50] [--least 10] [--metrics]
  trajectories.py DIR --record BUILD [--workloads cnn-train,encoder-train,mpi-solver] [--keep]

DIR holds recorded healthy runs as bench/detection/lab.py leaves them (truth.json, phases.jsonl, job/NODE.h5), at least
--least of each workload. --record makes those that are missing first, ten seconds longer than --seconds, and may be
interrupted; runs that others disturbed are repeated, or with --keep used (a trial, no result). A run is taken from
the moment its data are prepared, as means of a second; a channel counts if it exists and changes in all runs of a
workload.
DTW: absolute differences, at most a tenth of the length apart, divided by the length, channels in their own standard
deviations. The median trace is that of the other runs, so that no run is compared with itself.

The paper does not say what its distances are tested against. Three readings, as shares of workload-channel pairs:

  against nothing   the distances alone; p is 2^(1-n) for n runs however unlike they are: this says nothing
  against chance    the distance is smaller than that of the same run with its tenths in random order: the course
                    is reproduced, not only the level (a steady channel, without a course, fails this)
  against others    the distance to the next run of the workload is smaller than to a run of every other workload: the
                    course and level are this workload's, not the machine's"""
import argparse
import json
import pathlib
import subprocess
import sys
import warnings

import h5py
import numpy as np
from scipy.stats import wilcoxon

LEVEL = 0.05
HERE = pathlib.Path(__file__).resolve().parent
warnings.filterwarnings("ignore", module="scipy")  # about ties and small samples: no news here


def dtw(a: np.ndarray, b: np.ndarray, band: int) -> np.ndarray:
    """Over the last axis; all other axes are independent of each other."""
    length = a.shape[-1]
    shape = np.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    before = np.full((length + 1, *shape), np.inf)
    before[0] = 0
    for i in range(1, length + 1):
        now = np.full_like(before, np.inf)
        for j in range(max(1, i - band), min(length, i + band) + 1):
            cheapest = np.minimum(np.minimum(before[j], before[j - 1]), now[j - 1])
            now[j] = np.abs(a[..., i - 1] - b[..., j - 1]) + cheapest
        before = now
    return before[length] / length


def seconds_of(values: np.ndarray, times: np.ndarray, begin: float, count: int) -> np.ndarray | None:
    """Means of whole seconds, [channel, second]; a second without a value gets its neighbours'."""
    second = np.floor(times - begin).astype(int)
    means = np.full((len(values), count), np.nan)
    for i in range(count):
        here = values[:, second == i]
        known = ~np.isnan(here)
        with np.errstate(invalid="ignore"):
            means[:, i] = np.where(known.any(1), np.nansum(here, 1) / known.sum(1), np.nan)
    for row in means:
        if (known := ~np.isnan(row)).sum() * 2 > count:
            row[~known] = np.interp(np.flatnonzero(~known), np.flatnonzero(known), row[known])
    return means


def load(folder: pathlib.Path, node: str, count: int) -> dict[str, np.ndarray]:
    """Channel -> its means of seconds."""
    phases = [json.loads(line) for line in (folder / "phases.jsonl").read_text().splitlines()]
    prepared = max(line["end_utc_ns"] for line in phases if line["phase"] == "prepare") / 1e9
    channels = {}
    with h5py.File(folder / "job" / f"{node}.h5", "r") as trace:
        clock = trace["clock"][0]
        offset = (int(clock["utc_ns"]) - int(clock["monotonic_ns"])) / 1e9

        def visit(name, family):
            if not isinstance(family, h5py.Dataset) or f"{name}_channels" not in trace or family.shape[1] == 0:
                return
            axis = family.attrs["time"]
            axis = axis.decode() if isinstance(axis, bytes) else axis
            times = family.parent[axis][:family.shape[1]] / 1e9 + offset
            if times[-1] < prepared + count:
                return
            raw = family[:]
            values = np.where(raw == family.fillvalue, np.nan, raw.astype(float))
            rows = trace[f"{name}_channels"]
            keys = [f"{m}/{i}" if i else m for m, i in zip(rows["metric"].asstr()[:], rows["instance"].asstr()[:])]
            for key, means in zip(keys, seconds_of(values, times, prepared, count)):
                if not np.isnan(means).any() and not key.startswith("self."):
                    channels[key] = means

        trace.visititems(visit)
    return channels


def significant(smaller: np.ndarray, larger: np.ndarray) -> bool:
    """Over the runs, the first are smaller; two-sided, and in this direction."""
    difference = larger - smaller
    return bool(np.any(difference)) and wilcoxon(difference).pvalue < LEVEL and float(np.median(difference)) > 0


def scaled(values: np.ndarray) -> np.ndarray:
    """[channel, run, second] in standard deviations of the channel over all of its values."""
    spread = values.std(axis=(1, 2), keepdims=True)
    return (values - values.mean(axis=(1, 2), keepdims=True)) / np.where(spread > 0, spread, 1)


def others_median(values: np.ndarray) -> np.ndarray:
    return np.stack([np.median(np.delete(values, run, axis=1), axis=1) for run in range(values.shape[1])], axis=1)


def shuffled(values: np.ndarray, random: np.random.Generator, piece: int) -> np.ndarray:
    """Every run with its pieces in another order."""
    result = values.copy()
    for run in range(values.shape[1]):
        pieces = [np.arange(at, min(at + piece, values.shape[2])) for at in range(0, values.shape[2], piece)]
        result[:, run] = values[:, run, np.concatenate([pieces[i] for i in random.permutation(len(pieces))])]
    return result


def compare(workloads: dict[str, list[dict[str, np.ndarray]]], seed: int = 1) -> dict[str, list[dict]]:
    """Per workload and channel: the median distance and what is significant."""
    random, results = np.random.default_rng(seed), {}
    for name, runs in workloads.items():
        common = set.intersection(*(set(run) for run in runs))
        keys = sorted(key for key in common if all(np.ptp(run[key]) > 0 for run in runs))
        if not keys:
            results[name] = []
            continue
        raw = np.stack([[run[key] for run in runs] for key in keys])
        band = max(1, raw.shape[2] // 10)
        values = scaled(raw)
        median = others_median(values)
        distance, chance = dtw(values, median, band), dtw(shuffled(values, random, band), median, band)
        rows = [{"channel": key, "distance": float(np.median(distance[i])),
                 "nothing": significant(np.zeros_like(distance[i]), distance[i]),
                 "chance": significant(distance[i], chance[i])} for i, key in enumerate(keys)]
        for other, theirs in workloads.items():
            shared = [i for i, key in enumerate(keys) if other != name and all(key in run for run in theirs)]
            if not shared:
                continue
            away = np.stack([[run[keys[i]] for run in theirs] for i in shared])
            both = scaled(np.concatenate([raw[shared], away], axis=1))
            ours, away = both[:, :len(runs)], both[:, len(runs):]
            # Run against run: a median trace that all runs share would make their distances depend on each other, and
            # a quarter of pure noise significant.
            near = dtw(ours, np.roll(ours, 1, axis=1), band)
            far = dtw(ours, away[:, np.arange(len(runs)) % len(theirs)], band)
            for place, i in enumerate(shared):
                rows[i]["others"] = rows[i].get("others", True) and significant(near[place], far[place])
        results[name] = rows
    return results


def share(rows: list[dict], key: str) -> str:
    known = [row[key] for row in rows if key in row]
    return f"{100 * sum(known) / len(known):.2f} % of {len(known)}" if known else "-"


def record(args) -> int:
    """Exit status of the recorder."""
    words = ["--build", args.record, "--out", args.dir, "--scenarios", "none", "--workloads", args.workloads, "--runs",
             args.least, "--seconds", args.seconds + 10, *(["--keep"] if args.keep else [])]
    return subprocess.run([sys.executable, HERE / "lab.py", *map(str, words)], stdout=sys.stderr).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--node", default="node0")
    parser.add_argument("--seconds", type=int, default=50, help="of each run, from the end of its preparation")
    parser.add_argument("--least", type=int, default=10, help="runs of a workload; 5 can never reach p < 0.05")
    parser.add_argument("--metrics", action="store_true", help="also one line per channel")
    parser.add_argument("--record", type=pathlib.Path, metavar="BUILD", help="folder with bin/reveal-run")
    parser.add_argument("--workloads", default="cnn-train,encoder-train,mpi-solver", help="for --record")
    parser.add_argument("--keep", action="store_true", help="for --record: also runs that others disturbed")
    args = parser.parse_args()
    if args.record and (status := record(args)):
        return status
    workloads: dict[str, list[dict[str, np.ndarray]]] = {}
    for path in sorted(args.dir.glob("*/truth.json")):
        truth = json.loads(path.read_text())
        if truth["node"] is None and "." not in path.parent.name:
            if channels := load(path.parent, args.node, args.seconds):
                workloads.setdefault(truth["workload"], []).append(channels)
            else:
                print(f"trajectories: {path.parent.name} is shorter than {args.seconds} s: left out", file=sys.stderr)
    for name in [name for name, runs in workloads.items() if len(runs) < args.least]:
        count = len(workloads.pop(name))
        print(f"trajectories: {name}: {count} runs, fewer than {args.least}: left out", file=sys.stderr)
    if not workloads:
        return 1
    results = compare(workloads)
    print("| workload | runs | channels | median DTW distance (sd) | p < 0.05 against nothing | against chance | "
          "against others |")
    print("|---|---|---|---|---|---|---|")
    everything = [row for rows in results.values() for row in rows]
    for name, rows in [*results.items(), ("all", everything)]:
        distance = np.median([row["distance"] for row in rows]) if rows else np.nan
        shares = " | ".join(share(rows, key) for key in ("nothing", "chance", "others"))
        print(f"| {name} | {len(workloads.get(name, [])) or ''} | {len(rows)} | {distance:.3f} | {shares} |")
    if args.metrics:
        for name, rows in results.items():
            for row in sorted(rows, key=lambda row: row["distance"]):
                verdicts = " ".join(key for key in ("nothing", "chance", "others") if row.get(key))
                print(f"{name}\t{row['channel']}\t{row['distance']:.3f}\t{verdicts}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
