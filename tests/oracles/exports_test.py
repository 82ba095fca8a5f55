#!/usr/bin/python3
"""Every export of one job of two nodes, read by readers that are not ours, and compared with the trace or the report.

Prints a table: the export, its reader, and what was read back and compared. The cells of the notebook in bench/ run here,
too, on the same job."""
import io
import json
import math
import os
import pathlib
import re
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import SOURCE, check, end, program, skip  # noqa: E402

sys.path.insert(0, str(SOURCE / "hdf5schema/python"))
try:
    import h5py
    import numpy
    import pandas
    import reveal
except ImportError as missing:
    skip(f"{missing}; apt-get install python3-h5py python3-pandas")

SECONDS = 14
NOTEBOOK = SOURCE / "bench/notebooks/job.ipynb"
# A program of which the collector can read the main thread: it is in one function all the time.
PYTHON_JOB = "import time\ndef load_batch(end):\n    while time.time() < end:\n        sum(range(100))\n" \
             "load_batch(time.time() + 11)\n"
rows = []


def compared(export, reader, what):
    rows.append((export, reader, what))


def export(*words):
    done = subprocess.run([program("reveal"), "export", *words], capture_output=True, text=True, check=False)
    check(done.returncode == 0, f"reveal export {' '.join(map(str, words))}: {done.returncode} {done.stderr[-300:]}")
    return done.stdout


def record(folder):
    """Two nodes at the same time: the second one does not measure the disks."""
    (folder / "job").mkdir()
    collectors = [subprocess.Popen([program("reveal-collect"), "--output", folder / f"job/{node}.h5", "--node", node, "--job",
                                    f"pid:{os.getpid()}", "--duration", f"{SECONDS}s", *more])
                  for node, more in (("n01", []), ("n02", ["--probes", "cpu,memory"]))]
    (folder / "job.py").write_text(PYTHON_JOB)
    stack = subprocess.run([program("reveal-run"), "--stack", "--quiet", "--no-report", "--no-history", "--node", "n01",
                            "--output", folder / "python", "--", sys.executable, folder / "job.py"],
                           capture_output=True, text=True, check=False)
    check(all([one.wait() == 0 for one in collectors]), "two collectors")
    report = subprocess.run([program("reveal"), "report", "--no-history", folder / "job"], capture_output=True, text=True,
                            check=False)
    check(report.returncode == 0, f"reveal report: {report.stderr[-300:]}")
    return stack.returncode == 0


def raw(path, group, metric):
    """Values and times (UTC, ns) of a channel, as they lie in the file."""
    with h5py.File(path) as trace:
        family = trace[group]
        row = list(family.dims[0]["metric"].asstr()[:]).index(metric)
        monotonic, utc, _ = trace["clock"][0]
        times = trace["memory/" + family.attrs["time"].decode().split("/")[-1]][:] - monotonic + utc
        values = family[row, :]
        known = values != family.fillvalue
        return values[known], times[known]


def read_csv(job):
    table = pandas.read_csv(io.StringIO(export(job, "--format", "csv", "--metrics", "mem.*,cpu.user,disk.*")),
                            index_col=["node", "time"], parse_dates=["time"])
    check(list(table.index.unique("node")) == ["n01", "n02"], f"nodes: {table.index.unique('node')}")
    seconds = len(table.loc["n02"]) * 0.1
    check(SECONDS - 2 < seconds < SECONDS + 1, f"{seconds} s of rows")
    disks = [name for name in table if name.startswith("disk.")]
    check(disks and table.loc["n02", disks].isna().all(axis=None) and table.loc["n01", disks].notna().any(axis=None),
          "n02 has no disks, and empty columns for them")
    for node in ("n01", "n02"):
        values, _ = raw(job / f"{node}.h5", "memory/meminfo", "mem.available")
        ours = table.loc[node, "mem.available [bytes]"].dropna()
        check(ours.iloc[-1] == values[-1] and set(ours) <= set(values.astype(float)), f"{node}: mem.available")
    compared("csv", "pandas", f"{len(table)} rows and {len(table.columns)} columns of 2 nodes; mem.available = the "
             "file's values by h5py; columns that a node lacks are empty")
    frame = reveal.job(job, "mem.available", "cpu.user")
    check(list(frame.index.unique("node")) == ["n01", "n02"] and frame.attrs["units"]["cpu.user"] == "s/s", "reveal.job()")
    for node in ("n01", "n02"):
        level = frame.loc[node]["mem.available", ""].dropna()
        check(set(table.loc[node, "mem.available [bytes]"].dropna()) <= set(level), f"{node}: reveal.job() and the table")
        busy = frame.loc[node]["cpu.user"].sum(axis=1, min_count=1).mean()
        columns = [name for name in table if name.startswith("cpu.user/")]
        told = table.loc[node, columns].sum(axis=1, min_count=1).mean() * 1e-9 / 0.1
        check(abs(busy - told) < 0.05 * told + 0.02, f"{node}: {busy} cpus by reveal.py, {told} in the table")
    compared("h5", "reveal.py", f"{len(frame)} rows of 2 nodes; levels and cpu time = those of the csv")


