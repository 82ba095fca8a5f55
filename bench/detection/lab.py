#!/usr/bin/python3
"""Real jobs in the laboratory of tests/lab, healthy and with one fault each: does the report say what was done?

  lab.py --build BUILD --out DIR [--runs 3] [--scenarios all|none|GROUP|loss1,stop] [--workloads all|cnn-train,...]
         [--seconds 60|60-3600] [--fault-seconds 12|10-60] [--nodes N|1-3] [--stack] [--seed 1] [--jobs 1]
         [--outside 0.1] [--steal 1] [--repeats 2]
  lab.py --build BUILD --out DIR --healthy 42 --disturbed 10 --scenarios named --seconds 150 --fault-seconds 10-60
                                                the campaign: N healthy runs over all workloads, M of each fault
  lab.py --build BUILD --out DIR --healthy 100 --scenarios none --seconds 60-3600 --nodes 1-3 --jobs 2
                                                healthy jobs only, two at a time on cpus of their own
  lab.py --build BUILD --out DIR --stack --nodes 3 --workloads accelerator-train,deep-train --scenarios stack
         --disturbed 10 --healthy 40            calls into the software stack are counted in all runs; three ranks
                                                that mostly wait for a device, so that two cpus are enough
  lab.py --build BUILD --out DIR --again        judges what is recorded there with the present `reveal report`

Every workload runs healthy --runs times; every scenario runs --runs times, each time with a workload drawn from those
it makes sense for; a range of --fault-seconds is drawn from, too. Groups of scenarios have a name (GROUPS in
tests/lab/scenario_table.py). What others took from the machine during a run is measured; a run with more than --outside
cpus or --steal percent is set aside and repeated with the same seed, and not judged if it stays so (--keep judges it,
and says so: such figures are no result). An interrupted campaign goes on where it was. Nothing is tuned here: thresholds
are those of the report, the seeds are printed, and a run is judged by these rules:

  found    a finding, or notice, of the report overlaps the fault with an intersection over union of 0.1 or more
  first    node (where not all are touched), subsystem ("also": one the fault truly touches) and rule of the report's
           first finding or notice, if it overlaps at all
  named    of a fault on one node: a finding or notice that overlaps names this node, and not all of them. There is one
           rank on each node, so that this is the late rank
  IoU      of the first finding's best interval with the fault; 0 if it does not overlap; median, and runs with .5 or
           more
  onset    between its begin and the fault's; median of those that overlap, and runs with at most 5 s
  all      found, node and subsystem ("also") first, IoU .5 or more and onset within 5 s: the run counts as explained;
           of several faults at once, each rule must have a finding that overlaps
  live     where ranks hang: `reveal watch` beside the job published it within 15 s of the fault's begin, with that
           node; median of the seconds
  cost     the first finding's seconds against those that the job lost by its own log: the epochs that overlap the fault
           against the others, where there are four of these, half of them differ by less than a fifth, and 1 s or more
           was lost; median of the quotients, and runs within 25 %
  false    findings (warning or worse), and notices, in a run without a fault
Of a scenario whose rule only remarks (info), remarks are looked at instead."""
import argparse
import collections
import json
import math
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
from datetime import datetime

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests/lab"))
sys.dont_write_bytecode = True
import scenario as lab  # noqa: E402
from faults import Unavailable  # noqa: E402
from scenario_table import GROUPS, SCENARIOS  # noqa: E402

FINDINGS, REMARKS = ("warning", "critical"), ("info",)
REPORTED = ("notice", *FINDINGS)
LEAST_IOU, MOST_ONSET, MOST_LIVE = 0.5, 5.0, 15.0
LEAST_EPOCHS, STEADY, LEAST_LOST, MOST_ERROR = 4, 0.2, 1.0, 0.25  # of the cost


def seconds_of(stamp) -> float:
    if isinstance(stamp, (int, float)):
        return float(stamp)
    return datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()


def overlap(finding: dict, truth: dict) -> tuple[float, float | None]:
    """The best IoU of its intervals with the fault, and how much later it begins."""
    begin, end, best = truth["begin_utc_ns"] / 1e9, truth["end_utc_ns"] / 1e9, (0.0, None)
    for span in finding["intervals"]:
        b, e = seconds_of(span["begin"]), seconds_of(span["end"])
        iou = max(0.0, min(e, end) - max(b, begin)) / (max(e, end) - min(b, begin))
        best = max(best, (iou, b - begin), key=lambda pair: pair[0])
    return best


