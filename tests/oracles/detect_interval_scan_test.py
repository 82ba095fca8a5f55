#!/usr/bin/python3
"""`reveal score` against a plain numpy version of the interval scan, written from its definition: same score, same interval.

A series of 700 samples at 10 Hz: counters, drifting and steady gauges, channels of two cpus, near copies, ties, and one
disturbance that raises or lowers part of the channels."""
import csv
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import program, skip  # noqa: E402

reveal = program("reveal")
try:
    import h5py
    import numpy as np
    from scipy.stats import norm, rankdata
except ImportError as missing:
    skip(f"{missing} (packages python3-h5py, python3-scipy)")

csv.field_size_limit(1 << 24)
T, BEGIN, END = 700, 317, 433
TRIM_START, TRIM_END, EDGE = 50, 25, 15


def make_series():
    rng = np.random.default_rng(5)
    inside = np.zeros(T)
    inside[BEGIN:END] = 1
    names, kinds, subsystems, rows = [], [], [], []

    def add(name, kind, subsystem, row):
        names.append(name), kinds.append(kind), subsystems.append(subsystem), rows.append(row.astype(float))

    for c in range(30):
        add(f"count{c}", "counter", ("cpu", "network")[c % 2],
            np.maximum(0, rng.poisson(4, T) + (4 if c % 3 else -3) * inside * (c < 18)))
    for c in range(8):
        add(f"drift{c}", "gauge", "memory", np.cumsum(rng.normal(size=T) + 2 * inside * (c < 4)))
        add(f"level{c}", "gauge", "storage", rng.normal(size=T) + 2 * inside * (c < 4))
    load = rng.poisson(20, T)
    for cpu in range(2):
        add(f"busy/cpu{cpu}", "counter", "cpu", load + rng.poisson(1, T) + 3 * cpu * inside)
    add("copy", "counter", "cpu", 2 * rows[0] + 1)
    add("constant", "gauge", "cpu", np.full(T, 3))
    return names, kinds, subsystems, np.array(rows)


def scan(names, kinds, subsystems, rows):
    """Best interval that does not begin at the edge, with its score."""
    series, owner = [], []

    def keep(row, subsystem):
        if (row != np.median(row)).sum() < 6:
            return
        score = norm.ppf((rankdata(row) - 0.5) / len(row))
        series.append(score - score.mean()), owner.append(subsystem)

    stop = T - TRIM_END
    for name, kind, subsystem, row in zip(names, kinds, subsystems, rows):
        cut = row[TRIM_START:stop]
        if kind == "counter":
            keep(cut, subsystem)
            continue
        keep(cut - row[TRIM_START - 1:stop - 1], subsystem)
        above = cut > np.median(cut)
        if subsystem != "memory" and (above[1:] != above[:-1]).sum() >= 2 * len(cut) / 100:
            keep(cut, subsystem)
    cpus = [np.sqrt(rows[names.index(f"busy/cpu{c}")][TRIM_START:stop]) for c in range(2)]
    keep(cpus[0] - cpus[1], "cpu")

    chosen = []
    for i, row in enumerate(series):
        if all(owner[k] != owner[i] or abs(np.corrcoef(series[k], row)[0, 1]) <= 0.9 for k in chosen):
            chosen.append(i)
    n = stop - TRIM_START
    combined = max(3, len(chosen) // 3) if len(chosen) < 60 else 20
    best = (0, 0, 0)
    means = {i: np.convolve(series[i], np.ones(50) / 50, "valid") for i in chosen}
    starts = np.arange(n - 49)
    for length in (50, 70, 100, 140, 200, 280):
        if length > 0.4 * n:
            continue
        for b in range(0, n - length + 1, 5):
            outside = (starts + 50 <= b) | (starts >= b + length)
            gaps = []
            for i in chosen:
                m = means[i][outside]
                inside = series[i][b:b + length].mean()
                gaps.append(max(0, inside - m.max(), m.min() - inside) / np.sqrt(series[i].var() / length))
            total = sum(sorted(gaps)[-combined:]) / combined
            if total > best[0] and b >= EDGE:
                best = (total, b + TRIM_START, b + TRIM_START + length)
    return best


def main():
    names, kinds, subsystems, rows = make_series()
    expected, rough_begin, rough_end = scan(names, kinds, subsystems, rows)
    with tempfile.TemporaryDirectory() as folder:
        path, windows, episodes = (os.path.join(folder, f) for f in ("s.h5", "w.csv", "e.csv"))
        with h5py.File(path, "w") as file:
            file["values"] = rows.T
            text = h5py.string_dtype()
            for key, values in (("channels", names), ("kind", kinds), ("subsystem", subsystems)):
                file.create_dataset(key, data=values, dtype=text)
            file.attrs["interval_seconds"] = 0.1
            file["truth/label"] = np.zeros(3)  # whatever else a file holds is not read
        command = [reveal, "score", path, "--window", "30", "--stride", "10", "--out", windows, "--episodes", episodes]
        subprocess.run(command, check=True)
        with open(windows) as w, open(episodes) as e:
            first = w.read(), e.read()
        subprocess.run(command, check=True)
        with open(windows) as w, open(episodes) as e:
            assert first == (w.read(), e.read()), "two runs differ"
        with open(episodes, newline="") as lines:
            found = list(csv.DictReader(lines))
        with open(windows, newline="") as lines:
            scored = list(csv.DictReader(lines))

    assert len(found) == 1, found
    top = found[0]
    print(f"score {top['score']} (numpy {expected:.5f}), [{top['begin']},{top['end']}) from "
          f"[{rough_begin},{rough_end}), truth [{BEGIN},{END})")
    assert abs(float(top["score"]) - expected) < 1e-3, "score differs from numpy"
    assert top["tier"] == "strong"
    assert abs(int(top["begin"]) - BEGIN) <= 2 and abs(int(top["end"]) - END) <= 2

    assert list(scored[0]) == ["begin", "end", "score", "flagged", "tier", "agreement", "top_channels"]
    assert len(scored) == (T - 30) // 10 + 1
    for row in scored:
        inside = int(row["begin"]) >= BEGIN and int(row["end"]) <= END
        outside = int(row["end"]) <= BEGIN - 5 or int(row["begin"]) >= END + 5
        assert not inside or row["flagged"] == "1", row["begin"]
        assert not outside or row["flagged"] == "0", row["begin"]
        shares = [float(item.rpartition(":")[2]) for item in row["top_channels"].split(";") if item]
        assert shares == sorted(shares, reverse=True)
        assert not shares or (len(shares) == len(names) and abs(sum(shares) - 1) < 1e-3)


main()
