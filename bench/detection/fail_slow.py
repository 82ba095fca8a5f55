#!/usr/bin/python3
"""Training jobs whose steps take 10 to 50 % longer for a while: does the report of the job find it, and where?

  fail_slow.py --build BUILD --out DIR [--slow 34] [--untouched 40] [--parallel 3] [--seed 1] [--longest 60]
               [--workloads accelerator-train]
  fail_slow.py --build BUILD --out DIR --again     judges what is recorded there with the present `reveal report`

Each job of the laboratory (tests/lab) that is made slow has three such intervals, one of each kind, in random order, on a
random rank, between 10 s and --longest long, with at least 20 s between two of them:

  compute  the rank computes longer in each step (accelerator-train: waits longer for its device)
  link     the switch port of its node has a lower rate
  input    its data loader takes longer than a step for each batch

The truth is the job's own log of its backward passes: by how much the median step of the interval was longer than that of
all steps outside of such intervals. An interval whose steps were less than 10 % or more than 60 % longer is not judged;
the table says how many there were. One is

  found    if a finding or notice overlaps it with an intersection over union of .1 or more
  located  if such a finding names the node of that rank, or one of its ranks, and not all; a slow link also, where it
           says that the ranks exchanged data more slowly, or waited for each other, and none of them was late

The report is compared with change points of the steps' durations (change_points.py), by the same rules.
"""
import argparse
import collections
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests/lab"))
sys.dont_write_bytecode = True
import faults  # noqa: E402
import scenario as lab  # noqa: E402
from change_points import longer_steps  # noqa: E402
from lab import REPORTED, median, names_node, overlap, table  # noqa: E402

NODES = {"accelerator-train": 3}  # the others compute, and have a cpu for each rank
KINDS = ("compute", "link", "input")
CALM, PAUSE = 40, 20  # seconds before the first interval, and at least between two
LEAST, MOST = 0.10, 0.60  # growth of the median step that is judged
LEAST_IOU = 0.1


def start_job(args, folder: pathlib.Path, workload: str, seconds: float, seed: int) -> lab.Lab:
    folder.mkdir(parents=True)
    return lab.Lab(args.build, folder, NODES.get(workload, 2), workload, seconds, seed, "fail-slow", stack=True)


def logged_steps(folder: pathlib.Path, nodes: int) -> list[list[float]]:
    """By rank: the begin of each backward pass, in seconds of the steady clock."""
    return [[ns / 1e9 for ns in json.loads((folder / f"steps.{rank}").read_text())] for rank in range(nodes)]


def end_of(job: lab.Lab, seconds: float):
    deadline = time.monotonic() + seconds
    for process in job.jobs:
        process.wait(timeout=max(1.0, deadline - time.monotonic()))
        if process.returncode != 0:
            raise RuntimeError(f"the job exited with {process.returncode}: {(job.out / 'job.log').read_text()[-600:]}")


def calibrate(args, workload: str) -> dict:
    """What a step of this workload is on this machine, beside the jobs that run at the same time: milliseconds, and
    bytes to each node."""
    name = f"calibration-{workload}-{args.part.replace('/', '-of-')}"
    file = args.out / f"{name}.json"
    if not file.exists():
        folder = args.out / f"{name}.run"
        subprocess.run(["rm", "-rf", folder], check=True)
        with start_job(args, folder, workload, 25, 1) as job:
            job.start()
            job.wait_until_prepared()
            end_of(job, 120)
            received = job.network_of(0)["net.rx_bytes"]
        begins = logged_steps(folder, job.count)[0]
        paces = [b - a for a, b in zip(begins, begins[1:])]
        file.write_text(json.dumps({"step_ms": 1e3 * statistics.median(paces), "bytes": received / len(begins)}))
    return json.loads(file.read_text())


