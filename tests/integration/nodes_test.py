#!/usr/bin/python3
"""`reveal nodes` and `reveal backtest` over directories of jobs, hostile ones among them.

    nodes_test.py             what they print, refuse and keep
    nodes_test.py --time N    seconds for N job directories with reports of this build's samples"""
import fcntl
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
from harness import SOURCE, check, end, program  # noqa: E402

REVEAL = program("reveal")
ROOT = os.geteuid() == 0
STRANGERS = (54321, 54322)
HARDWARE = "mem.ecc_host"
work = pathlib.Path(tempfile.mkdtemp(prefix="reveal-nodes-"))
work.chmod(0o755)  # the owners of the directories go through it
os.chdir(work)
os.environ["XDG_CONFIG_HOME"] = str(work / "none")


def run(*words, status=0):
    done = subprocess.run([REVEAL, *map(str, words)], capture_output=True, text=True, timeout=300)
    check(done.returncode == status, f"{words}: exit status {done.returncode} instead of {status}: {done.stderr[-300:]}")
    check("\x1b" not in done.stdout and "\x1b" not in done.stderr, f"{words}: an escape sequence is printed")
    return done


def finding(rule, nodes, seconds=None, **more):
    return {"id": rule, "fingerprint": "", "title": "A title of ada's", "sentence": "A sentence of ada's",
            "severity": "warning", "confidence": "likely", "kind": "anomaly", "subsystem": "memory", "nodes": nodes,
            "instances": [], "intervals": [], "evidence": [], "sources": [],
            "impact": {"seconds": seconds, "percent": None, "how": "counted by ada", "at_most": False},
            "remedy": {"user": [], "advice": [], "admin": ["rm -rf / --no-preserve-root"], "verify": ""}, **more}


def report(job, nodes, *findings, begin="2026-01-02T10:00:00Z", over="2026-01-02T11:00:00Z"):
    return {"schema": "reveal.report/1",
            "job": {"id": job, "user": "ada", "name": "secret-project", "command": "train --token 1234",
                    "nodes": nodes, "begin": begin, "end": over},
            "findings": list(findings)}


def put(folder, content, owner=None):
    place = work / folder
    place.mkdir(parents=True)
    if content is not None:
        (place / "report.json").write_text(content if isinstance(content, str) else json.dumps(content))
    if owner is not None and ROOT:
        for path in (place / "report.json", place):
            if path.exists():
                os.chown(path, owner, owner)
        place.chmod(0o700)
    return place


def ranking(*words, status=0):
    return json.loads(run("nodes", *words, "--json", status=status).stdout)


def good_jobs():
    """n17 has bad memory in three jobs of two users; all nodes of a job were oversubscribed, which is no node's fault."""
    put("jobs/reveal-1", report("1", ["n16", "n17"], finding(HARDWARE, ["n17"], 90)), STRANGERS[0])
    put("jobs/reveal-2", report("2", ["n17", "n18"], finding(HARDWARE, ["n17"], 36)), STRANGERS[0])
    put("jobs/reveal-3", report("3", ["n17"], finding(HARDWARE, ["n17"])), STRANGERS[1])
    put("jobs/reveal-4", report("4", ["n16", "n18"], finding("cpu.oversubscribed", ["n16", "n18"], 600)))
    made = ranking("jobs")
    check((made["schema"], made["jobs"], made["nodes_seen"]) == ("reveal.nodes/1", 4, 3), f"jobs and nodes: {made}")
    check([node["node"] for node in made["nodes"]] == ["n17"], f"nodes with findings: {made['nodes']}")
    check(made["findings_of_whole_jobs"] == 2 and made["unread"] == [], f"of whole jobs: {made}")
    node = made["nodes"][0]
    check((node["jobs"], node["jobs_with_findings"], node["node_hours"]) == (3, 3, 0.07), f"n17: {node}")
    users = 2 if ROOT else 1
    drain = f'scontrol update nodename=n17 state=drain reason="reveal: {HARDWARE} in 3 jobs of {users} user' + \
            ('s"' if ROOT else '"')
    check(node["suggestion"] == drain, f"suggestion: {node['suggestion']}")
    text = run("nodes", "jobs").stdout
    check(drain in text and "n17  3 of 3 jobs, 0.07 node-hours lost, last 2026-01-02 11:00:00 UTC" in text, text)
    check("rm -rf" not in text and "ada" not in text, f"a text of the report's is printed: {text}")
    check(run("nodes", *sorted((work / "jobs").iterdir()), work / "jobs").stdout == text, "each directory once")
    check(ranking("jobs", "--agree", 4)["nodes"][0]["suggestion"] is None, "--agree")


