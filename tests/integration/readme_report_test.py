#!/usr/bin/python3
"""The sample report of README.md is what this version prints, line by line, of the recording that it came from: the job of
the quick start. REVEAL_ACCEPT=1 rewrites README.md. To record it again, on a machine with nothing else to do:

  bash site-config/quickstart.sh
  mkdir -p quickstart/job && cp build/quickstart-job/*.h5 quickstart/job/
  tail -n 1 build/quickstart-job-truth.jsonl.disturb > quickstart/truth.json
  tests/lab/keep.py quickstart --to tests/data/traces"""
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import SOURCE, check, end, program  # noqa: E402

README = SOURCE / "README.md"
RECORDING = SOURCE / "tests/data/traces/quickstart.tar.xz"
SECTION = re.compile(r"(?<=^## A real report\n).*?(?=^## )", re.M | re.S)
BLOCK = re.compile(r"(?:^    .*\n|^\n(?=    ))+", re.M)


def printed(folder, *arguments):
    environment = {**os.environ, "HOME": str(folder), "XDG_STATE_HOME": f"{folder}/state", "XDG_CONFIG_HOME": f"{folder}/config"}
    return subprocess.run([program("reveal"), *arguments], cwd=folder, env=environment, capture_output=True, text=True,
                          check=True).stdout


def indented(text):
    return "".join("    " + line if line.strip() else line for line in text.splitlines(keepends=True))


def clock(utc_ns):
    return datetime.datetime.fromtimestamp(utc_ns // 10**8 / 10, datetime.timezone.utc).strftime("%H:%M:%S.%f")[:10]


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        with tarfile.open(RECORDING) as archive:
            archive.extractall(folder)
        (folder / "job").rename(folder / "run")
        truth = json.loads((folder / "truth.json").read_text())
        brief = printed(folder, "report", "run", "--no-history", "--brief", "--exit-code", "0")
        expected = [indented(brief), indented(printed(folder, "show", "run"))]
        section = SECTION.search(README.read_text()).group()
        shown = [block.lstrip("\n") for block in BLOCK.findall(section)]
        if os.environ.get("REVEAL_ACCEPT"):
            for old, new in zip(shown, expected):
                section = section.replace(old, new)
            README.write_text(SECTION.sub(lambda _: section, README.read_text()))
            shown = expected
        check(len(shown) == 2, f"README.md shows {len(shown)} prints")
        for what, old, new in zip(("the end of reveal-run", "reveal show"), shown, expected):
            differing = [f"{a!r} instead of {b!r}" for a, b in zip(old.splitlines(), new.splitlines()) if a != b]
            check(old == new, f"README.md, {what}: {differing or 'another number of lines'}; REVEAL_ACCEPT=1 rewrites it")
        interval = f"from {clock(truth['begin_utc_ns'])} to {clock(truth['end_utc_ns'])}"
        check(interval in " ".join(section.split()), f"README.md does not name the true interval, {interval}")
    end()


main()
