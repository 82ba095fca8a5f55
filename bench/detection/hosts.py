#!/usr/bin/python3
"""How well the pipelines do on labelled telemetry of servers and applications.

  bench/detection/hosts.py DIR [--reveal BIN] [--only GLOB] [--entities] [--pipelines paper,reveal]

DIR holds one HDF5 file per entity as `reveal score` reads it, plus the group /truth (label per sample; per event
event_begin, event_end and its channels, event_channel[event_offset[i]:event_offset[i+1]]), which only this evaluation
reads. Files that share the part of their name before the first dash form a group: machine-*.h5, omi-*.h5.

Protocol: windows of 30 samples, stride 10, no training part. A window is positive if it covers at least ten anomalous
samples or half an event; windows that touch an event less are left out of AP. VUS-PR: buffers 0 to 10 windows, 250
thresholds. recall@1, @5: share of events with a window above the lowest threshold that raises at most 1 (5) false-alarm
events per 1000 normal windows, at least one allowed: an oracle's threshold, it measures ranking. A false-alarm event is
a run of adjacent windows of which none touches an event. Fixed rule: windows of tier `strong`; beside it those of any
tier. hit@100 and @150: share of an event's labelled channels among its first (one and a half times as many) channels,
by the mean of the shares that its positive windows give them. No threshold or constant is chosen here."""
import argparse
import collections
import csv
import fnmatch
import glob
import os
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np

WINDOW, STRIDE, BUFFER, THRESHOLDS = 30, 10, 10, 250
csv.field_size_limit(1 << 24)


class Truth:
    """Labels of one entity's windows."""

    def __init__(self, path, begins, ends):
        with h5py.File(path) as file:
            truth = file["truth"]
            label = truth["label"][:].astype(np.int64)
            self.events = list(zip(truth["event_begin"][:].tolist(), truth["event_end"][:].tolist()))
            channel, offset = truth["event_channel"][:], truth["event_offset"][:]
            self.event_channels = [channel[a:b].tolist() for a, b in zip(offset[:-1], offset[1:])]
            self.names = [n.decode() if isinstance(n, bytes) else str(n) for n in file["channels"][:]]
        total = np.concatenate([[0], np.cumsum(label)])
        inside = total[ends] - total[begins]
        self.touches = inside > 0
        self.positive = inside >= 10
        self.of_event = []
        for begin, end in self.events:
            covered = np.minimum(ends, end) - np.maximum(begins, begin)
            mine = (covered >= 10) | (2 * covered >= end - begin)
            self.touches |= covered > 0
            self.positive |= mine
            self.of_event.append(np.flatnonzero(mine))


def runs_of(flags):
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist()))


def average_precision(positive, score):
    order = np.argsort(-score, kind="stable")
    hits, ranked = positive[order].astype(float), score[order]
    last = np.flatnonzero(np.append(np.diff(ranked) != 0, True))  # ties are one threshold
    found = np.cumsum(hits)[last]
    precision = found / (last + 1)
    return float(np.sum(np.diff(np.concatenate([[0], found])) * precision) / hits.sum())


