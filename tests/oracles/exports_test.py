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
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from browser import CHROMIUM, DESKTOP, Browser  # noqa: E402
from harness import NODE_MODULES, SOURCE, check, end, program, skip  # noqa: E402

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


# Features by functions that are not ours, as the features' own tests name them; of 30 samples without a gap.
REFERENCES = {
    "mean": lambda w: w.mean(),
    "standard_deviation": lambda w: w.std(ddof=0),
    "variance": lambda w: w.var(ddof=0),
    "minimum": lambda w: w.min(),
    "maximum": lambda w: w.max(),
    "median": lambda w: w.median(),
    "skewness": lambda w: w.skew(),
    "kurtosis": lambda w: w.kurt(),
    "mean_abs_change": lambda w: w.diff().abs().mean(),
}


def compare_features(table, samples):
    """The features of each window with those of the same time in the csv; the number of compared values."""
    compared_values = 0
    for name in table:
        channel, _, feature = name.rpartition(":")
        if feature not in REFERENCES:
            continue
        [column] = [one for one in samples if one.startswith(f"{channel} [")]
        for row in table.itertuples():
            inside = samples[column][(samples.index >= row.begin) & (samples.index < row.end)]
            if inside.isna().any() or inside.min() == inside.max():
                continue
            told, expected = table.at[row.Index, name], REFERENCES[feature](inside)
            check(math.isclose(told, expected, rel_tol=1e-6, abs_tol=1e-9), f"{name} of {row.begin}: {told}, {expected}")
            compared_values += 1
    return compared_values


def compare_marks(table, report, node):
    """The columns `interval` and `findings` with what the report has in the time of each window."""
    def meets(row, span):
        return pandas.Timestamp(span["begin"]) < row.end and row.begin < pandas.Timestamp(span["end"])

    for row in table.itertuples():
        tiers = {one["tier"] for one in report["episodes"] if one["node"] == node and meets(row, one)}
        clearest = next((tier for tier in ("strong", "weak") if tier in tiers), "none")
        check(row.interval == clearest, f"{row.begin}: {row.interval}, the report has {tiers}")
        rules = [one["id"] for one in report["findings"]
                 if node in one["nodes"] and any(meets(row, span) for span in one["intervals"])]
        told = row.findings.split(";") if isinstance(row.findings, str) else []
        check(told == rules, f"{row.begin}: {told}, the report has {rules}")


def read_windows(job):
    chosen = ["--node", "n01", "--metrics", "mem.available,cpu.user,cpu.context_switches"]
    table = pandas.read_csv(io.StringIO(export(job, "--format", "windows", *chosen)), parse_dates=["begin", "end"])
    schema = json.loads(export(job, "--format", "windows", *chosen, "--schema"))
    columns = {one["name"]: one for one in schema["tableSchema"]["columns"]}
    check(list(columns) == list(table), "the schema names each column")
    kinds = {"double": "fi", "dateTime": "M", "boolean": "iuf", "integer": "iuf", "string": "O"}
    for name, about in columns.items():
        check(table[name].isna().all() or table[name].dtype.kind in kinds[about["datatype"]],
              f"{name} is {table[name].dtype}, {about['datatype']} in the schema")
        check(about["dc:description"], f"{name} has no description")
    [notes] = schema["notes"]
    [node] = notes["nodes"]
    check(node["windows"] == len(table) and node["window_seconds"] == 3 and node["node"] == "n01", f"notes: {notes}")
    both = pandas.read_csv(io.StringIO(export(job, "--format", "windows")), index_col=["node", "begin"])
    check(list(both.index.unique("node")) == ["n01", "n02"] and both.index.is_unique, f"windows of {both.index.unique('node')}")
    check(both.loc["n02"].filter(like="disk.").isna().all(axis=None), "n02 has no disks")
    length = (table["end"] - table["begin"]).dt.total_seconds()
    check(set(length) == {3.0} and len(table) >= SECONDS - 6, f"{len(table)} windows of {set(length)} s")
    samples = pandas.read_csv(io.StringIO(export(job, "--format", "csv", *chosen)), index_col="time", parse_dates=["time"])
    values = compare_features(table, samples)
    check(values > 3 * len(table), f"only {values} features were compared")
    compare_marks(table, json.loads((job / "report.json").read_text()), "n01")
    compared("windows", "pandas, json", f"{len(table)} windows of 3 s of a node; {values} features = those by pandas of the csv; "
             f"intervals and findings = report.json; types of {len(columns)} columns = the schema")


# Fields of an event by its phase, and the values that readers accept:
# https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
NUMBER, WHOLE, TEXT = (int, float), int, str
EVENT_FIELDS = {
    "M": {"name": TEXT, "pid": WHOLE, "args": dict},
    "X": {"name": TEXT, "cat": TEXT, "pid": WHOLE, "tid": WHOLE, "ts": NUMBER, "dur": NUMBER, "args": dict},
    "i": {"name": TEXT, "cat": TEXT, "pid": WHOLE, "tid": WHOLE, "ts": NUMBER, "s": TEXT, "args": dict},
    "C": {"name": TEXT, "pid": WHOLE, "ts": NUMBER, "args": dict},
}
METADATA = {"process_name": ("name", TEXT), "thread_name": ("name", TEXT), "process_sort_index": ("sort_index", WHOLE),
            "thread_sort_index": ("sort_index", WHOLE)}


