#!/usr/bin/python3
"""Holds the training steps in the traces of laboratory jobs against those that the jobs logged.

  steps.py OUT/none-mlp-train-1                               counted steps, of a job of scenario.py --stack
  steps.py --estimated RUN-OR-FOLDER... [--build BUILD]       estimated iterations, of jobs without --stack

Counted: exit status 1 where the counts differ. A step that was not listed is no difference: the report says how many.

Estimated: the report's time of an iteration (that of --build, else the one that is there) against the median time of the
steps that rank 0 logged; the number is the measured time divided by it. No iteration of less than half a second is
estimated: of shorter steps, the epochs are compared. Runs with longer steps are recorded with, for example,
  scenario.py healthy --workload accelerator-train --seconds 90 --runs 5 --options='--accelerator 800' --out OUT"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

SHORTEST = 0.5  # seconds: estimated_iterations.h


def counted(trace, metric, family="stack/calls"):
    """By instance: the first absolute value that is known, and all increases."""
    rows, values, base = trace[f"{family}_channels"], trace[family], trace[f"{family}_base"]
    for row, (name, instance) in enumerate(zip(rows["metric"].asstr()[:], rows["instance"].asstr()[:])):
        if name == metric:
            line, begins = values[row, :], base[row, :]
            yield instance, int(begins[begins != base.fillvalue][0]) + int(line[line != values.fillvalue].sum())


def compare_counted(folder: pathlib.Path) -> int:
    import h5py
    import numpy
    differ = 0
    for path in sorted((folder / "job").glob("*.h5")):
        with h5py.File(path) as trace:
            totals, table = dict(counted(trace, "stack.steps")), trace["steps"][:]
        for rank, total in totals.items():
            logged = numpy.array(json.loads((folder / f"steps.{path.stem.removeprefix('node')}").read_text()))  # one each
            rows = table[table["rank"] == rank.encode()]
            missed = len(logged) - total
            differ += missed != 0
            print(f"{path.stem} {rank}: {total} counted, {len(logged)} logged, {len(rows)} listed")
            if missed < 0 or not len(rows):
                continue
            # Those that were made before the first one that was seen are the first ones.
            place = rows["number"] - 1 + missed
            late = (rows["begin_ns"] - logged[place]) / 1e3
            known = (rows["duration_ns"] >= 0) & (place + 1 < len(logged))
            error = numpy.abs(rows["duration_ns"][known] - numpy.diff(logged)[place[known]]) / 1e3
            print(f"  begin {numpy.median(late):.1f} us (median) and {numpy.max(late):.0f} us (most) behind the call; error of "
                  f"durations {numpy.median(error):.1f} us (median), {numpy.percentile(error, 99):.0f} us (99 %), "
                  f"of {numpy.median(rows['duration_ns'][known]) / 1e6:.2f} ms")
    return 1 if differ else 0


def logged_iterations(run: pathlib.Path) -> tuple[str, int, float] | None:
    """Of rank 0: their kind, number and median seconds. Nothing where it logged none."""
    phases = [json.loads(line) for line in (run / "phases.jsonl").read_text().splitlines()]
    epochs = [phase for phase in phases if phase["rank"] == 0 and phase.get("steps")]
    if not epochs:
        return None
    steps = statistics.median((epoch["end_utc_ns"] - epoch["begin_utc_ns"]) / epoch["steps"] for epoch in epochs) / 1e9
    if steps >= SHORTEST:
        return "steps", sum(epoch["steps"] for epoch in epochs), steps
    begins = [epoch["begin_utc_ns"] for epoch in epochs]
    times = [(later - begin) / 1e9 for begin, later in zip(begins, begins[1:])]
    return ("epochs", len(epochs), statistics.median(times)) if times else None


def compare_estimated(runs: list[pathlib.Path], build: pathlib.Path | None):
    errors, compared = [], 0
    for run in runs:
        if (logged := logged_iterations(run)) is None:
            print(f"{run.name}: it logged no iterations")
            continue
        if build:
            subprocess.run([build / "bin/reveal", "report", run / "job", "--no-history"], check=True, stdout=subprocess.DEVNULL)
        totals = json.loads((run / "job/report.json").read_text())["totals"][0]
        kind, number, seconds = logged
        said, compared = f"{run.name}: logged {number} {kind} of {seconds:.3f} s; ", compared + 1
        if (estimate := totals.get("iteration_seconds")) is None:
            print(said + f"not estimated: {totals.get('iteration_seconds_reason', 'the report is an older one')}")
            continue
        period, count = estimate / seconds - 1, totals["seconds"] / estimate / number - 1
        errors.append((abs(period), abs(count)))
        print(said + f"estimated {totals['seconds'] / estimate:.1f} of {estimate:.3f} s: period {period:+.1%}, number {count:+.1%}")
    print(f"{compared} runs, {len(errors)} of them with an estimate" + (": median error of the period {:.1%}, of the number "
          "{:.1%}".format(*map(statistics.median, zip(*errors))) if errors else ""))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--estimated", action="store_true")
    parser.add_argument("--build", type=pathlib.Path)
    args = parser.parse_args()
    if not args.estimated:
        return max(map(compare_counted, args.folders))
    is_run = lambda folder: (folder / "phases.jsonl").exists() and (args.build or (folder / "job/report.json").exists())
    compare_estimated([run for folder in args.folders for run in ([folder] if is_run(folder) else
                                                                  sorted(filter(is_run, folder.iterdir())))], args.build)
    return 0


if __name__ == "__main__":
    sys.exit(main())
