#!/usr/bin/python3
"""How well the pipelines do on recorded jobs with a known disturbance.

  bench/detection/jobs.py DIR [--reveal BIN] [--tile N] [--pseudo-healthy] [--seeds K] [--runs] [--keep FOLDER]

DIR holds one HDF5 file per job as `reveal score` reads it, plus the group /truth (healthy, event_begin, event_end,
event_subsystem, event_subsystem_also, event_channels), which only this evaluation reads. Windows are 3 s every second.
A job is found if a strong interval and the event have an intersection over union of at least 0.1; any strong one in a
healthy job is false. IoU, onset and subsystem are those of the episode with the highest score, whatever its tier.

--pseudo-healthy also judges the disturbed jobs with their event cut out. The parts before and after are glued, so this
asks more than a healthy job does.

--tile N also judges jobs N times longer: start, event and end where they were, and around them pieces of 15 to 40 s of
healthy recordings of the same workload in random order (of the job's own undisturbed parts where there are none, and in
jobs without an event: another recording would be one).
Counters are increments and go on by themselves; a drifting gauge goes on from its last level."""
import argparse
import csv
import glob
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import h5py
import numpy as np

csv.field_size_limit(1 << 24)

START, END = 5.0, 2.5  # seconds of imports and tear-down, never tiled
BEFORE, AFTER = 1.0, 5.0  # seconds around an event that are not undisturbed: the job recovers
PIECE = (15.0, 40.0)
DRIFT = 0.2  # a gauge that crosses its median less often per second drifts


def text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


@dataclass
class Job:
    name: str
    values: np.ndarray  # [time, channel]
    channels: list
    kind: list
    subsystem: list
    interval: float
    begin: int = -1  # of the event; -1: healthy
    end: int = -1
    main: str = ""
    also: frozenset = frozenset()
    patterns: tuple = ()

    @property
    def workload(self):
        return self.name.rpartition("_")[2]

    def samples(self, seconds):
        return int(round(seconds / self.interval))


def read(path):
    with h5py.File(path) as file:
        truth = file["truth"]
        return Job(
            name=os.path.basename(path)[:-3],
            values=file["values"][()],
            channels=[text(c) for c in file["channels"][()]],
            kind=[text(k) for k in file["kind"][()]],
            subsystem=[text(s) for s in file["subsystem"][()]],
            interval=float(file.attrs["interval_seconds"]),
            begin=int(truth["event_begin"][()]),
            end=int(truth["event_end"][()]),
            main=text(truth["event_subsystem"][()]),
            also=frozenset(filter(None, re.split(r"[;,\s]+", text(truth["event_subsystem_also"][()])))),
            patterns=tuple(re.compile(p) for p in text(truth["event_channels"][()]).split(";") if p))


def write(job, path):
    with h5py.File(path, "w") as file:
        file.create_dataset("values", data=job.values, chunks=True, compression="gzip", compression_opts=1)
        for name in ("channels", "kind", "subsystem"):
            file.create_dataset(name, data=np.array(getattr(job, name), dtype="S"))
        file.attrs["interval_seconds"] = job.interval
        file["truth/event_begin"], file["truth/event_end"] = job.begin, job.end


def without_event(job):
    """The same job as if nothing had happened: the parts before and after, glued."""
    rows = [job.values[: job.begin - job.samples(BEFORE)], job.values[job.end + job.samples(AFTER):]]
    return replace(job, values=glue(rows, drifting(job)), begin=-1, end=-1)


def drifting(job):
    gauges = np.array([k == "gauge" for k in job.kind])
    above = job.values > np.median(job.values, axis=0)
    crossings = (above[1:] != above[:-1]).sum(axis=0)
    return gauges & (crossings < DRIFT * len(job.values) * job.interval)


def glue(pieces, continued):
    glued = [pieces[0]]
    for piece in pieces[1:]:
        if not len(piece):
            continue
        piece = piece.copy()
        piece[:, continued] += glued[-1][-1, continued] - piece[0, continued]
        glued.append(piece)
    return np.concatenate(glued)


