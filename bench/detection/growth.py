#!/usr/bin/python3
"""How `reveal report` grows with nodes, hours and channels: time and peak memory.

  bench/detection/growth.py RECORDING [--bin DIR] [--keep FOLDER] [--sizes 1x0.1667x700,4x0.1667x1000] [--threads 1,2]

RECORDING is a trace of a real job (`reveal-run --no-report -- ...`) of two minutes or more; `tile_trace` makes the jobs
out of it. A size is nodes x hours x channels that change, at least. Prints wall and processor time, the largest resident
memory and both per node, hour and 1,000 channels in the trace: constant columns mean that the growth is linear. The machine should have
nothing else to do: processor time suffers less than wall time where it has."""
import argparse
import glob
import os
import subprocess
import sys
import tempfile
import time

import h5py

SIZES = ("1x0.1667x700,2x0.1667x700,4x0.1667x700,4x0.1667x1000,1x0.5x700,1x1x700,1x2x700,1x4x700,1x1x300,1x1x1400,"
         "16x1x700,1x24x700")


def channels_of(path):
    count = 0

    def visit(_, item):
        nonlocal count
        if isinstance(item, h5py.Dataset) and "kind" in item.attrs:
            count += item.shape[0]
    with h5py.File(path) as trace:
        trace.visititems(visit)
    return count


def run(command):
    """Wall and processor seconds, peak MB."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{command[0]}: status {status}")
    return time.monotonic() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recording")
    parser.add_argument("--bin", default="build/bin", metavar="DIR")
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--keep", metavar="FOLDER", help="keep the traces there and use them again")
    parser.add_argument("--threads", default="0", metavar="LIST", help="of the report; 0: as many as it takes by itself")
    options = parser.parse_args()
    print("| nodes | hours | channels, of which change | threads | wall s | cpu s | peak MB | "
          "cpu s per node, hour, 1,000 channels |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for size in options.sizes.split(","):
            nodes, hours, changing = size.split("x")
            job = os.path.join(options.keep or folder, size)
            if not glob.glob(job + "/*.h5"):
                subprocess.run([options.bin + "/tile_trace", options.recording, job, "--nodes", nodes, "--hours", hours,
                                "--channels", changing], check=True)
            channels = channels_of(glob.glob(job + "/*.h5")[0])
            for threads in options.threads.split(","):
                for old in glob.glob(job + "/*.json"):
                    os.remove(old)
                wall, cpu, peak = run([options.bin + "/reveal", "report", "--threads", threads, job])
                per = cpu / int(nodes) / float(hours) / channels * 1000
                print(f"| {nodes} | {float(hours):.3g} | {channels}, {changing} | {threads} | {wall:.1f} | {cpu:.2f} | "
                      f"{peak:.0f} | {per:.2f} |", flush=True)


if __name__ == "__main__":
    main()
