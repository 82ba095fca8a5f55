#!/usr/bin/python3
"""Live detection on a real run: bench/live.py [BUILD] [--seconds 200] [--seed N] [--kind outsider:90] [--keep DIR]

Runs bench/training_job under reveal-run with one disturbance beside it, watches it with `reveal watch --json`, and
prints
  window end to alert   from the end of the last one-second window that the look knew to the line in our pipe, and from
                        the end of the first window that the look before did not know (what a skipped look costs)
  disturbance to alert  from its true begin to the first alert on it, from its true end to its closing
  live against report   begin and end of what was published live against the episodes of the report
  cost                  of the collector, and of watching

bench/live.py [BUILD] --cost 1,16,256 [--seconds 120]

Measures `reveal watch --json` on a directory with so many nodes: processor time (share of a core) and largest resident
memory, from its start to its end. One collector records this machine; the other nodes are hard links to its files, so
each is read and analysed in full. With one node also the watch on a node of a Slurm job (`--step`), and the machine
from which the job is watched, with a stand-in for srun that starts the watches here.
"""
import argparse
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time


def seconds_of(text):
    whole, _, part = text.rstrip("Z").partition(".")
    begin = datetime.datetime.strptime(whole, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=datetime.timezone.utc)
    return begin.timestamp() + float("0." + (part or "0"))


