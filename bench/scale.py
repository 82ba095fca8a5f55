#!/usr/bin/python3
"""How `reveal report` grows with the nodes of a job whose summaries are there: bytes, time and memory.

  bench/scale.py JOB [--bin DIR] [--nodes 16,256,1000,4000,10000] [--runs 1] [--parts 8] [--kinds 1] [--history 20]

JOB is the directory of a real job with one trace or a few (`reveal-run`, or `tile_trace --nodes 4` of a recording).
`reveal report` summarises them; each emulated node then gets a copy of one of these summaries under its own name, with
its own boot id and addresses, the node list of the whole job, and values that are some tenths of a percent off, beside a
link to the trace. Findings of single nodes are left out of nine copies in ten. The reports have no earlier runs.

With --history, each report is compared with so many earlier runs: records of the same run on the days before, with values
that are some tenths of a percent off, which count as healthy whatever was found in it. Not as root, for whom no history
is kept, and not for a job of an unknown command.

With --kinds 3, the nodes are of three kinds of hardware: racks of another model, whose other processors, links and
firmware are in all their facts, and which do less or more of everything. Printed are the findings, too: none may be
about a kind.

With --parts, each report is made a second time, from parts: `reveal merge-part` for each of them, one after the other,
because this machine has fewer cpus than a job has steps. Printed are the slowest part, the report from the parts, and
the larger memory of these; both reports must be the same."""
import argparse
import copy
import glob
import json
import os
import pathlib
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import zlib

VARIANTS = 64  # of each summary: as many different nodes as a statistic can tell apart
ALL_TRENDS = 64  # nodes of a job with the trends of all channels
DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"
SPREAD = 0.003
NAME, BOOT, ADDRESS = "@node@", "@boot@", "@address@"


