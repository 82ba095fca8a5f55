#!/usr/bin/python3
"""Recordings of emulated nodes (tests/guest) and of a machine with a GPU (bench/gpu_machine.py): of the rules that are
tested there, the report names the one of the fault first, with its node and its place, and none of them in the control.
They were kept because that was right when they were recorded (tests/lab/keep.py)."""
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import SOURCE, check, end, program  # noqa: E402

RECORDINGS = [recording for where in ("guest", "gpu")
              for recording in sorted((SOURCE / "tests/data/traces" / where).glob("*.tar.xz"))]


def report_of(folder: pathlib.Path) -> dict:
    done = subprocess.run([program("reveal"), "report", folder / "job"], capture_output=True, text=True, timeout=120)
    check(done.returncode == 0, f"{folder.name}: no report: {done.stderr.strip()}")
    return json.loads((folder / "job/report.json").read_text())


def explain(name: str, truth: dict, report: dict):
    found = [finding for finding in report["findings"] if finding["id"] in truth["tested"]]
    if truth["rule"] is None:
        check(not found, f"{name}: a control has findings: {[finding['id'] for finding in found]}")
        unchecked = {entry["rule"] for entry in report["not_checked"]} & set(truth["looked_for"])
        check(not unchecked, f"{name}: silent only because it was not looked for: {unchecked}")
        return
    check(found and found[0]["id"] == truth["rule"], f"{name}: {[each['id'] for each in found]}, not {truth['rule']}")
    if found:
        check(found[0]["nodes"] == [truth["node"]], f"{name}: on {found[0]['nodes']}")
        place, words = truth["instance"], truth.get("words") or ""
        check(not place or place in found[0]["instances"], f"{name}: at {found[0]['instances']}")
        check(words in found[0]["sentence"], f"{name}: {found[0]['sentence']}")
        check(truth["node"] in report_text(report), f"{name}: the verdict does not name the node")


def report_text(report: dict) -> str:
    return json.dumps(report["verdict"])


def main():
    check(RECORDINGS, "there are no recordings")
    rules = set()
    with tempfile.TemporaryDirectory() as scratch:
        os.environ |= {"HOME": scratch, "XDG_STATE_HOME": f"{scratch}/state", "XDG_CONFIG_HOME": f"{scratch}/config"}
        for recording in RECORDINGS:
            name = recording.name.removesuffix(".tar.xz")
            folder = pathlib.Path(scratch) / name
            with tarfile.open(recording) as archive:
                archive.extractall(folder)
            truth = json.loads((folder / "truth.json").read_text())
            rules.add(truth["rule"])
            explain(name, truth, report_of(folder))
    check(None in rules and len(rules) > 1, f"faults and controls are both there: {rules}")
    end()


main()
