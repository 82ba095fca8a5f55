#!/usr/bin/python3
"""What pruning after section 4.1 of the paper leaves, spares and costs.

  pruning.py figure PATH... --build BUILD [--out figure4.svg]   the curves of Figure 4 over job directories or series
  pruning.py bytes RECORDING... --build BUILD [--keep DIR]      stored with and without `reveal-collect --metrics`
  pruning.py quality DIR --build BUILD                          AP of windows with and without, on labelled series

A RECORDING is what `reveal-collect --record DIR` made: it is collected again from there, so that both traces saw the
same host. The metrics are what `reveal prune` keeps of the whole traces together, once with and once without
--only-moving. DIR holds labelled series as hosts.py or jobs.py read them; the pruned ones are the same files with the
retained channels only, and the paper's pipeline prunes by itself. Which windows are positive and which are left out is
as in hosts.py; in jobs, with ten samples of the event and with fewer."""
import argparse
import csv
import io
import pathlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass

import h5py
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
import hosts  # noqa: E402

BEGINNING = 20  # seconds, of which the size is taken off
CURVES = {"multi_r2": ("mean multi-R²", "#d4a017"), "max_r": ("mean max |r|", "#3465a4"),
          "retained": ("selected ratio, one workload", "#2e8b57"), "union": ("selected ratio, union", "#8fbc8f")}


def output_of(*words) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{words[0]}: {done.stderr.strip()}")
    return done.stdout


def table(head: list[str], rows: list[list[str]]):
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def svg(curves: dict[str, list[tuple[float, float]]]) -> str:
    left, top, width, height = 60, 20, 560, 320
    x, y = lambda r: left + width * (r - 0.1) / 0.85, lambda v: top + height * (1 - v)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 20} {top + height + 110}" '
             'font-family="sans-serif" font-size="12">']
    for tick in range(0, 11, 2):
        lines.append(f'<path d="M{left} {y(tick / 10):.1f}h{width}" stroke="#ddd"/>'
                     f'<text x="{left - 8}" y="{y(tick / 10) + 4:.1f}" text-anchor="end">{tick / 10:.1f}</text>')
    for tick in range(1, 10):
        lines.append(f'<text x="{x(tick / 10):.1f}" y="{top + height + 18}" text-anchor="middle">{tick / 10:.1f}'
                     '</text>')
    lines.append(f'<path d="M{x(0.5):.1f} {top}v{height}" stroke="#888" stroke-dasharray="4"/>'
                 f'<text x="{left + width / 2}" y="{top + height + 36}" text-anchor="middle">threshold |r|</text>')
    for number, (name, points) in enumerate(curves.items()):
        label, colour = CURVES[name]
        path = " ".join(f"{x(r):.1f},{y(v):.1f}" for r, v in points)
        down = top + height + 56 + 14 * number
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
                     f'<path d="M{left} {down - 4}h24" stroke="{colour}" stroke-width="2"/>'
                     f'<text x="{left + 32}" y="{down}">{label}</text>')
    return "\n".join([*lines, "</svg>", ""])


def figure(args):
    rows = list(csv.DictReader(io.StringIO(output_of(args.build / "bin/pruning_bench", *args.paths))))
    means = [row for row in rows if row["workload"] == "mean"]
    table(["threshold", *(label for label, _ in CURVES.values())],
          [[row["threshold"], *(f"{float(row[name]):.2f}" for name in CURVES)] for row in means])
    half = next(row for row in means if row["threshold"] == "0.50")
    alone = [1 - float(row["retained"]) for row in rows if row["workload"] != "mean"]
    print(f"\nremoved at |r| = .5: {100 * np.mean(alone):.0f} % (± {100 * np.std(alone):.0f}, {len(alone)} workloads), "
          f"{100 * (1 - float(half['union'])):.0f} % of their union")
    if args.out:
        args.out.write_text(svg({name: [(float(row["threshold"]), float(row[name])) for row in means
                                        if row[name] != "nan"] for name in CURVES}))


@dataclass
class Stored:
    size: int
    per_second: float  # beyond the first seconds: a trace has a table for every family, however little is recorded
    channels: int

    def cells(self, whole: "Stored | None" = None) -> list[str]:
        of = lambda mine, theirs: f" ({100 * mine / theirs:.0f} %)" if whole else ""
        return [f"{self.size}" + of(self.size, whole and whole.size),
                f"{self.per_second:.0f}" + of(self.per_second, whole and whole.per_second), f"{self.channels}"]


def collected(args, folder: pathlib.Path, recording: pathlib.Path, name: str, *more: str) -> Stored:
    """A trace made from the recording, and its beginning alone."""
    start, _ = trace_of(args, folder, recording, f"{name}/start", "--duration", f"{BEGINNING}s", *more)
    size, said = trace_of(args, folder, recording, name, *more)
    ticks, channels = (int(said.split(f" {word}")[0].split()[-1]) for word in ("ticks", "channels"))
    return Stored(size, (size - start) / (ticks / 10 - BEGINNING), channels)