def lost_seconds(folder: pathlib.Path, truth: dict) -> float | None:
    """What the fault cost the rank that it cost most; nothing where the job's log cannot tell."""
    begin, end, epochs = truth["begin_utc_ns"], truth["end_utc_ns"], collections.defaultdict(list)
    log = folder / "phases.jsonl"
    if not log.exists():  # a recording that was kept
        return None
    for line in log.read_text().splitlines():
        phase = json.loads(line)
        if phase["epoch"] > 0:
            epochs[phase["rank"], phase["epoch"]].append(phase)
    lost = {}
    for rank in {rank for rank, _ in epochs}:
        spans = [(min(p["begin_utc_ns"] for p in phases), max(p["end_utc_ns"] for p in phases))
                 for (of, _), phases in epochs.items() if of == rank]
        inside = [(e - b) / 1e9 for b, e in spans if b < end and e > begin]
        usual = [(e - b) / 1e9 for b, e in spans if b >= end or e <= begin]
        if not inside or len(usual) < LEAST_EPOCHS:
            return None
        low, middle, high = statistics.quantiles(usual, n=4)
        if high - low > STEADY * middle:
            return None
        lost[rank] = sum(inside) - middle * len(inside)
    worst = max(lost.values(), default=0)
    return round(worst, 2) if worst >= LEAST_LOST else None


def names_node(finding: dict, node: str, nodes: int) -> bool:
    """The node, and not all of the job's."""
    return node in finding["nodes"] and len(set(finding["nodes"])) < nodes


def live(truth: dict) -> dict:
    """What `reveal watch` published of a hang while the job ran; empty where none ran."""
    if "hangs" not in truth:
        return {}
    after = [hang | {"seconds": (hang["came_utc_ns"] - truth["begin_utc_ns"]) / 1e9} for hang in truth["hangs"]]
    first = next((hang for hang in after if hang["seconds"] >= 0), None)
    if first is None:
        return {"live_seconds": None, "live": False}
    # It also names those that wait.
    waited_for = re.search(rf" for \S+ on {truth['node']}\b|; on {truth['node']}, a signal", first["text"]) is not None
    return {"live_seconds": round(first["seconds"], 1), "live": first["seconds"] <= MOST_LIVE and waited_for}


def judge(build: pathlib.Path, folder: pathlib.Path) -> dict:
    truth = json.loads((folder / "truth.json").read_text())
    done = subprocess.run([build / "bin/reveal", "report", folder / "job"], capture_output=True, text=True)
    if done.returncode != 0:
        return {"truth": truth, "error": done.stderr.strip()}
    report = json.loads((folder / "job/report.json").read_text())
    return verdict(truth, report, None if truth["rule"] is None else lost_seconds(folder, truth))


