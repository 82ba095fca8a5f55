#!/usr/bin/python3
"""The comparison of repeated runs: distances worked out by hand, and the verdicts on series made to deserve them."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import SOURCE, skip  # noqa: E402

sys.path.insert(0, str(SOURCE / "bench/detection"))
try:
    import numpy as np
    from trajectories import compare, dtw
except ImportError as missing:
    skip(missing)

array = lambda *values: np.array(values, dtype=float)
# Warped onto each other without a difference; one value off by 3; too far apart for the band.
assert dtw(array(0, 1, 2, 2), array(0, 0, 1, 2), 1) == 0
assert dtw(array(0, 0, 0, 0), array(0, 0, 3, 0), 1) == 3 / 4
assert dtw(array(1, 0, 0, 0, 0, 0), array(0, 0, 0, 0, 0, 1), 1) == 2 / 6

random = np.random.default_rng(3)
t = np.arange(60)
course = {"a": 10 * np.exp(-((t - 15) / 6.0) ** 2), "b": 10 * np.exp(-((t - 42) / 6.0) ** 2)}
workloads = {name: [{"course": course[name] + random.normal(size=60), "common": course["a"] + random.normal(size=60),
                     "noise": random.normal(size=60), "constant": np.ones(60)} for _ in range(12)] for name in course}
for name, rows in compare(workloads).items():
    of = {row["channel"]: row for row in rows}
    assert "constant" not in of, "a channel that never changes has no course"
    assert all(row["nothing"] for row in rows), "against nothing, everything is significant"
    assert of["course"]["chance"] and of["course"]["others"], of
    assert not of["noise"]["others"] and not of["common"]["others"], of
    assert of["common"]["chance"], of
    assert of["course"]["distance"] < of["noise"]["distance"], of
print("distances and verdicts are as worked out")
