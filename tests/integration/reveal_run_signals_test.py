#!/usr/bin/python3
"""Signals and the terminal: the command under reveal-run receives what it would receive without it, once."""
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import check, end, program  # noqa: E402

RUN = program("reveal-run")
LIMIT = 30  # seconds; decides nothing when all is well

# Notes each signal it gets; after SIGTERM it takes what may still be under way and ends with status 3. It waits for
# signals instead of handling them: handlers merge two that come close together, and so would hide a second one.
COMMAND = r"""
import signal, sys
wanted = {signal.SIGALRM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGRTMIN}
signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
def note(word):
    with open(sys.argv[1], "a") as file:
        file.write(word + "\n")
note("ready")
while True:
    number = signal.sigwaitinfo(wanted).si_signo
    note(signal.Signals(number).name)
    if number == signal.SIGTERM:
        while (late := signal.sigtimedwait(wanted, 0.5)) is not None:
            note(signal.Signals(late.si_signo).name)
        sys.exit(3)
"""


def until(condition, what):
    give_up = time.monotonic() + LIMIT
    while time.monotonic() < give_up:
        if condition():
            return True
        time.sleep(0.05)
    check(False, "waited in vain for " + what)
    return False


class Job:
    def __init__(self, directory, name):
        self.notes = pathlib.Path(directory, name + ".notes")
        self.notes.write_text("")
        self.process = subprocess.Popen(
            [RUN, "--quiet", "--no-report", "--output", os.path.join(directory, name), "--",
             "/usr/bin/python3", "-c", COMMAND, str(self.notes)], stdin=subprocess.DEVNULL, start_new_session=True)
        until(lambda: self.received("ready"), name + " to start")

    def received(self, word):
        return self.notes.read_text().split().count(word)


def test_forwarding(directory):
    job = Job(directory, "alone")
    for number in (signal.SIGUSR1, signal.SIGINT, signal.SIGHUP):
        job.process.send_signal(number)
        until(lambda: job.received(number.name), number.name + " to be forwarded")
    job.process.send_signal(signal.SIGTERM)
    check(job.process.wait(LIMIT) == 3, "the command's status after SIGTERM")
    for name in ("SIGUSR1", "SIGINT", "SIGHUP", "SIGTERM"):
        check(job.received(name) == 1, f"{name} sent to reveal-run came {job.received(name)} times")


def test_sent_by_the_kernel_to_one(directory):
    """A timer set before, and the hang-up of a terminal whose session reveal-run leads."""
    notes = pathlib.Path(directory, "kernel.notes")
    notes.write_text("")
    pid, terminal = pty.fork()
    if pid == 0:
        signal.alarm(5)  # before the command waits for signals, it would end it
        os.execv(RUN, [RUN, "--quiet", "--no-report", "--output", directory + "/kernel", "--",
                       "/usr/bin/python3", "-c", COMMAND, str(notes)])
    received = lambda word: notes.read_text().split().count(word)
    until(lambda: received("SIGALRM") == 1, "a timer set before the start")
    os.close(terminal)
    until(lambda: received("SIGHUP") == 1, "the hang-up of the terminal")
    os.kill(pid, signal.SIGTERM)
    check(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3, "the command's status after a hang-up")


def test_group(directory):
    job = Job(directory, "group")
    for _ in range(5):
        before = job.received("SIGRTMIN")
        os.killpg(job.process.pid, signal.SIGRTMIN)  # queued by the kernel, so none is lost
        until(lambda: job.received("SIGRTMIN") > before, "a signal to the group")
        time.sleep(0.15)  # a second one would have to be forwarded by now
    job.process.send_signal(signal.SIGTERM)
    check(job.process.wait(LIMIT) == 3, "the command's status")
    check(job.received("SIGRTMIN") == 5, f"5 signals to the group came {job.received('SIGRTMIN')} times")


def test_chosen_by_words(directory):
    """pkill -f sends to all whose command line matches: that is reveal-run alone, or the command with it."""
    job = Job(directory, "words")
    subprocess.run(["pkill", "-USR1", "-f", re.escape(f"--output {directory}/words ")], check=True)
    until(lambda: job.received("SIGUSR1") == 1, "a signal by the options of reveal-run")
    subprocess.run(["pkill", "-HUP", "-f", re.escape(str(job.notes))], check=True)
    until(lambda: job.received("SIGHUP") > 0, "a signal by the words of the command")
    job.process.send_signal(signal.SIGTERM)
    check(job.process.wait(LIMIT) == 3, "the command's status after signals by words")
    check(job.received("SIGHUP") == 1, f"a signal by the command's words came {job.received('SIGHUP')} times")


def test_unhandled(directory):
    process = subprocess.Popen([RUN, "--quiet", "--no-report", "--output", directory + "/unhandled", "--",
                                "sh", "-c", "echo ready; exec sleep 100"], stdout=subprocess.PIPE, start_new_session=True)
    process.stdout.readline()  # before that, the signal would rightly end reveal-run alone
    process.send_signal(signal.SIGTERM)
    check(process.wait(LIMIT) == 128 + signal.SIGTERM, f"status {process.returncode} of a command ended by SIGTERM")