def watch(reveal, job, started):
    """Every line of the watch with the time at which it came."""
    while not os.path.isdir(job):
        time.sleep(0.05)
        if time.time() > started + 30:
            raise SystemExit("the job did not start")
    lines = []
    with subprocess.Popen([reveal, "watch", job, "--json"], stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            lines.append((time.time(), json.loads(line)))
    return lines, process.returncode


def spread(values):
    if not values:
        return "none"
    return f"median {statistics.median(values):.2f} s, max {max(values):.2f} s ({len(values)})"


def overlap(a, b):
    return min(a[1], b[1]) - max(a[0], b[0])


class Links:
    """The files of node n0001 under the names of the others, also after the collector has replaced one."""

    def __init__(self, job, nodes):
        self.job, self.names, self.going = job, [f"n{i + 1:04}" for i in range(1, nodes)], True
        self.link()
        self.thread = threading.Thread(target=self.follow, daemon=True)
        self.thread.start()

    def link(self):
        for ending in (".h5.part", ".h5.live", ".status.json"):
            source = os.path.join(self.job, "n0001" + ending)
            for name in self.names:
                target = os.path.join(self.job, name + ending)
                try:
                    if os.path.exists(target) and os.path.samefile(source, target):
                        break  # and so are the others
                    if os.path.exists(target):
                        os.unlink(target)
                    os.link(source, target)
                except FileNotFoundError:
                    break

    def follow(self):
        while self.going:
            time.sleep(0.2)
            self.link()


def cost_of(command, seconds, environment=None):
    """Runs it for so long. Its share of a core, its largest memory in MiB, and the objects that it printed."""
    output = tempfile.TemporaryFile("w+")
    process = subprocess.Popen(command, stdout=output, stdin=subprocess.PIPE, env=environment)
    time.sleep(seconds)
    process.send_signal(2)
    _, status, used = os.wait4(process.pid, 0)
    output.seek(0)
    lines = output.read().splitlines()
    return (used.ru_utime + used.ru_stime) / seconds * 100, used.ru_maxrss / 1024, lines


def measure_cost(programs, work, nodes, seconds):
    job = os.path.join(work, f"job{nodes}")
    reveal = os.path.join(programs, "reveal")
    run = subprocess.Popen([os.path.join(programs, "reveal-run"), "--output", job, "--node", "n0001", "--no-report",
                            "--quiet", "--", "sleep", str(2 * seconds + 200)])
    try:
        while not os.path.exists(os.path.join(job, "n0001.h5.part")):
            time.sleep(0.1)
        time.sleep(75)  # until detection runs are due
        links = Links(job, nodes)
        share, memory, lines = cost_of([reveal, "watch", job, "--json"], seconds)
        end = json.loads(lines[-1])
        print(f"{nodes} nodes of {end['nodes'][0]['channels']} channels by directory: {share:.1f} % of a core, "
              f"{memory:.0f} MiB; {end['runs']} detection runs in {seconds} s, {end['runs_skipped']} skipped")
        links.going = False
        if nodes == 1:
            measure_step(reveal, work, job, seconds)
    finally:
        run.terminate()
        run.wait()
        shutil.rmtree(job, ignore_errors=True)


def measure_step(reveal, work, job, seconds):
    spool = os.path.join(work, "spool")
    os.makedirs(spool, exist_ok=True)
    os.symlink(job, os.path.join(spool, "4711"))
    environment = dict(os.environ, REVEAL_SPOOL=spool, SLURMD_NODENAME="n0001")
    share, memory, lines = cost_of([reveal, "watch", "4711", "--step"], seconds, environment)
    sent = sum(len(line) + 1 for line in lines)
    print(f"on a node of a Slurm job: {share:.1f} % of a core, {memory:.0f} MiB, {sent / seconds:.0f} bytes/s sent")
    os.unlink(os.path.join(spool, "4711"))
    texts = "".join(line[3:] + ("\n" if line[2] == "." else "") for line in lines).splitlines()
    report = [text for text in texts if "reveal.node/1" in text][-1]
    for count in (1, 16, 256):
        measure_page(reveal, work, count, report, seconds)


def measure_page(reveal, work, count, report, seconds):
    """The machine from which a job of so many nodes is watched: each sends this report every five seconds."""
    fake = os.path.join(work, "fake")
    os.makedirs(fake, exist_ok=True)
    programs = {"squeue": f"echo '4711|4711|RUNNING|{count}|None'",
                "srun": f"exec {sys.executable} {fake}/nodes.py"}
    for name, text in programs.items():
        with open(os.path.join(fake, name), "w") as file:
            file.write("#!/bin/sh\n" + text + "\n")
        os.chmod(os.path.join(fake, name), 0o755)
    with open(os.path.join(fake, "nodes.py"), "w") as file:
        file.write(f"""import select, sys, time
report = {report!r}
while True:
    for task in range({count}):
        text = report.replace('"n0001"', '"n%04d"' % (task + 1), 1)
        for at in range(0, len(text), 900):
            print(task, ("+" if at + 900 < len(text) else ".") + text[at:at + 900])
    sys.stdout.flush()
    if select.select([sys.stdin], [], [], 5)[0]:
        break
""")
    environment = dict(os.environ, PATH=fake + ":" + os.environ["PATH"])
    _, memory, lines = cost_of([reveal, "watch", "4711", "--json"], seconds, environment)
    end = json.loads(lines[-1])
    assert len(end["nodes"]) == count and end["nodes"][0]["channels"] > 0, end
    print(f"on the machine from which a Slurm job of {count} nodes is watched, without srun: "
          f"{end['watching_cpu_percent_of_core']:.2f} % of a core, {memory:.0f} MiB")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default=os.environ.get("REVEAL_BUILD", "build"))
    parser.add_argument("--seconds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--kind", default="outsider:90", help="KIND[:SHARE] as of disturb; none: a healthy run")
    parser.add_argument("--keep", help="directory for the job")
    parser.add_argument("--cost", help="numbers of nodes: 1,16,256")
    options = parser.parse_args()
    programs = os.path.join(os.path.abspath(options.build), "bin")
    work = options.keep or tempfile.mkdtemp(prefix="reveal-live-")
    os.makedirs(work, exist_ok=True)
    if options.cost:
        for nodes in map(int, options.cost.split(",")):
            measure_cost(programs, work, nodes, options.seconds)
        return
    job = os.path.join(work, "job")
    launcher = [os.path.join(programs, "reveal-run"), "--output", job, "--no-report", "--"]
    command = [os.path.join(programs, "training_job"), "--ranks", str(options.ranks), "--seconds", str(options.seconds),
               "--width", "256", "--seed", str(options.seed), "--log", os.path.join(work, "phases.jsonl")]
    if options.kind == "none":
        command = launcher + command
    else:
        command += ["--disturb", options.kind, "--launcher", " ".join(launcher)]
    started = time.time()
    with open(os.path.join(work, "job.txt"), "w") as log:
        running = subprocess.Popen(command, stdout=log, stderr=log, cwd=work)
    reveal = os.path.join(programs, "reveal")
    lines, status = watch(reveal, job, started)
    running.wait()

    alerts = [(came, line) for came, line in lines if line["schema"] == "reveal.alert/1"]
    for came, line in alerts:
        print(f"  {line['published'][11:21]} {line['news']:9} #{line['number']} {line['tier']:7} {line['subsystem']:8}"
              f" {line['begin'][11:21]} to {line['end'][11:21]} {line['claim']}")
    published = [(came, line) for came, line in alerts if line["news"] in ("opened", "closed") and line["last_run"]]
    newest = [came - seconds_of(line["window_end"]) for came, line in published]
    missed = [came - max(seconds_of(line["last_run"]) + 1, 0) for came, line in published]
    print("window end to alert:", spread(newest), "; counted from the first window not looked at:", spread(missed))

    truth_file = os.path.join(work, "phases.jsonl.disturb")
    if os.path.exists(truth_file):
        with open(truth_file) as file:
            truths = [truth for truth in map(json.loads, file) if truth["event"] == "end"]
        for truth in truths:
            span = (truth["begin_utc_ns"] / 1e9, truth["end_utc_ns"] / 1e9)
            hits = [(came, line) for came, line in alerts
                    if overlap(span, (seconds_of(line["begin"]), seconds_of(line["end"]))) > 0]
            closings = [came for came, line in hits if line["news"] == "closed"]
            first = f"{hits[0][0] - span[0]:.1f} s after its begin" if hits else "never"
            last = f"{closings[-1] - span[1]:.1f} s after its end" if closings else "never"
            print(f"disturbance of {span[1] - span[0]:.1f} s: first alert {first}, closed {last}")

    report = json.loads(subprocess.run([reveal, "report", job, "--no-history", "--json"], stdout=subprocess.PIPE,
                                       check=True).stdout)
    last_word = {}
    for _, line in alerts:
        last_word[line["number"]] = line
    standing = [line for line in last_word.values() if line["state"] != "withdrawn"]
    spoken = [episode for episode in report["episodes"] if episode["tier"] != "none"]
    for episode in spoken:
        span = (seconds_of(episode["begin"]), seconds_of(episode["end"]))
        same = [line for line in standing if overlap(span, (seconds_of(line["begin"]), seconds_of(line["end"]))) > 0]
        word = "not published live"
        if same:
            word = (f"live begin {seconds_of(same[0]['begin']) - span[0]:+.1f} s, "
                    f"end {seconds_of(same[0]['end']) - span[1]:+.1f} s, {same[0]['tier']}")
        print(f"report: {episode['begin'][11:21]} to {episode['end'][11:21]} {episode['tier']} {episode['subsystem']}: {word}")
    alone = [line for line in standing if not any(
        overlap((seconds_of(e["begin"]), seconds_of(e["end"])), (seconds_of(line["begin"]), seconds_of(line["end"]))) > 0
        for e in spoken)]
    print(f"episodes in the report: {len(spoken)}; published live and standing: {len(standing)}, "
          f"of these not in the report: {len(alone)}; withdrawn: {len(last_word) - len(standing)}")
    end = lines[-1][1]
    print(f"exit status of the watch {status}; watching {end['watching_cpu_percent_of_core']:.1f} % of a core, "
          f"{end['runs']} detection runs, {end['runs_skipped']} skipped; collector "
          + ", ".join(f"{n['node']} {n['collector_cpu_percent_of_core']} %" for n in end["nodes"]))


if __name__ == "__main__":
    main()
