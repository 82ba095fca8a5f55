#!/usr/bin/python3
"""A job with so many connections that only some of them are counted: how right are tcp.peer.* and tcp.peer.coverage?

  many_connections.py --build BUILD [--connections 6000] [--busy 0] [--percent 1] [--seconds 60]

One node sends messages of 1,000 bytes to two others, over so many connections to each; of the packets to the first of
them, some percent are dropped. Each message goes over a random connection of all (--busy 0), or of the first so many to
each node nine times out of ten. Prints, by peer: the segments that the trace counted as sent again, the same divided by
the coverage of each row, and the drop rule's and the kernel's counts.
Needs root; exits 77 where there can be no laboratory."""
import argparse
import json
import os
import pathlib
import random
import resource
import select
import socket
import subprocess
import sys
import tempfile
import time

import h5py

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
import faults  # noqa: E402
import peers  # noqa: E402
import record_peers  # noqa: E402
import scenario  # noqa: E402

PORT, RATE, BYTES = 5001, 3000, 1000


def raise_limit():
    """Half as many --connections as descriptors are possible."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def serve():
    raise_limit()
    server = socket.create_server(("", PORT), backlog=4096)
    wait, open_ones = select.epoll(), {}
    wait.register(server, select.EPOLLIN)
    while True:
        for number, _ in wait.poll():
            if number == server.fileno():
                one = server.accept()[0]
                open_ones[one.fileno()] = one
                wait.register(one, select.EPOLLIN)
            elif not open_ones[number].recv(1 << 16):
                wait.unregister(number)
                open_ones.pop(number).close()


def talk(args):
    raise_limit()
    choice, message = random.Random(1), b"x" * BYTES
    made = {node: [socket.create_connection((peers.address(node), PORT)) for _ in range(args.connections)] for node in (1, 2)}
    print("ready", flush=True)
    begin, sent = time.monotonic(), 0
    while (passed := time.monotonic() - begin) < args.seconds:
        while sent < passed * RATE:
            of_node = made[1 + sent % 2]
            few = args.busy and choice.random() < 0.9
            (of_node[choice.randrange(args.busy)] if few else choice.choice(of_node)).sendall(message)
            sent += 1
        time.sleep(0.002)


def estimates(trace: pathlib.Path) -> dict:
    """By peer: segments counted as sent again, the same divided by the coverage of their row, and the least coverage."""
    with h5py.File(trace) as file:
        def rows(family, metric):
            keys, values = file[f"network/{family}_channels"], file[f"network/{family}"]
            return {place: [None if value == values.fillvalue or value != value else int(value) for value in values[i, :]]
                    for i, (name, place) in enumerate(zip(keys["metric"].asstr()[:], keys["instance"].asstr()[:]))
                    if name == metric}
        again = rows("peer_segments", "tcp.peer.retransmits")
        parts = rows("peer_coverage", "tcp.peer.coverage")
    all_of = {}
    for place, counts in again.items():
        shares = parts.get(place, [None] * len(counts))
        pairs = [(count, share or 100) for count, share in zip(counts, shares) if count]
        all_of[place] = {"counted": sum(count for count, _ in pairs), "least_coverage": min(filter(None, shares), default=100),
                         "estimated": round(sum(100 * count / share for count, share in pairs))}
    return all_of


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--connections", type=int, default=6000)
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--percent", type=float, default=1)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--role", choices=("serve", "talk"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.role:
        return serve() if args.role == "serve" else talk(args)
    if reason := scenario.usable():
        print(f"skipped: {reason}")
        return 77
    name, build = f"rvlab{os.getpid()}", args.build.resolve()
    faults.run("bash", str(HERE / "nodes.sh"), "up", name, "3")
    own = [sys.executable, __file__, "--connections", str(args.connections), "--busy", str(args.busy), "--seconds",
           str(args.seconds), "--role"]
    try:
        for node in (1, 2):
            subprocess.Popen(["ip", "netns", "exec", f"{name}-n{node}", *own, "serve"])
        time.sleep(1)
        job = subprocess.Popen(["ip", "netns", "exec", f"{name}-n0", *own, "talk"], stdout=subprocess.PIPE)
        job.stdout.readline()
        before = record_peers.segments_sent_again(f"{name}-n0")
        stop = peers.drops(name, 1, 0, args.percent)
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "n1.h5"
            done = subprocess.run(["ip", "netns", "exec", f"{name}-n0", build / "bin/reveal-collect", "--job", f"pid:{job.pid}",
                                   "--interval", "1s", "--probes", "tcp_peers", "--duration", f"{args.seconds - 5:.0f}s",
                                   "--output", trace], check=False)
            dropped = stop()
            again = record_peers.segments_sent_again(f"{name}-n0") - before
            job.kill()
            job.wait()
            print(json.dumps({"status": done.returncode, "dropped_to_10.77.0.2": dropped, "sent_again_by_kernel": again,
                              "trace": estimates(trace)}, indent=1))
    finally:
        subprocess.run(["bash", HERE / "nodes.sh", "down", name], check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
