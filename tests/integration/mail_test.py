#!/usr/bin/python3
"""Mail from a job's directory to a real SMTP server: reveal mail -> msmtp -> aiosmtpd on loopback.

Prints one line per situation: who got a mail, and what was checked in it."""
import atexit
import base64
import email
import email.policy
import gzip
import html.parser
import json
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import SOURCE, check, end, failures, program  # noqa: E402
from smtp import MSMTP, Controller, Inbox, free_port, msmtp_config  # noqa: E402

REPORTS = SOURCE / "tests/data/reports"
NOBODY = 65534
LIMIT = 60  # seconds; decides nothing when all is well
HEADERS = {"From", "To", "Subject", "Date", "Message-Id", "Auto-Submitted", "X-Mailer", "X-Reveal-Job",
           "X-Reveal-Status", "MIME-Version", "Content-Type", "References"}
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
USER, ADMIN = "ada@hpc.example.org", "ops@hpc.example.org"

table = []


def contents(path):
    try:
        return path.read_bytes()
    except OSError:  # ended meanwhile
        return b""


work = pathlib.Path(tempfile.mkdtemp(prefix="reveal-mail-"))
atexit.register(shutil.rmtree, work, ignore_errors=True)
work.chmod(0o755)
# Root is refused, so the sender is somebody else, who may not be able to read the build directory.
REVEAL = work / "reveal"
shutil.copy(program("reveal"), REVEAL)
AS_ROOT = os.geteuid() == 0
OTHER = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if AS_ROOT else {}
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": str(work), "LC_ALL": "C.UTF-8",
               # A user's own settings, planted to be ignored: mail obeys the site's file only.
               "XDG_CONFIG_HOME": str(work / "planted"), "REVEAL_MAIL": "victim@other.net"}
(work / "planted" / "reveal").mkdir(parents=True)
(work / "planted" / "reveal" / "reveal.conf").write_text('[mail]\nadmins = ["victim@other.net"]\nhealthy = true\n')


def own(path):
    if AS_ROOT:
        os.chown(path, NOBODY, NOBODY)
    return path


def site_config(name, port, **changes):
    settings = {"enabled": "true", "sendmail": f'"{MSMTP} -C {msmtp_config(work, port)} -t -i"',
                "domain": '"hpc.example.org"', "admins": '["ops"]', "disable": f'"{work}/no-mail"'}
    settings.update(changes)
    path = work / f"{name}.conf"
    path.write_text("[mail]\n" + "".join(f"{key} = {value}\n" for key, value in settings.items()))
    path.chmod(0o644)
    return path


def job(sample, name=None, change=None):
    directory = work / (name or sample)
    if not directory.exists():
        directory.mkdir()
        report = json.loads((REPORTS / f"{sample}.json").read_text())
        if change is not None:
            change(report)
        (directory / "report.json").write_text(json.dumps(report))
        own(directory / "report.json")
        own(directory)
    return directory


def start(config, directory, *arguments):
    return subprocess.Popen([REVEAL, "mail", directory, "--user", "ada", "--config", config, *arguments], text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=work,
                            env=ENVIRONMENT, **OTHER)


def mail(config, directory, *arguments, status=0, lines=0):
    process = start(config, directory, *arguments)
    out, err = process.communicate(timeout=LIMIT)
    what = f"mail {directory.name} {' '.join(map(str, arguments))}"
    check(process.returncode == status, f"{what}: exit status {process.returncode}, not {status}: {err}")
    check(err.count("\n") == lines, f"{what}: {err.count(chr(10))} lines on stderr, not {lines}: {err}")
    return out, err


def received(situation, *recipients, checked=""):
    """The mails since the last call, by recipient; the table's next line."""
    mails = {",".join(sorted(to)): email.message_from_bytes(content, policy=email.policy.default)
             for to, content in inbox.mails}
    got = sorted(mails)
    check(len(inbox.mails) == len(mails), f"{situation}: a recipient got more than one mail")
    check(got == sorted(recipients), f"{situation}: mail went to {got}, not to {sorted(recipients)}")
    inbox.mails.clear()
    table.append((situation, ", ".join(got) or "nobody", checked))
    return mails


