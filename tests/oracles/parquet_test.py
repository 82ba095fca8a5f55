#!/usr/bin/python3
"""`reveal export --format parquet`, read back by three independent programs, against `--format csv` and the trace.

DuckDB, arrow-rs and hyparquet are those of tests/package.json. Prints a table: the reader, and what was compared."""
import csv
import datetime
import io
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import NODE_MODULES, SOURCE, check, end, npm_package, program, skip  # noqa: E402

try:
    import h5py
except ImportError:
    skip("h5py is not installed; apt-get install python3-h5py")
READERS = {"duckdb": "@duckdb/node-api", "arrow-rs": "parquet-wasm", "hyparquet": "hyparquet"}
SECONDS = 4
rows = []


def export(*words, form="csv", text=True):
    done = subprocess.run([program("reveal"), "export", *words, "--format", form], capture_output=True, text=text,
                          check=False)
    check(done.returncode == 0, f"reveal export {' '.join(map(str, words))}: {done.returncode} {done.stderr[-300:]}")
    return done.stdout


def record(folder):
    """Two nodes at the same time: the second one has no processes of the job and no disks."""
    folder.mkdir()
    collectors = [subprocess.Popen([program("reveal-collect"), "--output", folder / f"{node}.h5", "--node", node, "--job",
                                    f"pid:{os.getpid()}", "--duration", f"{SECONDS}s", *more])
                  for node, more in (("n01", []), ("n02", ["--probes", "cpu,memory"]))]
    check(all([one.wait() == 0 for one in collectors]), "two collectors")


def read_back(reader, file, *query):
    done = subprocess.run(["node", "--input-type=module", "-", reader, file, *query], capture_output=True, text=True, check=False,
                          input=(SOURCE / "tests/oracles/parquet_readers.mjs").read_text(), cwd=NODE_MODULES.parent)
    if done.returncode != 0:
        check(False, f"{reader} cannot read {file.name}: {done.stderr[-600:]}")
        return None
    return json.loads(done.stdout)


def microseconds(text):
    since = datetime.datetime.fromisoformat(text.replace("Z", "+00:00")) - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    return since // datetime.timedelta(microseconds=1)


def table_of_csv(job, words):
    """Names and columns; one node has no column `node` there, and times have milliseconds."""
    head, *lines = csv.reader(io.StringIO(export(job, *words)))
    columns = {name: list(column) for name, column in zip(head, zip(*lines))}
    node = columns.pop("node", ["n01"] * len(lines))
    times = [microseconds(text) for text in columns.pop("time")]
    return times, node, {name: [None if text == "" else float(text) for text in column]
                         for name, column in columns.items()}


def number(value):
    return float(value) if isinstance(value, str) else value


