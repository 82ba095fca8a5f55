#!/usr/bin/python3
"""Every command and every snippet that README.md, hdf5schema/README.md and --help show, on a trace recorded just now.

A line that is neither run nor listed below with the reason why it cannot be fails the test, so that a new example is
looked at once. The figures of the documents must name the commit and the command that they come from."""
import contextlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import BUILD, SOURCE, check, end, failures, skip  # noqa: E402

BIN = BUILD / "bin"
sys.path.insert(0, str(SOURCE / "hdf5schema/python"))
try:
    import h5py
    import numpy
    import pandas
    import xarray  # noqa: F401  a snippet needs it
    import reveal
except ImportError as missing:
    skip(f"{missing}; apt-get install python3-h5py python3-pandas python3-xarray python3-h5netcdf")

PROGRAMS = ("reveal", "reveal-run", "reveal-collect", "python3 -c ")
# Begins of lines that cannot run here, and why.
NOT_RUN = {
    "bash site-config/quickstart.sh": "builds everything; run by hand",
    "bash tests/run.sh": "is what runs this test",
    "sbatch ": "needs a Slurm cluster: tests/integration/slurm_test.sh",
    "srun ": "needs a Slurm cluster: tests/integration/slurm_test.sh",
    "cmake -G Ninja": "builds the packages: tests/package/slurm_package.sh",
    "ninja -C": "builds the packages: tests/package/slurm_package.sh",
    "(cd build/package": "builds the packages: tests/package/slurm_package.sh",
    "echo 'include /etc/reveal": "changes Slurm's configuration: tests/package/slurm_package.sh",
    "echo 'include /usr/share/reveal": "changes Slurm's configuration: tests/integration/slurm/broken.bats",
    "cc -shared": "writes to Slurm's plugin directory: tests/integration/slurm/broken.bats",
    "SELECT node": "is a query for DuckDB: tests/oracles/parquet_test.py",
    "useradd ": "makes an account: tests/integration/mailer_test.py",
    "install -d -o": "needs that account: tests/integration/mailer_test.py",
    "install -o": "needs that account: tests/integration/mailer_test.py",
    "chmod 3733": "opens that directory: tests/integration/mailer_test.py",
    "sudo -u reveal-mailer": "needs that account: tests/integration/mailer_test.py",
    "systemctl enable": "needs systemd: tests/integration/installed_test.sh reads the unit",
    "grep PrologFlags": "reads Slurm's configuration",
    "systemctl restart slurmd": "needs a Slurm cluster",
    "reveal drill  ": "takes more than a minute: with --seconds 20 below",
    "reveal drill --mail": "needs a mail server: tests/integration/mail_test.py",
    "reveal watch 4711_3": "needs a Slurm cluster: tests/integration/slurm/watch.bats",
    "reveal drill --srun": "needs a Slurm cluster: tests/integration/slurm/drill.bats",
}
# From such a line on, a block shows what is printed, not what is typed.
SHOWN = ("reveal: FINDING  ", "FINDING  ", "23:21:07 watching")
# What an example needs to end, and to end soon.
ENDS = {
    "python3 -c": sys.executable + " -c",
    "--duration 60s": "--duration 1s",
    "--metrics selected.metrics --output n03.h5": "--metrics selected.metrics --output n03.h5 --duration 1s",
    "--output n03.h5 --metrics selected.metrics": "--output n03.h5 --metrics selected.metrics --duration 1s",
    "--job pid:4711": "--job pid:$PID",
}
ROOT = os.geteuid() == 0
# Other exit statuses than 0 that are right on this machine.
STATUSES = {
    "reveal mail reveal-4711 --dry-run": {0},
    "reveal mailer": {1},  # no spool is set
    "reveal mail": {1} if ROOT else {0},  # root does not send
    "reveal list .": {0},
    "reveal list": {1} if ROOT else {0},  # root's runs are not remembered
    "reveal clean .": {0},
    "reveal clean": {1} if ROOT else {0},
    "reveal feedback reveal-4711": {0, 1},  # 1: root's runs are not remembered, or this job had no such finding
    "reveal feedback": {1} if ROOT else {0},
    "reveal drill": {0, 3},               # 3: this machine was too busy
    "reveal doctor": {0, 1},              # 1: something to mend
    "reveal check": {0, 1, 2},            # of this machine
    "reveal export reveal-4711 --format perfetto": {0, 1},  # 1: nothing was anomalous in this job
    "reveal show reveal-4711 --finding": {0, 1},  # 1: this job had no such finding
    "reveal show reveal-4711 --node n03 --finding": {0, 1},
    "reveal compare reveal-4721 reveal-4722": {3},  # one run on each side
    "reveal compare --before": {0, 1},
    "reveal compare reveal-4721,reveal-4723": {0, 1},
    "reveal try --with": {0, 1},
    "reveal try --from": {0, 1, 2},                 # 2: this job had no such finding
}


