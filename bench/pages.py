#!/usr/bin/python3
"""Pages of five kinds of reports as their readers get them, and what a page costs.

  bench/pages.py --build build/gcc --out DIR        pictures of the pages, their texts, and a table of sizes and load times
  bench/pages.py --build build/gcc --hour           the table, and a report of 16 nodes of an hour: time and memory
  bench/pages.py --build build/gcc --out DIR --recordings a,b    pictures of these recordings of tests/data/traces/lab, too

DIR gets, of each report, its first screen (desktop, phone), the whole page (desktop, dark, phone), the print (PDF) and the
first 24 lines of the terminal. The reports of a healthy job, of one finding and of damaged traces come from recordings of
the laboratory, those of many findings and of 4, 64 and 1,024 nodes from the samples of the unit tests. A load time is the
median of five, from the navigation to the end of the load event, with all charts drawn."""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SOURCE / "tests"))

RECORDINGS = SOURCE / "tests/data/traces/lab"
REAL = {"healthy": "outsider_beside-stencil-21", "one-finding": "outsider30-mlp-train-21"}
SAMPLES = {"many-findings": "many_nodes", "4-nodes": "nodes_4", "64-nodes": "nodes_64", "1024-nodes": "nodes_1024"}
DAMAGED = "congestion-ring-train-21"  # a job of two nodes
HOUR = "outsider30-mlp-train-21"
LOADS = 5
FIRST_SCREEN = 24  # lines
TALLEST = 9000  # pixels of a picture


def run(command, environment):
    """Wall and processor seconds, peak MB (VmHWM of the process and of its children)."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{command[:2]}: status {status}")
    return time.monotonic() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6


class Reports:
    """Directories of jobs with their reports."""

    def __init__(self, build, folder):
        self.reveal, self.tile = build / "bin/reveal", build / "bin/tile_trace"
        self.folder = folder
        self.environment = {**os.environ, "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"),
                            "XDG_CONFIG_HOME": str(folder / "config")}

    def unpacked(self, name, recording):
        with tarfile.open(RECORDINGS / f"{recording}.tar.xz") as archive:
            archive.extractall(self.folder / name)
        return self.folder / name / "job"

    def report(self, job):
        return run([self.reveal, "report", "--no-history", job], self.environment)

    def of_recording(self, name, recording):
        job = self.unpacked(name, recording)
        self.report(job)
        return job

    def damaged(self):
        """Of one of the two nodes, half of the trace is left."""
        job = self.unpacked("broken-data", DAMAGED)
        trace = sorted(job.glob("*.h5"))[-1]
        os.truncate(trace, trace.stat().st_size // 2)
        self.report(job)
        return job

    def first_lines(self, job):
        text = subprocess.run([self.reveal, "show", job], env=self.environment, capture_output=True, text=True,
                              check=True).stdout
        return "".join(text.splitlines(keepends=True)[:FIRST_SCREEN])


def pictures(browser, name, page, out):
    from browser import DESKTOP, PHONE
    for view, size, scheme in (("desktop", DESKTOP, "light"), ("dark", DESKTOP, "dark"), ("phone", PHONE, "light")):
        browser.resize(size, scheme)
        browser.open(page)
        height = min(browser.value("document.documentElement.scrollHeight"), TALLEST)
        (out / f"{name}.{view}.png").write_bytes(browser.picture((size[0], height)))
        if scheme == "light":
            (out / f"{name}.{view}.first.png").write_bytes(browser.picture(size))
    browser.resize(DESKTOP)
    browser.open(page)
    (out / f"{name}.pdf").write_bytes(browser.print_to_pdf())


def load_time(browser, page):
    """Milliseconds."""
    times = []
    for _ in range(LOADS):
        browser.open(page)
        browser.value("new Promise((done) => setTimeout(done, 0))")  # behind the load event
        times.append(browser.value("performance.getEntriesByType('navigation')[0].loadEventEnd"))
    return statistics.median(times)


def print_costs(browser, pages):
    print("| report | report.html KB | load ms |\n|---|---|---|")
    for name, page in pages.items():
        print(f"| {name} | {page.stat().st_size / 1000:.0f} | {load_time(browser, page):.0f} |", flush=True)


def print_hour(browser, reports):
    """A report of 16 nodes of an hour: from the traces, and once more from the summaries of the nodes."""
    source = next(reports.unpacked("hour-source", HOUR).glob("*.h5"))
    job = reports.folder / "hour"
    subprocess.run([reports.tile, source, job, "--nodes", "16", "--hours", "1"], check=True, stdout=subprocess.DEVNULL)
    print("\n| 16 nodes of an hour | wall s | cpu s | peak MB | report.html MB | load ms |\n|---|---|---|---|---|---|")
    for name in ("from the traces", "from the summaries of the nodes"):
        wall, cpu, peak = reports.report(job)
        page = job / "report.html"
        print(f"| {name} | {wall:.1f} | {cpu:.1f} | {peak:.0f} | {page.stat().st_size / 1e6:.2f} | "
              f"{load_time(browser, page):.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build/gcc", metavar="DIR")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", help="of the pictures and texts")
    parser.add_argument("--recordings", default="", metavar="LIST", help="more recordings to look at")
    parser.add_argument("--hour", action="store_true", help="16 nodes of an hour, too: minutes")
    options = parser.parse_args()
    os.environ["REVEAL_BUILD"] = str(options.build.resolve())
    from browser import Browser, need_chromium, sample_pages
    need_chromium()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        folder = pathlib.Path(folder)
        reports = Reports(options.build.resolve(), folder)
        jobs = {name: reports.of_recording(name, recording) for name, recording in REAL.items()}
        jobs["broken-data"] = reports.damaged()
        for recording in filter(None, options.recordings.split(",")):
            jobs[recording] = reports.of_recording(recording, recording)
        (folder / "samples").mkdir()
        samples = {page.stem: page for page in sample_pages(folder / "samples")}
        pages = {name: job / "report.html" for name, job in jobs.items()}
        pages |= {name: samples[sample] for name, sample in SAMPLES.items()}
        browser = Browser(folder / "profile")
        try:
            if options.out:
                options.out.mkdir(parents=True, exist_ok=True)
                for name, page in pages.items():
                    pictures(browser, name, page, options.out)
                for name, job in jobs.items():
                    (options.out / f"{name}.txt").write_text(reports.first_lines(job))
            browser.resize((1280, 900))
            print_costs(browser, pages)
            if options.hour:
                print_hour(browser, reports)
        finally:
            browser.end()


if __name__ == "__main__":
    main()
