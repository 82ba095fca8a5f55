#!/usr/bin/env python3
"""Real jobs with and without a real disturbance: what does the report say, and where is the truth?

lab.py --build DIR --out DIR [--workloads compile,forest] [--cases healthy,outsider:100,outsider:30] [--runs N]
       [--seconds 125] [--first SEED] [--cpu N]
lab.py --build DIR --out DIR --again     judge the recorded traces again with the present `reveal report`

Each run is `reveal-run --output OUT/... -- WORKLOAD`; a disturbance is `disturb`, started beside the job as an
outsider, that logs its own begin and end. The machine must be quiet: before each run the lab waits until other
processes use less than 3 % of a cpu.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent


def busy_seconds(cpu=None):
    with open("/proc/stat") as stat:
        line = next(line for line in stat if line.split()[0] == ("cpu" if cpu is None else f"cpu{cpu}"))
    user, nice, system, _, _, irq, softirq, steal = map(int, line.split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def wait_until_quiet(cpu, limit=0.03, patience=600):
    give_up = time.monotonic() + patience
    while time.monotonic() < give_up:
        before = busy_seconds(cpu)
        time.sleep(2)
        share = (busy_seconds(cpu) - before) / 2
        if share < limit:
            return True
    return False


def workload(name, seconds, build, parallel):
    if name == "compile":
        return ["bash", str(HERE / "compile.sh"), str(seconds), parallel]
    if name == "forest":
        return ["/usr/bin/python3", str(HERE / "forest.py"), str(seconds), parallel]
    if name == "training":
        return [str(build / "bin/training_job"), "--ranks", parallel, "--seconds", str(seconds)]
    if name == "stress":
        return ["stress-ng", "--quiet", "--cpu", "1", "--vm", "1", "--vm-bytes", "256M", "--timeout", f"{seconds}s"]
    sys.exit(f"lab: unknown workload {name}")


def run(args, name, case, seed):
    directory = args.out / f"{name}-{case.replace(':', '')}-{seed}"
    if (directory / "truth.jsonl").exists():
        return directory
    directory.mkdir(parents=True)
    wait_until_quiet(args.cpu)
    on_cpu = [] if args.cpu is None else ["taskset", "-c", str(args.cpu)]
    job = subprocess.Popen(
        on_cpu + [str(args.build / "bin/reveal-run"), "--output", str(directory / "job"), "--no-report", "--"]
        + workload(name, args.seconds, args.build, "2" if args.cpu is None else "1"), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    truth = directory / "truth.part"
    truth.write_text("")
    if case != "healthy":
        kind, share = case.split(":")
        subprocess.run([str(args.build / "bin/disturb"), "--kind", kind, "--share", share,
                        "--cpu", "random" if args.cpu is None else str(args.cpu),
                        "--seconds", "15", "--window", f"{args.seconds * .2:.0f}:{args.seconds * .7:.0f}",
                        "--seed", str(seed), "--log", str(truth)], check=True)
    status = job.wait()
    if status != 0:
        print(f"lab: {directory.name}: the job exited with {status}", file=sys.stderr)
    truth.rename(directory / "truth.jsonl")
    return directory


def judge(args, directory):
    report = subprocess.run([str(args.build / "bin/reveal"), "report", str(directory / "job")],
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if report.returncode != 0:
        return {"error": report.stderr.strip()}
    report = json.loads((directory / "job/report.json").read_text())
    result = {"status": report["verdict"]["status"], "primary": report["verdict"]["primary"], "iou": None, "onset": None,
              "findings": [f["id"] for f in report["findings"] if f["severity"] in ("warning", "critical")],
              "notices": [f["id"] for f in report["findings"] if f["severity"] in ("info", "notice")]}
    lines = [json.loads(line) for line in (directory / "truth.jsonl").read_text().splitlines() if line.strip()]
    if lines:
        begin = min(line["begin_utc_ns"] for line in lines if "begin_utc_ns" in line) / 1e9
        end = max(line["end_utc_ns"] for line in lines if "end_utc_ns" in line) / 1e9
        result["iou"], result["onset"] = 0.0, None
        for finding in report["findings"][:1]:
            for span in finding["intervals"]:
                b, e = seconds_of(span["begin"]), seconds_of(span["end"])
                overlap = max(0.0, min(e, end) - max(b, begin))
                iou = overlap / (max(e, end) - min(b, begin))
                if iou > result["iou"]:
                    result["iou"], result["onset"] = iou, b - begin
    return result


def seconds_of(stamp):
    if isinstance(stamp, (int, float)):
        return float(stamp)
    from datetime import datetime
    return datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--workloads", default="compile,forest")
    parser.add_argument("--cases", default="healthy,outsider:100,outsider:30")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seconds", type=int, default=125)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--cpu", type=int)
    parser.add_argument("--again", action="store_true")
    args = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    args.build, args.out = args.build.resolve(), args.out.resolve()

    cells = {}
    if args.again:
        for truth in sorted(args.out.glob("*/truth.jsonl")):
            name, case, _ = truth.parent.name.rsplit("-", 2)
            cells.setdefault((name, case), []).append(truth.parent)
    else:
        for seed in range(args.first, args.first + args.runs):
            for name in args.workloads.split(","):
                for case in args.cases.split(","):
                    cells.setdefault((name, case.replace(":", "")), []).append(run(args, name, case, seed))
    rows = []
    for (name, case), directories in sorted(cells.items()):
        results = [judge(args, directory) for directory in directories]
        for directory, result in zip(directories, results):
            print(f"{directory.name}: {json.dumps(result)}")
        good = [r for r in results if "error" not in r]
        found = [r for r in good if r["primary"] == "cpu.outsider"]
        numbers = lambda key, of: [r[key] for r in of if r[key] is not None]
        median = lambda values: f"{statistics.median(values):.2f}" if values else "-"
        rows.append([name, case, len(results), len(found), sum(bool(r["findings"]) for r in good),
                     sum(bool(r["notices"]) for r in good), median(numbers("iou", found)),
                     f"{min(numbers('iou', found)):.2f}" if numbers("iou", found) else "-",
                     median([abs(v) for v in numbers("onset", found)])])
    print(f"\n{'workload':10} {'case':12} {'runs':>4} {'primary cpu.outsider':>20} {'runs with a finding':>19} "
          f"{'runs with a notice':>18} {'IoU median':>10} {'IoU least':>9} {'onset s':>8}")
    for row in rows:
        print(f"{row[0]:10} {row[1]:12} {row[2]:4} {row[3]:20} {row[4]:19} {row[5]:18} {row[6]:>10} {row[7]:>9} {row[8]:>8}")


if __name__ == "__main__":
    main()
