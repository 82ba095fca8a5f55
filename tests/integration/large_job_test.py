#!/usr/bin/python3
"""Recorded nodes as if they were of a large job: a healthy one's summary is at most 20 KB, however many channels it has,
and the parts that ranks of a real mpirun read give the report that one process gives."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import SOURCE, check, end, program, skip  # noqa: E402

try:
    import h5py
    import numpy
except ImportError:
    skip("python3-h5py is not installed")

REVEAL = program("reveal")
LARGEST_SUMMARY = 20_000  # bytes
HEALTHY = {"guest/heat-control": "guest", "gpu/healthy": "gpu"}  # recordings and their nodes
LEAST_CHANNELS = 1_400
# One node of sixteen keeps the trends of all its channels in a job of a thousand; this one does not.
NODE_LIST = "n[0001-0500],{},n[0501-0999]"
THREE_NODES = "guest/gib-all"
# Made anew for each report.
OWN_OF_A_REPORT = ("created", "report_id", "supersedes")


def job_of(recording: str, scratch: pathlib.Path) -> pathlib.Path:
    folder = scratch / recording
    folder.mkdir(parents=True)
    with tarfile.open(SOURCE / f"tests/data/traces/{recording}.tar.xz") as archive:
        archive.extractall(folder)
    return folder / "job"


def run(*words, **more) -> str:
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=120, **more)
    check(done.returncode == 0, f"{words}: exit status {done.returncode}: {done.stderr[-500:]}")
    return done.stdout


def channels_of(file) -> int:
    counts = []
    file.visititems(lambda _, item: counts.append(item.shape[0]) if "kind" in item.attrs else None)
    return sum(counts)


def make_one_of_a_thousand(trace: pathlib.Path, node: str):
    with h5py.File(trace, "r+") as file:
        channels = channels_of(file)
        check(channels >= LEAST_CHANNELS, f"{trace.name} has only {channels} channels")
        facts = file["node/begin"]
        attributes = dict(facts.attrs)
        more = numpy.array([("job.nodelist", NODE_LIST.format(node))], facts.dtype)
        rows = numpy.append(facts[:], more)
        del file["node/begin"]
        file.create_dataset("node/begin", data=rows).attrs.update(attributes)


def check_size(recording: str, node: str, scratch: pathlib.Path):
    job = job_of(recording, scratch)
    make_one_of_a_thousand(job / f"{node}.h5", node)
    run(REVEAL, "merge-part", job, "--part", "1/1")
    size = (job / f"{node}.summary.json").stat().st_size
    print(f"{recording}: {size} bytes")
    check(size <= LARGEST_SUMMARY, f"{recording}: the summary of a node of a thousand has {size} bytes")


def report_of(job: pathlib.Path) -> dict:
    report = json.loads(run(REVEAL, "report", "--no-history", "--json", job))
    return {key: value for key, value in report.items() if key not in OWN_OF_A_REPORT}


def check_mpirun(scratch: pathlib.Path):
    if shutil.which("mpirun") is None or "Open MPI" not in run("mpirun", "--version"):
        print("mpirun of Open MPI is not installed: parts were not read by its ranks")
        return
    job = job_of(THREE_NODES, scratch)
    serial = report_of(job)
    check(len(serial["job"]["nodes"]) == 3, f"nodes of the report: {serial['job']['nodes']}")
    environment = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMPI_MCA_rmaps_base_oversubscribe": "1"}  # a machine of one cpu has one slot
    said = run("mpirun", "-n", "2", REVEAL, "merge-part", job, env=os.environ | environment)
    check(sorted(said.splitlines()) == ["part 1 of 2: 1 node", "part 2 of 2: 2 nodes"], f"mpirun: {said}")
    parts = sorted(path.name for path in job.glob(".merge-part-*"))
    check(parts == [".merge-part-1-of-2", ".merge-part-2-of-2"], f"parts: {parts}")
    check(report_of(job) == serial, "the report from parts differs")
    check(not list(job.glob(".merge-part-*")), "the report leaves the parts behind")


def main():
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        os.environ |= {"HOME": name, "XDG_STATE_HOME": f"{name}/state", "XDG_CONFIG_HOME": f"{name}/config"}
        for recording, node in HEALTHY.items():
            check_size(recording, node, scratch)
        check_mpirun(scratch)
    end()


main()
