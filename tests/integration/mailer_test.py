#!/usr/bin/python3
"""The site's mailer: 500 jobs of 12 users leave their mails in the spool, and one account sends them through msmtp to a
real SMTP server (aiosmtpd on loopback).

Prints one line per situation: who got a mail, and what was checked in it."""
import atexit
import datetime
import email
import email.policy
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import SOURCE, check, end, failures, program, skip  # noqa: E402
from smtp import MSMTP, Controller, Inbox, free_port, msmtp_config  # noqa: E402
if os.geteuid() != 0:
    skip("needs root: jobs of 12 users and the account of the mailer")

LIMIT = 120  # seconds; decides nothing when all is well
MAILER = 65534
USERS = range(60001, 60013)
GROUP = 60000
ADMIN = "ops@hpc.example.org"
table = []


work = pathlib.Path(tempfile.mkdtemp(prefix="reveal-mailer-"))
atexit.register(shutil.rmtree, work, ignore_errors=True)
work.chmod(0o755)
REVEAL = work / "reveal"
shutil.copy(program("reveal"), REVEAL)
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": str(work), "LC_ALL": "C.UTF-8"}
spool = work / "spool"
spool.mkdir()
os.chown(spool, MAILER, MAILER)
spool.chmod(0o3733)
counters = work / "counters"
counters.mkdir()
os.chown(counters, MAILER, MAILER)
linked = counters / "linked"  # the mailer could delete or empty it
linked.write_text("kept")
os.chown(linked, MAILER, MAILER)


def identity(uid):
    return {"user": uid, "group": MAILER if uid == MAILER else GROUP, "extra_groups": []}


def site_config(name, port, **changes):
    settings = {"enabled": "true", "sendmail": f'"{MSMTP} -C {msmtp_config(work, port)} -t -i"', "domain": '"hpc.example.org"',
                "admins": '["ops"]', "mailer_spool": f'"{spool}"', "digest": '"0s"', "disable": f'"{work}/no-mail"',
                **changes}
    path = work / f"{name}.conf"
    path.write_text("[mail]\n" + "".join(f"{key} = {value}\n" for key, value in settings.items()))
    path.chmod(0o644)
    return path


def job(number, uid, change=None):
    directory = work / f"reveal-{number}"
    directory.mkdir()
    report = json.loads((SOURCE / "tests/data/reports/outsider.json").read_text())
    report["report_id"] = f"{number}-0-0"
    now = datetime.datetime.now(datetime.timezone.utc)
    report["job"].update(id=str(number), begin=f"{now - datetime.timedelta(minutes=3):%Y-%m-%dT%H:%M:%SZ}",
                         end=f"{now - datetime.timedelta(minutes=1):%Y-%m-%dT%H:%M:%SZ}")
    if change is not None:
        change(report)
    (directory / "report.json").write_text(json.dumps(report))
    for path in (directory, directory / "report.json"):
        os.chown(path, uid, GROUP)
    return directory


def start(uid, config, *words):
    return subprocess.Popen([REVEAL, *words, "--config", config], text=True, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=work, env=ENVIRONMENT, **identity(uid))


def answer_of(process, what, status=0, lines=0):
    out, err = process.communicate(timeout=LIMIT)
    check(process.returncode == status, f"{what}: exit status {process.returncode}, not {status}: {err}")
    check(err.count("\n") == lines, f"{what}: {err.count(chr(10))} lines on stderr, not {lines}: {err}")
    return out


def end_of_job(uid, config, directory, *words):
    return answer_of(start(uid, config, "mail", directory, *words), f"mail of user {uid}")


def mailer(config, *words, status=0, lines=0):
    return answer_of(start(MAILER, config, "mailer", *words), "mailer", status, lines)


def received(situation, *recipients, checked=""):
    mails = {",".join(sorted(to)): email.message_from_bytes(content, policy=email.policy.default)
             for to, content in inbox.mails}
    check(len(inbox.mails) == len(mails), f"{situation}: a recipient got more than one mail")
    check(sorted(mails) == sorted(recipients), f"{situation}: mail went to {sorted(mails)}, not to {sorted(recipients)}")
    inbox.mails.clear()
    table.append((situation, f"{len(mails)} recipients" if len(mails) > 3 else ", ".join(sorted(mails)) or "nobody", checked))
    return mails


def waiting():
    return [path for path in spool.iterdir() if path.name.startswith("mail-") and path.is_file()]


def waiting_for_users():
    return [path for path in waiting() if json.loads(path.read_text())["audience"] == "user"]


def text_of(message):
    return message.get_body(preferencelist=("plain",)).get_content()


def address(uid):
    return f"u{uid}@hpc.example.org"