def shell(command, statuses=(0,)):
    command = command.strip()
    for words, instead in ENDS.items():
        command = command.replace(words, instead)
    if "--output n03.h5" in command:
        pathlib.Path("n03.h5").unlink(missing_ok=True)  # a trace is not overwritten
    if "$PID" in command:
        command = "PID=$(sh -c 'sleep 1 >/dev/null & echo $!'); " + command
    started = time.monotonic()
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    check(done.returncode in statuses, f"{command}: exit status {done.returncode}: {done.stderr[-300:]}")
    print(f"{time.monotonic() - started:5.1f} s  {command}")
    return done


ran = set()


def run_line(line, where):
    """A line of an example, if it is something to type; once, although README and --help may both show it."""
    line = line.strip()
    if not line or line.startswith("#"):
        return
    if any(line.startswith(begin) for begin in NOT_RUN):
        return
    command = re.split(r"\s#\s|\s{3,}", line)[0]
    if command in ran or " srun " in f" {command}" or command.startswith("clush"):
        return
    ran.add(command)
    if not command.startswith(PROGRAMS) and not command.startswith("mpirun "):
        check(False, f"{where}: neither run nor listed: {line}")
        return
    statuses = next((known for begin, known in STATUSES.items() if command.startswith(begin)), {0})
    shell(command, statuses)


def blocks_of(path):
    """Indented blocks, as lists of lines without their indentation."""
    block = []
    fenced = in_list = False
    for line in path.read_text().splitlines() + [""]:
        fenced ^= line.startswith("```")
        if line.startswith("    ") and not fenced:
            block.append(line[4:])
        elif line.strip() or fenced:
            if block:
                yield block
            block = []
    if block:
        yield block


def run_readme():
    for block in blocks_of(SOURCE / "README.md"):
        if block[0].startswith("# text after # is"):  # a file for --metrics
            pathlib.Path("by_hand.metrics").write_text("\n".join(block) + "\n")
            shell("reveal-collect --metrics by_hand.metrics --output by_hand.h5 --duration 1s")
            continue
        for line in block:
            if line.startswith(SHOWN):
                break
            run_line(line, "README.md")


def run_help():
    commands = re.findall(r"^  ([a-z-]+)  ", shell("reveal --help").stdout.split("Subcommands:")[1].split("Examples:")[0], re.M)
    check({"report", "show", "doctor", "rules", "help"} <= set(commands), f"subcommands in --help: {commands}")
    pages = ["reveal --help", "reveal-run --help", "reveal-collect --help"]
    pages += [f"reveal help {command}" for command in commands if command != "help"]
    for page in pages:
        text = shell(page).stdout
        if "Examples:" not in text:
            check(False, f"{page}: no examples")
            continue
        for line in text.split("Examples:\n")[1].splitlines():
            if not line.startswith("  "):
                break
            run_line(line, page)


