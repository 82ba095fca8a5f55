#!/usr/bin/python3
"""The end of a job costs the shared directory at most 7 operations with names for each node, and one more for the folder
of a node of more than 1,000: also where the analysis of a trace is too much for an epilog."""
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
    for most, more in ((7, []), (7, ["--long"]), (8, ["--long", "--step", "--of", "1001"])):
        done = subprocess.run([SOURCE / "bench/delivery_operations.py", "--bin", BUILD / "bin", "--nodes", "3", "--most",
                               str(most), *more], capture_output=True, text=True, timeout=300, env=dict(os.environ))
        print(*more, done.stdout)
        check(done.returncode == 0, f"{more}: operations of a node: {done.stdout}{done.stderr}")
        check(done.stdout.count(".h5") == done.stdout.count(".summary.json") == 3, f"{more}: delivered: {done.stdout}")
        if "--of" in more:
            continue
        check("builds the report: 4\n" in done.stdout, f"{more}: its time is none of a report: {done.stdout}")
        check("report.json" in done.stdout, f"{more}: the case is void, there is no report: {done.stdout}")
    end()


main()
