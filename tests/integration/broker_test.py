#!/usr/bin/env python3
"""The collector of a Slurm job without Slurm: its user traces what runs for him, leaves processes behind, and writes into
the spool. The step daemons are shells that have their name and title."""
import fcntl
import glob
import json
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import BUILD, end, fail, skip  # noqa: E402

USER = pwd.getpwnam("games")

def until(seconds, condition):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def as_user():
    os.setsid()
    os.initgroups(USER.pw_name, USER.pw_gid)
    os.setresgid(USER.pw_gid, USER.pw_gid, USER.pw_gid)
    os.setresuid(USER.pw_uid, USER.pw_uid, USER.pw_uid)


# What a job can try: to trace each process of reveal that runs for its user, as early as it can.
TRACER = r"""
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
SEIZE = 0x4206
tried, caught = {}, []
out = sys.argv[1]
while not os.path.exists(out + ".stop"):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
            if os.stat(f"/proc/{pid}").st_uid != os.getuid() and b"deliver" not in words: continue
        except OSError:
            continue
        if not words[0].endswith((b"/reveal", b"/reveal-collect")): continue
        if words[1] == b"show": continue  # the user's own command: another test may run it
        tried[words[1].decode()] = tried.get(words[1].decode(), 0) + 1
        if libc.ptrace(SEIZE, int(pid), None, None) == 0: caught.append(words[1].decode())
        try:
            open(f"/proc/{pid}/mem", "r+b").close()
            caught.append("memory of " + words[1].decode())
        except OSError:
            pass
open(out, "w").write(repr((tried, caught)) + "\n")
"""


# What a user could make of the deliverer: it lies in the lines for root's ledger, and does not end by itself.
LIAR = """#!/usr/bin/python3
import json, os, sys
if sys.argv[1] == "ledger":
    open(sys.argv[0] + ".status", "w").write(open("/proc/self/status").read())
if sys.argv[1] != "deliver": os.execv(sys.argv[0] + ".true", sys.argv)
line = {"schema": "reveal.ledger/1", "node": "n1", "job": "%s", "owner": "abc", "begin": "2026-01-02T10:00:00Z",
        "end": "2026-01-02T11:00:00Z", "job_nodes": 99, "findings": [{"rule": "mem.ecc_host", "severity": "critical",
        "seconds": 1e300, "how": "estimated", "nodes": 99}]}
lies = [{"job": "4711"}, {"node": "n2"}, {"node": "n1; reboot"}, {"owner": "root"}, {}, {}]
text = "".join(json.dumps({**line, **lie}) + "\\n" for lie in lies) + "[" * (2 << 20)
os.write(int(sys.argv[sys.argv.index("--ledger-fd") + 1]), text.encode())
os.write(int(sys.argv[sys.argv.index("--ready-fd") + 1]), b"+")
"""


class Node:
    """One job on one node, from its collector's start on."""

    def __init__(self, base, job, config, work_dir, request="", programs="bin", group=None):
        self.base, self.job = base, job
        self.spool = f"{base}/spool"
        self.config = f"{base}/{job}.conf"
        with open(self.config, "w") as file:
            file.write(config)
        self.disable = f"{base}/disable"
        self.lock = f"{self.spool}/run/{job}.n1"
        lock = os.open(self.lock, os.O_RDWR | os.O_CREAT, 0o600)
        # A checker of leaks traces its process, which a delivery may not do.
        environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "ASAN_OPTIONS": "detect_leaks=0", "SLURMD_NODENAME": "n1", "SLURM_JOB_NODELIST": "n1", "REVEAL_PROLOG_NODES": "n1",
                       "SLURM_JOB_WORK_DIR": work_dir, "REVEAL_REQUEST": request, "SLURM_CONF": "/nonexistent"}

        def take_lock():
            if group:
                with open(f"{group}/cgroup.procs", "w") as file:
                    file.write("0")
            os.dup2(lock, 3)
            os.set_inheritable(3, True)
            fcntl.flock(3, fcntl.LOCK_EX)

        self.broker = subprocess.Popen(
            [f"{base}/{programs}/reveal-collect", "--job", f"slurm:{job}", "--node", "n1", "--spool", self.spool, "--lock-fd",
             "3", "--uid", str(USER.pw_uid), "--gid", str(USER.pw_gid), "--config", self.config, "--disable-file",
             self.disable], env=environment, preexec_fn=take_lock, close_fds=False, stdin=subprocess.DEVNULL)
        os.close(lock)

    def step(self, name, *command):
        """A step daemon whose only task is `command`, as the user."""
        task = " ".join(f"'{word}'" for word in command)
        return subprocess.Popen(
            [f"slurmstepd: [{self.job}.{name}]", "-c",
             f"setpriv --reuid {USER.pw_uid} --regid {USER.pw_gid} --clear-groups {task}; sleep 0"],
            executable=f"{self.base}/slurmstepd", stdin=subprocess.DEVNULL)

    def samples(self):
        return any(os.path.getsize(path) > 0 for path in glob.glob(f"{self.spool}/{self.job}/n1.h5.part"))


