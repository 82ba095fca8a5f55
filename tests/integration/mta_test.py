#!/usr/bin/python3
"""Mail through two real postfix: the sendmail of a compute node (a null client) and the mail server of the site, which
delivers into Maildirs. Both run in a mount, network and process namespace of their own, with queues and settings in
memory, so that the mail system of the machine is not touched.

Prints one line per situation: who got a mail, and what was checked in it."""
import email
import email.policy
import fcntl
import gzip
import json
import os
import pathlib
import pwd
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import SOURCE, check, end, failures, program, skip  # noqa: E402

for need in ("postfix", "postdrop", "unshare", "ip"):
    if shutil.which(need, path="/usr/sbin:/sbin:/usr/bin:/bin") is None:
        skip(f"{need} is not installed (package postfix, util-linux or iproute2)")
if os.geteuid() != 0:
    skip("needs root: postfix gets a mount and a network namespace of its own")
if "--inside" not in sys.argv:
    own = ["unshare", "--mount", "--net", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc"]
    if subprocess.run([*own, "true"], capture_output=True).returncode != 0:
        skip("namespaces cannot be made here")
    os.execvp("unshare", [*own, sys.executable, os.path.abspath(__file__), "--inside"])

LIMIT = 90  # seconds; decides nothing when all is well
USER = pwd.getpwnam("games")
DOMAIN = "hpc.example.org"
ADA, OPS, DESK, HOME = f"ada@{DOMAIN}", f"ops@{DOMAIN}", f"help@{DOMAIN}", "ada@home.example.net"
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
table = []


def run(*words, **more):
    return subprocess.run(words, capture_output=True, text=True, timeout=LIMIT, env=ENVIRONMENT, **more)


def must(*words):
    answer = run(*words)
    if answer.returncode != 0:
        skip(f"{' '.join(words)}: {answer.stderr or answer.stdout}")


def until(seconds, condition):
    last = time.monotonic() + seconds
    while time.monotonic() < last:
        if condition():
            return True
        time.sleep(0.1)
    return condition()


# --- a machine of its own: private folders, loopback only
SHIPPED = {name: pathlib.Path("/etc/postfix", name).read_bytes() for name in (
    "postfix-files", "post-install", "postfix-script")}
must("mount", "--make-rprivate", "/")
for folder, size in (("/etc/postfix", "8m"), ("/var/spool", "64m"), ("/var/lib", "64m"), ("/var/mail", "64m"),
                     ("/var/log", "64m"), ("/mnt", "1g")):
    must("mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", folder)
must("ip", "link", "set", "lo", "up")
QUEUE = pathlib.Path("/var/spool/postfix")
QUEUE.mkdir()
must("mount", "-t", "tmpfs", "-o", "size=24m,mode=755", "tmpfs", str(QUEUE))
work = pathlib.Path("/mnt/site")
work.mkdir(mode=0o755)
REVEAL = work / "bin/reveal"
(work / "bin").mkdir()
for name in ("reveal", "reveal-collect"):
    shutil.copy(program(name), work / "bin" / name)

COMMON = """compatibility_level = 3.6
inet_protocols = ipv4
mydomain = hpc.example.org
myorigin = $mydomain
mydestination =
alias_maps =
alias_database =
biff = no
local_recipient_maps =
smtputf8_enable = yes
minimal_backoff_time = 3600s
maximal_backoff_time = 3600s
bounce_queue_lifetime = 1d
notify_classes =
"""
NODE = COMMON + """myhostname = n01.hpc.example.org
inet_interfaces =
queue_directory = /var/spool/postfix
data_directory = /var/lib/postfix
maillog_file = /var/log/node.log
relayhost = [127.0.0.1]:10025
master_service_disable = inet
smtp_connect_timeout = 5s
smtp_helo_timeout = 10s
"""
SERVER = COMMON + """myhostname = mail.hpc.example.org
inet_interfaces = 127.0.0.1
queue_directory = /var/spool/postfix-server
data_directory = /var/lib/postfix-server
maillog_file = /var/log/server.log
default_transport = error:there is no other site
virtual_mailbox_domains = hpc.example.org, home.example.net
virtual_mailbox_base = /var/mail
virtual_mailbox_maps = texthash:/etc/postfix/server/mailboxes
virtual_uid_maps = static:65534
virtual_gid_maps = static:65534
smtpd_recipient_restrictions = permit_mynetworks, reject
mynetworks = 127.0.0.0/8
message_size_limit = 10240000
"""
SERVICES = """%spickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
smtp unix - - n - - smtp
showq unix n - n - - showq
error unix - - n - - error
retry unix - - n - - error
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
postlog unix-dgram n - n - 1 postlogd
"""
ETC = pathlib.Path("/etc/postfix")
(ETC / "server").mkdir()
for place, settings, services in ((ETC, NODE, ""), (ETC / "server", SERVER, "10025 inet n - n - - smtpd\n")):
    (place / "main.cf").write_text(settings)
    (place / "master.cf").write_text(SERVICES % services)
    (place / "dynamicmaps.cf").write_text("")
(ETC / "server/mailboxes").write_text("".join(f"{name} {name}/\n" for name in (
    ADA, OPS, DESK, HOME, f"games@{DOMAIN}", f"root@{DOMAIN}", f"reveal@{DOMAIN}")))
MAIL = pathlib.Path("/var/mail")
os.chown(MAIL, 65534, 65534)
for folder in ("/var/spool/postfix-server", "/var/lib/postfix", "/var/lib/postfix-server"):
    pathlib.Path(folder).mkdir()
for folder in ("/var/lib/postfix", "/var/lib/postfix-server"):
    shutil.chown(folder, "postfix", "postfix")
for name, content in SHIPPED.items():
    (ETC / name).write_bytes(content)
    (ETC / name).chmod(0o755)


def postfix(which, command):
    return run("postfix", "-c", str(ETC / "server" if which == "server" else ETC), command)


def log_of(which):
    path = pathlib.Path(f"/var/log/{which}.log")
    return path.read_text(errors="replace") if path.exists() else ""


def start_mta(which):
    answer = postfix(which, "start")
    if answer.returncode != 0:
        print(log_of(which)[-3000:])
        skip(f"the {which}'s postfix does not start: {answer.stderr}")


(ETC / "main.cf").open("a").write("alternate_config_directories = /etc/postfix/server\n")
for which in ("server", "node"):
    start_mta(which)


# --- mailboxes
def arrived(address):
    box = MAIL / address / "new"
    return sorted(box.iterdir()) if box.is_dir() else []


def mailboxes():
    return sorted(path.name for path in MAIL.iterdir() if arrived(path.name))


def waits_in(which):
    """Mails in the queue of postfix, also those that it has not picked up."""
    queue = QUEUE if which == "node" else pathlib.Path("/var/spool/postfix-server")
    return sum(1 for name in ("maildrop", "incoming", "active", "deferred") for _ in (queue / name).rglob("*")
               if _.is_file())


def received(situation, *recipients, checked="", seconds=30):
    """The mails since the last call, by recipient; the table's next line. Waits until the queues are empty."""
    until(seconds, lambda: set(recipients) <= set(mailboxes()))
    until(seconds, lambda: waits_in("node") + waits_in("server") == 0)
    mails = {}
    for address in mailboxes():
        found = arrived(address)
        check(len(found) == 1, f"{situation}: {address} got {len(found)} mails")
        mails[address] = found[0].read_bytes()
        shutil.rmtree(MAIL / address)
    if sorted(mails) != sorted(recipients):
        print(log_of("node")[-2500:], log_of("server")[-2500:])
    check(sorted(mails) == sorted(recipients), f"{situation}: mail went to {sorted(mails)}, not to {sorted(recipients)}")
    table.append((situation, ", ".join(sorted(mails)) or "nobody", checked))
    return {address: email.message_from_bytes(content, policy=email.policy.default) for address, content in mails.items()}


# --- the site: jobs, settings, commands
def site(name, **changes):
    settings = {"enabled": "true", "sendmail": '"/usr/sbin/sendmail -t -i"', "domain": f'"{DOMAIN}"', "admins": '["ops"]',
                "from": f'"reveal@{DOMAIN}"', "reply_to": '"help"', "repeat_days": "0", "per_hour": "1000",
                "unsubscribe": '"mailto:help@hpc.example.org?subject=reveal-off"', **changes}
    path = work / f"{name}.conf"
    path.write_text("[slurm]\nmin_seconds = 0\n[mail]\n" + "".join(f"{key} = {value}\n" for key, value in settings.items()))
    return path


def job(sample, name=None, change=None):
    directory = work / (name or sample)
    if not directory.exists():
        directory.mkdir()
        report = json.loads((SOURCE / f"tests/data/reports/{sample}.json").read_text())
        if change is not None:
            change(report)
        (directory / "report.json").write_text(json.dumps(report))
        for path in (directory, directory / "report.json"):
            os.chown(path, USER.pw_uid, USER.pw_gid)
    return directory


state = work / "state"
state.mkdir(mode=0o700)
os.chown(state, USER.pw_uid, USER.pw_gid)
home = work / "home"
home.mkdir(mode=0o700)
os.chown(home, USER.pw_uid, USER.pw_gid)


def reveal(*words, status=0, timeout=LIMIT):
    begin = time.monotonic()
    answer = subprocess.run([REVEAL, "mail", *words], capture_output=True, text=True, timeout=timeout, cwd=work,
                            stdin=subprocess.DEVNULL, env={**ENVIRONMENT, "HOME": str(home), "USER": "games"},
                            user=USER.pw_uid, group=USER.pw_gid, extra_groups=[])
    what = " ".join(map(str, words))
    check(answer.returncode == status, f"mail {what}: exit status {answer.returncode}, not {status}: {answer.stderr}")
    return answer, time.monotonic() - begin


def mail(config, directory, *words, status=0):
    return reveal(directory, "--user", "ada", "--config", config, *words, status=status)


def parts(message):
    text = message.get_body(preferencelist=("plain",)).get_content()
    page = message.get_body(preferencelist=("html",)).get_content()
    attached = list(message.iter_attachments())
    check([part.get_filename() for part in attached] == ["report.html.gz"], "exactly report.html.gz is attached")
    return text, page, gzip.decompress(attached[0].get_content()).decode()


def expect_whole(message, audience):
    """What a mail server may have changed."""
    kinds = [part.get_content_type() for part in message.walk()]
    check(kinds[:3] == ["multipart/mixed", "multipart/alternative", "text/plain"] and "application/gzip" in kinds,
          f"parts are {kinds}")
    check(not message.defects and not any(part.defects for part in message.walk()), "the mail has no defects")
    check(message["auto-submitted"] == "auto-generated", "Auto-Submitted says auto-generated")
    check(message["reply-to"] == DESK, f"replies go to {message['reply-to']}")
    check((message["list-unsubscribe"] == "<mailto:help@hpc.example.org?subject=reveal-off>") == (audience == "user"),
          f"List-Unsubscribe is {message['list-unsubscribe']}")
    check(message["references"].startswith("<reveal.job.") and f".{audience}@{DOMAIN}>" in message["references"],
          f"References are {message['references']}")
    check(message["message-id"].startswith("<reveal.") and message["message-id"].endswith(f".{audience}@{DOMAIN}>"),
          f"Message-ID is {message['message-id']}")
    received_by = [line for line in message.get_all("received")]
    check(len(received_by) == 2 and "mail.hpc.example.org" in received_by[0], f"it went through both: {received_by}")
    page = parts(message)[1]
    pictures = [part for part in message.walk() if part.get_content_type() == "image/png"]
    for picture in pictures:
        check("cid:" + picture["content-id"].strip("<>") in page, "the HTML part shows the picture of the mail")
        check(picture.get_content()[:8] == b"\x89PNG\r\n\x1a\n", "the picture is whole")
    for part in message.walk():
        if not part.is_multipart():
            check(part["content-transfer-encoding"] in ("quoted-printable", "base64"), "parts are 7 bit")
    longest = max(map(len, message.as_bytes().split(b"\n")))
    check(longest <= 998, f"a line has {longest} bytes")
    return page


plain = site("plain")

# --- a finding, as an ordinary user
mail(plain, job("outsider"))
mails = received("finding, ordinary user", ADA, OPS, checked="headers, parts, picture, page, line lengths")
expect_whole(mails[ADA], "user")
expect_whole(mails[OPS], "admins")
text, page, whole = parts(mails[ADA])
check(text.startswith("FINDING  Something outside the job used 0.98 of cpu1"), "the text begins with the verdict")
check("#SBATCH --exclusive" in text and "#SBATCH --exclusive" in page and "resnet50-ddp" in whole, "the steps are there")
check("leftover of" in parts(mails[OPS])[0] and "leftover of" not in text, "steps of administrators only go to them")
check(mails[ADA]["to"] == ADA and mails[ADA]["from"] == f"reveal <reveal@{DOMAIN}>", "From and To")
check(mails[ADA]["return-path"] == f"<games@{DOMAIN}>", f"bounces go to {mails[ADA]['return-path']}")
mail(plain, job("outsider"), "--mail-user", HOME)
received("finding, --mail-user at home", HOME, OPS, checked="recipients")
mail(plain, job("healthy"))
received("healthy", checked="exit status 0, silent")
mail(plain, job("healthy"), "--to", "yes")
mails = received("healthy, asked", ADA, checked="headers, parts")
expect_whole(mails[ADA], "user")
mail(plain, job("many_nodes"), "--array", "4710", "--state", state / "array")
mails = received("a task of an array", ADA, OPS, checked="thread of the array")
check("<reveal.job.hydra.4710.user@hpc.example.org>" in mails[ADA]["references"], "the array's thread")


# --- texts that a mail system could break
def odd(report):
    report["job"]["name"] = "größe 🚀 <b>naïve</b>\r\nBcc: victim@other.net"
    report["findings"][0]["sentence"] = ".\r\n.\r\n. dots, größe 🚀 " + "x" * 3000 + "\nFrom nobody"
    report["verdict"]["sentence"] = ".hidden line " + "ü" * 1200
    report["job"]["tags"] = [{"key": "." * 70, "value": "\n.\n..\nQUIT\r\n.\r\n"}]


mail(plain, job("outsider", "odd", odd))
mails = received("emoji, dots, 3 kB line, line feeds", ADA, OPS, checked="subject, 7 bit, 998, no dot lost, no header")
for address, message in mails.items():
    expect_whole(message, "user" if address == ADA else "admins")
    check("bcc" not in message and "\n" not in message["subject"], "no header and one line of subject")
check("größe 🚀 <b>naïve</b>" in mails[ADA]["subject"], f"UTF-8 arrives in the subject: {mails[ADA]['subject']}")
text, page, _ = parts(mails[ADA])
check(text.startswith("FINDING  .hidden line"), f"a dot at a word's begin stays: {text[:60]}")
check("." * 70 in text.replace("\n", ""), "no dot of a line of dots is lost")
check("größe 🚀" in page and "<b>naïve" not in page, "UTF-8 in HTML, no markup of a user")


def huge(report):
    report["job"]["name"] = "n" * 10_000
    report["findings"][0]["title"] = "t" * 10_000


mail(plain, job("outsider", "huge", huge))
mails = received("names of 10 kB", ADA, OPS, checked="subject below 250 characters, 998")
for message in mails.values():
    check(len(message["subject"]) < 250, f"the subject has {len(message['subject'])} characters")
    check(max(map(len, message.as_bytes().split(b"\n"))) <= 998, "no long line")

# --- a recipient that does not exist: the node's sendmail takes the mail, the server refuses it later
mail(plain, job("outsider"), "--mail-user", f"nobody.here@{DOMAIN}")
mails = received("recipient unknown", OPS, f"games@{DOMAIN}", checked="the bounce goes to the job's account")
bounce = mails[f"games@{DOMAIN}"]
check(bounce["auto-submitted"] == "auto-replied" and "nobody.here" in bounce.as_string(), "the bounce names the address")
mail(site("bounces", sendmail=f'"/usr/sbin/sendmail -t -i -f reveal@{DOMAIN}"'), job("outsider"), "--mail-user",
     f"nobody.here@{DOMAIN}")
mails = received("recipient unknown, sendmail -f", OPS, f"reveal@{DOMAIN}", checked="the bounce goes to the address of -f")
check(mails[OPS]["return-path"] == f"<reveal@{DOMAIN}>", "-f is the sender of the envelope")

# --- the server away, refusing, silent: postfix on the node keeps the mail, and delivers it once
postfix("server", "stop")
_, seconds = mail(plain, job("outsider"), "--state", state / "away")
check(seconds < 10, f"the node does not wait for the server: {seconds:.1f} s")
until(10, lambda: "Connection refused" in log_of("node"))
check(until(20, lambda: waits_in("node") == 2), f"both mails wait: {waits_in('node')}")
start_mta("server")
reveal("--retry", "--config", plain, "--state", state / "away")
postfix("node", "flush")
received("server stopped, then back", ADA, OPS, checked="exit status 0, 0 s, once; --retry sends no second one")

with (ETC / "server/main.cf").open("a") as file:
    file.write("smtpd_client_restrictions = check_client_access texthash:/etc/postfix/server/clients, permit\n")
(ETC / "server/clients").write_text("127.0.0.1 450 4.7.1 come back later\n")
postfix("server", "reload")
mail(plain, job("outsider"))
check(until(20, lambda: "come back later" in log_of("node")), "the server said 450")
(ETC / "server/clients").write_text("127.0.0.1 OK\n")
postfix("server", "reload")
time.sleep(1)
postfix("node", "flush")
received("server says 450, then takes mails", ADA, OPS, checked="once")

# --- postfix of the node stopped: its sendmail puts the mail into the queue all the same
postfix("node", "stop")
mail(plain, job("outsider"), "--state", state / "stopped")
check(waits_in("node") == 2, f"both mails wait: {waits_in('node')}")
start_mta("node")
received("postfix of the node stopped, then started", ADA, OPS, checked="exit status 0, once")


# --- no space for the queue
def programs_of_mail():
    """Programs that run for the job's user; a dead one stays a name, because this test is the namespace's init."""
    lines = run("ps", "-u", "games", "-o", "args=").stdout.splitlines()
    return [line for line in lines if "/python" not in line and "<defunct>" not in line]


def fill(path):
    with open(path, "wb", buffering=0) as file:
        try:
            while file.write(b"0" * 4096) > 0:
                pass
        except OSError:
            pass


fill(QUEUE / "ballast")
answer, seconds = mail(plain, job("outsider"), "--state", state / "full", status=1)
check(answer.stderr.count("\n") == 1, f"one line: {answer.stderr}")
check(seconds < 45, f"both mails took {seconds:.0f} s")
kept = sorted(path.name.rsplit("-", 1)[1] for path in (state / "full").glob("queued-*"))
check(kept == ["admins", "user"], f"both mails are kept: {kept}")
check("No space left on device" in answer.stderr, f"postdrop's words: {answer.stderr}")
check(not programs_of_mail(), f"left over: {programs_of_mail()}")
(QUEUE / "ballast").unlink()
reveal("--retry", "--config", plain, "--state", state / "full")
reveal("--retry", "--config", plain, "--state", state / "full")
received("queue of the node full, then --retry twice", ADA, OPS, checked="exit status 1, one line with postdrop's words; once")
check(not list((state / "full").glob("queued-*")), "nothing is left over")

# --- a queue that cannot be entered: postdrop waits for ever
(QUEUE / "maildrop").chmod(0o700)
answer, seconds = mail(plain, job("outsider"), "--state", state / "hanging", status=1)
check("did not finish within" in answer.stderr and answer.stderr.count("\n") == 1, f"one line: {answer.stderr}")
check(seconds < 45, f"both mails took {seconds:.0f} s")
check(until(5, lambda: not programs_of_mail()), f"left over: {programs_of_mail()}")
(QUEUE / "maildrop").chmod(0o730)
reveal("--retry", "--config", plain, "--state", state / "hanging")
reveal("--retry", "--config", plain, "--state", state / "hanging")
received("sendmail hangs, then --retry twice", ADA, OPS, checked=f"exit status 1, one line, {seconds:.0f} s for both; once")

# --- a mail larger than the limit of postfix: sendmail refuses at once
with (ETC / "main.cf").open("a") as file:
    file.write("message_size_limit = 5000\nvirtual_mailbox_limit = 5000\nmailbox_size_limit = 5000\n")
postfix("node", "reload")
answer, seconds = mail(plain, job("outsider"), "--state", state / "large", status=1)
check("Message file too big" in answer.stderr or "too large" in answer.stderr.lower() or "too big" in answer.stderr.lower(),
      f"postfix's words: {answer.stderr}")
(ETC / "main.cf").write_text((ETC / "main.cf").read_text().replace("limit = 5000", "limit = 10240000"))
postfix("node", "reload")
reveal("--retry", "--config", plain, "--state", state / "large")
received("mail larger than postfix takes, then --retry", ADA, OPS, checked="exit status 1 with postfix's words, then once")

# --- two reports at once, and hundreds of tasks
both = [subprocess.Popen([REVEAL, "mail", job("outsider", name), "--user", "ada", "--config", plain, "--state",
                          state / "both", "--to", address], env=ENVIRONMENT, user=USER.pw_uid, group=USER.pw_gid,
                         extra_groups=[], cwd=work) for name, address in (("one", ADA), ("two", DESK))]
for process in both:
    check(process.wait(LIMIT) == 0, "two reports at once")
ops = until(30, lambda: len(arrived(OPS)) == 2)
check(ops, f"the administrators got {len(arrived(OPS))} mails about two jobs")
shutil.rmtree(MAIL / OPS)
received("two reports at once", ADA, DESK, checked="each its own mail, and one each to the administrators")

# --- places where mails are counted that take nothing
def small(name, options):
    folder = work / name
    folder.mkdir()
    must("mount", "-t", "tmpfs", "-o", f"mode=700,uid={USER.pw_uid},gid={USER.pw_gid},{options}", "tmpfs", str(folder))
    return folder


full = small("full", "size=64k")
fill(full / "ballast")
mail(plain, job("outsider"), "--state", full)
received("place of the count full", ADA, OPS, checked="exit status 0: an empty file is enough to count")
answer, _ = mail(plain, job("outsider"), "--state", full, "--array", "4711")
check(answer.stderr.count("\n") == 1 and "No space left on device" in answer.stderr, f"one line: {answer.stderr}")
received("place of the count full, task of an array", ADA, OPS, checked="exit status 0, one line")
answer, _ = mail(site("none", sendmail='"/usr/sbin/sendmail.missing -t"'), job("outsider"), "--state", full, status=1)
check(answer.stderr.count("\n") == 3 and answer.stderr.count("is not tried again") == 2, f"no promise: {answer.stderr}")
received("sendmail missing, place of the queue full", checked="exit status 1: no later try is promised")
answer, _ = mail(site("none"), job("outsider"), "--state", small("names", "nr_inodes=1"), status=1)
check(answer.stderr.count("\n") == 1 and "No space left on device" in answer.stderr, f"one line: {answer.stderr}")
received("place of the count without room for a name", checked="exit status 1, one line")
answer, _ = mail(plain, job("outsider"), "--state", small("readonly", "ro"), status=1)
check(answer.stderr.count("\n") == 1 and "Read-only file system" in answer.stderr, f"one line: {answer.stderr}")
received("place of the count read-only", checked="exit status 1, one line")

# --- no mail program
answer, _ = mail(site("none", sendmail='"/usr/sbin/sendmail.missing -t"'), job("outsider"), "--state", state / "none",
                 status=1)
check(answer.stderr.count("\n") == 1 and "sendmail.missing" in answer.stderr, f"one line: {answer.stderr}")
reveal("--retry", "--config", plain, "--state", state / "none")
received("sendmail missing, then --retry", ADA, OPS, checked="exit status 1, one line, once")

# --- a home directory that could not be written: mails wait in the node's spool
spool = pathlib.Path("/var/spool/reveal")
(spool / "mail" / str(USER.pw_uid)).mkdir(parents=True, mode=0o700)
for folder in (spool, spool / "mail"):
    folder.chmod(0o711)
of_node = spool / "mail" / str(USER.pw_uid)
os.chown(of_node, USER.pw_uid, USER.pw_gid)
mail(site("nobody", sendmail='"/bin/false"'), job("outsider"), "--state", of_node, status=1)
check(len(list(of_node.glob("queued-*"))) == 2, "both mails wait on the node")
reveal("--retry", "--config", plain)
received("kept on the node, --retry without --state", ADA, OPS, checked="once")
check(not list(of_node.glob("queued-*")), "nothing is left over on the node")

# --- the end of a job: root's collector delivers as the user, and its sendmail is setgid
(work / "slurmstepd").symlink_to("/bin/bash")
jobs = work / "jobs"
jobs.mkdir()
os.chown(jobs, USER.pw_uid, USER.pw_gid)
(spool / "run").mkdir(mode=0o700)


def epilog(number, config, seconds):
    """Ends a recorded job as Slurm's epilog does; the time until the collector has let it go."""
    lock = os.open(spool / f"run/{number}.n1", os.O_RDWR | os.O_CREAT, 0o600)

    def take_lock():
        os.dup2(lock, 3)
        os.set_inheritable(3, True)
        fcntl.flock(3, fcntl.LOCK_EX)

    broker = subprocess.Popen(
        [work / "bin/reveal-collect", "--job", f"slurm:{number}", "--node", "n1", "--spool", spool, "--lock-fd", "3",
         "--uid", str(USER.pw_uid), "--gid", str(USER.pw_gid), "--config", config, "--disable-file", work / "disable"],
        env={**ENVIRONMENT, "SLURMD_NODENAME": "n1", "SLURM_JOB_NODELIST": "n1", "SLURM_JOB_WORK_DIR": str(jobs),
             "REVEAL_REQUEST": "mail=yes", "SLURM_CONF": "/nonexistent"},
        preexec_fn=take_lock, close_fds=False, stdin=subprocess.DEVNULL)
    os.close(lock)
    extern = subprocess.Popen([f"slurmstepd: [{number}.extern]", "-c",
                               f"setpriv --reuid {USER.pw_uid} --regid {USER.pw_gid} --clear-groups sleep 100; sleep 0"],
                              executable=str(work / "slurmstepd"), stdin=subprocess.DEVNULL)
    check(until(20, lambda: any(path.stat().st_size for path in (spool / str(number)).glob("n1.h5.part"))),
          "nothing is recorded")
    time.sleep(seconds)
    begin = time.monotonic()
    broker.terminate()
    subprocess.run(["pkill", "-KILL", "-P", str(extern.pid)])
    extern.wait(LIMIT)
    try:
        broker.wait(LIMIT)
    except subprocess.TimeoutExpired:
        check(False, "the collector does not end")
        broker.kill()
    return time.monotonic() - begin


seconds = epilog(5001, plain, 3)
mails = received("end of a job, from root's collector", f"games@{DOMAIN}", checked=f"as the user, {seconds:.0f} s")
if mails:
    message = mails[f"games@{DOMAIN}"]
    expect_whole(message, "user")
    check(message["x-reveal-job"] == "5001" and message["return-path"] == f"<games@{DOMAIN}>", "its job and its account")
(QUEUE / "maildrop").chmod(0o700)
seconds = epilog(5002, plain, 3)
check((jobs / "reveal-5002/report.json").exists(), "the report is there")
(QUEUE / "maildrop").chmod(0o730)
check(seconds < 80, f"the end of the job took {seconds:.0f} s")
check(not mailboxes(), "nothing was sent")
waiting = list(pathlib.Path(spool).glob("mail/*/queued-*")) + list(
    pathlib.Path(USER.pw_dir).glob(".local/state/reveal/mail/*/queued-*"))
check(len(waiting) == 1, f"the mail waits: {waiting}")
seconds_of_next = epilog(5003, plain, 3)
for path in waiting:  # not due for five minutes
    check(path.exists(), "the next job's end does not try so soon")
check(until(30, lambda: len(arrived(f"games@{DOMAIN}")) == 1), "the next job has its mail")
shutil.rmtree(MAIL / f"games@{DOMAIN}", ignore_errors=True)
reveal("--retry", "--config", plain)
received("end of a job, sendmail hangs, --retry later", f"games@{DOMAIN}", checked=f"{seconds:.0f} s; once")

for which in ("node", "server"):
    postfix(which, "stop")
for which in ("node", "server"):
    for line in log_of(which).splitlines():
        check(": fatal:" not in line or "too big" in line or "file" in line.lower(), f"{which}: {line}")
print(f"{'situation':46} {'mail to':58} checked")
for row in table:
    print(f"{row[0]:46} {row[1]:58} {row[2]}")
print(f"{len(table)} situations, {len(failures)} failures")
end()
