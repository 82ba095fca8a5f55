#!/usr/bin/python3
"""What a whole run with --stack tells of where a Python program stood, as an ordinary user: held against the program's
own log of its phases; and what the report says of a process that somebody stopped."""
import csv
import datetime
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import BUILD, check, end, skip  # noqa: E402

JOB = """
import json, os, subprocess, sys, time
def load_batch(until):
    while time.time() < until:
        sum(range(100))
def train_step(until):
    while time.time() < until:
        sum(range(100))
begin = time.time()
train_step(begin + 12)
loads = time.time()
if sys.argv[2] == "stop":
    subprocess.Popen(["sh", "-c", f"sleep 1; kill -STOP {os.getpid()}; sleep 10; kill -CONT {os.getpid()}"])
load_batch(loads + 12)
trains = time.time()
train_step(trains + 12)
json.dump([begin, loads, trains, time.time()], open(sys.argv[1], "w"))
"""


def start(folder, *command, nobody=False):
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "REVEAL_RUN_"))}
    home = pathlib.Path(f"{folder}.home")
    home.mkdir()
    home.chmod(0o777)
    environment |= {"HOME": str(home), "XDG_RUNTIME_DIR": str(home)}
    words = [BUILD / "bin/reveal-run", "--stack", "--node", "here", "--output", folder, "--", *command]
    if nobody:
        words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *words]
    return subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def samples(folder):
    text = subprocess.run([BUILD / "bin/reveal", "export", folder, "--format", "python"], capture_output=True, text=True,
                          check=False)
    if text.returncode != 0:
        print(text.stderr)
        return []
    rows = csv.DictReader(io.StringIO(text.stdout))
    return [(datetime.datetime.fromisoformat(row["time"].replace("Z", "+00:00")).timestamp(), row["process"],
             row["place"]) for row in rows]


with tempfile.TemporaryDirectory() as name:
    base = pathlib.Path(name)
    base.chmod(0o777)
    (base / "job.py").write_text(JOB)
    # Below a home of root's, nobody cannot start it.
    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "test", "-x", BUILD / "bin/reveal-run"]
    nobody = os.getuid() == 0 and shutil.which("setpriv") is not None and subprocess.run(as_nobody).returncode == 0
    phases = start(base / "phases", sys.executable, base / "job.py", base / "log", "run", nobody=nobody)
    stopped = start(base / "stopped", sys.executable, base / "job.py", base / "log.stopped", "stop")
    errors = [run.communicate(timeout=200)[1] for run in (phases, stopped)]
    print("== phases of a program, read", "as nobody" if nobody else "as this user")
    check(phases.returncode == 0, f"the program failed: {phases.returncode} {errors[0]}")
    report = json.loads((base / "phases/report.json").read_text())
    probe = [one for one in report["coverage"][0]["probes"] if one["name"] == "python"][0]
    if "does not let reveal read" in (probe["reason"] or ""):
        skip(probe["reason"])
    begin, loads, trains, last = json.loads((base / "log").read_text())
    found = samples(base / "phases")
    right = wrong = 0
    for time, process, place in found:
        if min(abs(time - change) for change in (begin, loads, trains, last)) < 1.1 or not begin < time < last:
            continue  # within a sample of a change
        expected = "load_batch" if loads < time < trains else "train_step"
        if place.startswith(expected + " (job.py:"):
            right += 1
        else:
            wrong += 1
            print(time - begin, process, place)
    print(len(found), "samples,", right, "right,", wrong, "wrong;", probe)
    check(right >= 20 and wrong == 0, f"{right} right, {wrong} wrong")
    shown = report.get("python", [])
    check(len(shown) == 1 and shown[0]["places"][0]["place"].startswith("train_step (job.py:"), f"report: {shown}")

    print("== a process that is stopped for ten seconds")
    check(stopped.returncode == 0, f"the program failed: {stopped.returncode} {errors[1]}")
    report = json.loads((base / "stopped/report.json").read_text())
    findings = [finding for finding in report["findings"] if finding["id"] == "job.stopped"]
    check(len(findings) == 1, f"findings: {[finding['id'] for finding in report['findings']]}")
    for finding in findings:
        told = finding.get("main_threads", [])
        print(told)
        check(len(told) == 1 and "was in load_batch (job.py:" in told[0] and "train_step (job.py:" in told[0], f"{told}")
    # On a busy machine it is not the first finding.
    page = subprocess.run([BUILD / "bin/reveal", "show", "--finding", "job.stopped", base / "stopped"],
                          capture_output=True, text=True, check=False)
    check("load_batch (job.py:" in " ".join(page.stdout.split()), page.stdout + page.stderr)

end()
