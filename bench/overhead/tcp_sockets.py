#!/usr/bin/python3
"""What the probe tcp_peers costs beside many connections: a job that holds them open, idle, in a network namespace of
its own, and a collector with this probe only. With --strangers, a process that is not the job's holds them.

  tcp_sockets.py --build BUILD [--sockets 0,1000,10000,100000] [--seconds 60] [--strangers]

Prints the processor time of one look (sock_diag, both address families, and finding whose the sockets are), its rows,
and the collector's with and without the probe, all children included. Needs root."""
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


def collect(args, probes: str, pid: int, folder: str) -> tuple[float, list[int]]:
    """Processor time in % of a core, and the ticks of the rows of the probe in which something was measured."""
    trace = os.path.join(folder, probes + ".h5")
    before, begin = processor_seconds(), time.monotonic()
    subprocess.run(["ip", "netns", "exec", NAME, args.build / "bin/reveal-collect", "--probes", probes, "--job",
                    f"pid:{pid}", "--duration", f"{args.seconds}s", "--output", trace, "--record", folder + "/rec"],
                   check=True)
    return 100 * (processor_seconds() - before) / (time.monotonic() - begin), looks(folder + "/rec")


def looks(recording: str) -> list[int]:
    """Nanoseconds of processor time of each look, as the child said."""
    text = (pathlib.Path(recording) / "ticks.rec").read_bytes().split(b"\n")
    return [int(line.split()[1]) for line in text if line.startswith(b"ok ") and len(line.split()) >= 5]


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
    print(f"{'sockets':>9}{'looks':>7}{'ms a look':>11}{'least':>8}{'most':>8}{'% of a core':>13}{'without':>9}")
    for count in map(int, args.sockets.split(",")):
        subprocess.run(["ip", "netns", "add", NAME], check=True)
        subprocess.run(["ip", "-n", NAME, "link", "set", "lo", "up"], check=True)
        talker = subprocess.Popen(["ip", "netns", "exec", NAME, sys.executable, __file__, "--job", str(count)],
                                  stdout=subprocess.PIPE)
        idle = subprocess.Popen(["ip", "netns", "exec", NAME, "sleep", "3600"])
        pid = idle.pid if args.strangers else talker.pid
        try:
            talker.stdout.readline()
            with tempfile.TemporaryDirectory() as folder:
                share, costs = collect(args, "tcp_peers", pid, folder)
            with tempfile.TemporaryDirectory() as folder:
                without, _ = collect(args, "self", pid, folder)
            ms = [cost / 1e6 for cost in costs]
            print(f"{count:9}{len(ms):7}{statistics.median(ms):11.2f}{min(ms):8.2f}{max(ms):8.2f}{share:13.2f}"
                  f"{without:9.2f}", flush=True)
        finally:
            pids = subprocess.run(["ip", "netns", "pids", NAME], capture_output=True, text=True).stdout.split()
            for pid in pids:
                os.kill(int(pid), 9)
            talker.wait()
            idle.wait()
            subprocess.run(["ip", "netns", "del", NAME], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