def keep_ledger():
    check("4 jobs on 3 nodes" in run("nodes", "jobs", "--ledger", "nodes.jsonl", "--keep", "1h").stdout, "old jobs")
    check((work / "nodes.jsonl").read_text() == "", "jobs that ended before --keep are in the ledger")
    run("nodes", "jobs", "--ledger", "nodes.jsonl", "--keep", "10000d")
    text = (work / "nodes.jsonl").read_text()
    check(len(text.splitlines()) == 7, f"a line for each node and job: {text}")
    check((work / "nodes.jsonl").stat().st_mode & 0o777 == 0o600, "only its owner reads the ledger")
    for word in ("ada", "secret", "train", "1234", "title", "counted", "rm -rf"):
        check(word not in text, f"the ledger holds \"{word}\"")
    before = ranking("jobs")
    check(ranking("--ledger", "nodes.jsonl") == before, "the ledger has the same results as the directories")
    run("nodes", "jobs", "--ledger", "nodes.jsonl", "--keep", "10000d")
    check((work / "nodes.jsonl").read_text() == text, "the same jobs once more change nothing")
    check(ranking("--ledger", "nodes.jsonl", "--since", "1h")["jobs"] == 0, "--since")
    with open("nodes.jsonl", "a") as ledger:
        ledger.write("\x1b[31m{\"schema\": 7}\n{\"node\": \"n17; reboot\"}\n" + "[" * 100000 + "\n")
    spoiled = ranking("--ledger", "nodes.jsonl")
    check(spoiled.pop("lines_refused") == 3 and before.pop("lines_refused") == 0 and spoiled == before, "damaged lines")
    os.symlink("nodes.jsonl", "link.jsonl")
    check("link.jsonl" in run("nodes", "--ledger", "link.jsonl", status=1).stderr, "a link is no ledger")
    check("nowhere.jsonl" in run("nodes", "--ledger", "nowhere.jsonl", status=1).stderr, "no ledger")
    with open("nodes.jsonl.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        other = subprocess.Popen([REVEAL, "nodes", "jobs", "--ledger", "nodes.jsonl", "--keep", "10000d"], stdout=subprocess.DEVNULL)
        time.sleep(1)
        check(other.poll() is None, "two calls write one ledger at the same time")
    check(other.wait(60) == 0, "after the other call")
    if ROOT:
        os.chown("nodes.jsonl", STRANGERS[0], STRANGERS[0])
        check("belongs to another user" in run("nodes", "--ledger", "nodes.jsonl", status=1).stderr, "of somebody else")


def hostile_directories():
    """Each of them is one line, and costs no other directory its place."""
    secret = put("secret", report("666", ["n66"], finding(HARDWARE, ["n66"], 60)))
    bad = {
        "escape": report("1\x1b[2J", ["n17"]),
        "shell": report("1", ["n17; reboot"]),
        "option": report("1", ["-n17"]),
        "host_list": report("1", ["n[01-99]"]),
        "future": report("1", ["n17"], over="2399-01-02T11:00:00Z", begin="2399-01-02T10:00:00Z"),
        "backwards": report("1", ["n17"], over="2020-01-02T11:00:00Z"),
        "long": report("1", ["n17"], begin="1999-01-02T11:00:00Z"),
        "no_nodes": report("1", []),
        "many_nodes": report("1", [f"n{i}" for i in range(100_001)]),
        "cut_off": json.dumps(report("1", ["n17"]))[:-9],
        "empty": "",
        "nested": "[" * 5_000_000,
        "huge": " " * ((64 << 20) + 1),
        "number": '{"schema": "reveal.report/1", "job": {"begin": 1e999}}',
        "other_schema": {"schema": "reveal.report/9"},
    }
    for index, (name, content) in enumerate(bad.items()):
        put(f"hostile/{name}", content, STRANGERS[index % 2])
    for name, target in (("link", secret / "report.json"), ("device", pathlib.Path("/dev/zero"))):
        os.symlink(target, put(f"hostile/{name}", None) / "report.json")
    os.mkfifo(put("hostile/fifo", None) / "report.json")
    (put("hostile/folder", None) / "report.json").mkdir()
    put("hostile/missing", None)
    os.symlink(secret, work / "hostile/directory_link")
    put("hostile/forged", report("9", ["n9"], finding(HARDWARE, ["n9"], 1e300), finding("no.such_rule", ["n9"]),
                                 finding("cpu.outsider", ["n77"])), STRANGERS[0])
    began = time.monotonic()
    made = ranking("hostile")
    print(f"{time.monotonic() - began:.1f} s for the hostile directories")
    unread = {pathlib.Path(entry["directory"]).name for entry in made["unread"]}
    check(unread == set(bad) | {"link", "device", "fifo", "folder", "missing"}, f"not read: {unread}")
    check([node["node"] for node in made["nodes"]] == ["n9"], f"nodes: {made['nodes']}")
    check(made["nodes"][0]["node_hours"] == 1, f"no more than the job had: {made['nodes']}")
    text = run("nodes", "hostile").stdout
    check("--json lists them" in text and len(text.splitlines()) < 30, text)
    for words in (("hostile/missing",), ("hostile/link", "hostile/nested")):
        check(run("nodes", *words, status=1).stdout.startswith("no job was read"), f"{words}")
    if ROOT:
        for job in range(1, 6):
            put(f"one_user/reveal-{job}", report(str(job), ["n17"], finding(HARDWARE, ["n17"])), STRANGERS[0])
        node = ranking("one_user")["nodes"][0]
        check(node["suggestion"] is None and "one user" in node["why_no_suggestion"], f"one user drains a node: {node}")


def digest():
    """To the administrators, by way of the site's settings; root can only look."""
    put("mailed/reveal-1", report("1", ["n16", "n17"], finding(HARDWARE, ["n17"], 90)))
    run("nodes", "mailed", "--ledger", "mailed.jsonl", "--keep", "10000d")
    (work / "sendmail").write_text(f"#!/bin/sh\ncat > {work}/sent\n")
    (work / "sendmail").chmod(0o755)
    (work / "mail.conf").write_text(f'[mail]\nenabled = true\nadmins = ["root@example.org"]\ndomain = "example.org"\n'
                                    f'sendmail = ["{work}/sendmail"]\ndisable = "{work}/no-mail"\n')
    words = ["nodes", "--ledger", "-", "--mail", "--config", "mail.conf"]
    lines = (work / "mailed.jsonl").read_text()
    done = subprocess.run([REVEAL, *words, "--dry-run"], input=lines, capture_output=True, text=True, timeout=60)
    check(done.returncode == 0 and "would be sent to root@example.org (admins)" in done.stdout, f"--dry-run: {done}")
    check("subject: [reveal] 1 node with findings: n17" in done.stdout and "n17  1 of 1 job" in done.stdout, done.stdout)
    check(not (work / "sent").exists(), "--dry-run sends")
    done = subprocess.run([REVEAL, *words], input=lines, capture_output=True, text=True, timeout=60)
    if ROOT:
        check(done.returncode == 1 and "does not send mail as root" in done.stderr, f"root sends: {done}")
    else:
        check(done.returncode == 0 and "Subject: [reveal] 1 node" in (work / "sent").read_text(), f"--mail: {done}")
    check("only reads" in run("nodes", "mailed", "--ledger", "-", status=2).stderr, "--ledger - keeps nothing")
    unreadable = os.open(work, os.O_RDONLY)
    done = subprocess.run([REVEAL, *words, "--dry-run"], stdin=unreadable, capture_output=True, text=True, timeout=60)
    os.close(unreadable)
    check(done.returncode == 1 and "standard input: " in done.stderr, f"a ledger that cannot be read: {done}")
    subprocess.run(["sh", "-c", '"$0" nodes mailed --ledger closed.jsonl --keep 10000d >&-', REVEAL], timeout=60)
    check((work / "closed.jsonl.lock").read_text() == "", "with a closed standard output, the ranking is in the lock")


def digest_unit():
    """The service finds the users' directories by JOBS, and says so where nobody has set it."""
    def ago(hours):
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3600 * hours))
    for name, owner in (("users/ada/reveal-1", STRANGERS[0]), ("users/bob/reveal-2", STRANGERS[1])):
        put(name, report(name[-1], ["n17"], finding(HARDWARE, ["n17"]), begin=ago(2), over=ago(1)), owner)
    put("users/ada/reveal-9", report("9", ["n17"], begin=ago(72), over=ago(71)), STRANGERS[0])
    unit = (SOURCE / "site-config/systemd/reveal-digest.service.in").read_text()
    unit = unit.replace("@CMAKE_INSTALL_FULL_BINDIR@", os.path.dirname(REVEAL)).replace("/var/lib/reveal", str(work / "var"))
    (work / "var").mkdir()
    check("\nEnvironment=JOBS=\n" in unit and "\nEnvironment=COLLECT=\n" in unit, "JOBS or COLLECT has a default")
    first, second = re.findall(r"^(?:ExecStartPre=|ExecStart=-)/bin/sh -c '(.*)'$", unit.replace("%%", "%"), re.MULTILINE)

    def start(command, jobs, collect=""):
        return subprocess.run(["/bin/sh", "-c", command], env={**os.environ, "JOBS": jobs, "COLLECT": collect},
                              capture_output=True, text=True, timeout=60)
    unset = start(first, "")
    check(unset.returncode == 1 and "JOBS is not set" in unset.stderr, f"without JOBS: {unset}")
    check(start(first, "/home/*").returncode == 0 and start(first, "", "cat nodes").returncode == 0, "with JOBS or COLLECT")
    done = start(second, f"{work}/users/*/reveal-* {work}/nowhere/*")
    check(done.returncode == 0, f"with patterns: {done}")
    lines = [json.loads(line) for line in (work / "var/nodes.jsonl").read_text().splitlines()]
    check(sorted(line["job"] for line in lines) == ["1", "2", "9"], f"the ledger of the service: {lines}")
    put("elsewhere/reveal-3", report("3", ["n18"], begin=ago(2), over=ago(1)))
    run("nodes", "elsewhere", "--ledger", "n18.jsonl")
    done = start(second, f"{work}/users/ada/*", f"cat {work}/n18.jsonl {work}/n18.jsonl")
    check(done.returncode == 0, f"with COLLECT: {done}")
    lines = [json.loads(line) for line in (work / "var/nodes.jsonl").read_text().splitlines()]
    check(sorted(line["job"] for line in lines) == ["1", "2", "3", "9"], f"the ledger with that of a node: {lines}")
    third = re.findall(r"^ExecStart=/bin/sh -c '(.*)'$", unit, re.MULTILINE)[0].replace("%%", "%")
    third = third.replace(f'runuser -u "$MAILER" -- {os.path.dirname(REVEAL)}/reveal', f"{work}/mailer")
    sent = work / "var/digest.sent"
    day_before = lambda: os.utime(sent, (time.time() - 200_000,) * 2)

    def mail(status):
        """The jobs that the mail is about; None if there is none."""
        for name in ("asked", "told"):
            (work / name).unlink(missing_ok=True)
        (work / "mailer").write_text(f'#!/bin/sh\necho "$@" >{work}/asked\ncat >{work}/told\nexit {status}\n')
        (work / "mailer").chmod(0o755)
        done = start(third, "")
        check(done.returncode == status, f"the mail of the service: {done}")
        if not (work / "asked").exists():
            return None
        check((work / "asked").read_text() == "nodes --ledger - --mail\n", (work / "asked").read_text())
        return sorted(json.loads(line)["job"] for line in (work / "told").read_text().splitlines() if line)

    def collect():
        check(start(second, f"{work}/users/*/reveal-*").returncode == 0, "the collection of the service")
    check(mail(1) == ["1", "2", "3"] and not sent.exists(), "the first mail is of a day, and one that failed leaves no mark")
    put("users/ada/reveal-7", report("7", ["n22"], begin=ago(50), over=ago(49)))
    collect()
    check(mail(0) == ["1", "2", "3", "7"] and sent.exists(), "it is sent again with what came meanwhile, and then leaves a mark")
    check(mail(0) is None, "a day has one mail")
    day_before()
    put("users/ada/reveal-4", report("4", ["n19"], begin=ago(250), over=ago(249)))
    collect()
    check(mail(1) == ["4"], "a line that comes ten days late is told, and the others are not told again")
    put("users/ada/reveal-5", report("5", ["n20"], begin=ago(2), over=ago(1)))
    collect()
    put("users/bob/reveal-8", report("8", ["n23"], begin=ago(2), over=ago(1)))
    run("nodes", work / "users/bob", "--ledger", work / "var/nodes.jsonl")  # by hand, between two digests
    collect()
    check(mail(0) == ["4", "5", "8"], "a mail that failed is sent with the lines of the next day, each once")
    day_before()
    collect()
    check(mail(0) == [], "what was told is not told again")
    check(sorted(os.listdir(work / "var")) == ["digest.sent", "nodes.jsonl", "nodes.jsonl.key", "nodes.jsonl.lock",
                                               "nodes.jsonl.untold"], os.listdir(work / "var"))
    # The copy of new lines was interrupted: half a line is there, and then all of them once more.
    day_before()
    put("users/ada/reveal-6", report("6", ["n21"], begin=ago(2), over=ago(1)))
    collect()
    whole = (work / "var/nodes.jsonl.untold").read_text()
    (work / "var/telling.jsonl").write_text("\n" + whole[:40])
    (work / "mailer").write_text(f'#!/bin/sh\ncat >{work}/told\n')
    check(start(third, "").returncode == 0, "after an interruption")
    made = json.loads(subprocess.run([REVEAL, "nodes", "--ledger", "-", "--json"], input=(work / "told").read_text(),
                                     capture_output=True, text=True, timeout=60).stdout)
    check((made["jobs"], made["lines_refused"]) == (1, 1), f"after an interruption: {made}")
    (work / "var/nodes.jsonl").unlink()
    check(start(second, f"{work}/users/*/reveal-*").returncode == 0 and not (work / "var/nodes.jsonl").exists(),
          "and needs the directories once")


