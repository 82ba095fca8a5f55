#!/usr/bin/python3
"""The cost of a node with many cards: the collector with every probe, on this machine as it is and with 8 GPUs and 4
RDMA adapters more, in turn.

  many_cards.py --build BUILD [--seconds 30] [--rounds 3] [--warm-up 3] [--gpus 8] [--adapters 4] [--cards-only] [--stack]
                [--h100] [--programs BIN]

The GPUs answer by the double of NVIDIA's library (tests/doubles), all of its values and 18 links each; the adapters are
files in a mount namespace, whose traffic moves each tenth of a second. Needs root, for that. The job sleeps.

Prints the processor time of the collector and of its child processes as a share of one core, after a warm-up of some
seconds, and the time in each probe of the parent by its own measurement. The double reads a text file and is part of the
child that asks it: a library may cost more or less, in its driver above all. With --h100, each call spins as long as it
does on an H100, whose counters of traffic have 32 bits. Adapters answer from files of a plain file system."""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import h5py

SOURCE = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "tests/doubles"))
from cards import Cards, gpu_lines, unavailable  # noqa: E402

SHOWN = 10  # probes
# us of processor time by the key of the double's answer: the table of bench/overhead/README.md, "On a GPU", of a busy GPU.
# Calls that share a range there are taken to have its middle. The table lacks temperature, totals of memory errors and
# the link's generation: as the link's width. All other calls cost what the double costs.
H100 = {"utilization": 70, "memory_used": 70, "power": 70, "sm_clock": 70, "memory_clock": 70, "reasons": 70, "gpm": 290,
        "energy": 5900, "process_utilization": 2000, "samples1": 2000, "samples0": 600, "field74": 1100, "pcie_replays": 460,
        "pcie_width": 180, "pcie_generation": 180, "temperature": 180, "ecc_corrected": 180, "ecc_uncorrected": 180,
        "ecc_corrected_ever": 180, "ecc_uncorrected_ever": 180}
NARROW = ("field138", "field139", "field197", "field198")
H100_LINES = {f"spin.{key}": str(cost) for key, cost in H100.items()} | {f"{field}_narrow": "1" for field in NARROW} | {
    "ecc_corrected_ever": "0", "ecc_uncorrected_ever": "0", "gpm20": "100", "gpm21": "100", "gpm60": "100", "gpm61": "100"}


def family_of(pid):
    """A process and all that came from it."""
    parents = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def cpu_seconds(pid):
    """Of all threads of a process."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            total += int(task.read_text().split()[0])
        except OSError:
            continue
    return total / 1e9


def start(options, cards, folder):
    trace = folder / "trace.h5"
    command = [options.programs / "reveal-collect", "--output", trace, "--job", f"pid:{options.job}", "--gpu-library",
               options.build / "doubles/nvml_double.so" if cards else "/nowhere/libnvidia-ml.so.1",
               "--duration", f"{options.seconds + options.warm_up + 5:.0f}s", *(["--stack"] if options.stack else [])]
    lines = folder / "gpus.txt"
    lines.write_text(gpu_lines(options.gpus, process=str(options.job), process_memory="5000000000",
                               process_utilization="90", samples0=";".join(["600000"] * 10), samples1=";".join(["97"] * 6),
                               **(H100_LINES if options.h100 else {})))
    command = cards.command(command) if cards else list(map(str, command))
    return subprocess.Popen(command, env=os.environ | {"NVML_DOUBLE": str(lines)}), trace


def measured(options, with_cards):
    """Seconds of processor time of the parent and of its children, of each probe, and of the dearest child, per second."""
    with tempfile.TemporaryDirectory(prefix="reveal-cards-") as folder:
        folder = pathlib.Path(folder)
        cards = None
        if with_cards:
            cards = Cards(folder / "cards", options.gpus, options.adapters)
            cards.write()
        stop = threading.Event()

        def move():
            while cards and not stop.wait(0.1):
                for adapter in range(options.adapters):
                    cards.send(adapter, 1)

        mover = threading.Thread(target=move)
        mover.start()
        collector, trace = start(options, cards, folder)
        time.sleep(options.warm_up)
        pids = family_of(collector.pid)
        before = {pid: cpu_seconds(pid) for pid in pids}
        time.sleep(options.seconds)
        used = {pid: max(0, cpu_seconds(pid) - before[pid]) / options.seconds for pid in pids}
        status = collector.wait()
        stop.set()
        mover.join()
        if status != 0:
            sys.exit(f"many_cards: the collector ended with {status}")
        parent = used.pop(collector.pid)
        return parent, sum(used.values()), probe_times(trace), max(used.values())


def probe_times(path):
    """us in each second."""
    with h5py.File(path) as trace:
        names = trace["self/time_channels/instance"].asstr()[:]
        spent = trace["self/time"][:].clip(min=0)
        return {name: row.sum() / len(row) / 1000 for name, row in zip(names, spent) if name}


def middle(values):
    if not values:
        return "not measured"
    return f"{100 * statistics.median(values):.2f} ({100 * min(values):.2f} to {100 * max(values):.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--programs", type=pathlib.Path, help="those of another build; default: BUILD/bin")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=float, default=3,
                        help="with --h100, 14: what is dear rests only after the second request for it, 11 s after the start")
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--adapters", type=int, default=4)
    parser.add_argument("--cards-only", action="store_true", help="no runs without cards")
    parser.add_argument("--stack", action="store_true", help="also the probes that are off by default")
    parser.add_argument("--h100", action="store_true", help="GPUs that cost what an H100 costs")
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.programs = (options.programs or options.build / "bin").resolve()
    if why := unavailable():
        sys.exit(f"many_cards: {why}")
    with subprocess.Popen(["sleep", "infinity"]) as job:
        options.job = job.pid
        try:
            runs = {cards: [] for cards in (False, True)}
            for number in range(options.rounds):
                for cards in (False, True) if number % 2 == 0 else (True, False):
                    if cards or not options.cards_only:
                        runs[cards].append(measured(options, cards))
        finally:
            job.kill()
    print(f"{'% of a core':32} {'without':>24} {'with cards':>24}")
    for name, part in (("collector", lambda run: run[0]), ("its child processes", lambda run: run[1]),
                       ("the dearest of these", lambda run: run[3]), ("all", lambda run: run[0] + run[1])):
        print(f"{name:32} {middle([part(run) for run in runs[False]]):>24} {middle([part(run) for run in runs[True]]):>24}")
    probes = {cards: {name: statistics.median([run[2].get(name, 0) for run in runs[cards]] or [0]) for name in
                      {name for run in runs[cards] for name in run[2]}} for cards in runs}
    print(f"\n{'us in each second, by probe':32} {'without':>24} {'with cards':>24}")
    more = sorted(probes[True], key=lambda name: probes[False].get(name, 0) - probes[True][name])
    for name in more[:SHOWN]:
        print(f"{name:32} {probes[False].get(name, 0):24.0f} {probes[True][name]:24.0f}")


if __name__ == "__main__":
    main()
