#!/usr/bin/python3
"""How the laboratory stops a rank inside a collective (tests/lab/faults.py), on two processes that exchange a byte in each
step, and log when they begin to and when they have done so."""
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import SOURCE, check, end  # noqa: E402

sys.path.insert(0, str(SOURCE / "tests/lab"))
import faults  # noqa: E402

RANK = """
import os, socket, sys, time
peer, log = socket.socket(fileno=int(sys.argv[1])), os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
while True:
    time.sleep(.02)
    os.write(log, b"(")
    peer.sendall(b".")
    if not peer.recv(1):
        break
    os.write(log, b")")
"""


class Nodes:
    """As much of a laboratory as this fault sees: one rank on each of two nodes."""

    def __init__(self, folder):
        self.count, self.random = 2, random.Random(1)
        self.logs = [folder / f"log.{rank}" for rank in range(2)]
        ends = socket.socketpair()
        self.jobs = [subprocess.Popen([sys.executable, "-c", RANK, str(each.fileno()), log], pass_fds=[each.fileno()])
                     for each, log in zip(ends, self.logs)]
        for each in ends:
            each.close()

    def ranks(self, node):
        return [self.jobs[node].pid]

    def state(self, node):
        return pathlib.Path(f"/proc/{self.jobs[node].pid}/stat").read_text().rpartition(")")[2].split()[0]

    def steps(self, node):
        return self.logs[node].stat().st_size if self.logs[node].exists() else 0

    def go_on(self):
        """Both make steps again."""
        before = [self.steps(node) for node in range(2)]
        return until(lambda: all(self.steps(node) > before[node] + 4 for node in range(2)))


def until(condition):
    for _ in range(1000):
        if condition():
            return True
        time.sleep(0.02)
    return False


with tempfile.TemporaryDirectory() as name:
    print("== a process that computes does not come to rest, one that sleeps does")
    for program, rests in (("while True: pass", False), ("import time; time.sleep(100)", True)):
        process = subprocess.Popen([sys.executable, "-c", program])
        # A process that begins is busy: much time for the one that is to rest.
        check(faults.comes_to_rest([process.pid], 30 if rests else 0.8) == rests, program)
        process.kill()
        process.wait()
    check(not faults.comes_to_rest([process.pid], 0.5), "no process is at rest")

    nodes = Nodes(pathlib.Path(name))
    check(nodes.go_on(), "the ranks make no steps")
    print("== a rank is stopped where it waits for the other one")
    with faults.stop_inside(nodes, 1, 0) as counters:
        print(counters)
        check(until(lambda: nodes.state(1) == "T"), f"the rank is not stopped: {nodes.state(1)}")
        check(nodes.logs[1].read_bytes().endswith(b"("), "it is not inside")
        check(faults.comes_to_rest(nodes.ranks(0), 30), "the other one does not wait for it")
        check(nodes.logs[0].read_bytes().endswith(b"("), "the other one is not inside")
    check(nodes.go_on(), "they do not go on afterwards")

    print("== it is stopped for a moment")
    with faults.stop_inside(nodes, 0, 0.2):
        check(nodes.go_on(), "they do not go on meanwhile")

    print("== the job is terminated while a rank is stopped")
    with faults.to_the_end(faults.stop_inside)(nodes, 1, 0):
        check(until(lambda: nodes.state(1) == "T"), f"the rank is not stopped: {nodes.state(1)}")
    check([job.poll() for job in nodes.jobs] == [-15, -15], f"the ranks ended with {[job.poll() for job in nodes.jobs]}")
    for job in nodes.jobs:
        job.kill()
        job.wait()

end()