def pseudonyms():
    """The owner in a ledger: one for each user, not to be found by hashing all user ids, the same from day to day."""
    if not ROOT:
        return
    words = ("jobs", "--ledger", "named.jsonl", "--keep", "10000d")
    run("nodes", *words)
    owners = {line["job"]: line["owner"] for line in map(json.loads, (work / "named.jsonl").read_text().splitlines())}
    check(owners["1"] == owners["2"] and len(set(owners.values())) == 3, f"owners: {owners}")
    check((work / "named.jsonl.key").stat().st_mode & 0o777 == 0o600, "others can read the key of the pseudonyms")
    before = (work / "named.jsonl").read_text()
    run("nodes", *words)
    check((work / "named.jsonl").read_text() == before, "pseudonyms change from call to call")
    run("nodes", "jobs", "--ledger", "other.jsonl", "--keep", "10000d")
    other = {line["job"]: line["owner"] for line in map(json.loads, (work / "other.jsonl").read_text().splitlines())}
    check(all(other[job] != owner for job, owner in owners.items()), "two ledgers have the same pseudonyms")


def programs_of_users():
    """A node is not blamed for a leak and for too many threads of a job of one node."""
    blamed = ("mem.leak_oom_risk", "mem.oom_killed", "cpu.affinity_too_narrow", "cpu.oversubscribed")
    put("programs/reveal-1", report("1", ["node0"], *(finding(rule, ["node0"], 60) for rule in blamed)))
    put("programs/reveal-2", report("2", ["node1"], finding("cpu.outsider", ["node1"], 60)))
    made = ranking("programs")
    check([node["node"] for node in made["nodes"]] == ["node1"], f"nodes that users' programs slowed: {made['nodes']}")
    check(made["findings_of_whole_jobs"] == 4, f"findings about programs: {made}")