def slow_interval(job: lab.Lab, kind: str, victim: int, growth: float, usual: dict):
    """Enters what makes the steps so much longer."""
    more = growth * usual["step_ms"]
    if kind == "link":
        return faults.shaper(job.switch, f"p{victim}", 8e-3 * usual["bytes"] / more, "128kb", "64mb")
    if kind == "input":
        return faults.ill(job, victim, f"input {usual['step_ms'] + more:.2f}")
    return faults.ill(job, victim, f"{'wait' if job.workload in NODES else 'compute'} {more:.2f}")


def run_slow(args, folder: pathlib.Path, workload: str, seed: int):
    """One job with three slow intervals."""
    draw = random.Random(f"{workload} {seed}")
    usual = calibrate(args, workload)
    kinds = list(KINDS)
    draw.shuffle(kinds)
    plan = [(kind, draw.randrange(NODES.get(workload, 2)), draw.uniform(0.12, 0.5),
             math.exp(draw.uniform(math.log(10), math.log(args.longest))), PAUSE + draw.uniform(0, 15)) for kind in kinds]
    seconds = CALM + sum(lasts + pause for *_, lasts, pause in plan)
    intervals = []
    lab.adopt_orphans()
    machine = lab.Machine()
    with start_job(args, folder, workload, seconds, seed) as job:
        job.longest = args.longest + 5
        job.start()
        job.wait_until_prepared()
        job.wait(time.monotonic() + CALM)
        for kind, victim, growth, lasts, pause in plan:
            with slow_interval(job, kind, victim, growth, usual) as counters:
                begin = time.monotonic(), time.time_ns()
                whole = job.wait(time.monotonic() + lasts)
                end = time.monotonic(), time.time_ns()
            intervals.append({"kind": kind, "node": f"node{victim}", "rank": victim, "drawn": round(growth, 3),
                              "begin": begin[0], "end": end[0], "begin_utc_ns": begin[1], "end_utc_ns": end[1],
                              "whole": whole, "counters": counters})
            job.wait(time.monotonic() + pause)
        end_of(job, 2 * seconds + 60)
    lab.wait_for_orphans()
    write_truth(folder, workload, seed, job.count, intervals, machine)


def run_untouched(args, folder: pathlib.Path, workload: str, seed: int):
    draw = random.Random(f"untouched {workload} {seed}")
    lab.adopt_orphans()
    machine = lab.Machine()
    with start_job(args, folder, workload, draw.uniform(60, 100), seed) as job:
        job.start()
        job.wait_until_prepared()
        end_of(job, 400)
    lab.wait_for_orphans()
    write_truth(folder, workload, seed, job.count, [], machine)


def write_truth(folder: pathlib.Path, workload: str, seed: int, nodes: int, intervals: list[dict], machine: lab.Machine):
    begins = logged_steps(folder, nodes)[0]
    paces = list(zip(begins, begins[1:]))
    calm = [b - a for a, b in paces if not any(a < i["end"] and b > i["begin"] for i in intervals)]
    for interval in intervals:
        inside = [b - a for a, b in paces if a >= interval["begin"] and b <= interval["end"]]
        interval["steps"] = len(inside)
        interval["growth"] = round(statistics.median(inside) / statistics.median(calm) - 1, 3) if inside else None
    truth = {"schema": "reveal.fail-slow/1", "workload": workload, "seed": seed, "nodes": nodes, "intervals": intervals,
             "steps": len(begins), "step_ms": round(1e3 * statistics.median(calm), 2), "machine": machine.so_far()}
    (folder / "truth.json.part").write_text(json.dumps(truth, indent=1))
    os.rename(folder / "truth.json.part", folder / "truth.json")


def plan_of(args) -> list[tuple[pathlib.Path, str, int]]:
    runs = [(f"slow-{args.workloads[i % len(args.workloads)]}-{args.seed + i}", args.workloads[i % len(args.workloads)],
             args.seed + i) for i in range(args.slow)]
    runs += [(f"untouched-{args.workloads[i % len(args.workloads)]}-{args.seed + i}",
              args.workloads[i % len(args.workloads)], args.seed + i) for i in range(args.untouched)]
    random.Random(args.seed).shuffle(runs)  # a campaign that is cut has some of both
    return [(args.out / name, workload, seed) for name, workload, seed in runs]


