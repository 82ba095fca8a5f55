#!/usr/bin/python3
"""A training with two ranks, whose pace `overhead.py slowdown --stack` measures: rank 0 prints when each step was done, in
nanoseconds of the steady clock, until it is killed.

  training.py encoder|deep|numpy

encoder and deep are models of tests/lab/ddp.py, trained by PyTorch over gloo; deep exchanges its gradients in many small
pieces. numpy is for machines without PyTorch: of its functions, only Python's own (gc, import) are in reveal's table."""
import gc
import os
import pathlib
import socket
import subprocess
import sys
import time

BUCKET_MB = {"encoder": 25, "deep": 0.02}
BATCH = {"encoder": 32, "deep": 8}


def steps_of_torch(name, rank, port):
    os.environ |= {"RANK": rank, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                   "GLOO_SOCKET_IFNAME": "lo"}
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/lab"))
    sys.dont_write_bytecode = True
    import torch
    import ddp
    torch.set_num_threads(1)
    torch.manual_seed(1)
    torch.distributed.init_process_group("gloo")
    model = ddp.in_buckets(ddp.make_model(name), BUCKET_MB[name])
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch, classes = torch.randn(BATCH[name], ddp.WIDTH), torch.randint(ddp.CLASSES, (BATCH[name],))
    while True:
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(batch), classes).backward()
        optimiser.step()
        yield


def other_rank(rank, port):
    """A connection to it."""
    if rank == "0":
        return socket.create_server(("127.0.0.1", int(port))).accept()[0]
    for _ in range(100):
        try:
            return socket.create_connection(("127.0.0.1", int(port)))
        except ConnectionRefusedError:
            time.sleep(0.1)
    sys.exit("training: the other rank is not there")


def steps_of_numpy(rank, port):
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    import numpy
    line, draw, number = other_rank(rank, port), numpy.random.default_rng(int(rank)), 0
    weights = [draw.standard_normal(shape, dtype=numpy.float32) / 32 for shape in ((512, 256), (256, 64))]
    batch, wanted = (draw.standard_normal((64, width), dtype=numpy.float32) for width in (512, 64))
    while True:
        hidden = numpy.maximum(batch @ weights[0], 0)
        error = (hidden @ weights[1] - wanted) / len(batch)
        gradients = [batch.T @ (error @ weights[1].T * (hidden > 0)), hidden.T @ error]
        own, received = b"".join(each.tobytes() for each in gradients), bytearray()
        if rank == "0":  # both at once would wait for each other
            line.sendall(own)
        while len(received) < len(own):
            received += line.recv(1 << 20) or sys.exit("training: the other rank has ended")
        if rank == "1":
            line.sendall(own)
        others, at = numpy.frombuffer(received, numpy.float32), 0
        for each, gradient in zip(weights, gradients):
            each -= 0.01 * (gradient + others[at:at + each.size].reshape(each.shape)) / 2
            at += each.size
        number += 1
        if number % 20 == 0:
            gc.collect()
        yield


def main():
    if len(sys.argv) == 2:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        command = [sys.executable, __file__, sys.argv[1]]
        subprocess.Popen([*command, "1", port], stdout=subprocess.DEVNULL)
        sys.exit(subprocess.call([*command, "0", port]))
    name, rank, port = sys.argv[1:]
    for _ in steps_of_numpy(rank, port) if name == "numpy" else steps_of_torch(name, rank, port):
        if rank == "0":
            print(time.monotonic_ns(), flush=True)


if __name__ == "__main__":
    main()