def run_snippets(trace):
    blocks = re.findall(r"```python\n(.*?)```", (SOURCE / "hdf5schema/README.md").read_text(), re.S)
    check(len(blocks) == 4, "hdf5schema/README.md shows reveal.py, h5py and xarray")
    for block in blocks:
        for engine in ("h5netcdf", "netcdf4") if "engine" in block else ("",):
            # A process of its own: a crash in a C library must fail this test, not end it.
            code = f"path, engine = {str(trace)!r}, {engine!r}\n" + block
            done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True,
                                  env={**os.environ, "PYTHONPATH": str(SOURCE / "hdf5schema/python")})
            check(done.returncode == 0, f"hdf5schema/README.md {engine}: {done.stderr[-500:]}")
            check(done.stdout.strip() not in ("", "nan"), f"prints nothing known: {done.stdout}")
    with h5py.File(trace) as file:
        layout = next(block for block in blocks_of(SOURCE / "hdf5schema/README.md") if block[0].startswith("/ "))
        for line in layout:
            for name in re.findall(r"^(/[\w/]+)", line):
                check(name in file, f"hdf5schema/README.md: a trace has no {name}")


def check_reader(trace):
    """reveal.py says what `reveal export` says."""
    text = shell(f"reveal export {trace.parent} --format csv --metrics 'cpu.user,mem.available,no.such'").stdout
    table = pandas.read_csv(io.StringIO(text), index_col="time", parse_dates=True)
    columns = [name for name in table if name.startswith("cpu.user/")]
    check("cpu.user/cpu0 [ns per 0.1 s]" in columns, f"the unit in the header: {columns}")
    busiest = table[columns].sum().idxmax()
    with reveal.open(trace) as opened:
        frame = opened.frame("cpu.user", "mem.available")
        check(frame.attrs["units"] == {"cpu.user": "s/s", "mem.available": "bytes"}, str(frame.attrs))
        check(str(frame.index.tz) == "UTC" and frame.index.is_monotonic_increasing, "a UTC index")
        rate = frame["cpu.user", busiest.removeprefix("cpu.user/").split()[0]].dropna()
        steps = rate.index.to_series().diff().dt.total_seconds()  # longer where a row came late; of the first not known
        check(abs(steps.median() - 0.1) < 0.005, f"rows every {steps.median()} s")
        ours, theirs = (rate * steps).sum(), table.loc[table.index > rate.index[0], busiest].sum() * 1e-9
        row = (rate * steps).max()  # the export has its rows on whole steps: at each end, one may be on the other side
        check(ours > 0.1 and abs(ours - theirs) <= 0.02 * theirs + row, f"cpu.user: {ours} s, export: {theirs} s")
        level = frame["mem.available", ""].dropna()
        exported = table["mem.available [bytes]"].dropna()
        check(level.iloc[-1] == exported.iloc[-1], f"mem.available {level.iloc[-1]}, export {exported.iloc[-1]}")
        check(abs((rate.index[-1] - table.index[-1]).total_seconds()) < 0.3, "both end at the same time")
        metrics = opened.metrics()
        check({"metric", "instance", "units", "kind", "long_name"} <= set(metrics) and len(metrics) > 300, str(metrics))
        check(set(opened.events().columns) == {"object", "code", "text"} and len(opened.events()) > 0, "events")
        check(list(opened.collectives()) == ["rank", "function", "communicator", "ranks", "id", "number", "last"], "table")
        check(list(opened.steps()) == ["rank", "number", "duration", "waiting", "gc", "bytes"], "steps")
        check(opened.snapshot().get("cpu.count") == str(os.cpu_count()), "snapshot")
        check("ok" in set(opened.coverage()["state"]), "coverage")
        check(len(opened.frame("no.such")) == 0, "a pattern that meets nothing gives an empty frame")