def record(args, folder: pathlib.Path, workload: str, seed: int):
    if (folder / "truth.json").exists():
        return
    subprocess.run(["rm", "-rf", folder], check=True)
    try:
        (run_slow if folder.name.startswith("slow") else run_untouched)(args, folder, workload, seed)
    except (faults.Unavailable, RuntimeError, subprocess.TimeoutExpired) as reason:
        print(f"fail_slow: {folder.name}: no run: {reason}", flush=True)
        return
    truth = json.loads((folder / "truth.json").read_text())
    told = ", ".join(f"{i['kind']} +{100 * (i['growth'] or 0):.0f} %" for i in truth["intervals"])
    print(f"fail_slow: {folder.name}: {truth['steps']} steps of {truth['step_ms']} ms, {told or 'untouched'}, "
          f"{truth['machine']}", flush=True)


def record_in_parallel(args):
    copies = [subprocess.Popen([sys.executable, *sys.argv, "--part", f"{part}/{args.parallel}"])
              for part in range(args.parallel)]
    try:
        for copy in copies:
            copy.wait()
    finally:
        for copy in copies:
            copy.terminate()
            copy.wait()


def is_located(finding: dict, interval: dict, nodes: int) -> bool:
    if names_node(finding, interval["node"], nodes):
        return True
    ranks = set(finding.get("instances", []))
    if f"rank{interval['rank']}" in ranks and len(ranks) < nodes:
        return True
    exchange = ("exchanged their data more slowly", "calls that wait for other ranks")
    return interval["kind"] == "link" and any(words in finding["sentence"] for words in exchange)


def judge_change_points(folder: pathlib.Path, truth: dict) -> int:
    """The number of its intervals that overlap none."""
    found = longer_steps(folder / "job")
    for one in found:
        one["beside"] = True
    for interval in truth["intervals"]:
        hits = []
        for one in found:
            both = min(one["end"], interval["end"]) - max(one["begin"], interval["begin"])
            iou = max(0.0, both) / (max(one["end"], interval["end"]) - min(one["begin"], interval["begin"]))
            if iou >= LEAST_IOU:
                hits.append((iou, one["late"]))
                one["beside"] = False
        right = [[interval["rank"]]] + [[]] * (interval["kind"] == "link")  # late ranks: none, where a link is slow
        interval["cut_found"], interval["cut_located"] = bool(hits), any(late in right for _, late in hits)
        interval["cut_iou"] = max((iou for iou, _ in hits), default=0.0)
    return sum(one["beside"] for one in found)


def judge(args, folder: pathlib.Path) -> dict:
    truth = json.loads((folder / "truth.json").read_text())
    subprocess.run([args.build / "bin/reveal", "report", folder / "job"], check=True, stdout=subprocess.DEVNULL)
    report = json.loads((folder / "job/report.json").read_text())
    shown = [f for f in report["findings"] if f["severity"] in REPORTED]
    used = set()
    for interval in truth["intervals"]:
        hits = [(overlap(f, interval), f) for f in shown if overlap(f, interval)[0] >= LEAST_IOU]
        used |= {f["id"] for _, f in hits} | {id(f) for _, f in hits}
        interval["judged"] = interval["growth"] is not None and LEAST <= interval["growth"] <= MOST and interval["whole"]
        interval["found"] = bool(hits)
        interval["located"] = any(is_located(f, interval, truth["nodes"]) for _, f in hits)
        best = max(hits, key=lambda hit: hit[0][0], default=((0.0, None), None))
        interval["iou"], interval["onset"] = best[0]
        interval["rules"] = sorted({f["id"] for _, f in hits})
        interval["seconds"] = interval["end"] - interval["begin"]
    beside = judge_change_points(folder, truth)
    return truth | {"name": folder.name, "others": sorted(f["id"] for f in shown if id(f) not in used), "cuts_beside": beside,
                    "sentences": [f["sentence"] for f in shown], "status": report["verdict"]["status"]}


