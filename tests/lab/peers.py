#!/usr/bin/python3
"""Loss on one way between two nodes, on the link of a node, and none: is the peer named, and does the trace count what
the drop rule counts? Three nodes made of network namespaces, each of which sends to each other at an even rate.

  peers.py --build BUILD --out DIR [--runs 1] [--percent 0.1,0.2,1] [--seconds 40] [--fault-seconds 15]

Only packets with data are dropped: of these each is sent again, so the rule's counter is the truth. Exits 77 where
there can be no laboratory."""
import argparse
import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import threading
import time

import h5py

sys.dont_write_bytecode = True
import faults  # noqa: E402
import scenario  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
NODES = 3
PORT = 5000
BYTES_PER_SECOND = 4e6  # on each way
BLOCK = 1 << 16


def address(node: int) -> str:
    return f"10.77.0.{node + 1}"


def talk(own: int, seconds: float):
    """The job on one node: sends to each other node, and takes what they send."""
    end = time.monotonic() + seconds

    def take(connection):
        while connection.recv(1 << 20):
            pass

    def send(other):
        while True:
            try:
                connection = socket.create_connection((address(other), PORT))
                break
            except OSError:
                time.sleep(0.05)
        begin, sent = time.monotonic(), 0
        with connection:
            while (now := time.monotonic()) < end:
                connection.sendall(bytes(BLOCK))
                sent += BLOCK
                time.sleep(max(0.0, begin + sent / BYTES_PER_SECOND - now))

    with socket.create_server((address(own), PORT)) as server:
        senders = [threading.Thread(target=send, args=(other,)) for other in range(NODES) if other != own]
        takers = []
        for sender in senders:
            sender.start()
        for _ in senders:
            takers.append(threading.Thread(target=take, args=(server.accept()[0],)))
            takers[-1].start()
        for thread in senders + takers:
            thread.join()


def drops(name: str, victim: int, peer: int | None, percent: float):
    """The rule, and a function that stops and reads it."""
    table = ["ip", "netns", "exec", f"{name}-n{victim}", "iptables", "-w", "-t", "raw"]
    rule = ["-i", "eth0", "-p", "tcp", "-m", "length", "--length", "500:65535", "-m", "statistic", "--mode", "random",
            "--probability", f"{percent / 100:.8f}", "-j", "DROP"]
    faults.run(*table, "-A", "PREROUTING", *(["-s", address(peer)] if peer is not None else []), *rule)

    def stop() -> int:
        faults.run(*table, "-I", "PREROUTING", "1", "-j", "ACCEPT")  # the counter now stands still
        lines = faults.run(*table, "-L", "PREROUTING", "-v", "-x", "-n").splitlines()
        dropped = next(int(line.split()[0]) for line in lines if "DROP" in line)
        faults.run(*table, "-F", "PREROUTING")
        return dropped

    return stop


def counted(trace: pathlib.Path, metric: str) -> dict[str, int]:
    """By instance: all increases."""
    with h5py.File(trace, "r") as file:
        keys, values = file["network/peer_segments_channels"], file["network/peer_segments"]
        return {instance: int(values[i, :][values[i, :] != values.fillvalue].sum())
                for i, (name, instance) in enumerate(zip(keys["metric"].asstr()[:], keys["instance"].asstr()[:]))
                if name == metric}


def run(args, case: str, percent: float, seed: int) -> dict:
    folder = args.out / f"{case}-{percent:g}-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    chance = random.Random(f"{case} {percent} {seed}")
    victim = chance.randrange(NODES)
    peer = chance.choice([i for i in range(NODES) if i != victim]) if case == "way" else None
    start = chance.uniform(0.25, 0.7) * (args.seconds - args.fault_seconds) + 2
    name, jobs = f"rvlab{os.getpid()}", []
    faults.run("bash", str(HERE / "nodes.sh"), "up", name, str(NODES))
    try:
        for i in range(NODES):
            words = ["bash", str(HERE / "nodes.sh"), "exec", f"{name}-n{i}", str(args.build / "bin/reveal-run"),
                     "--quiet", "--no-report", "--output", str(folder / "job"), "--node", f"node{i}", "--",
                     "/usr/bin/python3", __file__, "--talk", str(i), "--seconds", f"{args.seconds:g}"]
            with open(folder / f"{i}.log", "w") as log:
                jobs.append(subprocess.Popen(words, stdout=log, stderr=log))
        time.sleep(start)
        stop = drops(name, victim, peer, percent) if case != "healthy" else None
        begin = time.time()
        time.sleep(args.fault_seconds)
        dropped = stop() if stop else 0
        end = time.time()
        status = [job.wait(timeout=args.seconds + 60) for job in jobs]
    finally:
        for job in jobs:
            job.kill() if job.poll() is None else None
        subprocess.run(["bash", HERE / "nodes.sh", "down", name], check=False)
    subprocess.run([args.build / "bin/reveal", "report", folder / "job"], check=True, stdout=subprocess.DEVNULL)
    findings = json.loads((folder / "job/report.json").read_text())["findings"]
    sent_again = {i: counted(folder / f"job/node{i}.h5", "tcp.peer.retransmits") for i in range(NODES)}
    to_victim = {i: sent_again[i].get(address(victim), 0) for i in range(NODES) if i != victim}
    wanted = {"healthy": None, "way": f"on the path from node{peer} to node{victim}",
              "link": f"the link of node{victim} loses segments"}[case]
    losses = [f for f in findings if f["id"] in ("net.tcp_retrans_fault", "net.congestion")]
    named = bool(losses) and wanted is not None and wanted in losses[0]["sentence"]
    return {"case": case, "percent": percent, "victim": victim, "peer": peer, "dropped": dropped, "status": status,
            "begin": begin, "end": end, "sent_again_to_victim": to_victim,
            "sent_again_elsewhere": sum(sum(v.values()) for v in sent_again.values()) - sum(to_victim.values()),
            "named": named if wanted else not losses, "sentence": losses[0]["sentence"] if losses else ""}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--percent", default="0.1,0.2,1")
    parser.add_argument("--cases", default="way,link,healthy")
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--fault-seconds", type=float, default=15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--talk", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.talk is not None:
        talk(args.talk, args.seconds)
        return 0
    if reason := scenario.usable():
        print(f"skipped: {reason}")
        return 77
    args.build, args.out = args.build.resolve(), args.out.resolve()
    cases = [(case, percent) for case in args.cases.split(",")
             for percent in ([0.0] if case == "healthy" else map(float, args.percent.split(",")))]
    failed, table = 0, {}
    for seed in range(args.seed, args.seed + args.runs):
        for case, percent in cases:
            result = run(args, case, percent, seed)
            print(json.dumps(result), flush=True)
            to_victim = result["sent_again_to_victim"]
            again = to_victim[result["peer"]] if case == "way" else sum(to_victim.values())
            # Connections send a few again needlessly beside those that were lost.
            exact = result["dropped"] <= again <= 1.2 * result["dropped"] + 20
            good = result["named"] and (exact or case == "healthy") and not any(result["status"])
            failed += not good
            row = table.setdefault((case, percent), [0, 0, 0, 0])
            row[0] += result["named"]
            row[1] += 1
            row[2] += result["dropped"]
            row[3] += again
    print(f"{'case':10}{'loss %':>8}{'right':>8}{'dropped':>10}{'sent again to the victim':>27}")
    for (case, percent), (right, runs, dropped, again) in table.items():
        print(f"{case:10}{percent:8g}{f'{right}/{runs}':>8}{dropped:10}{again:27}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
