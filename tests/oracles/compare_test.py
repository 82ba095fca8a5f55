#!/usr/bin/python3
"""`reveal compare` against scipy: Welch's interval of random run times, and Student's where one side has a single run."""
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import check, end, program, skip  # noqa: E402

reveal = program("reveal")
try:
    import numpy as np
    from scipy import stats
except ImportError as missing:
    skip(f"{missing} (package python3-scipy)")

begin = datetime.datetime(2026, 11, 20, 10, tzinfo=datetime.timezone.utc)


def make_run(directory, number, seconds):
    start = begin + datetime.timedelta(hours=number)
    time = lambda t: t.strftime("%Y-%m-%dT%H:%M:%SZ")  # noqa: E731
    report = {"schema": "reveal.report/1", "verdict": {"status": "healthy", "sentence": ""},
              "job": {"command": "solver", "nodes": ["n01"], "begin": time(start), "exit_code": 0,
                      "end": time(start + datetime.timedelta(seconds=100)), "ran_seconds": seconds}}
    path = pathlib.Path(directory, f"run{number}")
    path.mkdir()
    (path / "report.json").write_text(json.dumps(report))
    return str(path)


def expected(before, after):
    difference = after.mean() - before.mean()
    if len(before) > 1 and len(after) > 1:
        a, b = before.var(ddof=1) / len(before), after.var(ddof=1) / len(after)
        df = (a + b) ** 2 / (a**2 / (len(before) - 1) + b**2 / (len(after) - 1))
        error = np.sqrt(a + b)
        p = stats.ttest_ind(after, before, equal_var=False).pvalue
    else:
        df = len(before) + len(after) - 2
        squares = ((before - before.mean()) ** 2).sum() + ((after - after.mean()) ** 2).sum()
        error = np.sqrt(squares / df * (1 / len(before) + 1 / len(after)))
        p = 2 * stats.t.sf(abs(difference) / error, df)
    reach = stats.t.ppf(0.975, df) * error
    return {"difference": difference, "low": difference - reach, "high": difference + reach, "p": p, "df": df}


def compare(directory, rng, sizes, gap):
    number = len(list(pathlib.Path(directory).iterdir()))
    before = np.round(rng.normal(100, 4, sizes[0]), 3)
    after = np.round(rng.normal(100 + gap, 8, sizes[1]), 3)
    sides = []
    for values in (before, after):
        sides.append([make_run(directory, number := number + 1, float(value)) for value in values])
    done = subprocess.run([reveal, "compare", "--json", "--before", *sides[0], "--after", *sides[1]],
                          capture_output=True, text=True, env={**os.environ, "XDG_STATE_HOME": directory + "/none"})
    result = json.loads(done.stdout)
    wanted = expected(before, after)
    for key, value in wanted.items():
        got = result["run_time"]["interval"][key]
        check(abs(got - value) <= 6e-4 * max(abs(value), 1e-3), f"{sizes} {key}: {got}, scipy {value}")
    change = "same" if wanted["p"] >= 0.05 else "slower" if wanted["difference"] > 0 else "faster"
    check((result["change"], done.returncode) == (change, 1 if change == "slower" else 0),
          f"{sizes}: {result['change']}, exit status {done.returncode}; scipy: {change}")


with tempfile.TemporaryDirectory() as folder:
    random = np.random.default_rng(7)
    for sizes in ((2, 2), (3, 5), (5, 3), (10, 10), (1, 4), (6, 1)):
        for gap in (0, 15, -40):
            compare(folder, random, sizes, gap)
end()