def parts(message):
    """The text, and the attached page."""
    text = message.get_body(preferencelist=("plain",)).get_content()
    attached = list(message.iter_attachments())
    check([part.get_filename() for part in attached] == ["report.html.gz"], "exactly report.html.gz is attached")
    check(attached[0].get_content_type() == "application/gzip", "the attachment is a gzip file")
    return text, gzip.decompress(attached[0].get_content()).decode()


class References(html.parser.HTMLParser):
    """Tags, and all that a mail program would fetch."""

    def __init__(self):
        super().__init__()
        self.tags, self.fetched, self.alternatives = [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        for name, value in attributes:
            if name in ("src", "href", "background", "srcset", "action"):
                self.fetched.append(value)
            if name == "alt":
                self.alternatives.append(value)
            check(not name.startswith("on"), f"the HTML part runs {name}={value}")


def decoded_png(content):
    """Width, height, colours in use; any reader of the format can do this."""
    check(content[:8] == b"\x89PNG\r\n\x1a\n", "the picture is a PNG")
    chunks, at = {}, 8
    while at < len(content):
        size, name = struct.unpack(">I4s", content[at:at + 8])
        data = content[at + 8:at + 8 + size]
        check(struct.unpack(">I", content[at + 8 + size:at + 12 + size])[0] == zlib.crc32(name + data),
              f"the checksum of {name} is right")
        chunks[name] = data
        at += 12 + size
    width, height, bits, kind = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    rows = zlib.decompress(chunks[b"IDAT"])
    check((bits, kind) == (8, 3) and len(rows) == height * (width + 1), "the picture has a byte for each point")
    return width, height, set(rows)


def html_part(message):
    """The HTML part and the picture in it, "" or None where there is none."""
    body = [part for part in message.walk() if part.get_content_type() == "text/html"]
    pictures = [part for part in message.walk() if part.get_content_type() == "image/png"]
    check(len(body) == 1 and len(pictures) <= 1, "one HTML part and at most one picture")
    page = body[0].get_content()
    read = References()
    read.feed(page)
    check(not {"script", "link", "iframe", "object", "form", "base"} & set(read.tags), f"tags are {set(read.tags)}")
    check("url(" not in page and "@import" not in page, "the style fetches nothing")
    wanted = ["cid:" + part["content-id"].strip("<>") for part in pictures]
    check(read.fetched == wanted, f"the HTML part fetches {read.fetched}, not {wanted}")
    check(len(page) <= 60 * 1024, f"the HTML part has {len(page)} bytes")
    readable = [part for part in message.walk() if not part.is_multipart() and not part.get_filename("").endswith(".gz")]
    size = sum(len(part.as_bytes()) for part in readable)
    check(size < 100_000, f"text, HTML and picture have {size} bytes")
    if not pictures:
        return page, None
    content = pictures[0].get_content()
    width, height, colours = decoded_png(content)
    check((width, height) == (960, 260) and {2, 4} <= colours, f"a band and a line on {width}x{height}: {colours}")
    check(read.alternatives[0].startswith("Chart: "), f"the picture in words: {read.alternatives}")
    return page, content


def expect_kinds(message, kinds):
    got = [part.get_content_type() for part in message.walk()]
    check(got == kinds, f"parts are {got}")


def expect_headers(message, extra=()):
    names = {name.lower() for name in message.keys()}
    # What the mail program and the server add themselves.
    names -= {"x-peer", "x-mailfrom", "x-rcptto", "received", "return-path"}
    expected = {name.lower() for name in HEADERS | set(extra)}
    check(names == expected, f"headers are {sorted(names ^ expected)} off")
    check(message["auto-submitted"] == "auto-generated", "Auto-Submitted says auto-generated")
    check(not message.defects, f"the mail has defects: {message.defects}")


inbox = Inbox()
port = free_port()
server = Controller(inbox, hostname="127.0.0.1", port=port)
server.start()
atexit.register(server.stop)
site = site_config("site", port)

# A server that takes the connection and never says a word: started first, looked at last, since it takes its time.
silent = socket.socket()
silent.bind(("127.0.0.1", 0))
silent.listen(5)
silent_begin = time.monotonic()
hanging = start(site_config("silent", silent.getsockname()[1]), job("outsider"))

# --- finding: the user and the administrators, each their own mail
mail(site, job("outsider"))
mails = received("finding", USER, ADMIN, checked="headers, text = report.txt, HTML, steps of admins only to admins")
text, page = parts(mails[USER])
expect_headers(mails[USER])
check(mails[USER]["subject"] == "[reveal] hydra job 4711 resnet50-ddp: COMPLETED - A process outside the job ran on "
      "the job's CPUs on n01, about 7.1 s lost", f"subject is {mails[USER]['subject']}")
check(mails[USER]["references"] == "<reveal.job.hydra.4711.user@hpc.example.org>", "the mail belongs to the job's thread")
check(mails[USER]["to"] == USER and mails[USER]["x-reveal-job"] == "4711"
      and mails[USER]["x-reveal-status"] == "finding", "To and X-Reveal-* name user, job and status")
check(text.startswith("FINDING  Something outside the job used 0.98 of cpu1"), "the text part begins with the verdict")
check("job script   #SBATCH --exclusive" in text, "the user reads what to type")
check("leftover of" not in text and "ConstrainCores" not in text and "ConstrainCores" not in page, "steps for administrators go to them only")
check("<html" in page and "resnet50-ddp" in page, "the page is the job's report")
check(max(map(len, text.splitlines())) <= 78, "no line of the text is longer than 78 characters")
expect_kinds(mails[USER], ["multipart/mixed", "multipart/alternative", "text/plain", "multipart/related", "text/html",
                           "image/png", "application/gzip"])
shown, one_finding = html_part(mails[USER]), mails[USER]
check("#SBATCH --exclusive" in shown[0] and "leftover of" not in shown[0], "the HTML part has the user's steps only")
text, page = parts(mails[ADMIN])
expect_headers(mails[ADMIN])
check(mails[ADMIN]["subject"].startswith("[reveal] hydra critical: A process outside"), "admins see severity first")
page, _ = html_part(mails[ADMIN])
check(page.index("leftover of an earlier job") < page.index("Finding</div>"), "their steps come first in HTML, too")
check(text.index("leftover of an earlier job") < text.index("FINDING"),
      "what administrators can do comes first")

# --- the address in Slurm, the user's wish, and nobody else's
mail(site, job("outsider"), "--mail-user", "ada@home.example.net")
received("finding, --mail-user", "ada@home.example.net", ADMIN, checked="recipients")
mail(site, job("outsider"), "--mail-user", "ada@home.example.net\nBcc: victim@other.net", lines=1)
received("finding, --mail-user with a line feed", USER, ADMIN, checked="recipients, refused with one line")
mail(site, job("outsider"), "--to", "off")
received("finding, user wants no mail", ADMIN, checked="recipients")
mail(site, job("healthy"))
received("healthy", checked="exit status 0, silent")
out, _ = mail(site, job("healthy"), "--verbose")
check("the report has no finding" in out, "--verbose says why nothing was sent")
mail(site, job("insufficient"))
received("too little data", checked="exit status 0, silent")
mail(site, job("healthy"), "--to", "colleague@hpc.example.org")
mails = received("healthy, asked", "colleague@hpc.example.org", checked="subject, text")
check(mails["colleague@hpc.example.org"]["subject"] == "[reveal] hydra job 4712 resnet50-ddp: COMPLETED - no finding",
      "healthy subject")
page, picture = html_part(mails["colleague@hpc.example.org"])
check(picture is None and len(page) < 8000, f"a healthy job's mail is short: {len(page)} bytes")
check(parts(mails["colleague@hpc.example.org"])[0].startswith("HEALTHY"), "healthy text")
mail(site, job("healthy"), "--to", "yes", "--mail-user", "ada")
received("healthy, asked without address", USER, checked="recipients")
_, err = mail(site, job("healthy"), "--to", "victim@other.net", status=1, lines=1)
check("victim@other.net" in err, "the refusal names the address")
received("healthy, asked for a foreign address", checked="exit status 1, one line")
mail(site_config("healthy", port, healthy="true"), job("healthy"))
received("healthy, site wants all", USER, checked="recipients")
mail(site_config("threshold", port, admin_threshold='"critical"'), job("outsider", "mild", lambda report: report[
    "findings"][0].update(severity="warning")))
received("finding below the admins' threshold", USER, checked="recipients")
mail(site_config("off", port, enabled="false"), job("outsider"))
received("mail not enabled", checked="exit status 0, silent")

# --- hostile texts everywhere
mail(site, job("hostile"))
mails = received("hostile names", USER, ADMIN, checked="no header added, one line of subject, no script of theirs")
for message in mails.values():
    expect_headers(message)
    text, page = parts(message)
    check("\x1b" not in text and "\x00" not in text, "no control characters in the text")
    check("<script>alert" not in page and "<img src=x" not in page, "no script or markup of a user in the page")
    html_part(message)
    check("<script" not in message["subject"] or "\n" not in message["subject"], "the subject is one line")


def inject(report):
    job_part = report["job"]
    attack = "x\r\nBcc: victim@other.net\r\nContent-Type: text/html\r\n\r\n<script>alert(1)</script>"
    report["report_id"] = report["supersedes"] = attack
    job_part["name"] = "größe =?utf-8?q?x=0D=0ABcc:_victim@other.net?=\r\nBcc: victim@other.net"
    for key in ("id", "user", "cluster", "state", "command"):
        job_part[key] = attack
    job_part["nodes"] = [attack, "n01"]
    job_part["tags"] = [{"key": "mail", "value": "victim@other.net"}, {"key": attack, "value": attack}]
    report["findings"][0]["title"] = "T" * 5000 + attack
    report["findings"][0]["nodes"] = [attack]


mail(site, job("outsider", "injection\nBcc: victim@other.net", inject))
mails = received("CR LF, encoded words, 5 kB title", USER, ADMIN, checked="no header added, no recipient, no script")
for message in mails.values():
    expect_headers(message, {"In-Reply-To"})
    html_part(message)
    text, page = parts(message)
    check("\n" not in message["subject"] and len(message["subject"]) < 250, "the subject is one short line")
    check("<script>alert(1)" not in page, "no script of a user in the page")
check("größe" in mails[USER]["subject"], "Unicode arrives in the subject: " + mails[USER]["subject"])

# --- a later report of the same job
mail(site, job("many_nodes"))
mails = received("superseding report", USER, ADMIN, checked="In-Reply-To and References name the former")
check(mails[USER]["in-reply-to"] == "<reveal.4713-0-0.user@hpc.example.org>"
      and mails[USER]["references"].split() == ["<reveal.job.hydra.4710.user@hpc.example.org>",
                                                "<reveal.4713-0-0.user@hpc.example.org>"],
      "the mail answers the one it supersedes, in the thread of the array")
html_part(mails[USER])
many_findings = mails[USER]

# --- a drill: its disturbance is no business of the administrators
drilled = work / "reveal-drill-1"
drilled.mkdir()
(drilled / "truth.json").write_text(json.dumps({"disturbance": "outsider", "node": "n01", "job_share": 1,
                                                "begin_utc_ns": 1763634787000000000, "end_utc_ns": 1763634800000000000}))
(drilled / "use.txt").write_text("1763634780000000000 0\n")
for path in (drilled, drilled / "truth.json", drilled / "use.txt"):
    own(path)
job("outsider", "reveal-drill-1/job")
judged = subprocess.run([REVEAL, "drill", "--finish", drilled, "--keep", "--mail", USER, "--config", site], text=True,
                        capture_output=True, stdin=subprocess.DEVNULL, cwd=work, env=ENVIRONMENT, timeout=LIMIT, **OTHER)
check(re.search(r"^passed +mail +the mail program took it for " + USER, judged.stdout, re.M), f"drill --mail: {judged}")
received("reveal drill --mail", USER, checked="nothing to the administrators")

# --- peers of the job, in everything that administrators get


def with_peer(report):
    evidence = dict(report["findings"][0]["evidence"][0], metric="tcp.peer.out_of_order", instance="203.0.113.7")
    report["findings"][0]["evidence"].insert(0, evidence)
    report["findings"][0]["sentence"] = "Segments from 203.0.113.7 were lost."
    report["timeline"][0].update(node=evidence["node"], name="tcp.peer.out_of_order/203.0.113.7")


mail(site, job("outsider", "peer", with_peer))
mails = received("a peer's address", USER, ADMIN, checked="in the user's text, HTML and picture's words; not for admins")
check("203.0.113.7" in html_part(mails[USER])[0] and "203.0.113.7" in parts(mails[USER])[0], "the user reads the address")
for content in (html_part(mails[ADMIN])[0], *parts(mails[ADMIN])):
    check("203.0.113.7" not in content and "(a peer)" in content, "administrators do not")

# --- the help desk, the way out, and pages that are too large
mail(site_config("desk", port, reply_to='"help"', unsubscribe='"mailto:help@hpc.example.org?subject=reveal-off"',
                 attach_limit='"1KB"'), job("outsider"))
mails = received("reply_to, unsubscribe, attach_limit", USER, ADMIN, checked="headers, place of the report instead of it")
expect_headers(mails[USER], {"Reply-To", "List-Unsubscribe"})
expect_headers(mails[ADMIN], {"Reply-To"})
check(mails[USER]["reply-to"] == "help@hpc.example.org", f"replies go to {mails[USER]['reply-to']}")
check(mails[USER]["list-unsubscribe"] == "<mailto:help@hpc.example.org?subject=reveal-off>", "List-Unsubscribe is a URL")
check(not list(mails[USER].iter_attachments()), "nothing is attached")
text = mails[USER].get_body(preferencelist=("plain",)).get_content()
check("too large for a mail" in text and str(work / "outsider" / "report.html") in text, "its place is named")

# --- arrays, cap, kill switch
state = work / "state"
state.mkdir(mode=0o700)
own(state)
mail(site, job("many_nodes"), "--array", "4710", "--state", state / "array")
mails = received("array, first task", USER, ADMIN, checked="says that no more will come")
check("This is the only mail about array job 4710" in parts(mails[USER])[0], "the mail says that it is the array's only one")
out, _ = mail(site, job("many_nodes"), "--array", "4710_4", "--state", state / "array", "--verbose")
check("array job 4710 already had its mail" in out, "--verbose says why")
received("array, later task", checked="exit status 0")
noted = sorted(path.name for path in (state / "array").glob("array-4710-*"))
check(noted == ["array-4710-admins-ada", "array-4710-user-ada"], f"the array is noted: {noted}")
check(len((state / "array" / "array-4710-user-ada").read_text().splitlines()) == 2, "both tasks are counted")


def task(number, lost):
    def change(report):
        report["report_id"] = f"48{number}-0-0"
        report["job"].update(id=f"48{number}", array=f"4720_{number}")
        report["findings"][0]["impact"]["seconds"] = lost

    return job("outsider", f"task{number}", change)


away = site_config("away", free_port())
for number, lost in ((1, 12.5), (2, 60)):
    mail(away, task(number, lost), "--array", "4720", "--state", state / "tasks", status=1, lines=1)
mail(site, task(3, 5), "--array", "4720", "--state", state / "tasks")
mails = received("array, the server was away for two tasks", USER, ADMIN, checked="one mail with three tasks, the worst first")
three_tasks = mails[USER]
text, page = parts(three_tasks)
check(three_tasks["subject"] == "[reveal] hydra job 4720 resnet50-ddp: 3 tasks with a finding; worst: task 2, A process "
      "outside the job ran on the job's CPUs, about 60 s lost", f"subject is {three_tasks['subject']}")
check(text.splitlines()[0] == "Array job 4720: 3 tasks with a finding", "the text begins with the tasks")
check(text.index("  task 2 ") < text.index("  task 1 ") < text.index("  task 3 ") < text.index("FINDING"), "the worst first")
check(f"reveal show {work}/task1" in text and f"reveal show {work}/task1" in html_part(three_tasks)[0], "how to see each")
check(max(map(len, text.splitlines())) <= 78, "no line of the text is longer than 78 characters")
check("<reveal.job.hydra.4720.user@hpc.example.org>" in three_tasks["references"], "the array's thread")
check(not list((state / "tasks").glob("task-*")), "no record of a task is left over")
mail(site, task(4, 90), "--array", "4720", "--state", state / "tasks")
received("array, a task that ends later", checked="no second mail")
capped = site_config("capped", port, per_hour="2")
mail(capped, job("outsider"), "--state", state / "cap")
received("cap of 2 an hour, first mails", USER, ADMIN, checked="recipients")
mail(capped, job("outsider"), "--state", state / "cap")
received("cap of 2 an hour, second mails", USER, ADMIN, checked="recipients")
mail(capped, job("outsider"), "--state", state / "cap")
received("cap of 2 an hour, afterwards", checked="exit status 0, silent")

# --- the same finding of a command, once a week
known = job("outsider", "known", lambda report: report["job"].update(run_key="key"))
mail(site, known, "--state", state / "week")
received("finding of a known command", USER, ADMIN, checked="recipients")
out, _ = mail(site, known, "--state", state / "week", "--verbose")
check("the same finding of this command was mailed before, [mail] repeat_days = 7" in out, f"--verbose says why: {out}")
received("the same finding again", ADMIN, checked="held back for the user")
mail(site, known, "--state", state / "week", "--to", "yes")
received("the same finding again, asked", USER, ADMIN, checked="recipients")
mail(site_config("repeat", port, repeat_days="0"), known, "--state", state / "week")
received("the same finding again, repeat_days = 0", USER, ADMIN, checked="recipients")
(work / "no-mail").touch()
out, _ = mail(site, job("outsider"), "--verbose")
check(f"{work}/no-mail" in out, "--verbose names the switch")
received("kill switch", checked="exit status 0")
(work / "no-mail").unlink()

# --- nothing is sent, and why is said
out, _ = mail(site, job("outsider"), "--dry-run")
check("would be sent to ada@hpc.example.org (user)\n  subject: [reveal] hydra job 4711" in out and len(out.splitlines()) < 9,
      "a dry run shows recipients, subjects and reasons")
out, _ = mail(site, job("outsider"), "--dry-run", "--verbose")
check("#SBATCH --exclusive" in out, "a verbose dry run shows the text")
received("dry run", checked="recipients, subjects and reasons on stdout")
(state / "link").symlink_to(state / "array")
mail(site, job("outsider"), "--state", state / "link", status=1, lines=1)
received("state directory is a link", checked="exit status 1, one line")
_, err = mail(site_config("closed", free_port()), job("outsider"), "--state", state / "closed", status=1, lines=1)
check("msmtp" in err and "onnect" in err, f"the line is msmtp's: {err}")
received("no server", checked="exit status 1, one line: " + err.strip().split(": ")[-1])
kept = sorted(path.name.rsplit("-", 1)[1] for path in (state / "closed").glob("queued-*"))
check(kept == ["admins", "user"], f"both mails are kept: {kept}")
mail(site, job("outsider"), "--state", state / "closed")
received("server is back", USER, ADMIN, checked="what failed is not counted")


def try_again(config, *arguments, status=0, lines=0):
    answer = subprocess.run([REVEAL, "mail", "--retry", "--config", config, "--verbose", *arguments], text=True,
                            stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT, cwd=work, env=ENVIRONMENT,
                            **OTHER)
    check(answer.returncode == status and answer.stderr.count("\n") == lines,
          f"--retry: exit status {answer.returncode}, {answer.stderr}")
    return answer.stdout


check("no mail waits" in try_again(site, "--state", state / "closed"), "what was sent by hand is not sent again")
received("--retry after that", checked="says that no mail waits")
mail(site_config("closed", free_port()), job("outsider"), "--state", state / "closed", status=1, lines=1)
try_again(site_config("closed", free_port()), "--state", state / "closed", status=1, lines=1)
check(len(list((state / "closed").glob("queued-*"))) == 2, "what fails again stays")
out = try_again(site, "--state", state / "closed", "--dry-run")
check(out.count("would be sent to") == 2, f"a dry run lists both: {out}")
received("no server, --retry, --dry-run", checked="exit status 1, one line; kept")
out = try_again(site, "--state", state / "closed")
check(out.count("sent to ") == 2, f"--verbose lists both: {out}")
mails = received("server is back, --retry", USER, ADMIN, checked="both mails, as new ones")
html_part(mails[USER])
check(not list((state / "closed").glob("queued-*")) + list((state / "closed").glob("trying-*")), "nothing is left over")
mail(site_config("closed", free_port()), job("outsider", "gone"), "--state", state / "closed", status=1, lines=1)
shutil.rmtree(work / "gone")
try_again(site, "--state", state / "closed", lines=2)
received("report is gone, --retry", checked="one line for each mail")
check(not list((state / "closed").glob("queued-*")), "a mail without report is given up")
usage = subprocess.run([REVEAL, "mail", "--config", site], capture_output=True, text=True, timeout=LIMIT, **OTHER)
check(usage.returncode == 2 and "dir" in usage.stderr, f"neither directory nor --retry: {usage}")
_, err = mail(site, job("outsider"), "--mail-user", "unknown@hpc.example.org", status=1, lines=1)
received("one address unknown to the server", ADMIN, checked="exit status 1, one line, the other mail is sent")
mail(site, job("outsider"), "--array", "../4710", status=2, lines=1)
mail(work / "nothing.conf", job("outsider"), status=1, lines=1)
bad = work / "bad.conf"
bad.write_text("[mail]\nadmin = root\n")
_, err = mail(bad, job("outsider"), lines=1)
check('bad.conf:2: unknown key "admin" in [mail]; did you mean "admins"?' in err, f"file, line and near key: {err}")
mail(site, work / "state", status=1, lines=1)
received("mistakes in usage and configuration", checked="exit status 2 or 1, one line")
if AS_ROOT:
    answer = subprocess.run([REVEAL, "mail", job("outsider"), "--config", site], capture_output=True, text=True,
                            timeout=LIMIT)
    check(answer.returncode == 1 and "does not send mail as root" in answer.stderr, "root is refused")
    received("run by root", checked="exit status 1, one line")

# --- reveal-run --mail: programs and the site's file below one prefix
prefix = work / "prefix"
(prefix / "bin").mkdir(parents=True)
(prefix / "etc" / "reveal").mkdir(parents=True)
for name in ("reveal", "reveal-run", "reveal-collect"):
    shutil.copy(program(name), prefix / "bin" / name)
shutil.copy(site, prefix / "etc" / "reveal" / "reveal.conf")
runs = work / "runs"
runs.mkdir()
own(runs)


def profiled(address, directory, **user):
    return subprocess.run([prefix / "bin" / "reveal-run", "--mail", address, "--output", runs / directory, "--",
                           "sh", "-c", "sleep 3; exit 7"], text=True, stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=LIMIT, cwd=runs, env=ENVIRONMENT, **user)


answer = profiled("colleague@hpc.example.org", "mine", **OTHER)
check(answer.returncode == 7, f"reveal-run --mail: exit status {answer.returncode}: {answer.stderr}")
check("sent to colleague@hpc.example.org (user)" in answer.stderr, f"reveal-run says where the mail went: {answer.stderr}")
mails = received("reveal-run --mail", "colleague@hpc.example.org", checked="status of the command, recipient, text, page")
text, page = parts(mails["colleague@hpc.example.org"])
check("<html" in page and f"{runs}/mine" in text, "the mail is about this run")
answer = profiled("victim@other.net", "refused", **OTHER)
check(answer.returncode == 7 and "no mail to victim@other.net: it is neither" in answer.stderr
      and f"the report is in {runs}/refused" in answer.stderr, f"a foreign address: {answer.stderr}")
received("reveal-run --mail to a foreign address", checked="status of the command, two lines")
if AS_ROOT:
    answer = profiled("colleague@hpc.example.org", "root")
    check(answer.returncode == 7 and "reveal does not send mail as root" in answer.stderr
          and f"the report is in {runs}/root" in answer.stderr, f"root: {answer.stderr}")
    received("reveal-run --mail by root", checked="status of the command, two lines")

try:
    _, err = hanging.communicate(timeout=LIMIT)
    seconds = time.monotonic() - silent_begin
    check(hanging.returncode == 1 and err.count("\n") == 1 and re.search(r"did not finish within [\d.]+ s", err),
          f"a silent server: status {hanging.returncode}, {err}")
    check(seconds < 45, f"two mails to a silent server took {seconds:.0f} s")
    left = [path for path in pathlib.Path("/proc").glob("[0-9]*/cmdline") if str(work).encode() in contents(path)]
    check(not left, f"processes left over: {left}")
    received("server never answers", checked=f"exit status 1, one line, {seconds:.0f} s for both mails, none left over")
except subprocess.TimeoutExpired:
    hanging.kill()
    check(False, "reveal mail hangs on a silent server")
silent.close()

# --- the HTML part as a browser shows it
RESULT = """<!DOCTYPE html><meta charset="utf-8"><iframe id="mail" style="width:%dpx;height:3000px;border:0"></iframe><p id="out">
</p><script>const mail = document.getElementById('mail');
mail.onload = () => { const page = mail.contentDocument, picture = page.querySelector('img');
  document.getElementById('out').textContent = JSON.stringify({width: page.documentElement.scrollWidth,
    picture: picture ? picture.naturalWidth : 0, height: page.body.scrollHeight, text: page.body.innerText.length}); };
mail.srcdoc = %s;</script>"""


def rendered(message, width):
    page, picture = html_part(message)
    if picture is not None:
        address = re.search(r'src="(cid:[^"]+)"', page)[1]
        page = page.replace(address, "data:image/png;base64," + base64.b64encode(picture).decode())
    file = work / "rendered.html"
    file.write_text(RESULT % (width, json.dumps(page).replace("</", "<\\/")))
    dom = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                          f"--user-data-dir={work}/chromium", "--virtual-time-budget=5000", "--dump-dom", file.as_uri()],
                         capture_output=True, text=True, timeout=LIMIT).stdout
    found = re.search(r'<p id="out">(\{.*?\})', dom, re.S)
    check(found is not None, f"the page was not shown: {dom[-500:]}")
    return json.loads(found[1]) if found else {}


if CHROMIUM is None:
    print("chromium is not installed: the HTML part is not rendered")
else:
    for name, message in (("one finding", one_finding), ("many findings", many_findings), ("three tasks", three_tasks)):
        for width in (600, 390):
            shown = rendered(message, width)
            check(shown.get("width", 0) <= width, f"{name}: {shown} in a window of {width}")
            check(shown.get("text", 0) > 800 and shown.get("picture", 960) in (0, 960), f"{name}: {shown}")
            table.append((f"{name}, {width} wide in Chromium", f"{shown}", "text, picture, no wider than the window"))

print(f"{'situation':42} {'mail to':62} checked")
for row in table:
    print(f"{row[0]:42} {row[1]:62} {row[2]}")
print(f"{len(table)} situations, {len(failures)} failures")
end()