def check_event(event):
    fields = EVENT_FIELDS.get(event["ph"])
    if not fields or set(event) - {"ph", "tid"} != set(fields) - {"tid"}:
        check(False, f"fields of {event}")
        return
    for field, kind in fields.items():
        check(isinstance(event.get(field), kind), f"{field} of {event}")
    if event["ph"] == "M":
        name, kind = METADATA[event["name"]]
        check(list(event["args"]) == [name] and isinstance(event["args"][name], kind), f"metadata: {event}")
        check(event["name"].startswith("process") or "tid" in event, f"metadata of no thread: {event}")
    if event["ph"] == "i":
        check(event["s"] in ("g", "p", "t"), f"scope: {event}")
    if event["ph"] == "C":
        check(event["args"] and all(isinstance(value, NUMBER) for value in event["args"].values()), f"counter: {event}")
    if event["ph"] == "X":
        check(event["dur"] >= 0, f"duration: {event}")


def check_threads(events):
    """Each process and thread has a name, and no slice begins within another one of its thread."""
    named = {event["pid"] for event in events if event["name"] == "process_name"}
    threads = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    slices = {}
    for event in events:
        check(event["pid"] in named, f"no name of process {event['pid']}")
        if event["ph"] in "Xi":
            check((event["pid"], event["tid"]) in threads, f"no name of thread {event['tid']}")
        if event["ph"] == "X":
            slices.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for thread, spans in slices.items():
        spans.sort()
        check(all(end <= begin + 1e-3 for (_, end), (begin, _) in zip(spans, spans[1:])), f"slices of {thread} overlap")
    return sum(map(len, slices.values()))


def look_at(trace, threads):
    """speedscope, a viewer of such traces, shows each of these threads."""
    page = NODE_MODULES / "speedscope/dist/release/index.html"
    if CHROMIUM is None or not page.exists():
        return "no viewer was run: speedscope or Chromium is not there"
    browser, shown, total = Browser(trace.parent / "chromium"), set(), 0
    browser.resize(DESKTOP)
    browser.open(page)
    field = browser.call("Runtime.evaluate", expression="document.querySelector('input[type=file]')")["result"]
    browser.call("DOM.setFileInputFiles", files=[str(trace)], objectId=field["objectId"])
    deadline = time.monotonic() + 60
    while (total == 0 or len(shown) < total) and time.monotonic() < deadline:
        if found := re.search(r"(.* \(pid \d+\), .* \(tid \d+\)) \(\d+/(\d+)\)", browser.value("document.body.innerText")):
            shown.add(found[1])
            total = int(found[2])
            for kind in ("keyDown", "keyUp"):  # the next thread; not before one is seen, since there is no way back
                browser.call("Input.dispatchKeyEvent", type=kind, key="n", windowsVirtualKeyCode=78, text="n")
        time.sleep(0.05)
    thrown = [event for event in browser.events if event.get("method") == "Runtime.exceptionThrown"]
    browser.end()
    check(not thrown and shown == threads, f"speedscope shows {sorted(shown)} of {sorted(threads)}, {thrown}")
    return f"speedscope shows its {len(shown)} threads"


def read_perfetto(job):
    text = export(job, "--format", "perfetto", "--whole-job", "--metrics", "mem.available")
    document = json.loads(text)
    check(set(document) == {"displayTimeUnit", "otherData", "traceEvents"} and document["displayTimeUnit"] == "ms",
          f"the document has {set(document)}")
    events = document["traceEvents"]
    for event in events:
        check_event(event)
    slices = check_threads(events)
    names = {event["args"]["name"]: event["pid"] for event in events if event["name"] == "process_name"}
    check(set(names) == {"n01", "n02"}, f"processes: {names}")
    begin = pandas.Timestamp(document["otherData"]["time_0"])
    points = 0
    for node, number in names.items():
        samples = pandas.read_csv(io.StringIO(export(job, "--format", "csv", "--node", node, "--metrics", "mem.available")),
                                  index_col="time", parse_dates=["time"])["mem.available [bytes]"].dropna()
        drawn = {begin + pandas.Timedelta(event["ts"], "us"): list(event["args"].items()) for event in events
                 if event["ph"] == "C" and event["pid"] == number}
        points += len(drawn)
        check(drawn, f"{node}: no points")
        for time, [(unit, value)] in drawn.items():
            near = samples[(samples.index - time).to_series().abs().dt.total_seconds().values < 0.01]
            scale = {"GiB": 2**30, "MiB": 2**20, "GB": 1e9, "MB": 1e6, "bytes": 1, "B": 1}[unit]
            check(len(near) == 1 and math.isclose(value * scale, near.iloc[0], rel_tol=1e-3), f"{node} {time}: {value} {unit}")
    (job.parent / "trace.json").write_text(text)
    with_slices = {(event["pid"], event["tid"]) for event in events if event["ph"] == "X"}
    viewed = look_at(job.parent / "trace.json", {
        f"{node} (pid {number}), {event['args']['name']} (tid {event['tid']})" for node, number in names.items()
        for event in events if event["name"] == "thread_name" and event["pid"] == number
        and (number, event["tid"]) in with_slices})
    compared("perfetto", "json", f"{len(events)} events with the fields of the Trace Event Format; {slices} slices, none "
             f"overlaps; {points} points of 2 processes = the csv's values; {viewed}; ui.perfetto.dev itself was not run")


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
    check(list(table) == ["time", "node", "process", "place", "weight"] and there.sum() >= 5 and there.mean() > 0.6,
          f"places: {table}")
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