def vus_pr(positive, score, buffer=BUFFER, thresholds=THRESHOLDS):
    """Volume under the precision-recall surface (Paparrizos et al., VLDB 2022) as TSB-AD computes it: events grow by
    ramps of sqrt(1 - distance / buffer) over half the buffer; recall counts what is found and how many events are."""
    n = len(score)
    events = runs_of(positive)
    levels = -np.sort(-score)[np.linspace(0, n - 1, thresholds).astype(int)]
    order = np.sort(score)
    predicted = n - np.searchsorted(order, levels, side="left")
    areas = []
    for width in range(buffer + 1):
        soft = positive.astype(float)
        for begin, end in events:
            reach = np.arange(1, width // 2 + 1)
            ramp = np.sqrt(1 - reach / max(width, 1))
            for at in ((end - 1 + reach), (begin - reach)):
                valid = (at >= 0) & (at < n)
                soft[at[valid]] += ramp[valid]
        soft = np.minimum(soft, 1)
        grown = merge([(max(0, b - width // 2), min(n, e + width // 2)) for b, e in events])
        widest = merge([(max(0, b - buffer // 2), min(n, e + buffer // 2)) for b, e in events])
        counted = np.zeros(n, bool)
        for begin, end in widest:
            counted[begin:end] = True
        peaks = np.array([score[b:e].max() for b, e in grown])
        core = positive & counted
        ramps = ~positive & counted & (soft > 0)
        true = above(score[core], np.ones(core.sum()), levels) + above(score[ramps], soft[ramps], levels)
        # What is not predicted counts with its label inside an event and not at all on the ramps.
        labelled = core.sum() + above(score[ramps], soft[ramps], levels)
        size = (positive.sum() + labelled) / 2
        existence = (peaks[None, :] >= levels[:, None]).mean(axis=1)
        recall = np.minimum(true / size, 1) * existence
        precision = true / predicted
        areas.append(np.dot(np.diff(np.concatenate([[0], recall])), precision))
    return float(np.mean(areas))


def merge(ranges):
    merged = []
    for begin, end in sorted(ranges):
        if merged and begin < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def above(values, weights, levels):
    """Sum of the weights of values >= each level."""
    order = np.argsort(values)
    total = np.concatenate([[0], np.cumsum(weights[order])])
    return total[-1] - total[np.searchsorted(values[order], levels, side="left")]


def events_of_rule(truth, flags):
    """Recall of events, false-alarm events per 1000 normal windows."""
    found = [bool(flags[windows].any()) for windows in truth.of_event]
    false = sum(not truth.touches[b:e].any() for b, e in runs_of(flags))
    return float(np.mean(found)), 1000 * false / max(1, (~truth.touches).sum())


def recall_at(truth, score, budget):
    allowed = max(1, budget * (~truth.touches).sum() / 1000)
    best = 0.0
    for level in np.unique(score)[::-1]:
        flags = score >= level
        recall, _ = events_of_rule(truth, flags)
        false = sum(not truth.touches[b:e].any() for b, e in runs_of(flags))
        if false > allowed:
            break
        best = max(best, recall)
    return best


def attribution(truth, shares):
    """hit@100, hit@150, NDCG over the events; `shares` is [window, channel]."""
    results = []
    for windows, wanted in zip(truth.of_event, truth.event_channels):
        if len(windows) == 0 or not wanted:
            continue
        order = np.argsort(-shares[windows].mean(axis=0), kind="stable")
        n = len(wanted)
        right = np.isin(order, wanted)
        discount = 1 / np.log2(np.arange(len(order)) + 2)
        results.append([right[:n].sum() / n, right[:(3 * n) // 2].sum() / n,
                        (right[:n] * discount[:n]).sum() / discount[:n].sum()])
    return np.mean(results, axis=0)


METRICS = ["AP", "VUS-PR", "recall@1", "recall@5", "strong recall", "strong false/1000", "any recall",
           "any false/1000", "hit@100", "hit@150", "NDCG"]


def evaluate(truth, score, finding, flagged, shares):
    counted = truth.positive | ~truth.touches
    return [average_precision(truth.positive[counted], score[counted]), vus_pr(truth.positive, score),
            recall_at(truth, score, 1), recall_at(truth, score, 5), *events_of_rule(truth, finding),
            *events_of_rule(truth, flagged), *attribution(truth, shares)]


def score_with(binary, path, pipeline):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "windows.csv")
        begin = time.monotonic()
        done = subprocess.run([binary, "score", path, "--window", str(WINDOW), "--stride", str(STRIDE), "--pipeline",
                               pipeline, "--out", out], capture_output=True, text=True)
        seconds = time.monotonic() - begin
        if done.returncode != 0:
            sys.exit(f"reveal score {path}: {done.stderr.strip()}")
        with open(out, newline="") as lines:
            return list(csv.DictReader(lines)), seconds


def evaluate_file(binary, path, pipeline):
    rows, seconds = score_with(binary, path, pipeline)
    truth = Truth(path, np.array([int(r["begin"]) for r in rows]), np.array([int(r["end"]) for r in rows]))
    index = {name: i for i, name in enumerate(truth.names)}
    shares = np.zeros((len(rows), len(truth.names)))
    for w, row in enumerate(rows):
        for part in filter(None, row["top_channels"].split(";")):
            name, _, share = part.rpartition(":")
            shares[w, index[name]] = float(share)
    finding = np.array([r["tier"] == "strong" for r in rows])
    flagged = np.array([r["tier"] in ("strong", "weak") for r in rows])
    score = np.array([float(r["score"]) for r in rows])
    return [*evaluate(truth, score, finding, flagged, shares), seconds]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", metavar="DIR")
    parser.add_argument("--reveal", default="reveal", metavar="BIN")
    parser.add_argument("--only", default="*", metavar="GLOB", help="files by name")
    parser.add_argument("--pipelines", default="paper,reveal", metavar="LIST")
    parser.add_argument("--entities", action="store_true", help="also one line per entity")
    options = parser.parse_args()
    files = sorted(f for f in glob.glob(os.path.join(options.dir, "*.h5"))
                   if fnmatch.fnmatch(os.path.basename(f), options.only))
    if not files:
        sys.exit(f"{options.dir}: no *.h5 files")
    groups = collections.defaultdict(list)
    for path in files:
        groups[os.path.basename(path).split("-")[0]].append(path)
    head = ["entities", "pipeline", *METRICS, "s/file"]
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for group, paths in groups.items():
        for pipeline in options.pipelines.split(","):
            values = []
            for path in paths:
                values.append(evaluate_file(options.reveal, path, pipeline))
                if options.entities:
                    print(f"| {os.path.basename(path)[:-3]} | {pipeline} | " +
                          " | ".join(f"{v:.3f}" for v in values[-1]) + " |", flush=True)
            mean, spread = np.mean(values, axis=0), np.std(values, axis=0)
            print(f"| {group} ({len(paths)}), mean ± deviation over entities | {pipeline} | " +
                  " | ".join(f"{m:.3f} ± {s:.2f}" for m, s in zip(mean, spread)) + " |", flush=True)


if __name__ == "__main__":
    main()