def verdict(truth: dict, report: dict, lost: float | None) -> dict:
    """`lost`: what the fault cost the job by its own log."""
    shown = [f for f in report["findings"] if f["severity"] in REPORTED]
    reported = [f for f in report["findings"] if f["severity"] in REMARKS] if truth.get("remark") else shown
    result = {"truth": truth, "status": report["verdict"]["status"], "rules": [f["id"] for f in reported],
              "findings": sum(f["severity"] in FINDINGS for f in shown),
              "notices": sum(f["severity"] not in FINDINGS for f in shown)}
    if truth["rule"] is None:
        return result
    hits = [f for f in reported if overlap(f, truth)[0] >= 0.1]
    first = reported[0] if reported else None
    iou, onset = overlap(first, truth) if first else (0.0, None)
    says = lambda key, *right: iou > 0 and first[key] in right
    answer = {
        "found": bool(hits), "as_finding": any(f["severity"] in FINDINGS for f in hits), "iou": round(iou, 3),
        "onset": None if onset is None or iou < 0.1 else round(onset, 2),
        "choice": truth["nodes_touched"] != truth["nodes"],
        "node": iou > 0 and bool(set(first["nodes"][:1]) & set(truth["nodes_touched"])),
        "subsystem": says("subsystem", truth["subsystem"]),
        "also": says("subsystem", truth["subsystem"], *truth["also"]),
        "named": any(names_node(f, truth["node"], len(truth["nodes"])) for f in hits),
        "rule": says("id", truth["rule"], *truth.get("or_rules", ()), *truth.get("more_rules", ())),
        "each": {truth["rule"], *truth.get("more_rules", ())} <= {f["id"] for f in hits},
        "first": first and first["id"],
        "led_to": sorted({f["id"] for f in report["findings"] if first and f.get("caused_by") == first["id"]}),
        "runner_up": first and (first.get("runner_up") or {}).get("id")}
    told = first["impact"].get("seconds") if iou >= 0.1 else None
    answer["lost"] = lost
    answer["told"] = None if told is None else round(told, 2)
    answer["cost"] = told / lost if told is not None and lost is not None else None
    answer["cost_right"] = answer["cost"] is not None and abs(answer["cost"] - 1) <= MOST_ERROR
    answer["near"] = answer["iou"] >= LEAST_IOU
    answer["prompt"] = answer["onset"] is not None and abs(answer["onset"]) <= MOST_ONSET
    right_node = answer["node"] or not answer["choice"]
    both = answer["each"] or not truth.get("more_rules")
    answer["all"] = all((answer["found"], right_node, answer["also"], answer["near"], answer["prompt"], both))
    return result | answer | live(truth)


def plan(args) -> list[tuple[str, str, int]]:
    """Scenario, workload and seed of every run; depends on nothing but the arguments."""
    count = len(args.workloads)
    healthy = args.runs * count if args.healthy is None else args.healthy
    disturbed = args.runs if args.disturbed is None else args.disturbed
    rounds = max(disturbed if args.scenarios else 0, -(-healthy // max(1, count)))
    runs = []
    for seed in range(args.seed, args.seed + rounds):
        left = healthy - (seed - args.seed) * count
        runs += [("healthy", workload, seed) for workload in args.workloads[:max(0, left)]]
        for name in args.scenarios if seed - args.seed < disturbed else ():
            fit = [workload for workload in args.workloads if lab.suits(workload, name)]
            if fit:
                runs.append((name, random.Random(f"{name} {seed}").choice(fit), seed))
            elif seed == args.seed:
                print(f"lab: {name}: none of these workloads suits it")
    return runs


def is_clean(args, truth: dict) -> bool:
    allowed = args.outside + SCENARIOS[truth["scenario"]].outside
    return truth["machine"]["outside_cpus"] <= allowed and truth["machine"]["steal_percent"] <= args.steal


def record_in_parallel(args):
    """As many copies of ourselves as there are to be jobs at once, each with cpus of its own and its part of the runs."""
    cpus = sorted(os.sched_getaffinity(0))
    if args.jobs > len(cpus):
        sys.exit(f"lab: {args.jobs} jobs at once need as many cpus; there are {len(cpus)}")
    each, copies = len(cpus) // args.jobs, []
    try:
        for part in range(args.jobs):
            own = ",".join(map(str, cpus[part * each:(part + 1) * each]))
            copies.append(subprocess.Popen(["taskset", "-c", own, sys.executable, *sys.argv, "--part",
                                            f"{part}/{args.jobs}"]))
        for copy in copies:
            copy.wait()
    finally:
        for copy in copies:
            copy.terminate()
            copy.wait()


def set_aside(folder: pathlib.Path, why: str):
    earlier = len(list(folder.parent.glob(folder.name + ".*")))
    folder.rename(folder.with_name(f"{folder.name}.{why}{earlier}"))


def record(args, name: str, workload: str, seed: int) -> pathlib.Path | None:
    """One run, repeated while others disturb it."""
    folder = args.out / f"{name}-{workload}-{seed}"
    for _ in range(args.repeats + 1):
        if not (folder / "truth.json").exists():
            if folder.exists():
                set_aside(folder, "cut")
            draw = random.Random(f"{name} {seed} lasts")
            lasts, logarithms = draw.uniform(*args.fault_seconds), [math.log(limit) for limit in args.seconds]
            draw = random.Random(f"{name} {workload} {seed}")
            seconds, nodes = math.exp(draw.uniform(*logarithms)), SCENARIOS[name].nodes
            if args.nodes and (name == "healthy" or args.nodes[0] == args.nodes[1]):
                nodes = draw.randint(*map(int, args.nodes))
            try:
                lab.run_once(name, workload, args.build, folder, nodes, seconds, lasts, seed, args.stack)
            except (Unavailable, RuntimeError, subprocess.TimeoutExpired) as reason:
                print(f"lab: {folder.name}: no run: {reason}", flush=True)
                return None
        truth = json.loads((folder / "truth.json").read_text())
        machine, clean = truth["machine"], is_clean(args, truth)
        print(f"lab: {folder.name}: exit {truth['exit_status']}, others {machine['outside_cpus']} cpus, steal "
              f"{machine['steal_percent']} %{'' if clean else ': contaminated'}", flush=True)
        if clean or args.keep:
            return folder
        set_aside(folder, "contaminated")
    return None


def recorded_before(args, name: str, workload: str, seed: int) -> pathlib.Path | None:
    folder = args.out / f"{name}-{workload}-{seed}"
    return folder if (folder / "truth.json").exists() else None


def table(rows: list[list]):
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(rows[0]))]
    for number, row in enumerate(rows):
        print("| " + " | ".join(str(cell).ljust(width) for cell, width in zip(row, widths)) + " |")
        if number == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")


