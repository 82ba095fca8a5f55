#!/usr/bin/env python3
"""The table of a guest's jobs, from their reports and from the times at which the faults truly began and ended.

  table.py DIR/result

`rule first` is the first one of those that the guest tests; node, interval and runner-up are those of its finding. The
guest itself decided whether a job passed (first_process.sh). A rule that tells a state of the whole job has an interval
longer than a fault that began within it."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/detection"))
from lab import FINDINGS, overlap, table  # noqa: E402

HEAD = ["job", "expected", "rule first", "right", "node", "as finding", "IoU", "onset error s", "runner-up"]


def row(result: pathlib.Path, name: str, expected: str, tested: list[str]) -> list:
    path = next((path for path in (result / name, result / "jobs" / name) if (path / "report.json").exists()), None)
    if path is None:
        return [name, expected, "no report", "no", *["-"] * (len(HEAD) - 4)]
    report = json.loads((path / "report.json").read_text())
    found = [finding for finding in report["findings"] if finding["id"] in tested]
    if report["verdict"]["status"] == "insufficient_data":
        return [name, expected, "too few samples", "no", *["-"] * (len(HEAD) - 4)]
    if not found:
        return [name, expected, "-", "yes" if expected == "-" else "no", *["-"] * (len(HEAD) - 4)]
    first = found[0]
    times = [float(word) for word in (result / f"{name}.fault").read_text().split()]
    iou, onset = overlap(first, {"begin_utc_ns": min(times) * 1e9, "end_utc_ns": max(times) * 1e9})
    return [name, expected, first["id"], "yes" if first["id"] == expected else "no", ",".join(first["nodes"]),
            "yes" if first["severity"] in FINDINGS else "no", f"{iou:.2f}", "-" if onset is None else f"{onset:.1f}",
            (first.get("runner_up") or {}).get("id") or "-"]


def main():
    result = pathlib.Path(sys.argv[1])
    lines = (line.split() for line in (result / "judged").read_text().splitlines())
    table([HEAD, *(row(result, name, expected, tested.split("|")) for name, expected, tested in lines)])


main()
