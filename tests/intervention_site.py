"""A site that may let reveal act on jobs, and a job whose threads crowd on one of its two cpus. The job itself records
the cpus of each of its threads."""
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import time

from harness import check, failures, program, skip

RULE = "cpu.affinity_too_narrow"
# Four threads compute until the cpus of all of them have changed so often, and some seconds more. "useless": with more
# than one cpu, only one of them does. "bound": two threads bind themselves to each of the two cpus.
JOB = """
import hashlib, json, os, sys, threading, time
out, kind, changes, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
cpus = [int(cpu) for cpu in sys.argv[5].split(",")]
last, data, seen, changed = time.time() + 90, b"x" * 1000000, {}, {}
def goes_on(number):
    if len(seen[number]) > changes:
        changed.setdefault(number, time.time())
    return time.time() < (max(list(changed.values())) + seconds if len(changed) == 4 else last)
def work(number):
    if kind == "bound":
        os.sched_setaffinity(0, {cpus[number % 2]})
    masks = seen[number] = [sorted(os.sched_getaffinity(0))]
    while goes_on(number):
        mask = sorted(os.sched_getaffinity(0))
        if masks[-1] != mask:
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

    def run(self, name, kind, changes, seconds, options=(), variables=()):
        """The cpus that each thread had, one after the other, and the report."""
        home = self.base / f"{name}.home"
        home.mkdir()
        home.chmod(0o777)
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "REVEAL_", "OMP_", "KMP_", "GOMP_"))}
        environment |= {"HOME": str(home), "XDG_RUNTIME_DIR": str(home)} | dict(variables)
        crowd = ["taskset", "-c", str(first)] if kind != "bound" else []
        began, busy, own = time.monotonic(), busy_seconds(), own_seconds()
        job = subprocess.Popen(
            [*self.nobody, "taskset", "-c", f"{first},{second}", self.base / "bin/reveal-run", "--node", "here", "--output",
             self.base / name, *options, "--", *crowd, sys.executable, self.base / "job.py", home / "masks", kind,
             str(changes), str(seconds), f"{first},{second}"], env=environment, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True)
        self.told = self.words_of_collector(name, job)
        _, said = job.communicate(timeout=200)
        self.others = (busy_seconds() - busy - (own_seconds() - own)) / (time.monotonic() - began)
        check(job.returncode == 7, f"{name}: the job's exit status was not kept: {job.returncode} {said}")
        masks = json.loads((home / "masks").read_text())
        report = json.loads((self.base / name / "report.json").read_text())
        print(f"{name}: {masks[0]} in thread 0; other programs used {self.others:.2f} cpus", flush=True)
        return masks, report

    def words_of_collector(self, name, job):
        """Its command line, which has the rules on which it may act."""
        while job.poll() is None:
            for place in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    words = place.read_text(errors="replace").split("\0")
                except OSError:  # it has ended
                    continue
                if words[0].endswith("/reveal-collect") and any(word.startswith(f"{self.base / name}/") for word in words):
                    return words
            time.sleep(.1)
        return []

    def judge(self, holds, what):
        """Only where no other program took the cpus is a failure one of reveal's."""
        if not holds and not failures and self.others > .1:
            skip(f"other programs used {self.others:.2f} cpus meanwhile: {what}")
        check(holds, what)

    def show(self, name):
        return subprocess.run([*self.nobody, self.base / "bin/reveal", "show", self.base / name, "--all"], capture_output=True,
                              text=True, check=False).stdout


def interventions(report):
    return [one for finding in report["findings"] if finding["id"] == RULE for one in finding.get("interventions", [])]


def busy_seconds():
    """In which the two cpus worked, for whomever."""
    lines = [line.split() for line in pathlib.Path("/proc/stat").read_text().splitlines()]
    ours = [words for words in lines if words[0] in (f"cpu{first}", f"cpu{second}")]
    user, nice, system, interrupts, soft_interrupts = 1, 2, 3, 6, 7
    return sum(int(words[i]) for words in ours for i in (user, nice, system, interrupts, soft_interrupts)) / os.sysconf("SC_CLK_TCK")


def own_seconds():
    """Used by this program and all that it has waited for."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(used.ru_utime + used.ru_stime for used in both)
