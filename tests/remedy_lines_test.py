#!/usr/bin/python3
"""Every line of a remedy that is typed, and each command that verifies one, is one that a shell takes: filled with
values, bash reads it without an error.

What is not typed is left out: sentences, and settings of a configuration file ("cgroup.conf: ConstrainCores=yes")."""
import json
import os
import pathlib
import re
import subprocess
import sys

VALUES = {"nodes": "'n[0001-2000]'", "mount": "/work", "process": "python3", "python": "python3", "gpu": "0"}


def is_typed(line):
    return not re.match(r"[A-Z].*\.$", line) and not re.match(r"\S+\.(conf|service): ", line)


def main():
    reveal = pathlib.Path(os.environ["REVEAL_BUILD"]) / "bin/reveal"
    if not reveal.exists():
        print("skipped: not built")
        sys.exit(77)
    rules = json.loads(subprocess.run([reveal, "rules", "--json"], capture_output=True, text=True, check=True).stdout)
    typed = 0
    failures = 0
    for rule in rules["rules"]:
        verify = re.findall("`([^`]+)`", rule["remedy"]["verify"])
        for text in rule["remedy"]["user"] + rule["remedy"]["admin"] + verify:
            if not is_typed(text):
                continue
            line = re.sub(r"\{([a-zA-Z_]+)\}", lambda blank: VALUES.get(blank.group(1), "1"), text)
            read = subprocess.run(["bash", "-n", "-c", line], capture_output=True, text=True)
            typed += 1
            if read.returncode != 0 or read.stderr or re.search(r"\.\.\.|\{", line):
                print(f"{rule['id']}: {line}\n  {read.stderr.strip()}")
                failures += 1
    print(f"{failures} of {typed} lines cannot be typed")
    sys.exit(1 if failures or typed < 100 else 0)


main()
