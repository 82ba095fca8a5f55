#!/usr/bin/python3
"""What the probe tcp_peers costs beside many connections: a job that holds them open, idle, in a network namespace of
its own, and a collector with this probe only. With --strangers, a process that is not the job's holds them, and the job
has ten.

  tcp_sockets.py --build BUILD [--sockets 0,1000,10000,100000] [--seconds 60] [--strangers]

Prints the looks and their processor time (sock_diag, both address families, and finding whose the sockets are); where
all sockets are listed less often than the job's are looked up, the time of a listing and between two; the rows with
connections, and the smallest percentage of a peer's segments that they count; the processor time of the collector with and without the probe, all children included, without its first
look, which --seconds are too short for; and the resident memory of its children. Needs root."""
import argparse
import os
import pathlib
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time

EACH = 8000  # sockets of one process of the job
FEW = 10  # of the job, beside strangers
NAME = f"reveal-sockets{os.getpid()}"


def hold(count: int, number: int):
    """Both ends of count / 2 connections, and a byte on each."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * EACH, 2 * EACH))
    kept = []
    with socket.create_server((f"127.0.1.{number + 1}", 5000), backlog=4096) as server:
        for _ in range(count // 2):
            kept += [socket.create_connection(server.getsockname()), server.accept()[0]]
            kept[-1].sendall(b"x")
    print("ready", flush=True)
    time.sleep(3600)


def job(count: int):
    holders = [subprocess.Popen([sys.executable, __file__, "--hold", str(min(EACH, count - at)), "--number", str(i)],
                                stdout=subprocess.PIPE) for i, at in enumerate(range(0, count, EACH))]
    for holder in holders:
        holder.stdout.readline()
    print("ready", flush=True)
    time.sleep(3600)


def processor_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def children_of(pid: int) -> list[int]:
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def resident_megabytes(pid: int) -> float:
    """The highest so far."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def collect(args, probes: str, pid: int, folder: str) -> tuple[float, float, "Looks"]:
    """Processor seconds, memory of the children, and what the probe's child answered."""
    before = processor_seconds()
    collector = subprocess.Popen(["ip", "netns", "exec", NAME, args.build / "bin/reveal-collect", "--probes", probes,
                                  "--job", f"pid:{pid}", "--duration", f"{args.seconds}s", "--output",
                                  os.path.join(folder, probes + ".h5"), "--record", folder + "/rec"])
    time.sleep(args.seconds - 1)  # `ip` becomes the collector
    megabytes = sum(map(resident_megabytes, children_of(collector.pid)))
    if collector.wait() != 0:
        sys.exit("tcp_sockets: the collector failed")
    return processor_seconds() - before, megabytes, Looks(folder + "/rec")


class Looks:
    def __init__(self, recording: str):
        lines = (pathlib.Path(recording) / "ticks.rec").read_bytes().split(b"\n")
        answers = [list(map(int, line.split()[1:])) for line in lines if line.startswith(b"ok ") and line.count(b" ") >= 5]
        self.listing, self.every = (max((answer[i] for answer in answers if len(answer) > i), default=0) / 1e9
                                    for i in (5, 6))
        self.costs = [answer[0] / 1e9 for answer in answers]
        rows = [words for line in lines if len(words := line.split()) in (22, 23) and (words[0] == b"others" or b"." in words[0])]
        self.rows = sum(row[21] not in (b"-", b"0") for row in rows)
        self.percent = min((int(row[22]) for row in rows if len(row) > 22 and row[22] != b"-"), default=100)

    def first(self) -> float:
        return max(self.listing, self.costs[0] if self.costs else 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--sockets", default="0,1000,10000,100000")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--strangers", action="store_true")
    parser.add_argument("--hold", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--number", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--job", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.hold is not None:
        hold(args.hold, args.number)
    if args.job is not None:
        job(args.job)
    args.build = args.build.resolve()
    print(f"{'sockets':>9}{'looks':>7}{'ms a look':>11}{'least':>8}{'most':>8}{'ms a list':>11}{'every, s':>10}{'rows':>6}{'%':>5}"
          f"{'% of a core':>13}{'without':>9}{'less first':>12}{'MB':>7}")
    for count in map(int, args.sockets.split(",")):
        subprocess.run(["ip", "netns", "add", NAME], check=True)
        subprocess.run(["ip", "-n", NAME, "link", "set", "lo", "up"], check=True)
        talker = subprocess.Popen(["ip", "netns", "exec", NAME, sys.executable, __file__, "--job", str(count)],
                                  stdout=subprocess.PIPE)
        few = subprocess.Popen(["ip", "netns", "exec", NAME, sys.executable, __file__, "--hold", str(FEW), "--number",
                                "99"], stdout=subprocess.PIPE)
        pid = few.pid if args.strangers else talker.pid
        try:
            for holder in (talker, few):
                holder.stdout.readline()
            with tempfile.TemporaryDirectory() as folder:
                spent, megabytes, looks = collect(args, "tcp_peers", pid, folder)
            with tempfile.TemporaryDirectory() as folder:
                without, _, _ = collect(args, "self", pid, folder)
            ms = [1000 * cost for cost in looks.costs] or [0]
            share = [100 * seconds / args.seconds for seconds in (spent, without, spent - looks.first())]
            print(f"{count:9}{len(ms):7}{statistics.median(ms):11.2f}{min(ms):8.2f}{max(ms):8.2f}"
                  f"{1000 * looks.listing:11.1f}{looks.every:10.1f}{looks.rows:6}{looks.percent:5}{share[0]:13.2f}{share[1]:9.2f}"
                  f"{share[2]:12.2f}{megabytes:7.1f}", flush=True)
        finally:
            pids = subprocess.run(["ip", "netns", "pids", NAME], capture_output=True, text=True).stdout.split()
            for pid in pids:
                os.kill(int(pid), 9)
            talker.wait()
            few.wait()
            subprocess.run(["ip", "netns", "del", NAME], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