def compare(job, what, words):
    file = job.parent / f"{what}.parquet".replace(" ", "_")
    file.write_bytes(export(job, *words, form="parquet", text=False))
    times, nodes, numbers = table_of_csv(job, words)
    for reader in READERS:
        back = read_back(reader, file)
        if back is None:
            continue
        where = f"{what}, {back['reader']}"
        check(back["names"] == ["time", "node", *numbers], f"{where}: columns {back['names'][:5]}")
        check([int(time) // 1000 * 1000 for time in back["columns"][0]] == times, f"{where}: times")
        check(back["columns"][1] == nodes, f"{where}: nodes")
        for (name, expected), column in zip(numbers.items(), back["columns"][2:]):
            check([number(value) for value in column] == expected, f"{where}: {name}")
        described = json.loads(back["metadata"]["reveal.columns"])
        check([one["name"] for one in described] == list(numbers), f"{where}: the metadata names other columns")
        check(all(one["name"].endswith(f" [{one['unit']}]") and one["description"] for one in described),
              f"{where}: units or descriptions")
        if reader != "hyparquet":
            types = list(back["types"].values())
            check(types[0] in ("TIMESTAMP WITH TIME ZONE", "Timestamp<MICROSECOND, UTC>") and
                  types[1] in ("VARCHAR", "Utf8") and set(types[2:]) in ({"DOUBLE"}, {"Float64"}), f"{where}: {types[:3]}")
        if reader == "duckdb":
            check_bounds(where, back["bounds"], numbers)
        missing = sum(value is None for column in numbers.values() for value in column)
        rows.append((what, back["reader"], f"{len(times)} rows x {len(numbers)} channels = csv, {missing} missing = null"))
    return times, nodes, numbers


def check_bounds(where, bounds, numbers):
    """The statistics of the only row group, by which readers skip it."""
    for one in bounds:
        if one["name"] not in numbers:
            check(one["least"] and one["most"] and one["nulls"] == 0, f"{where}: bounds {one}")
            continue
        known = [value for value in numbers[one["name"]] if value is not None]
        check(one["nulls"] == one["count"] - len(known), f"{where}: nulls {one}")
        if known:
            check(float(one["least"]) == min(known) and float(one["most"]) == max(known), f"{where}: bounds {one}")
        else:
            check(one["least"] is None and one["most"] is None, f"{where}: bounds {one}")


def compare_with_trace(job, nodes, numbers):
    for node in ("n01", "n02"):
        with h5py.File(job / f"{node}.h5") as trace:
            family = trace["memory/meminfo"]
            metric = list(family.dims[0]["metric"].asstr()[:]).index("mem.available")
            values = family[metric, :]
            known = set(values[values != family.fillvalue].astype(float))
        column = numbers["mem.available [bytes]"]
        ours = {value for value, where in zip(column, nodes) if where == node and value is not None}
        check(ours and ours <= known, f"{node}: mem.available is not that of the trace")
    rows.append(("two nodes", "h5py", "mem.available of each node is in its trace"))


def run_query_of_readme(job, nodes, numbers):
    """The query that README.md shows, by DuckDB."""
    [query] = re.findall(r"^    (SELECT .* FROM 'job\.parquet' .*);$", (SOURCE / "README.md").read_text(), re.M)
    file = job.parent / "job.parquet"
    file.write_bytes(export(job, form="parquet", text=False))
    told = read_back("query", file, query)
    column = numbers["mem.available [bytes]"]
    for node in ("n01", "n02"):
        known = [value for value, where in zip(column, nodes) if where == node and value is not None]
        [[mean]] = [row[1:] for row in told if row[0] == node]
        check(math.isclose(mean, sum(known) / len(known), rel_tol=1e-9), f"README's query: {node} {mean}")
    check(len(told) == 2, f"README's query: {told}")
    rows.append(("two nodes", "DuckDB", "README's query = means of csv"))


def check_refusals(job):
    master, terminal = os.openpty()
    done = subprocess.run([program("reveal"), "export", job, "--format", "parquet"], stdout=terminal,
                          stderr=subprocess.PIPE, text=True, check=False)
    os.close(terminal)
    os.close(master)
    check(done.returncode == 1 and done.stderr.count("\n") == 1 and "> job.parquet" in done.stderr,
          f"on a terminal: {done.returncode} {done.stderr}")
    done = subprocess.run([program("reveal"), "export", job, "--format", "parquet", "--metrics", "no.such"],
                          capture_output=True, text=True, check=False)
    check(done.returncode == 1 and done.stdout == "" and 'a channel "no.such"' in done.stderr,
          f"without a channel: {done.returncode} {done.stderr}")


if shutil.which("node") is None:
    skip("node is not installed, which runs the readers")
for package in READERS.values():
    npm_package(package)
npm_package("apache-arrow")
with tempfile.TemporaryDirectory() as name:
    base = pathlib.Path(name)
    record(base / "job")
    _, all_nodes, all_numbers = compare(base / "job", "two nodes", [])
    compare_with_trace(base / "job", all_nodes, all_numbers)
    run_query_of_readme(base / "job", all_nodes, all_numbers)
    compare(base / "job", "one node", ["--node", "n01", "--metrics", "mem.*,cpu.user"])
    check_refusals(base / "job")
    (base / "one").mkdir()
    subprocess.run([program("reveal-collect"), "--output", base / "one/n01.h5", "--node", "n01", "--interval", "1s",
                    "--duration", "2s", "--probes", "memory"], check=True)
    compare(base / "one", "few rows", [])  # one or two: the ticks are on whole seconds
for row in rows:
    print("  ".join(f"{text:{width}}" for text, width in zip(row, (10, 31, 0))))
end()
