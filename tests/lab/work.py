#!/usr/bin/python3
"""Everyday jobs, without PyTorch or MPI: one process per node (RANK, WORLD_SIZE and MASTER_ADDR as torchrun sets them),
which do not wait for each other, but for `flow`.

  work.py KIND --seconds 60 --dir DIR --log phases.jsonl [--seed 1]

Kinds are the functions below with a row in KINDS: each prepares itself up to its first `yield`; each further one is a
round. A process can be made ill: see illness.py."""
import argparse
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import socket
import sqlite3
import subprocess
import threading
import time
import zlib

import numpy as np

from illness import Illness

HERE = pathlib.Path(__file__).resolve().parent
THREADS = int(os.environ.get("OMP_NUM_THREADS", 1))
RANK, WORLD = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


def numbers(draw, megabytes):
    return np.random.default_rng(draw.randrange(1 << 30)).random(int(megabytes * 125_000))


def write(path, data, sync=False):
    with open(path, "wb") as file:
        file.write(data)
        if sync:
            file.flush()
            os.fsync(file.fileno())


def compile_files(folder, draw, seconds):
    script = HERE.parent.parent / "bench/lab/compile.sh"
    yield
    while True:
        subprocess.run(["bash", script, f"{max(2, int(seconds))}", str(THREADS)], check=False, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, env=os.environ | {"TMPDIR": str(folder)})
        yield


def sort(folder, draw, _seconds):
    """More than its memory: by runs on the disk."""
    with open(folder / "unsorted", "w") as file:
        for _ in range(150):
            file.writelines(f"{draw.getrandbits(96):024x}\n" for _ in range(10_000))
    yield
    while True:
        subprocess.run(["sort", "-S", "16M", "-T", folder, "-o", folder / "sorted", folder / "unsorted"], check=True)
        yield


def blas(_folder, draw, _seconds):
    a, b = (numbers(draw, 2).reshape(500, 500) for _ in range(2))
    yield
    while True:
        for _ in range(8):
            np.matmul(a, b)
        np.linalg.eigvalsh(a[:200, :200] + a[:200, :200].T)
        yield


def stencil(folder, draw, _seconds):
    grid, rounds = numbers(draw, 8).reshape(1000, 1000), 0
    yield
    while True:
        for _ in range(20):
            grid[1:-1, 1:-1] = 0.25 * (grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:])
        rounds += 1
        if rounds % 40 == 0:
            write(folder / "grid", grid.tobytes(), sync=True)
        yield


def checkpoint(folder, draw, _seconds):
    """Computes for some seconds, then writes its state and waits for the disk."""
    state = numbers(draw, 64)
    yield
    while True:
        end = time.monotonic() + 3
        while time.monotonic() < end:
            np.sqrt(state, out=state)
            state += 1.0
            yield
        write(folder / "state.part", state.tobytes(), sync=True)
        os.rename(folder / "state.part", folder / "state")


def copy(folder, draw, _seconds):
    """A tree of small files, again and again: names and attributes on a local disk."""
    for directory in range(20):
        (folder / "tree" / str(directory)).mkdir(parents=True)
        for file in range(60):
            write(folder / "tree" / str(directory) / str(file), draw.randbytes(draw.randrange(200, 20_000)))
    yield
    while True:
        shutil.copytree(folder / "tree", folder / "again")
        sum(path.stat().st_size for path in (folder / "again").rglob("*"))
        shutil.rmtree(folder / "again")
        yield


def sqlite(folder, draw, _seconds):
    base = sqlite3.connect(folder / "base")
    base.execute("create table runs (id integer primary key, name text, seconds real)")
    yield
    while True:
        with base:
            base.executemany("insert into runs (name, seconds) values (?, ?)",
                             [(f"job{draw.randrange(500)}", draw.random()) for _ in range(2000)])
        base.execute("select name, avg(seconds) from runs group by name order by 2").fetchall()
        with base:
            base.execute("delete from runs where id < (select max(id) - 100000 from runs)")
        yield