def check_figures():
    """Sections with tables of numbers say which command at which commit gave them."""
    for name in ("bench/overhead/README.md", "bench/detection/README.md"):
        for section in re.split(r"^## ", (SOURCE / name).read_text(), flags=re.M):
            if not re.search(r"^\|.*\d", section, re.M):
                continue
            title = section.splitlines()[0]
            measured = re.search(r"Measured: (.*?)(?:\n\n|\Z)", section, re.S)
            check(measured is not None, f"{name}, {title}: no line \"Measured:\"")
            for command in re.findall(r"`([^`]+)`", measured.group(1) if measured else ""):
                if re.fullmatch(r"[0-9a-f]{7}", command):
                    continue
                program = command.split()[0]
                check((SOURCE / program).exists() or (SOURCE / "bench" / f"{program}.cpp").exists(),
                      f"{name}, {title}: no {program}")


def prepare():
    """A job of some ten seconds under the names that the examples use, and what else they read."""
    for name, text in {"train.sh": "sleep 1", "solver": "sleep 1", "mpirun": 'shift 2; exec "$@"'}.items():
        pathlib.Path(name).write_text(f"#!/bin/sh\n{text}\n")
        os.chmod(name, 0o755)
    pathlib.Path("input.nml").touch()
    pathlib.Path("job.sh").write_text("#!/bin/sh\nsrun ./solver input.nml\n")
    os.environ["PATH"] = f"{BIN}:{os.getcwd()}:{os.environ['PATH']}"
    os.environ["PYTHONPATH"] = str(SOURCE / "hdf5schema/python")
    os.environ["XDG_CONFIG_HOME"] = os.environ["XDG_STATE_HOME"] = os.getcwd() + "/none"
    short = [subprocess.Popen(["reveal-run", "--output", f"reveal-472{i}", "--no-report", "--quiet", "--", "sleep", "2"])
             for i in range(1, 5)]
    check(all([run.wait() == 0 for run in short]), "short jobs under reveal-run")
    work = "until [ -e enough ]; do dd if=/dev/zero of=blob bs=64k count=200 2>/dev/null; sleep .2; done"
    job = subprocess.Popen(["reveal-run", "--output", "reveal-4711", "--node", "n03", "--no-report", "--quiet", "--", "sh", "-c", work])
    part = pathlib.Path("reveal-4711/n03.h5.part")
    shell("reveal-collect --record recording --output recorded.h5 --duration 1s")
    rows = 0  # are flushed every ten seconds
    deadline = time.monotonic() + 60
    while rows < 20 and job.poll() is None and time.monotonic() < deadline:
        time.sleep(0.3)
        with contextlib.suppress(OSError, KeyError):
            with reveal.open(part) as opened:
                rows = len(opened.frame("cpu.user").dropna())
    pathlib.Path("enough").touch()
    check(rows >= 20, f"{rows} rows of a trace that is being recorded")
    check(job.wait() == 0, "the job under reveal-run")
    for name in ("reveal-4712", "out", "run7", "reveal-20261121-232004-871"):
        shutil.copytree("reveal-4711", name)
    noise = numpy.random.default_rng(1).normal(size=(1000, 20))
    noise[500:600, :3] += 8
    with h5py.File("series.h5", "w") as series:
        series["values"] = noise
        series["channels"] = numpy.array([f"c{i}" for i in range(20)], dtype="S")
        series.attrs["interval_seconds"] = 0.1
    return pathlib.Path("reveal-4711/n03.h5")


with tempfile.TemporaryDirectory() as directory:
    os.chdir(directory)
    fresh = prepare()
    check_reader(fresh)
    run_snippets(fresh)
    run_readme()
    run_help()
    line = shell("reveal score series.h5 --out scores.csv").stdout
    check("1 strong interval, 0 weak; strongest: samples 500 to 600" in line, f"an 8-sd step of 10 s is not found: {line}")
    as_data = shell("reveal score series.h5 --out scores.csv --json").stdout
    check(json.loads(as_data)["schema"] == "reveal.score/1", as_data)
    check_figures()
    os.chdir("/")
print(f"{len(failures)} failures" if failures else "ok")
end()
