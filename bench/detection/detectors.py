#!/usr/bin/python3
"""What each window detector adds to the ensemble: average precision of windows by each alone, by all, and by all but
one.

  detectors.py DIR [--build BUILD] [--without NAME] [--scenarios loss1,stop] [--each]

DIR holds labelled series as hosts.py or jobs.py read them (*.h5), or runs of lab.py (*/truth.json). Windows have 30
samples, stride 10. Which are positive and which are left out is as in pruning.py; of a run of lab.py, the nodes that the
fault touched count, if at least three of their windows are positive and ten touch no fault. Runs of look-alikes, and of
faults that the lab only expects remarks about, have no positive windows. --without: all but this detector, beside all;
the entities that lose and win by it are those whose AP moves by more than .001. Nothing is tuned here."""
import argparse
import collections
import csv
import io
import json
import pathlib
import sys

import h5py
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
import hosts  # noqa: E402
import pruning  # noqa: E402

LEAST_POSITIVE, LEAST_OTHERS, MOVED = 3, 10, 0.001


class Windows:
    """Of one node: where they are in samples, and the score that each way of ranking gives them."""

    def __init__(self, rows: list[dict], interval: float):
        self.begins, self.ends = (np.array([round(float(row[key]) / interval) for row in rows])
                                  for key in ("begin", "end"))
        self.start_utc_ns = int(rows[0]["start_utc_ns"])
        self.score = np.array([float(row["score"]) for row in rows])


def ranked(build: pathlib.Path, way: str, path: pathlib.Path, interval: float) -> dict[str, Windows]:
    """By node."""
    out = pruning.output_of(build / "bin/window_scores_bench", way, path, hosts.WINDOW * interval,
                            hosts.STRIDE * interval)
    rows = collections.defaultdict(list)
    for row in csv.DictReader(io.StringIO(out)):
        rows[row["node"]].append(row)
    return {node: Windows(of, interval) for node, of in rows.items()}


def inside(windows: Windows, truth: dict) -> tuple[np.ndarray, np.ndarray]:
    """As pruning.windows_of, of a run of the lab at 10 Hz."""
    begin, end = ((truth[key] - windows.start_utc_ns) / 1e8 for key in ("begin_utc_ns", "end_utc_ns"))
    covered = np.minimum(windows.ends, end) - np.maximum(windows.begins, begin)
    return covered >= 10, covered > 0


def precisions(args, ways: list[str], path: pathlib.Path, truth: dict | None) -> dict[str, list[float]]:
    """By node, in the order of the ways."""
    interval = 0.1
    if truth is None:
        with h5py.File(path) as file:
            interval = float(file.attrs["interval_seconds"])
    results = collections.defaultdict(list)
    for way in ways:
        for node, windows in ranked(args.build, way, path, interval).items():
            if truth and truth["nodes_touched"] and node not in truth["nodes_touched"]:
                continue
            positive, touches = inside(windows, truth) if truth else \
                pruning.windows_of(path, windows.begins, windows.ends)
            if positive.sum() < LEAST_POSITIVE or (~touches).sum() < LEAST_OTHERS:
                continue
            counted = positive | ~touches
            results[node].append(hosts.average_precision(positive[counted], windows.score[counted]))
    return results


def entities(args):
    """Group, name, what is to be ranked, and what was done to it."""
    for path in sorted(args.dir.glob("*.h5")):
        if pruning.is_labelled(path):
            yield path.stem.split("-")[0] if "-" in path.stem else "jobs", path.stem, path, None
    for path in sorted(args.dir.glob("*/truth.json")):
        truth = json.loads(path.read_text())
        wanted = not args.scenarios or truth["scenario"] in args.scenarios.split(",")
        if "." not in path.parent.name and truth["rule"] and not truth["remark"] and wanted:
            yield "lab", path.parent.name, path.parent / "job", truth


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/gcc"))
    parser.add_argument("--without", metavar="NAME", help="a detector as reports name it")
    parser.add_argument("--scenarios", metavar="LIST", help="of the lab (default: all that leave positive windows)")
    parser.add_argument("--each", action="store_true", help="also one line per entity")
    args = parser.parse_args()
    names = pruning.output_of(args.build / "bin/window_scores_bench", "names").split()
    ways = ["windows", *names]
    if args.without:
        ways.append(",".join(name for name in names if name != args.without))
    values = collections.defaultdict(list)
    for group, name, path, truth in entities(args):
        for node, row in precisions(args, ways, path, truth).items():
            values[group].append(row)
            if args.each:
                print(f"{group} {name} {node}: " + " ".join(f"{value:.3f}" for value in row), flush=True)
    head = ["entities", "all", *names] + ([f"without {args.without}", "lose", "win"] if args.without else [])
    rows = []
    for group, of in values.items():
        table = np.array(of)
        rows.append([f"{group} ({len(table)})", *(f"{m:.3f} ± {s:.2f}" for m, s in zip(table.mean(0), table.std(0)))])
        if args.without:
            more = table[:, 0] - table[:, -1]
            rows[-1] += [str((more < -MOVED).sum()), str((more > MOVED).sum())]
    pruning.table(head, rows)


if __name__ == "__main__":
    main()