def in_channels_of(job, other):
    """The other recording's values in this job's channels. What the other one lacks was constant there: a counter
    stood still, a gauge kept a level nobody wrote down."""
    index = {c: i for i, c in enumerate(other.channels)}
    still = np.where(np.array(job.kind) == "counter", 0, np.median(job.values, axis=0))
    values = np.tile(still, (len(other.values), 1))
    for i, channel in enumerate(job.channels):
        if channel in index:
            values[:, i] = other.values[:, index[channel]]
    return values


def tiled(job, healthy, times, seed):
    random = np.random.default_rng([seed, zlib.crc32(job.name.encode())])
    start, end = job.samples(START), job.samples(END)
    others = [h for h in healthy if h.workload == job.workload and job.begin >= 0]
    if others:
        sources = [in_channels_of(job, h)[start:-end] for h in others]
    elif job.begin < 0:
        sources = [job.values[start:-end]]
    else:
        sources = [job.values[start : job.begin - job.samples(BEFORE)],
                   job.values[job.end + job.samples(AFTER) : -end]]
    sources = [s for s in sources if len(s) > job.samples(3)]
    weights = np.array([len(s) for s in sources], float)

    def pieces(samples):
        made = []
        while samples > 0:
            source = sources[random.choice(len(sources), p=weights / weights.sum())]
            length = min(samples, len(source), int(random.uniform(*PIECE) / job.interval))
            first = int(random.integers(0, len(source) - length + 1))
            made.append(source[first : first + length])
            samples -= length
        return made

    more = (times - 1) * len(job.values)
    if job.begin < 0:
        return replace(job, values=glue([job.values[:-end], *pieces(more), job.values[-end:]], drifting(job)))
    before = int(random.uniform(0.3, 0.7) * more)
    head = [job.values[:start], *pieces(before)]
    shift = sum(len(p) for p in head) - start
    rows = [*head, job.values[start:-end], *pieces(more - before), job.values[-end:]]
    return replace(job, values=glue(rows, drifting(job)), begin=job.begin + shift, end=job.end + shift)


def score(binary, path, pipeline):
    base = f"{path}.{pipeline}"
    begin = time.monotonic()
    done = subprocess.run(
        [binary, "score", path, "--window", "30", "--stride", "10", "--pipeline", pipeline,
         "--out", base + ".windows.csv", "--episodes", base + ".episodes.csv"],
        stderr=subprocess.PIPE, text=True)
    seconds = time.monotonic() - begin
    os.remove(base + ".windows.csv")
    if done.returncode != 0:
        sys.exit(f"reveal score {path}: {done.stderr.strip()}")
    with open(base + ".episodes.csv", newline="") as lines:
        rows = list(csv.DictReader(lines))
    os.remove(base + ".episodes.csv")
    for row in rows:
        row["begin"], row["end"], row["score"] = int(row["begin"]), int(row["end"]), float(row["score"])
    return sorted(rows, key=lambda row: -row["score"]), seconds


def overlap(episode, job):
    both = min(episode["end"], job.end) - max(episode["begin"], job.begin)
    either = max(episode["end"], job.end) - min(episode["begin"], job.begin)
    return max(0, both) / either


def mean(values):
    return sum(values) / len(values) if values else float("nan")


def median(values):
    return statistics.median(values) if values else float("nan")


HEAD = ["jobs", "pipeline", "healthy with a strong one", "healthy with a weak one", "found", "found at all", "found as top",
        "mean IoU", "least IoU", "onset error s", "subsystem strict", "subsystem also", "other strong ones/run",
        "channels matched", "ms/job, whole program"]


