#!/usr/bin/python3
"""How much what is flagged depends on the windows, after section 5.5 of the paper: Table 2 and Figure 6.

  windows.py DIR [--build BUILD] [--tile N] [--jobs] [--out figure6.svg]

DIR holds recorded jobs: series as `reveal score` reads them (*.h5), or runs of lab.py (*/job/), each node of which
counts as a job. Windows are 3 s long every second (default), 1.5 s every .5 s (fine), 5 s every 2 s (coarse). Flagged
windows that touch or overlap are merged into intervals; of two settings A and B, over the jobs in which both flag
something:

  IoU       length of the intersection / length of the union of all intervals
  byCount   share of A's intervals that intersect any of B's
  byLength  share of A's length that B covers

What is flagged is decided by paper, windows and reveal as window_scores_bench.cpp has them; no way says anything about
a job of fewer than 30 windows. --tile N makes series N times longer with healthy recordings of the same workload, as
jobs.py does."""
import argparse
import csv
import io
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
import jobs as recorded  # noqa: E402

SETTINGS = {"default": (3.0, 1.0), "fine": (1.5, 0.5), "coarse": (5.0, 2.0)}
PAIRS = [("default", "fine"), ("default", "coarse"), ("fine", "coarse")]
WAYS = ("paper", "windows", "reveal")
Intervals = list[tuple[float, float]]


def merged(windows: Intervals) -> Intervals:
    result: Intervals = []
    for begin, end in sorted(windows):
        if result and begin <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((begin, end))
    return result


def length(intervals: Intervals) -> float:
    return sum(end - begin for begin, end in intervals)


def common(a: Intervals, b: Intervals) -> Intervals:
    cuts = [(max(p[0], q[0]), min(p[1], q[1])) for p in a for q in b]
    return [(begin, end) for begin, end in cuts if begin < end]


def agreement(a: Intervals, b: Intervals) -> tuple[float, float, float]:
    both = length(common(a, b))
    return (both / (length(a) + length(b) - both), sum(bool(common([one], b)) for one in a) / len(a), both / length(a))


def flagged(build: pathlib.Path, path: pathlib.Path, way: str, window: float, stride: float) -> dict[str, Intervals]:
    """By node, in seconds."""
    done = subprocess.run([build / "bin/window_scores_bench", way, path, f"{window:g}", f"{stride:g}"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"window_scores_bench {path}: {done.stderr.strip()}")
    nodes: dict[str, Intervals] = {}
    for row in csv.DictReader(io.StringIO(done.stdout)):
        spans = nodes.setdefault(row["node"], [])
        if row["flagged"] == "1":
            spans.append((float(row["begin"]), float(row["end"])))
    return {node: merged(spans) for node, spans in nodes.items()}


def read(build: pathlib.Path, name: str, path: pathlib.Path) -> dict[str, dict[str, dict[str, Intervals]]]:
    """Job, or node of one -> way -> setting -> intervals."""
    result: dict[str, dict[str, dict[str, Intervals]]] = {}
    for way in WAYS:
        for setting, (window, stride) in SETTINGS.items():
            for node, spans in flagged(build, path, way, window, stride).items():
                job = result.setdefault(f"{name} {node}".strip(), {each: dict.fromkeys(SETTINGS, []) for each in WAYS})
                job[way][setting] = spans
    return result


def longer(paths: list[pathlib.Path], times: int, folder: pathlib.Path) -> list[pathlib.Path]:
    jobs = [recorded.read(str(path)) for path in paths]
    healthy = [job for job in jobs if job.begin < 0]
    for job in jobs:
        recorded.write(recorded.tiled(job, healthy, times, 0), str(folder / f"{job.name}.h5"))
    return sorted(folder.glob("*.h5"))


def svg(name: str, ways: dict[str, dict[str, Intervals]]) -> str:
    """Figure 6 of one job: what each setting flags over time."""
    last = max((end for of in ways.values() for spans in of.values() for _, end in spans), default=1)
    lines, row = [], 0
    for way, of in ways.items():
        for setting, spans in of.items():
            y = 40 + 22 * row
            window, stride = SETTINGS[setting]
            lines.append(f'<text x="8" y="{y + 11}">{way}, {window:g} s / {stride:g} s</text>')
            lines.append(f'<path d="M150 {y + 7}h500" stroke="#ddd"/>')
            lines += [f'<rect x="{150 + 500 * b / last:.1f}" y="{y}" width="{500 * (e - b) / last:.1f}" height="14" '
                      'fill="#3465a4"/>' for b, e in spans]
            row += 1
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 670 {60 + 22 * row}" font-family="sans-serif" '
            f'font-size="12"><text x="8" y="20">{name}: flagged intervals, 0 to {last:.0f} s</text>')
    return "\n".join([head, *lines, "</svg>", ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/gcc"))
    parser.add_argument("--tile", type=int, default=1, metavar="N")
    parser.add_argument("--jobs", action="store_true", help="also one line per job and pair")
    parser.add_argument("--out", type=pathlib.Path, help="Figure 6 of the first job in which all ways flag something")
    args = parser.parse_args()
    series = sorted(args.dir.glob("*.h5"))
    runs = {path.parent.name: path for path in sorted(args.dir.glob("*/job")) if "." not in path.parent.name}
    if not series and not runs:
        sys.exit(f"{args.dir}: neither *.h5 nor */job/")
    with tempfile.TemporaryDirectory() as folder:
        if args.tile > 1:
            series = longer(series, args.tile, pathlib.Path(folder))
        jobs = {}
        for name, path in ({path.stem: path for path in series} | runs).items():
            jobs |= read(args.build, name, path)
    print("| flagged by | pair | jobs | IoU mean | median | std | byCount mean | median | std | byLength mean | median "
          "| std |")
    print("|" + "---|" * 12)
    for way in WAYS:
        for a, b in PAIRS:
            both = {name: (of[way][a], of[way][b]) for name, of in jobs.items() if of[way][a] and of[way][b]}
            values = np.array([agreement(*pair) for pair in both.values()]).reshape(-1, 3)
            cells = [f"{of(values[:, i]):.2f}" for i in range(3) for of in (np.mean, np.median, np.std)] if both else []
            print(f"| {way} | {a} - {b} | {len(both)} | " + " | ".join(cells or ["-"] * 9) + " |")
            if args.jobs:
                for name, row in zip(both, values):
                    print(f"{way}\t{a} - {b}\t{name}\t" + "\t".join(f"{value:.2f}" for value in row))
    if args.out:
        whole = {name: of for name, of in jobs.items() if all(all(each.values()) for each in of.values())}
        name = next(iter(whole or jobs))
        args.out.write_text(svg(name, jobs[name]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