def run(command, environment):
    """Wall and processor seconds, peak MB."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{command[0]}: status {status}")
    return time.monotonic() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6


def read(path):
    content = path.read_bytes()
    compressed = content[:1] == b"\x78"
    return json.loads(zlib.decompress(content) if compressed else content), compressed


def numbers(packed):
    """Of a text of five bits in each character, the lowest first; the sixth bit: more follow. None: missing."""
    number = shift = 0
    for character in packed:
        if character == "~":
            yield None
            continue
        digit = DIGITS.index(character)
        number |= (digit & 31) << shift
        shift += 5
        if digit < 32:
            yield number
            number = shift = 0


def text_of(number):
    if number is None:
        return "~"
    text = ""
    while number > 31:
        text += DIGITS[number & 31 | 32]
        number >>= 5
    return text + DIGITS[number]


def varied_blocks(packed, factor):
    """Exponent, least and differences from it, as postproc/peers/node_profile.cpp packs them."""
    if not packed:
        return packed
    exponent, least, *rest = numbers(packed)
    if least % 2:
        return packed  # it is negative
    moved = [None if one is None else round((least // 2 + one) * factor) for one in rest]
    least = min((one for one in moved if one is not None), default=0)
    return "".join(map(text_of, [exponent, 2 * least, *(None if one is None else one - least for one in moved)]))


def vary(profile, chance):
    if "columns" in profile:
        columns = profile["columns"]
        factors = [1 + chance.gauss(0, SPREAD) for _ in columns["means"]]
        columns["means"] = [float(f"{mean * factor:.4g}") for mean, factor in zip(columns["means"], factors)]
        columns["blocks"] = ",".join(map(varied_blocks, columns["blocks"].split(","), factors))
        return
    mean, blocks = map(profile["channel_columns"].index, ("mean", "blocks"))  # of version 1
    for row in profile["channels"]:
        factor = 1 + chance.gauss(0, SPREAD)
        row[mean] = float(f"{row[mean] * factor:.4g}")
        row[blocks] = [one if one is None else float(f"{one * factor:.4g}") for one in row[blocks]]


SPEEDS = [1, 0.75, 1.3, 0.6, 1.6]  # of the kinds, in everything that is measured
BY_KIND = ("cpu.", "firmware.", "machine.", "memory.", "numa.", "pci.")


def of_kind(node, kind):
    """Another model, and other values in whatever follows from that."""
    facts = node["profile"]["facts"]
    facts.setdefault("machine.model", "M")
    for key in facts:
        if key.startswith(BY_KIND):
            facts[key] += f" of model {kind}"
    columns = node["profile"]["columns"]
    columns["means"] = [float(f"{mean * SPEEDS[kind]:.4g}") for mean in columns["means"]]
    columns["blocks"] = ",".join(varied_blocks(blocks, SPEEDS[kind]) for blocks in columns["blocks"].split(","))


def own_trend_only(text):
    """The text of a node of which no report asks more; one without a finding has a short timeline, too."""
    node = json.loads(text)
    columns = node["profile"]["columns"]
    names = [""]
    for name in columns["names"].splitlines():
        names.append(names[-1][:DIGITS.index(name[0])] + name[1:])
    columns["trends"] = [trend for trend in columns["trends"] if names[trend[0] + 1] == "job.own_time"]
    node["profile"]["all_trends"] = False
    if not node["report"]["findings"]:
        for line in node["report"]["timeline"]:
            line["values"] = line["values"][::20]
    return json.dumps(node, separators=(",", ":"))


def variant(summary, healthy, chance, kind):
    """The text of a node like this one."""
    node = copy.deepcopy(summary)
    vary(node["profile"], chance)
    if kind is not None:
        of_kind(node, kind)
    node["boot_id"], node["addresses"] = BOOT, [ADDRESS]
    if healthy:
        node["report"]["findings"] = node["report"]["episodes"] = []
    return json.dumps(node, separators=(",", ":")).replace(f'"{summary["node"]}"', f'"{NAME}"')


def emulate(summaries, traces, folder, count, kinds):
    names = [f"n{index:05}" for index in range(1, count + 1)]
    folded = f"n[{names[0][1:]}-{names[-1][1:]}]"
    chance = random.Random(1)
    texts = []
    stride = -(-count // ALL_TRENDS)
    for summary, compressed in summaries:
        if compressed:
            summary["node_list"] = folded
        else:
            summary["expected_nodes"] = []
        texts.append([[variant(summary, number % 10 > 0, chance, kind if kinds > 1 else None)
                       for number in range(min(VARIANTS, count))] for kind in range(kinds)])
    listed = '"expected_nodes":[' + ",".join(f'"{name}"' for name in names) + "]"
    few = [[[own_trend_only(text) for text in one] if compressed else one for one in of_one]
           for of_one, (_, compressed) in zip(texts, summaries)]
    total = 0
    for index, name in enumerate(names):
        which = index % len(summaries)
        summary, compressed = summaries[which]
        alike = (few if index % stride else texts)[which][index * kinds // count]
        text = alike[index // len(summaries) % len(alike)]
        text = text.replace(NAME, name).replace(summary["trace"]["file"], name + ".h5")
        text = text.replace(BOOT, f"boot-{index}").replace(ADDRESS, f"10.{index >> 16}.{index >> 8 & 255}.{index & 255}")
        text = text.replace('"expected_nodes":[]', listed)
        content = zlib.compress(text.encode()) if compressed else text.encode()
        (folder / f"{name}.summary.json").write_bytes(content)
        os.link(traces[which], folder / f"{name}.h5")
        total += len(content)
    return total


def same_report(folder):
    """What both ways must have alike: not when and how often the report was made."""
    report = json.loads((folder / "report.json").read_text())
    for key in ("report_id", "created", "supersedes"):
        del report[key]
    return report


def record_earlier_runs(folder, base, count, report, environment):
    """Beside the job's directory, where a report looks for runs that no index has."""
    run([*report, folder], environment)
    made = json.loads((folder / "report.json").read_text())
    if not (folder / "run.json").exists():
        sys.exit(f"there is no history: {made.get('history_reason')}")
    chance = random.Random(2)
    record = json.loads((folder / "run.json").read_text())
    value = record["channel_columns"].index("value")
    for days in range(1, count + 1):
        earlier = copy.deepcopy(record)
        earlier.update(run_id=f"{days:032x}", accepted=True, why_not="",
                       begin_utc_ns=record["begin_utc_ns"] - days * 86400 * 10**9,
                       seconds=record["seconds"] * (1 + chance.gauss(0, SPREAD)))
        for row in earlier["channels"]:
            row[value] = float(f"{row[value] * (1 + chance.gauss(0, SPREAD)):.4g}")
        place = base / f"{folder.name}-{days}"
        place.mkdir()
        (place / "run.json").write_text(json.dumps(earlier))
    shutil.rmtree(environment["XDG_STATE_HOME"], ignore_errors=True)


