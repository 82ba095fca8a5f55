#!/usr/bin/python3
"""Counts the operations with names that the end of a Slurm job makes in the shared directory, for each of its nodes.

  bench/delivery_operations.py [--bin DIR] [--nodes 4] [--of 1001] [--long] [--step] [--list] [--most N]

Each node delivers a real trace of a few seconds with `reveal deliver` as the collector starts it, in the order of the
nodes, the first one in the background: it waits for the others and builds the report. The others are traced with
strace; counted are system calls with a name in that directory, and openings of the directory itself. Calls on open files
(reading, writing, times, syncing) are not counted. With --of, the job has so many nodes, of which only these deliver, so
that there is no report; they share one of the folders of a large job, which the first one has made. With --long, the
analysis is too much for an epilog: the trace is delivered before. With --step, the collectors were started by a step, as
on a site whose prologs see no jobs. Needs strace."""
import argparse
import collections
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

CALL = re.compile(r"^(?:\d+ +)?(\w+)\((.*)")
NAMED = "file,desc"  # what takes a path, and what takes a descriptor of the directory


def record(collector: str, spool: pathlib.Path, nodes: list):
    """All of them at the same time."""
    running = []
    for node in nodes:
        (spool / node).mkdir(parents=True)
        running.append(subprocess.Popen([collector, "--output", spool / node / f"{node}.h5", "--node", node, "--duration",
                                         "3s"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    if any(collecting.wait() for collecting in running):
        sys.exit("a trace could not be recorded")


def counted(log: pathlib.Path, directory: str) -> collections.Counter:
    """By system call: those with a name in the directory, and openings of the directory itself."""
    calls = collections.Counter()
    for line in log.read_text(errors="replace").splitlines():
        match = CALL.match(line)
        named = match and re.search(r'"[^"]+"', match[2])  # not "", which is the open file itself
        if named and directory in match[2] and not re.match(r"(read|write|close|fcntl|lseek|pread|pwrite)", match[1]):
            calls[match[1]] += 1
    return calls


def folder_of(node: str) -> int:
    """See postproc/telemetry/node_folders.cpp."""
    value = 0x811c9dc5
    for letter in node.encode():
        value = (value ^ letter) * 0x01000193 & 0xffffffff
    return value % 128


def analysed_last(log: pathlib.Path, node: str, directory: str) -> bool:
    """Whether the node made its summary when its trace was in the directory already."""
    lines = log.read_text(errors="replace").splitlines()
    first = {}
    for number, line in enumerate(lines):
        for what, found in (("delivered", "rename" in line and directory in line and f'{node}.h5"' in line),
                            ("analysed", "rename" in line and directory not in line and f'{node}.summary.json"' in line)):
            if found:
                first.setdefault(what, number)
    if len(first) < 2:
        sys.exit(f"{node} delivered no trace, or made no summary of it: {first}")
    return first["delivered"] < first["analysed"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/gcc/bin")
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--of", type=int, default=0, help="nodes of the job, if it has more than deliver here")
    parser.add_argument("--long", action="store_true", help="each node analyses its trace after its epilog")
    parser.add_argument("--step", action="store_true", help="the collectors were started by a step on all nodes")
    parser.add_argument("--list", action="store_true", help="the calls of the last node, in their order")
    parser.add_argument("--most", type=int, help="exit status 1 if a node needs more operations")
    args = parser.parse_args()
    if not shutil.which("strace"):
        sys.exit("strace is not installed")
    binaries = pathlib.Path(args.bin).resolve()
    nodes = [f"n{number}" for number in range(1, max(args.nodes, args.of) + 1)]
    job_nodes = f"n[1-{len(nodes)}]"
    if args.of > args.nodes:
        nodes = [node for node in nodes if folder_of(node) == folder_of("n1")]
    nodes = nodes[:args.nodes]
    report_limit = "0s" if args.long else "60s"
    with tempfile.TemporaryDirectory() as scratch:
        base, work = pathlib.Path(scratch), pathlib.Path(scratch) / "work"
        work.mkdir()
        (base / "home").mkdir()
        (base / "reveal.conf").write_text(f'[slurm]\nreport_limit = "{report_limit}"\n')
        environment = {"PATH": os.environ["PATH"], "HOME": str(base / "home"), "SLURM_JOB_NODELIST": job_nodes,
                       "SLURM_JOB_WORK_DIR": str(work), "SLURM_CLUSTER_NAME": "c"}
        if args.step:
            environment["SLURM_STEP_NODELIST"] = job_nodes
        record(str(binaries / "reveal-collect"), base / "spool", nodes)

        def deliver(node: str, *before: str) -> subprocess.Popen:
            return subprocess.Popen([*before, binaries / "reveal", "deliver", base / "spool" / node, "--job", "4711", "--node",
                                     node, "--config", base / "reveal.conf"], env=environment)

        first = deliver(nodes[0])
        while not (work / "reveal-4711/.report.lease").exists():  # it waits for the others from then on
            if first.poll() is not None:
                sys.exit(f"the first node ended with status {first.returncode} instead of waiting for the others")
            time.sleep(0.1)
        # Asleep it cannot build the report and give its lease back before the last node has asked for that one, which
        # would then build the report again.
        first.send_signal(signal.SIGSTOP)
        most = 0
        for node in nodes[1:]:
            log = base / f"{node}.strace"
            deliver(node, "strace", "-f", "-y", "-s", "4096", "-e", f"trace={NAMED}", "-o", str(log)).wait()
            calls = counted(log, f"{work}/reveal-4711")
            if args.long != analysed_last(log, node, f"{work}/reveal-4711"):
                sys.exit(f"{node} was expected to analyse its trace {'after' if args.long else 'before'} it delivered it")
            most = max(most, sum(calls.values()))
            print(f"{node}: {sum(calls.values())} operations: "
                  + ", ".join(f"{name} {count}" for name, count in calls.most_common()), flush=True)
            if args.list and node == nodes[-1]:
                print("\n".join(line for line in log.read_text().splitlines() if f"{work}/reveal-4711" in line))
        if args.of > args.nodes:
            first.kill()
            first.wait()
        else:
            first.send_signal(signal.SIGCONT)
            print("exit status of the node that builds the report:", first.wait())
        files = (path for path in (work / "reveal-4711").rglob("*") if path.is_file())
        print("delivered:", ", ".join(sorted(path.name for path in files)))
    if args.most and most > args.most:
        sys.exit(f"a node needs {most} operations, more than {args.most}")


if __name__ == "__main__":
    main()