def median(values: list[float]) -> str:
    return f"{statistics.median(values):.2f}" if values else "-"


def summary(results: list[dict]):
    good = [r for r in results if "error" not in r]
    healthy, faulty = {}, {}
    for result in good:
        truth = result["truth"]
        groups = healthy if truth["rule"] is None else faulty
        groups.setdefault(truth["workload" if truth["node"] is None else "scenario"], []).append(result)
    if healthy:
        rows = [["healthy workload or look-alike", "runs", "nodes", "lasts s", "too short to say", "false findings",
                 "runs with one", "false notices", "which", "seeds"]]
        for name, group in [*sorted(healthy.items()), ("all", [r for g in healthy.values() for r in g])]:
            which = sorted({rule for r in group for rule in r["rules"]})
            rows.append([name, len(group), span_of(len(r["truth"]["nodes"]) for r in group),
                         span_of(r["truth"]["machine"]["seconds"] for r in group),
                         sum(r["status"] == "insufficient_data" for r in group),
                         sum(r["findings"] for r in group), sum(r["findings"] > 0 for r in group),
                         sum(r["notices"] for r in group), ",".join(which) or "-",
                         ",".join(str(r["truth"]["seed"]) for r in group) if name != "all" else ""])
        table(rows)
        print()
    if faulty:
        rows = [["fault", "runs", "found", "as finding", "right node first", "named",
                 "right subsystem first (also)", "right rule first", "IoU (.5 or more)", "onset error s (5 or less)",
                 "cost (within 25 %)", "all of it", "live s (within 15)", "runner-up", "lasts s", "seeds"]]
        for name, group in [*sorted(faulty.items()), ("all", [r for g in faulty.values() for r in g])]:
            of = lambda key, among=group: f"{sum(bool(r[key]) for r in among)}/{len(among)}" if among else "-"
            seeds = [f"{r['truth']['seed']}:{r['truth']['workload']}" for r in group] if name != "all" else []
            rows.append([name, len(group), of("found"), of("as_finding"),
                         of("node", one_node := [r for r in group if r["choice"]]), of("named", one_node),
                         f"{of('subsystem')} ({of('also')})", of("rule"),
                         f"{median([r['iou'] for r in group])} ({of('near')})",
                         f"{median([abs(r['onset']) for r in group if r['onset'] is not None])} ({of('prompt')})",
                         f"{median([r['cost'] for r in group if r['cost'] is not None])} "
                         f"({of('cost_right', [r for r in group if r['lost'] is not None])})",
                         of("all"), live_of(group), most_frequent(r["runner_up"] for r in group),
                         span_of(lasting(r["truth"]) for r in group), ",".join(seeds)])
        table(rows)
    for result in results:
        if "error" in result:
            truth = result["truth"]
            print(f"no report: {truth['scenario']}-{truth['workload']}-{truth['seed']}: {result['error']}")


