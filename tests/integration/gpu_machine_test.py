#!/usr/bin/python3
"""Every step of bench/gpu_machine.py that needs no GPU: it must work on the day on which there is one."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import BUILD, SOURCE, check, end, program, skip  # noqa: E402

STEPS = ["machine", "calls", "healthy", "starved", "slow-down", "recording"]


def main():
    for name in ("reveal", "reveal-run", "reveal-collect"):
        program(name)
    if not (BUILD / "doubles/nvml_double.so").exists():
        skip("no double of NVML was built")
    bench = [sys.executable, SOURCE / "bench/gpu_machine.py"]
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        done = subprocess.run([*bench, "run", "--build", BUILD, "--out", scratch / "out", "--double", "--minutes", ".5"],
                              capture_output=True, text=True, check=False)
        check(done.returncode == 0, f"the run ended with {done.returncode}: {done.stdout[-3000:]}{done.stderr[-2000:]}")
        results = json.loads((scratch / "out/results.json").read_text())
        check(list(results["steps"]) == STEPS, f"steps: {results['steps']}")
        check("gpu.utilization" in results["calls"]["present"], f"metrics: {results['calls']}")
        check(results["healthy"]["status"] and results["starved"]["status"], f"reports: {results}")
        check(results["recording"]["bytes"] > 0, f"recording: {results['recording']}")
        if not shutil.which("patchelf"):
            print("the bundle was not tried: patchelf is not installed")
            end()
        packed = subprocess.run([*bench, "bundle", "--build", BUILD, scratch / "bundle"], capture_output=True, text=True,
                                check=False)
        check(packed.returncode == 0, f"bundle: {packed.stderr}")
        version = subprocess.run([scratch / "bundle/bin/reveal", "--version"], capture_output=True, text=True, check=False,
                                 env={})
        linked = subprocess.run(["ldd", scratch / "bundle/bin/reveal"], capture_output=True, text=True, check=False).stdout
        other = re.findall(r"=> (?!.*(?:libc|libm|libresolv)\.so)(/(?:usr/)?lib\S+)", linked)
        check(not other, f"the bundle takes libraries of the machine: {other}")
        check(version.returncode == 0, f"the bundle does not start: {version.stderr}")
    end()


main()
