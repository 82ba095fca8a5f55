#!/usr/bin/python3
"""Recordings of the laboratory: the report names the rule and the node of each fault, in its interval, and finds nothing
in a look-alike. They were kept because that was right when they were recorded (tests/lab/keep.py).

Each report is also read as a tired user reads it: the first screen of a terminal must name the node, the cause, the cost,
the next step and how sure the cause is, and a report of one finding must fit on one page. The six lines that end a run
must answer the same."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[0]), str(HERE.parents[1] / "bench/detection")]
from harness import BUILD, SOURCE, check, end, fail, program  # noqa: E402
from lab import judge  # noqa: E402

RECORDINGS = sorted((SOURCE / "tests/data/traces/lab").glob("*.tar.xz"))
LEAST_IOU = 0.5
FIRST_SCREEN, PAGE, BRIEF, WIDTH = 24, 46, 6, 80  # lines, lines, lines, columns
NO_CAUSE = "cause not known|measured fact"
NEXT_STEP = r"^  (job script|start with|run under|to change|look|for you|for admins) "


def explain(name: str, result: dict):
    truth = result["truth"]
    check(truth.get("without") not in result["rules"], f"{name}: {truth.get('without')} in {result['rules']}")
    if truth["rule"] is None:
        check(result["findings"] == 0, f"{name}: a look-alike has findings: {result['rules']}")
        return
    check(result["rule"], f"{name}: first is {result['first']}, not {truth['rule']}")
    check(result["node"] or not result["choice"], f"{name}: the first finding is on another node")
    check(result["iou"] >= LEAST_IOU, f"{name}: the interval overlaps by {result['iou']}")


def check_chain(name: str, truth: dict, report: dict):
    """A fault whose consequences have rules of their own: one finding says so, and theirs are folded into it."""
    words, consequence = truth.get("words"), truth.get("leads_to")
    first = next((one["sentence"] for one in report["findings"] if one["id"] == truth["rule"]), "")
    check(not words or words in first, f"{name}: no word of {words!r}: {first}")
    folded = [one["id"] for one in report["findings"] if one.get("caused_by") == truth["rule"]]
    check(not consequence or consequence in folded, f"{name}: {consequence} is not folded into {truth['rule']}: {folded}")


def check_first_screen(name: str, job: pathlib.Path):
    report = json.loads((job / "report.json").read_text())
    lines = (job / "report.txt").read_text().splitlines()
    shown = [one for one in report["findings"] if one["severity"] != "info" and not one.get("caused_by")]
    if len(shown) < 2:
        check(len(lines) <= PAGE, f"{name}: {len(lines)} lines for {len(shown)} findings")
    wide = [line for line in lines if len(line) > WIDTH and " -printf " not in line]  # a command that cannot be split
    check(not wide, f"{name}: wider than a terminal: {wide}")
    for at in (i for i, line in enumerate(lines) if line.startswith("  checked ")):
        check(not lines[at + 2].startswith(" " * 15), f"{name}: more than two lines: {lines[at:at + 3]}")
    if not shown:
        return
    first, screen = shown[0], "\n".join(lines[:FIRST_SCREEN])
    answers = {"which node": any(node in screen for node in first["nodes"]), "what": first["title"] in screen,
               "how much": re.search("^  cost ", screen, re.M), "what to do": re.search(NEXT_STEP, screen, re.M),
               "how sure the cause is": re.search(f"{first['severity']}, (cause {first['confidence']}|{NO_CAUSE})$",
                                                  screen, re.M)}
    missing = [question for question, answer in answers.items() if not answer]
    check(not missing, f"{name}: the first screen does not answer {missing}:\n{screen}")


def check_brief(name: str, job: pathlib.Path):
    report = json.loads((job / "report.json").read_text())
    shown = [one for one in report["findings"] if one["severity"] != "info" and not one.get("caused_by")]
    done = subprocess.run([program("reveal"), "report", job.name, "--brief", "--no-history"], cwd=job.parent,
                          capture_output=True, text=True, timeout=120)
    brief = done.stdout
    check(done.returncode == 0 and len(brief.splitlines()) <= BRIEF, f"{name}: {brief}{done.stderr}")
    check("reveal show job" in brief, f"{name}: no command for the page: {brief}")
    if not shown:
        return
    first = shown[0]
    answers = {"which node": any(node in brief for node in first["nodes"]),
               "how much and how sure": re.search(f"^  cost  .*; (cause {first['confidence']}|{NO_CAUSE})$", brief, re.M),
               "what to do": re.search(NEXT_STEP, brief, re.M)}
    missing = [question for question, answer in answers.items() if not answer]
    check(not missing, f"{name}: the end of the run does not answer {missing}:\n{brief}")


def main():
    program("reveal")
    check(RECORDINGS, "there are no recordings")
    with tempfile.TemporaryDirectory() as scratch:
        os.environ |= {"HOME": scratch, "XDG_STATE_HOME": f"{scratch}/state", "XDG_CONFIG_HOME": f"{scratch}/config"}
        for recording in RECORDINGS:
            name = recording.name.removesuffix(".tar.xz")
            folder = pathlib.Path(scratch) / name
            with tarfile.open(recording) as archive:
                archive.extractall(folder)
            result = judge(BUILD, folder)
            if "error" in result:
                fail(f"{name}: {result['error']}")
            else:
                explain(name, result)
                check_chain(name, result["truth"], json.loads((folder / "job/report.json").read_text()))
                check_first_screen(name, folder / "job")
                check_brief(name, folder / "job")
    end()


main()