def live_of(group: list[dict]) -> str:
    watched = [r for r in group if "live" in r]
    seconds = median([r["live_seconds"] for r in watched if r["live_seconds"] is not None])
    return f"{seconds} ({sum(r['live'] for r in watched)}/{len(watched)})" if watched else "-"


def lasting(truth: dict) -> float:
    return (truth["end_utc_ns"] - truth["begin_utc_ns"]) / 1e9


def span_of(values) -> str:
    values = list(values)
    return "-".join(dict.fromkeys(f"{value:.0f}" for value in (min(values), max(values))))


def most_frequent(names) -> str:
    counted = collections.Counter(name for name in names if name)
    return counted.most_common(1)[0][0] if counted else "-"


def numbers(text: str) -> tuple[float, float]:
    first, _, last = text.partition("-")
    return float(first), float(last or first)


def names(text: str, known) -> list[str]:
    wanted = [] if text == "none" else list(known) if text == "all" else text.split(",")
    if unknown := [name for name in wanted if name not in known]:
        sys.exit(f"lab: no such thing: {', '.join(unknown)}; there are {', '.join(known)}")
    return wanted


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--healthy", type=int, help="healthy runs in all (default: --runs of each workload)")
    parser.add_argument("--disturbed", type=int, help="runs of each scenario (default: --runs)")
    parser.add_argument("--scenarios", default="all")
    parser.add_argument("--workloads", default="all")
    parser.add_argument("--seconds", type=numbers, default="60")
    parser.add_argument("--fault-seconds", type=numbers, default="12")
    parser.add_argument("--nodes", type=numbers, help="default: what each scenario is meant for")
    parser.add_argument("--stack", action="store_true", help="count calls and training steps in every run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--outside", type=float, default=0.1, help="cpus of others that make a run contaminated")
    parser.add_argument("--steal", type=float, default=1, help="percent of steal that makes a run contaminated")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=1, help="so many runs at once, on cpus of their own")
    parser.add_argument("--part", help=argparse.SUPPRESS)  # "0/2": every second run, to be recorded only
    parser.add_argument("--keep", action="store_true", help="judge contaminated runs, too: a smoke test, no result")
    parser.add_argument("--again", action="store_true")
    args = parser.parse_args()
    args.build, args.out = args.build.resolve(), args.out.resolve()
    args.scenarios = ",".join(GROUPS.get(args.scenarios, [args.scenarios]))
    args.scenarios = names(args.scenarios, [name for name in SCENARIOS if name != "healthy"])
    args.workloads = names(args.workloads, lab.WORKLOADS)
    without = 0
    if args.again:
        folders = [path.parent for path in sorted(args.out.glob("*/truth.json")) if "." not in path.parent.name]
        for folder in folders:  # what the nodes found then
            for found in (folder / "job").glob("*.summary.json"):
                found.unlink()
    else:
        if reason := lab.usable():
            print(f"skipped: {reason}")
            return 77
        for workload in list(args.workloads):
            if reason := lab.missing(workload, args.build):
                print(f"lab: no {workload}: {reason}")
                args.workloads.remove(workload)
        lab.catch_signals()
        args.out.mkdir(parents=True, exist_ok=True)
        runs = plan(args)
        if args.part:
            part, parts = map(int, args.part.split("/"))
            for run in runs[part::parts]:
                record(args, *run)
            return 0
        if args.jobs > 1:
            record_in_parallel(args)
            recorded = [recorded_before(args, *run) for run in runs]
        else:
            recorded = [record(args, *run) for run in runs]
        folders = [folder for folder in recorded if folder is not None]
        without = len(recorded) - len(folders)
    results = [judge(args.build, folder) for folder in folders]
    for folder, result in zip(folders, results):
        print(f"{folder.name}: {json.dumps({k: v for k, v in result.items() if k != 'truth'})}")
    dirty = sum(not is_clean(args, result["truth"]) for result in results)
    print(f"\n{len(results)} runs judged, of which {dirty} with more than {args.outside:g} cpus of others or "
          f"{args.steal:g} % steal{' (no result)' if dirty else ''}; {without} could not be had\n")
    if results:
        summary(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