inbox = Inbox()
port = free_port()
server = Controller(inbox, hostname="127.0.0.1", port=port)
server.start()
atexit.register(server.stop)
site = site_config("site", port)
direct = site_config("direct", port, mailer_spool='""')

# --- 500 jobs of 12 users with the same finding; the first job of each user has a mail to its user
jobs = {number: USERS[number % len(USERS)] for number in range(1000, 1500)}
begin = time.monotonic()
running = []
for number, uid in jobs.items():
    wish = ["--mail-user", address(uid)] if number < 1000 + len(USERS) else ["--to", "off"]
    running.append((uid, start(uid, site, "mail", job(number, uid), *wish)))
    if len(running) == 4:
        for uid, process in running:
            answer_of(process, f"mail of user {uid}")
        running.clear()
for uid, process in running:
    answer_of(process, f"mail of user {uid}")
left = waiting()
check(len(left) == 512, f"{len(left)} mails wait, not 512")
check({path.stat().st_mode & 0o7777 for path in left} == {0o640} and {path.stat().st_gid for path in left} == {MAILER},
      "only its user and the mailer can read a mail in the spool")
seconds = time.monotonic() - begin
received("500 jobs have ended", checked=f"nothing is sent, 512 mails wait; {seconds:.0f} s")

# --- what others can do in the spool
tries = f"""
import os
done = []
for what, call in (("list", lambda: os.listdir("{spool}")), ("read", lambda: open("{left[0]}").read()),
                   ("delete", lambda: os.unlink("{left[0]}")), ("enter state", lambda: os.listdir("{spool}/state")),
                   ("replace", lambda: os.rename("{work}/mine", "{left[0]}"))):
    try:
        call()
        done.append(what)
    except OSError:
        pass
print(done)
"""
(work / "mine").touch()
os.chown(work / "mine", 60099, GROUP)
said = subprocess.run([sys.executable, "-c", tries], capture_output=True, text=True, timeout=LIMIT, **identity(60099))
check(said.stdout.strip() == "[]", f"another user can {said.stdout} {said.stderr}")

# --- hostile things in the spool
hostile = f"""
import json, os
os.chdir("{spool}")
os.symlink("{linked}", "mail-u0000000000000001")
os.mkfifo("mail-u0000000000000002", 0o666)
with open("mail-u0000000000000003", "wb") as file:
    file.truncate(1 << 30)
open("mail-u0000000000000004", "w").write("rubbish")
open("rubbish", "w").write("rubbish")
os.makedirs("mail-folder/inside")
open("mail-u0000000000000005", "w").write(json.dumps({{
    "schema": "reveal.spooled-mail/1", "audience": "user", "asked": "victim@other.net", "user": "root",
    "mail_user": "victim@other.net", "directory": "/tmp/x", "array": "", "tasks": [], "report": open("{work}/forged.json").read()}}))
os.symlink("/etc/shadow", ".lock")
"""
(work / "forged.json").write_text((SOURCE / "tests/data/reports/outsider.json").read_text())
(work / "forged.json").chmod(0o644)
said = subprocess.run([sys.executable, "-c", hostile], capture_output=True, text=True, timeout=LIMIT, **identity(60099))
check(said.returncode == 0, said.stderr)

# --- the mailer
before = sorted(path.name for path in spool.iterdir() if path.name != "state")
out = mailer(site, "--dry-run", lines=2)  # the rubbish, and the forged mail of a user without a name
after = sorted(path.name for path in spool.iterdir() if path.name != "state")
check(out.count("would be sent to") == 13 and before == after, f"a dry run lists 12 users and the administrators: {out}")
received("dry run", checked="13 mails are listed, nothing changes")
begin = time.monotonic()
mailer(site, "--textfile", counters / "mailer.prom", lines=3)  # and the directory that cannot be deleted
seconds = time.monotonic() - begin
mails = received("the mailer", ADMIN, *map(address, USERS), checked=f"one mail each; {seconds:.0f} s")
digest = mails[ADMIN]
check(digest["subject"] == "[reveal] critical: A process outside the job ran on its cpus on n01, 500 jobs of 12 users",
      f"subject is {digest['subject']}")
text = " ".join(text_of(digest).split())
check("cpu.outsider on n01: 500 jobs of 12 users; first " in text and "lost about 59 min 10 s" in text, f"its row: {text}")
check("systemctl list-timers # on n01" in text, "the line to type")
check("resnet50" not in text and "ada" not in text.split() and "reveal-1" not in text, "nothing about a job")
check([part.get_filename() for part in digest.iter_attachments()] == ["findings.json"], "all rows are attached")
found = json.loads(next(digest.iter_attachments()).get_content())
check([(row["rule"], row["node"], row["jobs"], row["users"]) for row in found["findings"]] ==
      [("cpu.outsider", "n01", 500, 12)], f"findings.json: {found}")