def summary(results: list[dict]):
    judged = [i | {"workload": r["workload"]} for r in results for i in r["intervals"] if i["judged"]]
    drawn = sum(len(r["intervals"]) for r in results)
    print(f"\n{drawn} intervals, of which {drawn - len(judged)} are not judged (steps less than {LEAST:.0%} or more than "
          f"{MOST:.0%} longer, or the job ended)\n")
    of = lambda key, group: f"{sum(i[key] for i in group)}/{len(group)}"
    rows = [["steps longer by", "intervals", "found", "located", "IoU .5 or more", "median IoU", "median onset s",
             "change points: found", "located", "median IoU"]]
    groups = collections.OrderedDict()
    for i in sorted(judged, key=lambda i: (i["workload"], KINDS.index(i["kind"]))):
        groups.setdefault(f"{i['kind']}, {i['workload']}", []).append(i)
    for low, high in ((0.1, 0.2), (0.2, 0.3), (0.3, 0.6)):
        groups[f"{low:.0%} to {high:.0%}"] = [i for i in judged if low <= i["growth"] < high]
    for low, high in ((0, 20), (20, 40), (40, 1e9)):
        groups[f"for {low} to {high:g} s"] = [i for i in judged if low <= i["seconds"] < high]
    groups["all"] = judged
    for name, group in groups.items():
        rows.append([name, len(group), of("found", group), of("located", group),
                     f"{sum(i['iou'] >= .5 for i in group)}/{len(group)}", median([i["iou"] for i in group]),
                     median([abs(i["onset"]) for i in group if i["onset"] is not None]), of("cut_found", group),
                     of("cut_located", group), median([i["cut_iou"] for i in group])])
    table(rows)
    print()
    rows = [["jobs", "runs", "with a change point beside", "with a finding beside", "which"]]
    for name, group in (("slow", [r for r in results if r["intervals"]]),
                        ("untouched", [r for r in results if not r["intervals"]])):
        rows.append([name, len(group), sum(bool(r["cuts_beside"]) for r in group), sum(bool(r["others"]) for r in group),
                     ", ".join(f"{n} x {rule}" for rule, n in
                               collections.Counter(rule for r in group for rule in r["others"]).most_common()) or "-"])
    table(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--slow", type=int, default=34, help="jobs with three slow intervals each")
    parser.add_argument("--untouched", type=int, default=40)
    parser.add_argument("--parallel", type=int, default=3, help="jobs at a time; those that compute need one")
    parser.add_argument("--workloads", default="accelerator-train", help="from those of PyTorch that train, by name")
    parser.add_argument("--longest", type=float, default=60, help="seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.build, args.out, args.workloads = args.build.resolve(), args.out.resolve(), args.workloads.split(",")
    if not args.again:
        if reason := lab.usable():
            print(f"skipped: {reason}")
            return 77
        for workload in args.workloads:
            if reason := lab.missing(workload, args.build):
                print(f"skipped: no {workload}: {reason}")
                return 77
        lab.catch_signals()
        args.out.mkdir(parents=True, exist_ok=True)
        if args.part:
            part, parts = map(int, args.part.split("/"))
            for workload in args.workloads:
                calibrate(args, workload)
            for run in plan_of(args)[part::parts]:
                record(args, *run)
            return 0
        record_in_parallel(args)
    results = [judge(args, path.parent) for path in sorted(args.out.glob("*/truth.json"))]
    for result in results:
        print(json.dumps({key: result[key] for key in ("name", "intervals", "others", "sentences", "machine")}))
    summary(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
