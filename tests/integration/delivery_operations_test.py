#!/usr/bin/python3
"""The end of a job costs the shared directory at most 7 operations with names for each node."""
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import BUILD, SOURCE, check, end, skip


def main():
    if not shutil.which("strace") or subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True).returncode:
        skip("strace is not here, or may not trace")
    done = subprocess.run([SOURCE / "bench/delivery_operations.py", "--bin", BUILD / "bin", "--nodes", "3", "--most", "7"],
                          capture_output=True, text=True, timeout=300, env=dict(os.environ))
    print(done.stdout)
    check(done.returncode == 0, f"operations of a node: {done.stdout}{done.stderr}")
    check("builds the report: 3\n" in done.stdout, f"its time says nothing about its node: {done.stdout}")
    check("report.json" in done.stdout, f"the case is void, there is no report: {done.stdout}")
    end()


main()
