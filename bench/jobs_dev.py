#!/usr/bin/python3
"""How well the pipelines do on recorded jobs with a known disturbance.

  bench/jobs_dev.py DIR [--reveal BIN] [--runs]

DIR holds one HDF5 file per job as `reveal score` reads it, plus the group /truth (healthy, event_begin, event_end,
event_subsystem, event_subsystem_also, event_channels), which only this evaluation reads. Protocol: windows of 30
samples, stride 10; an episode finds the event if their intersection over union is at least 0.1; any finding in a
healthy job is false. `top` is the episode with the highest score, whatever its tier."""
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

import h5py

csv.field_size_limit(1 << 24)


def text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


def truth_of(path):
    with h5py.File(path) as file:
        t = file["truth"]
        begin, end = int(t["event_begin"][()]), int(t["event_end"][()])
        if begin < 0:
            return None
        return {
            "begin": begin,
            "end": end,
            "subsystem": text(t["event_subsystem"][()]),
            "also": set(filter(None, re.split(r"[;,\s]+", text(t["event_subsystem_also"][()])))),
            "channels": [re.compile(p) for p in text(t["event_channels"][()]).split(";") if p],
            "interval": float(file.attrs["interval_seconds"]),
        }


def score(binary, path, pipeline, folder):
    episodes = os.path.join(folder, "episodes.csv")
    begin = time.monotonic()
    done = subprocess.run(
        [binary, "score", path, "--window", "30", "--stride", "10", "--pipeline", pipeline,
         "--out", os.path.join(folder, "windows.csv"), "--episodes", episodes],
        stderr=subprocess.PIPE, text=True)
    seconds = time.monotonic() - begin
    if done.returncode != 0:
        sys.exit(f"reveal score {path}: {done.stderr.strip()}")
    with open(episodes, newline="") as lines:
        rows = list(csv.DictReader(lines))
    for row in rows:
        row["begin"], row["end"], row["score"] = int(row["begin"]), int(row["end"]), float(row["score"])
    return sorted(rows, key=lambda row: -row["score"]), seconds


def overlap(episode, truth):
    both = min(episode["end"], truth["end"]) - max(episode["begin"], truth["begin"])
    either = max(episode["end"], truth["end"]) - min(episode["begin"], truth["begin"])
    return max(0, both) / either


def evaluate(binary, files, pipeline, show_runs):
    healthy = disturbed = clean = false = finding = notice = top = strict = also = other = 0
    overlaps, onsets, matches, times = [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for path in files:
            truth = truth_of(path)
            episodes, seconds = score(binary, path, pipeline, folder)
            times.append(seconds)
            findings = [e for e in episodes if e["tier"] == "finding"]
            best = episodes[0] if episodes else None
            line = f"{os.path.basename(path)[:-3]:24}"
            if best:
                line += f" {best['tier']:8} {best['score']:5.1f} [{best['begin']},{best['end']}) {best['subsystem']:8}"
            if truth is None:
                healthy += 1
                clean += not findings
                false += len(findings)
            else:
                disturbed += 1
                finding += any(overlap(e, truth) >= 0.1 for e in findings)
                notice += any(overlap(e, truth) >= 0.1 for e in episodes)
                other += sum(overlap(e, truth) < 0.1 for e in findings)
                best_overlap = overlap(best, truth) if best else 0
                overlaps.append(best_overlap)
                line += f" truth [{truth['begin']},{truth['end']}) {truth['subsystem']} IoU {best_overlap:.2f}"
                if best_overlap >= 0.1:
                    top += 1
                    onsets.append(abs(best["begin"] - truth["begin"]) * truth["interval"])
                    strict += best["subsystem"] == truth["subsystem"]
                    also += best["subsystem"] in truth["also"] | {truth["subsystem"]}
                    first = [c.rpartition(":")[0] for c in best["top_channels"].split(";")[:10]]
                    matches.append(sum(any(p.fullmatch(c) for p in truth["channels"]) for c in first) / len(first))
            if show_runs:
                print(line)
    mean = lambda values: sum(values) / len(values) if values else float("nan")
    median = lambda values: statistics.median(values) if values else float("nan")
    return [pipeline, f"{clean}/{healthy}", f"{false / max(1, healthy):.2f}", f"{finding}/{disturbed}",
            f"{notice}/{disturbed}", f"{top}/{disturbed}", f"{mean(overlaps):.2f}", f"{median(onsets):.2f}",
            f"{strict}/{disturbed}", f"{also}/{disturbed}", f"{other / max(1, disturbed):.2f}",
            f"{mean(matches):.2f}", f"{1000 * median(times):.0f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", metavar="DIR")
    parser.add_argument("--reveal", default="reveal", metavar="BIN")
    parser.add_argument("--runs", action="store_true", help="also one line per job")
    options = parser.parse_args()
    files = sorted(glob.glob(os.path.join(options.dir, "*.h5")))
    if not files:
        sys.exit(f"{options.dir}: no *.h5 files")
    head = ["pipeline", "healthy clean", "false findings/run", "found as finding", "found at all", "found as top",
            "IoU top", "onset error s", "subsystem strict", "subsystem also", "other findings/run", "channels matched",
            "ms/job, whole program"]
    rows = [evaluate(options.reveal, files, pipeline, options.runs) for pipeline in ("paper", "reveal")]
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