def trace_of(args, folder: pathlib.Path, recording: pathlib.Path, name: str, *more: str) -> tuple[int, str]:
    """Bytes, and what the collector says."""
    trace = folder / name / f"{recording.name}.h5"
    trace.parent.mkdir(parents=True, exist_ok=True)
    if trace.exists():
        trace.unlink()
    said = output_of(args.build / "bin/reveal-collect", "--root", recording, "--node", recording.name, "--output",
                     trace, "--verbose", *more)
    return trace.stat().st_size, said


def bytes_of(args):
    with tempfile.TemporaryDirectory() as scratch:
        folder, rows = args.keep or pathlib.Path(scratch), []
        whole = {recording: collected(args, folder, recording, f"all/{recording.name}") for recording in args.paths}
        for name, more in {"kept.metrics": [], "moving.metrics": ["--only-moving"]}.items():
            output_of(args.build / "bin/reveal", "prune", *(folder / "all" / r.name for r in whole), "--out",
                      folder / name, *more)
        for recording, everything in whole.items():
            row = [recording.name, *everything.cells()]
            for name in ("kept", "moving"):
                less = collected(args, folder, recording, name, "--metrics", str(folder / f"{name}.metrics"))
                row += less.cells(everything)
            rows.append(row)
    head = [f"{what}{unit}" for what in ("", "pruned ", "--only-moving ") for unit in ("bytes", "bytes/s", "channels")]
    table(["recording", *head], rows)


def write_pruned(path: pathlib.Path, names: list[str], out: pathlib.Path) -> int:
    """Returns how many channels there were."""
    with h5py.File(path) as whole, h5py.File(out, "w") as pruned:
        wanted = set(names)
        keep = [i for i, c in enumerate(whole["channels"].asstr()[:]) if c in wanted]
        pruned["values"] = whole["values"][()][:, keep]
        for key in ("channels", "kind", "subsystem"):
            if key in whole:
                pruned[key] = whole[key][()][keep]
        pruned.attrs["interval_seconds"] = whole.attrs["interval_seconds"]
        return len(whole["channels"])


def is_labelled(path: pathlib.Path) -> bool:
    with h5py.File(path) as file:
        return "event_offset" in file["truth"] or int(file["truth/event_begin"][()]) >= 0


def windows_of(path: pathlib.Path, begins: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which windows are positive, and which touch an event at all."""
    with h5py.File(path) as file:
        if "event_offset" in file["truth"]:
            truth = hosts.Truth(str(path), begins, ends)
            return truth.positive, truth.touches
        begin, end = int(file["truth/event_begin"][()]), int(file["truth/event_end"][()])
    covered = np.minimum(ends, end) - np.maximum(begins, begin)
    return covered >= 10, covered > 0


def precision_of(args, way: str, series: pathlib.Path, labelled: pathlib.Path) -> float:
    with h5py.File(series) as file:
        interval = float(file.attrs["interval_seconds"])
    rows = list(csv.DictReader(io.StringIO(output_of(args.build / "bin/window_scores_bench", way, series,
                                                     hosts.WINDOW * interval, hosts.STRIDE * interval))))
    begins, ends = (np.array([round(float(row[key]) / interval) for row in rows]) for key in ("begin", "end"))
    positive, touches = windows_of(labelled, begins, ends)
    counted = positive | ~touches
    return hosts.average_precision(positive[counted], np.array([float(row["score"]) for row in rows])[counted])


def precisions(args, path: pathlib.Path, pruned: pathlib.Path) -> list[float]:
    return [precision_of(args, way, series, path)
            for way, series in (("unpruned", path), ("paper", path), ("reveal", path), ("reveal", pruned))]


def quality(args):
    rows, values = [], []
    with tempfile.TemporaryDirectory() as scratch:
        for path in sorted(args.dir.glob("*.h5")):
            if not is_labelled(path):
                continue
            names = output_of(args.build / "bin/pruning_bench", "--retained", path).splitlines()
            pruned = pathlib.Path(scratch) / path.name
            channels = write_pruned(path, names, pruned)
            values.append(precisions(args, path, pruned))
            rows.append([path.stem, str(channels), str(len(names)), *(f"{value:.3f}" for value in values[-1])])
            print("pruning: " + " ".join(rows[-1]), file=sys.stderr, flush=True)
    groups = sorted({row[0].split("-")[0] if "-" in row[0] else "jobs" for row in rows})
    for group in groups:
        of = np.array([v for row, v in zip(rows, values) if group == "jobs" or row[0].split("-")[0] == group])
        rows.append([f"{group} ({len(of)})", "", "", *(f"{m:.3f} ± {s:.2f}" for m, s in zip(of.mean(0), of.std(0)))])
    table(["series", "channels", "retained", "AP paper, all", "paper, pruned", "reveal, all", "reveal, pruned"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for name, run in {"figure": figure, "bytes": bytes_of, "quality": quality}.items():
        command = commands.add_parser(name)
        command.set_defaults(run=run)
        command.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/gcc"))
        if name == "quality":
            command.add_argument("dir", type=pathlib.Path)
        else:
            command.add_argument("paths", type=pathlib.Path, nargs="+")
        if name == "figure":
            command.add_argument("--out", type=pathlib.Path)
        if name == "bytes":
            command.add_argument("--keep", type=pathlib.Path)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