prometheus = (counters / "mailer.prom").read_text()
for line in ('reveal_mailer_reports_total{audience="user"} 12', 'reveal_mailer_reports_total{audience="admins"} 500',
             'reveal_mailer_mails_total{audience="user"} 12', 'reveal_mailer_mails_total{audience="admins"} 1',
             'reveal_mailer_jobs_with_finding_total{rule="cpu.outsider"} 500', "reveal_mailer_waiting 1"):
    check(line in prometheus.splitlines(), f"no line {line} in {prometheus}")
check(oct((counters / "mailer.prom").stat().st_mode & 0o777) == "0o644", "everybody can read the counters")
left = sorted(path.name for path in spool.iterdir())
check(left == [".lock", "mail-folder", "mail-u0000000000000005", "state"], f"left over: {left}")
shutil.rmtree(spool / "mail-folder")
(spool / "mail-u0000000000000005").unlink()
check(not (spool / ".lock").is_symlink() and (spool / ".lock").stat().st_uid == MAILER, "the lock is the mailer's")
check(linked.read_text() == "kept", "no link was followed")

# --- each user's mail is that of the job's own end
uid = USERS[0]
end_of_job(uid, direct, job(2000, uid), "--mail-user", address(uid))
theirs = received("the same job without a mailer", ADMIN, address(uid), checked="")[address(uid)]
end_of_job(uid, site, work / "reveal-2000", "--mail-user", address(uid))
mailer(site)
ours = received("the same job with one", address(uid), checked="the same mail, headers and parts")[address(uid)]
for message in (ours, theirs):
    for name in ("Date", "Received", "X-Reveal-Owner", "X-Peer", "X-MailFrom", "X-RcptTo"):
        del message[name]
check(ours.as_bytes() == theirs.as_bytes(), "the mailer sends the mail that the end of the job sends")

# --- the server is away
closed = site_config("closed", free_port())
for number in range(2001, 2006):
    end_of_job(uid, closed, job(number, uid), "--mail-user", address(uid))
mailer(closed, status=1, lines=1)
check(len(waiting_for_users()) == 5, f"the users' mails wait: {len(waiting_for_users())}")
received("no server", checked="exit status 1, one line, nothing is lost")
mailer(site)
mails = [to for to, _ in inbox.mails]
check(mails == [[address(uid)]] * 2, f"two were not tried before: {mails}")
inbox.mails.clear()
records = json.loads((spool / "state/mailer.json").read_text())
check([mail["tries"] for mail in records["waiting"]] == [1, 1, 1], f"three wait for their next try: {records['waiting']}")
for mail in records["waiting"]:
    mail["next_try"] = "2025-01-01T00:00:00Z"
(spool / "state/mailer.json").write_text(json.dumps(records))
mailer(site)
check(len(inbox.mails) == 3 and not waiting(), f"the others are sent: {len(inbox.mails)}")
inbox.mails.clear()
table.append(("server is back", address(uid), "five mails, each once"))

# --- two mailers at once
slow = site_config("slow", port, sendmail=f'"{work}/slow -t"')
(work / "slow").write_text(f"#!/bin/sh\nsleep 2\nexec {MSMTP} -C {work}/msmtprc-{port} -t -i\n")
(work / "slow").chmod(0o755)
end_of_job(uid, site, job(2010, uid), "--mail-user", address(uid))
first = start(MAILER, slow, "mailer")
deadline = time.monotonic() + LIMIT
while time.monotonic() < deadline and subprocess.run(["pgrep", "-f", f"{work}/slow"], capture_output=True).returncode != 0:
    time.sleep(0.05)
out = mailer(site, "--verbose")
check("another mailer is at work" in out, f"the second one says so: {out}")
answer_of(first, "the first mailer")
received("two mailers at once", address(uid), checked="one mail; the second mailer does nothing")

# --- accounts that are not the mailer's
out = answer_of(start(uid, site, "mailer"), "mailer as a user", 1, 1)
said = subprocess.run([REVEAL, "mailer", "--config", site], capture_output=True, text=True, timeout=LIMIT)
check(said.returncode == 1 and "does not send mail as root" in said.stderr, "root is refused")
answer_of(start(MAILER, direct, "mailer"), "mailer without a spool", 1, 1)
spool.chmod(0o2733)
process = start(uid, site, "mail", work / "reveal-2000", "--mail-user", address(uid))
out, err = process.communicate(timeout=LIMIT)
check(process.returncode == 1 and "others may delete files of it" in err, f"a spool without the sticky bit: {err}")
spool.chmod(0o3733)
received("other accounts, a spool that others could empty", checked="exit status 1, one line")

print(f"{'situation':50} {'mail to':40} checked")
for row in table:
    print(f"{row[0]:50} {row[1]:40} {row[2]}")
print(f"{len(table)} situations, {len(failures)} failures")
end()
