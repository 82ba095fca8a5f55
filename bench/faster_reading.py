#!/usr/bin/python3
"""What reading faster adds, and what it costs: two collectors record one job at the same time, one of them with
--no-faster-reading, while busy processes disturb the job for some seconds.

  faster_reading.py --build BUILD [--seconds 150] [--begin 110] [--length 10] [--busy N] [--keep DIR]

The job is a Python loop that computes and sends itself data over TCP; its neighbours only send. Prints for both
collectors: samples of the main thread, rows of TCP peers and of NUMA maps within the disturbance, how often it was read
faster, findings with the place of the main thread, and processor time of the collector and its children over the whole
job, with the ratio."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import h5py

# Both send themselves data over TCP; the job computes in between.
ENDS = """
import socket, time
def exchange(ends, block):
    ends[0].sendall(block)
    left = len(block)
    while left:
        left -= len(ends[1].recv(left))
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
ends = (client, server.accept()[0])
"""
JOB = ENDS + """
def compute(until):
    while time.time() < until:
        sum(range(1000))
while True:
    compute(time.time() + .05)
    exchange(ends, bytes(50000))
"""
NEIGHBOUR = ENDS + """
while True:
    exchange(ends, bytes(50000))
"""
# With the time by which a row is later than the events that it counts.
FAMILIES = {"rows of TCP peers": ("network/peer_segments", 1e9), "rows of NUMA maps": ("process/numa", 0)}


def children_of(pid: int) -> list:
    found = [pid]
    for each in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(each.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        if parent == pid:
            found += children_of(int(each.parent.name))
    return found


def processor_seconds(pid: int) -> float:
    """Of a collector and its children, with those that have ended."""
    ticks = 0
    for each in children_of(pid):
        try:
            ticks += sum(map(int, pathlib.Path(f"/proc/{each}/stat").read_text().rsplit(")", 1)[1].split()[11:15]))
        except OSError:
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


def letters(events) -> list:
    """Times of the samples with a place, on the steady clock."""
    times = []
    for time_ns, text in events:
        word, row = text.split()[:2]
        number, unit = re.fullmatch(r"([0-9]+)(ms|s)", word).groups()
        period = int(number) * {"ms": 1_000_000, "s": 1_000_000_000}[unit]
        times += [time_ns - (len(row) - i) * period for i, letter in enumerate(row) if letter != "-"]
    return times


def measured(folder: pathlib.Path, begin: float, end: float) -> dict:
    with h5py.File(folder / "here.h5") as trace:
        monotonic, utc, _ = trace["clock"][0]
        first, last = ((moment * 1e9) - (utc - monotonic) for moment in (begin, end))
        events = [(int(row["time_ns"]), row["code"].decode(), row["text"].decode()) for row in trace["events"][:]]
        frames = letters([(at, text) for at, code, text in events if code == "python_frames"])
        result = {"samples of the main thread": sum(first <= at < last for at in frames)}
        for name, (path, lag) in FAMILIES.items():
            if path not in trace or not len(trace[path]):
                result[name] = "not measured"
                continue
            times = trace[path.split("/")[0]][trace[path].attrs["time"].decode()][:]
            there = (trace[path][:, :len(times)] != -2**63).any(axis=0)
            result[name] = int(sum(first <= at - lag < last for at in times[there]))
        result["read faster"] = "; ".join(text for _, code, text in events if code == "faster_end") or "never"
    return result


def findings_of(reveal_program: pathlib.Path, folder: pathlib.Path) -> str:
    subprocess.run([reveal_program, "report", folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    report = json.loads((folder / "report.json").read_text())
    told = [finding["id"] for finding in report["findings"] if finding.get("main_threads")]
    return f"{len(told)} of {len(report['findings'])} {' '.join(told)}".strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--begin", type=float, default=110, help="of the disturbance")
    parser.add_argument("--length", type=float, default=10)
    parser.add_argument("--busy", type=int, default=2 * os.cpu_count(), help="processes that disturb")
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    programs = options.build.resolve() / "bin"
    listed = json.loads(subprocess.check_output([programs / "reveal-collect", "--list-probes", "--json"]))
    names = ",".join(probe["name"] for probe in listed if probe["name"] != "stack")
    with tempfile.TemporaryDirectory() as scratch:
        base = options.keep or pathlib.Path(scratch)
        base.mkdir(parents=True, exist_ok=True)
        job = subprocess.Popen([sys.executable, "-c", JOB])
        collectors = {}
        for name, more in (("usual", ["--no-faster-reading"]), ("faster", [])):
            (base / name).mkdir()
            collectors[name] = subprocess.Popen(
                [programs / "reveal-collect", "--output", base / name / "here.h5", "--node", "here", "--job",
                 f"pid:{job.pid}", "--probes", names, *more])
        time.sleep(options.begin)
        begin = time.time()
        busy = [subprocess.Popen([sys.executable, "-c", NEIGHBOUR]) for _ in range(options.busy)]
        time.sleep(options.length)
        for each in busy:
            each.kill()
            each.wait()
        end = time.time()
        time.sleep(max(0, options.seconds - options.begin - options.length))
        cost = {name: processor_seconds(collector.pid) for name, collector in collectors.items()}
        job.kill()
        job.wait()
        for collector in collectors.values():
            collector.wait(timeout=60)
        rows = {name: measured(base / name, begin, end) for name in collectors}
        for name in collectors:
            rows[name]["findings with the main thread"] = findings_of(programs / "reveal", base / name)
            rows[name]["processor time, % of a core"] = f"{100 * cost[name] / options.seconds:.3f}"
        print(f"{options.seconds:.0f} s, disturbed from {options.begin:.0f} s for {options.length:.0f} s")
        for key in rows["usual"]:
            print(f"{key:32} usual: {rows['usual'][key]!s:20} faster: {rows['faster'][key]}")
        print(f"processor time, ratio            {cost['faster'] / cost['usual']:.3f}")


if __name__ == "__main__":
    main()
