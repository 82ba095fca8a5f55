#!/usr/bin/python3
"""A user's own runs: found by the number of their job, listed, commented and deleted; also where the home is read-only
and where records were written by somebody hostile. Root keeps no history, so a test run by root becomes another user."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import SOURCE, check, end, program  # noqa: E402

ROOT = os.geteuid() == 0
USER = 65534 if ROOT else os.geteuid()
work = pathlib.Path(tempfile.mkdtemp(prefix="reveal-runs-"))
work.chmod(0o755)
# Root's own clone may be where no other user can look.
REVEAL = shutil.copy(program("reveal"), work / "reveal-of-test") if ROOT else program("reveal")
HOME, JOBS, ELSEWHERE = work / "home", work / "jobs", work / "elsewhere"
NOW = int(time.time())
for place in (HOME, JOBS, ELSEWHERE):
    place.mkdir()


def own(path):
    """Hands a tree of files to the user of the test."""
    for each in [path, *path.rglob("*")]:
        if ROOT:
            os.chown(each, USER, USER, follow_symlinks=False)


def run(*words, status=0, home=HOME):
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C.UTF-8"}
    identity = {"user": USER, "group": USER, "extra_groups": []} if ROOT else {}
    done = subprocess.run([REVEAL, *map(str, words)], capture_output=True, text=True, timeout=120, cwd=JOBS,
                          env=environment, **identity)
    check(status is None or done.returncode == status, f"{words}: exit status {done.returncode} instead of {status}: {done.stderr[-300:]}")
    check("\x1b" not in done.stdout + done.stderr, f"{words}: an escape sequence is printed")
    return done


def one_error(*words, status=1, **more):
    error = run(*words, status=status, **more).stderr
    check(len(error.splitlines()) == 1, f"{words}: not one line of error: {error}")
    return error


def record(number, **fields):
    return {"schema": "reveal.run/1", "run_id": f"run {number}", "key": "key", "name": "train", "command": "train",
            "nodes": 1, "seconds": 60, "verdict": "healthy", "findings": [],
            "begin_utc_ns": (NOW - 3600 * number) * 10**9, **fields}


def put(folder, run_record=None, slurm=None, sample="outsider"):
    folder.mkdir(parents=True)
    shutil.copy(SOURCE / f"tests/data/reports/{sample}.json", folder / "report.json")
    if run_record is not None:
        (folder / "run.json").write_text(json.dumps(run_record))
    if slurm is not None:
        (folder / ".slurm.json").write_text(json.dumps(slurm))
    own(folder)
    return folder


def shown(*words, **more):
    return run("show", *words, "--json", **more).stdout


def find_by_number():
    """Slurm delivers array task 4710_3 into reveal-4713, and a heterogeneous component into the directory of its id."""
    put(JOBS / "reveal-4713", slurm={"id": "4713", "array_job": "4710", "array_task": "3"})
    put(JOBS / "reveal-4715", record(1, job="4715", array="4714_0"))
    put(JOBS / "reveal-4716", record(2, job="4716", array="4714_1"))
    put(JOBS / "reveal-4721", slurm={"id": "4721", "het_job": "4720", "het_offset": "1"})
    put(JOBS / "reveal-4730", slurm={"id": "4730", "array_job": "4730", "array_task": "9"})
    put(JOBS / "first try", record(3, job="4750"))
    put(JOBS / "second try", record(4, job="4750"))
    # Hostile records: another user's directory that claims the number, one that is damaged, one with control letters.
    put(JOBS / "claimed", record(5, job="4740"))
    put(JOBS / "damaged").joinpath("run.json").write_text("[" * 100_000)
    put(JOBS / "escape\x1b[2Jname", record(6, job="4750", array="\x1b[31m4710_3"))
    if ROOT:
        os.chown(JOBS / "claimed", 54321, 54321)
    os.symlink("reveal-4713", JOBS / "link")
    for number, directory in (("4710_3", "reveal-4713"), ("4714_1", "reveal-4716"), ("4720+1", "reveal-4721"),
                              ("4713", "reveal-4713"), ("4710", "reveal-4713"), ("4730_9", "reveal-4730")):
        check(shown(number) == shown(directory), f"{number} is not {directory}")
        check(f"--all {directory}" in run("show", number).stdout, f"{number}: the page names another directory")
    error = one_error("show", "4750")
    check("job 4750 has 3 directories: " in error and "'first try'" in error and "'second try'" in error, error)
    check("give one of them" in one_error("show", "4714"), "two tasks of an array")
    for unknown in ("4710_4", "4799", "4720+0", "47100"):
        check(f"none of your runs is job {unknown}" in one_error("show", unknown), f"unknown number {unknown}")
    if ROOT:
        check("none of your runs is job 4740" in one_error("show", "4740"), "a directory of another user was taken")
    check("no directory 4710_x" in one_error("show", "4710_x"), "a word that is no number")
    for words in (("export", "4710_3", "--format", "openmetrics"), ("compare", "4710_3", "4714_1")):
        done = run(*words, status=None)
        check("no directory" not in done.stderr, f"{words}: {done.stderr}")
    for words in (("merge", "4710_3"), ("report", "4710_3"), ("prune", "4710_3", "--out", "x"), ("check", "4710_3")):
        done = run(*words, status=3 if words[0] == "check" else 1)
        check("reveal-4713" in done.stderr + done.stdout, f"{words}: {done}")


def list_runs():
    """The history finds a run wherever its directory is."""
    put(ELSEWHERE / "one", record(7, job="4813", array="4810_3", state="COMPLETED", exit_code=0, nodes=4))
    put(ELSEWHERE / "two", record(30, job="4811", state="FAILED", exit_code=3, verdict="finding",
                                  findings=["cpu.outsider"]))
    put(ELSEWHERE / "three", record(100, name="old", run_id="old", findings=["cpu.outsider", "peer.unexplained"]))
    put(ELSEWHERE / "hostile", record(200, job="1\x1b[2J", array="\x1b[31m", state="\x1b]0;x", exit_code=7))
    (HOME / ".local/state/reveal").mkdir(parents=True)
    (HOME / ".local/state/reveal/history.roots").write_text(f"{ELSEWHERE}\n")
    own(HOME)
    text = run("list").stdout
    for line in ("  4810_3 train, 4 nodes, ran 60 s, COMPLETED\n", "  4811 train, 1 node, ran 60 s, FAILED, exit status 3\n",
                 "  old, 1 node, ran 60 s\n"):
        check(line in text, f"no line \"{line}\": {text}")
    lines = text.splitlines()
    place = next(index for index, line in enumerate(lines) if " old, " in line)
    check(lines[place + 1].strip() == str(ELSEWHERE / "three"), f"a healthy run has a cause: {lines[place:place + 2]}")
    rows = json.loads(run("list", "--json").stdout)["runs"]
    check([(row["job"], row["array"], row["state"], row["exit_status"]) for row in rows[:3]] ==
          [("4813", "4810_3", "COMPLETED", 0), ("4811", None, "FAILED", 3), (None, None, None, None)], f"JSON: {rows}")
    for words, names in ((("--job", "4810"), ["one"]), (("--job", "4813"), ["one"]), (("--state", "FAILED"), ["two"]),
                         (("--since", "2d"), ["one", "two"]), (("--since", "1970-01-02", "--limit", "3"), ["one", "two", "three"]),
                         (("--job", "4811", "--state", "COMPLETED"), [])):
        rows = json.loads(run("list", *words, "--json").stdout)["runs"]
        check([pathlib.Path(row["directory"]).name for row in rows] == names, f"{words}: {rows}")
    check("no run matches these options" in run("list", "--job", "9").stdout, "--job without a match")
    for words in (("--job", "4811; ls"), ("--since", "yesterday")):
        check('"' + words[1] + '" is no ' in one_error("list", *words, status=2), f"{words}")
    for number, directory in (("4810_3", "one"), ("4811", "two")):
        check(shown(number) == shown(ELSEWHERE / directory), f"{number} is not found in the history")
    shutil.rmtree(ELSEWHERE / "two")
    check("none of your runs is job 4811" in one_error("show", "4811"), "a run whose directory was removed")


def read_only_home():
    """Said in one line, and not taken for a user without runs."""
    home = work / "closed"
    home.mkdir()
    own(home)
    home.chmod(0o555)
    error = one_error("list", home=home)
    check(f"{home} cannot be written: " in error and "reveal list DIR" in error, error)
    error = one_error("feedback", "reveal-4715", "cpu.outsider", "mine", home=home)
    check(f"{home} cannot be written: feedback cannot be stored" in error, error)
    check("4714_0 train" in run("list", JOBS, home=home).stdout, "a folder can be listed")
    check("none of your runs is job 9" in one_error("show", "9", home=home), "a number without a history")
    fresh = work / "fresh"
    fresh.mkdir()
    own(fresh)
    check("none of your runs has a report yet" in run("list", home=fresh).stdout, "before the first report")
    check(run("list", fresh, home=fresh).stdout == f"no job directory with a report in {fresh}\n", "an empty folder")


def clean_jobs_without_report():
    """Killed and lazy jobs: only directories of reveal, of this user, with traces of reveal, that nobody writes."""
    folder = work / "unfinished"
    trace = SOURCE / "tests/data/traces/v1.h5"

    def job(name, days=40, **files):
        place = folder / name
        place.mkdir(parents=True)
        shutil.copy(trace, place / "n01.h5")
        for file, text in files.items():
            (place / file.replace("dot_", ".").replace("_", ".")).write_text(text)
        for each in [*place.iterdir(), place]:
            os.utime(each, (NOW - 86400 * days,) * 2)
        return place
    job("reveal-1")
    job("runs-of-2", dot_job="cluster 2 0\n")
    job("reveal-3", notes_txt="mine")
    job("reveal-4", days=0)
    job("traces")  # collected by hand
    (job("reveal-5") / "n01.h5").write_text("not a trace")
    stranger = job("reveal-6")
    os.symlink("reveal-1", folder / "reveal-7")
    (folder / "reveal-8").mkdir()
    own(folder)
    if ROOT:
        for path in (stranger / "n01.h5", stranger):
            os.chown(path, 54321, 54321)
    text = run("clean", folder, "--older-than", "30d").stdout
    check(text.count("(without run.json)") == (3 if ROOT else 4) and "would delete" in text, text)
    check((folder / "reveal-1/n01.h5").exists(), "deleted without --delete")
    rows = json.loads(run("clean", folder, "--older-than", "30d", "--delete", "--json").stdout)["runs"]
    names = {pathlib.Path(row["directory"]).name for row in rows if row["deleted"] and not row["has_record"]}
    check(names - {"reveal-6"} == {"reveal-1", "runs-of-2", "reveal-3"}, f"deleted: {names}")
    left = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())
    expected = ["reveal-3/notes.txt", "reveal-4/n01.h5", "reveal-5/n01.h5", "reveal-7", "traces/n01.h5"]
    check(left == sorted(expected + (["reveal-6/n01.h5"] if ROOT else [])), f"left: {left}")
    check("may still be recorded" in run("clean", folder, "--keep", "0").stdout, "a young job without a report")


try:
    find_by_number()
    list_runs()
    read_only_home()
    clean_jobs_without_report()
finally:
    shutil.rmtree(work)
end()
