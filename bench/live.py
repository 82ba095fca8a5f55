#!/usr/bin/python3
"""Live detection on a real run: bench/live.py [BUILD] [--seconds 200] [--seed N] [--kind outsider:90] [--keep DIR]

Runs bench/training_job under reveal-run with one disturbance beside it, watches it with `reveal watch --json`, and
prints
  window end to alert   from the end of the last one-second window that the look knew to the line in our pipe, and from
                        the end of the first window that the look before did not know (what a skipped look costs)
  disturbance to alert  from its true begin to the first alert on it, from its true end to its closing
  live against report   begin and end of what was published live against the episodes of the report
  cost                  of the collector, and of watching
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import tempfile
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default=os.environ.get("REVEAL_BUILD", "build"))
    parser.add_argument("--seconds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--kind", default="outsider:90", help="KIND[:SHARE] as of disturb; none: a healthy run")
    parser.add_argument("--keep", help="directory for the job")
    options = parser.parse_args()
    programs = os.path.join(os.path.abspath(options.build), "bin")
    work = options.keep or tempfile.mkdtemp(prefix="reveal-live-")
    os.makedirs(work, exist_ok=True)
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
