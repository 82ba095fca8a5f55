"""What tests of `reveal-run --stack` share: whether calls can be counted here, a job whose calls are counted, and what
its trace has of them."""
import json
import os
import pathlib
import subprocess

from harness import BUILD, check, skip

DOUBLES = BUILD / "doubles"  # of NCCL, CUDA, gloo and PyTorch, under their real names

# Waits until the function is probed, as its own code shows: what is called before that cannot be counted.
ATTACHED = """
import ctypes, json, os, sys, time
def attached(library, name, at=0):
    code = ctypes.cast(getattr(library, name), ctypes.POINTER(ctypes.c_ubyte))
    for _ in range(600):
        if code[at] == 0xcc:
            return
        time.sleep(.1)
    sys.exit(9)
"""


def why_not_counted():
    """Why no calls can be counted here, exactly and with their time; "" where they can."""
    checked = subprocess.run([BUILD / "bin/reveal-collect", "--check", "--stack", "--job", f"pid:{os.getpid()}", "--json"],
                             capture_output=True, text=True, check=True)
    state = next(each for each in json.loads(checked.stdout) if each["name"] == "stack")
    if state["state"] != "ok":
        return state["reason"]
    if "Seccomp:\t0" not in pathlib.Path("/proc/self/status").read_text():
        return "the test runs under a seccomp filter, where nothing is timed"
    return ""


def need_counted_calls():
    if why := why_not_counted():
        skip(why)


class Job:
    """A command under reveal-run --stack, from now on; `under`: the words of a program that starts reveal-run."""

    def __init__(self, folder, *command, under=(), variables=None):
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "REVEAL_RUN_"))}
        self.folder = folder
        self.process = subprocess.Popen(
            [*under, BUILD / "bin/reveal-run", "--stack", "--no-report", "--node", "here", "--output", folder, "--",
             *command], env=environment | (variables or {}), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def end(self, status, limit=300):
        _, said = self.process.communicate(timeout=limit)
        check(self.process.returncode == status, f"{self.folder.name}: exit status {self.process.returncode} {said}")


def totals(trace, family, metric):
    """By instance: the first value and all increases."""
    if f"stack/{family}_channels" not in trace:
        return {}
    rows = trace[f"stack/{family}_channels"]
    values, base = trace[f"stack/{family}"], trace[f"stack/{family}_base"]
    found = {}
    for row, (name, instance) in enumerate(zip(rows["metric"].asstr()[:], rows["instance"].asstr()[:])):
        line = values[row, :]
        if name == metric:
            found[instance] = int(base[row, 0]) + int(line[line != values.fillvalue].sum())
    return found


def of(found, function):
    return sorted(value for instance, value in found.items() if instance.endswith("/" + function))


def coverage(trace, probe):
    """State and reason."""
    rows = [(row["state"].decode(), row["reason"].decode()) for row in trace["coverage"][:]
            if row["probe"].decode() == probe]
    check(len(rows) == 1, f"the coverage of {probe}: {rows}")
    return rows[0] if rows else ("", "")
