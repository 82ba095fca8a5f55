#!/usr/bin/python3
"""What comes and goes: churn.py KIND [--rate 50] [--seconds 3600].

  forks       processes that live for .3 s, in this process tree
  interfaces  pairs of veth devices that live for .1 s and see traffic of their own (needs root and a network namespace
              of its own: unshare --net)
  mounts      tmpfs mounts that live for .1 s (needs root and a mount namespace of its own: unshare --mount)"""
import argparse
import os
import signal
import subprocess
import tempfile
import time


def forks(number: int):
    if os.fork() == 0:
        time.sleep(0.3)
        os._exit(0)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


class Interfaces:
    def __init__(self):
        self.ip = subprocess.Popen(["ip", "-force", "-batch", "-"], stdin=subprocess.PIPE, text=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __call__(self, number: int):
        self.ip.stdin.write(f"link add ve{number} type veth peer name vp{number}\nlink set ve{number} up\n"
                            f"link set vp{number} up\n")
        if number >= 5:
            self.ip.stdin.write(f"link del ve{number - 5}\n")
        self.ip.stdin.flush()


class Mounts:
    def __init__(self):
        self.next = 0
        self.folder = tempfile.mkdtemp(prefix="reveal-churn.")

    def __call__(self, number: int):
        place = f"{self.folder}/{number}"
        os.mkdir(place)
        subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)
        if number >= 5:
            self.remove(number - 5)
        self.next = number + 1

    def remove(self, number: int):
        subprocess.run(["umount", f"{self.folder}/{number}"], check=True)
        os.rmdir(f"{self.folder}/{number}")

    def close(self):
        for number in range(max(0, self.next - 5), self.next):
            self.remove(number)
        os.rmdir(self.folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("forks", "interfaces", "mounts"))
    parser.add_argument("--rate", type=float, default=50, help="a second")
    parser.add_argument("--seconds", type=float, default=3600)
    args = parser.parse_args()
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    step = {"forks": lambda: forks, "interfaces": Interfaces, "mounts": Mounts}[args.kind]()
    begin = time.monotonic()
    number = 0
    while not ended and time.monotonic() < begin + args.seconds:
        step(number)
        number += 1
        time.sleep(max(0.0, begin + number / args.rate - time.monotonic()))
    if args.kind == "mounts":
        step.close()


if __name__ == "__main__":
    main()