def usage():
    check("give job directories" in run("nodes", status=2).stderr, "without anything to read")
    check("needs --ledger FILE" in run("nodes", "jobs", "--untold", status=2).stderr, "--untold")
    check("write 24h" in run("nodes", "jobs", "--since", "yesterday", status=2).stderr, "--since")
    check("no directory" in run("nodes", "nowhere/x", status=1).stderr, "no such directory")


def backtest():
    trace = SOURCE / "tests/data/traces/v1.h5"
    for name in ("traces/reveal-1", "traces/reveal-2"):
        place = put(name, None)
        shutil.copy(trace, place / "n01.h5")
    if ROOT:
        for path in (work / "traces/reveal-2/n01.h5", work / "traces/reveal-2"):
            os.chown(path, STRANGERS[0], STRANGERS[0])
    (put("traces/reveal-3", None) / "n01.h5").write_text("not a trace")
    put("traces/reveal-4", None)
    jobs = sorted((work / "traces").iterdir())
    made = json.loads(run("backtest", "cpu.outsider", "mem.ecc_host", "--set", "min_cpu=0.5", *jobs, "--json").stdout)
    check(made["changes"] == [{"rule": "cpu.outsider", "key": "min_cpu", "before": "0.15", "after": "0.5"}],
          f"changes: {made['changes']}")
    check([totals["jobs"] for totals in made["totals"]] == [2, 2], f"totals: {made['totals']}")
    check([job["failure"] is None for job in made["jobs"]] == [True, True, False, False], f"jobs: {made['jobs']}")
    for name in ("traces/reveal-1", "traces/reveal-2"):
        check(sorted(os.listdir(work / name)) == ["n01.h5"], f"something was written: {os.listdir(work / name)}")
    text = run("backtest", "cpu.outsider", "--set", "cpu.outsider.min_cpu=0.5", *jobs).stdout
    check(text.startswith("cpu.outsider.min_cpu: 0.15 -> 0.5\n") and "is not an HDF5" in text and "2 not checked" in text, text)
    (work / "site.conf").write_text('[rule."cpu.outsider"]\nmin_cpu = 0.3\n')
    text = run("backtest", "cpu.outsider", "--set", "min_cpu=0.5", "--config", "site.conf", jobs[0]).stdout
    check(text.startswith("cpu.outsider.min_cpu: 0.3 -> 0.5\n"), text)
    for words, status, says in ((("cpu.outsidr", "--set", "min_cpu=1", jobs[0]), 1, 'no rule "cpu.outsidr"'),
                                (("cpu.outsider", "--set", "min_cpux=1", jobs[0]), 1, 'no threshold "min_cpux"'),
                                (("cpu.outsider", "--set", "min_cpu=x", jobs[0]), 1, "min_cpu is a number"),
                                (("cpu.outsider", "--set", "min_cpu", jobs[0]), 1, "no KEY=VALUE"),
                                (("cpu.outsider", "--set", "min_cpu=1"), 1, "give the directories"),
                                (("history.slower", "--set", "enabled=true", jobs[0]), 1, "earlier runs"),
                                (("cpu.outsider", jobs[0]), 2, "--set is required"),
                                (("cpu.outsider", "--set", "min_cpu=1", "nowhere/x"), 1, "no directory")):
        done = run("backtest", *words, status=status)
        check(says in done.stderr and len(done.stderr.splitlines()) == 1, f"{words}: {done.stderr}")
    subprocess.run([program("reveal-collect"), "--output", put("traces/reveal-5", None) / "n05.h5", "--duration", "1s"],
                   check=True, capture_output=True)
    tried = ("backtest", "io.fs_full", "--set", "min_share=0.99999", "--set", "min_left=1e9", "traces/reveal-5")
    made = json.loads(run(*tried, "--json").stdout)
    outcome = made["jobs"][0]["rules"][0]["outcome"]
    check(outcome == "appeared" and made["totals"][0]["appeared"] == 1, f"a file system that is not empty: {made}")
    check("-> notice on 1 node" in run(*tried).stdout, "before and after")
    (work / "muted.conf").write_text('[report]\nmute = ["io.fs_full"]\n')
    made = json.loads(run(*tried, "traces/../traces/reveal-5", "--config", "muted.conf", "--json").stdout)
    check(made["totals"][0]["appeared"] == made["totals"][0]["jobs"] == 1, f"a muted rule, a job given twice: {made}")
    check("not analysed" in run("backtest", "cpu.outsider", "--set", "min_cpu=1", jobs[3], status=1).stdout, "no trace")