def compress(folder, draw, _seconds):
    """As many threads as it is told; zlib lets go of the interpreter."""
    text = b"".join(b"%d %d\n" % (draw.randrange(1000), i) for i in range(200_000))
    write(folder / "text", text)
    yield
    while True:
        threads = [threading.Thread(target=zlib.compress, args=(text, 6)) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        yield


def decode(tasks, ready):
    while (path := tasks.get()) is not None:
        values = np.frombuffer(zlib.decompress(path.read_bytes()), dtype=np.float64)
        ready.put(float(np.sort(values)[len(values) // 2]))


def loader(folder, draw, _seconds):
    """Two workers decode what one consumer computes with."""
    paths = [folder / f"sample{i}" for i in range(64)]
    for path in paths:
        write(path, zlib.compress(np.round(numbers(draw, 1), 2).tobytes(), 1))
    tasks, ready = multiprocessing.Queue(16), multiprocessing.Queue(16)
    workers = [multiprocessing.Process(target=decode, args=(tasks, ready), daemon=True) for _ in range(2)]
    for worker in workers:
        worker.start()
    weights = numbers(draw, 1)
    for _ in range(8):
        tasks.put(draw.choice(paths))
    yield
    while True:
        weights *= 1 - 1e-9 * ready.get()
        np.sort(weights)
        tasks.put(draw.choice(paths))
        yield


def service(folder, draw, _seconds):
    """Idle but for a request now and then."""
    yield
    while True:
        time.sleep(draw.expovariate(4))
        write(folder / "answer", zlib.compress(draw.randbytes(20_000)))
        yield


def bursts(_folder, draw, _seconds):
    """Two seconds of work in seven."""
    state = numbers(draw, 4)
    yield
    while True:
        end = time.monotonic() + 2
        while time.monotonic() < end:
            np.sort(state)
        time.sleep(5)
        yield


def stream(_folder, draw, _seconds):
    a, b = numbers(draw, 96), numbers(draw, 96)
    yield
    while True:
        np.add(a, b, out=a)
        np.multiply(b, 0.5, out=b)
        yield


def scan(folder, draw, _seconds):
    """Reads its file over and over: from memory, after the first time."""
    with open(folder / "file", "wb") as file:
        for _ in range(200):
            file.write(draw.randbytes(1 << 20))
        os.fsync(file.fileno())
    yield
    while True:
        with open(folder / "file", "rb", buffering=0) as file:
            while block := file.read(1 << 20):
                zlib.adler32(block)
                zlib.crc32(block)
        yield


def sink(server):
    while True:
        peer, _ = server.accept()
        threading.Thread(target=lambda: [None for _ in iter(lambda: peer.recv(1 << 16), b"")], daemon=True).start()


def flow(_folder, _draw, _seconds):
    """From every node to the first one, 20 MB/s each; a single node sends to itself."""
    if RANK == 0:
        server = socket.create_server(("", 5001))
        threading.Thread(target=sink, args=(server,), daemon=True).start()
    if RANK == 0 and WORLD > 1:
        yield
        while True:
            time.sleep(0.1)
            yield
    deadline = time.monotonic() + 20
    while True:
        try:
            peer = socket.create_connection((os.environ.get("MASTER_ADDR", "127.0.0.1"), 5001))
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    yield
    while True:
        try:
            peer.sendall(bytes(2_000_000))
        except OSError:  # the first node is done
            pass
        time.sleep(0.1)
        yield


def processes(folder, draw, _seconds):
    """A shell script's life: very many short processes."""
    write(folder / "list", b"".join(b"%d\n" % draw.randrange(1000) for _ in range(500)))
    yield
    while True:
        subprocess.run(["sh", "-c", "sort -n list | uniq -c | tail -n 3; for i in 1 2 3 4 5 6 7 8; do /bin/true; done"],
                       cwd=folder, stdout=subprocess.DEVNULL, check=True)
        yield


KINDS = {"compile": compile_files, "sort": sort, "blas": blas, "stencil": stencil, "checkpoint": checkpoint,
         "copy": copy, "sqlite": sqlite, "compress": compress, "loader": loader, "service": service, "bursts": bursts,
         "stream": stream, "scan": scan, "flow": flow, "processes": processes}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--dir", type=pathlib.Path, required=True)
    parser.add_argument("--log", required=True)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    begin, folder = time.time_ns(), args.dir / f"work.{RANK}"
    folder.mkdir(parents=True, exist_ok=True)
    rounds = KINDS[args.kind](folder, random.Random(f"{args.kind} {args.seed} {RANK}"), args.seconds)
    next(rounds)
    line = {"rank": RANK, "epoch": 0, "phase": "prepare", "begin_utc_ns": begin, "end_utc_ns": time.time_ns()}
    log = os.open(args.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(log, (json.dumps(line) + "\n").encode())
    illness, end = Illness(str(args.dir / f"ill.{RANK}")), time.monotonic() + args.seconds
    while time.monotonic() < end:
        for _ in range(illness.step()):
            next(rounds)


if __name__ == "__main__":
    main()