def compared_runs(folder):
    report = json.loads((folder / "report.json").read_text())
    history = report.get("history") or {}
    if history.get("status") != "compared":
        sys.exit(f"not compared with earlier runs: {history or report.get('history_reason')}")
    return history["accepted"]


def in_parts(program, folder, parts, report, environment):
    """Seconds of the slowest part and of the report, and the larger peak of both in MB."""
    serial = same_report(folder)
    one = [[program, "merge-part", folder, "--part", f"{number}/{parts}"] for number in range(1, parts + 1)]
    slowest, _, part_peak = map(max, zip(*(run(command, environment) for command in one)))
    size = sum(part.stat().st_size for part in folder.glob(".merge-part-*")) / 1e6
    wall, _, peak = run([*report, folder], environment)
    if same_report(folder) != serial:
        sys.exit("the report from parts differs")
    return f" {parts} | {size:.0f} | {slowest:.2f} | {part_peak:.0f} | {wall:.2f} | {peak:.0f} | {slowest + wall:.2f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", type=pathlib.Path)
    parser.add_argument("--bin", default="build/bin", metavar="DIR")
    parser.add_argument("--nodes", default="16,256,1000,4000,10000", metavar="LIST")
    parser.add_argument("--runs", type=int, default=1, help="the shortest of so many is printed")
    parser.add_argument("--kinds", type=int, default=1, choices=range(1, len(SPEEDS) + 1), help="kinds of hardware")
    parser.add_argument("--parts", type=int, default=0, help="parts of a second report")
    parser.add_argument("--history", type=int, default=0, metavar="RUNS", help="earlier runs of the job")
    options = parser.parse_args()
    if options.history and os.geteuid() == 0:
        sys.exit("reveal keeps no history for root")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as base:
        base = pathlib.Path(base)
        environment = {**os.environ, "XDG_STATE_HOME": str(base / "state"), "HOME": str(base)}
        real = base / "real"
        real.mkdir()
        for trace in glob.glob(f"{options.job}/*.h5"):
            shutil.copy2(trace, real)
        report = [f"{options.bin}/reveal", "report"]
        subprocess.run([*report, "--no-history", real], check=True, stdout=subprocess.DEVNULL, env=environment)
        if not options.history:
            report.append("--no-history")
        traces = sorted(real.glob("*.h5"))
        summaries = [read(trace.with_suffix(".summary.json")) for trace in traces]
        more = " parts | MB | slowest s | its peak MB | report s | its peak MB | both s |" if options.parts else ""
        if options.history:
            more = " compared with runs |" + more
        print("| nodes | summaries, MB | each, KB | wall s | cpu s | peak MB | report.json MB | report.html MB |" + more)
        print("|---|---|---|---|---|---|---|---|" + "---|" * more.count("|"))
        for count in map(int, options.nodes.split(",")):
            folder = base / f"nodes{count}"
            folder.mkdir()
            size = emulate(copy.deepcopy(summaries), traces, folder, count, options.kinds)
            if options.history:
                record_earlier_runs(folder, base, options.history, report, environment)
            wall, cpu, peak = min(run([*report, folder], environment) for _ in range(options.runs))
            json_size, html_size = ((folder / f"report.{kind}").stat().st_size / 1e6 for kind in ("json", "html"))
            print(f"| {count:,} | {size / 1e6:.1f} | {size / count / 1e3:.1f} | {wall:.2f} | {cpu:.2f} | {peak:.0f} | "
                  f"{json_size:.2f} | {html_size:.2f} |", end="", flush=True)
            if options.history:
                print(f" {compared_runs(folder)} |", end="")
            print(in_parts(report[0], folder, options.parts, report, environment) if options.parts else "", flush=True)
            if options.kinds > 1:
                for finding in json.loads((folder / "report.json").read_text())["findings"]:
                    print(f"  {finding['severity']} {finding['id']}: {finding['sentence'][:300]}")
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
