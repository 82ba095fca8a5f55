#!/usr/bin/python3
"""Reads all traces below some folders, and looks for the rows that were flushed before a fault.

    flushed_rows.py [--damaged N] HITS FOLDER...

A line of HITS is a process of a collector that a fault ended or stopped (bench/slurm_faults.sh writes them): seconds
since the boot at that moment, and when the process began; its job; its node. The rows of its trace must reach to ten
seconds before, the time between two flushes, unless the trace was closed. Exit status 1: more than N traces (those that
faults damaged or removed) cannot be read, or lack such rows."""
import argparse
import dataclasses
import multiprocessing
import pathlib
import re
import sys
import time

import h5py
import numpy

FLUSH = 10  # seconds
LATE = 2  # on a busy machine
FIRST_ROW = 5  # after the start of the process, at the latest
READING = 20  # of one trace; HDF5 waits ever longer for the rest of a file that was cut off while it was written
WRITTEN_LIVE = 4  # flag in the twelfth byte of the superblock (SWMR): what was flushed since then can be read


@dataclasses.dataclass
class Trace:
    path: pathlib.Path
    complete: bool
    first: float  # seconds since the boot; infinite without a row
    last: float


def is_live(path: pathlib.Path) -> bool:
    with open(path, "rb") as file:
        head = file.read(12)
    return len(head) == 12 and bool(head[11] & WRITTEN_LIVE)


def read(path: pathlib.Path) -> Trace:
    suspended = time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
    with h5py.File(path, "r", libver="latest", swmr=is_live(path)) as file:
        file.visititems(lambda _, item: item[()] is None if isinstance(item, h5py.Dataset) and item.size else None)
        rows = numpy.concatenate([[0], *(axis[:] for name, axis in file.items() if name.startswith("time_"))])
        rows = rows[rows > 0] / 1e9 + suspended
        first, last = (rows.min(), rows.max()) if len(rows) else (float("inf"), float("inf"))
        return Trace(path, bool(file.attrs["complete"]), first, last)


def send(path: pathlib.Path, answer):
    try:
        answer.send(read(path))
    except (OSError, RuntimeError, KeyError, ValueError) as error:  # h5py has all of these for damaged files
        answer.send(str(error))


def read_in_child(path: pathlib.Path) -> Trace | str:
    """The trace, or why it cannot be read."""
    answer, sender = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.Process(target=send, args=(path, sender))
    child.start()
    sender.close()
    try:
        return answer.recv() if answer.poll(READING) else f"is not read within {READING} s"
    except EOFError:
        return "the reader crashed"
    finally:
        child.kill()
        child.join()


def traces_below(folders) -> tuple[list[Trace], int, int]:
    """Those that were read, how many cannot be, and how many were left before their first row could be flushed."""
    traces, unreadable, without_rows = [], 0, 0
    for path in sorted(path for folder in folders for path in pathlib.Path(folder).rglob("*.h5*")):
        if not path.is_file() or not path.name.endswith((".h5", ".h5.part", ".h5.earlier")):
            continue
        trace = read_in_child(path)
        if isinstance(trace, Trace):
            traces.append(trace)
        elif path.suffix == ".part" and not is_live(path):
            without_rows += 1
        else:
            unreadable += 1
            print(f"{path}: {trace}")
    return traces, unreadable, without_rows


def is_of(trace: Trace, job: str, node: str) -> bool:
    """A trace is NODE.h5 in a folder whose name has the number of the job."""
    folders = "/".join(trace.path.parts[:-1])
    return trace.path.name.split(".h5")[0] == node and re.search(rf"(?<![0-9]){job}(?![0-9])", folders) is not None


def lost_rows(hits, traces) -> tuple[int, int]:
    """How many recordings were cut off by a fault, and how many of them lack rows that were flushed before."""
    judged, lost = set(), 0
    for when, began, job, node in hits:
        run = max((trace for trace in traces if is_of(trace, job, node) and trace.first <= when),
                  key=lambda trace: trace.first, default=None)
        if (job, node, run and run.path) in judged:  # an earlier fault cut it off
            continue
        judged.add((job, node, run and run.path))
        due = when - FLUSH - LATE
        if run is None and began + FIRST_ROW <= due:
            lost += 1
            print(f"job {job} on {node}: no trace, although it was recorded for {when - began:.1f} s before a fault")
        elif run is not None and not run.complete and run.first <= due and run.last < due:
            lost += 1
            print(f"{run.path}: the last row is {when - run.last:.1f} s older than the fault")
    return len(judged), lost


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--damaged", type=int, default=0)
    parser.add_argument("hits")
    parser.add_argument("folders", nargs="+")
    arguments = parser.parse_args()
    lines = [line.split() for line in open(arguments.hits)]
    hits = sorted((float(when), float(began), job, node) for when, began, job, node in lines)
    traces, unreadable, without_rows = traces_below(arguments.folders)
    judged, lost = lost_rows(hits, traces)
    print(f"traces read {len(traces)}, unreadable {unreadable}, left before their first row {without_rows}; recordings "
          f"that a fault met {judged}, without rows that were flushed before it {lost}")
    sys.exit(unreadable + lost > arguments.damaged)


if __name__ == "__main__":
    main()
