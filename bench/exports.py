#!/usr/bin/python3
"""Time, memory and bytes of every format of `reveal export`.

  bench/exports.py JOB [--bin DIR] [--runs 3]

JOB is a job directory; the published one has 4 nodes and 10 minutes, made from a recording of 3 minutes:
  reveal-collect --duration 180s --output recording.h5
  tile_trace recording.h5 job --nodes 4 --hours 0.16667
A report is made first, because three of the formats need it. The shortest of the runs is printed; peak is the largest
resident memory."""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

FORMATS = {"csv": [], "parquet": [], "windows": [], "openmetrics": [], "perfetto": ["--whole-job"]}


def run(command, environment):
    """Wall and processor seconds, peak MB, bytes of output."""
    with tempfile.TemporaryFile() as out:
        begin = time.monotonic()
        process = subprocess.Popen(command, stdout=out, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        if status != 0:
            sys.exit(f"{' '.join(map(str, command))}: status {status}")
        return (time.monotonic() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6,
                os.fstat(out.fileno()).st_size)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", type=pathlib.Path)
    parser.add_argument("--bin", default="build/bin", metavar="DIR")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    reveal = f"{options.bin}/reveal"
    traces = sorted(options.job.glob("*.h5"))
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "XDG_STATE_HOME": home, "HOME": home}
        run([reveal, "report", "--no-history", options.job], environment)
        print(f"{len(traces)} nodes, traces of {sum(trace.stat().st_size for trace in traces) / 1e6:.2f} MB\n")
        print("| format | wall s | cpu s | peak MB | MB |\n|---|---|---|---|---|")
        for form, more in FORMATS.items():
            command = [reveal, "export", options.job, "--format", form, *more]
            wall, cpu, peak, size = min(run(command, environment) for _ in range(options.runs))
            print(f"| {form} | {wall:.2f} | {cpu:.2f} | {peak:.0f} | {size / 1e6:.2f} |", flush=True)


if __name__ == "__main__":
    main()