def evaluate(name, jobs, pipeline, options, folder):
    """One row of the table: `jobs` are (Job, path)."""
    def run(entry):
        return score(options.reveal, entry[1], pipeline)

    with ThreadPoolExecutor(options.threads) as pool:
        results = list(pool.map(run, jobs))
    healthy = disturbed = false = talk = found = at_all = top = strict = also = other = 0
    overlaps, onsets, matches = [], [], []
    for (job, _), (episodes, _) in zip(jobs, results):
        findings = [e for e in episodes if e["tier"] == "strong"]
        best = episodes[0] if episodes else None
        line = f"{job.name:24}"
        if best:
            line += f" {best['tier']:8} {best['score']:5.1f} [{best['begin']},{best['end']}) {best['subsystem']:8}"
        if job.begin < 0:
            healthy += 1
            false += bool(findings)
            talk += bool(episodes) and not findings
        else:
            disturbed += 1
            found += any(overlap(e, job) >= 0.1 for e in findings)
            at_all += any(overlap(e, job) >= 0.1 for e in episodes)
            other += sum(overlap(e, job) < 0.1 for e in findings)
            best_overlap = overlap(best, job) if best else 0
            overlaps.append(best_overlap)
            line += f" truth [{job.begin},{job.end}) {job.main} IoU {best_overlap:.2f}"
            if best_overlap >= 0.1:
                top += 1
                onsets.append(abs(best["begin"] - job.begin) * job.interval)
                strict += best["subsystem"] == job.main
                also += best["subsystem"] in job.also | {job.main}
                first = [c.rpartition(":")[0] for c in best["top_channels"].split(";")[:10]]
                matches.append(mean([any(p.fullmatch(c) for p in job.patterns) for c in first]))
        if options.runs:
            print(line)
    least = f"{min(overlaps):.2f}" if overlaps else "-"
    return [name, pipeline, f"{false}/{healthy}", f"{talk}/{healthy}", f"{found}/{disturbed}", f"{at_all}/{disturbed}",
            f"{top}/{disturbed}", f"{mean(overlaps):.2f}", least, f"{median(onsets):.2f}", f"{strict}/{disturbed}",
            f"{also}/{disturbed}", f"{other / max(1, disturbed):.2f}", f"{mean(matches):.2f}",
            f"{1000 * median([seconds for _, seconds in results]):.0f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", metavar="DIR")
    parser.add_argument("--reveal", default="reveal", metavar="BIN")
    parser.add_argument("--pipelines", default="paper,reveal", metavar="LIST")
    parser.add_argument("--tile", type=int, default=0, metavar="N")
    parser.add_argument("--pseudo-healthy", action="store_true")
    parser.add_argument("--seeds", type=int, default=1, metavar="K", help="tilings per job")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="jobs at a time")
    parser.add_argument("--runs", action="store_true", help="also one line per job")
    parser.add_argument("--keep", metavar="FOLDER", help="leave the jobs made here, for detectors.py")
    options = parser.parse_args()
    paths = sorted(glob.glob(os.path.join(options.dir, "*.h5")))
    if not paths:
        sys.exit(f"{options.dir}: no *.h5 files")
    recorded = [read(path) for path in paths]
    healthy = [job for job in recorded if job.begin < 0]
    cut = [without_event(job) for job in recorded if job.begin >= 0]

    with tempfile.TemporaryDirectory() as folder:
        folder = options.keep or folder

        def written(name, jobs):
            os.makedirs(os.path.join(folder, name), exist_ok=True)
            entries = []
            for number, job in enumerate(jobs):
                path = os.path.join(folder, name, f"{number:03}_{job.name}.h5")
                write(job, path)
                entries.append((job, path))
            return entries

        sets = [("recorded", written("recorded", recorded))]
        if options.pseudo_healthy:
            sets.append(("event cut out", written("cut", cut)))
        if options.tile > 1:
            seeds = range(options.seeds)
            longer = [tiled(job, healthy, options.tile, seed) for seed in seeds for job in recorded]
            sets.append((f"{options.tile} x longer", written("tiled", longer)))
            if options.pseudo_healthy:
                longer = [tiled(job, healthy, options.tile, seed) for seed in seeds for job in cut]
                sets.append((f"{options.tile} x longer, event cut out", written("tiled_cut", longer)))
        rows = [evaluate(name, jobs, pipeline, options, folder)
                for name, jobs in sets for pipeline in options.pipelines.split(",")]
    print("| " + " | ".join(HEAD) + " |")
    print("|" + "---|" * len(HEAD))
    for row in rows:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