def measure(count):
    samples = [json.loads(path.read_text()) for path in sorted((SOURCE / "tests/data/reports").glob("*.json"))
               if path.stem != "hostile"]
    size = 0
    for index in range(count):
        sample = samples[index % len(samples)]
        sample["job"]["id"] = str(index)
        size += (put(f"many/reveal-{index}", sample, STRANGERS[index % 2]) / "report.json").stat().st_size
    began = time.monotonic()
    made = ranking("many", "--ledger", "many.jsonl", "--keep", "10000d")
    print(f"{count} directories ({made['jobs']} jobs, {made['nodes_seen']} nodes, {size / count / 1024:.0f} KiB each): "
          f"{time.monotonic() - began:.2f} s")
    began = time.monotonic()
    run("nodes", "--ledger", "many.jsonl")
    print(f"from the ledger ({(work / 'many.jsonl').stat().st_size / 1024:.0f} KiB): {time.monotonic() - began:.2f} s")


try:
    if len(sys.argv) > 2 and sys.argv[1] == "--time":
        measure(int(sys.argv[2]))
    else:
        good_jobs()
        keep_ledger()
        hostile_directories()
        programs_of_users()
        pseudonyms()
        digest_unit()
        digest()
        usage()
        backtest()
finally:
    os.chdir("/")
    shutil.rmtree(work)
end()