def test_nohup(directory):
    process = subprocess.Popen(
        [RUN, "--quiet", "--no-report", "--output", directory + "/nohup", "--", "grep", "-E", "Sig(Ign|Blk)", "/proc/self/status"],
        stdout=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    ignored = process.communicate()[0]
    check(int(ignored.split("SigIgn:")[1].split()[0], 16) & 1 == 1, "an ignored SIGHUP stays ignored")
    check(int(ignored.split("SigBlk:")[1].split()[0], 16) == 0, "no signal is blocked in the command")


PROMPT = "@next@ "


class Terminal:
    """An interactive shell with job control on a pseudo terminal."""

    def __init__(self):
        self.text = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(PS1=PROMPT, TERM="dumb", HISTFILE="/dev/null")
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])

    def type(self, text):
        os.write(self.fd, text.encode())

    def expect(self, word, what):
        give_up = time.monotonic() + LIMIT
        while word not in self.text and time.monotonic() < give_up:
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.text += os.read(self.fd, 4096).decode(errors="replace")
                except OSError:
                    break
        check(word in self.text, f"{what}: {self.text[-300:]!r}")
        self.text = self.text.split(word, 1)[-1]

    def prompt(self, what):
        """What is typed while the terminal changes hands may be lost, as on any terminal."""
        self.expect(PROMPT, what)

    def wait_for_foreground(self, what):
        """Until a job has the terminal and runs: a key typed before that would go to the shell."""

        def running():
            group = os.tcgetpgrp(self.fd)
            if group == self.pid:
                return False
            try:
                return pathlib.Path(f"/proc/{group}/stat").read_text().rsplit(")", 1)[1].split()[0] != "T"
            except OSError:
                return False

        until(running, what)

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def test_job_control(directory):
    terminal = Terminal()
    terminal.prompt("the shell")
    terminal.type(f"{RUN} --quiet --no-report --output {directory}/tty -- "
                  "sh -c 'echo run\"\"ning; exec sleep 1000'\n")  # not a loop of bash: that overhears one Ctrl-C of 300
    terminal.expect("running", "the command on a terminal")
    terminal.type("\x1a")  # Ctrl-Z
    terminal.expect("Stopped", "Ctrl-Z")
    terminal.prompt("the shell after Ctrl-Z")
    terminal.type("ps -o stat= -g $(jobs -p) | sort | uniq -c; echo list''ed\n")
    terminal.expect("listed", "the shell is back")
    terminal.prompt("the shell after the list")
    terminal.type("fg\n")
    terminal.expect("run", "fg")
    terminal.wait_for_foreground("fg")
    terminal.type("\x1a")
    terminal.expect("Stopped", "Ctrl-Z for the second time")
    terminal.prompt("the shell after the second Ctrl-Z")
    terminal.type("bg; echo in-the-back''ground\n")
    terminal.expect("in-the-background", "bg")
    terminal.prompt("the shell after bg")
    terminal.type("fg\n")
    terminal.expect("run", "fg from the background")
    terminal.wait_for_foreground("fg from the background")
    terminal.type("\x03")  # Ctrl-C
    terminal.prompt("the shell after Ctrl-C")
    terminal.type("echo status=''$?\n")
    terminal.expect("status=", "Ctrl-C")
    terminal.prompt("the shell after the status")
    terminal.type(f"{RUN} --quiet --no-report --output {directory}/tty2 -- sh -c 'echo rea\"\"dy; exec sleep 100'\n")
    terminal.expect("ready", "a second command")
    terminal.type("\x03")
    terminal.prompt("the shell after the second command")
    terminal.type("echo status=''$?\n")
    terminal.expect("status=130", "the status of a command ended by Ctrl-C")
    terminal.prompt("the shell after its status")
    script = pathlib.Path(directory, "sweep.sh")
    script.write_text(f"for round in 1 2; do {RUN} --quiet --no-report --output {directory}/sweep$round -- "
                      "sh -c 'echo round $0; exec sleep 100' $round; done\n")
    terminal.type(f"bash {script}\n")
    terminal.expect("round 1", "a script")
    terminal.type("\x03")
    terminal.prompt("the shell after Ctrl-C in a script, which ends as well")
    terminal.type("echo status=''$?\n")
    terminal.expect("status=130", "the status of a script ended by Ctrl-C")
    terminal.prompt("the shell after its status")
    terminal.type(f"{RUN} -- sh -c 'echo go\"\"ing; exec sleep 100'\n")
    terminal.expect("going", "a command without --quiet")
    terminal.type("\x03")
    terminal.expect("^C\r\nreveal-run: ", "a line of its own behind ^C")
    terminal.prompt("the shell after the line")
    terminal.type(f"echo typed | {RUN} --quiet --no-report --output {directory}/tty3 -- cat; echo en''d\n")
    terminal.expect("typed", "a pipe into the command")
    terminal.expect("end", "the end of the pipe")
    terminal.prompt("the shell at the end")
    terminal.type(f"stty tostop; {RUN} --output {directory}/behind -- sleep 2 &\n")
    terminal.expect("(reveal show ", "the report of a command in the background, where that may not write")
    terminal.type("wait; exit\n")
    terminal.close()


def main():
    with tempfile.TemporaryDirectory() as directory:
        os.makedirs(directory + "/run", mode=0o700)
        os.environ["XDG_RUNTIME_DIR"] = directory + "/run"
        os.environ["HOME"] = directory
        os.chdir(directory)
        for test in (test_forwarding, test_sent_by_the_kernel_to_one, test_group, test_chosen_by_words,
                     test_unhandled, test_nohup, test_job_control):
            print("==", test.__name__)
            test(directory)
        left = [str(path) for path in pathlib.Path(directory, "run").rglob("*/*")]
        check(not left, f"left behind: {left[:3]}")
    end()


if __name__ == "__main__":
    main()
