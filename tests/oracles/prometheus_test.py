#!/usr/bin/python3
"""Every Prometheus text of reveal through Prometheus' own programs: promtool's lint, its strict reader of OpenMetrics, and
the textfile collector of node_exporter, with the values that each of them read. Prints a table of them."""
import getpass
import json
import math
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import check, end, program, skip  # noqa: E402

EXPORTER = "prometheus-node-exporter"
SAMPLE = re.compile(r"(reveal_[a-z_]+)(?:\{(.*)\})? (\S+)$")
rows = []


def run(*words, text=None):
    return subprocess.run(words, input=text, capture_output=True, text=True, check=False)


def samples(text):
    """Value by name and labels, whatever their order."""
    found = {}
    for line in text.splitlines():
        if match := SAMPLE.match(line):
            labels = frozenset(re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', match[2] or ""))
            found[match[1], labels] = float(match[3])
    return found


def record(folder):
    """Two nodes at the same time."""
    folder.mkdir()
    collectors = [subprocess.Popen([program("reveal-collect"), "--output", folder / f"{node}.h5", "--node", node, "--job",
                                    f"pid:{os.getpid()}", "--duration", "8s"]) for node in ("n01", "n02")]
    check(all([one.wait() == 0 for one in collectors]), "two collectors")


def make(folder):
    """A report of two jobs, and the check of a node; the directory of the second job needs care."""
    texts = {}
    record(folder / "traces")
    for job in ("job", "job \"2\" \\ é"):
        place = folder / job
        shutil.copytree(folder / "traces", place)
        report = run(program("reveal"), "report", "--no-history", place)
        check(report.returncode == 0, f"reveal report: {report.stderr}")
        file = folder / f"textfiles/{len(texts)}.prom"
        done = run(program("reveal"), "export", place, "--format", "openmetrics", "--textfile", file)
        check(done.returncode == 0 and done.stdout == "", f"export --textfile: {done.stderr}")
        texts[f"export, job {len(texts) + 1}"] = file.read_text()
    file = folder / "textfiles/check.prom"
    done = run(program("reveal"), "check", "--seconds", "1", "--textfile", file)
    check(done.returncode in (0, 1, 2), f"reveal check: {done.stderr}")
    texts["check"] = file.read_text()
    file = folder / "textfiles/unknown.prom"
    done = run(program("reveal"), "check", "--root", folder / "nowhere", "--textfile", file)
    check(done.returncode == 3, f"reveal check of nothing: {done.returncode} {done.stderr}")
    texts["check, unknown"] = file.read_text()
    file.unlink()  # its metrics are those of check.prom
    return texts


def lint(texts):
    version = run("promtool", "--version")
    name = " ".join((version.stdout or version.stderr).split()[:3]).rstrip(",")
    for what, text in texts.items():
        done = run("promtool", "check", "metrics", text=text)
        check(done.returncode == 0 and not (done.stdout + done.stderr).strip(), f"{what}: promtool: {done.stderr}")
        rows.append((what, name + " check metrics", f"{len(samples(text))} samples without a complaint"))
    return name


def read_strictly(folder, texts, name):
    """OpenMetrics as Prometheus reads it; promtool stores samples only with a time."""
    for what, text in texts.items():
        if not text.endswith("# EOF\n"):
            continue
        now = int(time.time())
        file, place = folder / "timed.txt", folder / "blocks"
        file.write_text("\n".join(line if line.startswith("#") else f"{line} {now}" for line in text.splitlines()) + "\n")
        done = run("promtool", "tsdb", "create-blocks-from", "openmetrics", file, place)
        check(done.returncode == 0, f"{what}: OpenMetrics: {done.stderr}")
        (place / "wal").mkdir()  # without it, `dump` prints nothing
        stored = {}
        for line in run("promtool", "tsdb", "dump", place).stdout.splitlines():
            labels, value, _ = re.fullmatch(r"\{(.*)\} (\S+) (\d+)", line).groups()
            pairs = dict(re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', labels))
            stored[pairs.pop("__name__"), frozenset(pairs.items())] = float(value)
        check(stored == samples(text), f"{what}: promtool stored {stored}")
        rows.append((what, name + " create-blocks-from", f"{len(stored)} samples = the file's"))
        shutil.rmtree(place)


def scraped(folder):
    """The text of /metrics of a node_exporter that has only the textfile collector."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    exporter = subprocess.Popen([EXPORTER, f"--web.listen-address={address}", "--collector.disable-defaults",
                                 "--collector.textfile", f"--collector.textfile.directory={folder / 'textfiles'}"],
                                stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            try:
                return urllib.request.urlopen(f"http://{address}/metrics", timeout=10).read().decode()
            except urllib.error.URLError:
                time.sleep(0.1)
    finally:
        exporter.terminate()
        exporter.wait()
    return ""


def read_by_node_exporter(folder, texts):
    text = scraped(folder)
    version = run(EXPORTER, "--version")
    name = " ".join((version.stdout or version.stderr).split()[:3]).rstrip(",")
    check("\nnode_textfile_scrape_error 0\n" in text, f"{name}: {text[:2000]}")
    expected = {}
    for what in texts:
        if what != "check, unknown":
            expected |= samples(texts[what])
    served = samples(text)
    check(set(served) == set(expected), f"{name} serves other samples: {set(served) ^ set(expected)}")
    for sample, value in expected.items():
        check(math.isclose(served.get(sample, math.nan), value, rel_tol=1e-12), f"{sample}: {served.get(sample)}, {value}")
    rows.append(("export of 2 jobs, check", f"{name} textfile", f"{len(served)} samples = the files'"))


def check_names(folder, texts):
    """Neither the user nor the names of job and command are in it."""
    job = json.loads((folder / "job/report.json").read_text())["job"]
    secrets = {getpass.getuser(), *(job.get(key) or "" for key in ("user", "name", "command"))} - {"", "root"}
    for what, text in texts.items():
        for secret in secrets:
            check(not re.search(rf'"{re.escape(secret)}"', text), f"{what} names {secret}")


if not shutil.which("promtool") or not shutil.which(EXPORTER):
    skip(f"promtool or node_exporter is not installed; apt-get install prometheus {EXPORTER}")
with tempfile.TemporaryDirectory() as base:
    base = pathlib.Path(base)
    (base / "textfiles").mkdir()
    made = make(base)
    tool = lint(made)
    read_strictly(base, made, tool)
    read_by_node_exporter(base, made)
    check_names(base, made)
for row in rows:
    print(f"{row[0]:24}  {row[1]:44}  {row[2]}")
end()
