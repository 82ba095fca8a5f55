#!/usr/bin/python3
"""reveal acts on a job whose threads crowd on one of its two cpus, as an ordinary user, where the site allows it: the
threads get both, the report tells the effect, and everything that must stay as it was does. The job itself records the
cpus of each of its threads."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import check, end, program, skip  # noqa: E402

RULE = "cpu.affinity_too_narrow"
# Four threads compute for some seconds. "useless": with more than one cpu, only one of them does. "bound": two threads
# bind themselves to each of the two cpus.
JOB = """
import hashlib, json, os, sys, threading, time
out, kind, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
cpus = [int(cpu) for cpu in sys.argv[4].split(",")]
end, data, seen = time.time() + seconds, b"x" * 1000000, {}
def work(number):
    if kind == "bound":
        os.sched_setaffinity(0, {cpus[number % 2]})
    masks = seen[number] = []
    while time.time() < end:
        mask = sorted(os.sched_getaffinity(0))
        if not masks or masks[-1] != mask:
            masks.append(mask)
        if kind == "useless" and len(mask) > 1 and number > 0:
            time.sleep(.05)
        else:
            hashlib.sha256(data).digest()
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
json.dump([seen[number] for number in range(4)], open(out, "w"))
sys.exit(7)
"""

available = sorted(os.sched_getaffinity(0))
if len(available) < 2:
    skip("this machine has one cpu")
if shutil.which("taskset") is None:
    skip("there is no taskset (Debian: util-linux)")
first, second = available[:2]


class Site:
    """An installation of its own, because only the site's file allows reveal to act."""

    def __init__(self, base):
        self.base = base
        base.chmod(0o777)
        for name in ("bin", "etc/reveal"):
            (base / name).mkdir(parents=True)
        for name in ("reveal", "reveal-run", "reveal-collect"):
            shutil.copy(program(name), base / "bin" / name)
        (base / "job.py").write_text(JOB)
        self.nobody = []
        as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        if os.getuid() == 0 and shutil.which("setpriv"):
            tried = subprocess.run([*as_nobody, base / "bin/reveal-run", "--version"], stdout=subprocess.DEVNULL, check=False)
            self.nobody = as_nobody if tried.returncode == 0 else []

    def allow(self, text):
        (self.base / "etc/reveal/reveal.conf").write_text(text)

    def run(self, name, kind, seconds, options=(), variables=()):
        """The cpus that each thread had, one after the other, and the report."""
        home = self.base / f"{name}.home"
        home.mkdir()
        home.chmod(0o777)
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "REVEAL_", "OMP_", "KMP_", "GOMP_"))}
        environment |= {"HOME": str(home), "XDG_RUNTIME_DIR": str(home)} | dict(variables)
        crowd = ["taskset", "-c", str(first)] if kind != "bound" else []
        done = subprocess.run(
            [*self.nobody, "taskset", "-c", f"{first},{second}", self.base / "bin/reveal-run", "--node", "here", "--output",
             self.base / name, *options, "--", *crowd, sys.executable, self.base / "job.py", home / "masks", kind,
             str(seconds), f"{first},{second}"], env=environment, capture_output=True, text=True, timeout=200, check=False)
        check(done.returncode == 7, f"{name}: the job's exit status was not kept: {done.returncode} {done.stderr}")
        masks = json.loads((home / "masks").read_text())
        report = json.loads((self.base / name / "report.json").read_text())
        print(f"{name}: {masks[0]} in thread 0", flush=True)
        return masks, report

    def show(self, name):
        return subprocess.run([*self.nobody, self.base / "bin/reveal", "show", self.base / name, "--all"], capture_output=True,
                              text=True, check=False).stdout


def interventions(report):
    return [one for finding in report["findings"] if finding["id"] == RULE for one in finding.get("interventions", [])]


def skip_if_busy(report):
    for one in interventions(report):
        if one["outcome"] == "refused" and "not idle" in one["sentence"]:
            skip("other programs kept the second cpu busy: " + one["sentence"])


def effect(result, metric):
    return next(one for one in result["effects"] if one["metric"] == metric)


with tempfile.TemporaryDirectory() as folder:
    site = Site(pathlib.Path(folder))
    narrow, wide = [first], [first, second]

    print("== a crowd, where the site allows it")
    site.allow(f'[intervention]\nrules = ["{RULE}"]\n')
    masks, report = site.run("helped", "crowd", 30)
    skip_if_busy(report)
    check(masks == [[narrow, wide]] * 4, f"the cpus of its threads: {masks}")
    found = interventions(report)
    check(len(found) == 1 and found[0]["outcome"] == "kept", f"told: {found}")
    if found:
        print(found[0]["sentence"])
        used, waited = effect(found[0], "job.cpu_time"), effect(found[0], "job.wait_time")
        check(0.8 < used["mean_before"] < 1.1 and used["change_low"] > 0.1, f"cpus used: {used}")
        check(waited["mean_before"] > 2 and waited["change_high"] < -0.5, f"threads without a cpu: {waited}")
        check("without taskset" in " ".join(one for finding in report["findings"] for one in finding["remedy"]["advice"]),
              "the permanent remedy is missing")
        page = " ".join(site.show("helped").split())
        check(" ".join(found[0]["sentence"].split()) in page, f"the page does not tell it: {page}")

    print("== a crowd that more cpus do not help")
    masks, report = site.run("useless", "useless", 28)
    check(all(one[:2] == [narrow, wide] and one[-1] == narrow for one in masks), f"the cpus of its threads: {masks}")
    found = interventions(report)
    check([one["outcome"] for one in found] == ["undone"], f"told: {found}")

    print("== threads that are bound, two to each cpu")
    masks, report = site.run("bound", "bound", 15)
    check(masks == [[[first]], [[second]]] * 2, f"the cpus of its threads: {masks}")

    print("== a user who refuses")
    for name, options, variables in (("option", ["--no-intervene"], {}), ("variable", [], {"REVEAL_INTERVENE": "off"})):
        masks, report = site.run(name, "crowd", 15, options, variables)
        check(masks == [[narrow]] * 4, f"{name}: the cpus of its threads: {masks}")

    print("== a site that allows nothing, and a user who would")
    site.allow("")
    mine = pathlib.Path(folder) / "config/reveal"
    mine.mkdir(parents=True)
    (mine / "reveal.conf").write_text(f'[intervention]\nrules = ["{RULE}"]\n')
    masks, report = site.run("user", "crowd", 15, (), {"XDG_CONFIG_HOME": str(mine.parent), "REVEAL_INTERVENE": "on"})
    check(masks == [[narrow]] * 4, f"the cpus of its threads: {masks}")
    check(not interventions(report), "a refusal that was none")
end()