def read_windows(job):
    table = pandas.read_csv(io.StringIO(export(job, "--format", "windows", "--node", "n01", "--metrics", "mem.available")),
                            parse_dates=["begin", "end"])
    schema = json.loads(export(job, "--format", "windows", "--node", "n01", "--metrics", "mem.available", "--schema"))
    check([one["name"] for one in schema["tableSchema"]["columns"]] == list(table), "the schema names each column")
    length = (table["end"] - table["begin"]).dt.total_seconds()
    check(set(length) == {3.0} and len(table) >= SECONDS - 6, f"{len(table)} windows of {set(length)} s")
    values, times = raw(job / "n01.h5", "memory/meminfo", "mem.available")
    first = table.iloc[0]
    inside = [value for value, time in zip(values, pandas.to_datetime(times, utc=True))
              if first["begin"] <= time <= first["end"]]
    mean = first["mem.available:mean"]
    check(min(inside) <= mean <= max(inside), f"mean {mean} of values from {min(inside)} to {max(inside)}")
    compared("windows", "pandas, json", f"{len(table)} windows of 3 s with {len(table.columns)} columns, all in the "
             "schema; the mean of a window within its values in the file")


def read_perfetto(job):
    events = json.loads(export(job, "--format", "perfetto", "--whole-job", "--metrics", "mem.available"))["traceEvents"]
    names = {event["args"]["name"]: event["pid"] for event in events if event["name"] == "process_name"}
    check(set(names) == {"n01", "n02"}, f"processes: {names}")
    points = 0
    for node, number in names.items():
        values, _ = raw(job / f"{node}.h5", "memory/meminfo", "mem.available")
        drawn = [list(event["args"].values())[0] for event in events if event["ph"] == "C" and event["pid"] == number]
        points += len(drawn)
        check(drawn and min(values) * 0.999 <= min(drawn) and max(drawn) <= max(values) * 1.001, f"{node}: {len(drawn)} points")
    compared("perfetto", "json", f"{points} points of 2 processes, between the least and the largest value in the files")


def read_openmetrics(job):
    file = job.parent / "job.prom"
    check(export(job, "--format", "openmetrics", "--textfile", file) == "", "prints beside the file")
    text = file.read_text()
    check(text == export(job, "--format", "openmetrics"), "the file differs from the output")
    check(stat.S_IMODE(file.stat().st_mode) == 0o644, "other users cannot read the file")
    check(sorted(path.name for path in job.parent.glob("*prom*")) == ["job.prom"], "a file is left over")
    check(text.endswith("# EOF\n"), "no end")
    values, typed = {}, set()
    for line in text.splitlines()[:-1]:
        if line.startswith("# TYPE "):
            typed.add(line.split()[2])
        elif not line.startswith("#"):
            name, labels, value = re.fullmatch(r'([a-z_]+)\{((?:[a-z_]+="[^"]*",?)+)\} (\S+)', line).groups()
            check(name in typed, f"{name} before its type")
            values[name] = float(value)
    totals = json.loads((job / "report.json").read_text())["totals"][0]
    pairs = {"reveal_job_cpu_seconds": "cpu_seconds", "reveal_job_memory_peak_bytes": "memory_peak"}
    for metric, key in pairs.items():
        if totals[key] is not None:
            check(math.isclose(values[metric], totals[key], rel_tol=1e-3), f"{metric}: {values[metric]}, {totals[key]}")
    check(values["reveal_job_nodes"] == 2, f"nodes: {values}")
    compared("openmetrics", "a parser by the text format", f"{len(values)} metrics; totals = report.json; the file of "
             "--textfile = the output")


def read_python(folder, measured):
    told = subprocess.run([program("reveal"), "export", folder, "--format", "python"], capture_output=True, text=True,
                          check=False)
    if not measured or "were not measured" in told.stderr:
        compared("python", "pandas", "not compared: this machine does not let main threads be read")
        return
    check(told.returncode == 0, f"--format python: {told.stderr}")
    table = pandas.read_csv(io.StringIO(told.stdout), parse_dates=["time"])
    there = table["place"].fillna("").str.startswith("load_batch (job.py:")
    check(list(table) == ["time", "process", "place"] and there.sum() >= 5 and there.mean() > 0.6, f"places: {table}")
    compared("python", "pandas", f"{len(table)} samples, {there.sum()} of them in the function that the program ran")


def run_notebook(job):
    """Its cells as one program, where the job lies."""
    notebook = json.loads(NOTEBOOK.read_text())
    check(notebook["nbformat"] == 4 and notebook["cells"], "not a notebook")
    check(not any(cell.get("outputs") for cell in notebook["cells"]), "the notebook has outputs of somebody's job")
    code = "\n".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code")
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, cwd=job.parent,
                          check=False, env=os.environ | {"PYTHONPATH": str(SOURCE / "hdf5schema/python"),
                                                         "PATH": f"{pathlib.Path(program('reveal')).parent}:{os.environ['PATH']}",
                                                         "JOB": str(job)})
    check(done.returncode == 0, f"bench/notebooks/job.ipynb: {done.stderr[-800:]}")
    check("n01" in done.stdout and "n02" in done.stdout, f"the notebook prints nothing of the nodes: {done.stdout}")
    compared("all", "bench/notebooks/job.ipynb", "its cells run on this job")


with tempfile.TemporaryDirectory() as name:
    base = pathlib.Path(name)
    python_measured = record(base)
    for read in (read_csv, read_windows, read_perfetto, read_openmetrics):
        read(base / "job")
    read_python(base / "python", python_measured)
    run_notebook(base / "job")
widths = [max(len(row[i]) for row in rows) for i in range(2)]
for row in [("export", "reader", "read back and compared"), *rows]:
    print(f"{row[0]:{widths[0] + 6}}  {row[1]:{widths[1]}}  {row[2]}")
end()
