#!/usr/bin/python3
"""A real machine-learning job of Debian's PyTorch over gloo: one rank per process, as the environment of torchrun says
(RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT); BUCKET_MB is the size of its all-reduces.

  ddp.py --model mlp|narrow|deep|cnn|encoder|decoder|recommender --task train|infer|serve --seconds 60 --dir DIR
         --log phases.jsonl

train: epochs of loading from disk, steps with an all-reduce of the gradients, a checkpoint with fsync and an
evaluation; decoder trains a low-rank adaptation of frozen weights. infer: batches from disk without gradients. serve:
bursts of requests with pauses in between. Every phase is a line in the log, in UTC nanoseconds. With --steps, steps.RANK
beside the log has the begin of each backward pass, in nanoseconds of the steady clock.

A rank can be made ill while it runs: see illness.py."""
import argparse
import contextlib
import json
import math
import os
import queue
import random
import threading
import time

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from illness import Illness

WIDTH, CLASSES, TOKENS, LENGTH = 3 * 32 * 32, 10, 512, 48  # of a sample; a vocabulary; a sequence


class LowRank(nn.Module):
    """A frozen linear layer and its trained low-rank correction."""

    def __init__(self, size_in, size_out, rank=8):
        super().__init__()
        self.frozen = nn.Linear(size_in, size_out)
        self.frozen.requires_grad_(False)
        self.down, self.up = nn.Linear(size_in, rank, bias=False), nn.Linear(rank, size_out, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.frozen(x) + self.up(self.down(x))


class Decoder(nn.Module):
    """Causal attention blocks; only the low-rank corrections and the head are trained."""

    def __init__(self, width=192, blocks=3, heads=4):
        super().__init__()
        self.heads = heads
        self.tokens, self.places = nn.Embedding(TOKENS, width), nn.Embedding(LENGTH, width)
        self.tokens.requires_grad_(False)
        self.places.requires_grad_(False)
        self.blocks = nn.ModuleList(
            nn.ModuleDict({"qkv": LowRank(width, 3 * width), "out": LowRank(width, width),
                           "wide": LowRank(width, 4 * width), "narrow": LowRank(4 * width, width)})
            for _ in range(blocks))
        self.head = nn.Linear(width, TOKENS)

    def forward(self, tokens):
        batch, length = tokens.shape
        x = self.tokens(tokens) + self.places(torch.arange(length))
        mask = torch.full((length, length), -math.inf).triu(1)
        for block in self.blocks:
            q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                       for part in block["qkv"](nn.functional.layer_norm(x, x.shape[-1:])).chunk(3, -1))
            weights = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]) + mask).softmax(-1)
            x = x + block["out"]((weights @ v).transpose(1, 2).reshape(batch, length, -1))
            x = x + block["narrow"](nn.functional.gelu(block["wide"](nn.functional.layer_norm(x, x.shape[-1:]))))
        return self.head(x)


class Encoder(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.project = nn.Linear(WIDTH // 48, width)  # an image as 48 patches
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
        self.layers, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(width, CLASSES)

    def forward(self, x):
        return self.head(self.layers(self.project(x.view(len(x), 48, -1))).mean(1))


class Deep(nn.Module):
    """Many layers with few parameters each."""

    def __init__(self, width=48, blocks=48):
        super().__init__()
        self.first, self.head = nn.Linear(WIDTH, width), nn.Linear(width, CLASSES)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.ReLU()) for _ in range(blocks))

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


class Recommender(nn.Module):
    """A large embedding table, little arithmetic."""

    def __init__(self, rows=200_000, width=32):
        super().__init__()
        self.rows, self.table = rows, nn.EmbeddingBag(rows, width)
        self.table.requires_grad_(False)
        self.layers = nn.Sequential(nn.Linear(width, 256), nn.ReLU(), nn.Linear(256, CLASSES))

    def forward(self, x):
        return self.layers(self.table((x[:, :256].abs() * 1e6).long() % self.rows))


