#!/usr/bin/env python3
"""Calls, bytes and errors in the trace of stack.sh, against what its program did, and how they were counted."""
import pathlib
import sys

import h5py

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lab"))
from steps import counted  # noqa: E402

failures = 0


def check(what, passed):
    global failures
    failures += not passed
    print("ok:" if passed else "FAILED:", what)


with h5py.File(f"{sys.argv[1]}/counted/guest.h5") as trace:
    way = next((row["value"].decode() for row in trace["node/begin"][:] if row["key"] == b"stack.way"), "none")
    check(f"the way: {way}", way.startswith("perf uprobe"))
    for metric, family, expected in (
            ("stack.calls", "stack/calls", {"ncclAllReduce": 1000, "cudaMalloc": 30}),
            ("stack.bytes", "stack/bytes", {"ncclAllReduce": 1000 * 512 * 4, "cudaMalloc": 30 * 4096}),
            ("stack.errors", "stack/errors", {"ncclAllReduce": 10, "cudaMalloc": 0})):
        found = {instance.split("/")[-1]: total for instance, total in counted(trace, metric, family)}
        check(f"{metric}: {found}", found == expected)
    state, reason = next((row["state"].decode(), row["reason"].decode()) for row in trace["coverage"][:]
                         if row["probe"] == b"stack")
    check(f"coverage: {state} {reason}", state == "ok")
sys.exit(failures > 0)
