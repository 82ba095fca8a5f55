#!/usr/bin/python3
"""Records a job in three network namespaces, of which one way loses segments: tests/data/recordings/namespaces.

  record_peers.py --build BUILD DIR [--percent 1] [--loss-seconds 6]

DIR gets ticks.rec and the trace that the same collector wrote at the same time, live.h5. The way is that from the
second to the third node; the numbers that the drop rule, the kernel and the trace counted are printed. It runs in a
process namespace of its own, so that the recording has no other process of the machine. Needs root; exits 77 where
there can be no laboratory."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import faults  # noqa: E402
import keep  # noqa: E402
import peers  # noqa: E402
import scenario  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
PROBES = "tcp_peers,network,qdisc,job"
BEFORE, AFTER = 8, 6  # seconds around the loss
FROM, TO = 1, 2
INSIDE = "REVEAL_RECORD_PEERS"
# What the rows of these probes are made from; the rest would describe the machine.
ROWS = re.compile(rb"@@(sysconf|clock|job/roots|job/first|qdisc|tcp_peers(/open)?|sampler/\w+)|F/sys/devices/system/cpu/online"
                  rb"|F/proc/(loadavg|net/dev|self/stat)|F/proc/\d+/(stat|status|net/dev|task/\d+/schedstat)"
                  rb"|D/proc(/\d+/task)?|L/proc/(self|\d+)/ns/net")


def alone(script=__file__):
    """Starts a script again, as the only one in namespaces for processes and mounts."""
    os.environ[INSIDE] = "1"
    mounts = 'mkdir -p /run/netns && mount -t tmpfs netns /run/netns && exec "$@"'
    os.execvp("unshare", ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", mounts, "sh",
                          sys.executable, script, *sys.argv[1:]])


def without_other_texts(path: pathlib.Path, rows=ROWS):
    """Keeps these texts alone: a replay takes others for missing."""
    data, at = path.read_bytes(), 0
    parts, names, there = [], {}, set()
    while at < len(data):
        end = data.index(b"\n", at) + 1
        line, at = data[at:end], end
        kind, *words = line.split(b" ", 2)
        if kind == b"+":
            names[int(words[0])] = words[1]
        elif kind == b"$":
            size = int(words[1])
            if rows.fullmatch(names[int(words[0])].strip()):
                there.add(int(words[0]))
            line, at = line + data[at:at + size + 1], at + size + 1
        parts.append((kind, int(words[0]) if kind in (b"+", b"$", b"!") else None, line))
    renumbered = {number: b"%d" % new for new, number in enumerate(sorted(there))}
    with path.open("wb") as out:
        for kind, number, line in parts:
            if number is None:
                out.write(line)
            elif number in there:
                out.write(kind + b" " + renumbered[number] + b" " + line.split(b" ", 2)[2])


def segments_sent_again(node: str) -> int:
    """As the kernel counted them in that namespace."""
    lines = faults.run("ip", "netns", "exec", node, "cat", "/proc/net/snmp").splitlines()
    names, values = (line.split() for line in lines if line.startswith("Tcp:"))
    return int(values[names.index("RetransSegs")])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--percent", type=float, default=1)
    parser.add_argument("--loss-seconds", type=float, default=6)
    args = parser.parse_args()
    if reason := scenario.usable():
        print(f"skipped: {reason}")
        return 77
    if INSIDE not in os.environ:
        alone()
    collect, folder = args.build.resolve() / "bin/reveal-collect", args.folder.resolve()
    folder.mkdir(parents=True)
    name, seconds = f"rvlab{os.getpid()}", BEFORE + args.loss_seconds + AFTER
    faults.run("bash", str(HERE / "nodes.sh"), "up", name, str(peers.NODES))
    ranks = "".join(f"bash {HERE}/nodes.sh exec {name}-n{i} {sys.executable} {HERE}/peers.py --talk {i} --seconds {seconds:g} & "
                    for i in range(peers.NODES))
    job = subprocess.Popen(["bash", "-c", f"sleep 3; {ranks} wait"], cwd="/")
    collector = subprocess.Popen([collect, "--job", f"pid:{job.pid}", "--interval", "1s", "--probes", PROBES, "--record",
                                  folder, "--output", folder / "live.h5", "--node", "n1"], cwd="/")
    time.sleep(3 + BEFORE)
    stop = peers.drops(name, TO, FROM, args.percent)
    time.sleep(args.loss_seconds)
    dropped = stop()
    status = job.wait(), collector.wait()
    again = {f"n{i}": segments_sent_again(f"{name}-n{i}") for i in range(peers.NODES)}
    subprocess.run(["bash", HERE / "nodes.sh", "down", name], check=False)
    without_other_texts(folder / "ticks.rec")
    keep.without_places(folder / "live.h5", folder, {})
    print(json.dumps({"status": status, "dropped": dropped, "sent_again_by_kernel": again,
                      "sent_again_by_peer": peers.counted(folder / "live.h5", "tcp.peer.retransmits")}))
    return 0 if status == (0, 0) else 1


if __name__ == "__main__":
    sys.exit(main())
