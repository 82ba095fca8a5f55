#!/usr/bin/python3
"""An MPI job: Jacobi sweeps over a grid cut into stripes, halos to the neighbours, a norm over all ranks now and then,
a checkpoint with fsync. Usage under mpirun: mpi_solver.py --seconds 60 --dir DIR --log phases.jsonl"""
import argparse
import json
import os
import time

import numpy as np
from mpi4py import MPI

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--seconds", type=float, default=60)
parser.add_argument("--dir", required=True)
parser.add_argument("--log", required=True)
parser.add_argument("--size", type=int, default=768)
args = parser.parse_args()
world = MPI.COMM_WORLD
rank, above, below = world.rank, (world.rank - 1) % world.size, (world.rank + 1) % world.size
log = os.open(args.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)


def phase(name, epoch, begin):
    line = {"rank": rank, "epoch": epoch, "phase": name, "begin_utc_ns": begin, "end_utc_ns": time.time_ns()}
    os.write(log, (json.dumps(line) + "\n").encode())


begin = time.time_ns()
os.makedirs(args.dir, exist_ok=True)
grid = np.random.default_rng(rank).random((args.size + 2, args.size))
world.Barrier()
phase("prepare", 0, begin)
start, epoch, stop = time.monotonic(), 0, False
while not stop:
    epoch += 1
    begin = time.time_ns()
    for sweep in range(100):
        world.Sendrecv(grid[1], above, recvbuf=grid[-1], source=below)
        world.Sendrecv(grid[-2], below, recvbuf=grid[0], source=above)
        grid[1:-1, 1:-1] = 0.25 * (grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:])
        if sweep % 20 == 0:
            world.allreduce(float(np.abs(grid).sum()))
    phase("solve", epoch, begin)
    if epoch % 4 == 0:
        begin = time.time_ns()
        with open(os.path.join(args.dir, f"checkpoint.{rank}"), "wb") as file:
            file.write(grid.tobytes())
            file.flush()
            os.fsync(file.fileno())
        phase("checkpoint", epoch, begin)
    stop = world.allreduce(time.monotonic() - start >= args.seconds, MPI.LOR)
