#!/usr/bin/python3
"""Memory and descriptors of a collector over hours, while processes, mounts and interfaces come and go around it.

  soak.py --build BUILD --out DIR [--seconds 7200] [--interval 10ms] [--every 20] [--forks 5 --mounts .5 --interfaces .5]

Needs root (mounts and interfaces of its own). At an interval of 10 ms, 2.4 hours have as many ticks as 24 hours at the
usual one. Prints, for the collector and the processes that it has started, resident memory of their own and descriptors:
first, last, largest, and the slope after a quarter of the time, with a 95 % interval from the slopes of eight pieces."""
import argparse
import os
import pathlib
import statistics
import subprocess
import time

CHURN = pathlib.Path(__file__).resolve().parent / "overhead/churn.py"
PIECES, STUDENT_8 = 8, 2.365  # t quantile .975 of 7 degrees of freedom


def status_of(pid: int) -> dict:
    fields = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    return {"KiB": int(fields["RssAnon"].split()[0]), "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
            "threads": int(fields["Threads"])}


def processes_of(directory: pathlib.Path) -> list[int]:
    """The collector first, then its children."""
    found = subprocess.run(["pgrep", "-f", f"reveal-collect .*{directory}/"], capture_output=True, text=True).stdout
    parents = {}
    for pid in map(int, found.split()):
        try:
            parents[pid] = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
    return sorted(parents, key=lambda pid: parents[pid] in parents)


def look(directory: pathlib.Path) -> dict:
    total = {"KiB": 0, "descriptors": 0, "threads": 0, "processes": 0}
    for pid in processes_of(directory):
        try:
            for name, value in status_of(pid).items():
                total[name] += value
            total["processes"] += 1
        except OSError:  # it ended
            continue
    return total


def slope(times: list[float], values: list[float]) -> float:
    middle, mean = statistics.fmean(times), statistics.fmean(values)
    return sum((t - middle) * (v - mean) for t, v in zip(times, values)) / sum((t - middle)**2 for t in times)


def slope_with_interval(times: list[float], values: list[float]) -> tuple[float, float]:
    """An hour's growth, from the differences of the means of neighbouring pieces: memory moves in steps, and the rests of
    a straight line are no noise."""
    size = len(times) // (PIECES + 1)
    means = [(statistics.fmean(times[i * size:(i + 1) * size]), statistics.fmean(values[i * size:(i + 1) * size]))
             for i in range(PIECES + 1)]
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) * 3600 for a, b in zip(means, means[1:])]
    return slope(times, values) * 3600, STUDENT_8 * statistics.stdev(slopes) / len(slopes)**0.5


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=7200)
    parser.add_argument("--interval", default="10ms")
    parser.add_argument("--every", type=float, default=20, help="seconds between two looks")
    parser.add_argument("--forks", type=float, default=5, help="a second")
    parser.add_argument("--mounts", type=float, default=0.5)
    parser.add_argument("--interfaces", type=float, default=0.5)
    args = parser.parse_args()
    directory = args.out.resolve() / "run"
    churns = [f"/usr/bin/python3 {CHURN} {kind} --rate {rate} --seconds {args.seconds}"
              for kind, rate in (("forks", args.forks), ("mounts", args.mounts), ("interfaces", args.interfaces)) if rate]
    # The collector starts outside of these namespaces, and finds those of the job.
    job = ["unshare", "--net", "--mount", "sh", "-c", " & ".join(churns) + " & wait; exit 7"]
    run = subprocess.Popen([args.build / "bin/reveal-run", "--quiet", "--no-report", "--output", directory, "--interval",
                            args.interval, "--node", "n1", "--", *job])
    times, rows = [], []
    begin = time.monotonic()
    while run.poll() is None:
        time.sleep(args.every)
        if run.poll() is None and time.monotonic() - begin < args.seconds:
            times.append(time.monotonic() - begin)
            rows.append(look(directory))
    print(f"{args.seconds:.0f} s at {args.interval}; the job's exit status {run.returncode} (7 expected); "
          f"trace {sum(file.stat().st_size for file in directory.glob('*.h5*')) / 1e6:.1f} MB")
    kept = [i for i, at in enumerate(times) if at > args.seconds / 4]
    if len(kept) < 4 * (PIECES + 1):
        raise SystemExit("too short for a slope")
    for name in rows[0]:
        values = [row[name] for row in rows]
        growth, error = slope_with_interval([times[i] for i in kept], [values[i] for i in kept])
        print(f"{name:12} first {values[0]}, last {values[-1]}, largest {max(values)}, "
              f"slope {growth:+.2f} an hour ({growth - error:+.2f} to {growth + error:+.2f})")


if __name__ == "__main__":
    main()
