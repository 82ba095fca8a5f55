#!/usr/bin/python3
"""Recordings of the laboratory: the report names the rule and the node of each fault, in its interval, and finds nothing
in a look-alike. They were kept because that was right when they were recorded (tests/lab/keep.py)."""
import os
import pathlib
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[0]), str(HERE.parents[1] / "bench/detection")]
from harness import BUILD, SOURCE, check, end, fail, program  # noqa: E402
from lab import judge  # noqa: E402

RECORDINGS = sorted((SOURCE / "tests/data/traces/lab").glob("*.tar.xz"))
LEAST_IOU = 0.5


def explain(name: str, result: dict):
    truth = result["truth"]
    if truth["rule"] is None:
        check(result["findings"] == 0, f"{name}: a look-alike has findings: {result['rules']}")
        return
    check(result["rule"], f"{name}: first is {result['first']}, not {truth['rule']}")
    check(result["node"] or not result["choice"], f"{name}: the first finding is on another node")
    check(result["iou"] >= LEAST_IOU, f"{name}: the interval overlaps by {result['iou']}")


def main():
    program("reveal")
    check(RECORDINGS, "there are no recordings")
    with tempfile.TemporaryDirectory() as scratch:
        os.environ |= {"HOME": scratch, "XDG_STATE_HOME": f"{scratch}/state", "XDG_CONFIG_HOME": f"{scratch}/config"}
        for recording in RECORDINGS:
            name = recording.name.removesuffix(".tar.xz")
            folder = pathlib.Path(scratch) / name
            with tarfile.open(recording) as archive:
                archive.extractall(folder)
            result = judge(BUILD, folder)
            if "error" in result:
                fail(f"{name}: {result['error']}")
            else:
                explain(name, result)
    end()


main()