def foreign_group():
    """A control group as one of a step; None where none can be made."""
    for hierarchy in ("/sys/fs/cgroup/freezer", "/sys/fs/cgroup"):
        group = f"{hierarchy}/reveal-test-{os.getpid()}"
        if os.path.exists(f"{hierarchy}/cgroup.procs") and os.access(hierarchy, os.W_OK):
            os.mkdir(group)
            return group
    return None


def user_can(*command):
    return subprocess.run(command, preexec_fn=as_user, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def main():
    if os.geteuid() != 0:
        skip("needs root, as the collector of a Slurm job does")
    base = tempfile.mkdtemp(prefix="reveal-broker")
    os.chmod(base, 0o755)
    started = []
    try:
        os.mkdir(f"{base}/bin")
        for program in ("reveal", "reveal-collect"):
            shutil.copy(f"{BUILD}/bin/{program}", f"{base}/bin/{program}")
        os.symlink("/bin/bash", f"{base}/slurmstepd")
        os.mkdir(f"{base}/spool", 0o711)
        os.chmod(f"{base}/spool", 0o711)
        os.mkdir(f"{base}/spool/run", 0o700)
        for name in ("work", "log"):
            os.mkdir(f"{base}/{name}")
            os.chown(f"{base}/{name}", USER.pw_uid, USER.pw_gid)
        # A mail program that leaves a process in a session of its own behind, and writes down what it is.
        with open(f"{base}/sendmail", "w") as file:
            file.write(f"""#!/bin/bash
cat >/dev/null
cat /proc/self/cgroup >{base}/log/cgroup
ulimit -v >{base}/log/limit
grep -E 'CapEff|NoNewPrivs|Seccomp_filters' /proc/self/status >{base}/log/status
(setsid sleep 300 >/dev/null 2>&1 & echo $! >{base}/log/left)
setsid bash -c 'echo $$ >>{base}/log/left; exec sleep 300' >/dev/null 2>&1 &
sleep 0.2
""")
        os.chmod(f"{base}/sendmail", 0o755)
        with open(f"{base}/tracer.py", "w") as file:
            file.write(TRACER)

        quick = '[slurm]\nmin_seconds = 0\n'
        ledger = f"{base}/spool/nodes.jsonl"
        lines = lambda: [json.loads(line) for line in open(ledger)] if os.path.exists(ledger) else []
        attacked = Node(base, 4711, quick + f'ledger = true\n[mail]\nenabled = true\nsendmail = "{base}/sendmail"\n'
                        'domain = "example.org"\nhealthy = true\n', f"{base}/work", request="mail=yes,output=secret-%j")
        kept = Node(base, 4712, quick, f"{base}/nowhere")
        started += [attacked.broker, kept.broker]
        started.append(attacked.step("0", "/usr/bin/python3", f"{base}/tracer.py", f"{base}/log/tracer"))
        extern = kept.step("extern", "/bin/sleep", "100")
        started.append(extern)

        until(10, attacked.samples) or fail("nothing is recorded")
        until(10, kept.samples) or fail("nothing is recorded of the second job")
        children = subprocess.run(["pgrep", "-P", str(kept.broker.pid)], capture_output=True, text=True).stdout.split()
        filters = lambda pid: int(open(f"/proc/{pid}/status").read().partition("Seccomp_filters:")[2].split()[0])
        if not any(filters(pid) > filters(kept.broker.pid) for pid in children):
            fail("the sampler can make every system call")
        filters_of_broker = filters(attacked.broker.pid)
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                words = open(f"/proc/{pid}/cmdline", "rb").read()
            except OSError:
                continue
            if b"secret" in words and b"/reveal" in words:
                fail(f"every user can read the request in the command line {words}")
        time.sleep(2)

        # The job's user traces the delivery, and his mail program leaves processes.
        attacked.broker.terminate()
        subprocess.run(["pkill", "-KILL", "-P", str(extern.pid)])  # the task; its daemon ends, no epilog comes
        try:
            attacked.broker.wait(30)
        except subprocess.TimeoutExpired:
            fail("the broker does not end")
        open(f"{base}/log/tracer.stop", "w").close()
        told = lambda: os.path.exists(f"{base}/log/tracer") and open(f"{base}/log/tracer").read().endswith("\n")
        until(10, told) or fail("the tracer is gone")
        tried, caught = eval(open(f"{base}/log/tracer").read())
        print(f"tried to trace: {tried}, caught: {caught}")
        if not tried.get("deliver"):
            fail(f"the case is void: no delivery was seen ({tried})")
        if caught:
            fail(f"the user traced {caught}")
        if not os.path.exists(f"{base}/log/left"):
            fail("the case is void: no mail was sent")
        else:
            for pid in open(f"{base}/log/left").read().split():
                state = open(f"/proc/{pid}/stat").read().split()[2] if os.path.exists(f"/proc/{pid}") else "gone"
                if state not in ("gone", "Z", "X"):
                    fail(f"a process outlived the broker: {pid} {state}")
                    os.kill(int(pid), signal.SIGKILL)
            rights, own = (dict(line.partition(":\t")[::2] for line in open(path).read().splitlines())
                           for path in (f"{base}/log/status", "/proc/self/status"))
            print(rights)
            if rights["NoNewPrivs"] != own["NoNewPrivs"]:
                fail("a mail program that is set-group-id could not reach its queue")
            if int(own["CapEff"], 16) >> 21 & 1 and int(rights["Seccomp_filters"]) <= filters_of_broker:  # CAP_SYS_ADMIN
                fail("the delivery and its mail program can make every system call")
        groups = open(f"{base}/log/cgroup").read()
        can_have_groups = os.path.exists("/sys/fs/cgroup/cgroup.controllers") or os.path.isdir("/sys/fs/cgroup/memory")
        if can_have_groups and os.access("/sys/fs/cgroup", os.W_OK) and "/reveal/4711.n1." not in groups:
            fail(f"the delivery was in no group of reveal's: {groups}")
        if "unlimited" in open(f"{base}/log/limit").read():
            fail("the delivery could take all memory")
        if glob.glob("/sys/fs/cgroup/*/reveal/4711.n1.*") + glob.glob("/sys/fs/cgroup/reveal/4711.n1.*"):
            fail("a control group was left behind")
        if not os.path.exists(f"{base}/work/secret-4711/report.json"):
            fail("there is no report")
        status = os.stat(ledger)
        if [(line["job"], line["node"], line["job_nodes"]) for line in lines()] != [("4711", "n1", 1)]:
            fail(f"the ledger of the node: {lines()}")
        if (status.st_uid, status.st_mode & 0o777) != (0, 0o600) or USER.pw_name in open(ledger).read():
            fail(f"the ledger is not root's, or names the user: {status} {lines()}")

        # Its daemon is gone: the job is over, although nobody says so.
        try:
            kept.broker.wait(30)
        except subprocess.TimeoutExpired:
            fail("the broker does not notice that the job's extern step is gone")
        folder = f"{base}/spool/4712"
        report = json.load(open(f"{folder}/report.json"))
        if report["job"]["id"] != "4712":
            fail("another job's report is in the spool")
        for attempt in (["touch", f"{folder}/new"], ["touch", f"{folder}/n1.h5"], ["rm", f"{folder}/n1.h5"],
                        ["sh", "-c", f"echo x >>{folder}/n1.h5"], ["chmod", "777", folder], ["mv", folder, f"{folder}x"]):
            if user_can(*attempt).returncode == 0:
                fail(f"after the job its user can still: {' '.join(attempt)}")
        shown = user_can(f"{base}/bin/reveal", "show", folder)
        if shown.returncode != 0:
            fail(f"the user cannot read his report: {shown.stdout}")
        for path in glob.glob(f"{folder}/*"):
            if user_can("cat", path).returncode != 0:
                fail(f"the user cannot read {path}")
        nobody = subprocess.run(["setpriv", "--reuid", "65534", "--regid", str(USER.pw_gid), "--clear-groups", "ls",
                                 folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if nobody.returncode == 0:
            fail("another user of the same group can read the spool")

        # The same job again: it goes on where it was, beside what is root's.
        again = Node(base, 4712, quick, f"{base}/work")
        started += [again.broker, again.step("0", "/bin/sleep", "100")]
        until(10, lambda: os.path.exists(f"{folder}/n1-2.h5.part")) or fail("a run after a sealed one records nothing")
        time.sleep(1.5)
        # A trace whose analysis is expected to take 1.2 s: shorter ones say nothing about the pace of the node.
        user_can("truncate", "-s", "4MB", f"{folder}/n1-3.h5.part")
        if os.path.exists(f"{base}/spool/delivery-times"):
            fail("times of short deliveries are kept")
        again.broker.terminate()
        again.broker.wait(30)
        if os.path.exists(folder):
            fail(f"left in the spool: {os.listdir(folder)}")
        if sorted(os.path.basename(path) for path in glob.glob(f"{base}/work/reveal-4712/*.h5")) != ["n1-2.h5", "n1.h5"]:
            fail("the traces of both runs are not where they belong")
        if any(os.stat(path).st_uid != USER.pw_uid for path in glob.glob(f"{base}/work/reveal-4712/*")):
            fail("a delivered file is not the user's")

        status = os.stat(f"{base}/spool/delivery-times")
        owner, _, expected, used = map(int, open(f"{base}/spool/delivery-times").read().split())
        if (status.st_uid, status.st_mode & 0o777, owner) != (0, 0o600, USER.pw_uid) or not 1200 <= expected < 2000 or used < 1:
            fail(f"the time of a delivery: {status}, {owner} {expected} {used}")

        if len(lines()) != 1:
            fail(f"a ledger is kept that nobody wants: {lines()}")

        # A deliverer that lies to root.
        shutil.copytree(f"{base}/bin", f"{base}/liar")
        os.rename(f"{base}/liar/reveal", f"{base}/liar/reveal.true")
        with open(f"{base}/liar/reveal", "w") as file:
            file.write(LIAR % 4714)
        os.chmod(f"{base}/liar/reveal", 0o755)
        liar = Node(base, 4714, quick + "ledger = true\n", f"{base}/work", programs="liar")
        started += [liar.broker, liar.step("0", "/bin/sleep", "100")]
        until(10, liar.samples) or fail("nothing is recorded of the job with the liar")
        time.sleep(1)
        liar.broker.terminate()
        liar.broker.wait(30)
        [told] = [line for line in lines() if line["job"] == "4714"] or [None]
        if len(lines()) != 2 or not told or (told["node"], told["job_nodes"], told["findings"][0]["nodes"]) != ("n1", 1, 1):
            fail(f"the lies in the ledger: {lines()}")
        elif told["owner"] != lines()[0]["owner"] or told["findings"][0]["seconds"] != 3600:
            fail(f"root believes whose job it was, or how much it lost: {told}")
        rights = dict(line.split(":\t") for line in open(f"{base}/liar/reveal.status").read().splitlines() if "Cap" in line)
        if any(int(value, 16) for value in rights.values()):
            fail(f"the program that reads these lines has capabilities: {rights}")

        # A step that ends kills the processes of its group: the broker has left it before it counts what is in the spool.
        group = foreign_group()
        if group:
            os.mkdir(f"{base}/spool/101")
            for number in range(30_000):
                os.close(os.open(f"{base}/spool/101/{number}", os.O_CREAT))
            slow = Node(base, 4715, quick, f"{base}/work", group=group)
            started.append(slow.broker)
            give_up = time.monotonic() + 10
            while os.path.getsize(slow.lock) == 0 and time.monotonic() < give_up:
                pass
            groups = open(f"/proc/{slow.broker.pid}/cgroup").read()
            if os.path.getsize(slow.lock) == 0 or os.path.basename(group) in groups:
                fail(f"the broker stays in the group of a step: {groups}")
            slow.broker.terminate()
            slow.broker.wait(30)
            os.rmdir(group)
            shutil.rmtree(f"{base}/spool/101")

        # No room: nothing is recorded, and it counts as refused, not as a crash.
        with open(f"{base}/spool/100", "w") as file:
            file.write("x" * 100_000)
        refused = Node(base, 4713, '[slurm]\nspool_total_max = "10KB"\n', f"{base}/work")
        if refused.broker.wait(10) != 1 or os.path.exists(f"{base}/spool/4713"):
            fail("a full spool takes another run")
        if os.path.exists(refused.lock) or not os.path.exists(f"{base}/spool/run/failed.4713.n1"):
            fail("a full spool counts as a crash")
    finally:
        for process in started:
            subprocess.run(["pkill", "-KILL", "-P", str(process.pid)])
            process.kill()
            process.wait()
        if "REVEAL_KEEP" not in os.environ:
            shutil.rmtree(base, ignore_errors=True)
    end()


main()