def make_model(name):
    if name == "mlp":
        return nn.Sequential(nn.Linear(WIDTH, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, CLASSES))
    if name == "narrow":
        return nn.Sequential(nn.Linear(WIDTH, 64), nn.ReLU(), nn.Linear(64, CLASSES))
    if name == "cnn":
        conv = lambda a, b: [nn.Conv2d(a, b, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        return nn.Sequential(nn.Unflatten(1, (3, 32, 32)), *conv(3, 16), *conv(16, 32), *conv(32, 64), nn.Flatten(),
                             nn.Linear(64 * 4 * 4, CLASSES))
    return {"deep": Deep, "encoder": Encoder, "decoder": Decoder, "recommender": Recommender}[name]()


def in_buckets(model, megabytes):
    # The first bucket has a size of its own, 1 MiB, which holds all the gradients of a small model.
    dist._DEFAULT_FIRST_BUCKET_BYTES = min(dist._DEFAULT_FIRST_BUCKET_BYTES, int(megabytes * (1 << 20)))
    return DistributedDataParallel(model, bucket_cap_mb=megabytes)


class Data:
    """A file of samples; read in batches by a thread, cold if asked for."""

    def __init__(self, path, megabytes, batch, seed, cold, illness):
        self.path, self.batch, self.cold, self.illness = path, batch, cold, illness
        rows = max(batch, int(megabytes * 1e6) // (4 * WIDTH))
        self.steps = rows // batch
        generator = np.random.default_rng(seed)
        with open(path, "wb") as file:
            for _ in range(self.steps):
                file.write(generator.standard_normal((batch, WIDTH), dtype=np.float32).tobytes())
            file.flush()
            os.fsync(file.fileno())

    def batches(self, slow=True):
        ready = queue.Queue(maxsize=2)

        def read():
            with open(self.path, "rb", buffering=0) as file:
                if self.cold:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                begin = time.monotonic()
                while values := file.read(self.batch * WIDTH * 4):
                    if slow:
                        time.sleep(max(0.0, begin + self.illness.batch_seconds - time.monotonic()))
                    begin = time.monotonic()
                    ready.put(torch.frombuffer(bytearray(values), dtype=torch.float32).view(-1, WIDTH))
            ready.put(None)

        threading.Thread(target=read, daemon=True).start()
        while (batch := ready.get()) is not None:
            yield batch


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="mlp", choices=["mlp", "narrow", "deep", "cnn", "encoder", "decoder",
                                                            "recommender"])
    parser.add_argument("--task", default="train", choices=["train", "infer", "serve"])
    parser.add_argument("--seconds", type=float, default=60, help="ends with the first epoch complete after so long")
    parser.add_argument("--dir", required=True)
    parser.add_argument("--log", required=True)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--data-mb", type=float, default=24)
    parser.add_argument("--checkpoint-mb", type=float, default=16)
    parser.add_argument("--accelerator", type=float, default=0, metavar="MS",
                        help="each step waits so long, as for a device that computes while the host is idle")
    parser.add_argument("--cold", action="store_true", help="drop the data from the page cache before each epoch")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", action="store_true", help="log the begin of each backward pass")
    args = parser.parse_args()
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))
    torch.manual_seed(args.seed)
    log = os.open(args.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def phase(name, epoch, begin, **more):
        line = {"rank": rank, "epoch": epoch, "phase": name, "begin_utc_ns": begin, "end_utc_ns": time.time_ns()} | more
        os.write(log, (json.dumps(line) + "\n").encode())

    begin = time.time_ns()
    os.makedirs(args.dir, exist_ok=True)
    illness = Illness(os.path.join(args.dir, f"ill.{rank}"))
    data = Data(os.path.join(args.dir, f"data.{rank}"), args.data_mb, args.batch, args.seed * 1000 + rank, args.cold,
                illness)
    if world > 1:
        dist.init_process_group("gloo")
    model = make_model(args.model)
    train = args.task == "train"
    if train:
        if world > 1:
            model = in_buckets(model, float(os.environ.get("BUCKET_MB", 25)))
        optimiser = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-3, momentum=0.9)
    phase("prepare", 0, begin)

    def loss_of(batch):
        time.sleep(args.accelerator * 1e-3)
        if args.model == "decoder":
            tokens = (batch[:, :LENGTH].abs() * 1e4).long() % TOKENS
            return nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        return nn.functional.cross_entropy(model(batch), (batch[:, 0] > 0).long())

    def agree_to_stop(epoch_end):
        stop = torch.tensor([float(epoch_end)])
        if world > 1:
            dist.all_reduce(stop)
        return stop.item() > 0

    pauses = random.Random(args.seed * 100 + rank)
    start, epoch, stop, begins = time.monotonic(), 0, False, []
    while not stop:
        epoch += 1
        begin, longest, waited = time.time_ns(), 0.0, 0.0
        asked = time.monotonic()
        for batch in data.batches():
            waited += time.monotonic() - asked
            step = time.monotonic()
            for left in reversed(range(illness.step())):
                if train:
                    with model.no_sync() if left and world > 1 else contextlib.nullcontext():
                        optimiser.zero_grad()
                        loss = loss_of(batch)
                        begins.append(time.clock_gettime_ns(time.CLOCK_MONOTONIC))
                        loss.backward()
                else:
                    with torch.no_grad():
                        loss_of(batch)
            if train:
                optimiser.step()
            longest = max(longest, time.monotonic() - step)
            if args.task == "serve" and pauses.random() < 0.25:  # bursts of four requests on average
                time.sleep(min(pauses.expovariate(4), 1))
            asked = time.monotonic()
        phase(args.task, epoch, begin, steps=data.steps, step_max_seconds=round(longest, 4),
              waited_for_data_seconds=round(waited, 4))
        if train:
            begin, path = time.time_ns(), os.path.join(args.dir, f"checkpoint.{rank}")
            with open(path + ".part", "wb") as file:
                rest = torch.zeros(int(args.checkpoint_mb * 2.5e5))
                torch.save({"epoch": epoch, "model": model.state_dict(), "rest": rest}, file)
                file.flush()
                os.fsync(file.fileno())
            os.rename(path + ".part", path)
            phase("checkpoint", epoch, begin)
            begin = time.time_ns()
            with torch.no_grad():
                for number, batch in enumerate(data.batches(slow=False)):
                    if number < max(1, data.steps // 8):
                        loss_of(batch)
            phase("evaluate", epoch, begin)
        stop = agree_to_stop(time.monotonic() - start >= args.seconds)
    if args.steps:
        with open(os.path.join(os.path.dirname(args.log), f"steps.{rank}"), "w") as file:
            json.dump(begins, file)
    if world > 1:
        dist.barrier()


if __name__ == "__main__":
    main()
