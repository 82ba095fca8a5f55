#!/usr/bin/python3
"""Holds the training steps in the traces of a laboratory job (scenario.py --stack) against those that its ranks logged:

  steps.py OUT/none-mlp-train-1

Exit status 1 where the counts differ. A step that was not listed is no difference: the report says how many."""
import json
import pathlib
import sys

import h5py
import numpy


def counted(trace, metric):
    """By instance: the first absolute value that is known, and all increases."""
    rows, values, base = trace["stack/calls_channels"], trace["stack/calls"], trace["stack/calls_base"]
    for row, (name, instance) in enumerate(zip(rows["metric"].asstr()[:], rows["instance"].asstr()[:])):
        if name == metric:
            line, begins = values[row, :], base[row, :]
            yield instance, int(begins[begins != base.fillvalue][0]) + int(line[line != values.fillvalue].sum())


def main():
    folder, differ = pathlib.Path(sys.argv[1]), 0
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


if __name__ == "__main__":
    sys.exit(main())
