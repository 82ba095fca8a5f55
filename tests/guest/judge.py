#!/usr/bin/env python3
"""What the guest's first job was given: the report's coverage, and its cgroup's numbers in the trace."""
import glob
import json
import os
import sys

result = sys.argv[1]
failures = 0


def check(what, passed):
    global failures
    failures += not passed
    print("ok:" if passed else "FAILED:", what)


try:
    job = open(f"{result}/job").read().strip()
    folder = f"{result}/reveal-{job}"
    report = json.load(open(f"{folder}/report.json"))
except (OSError, ValueError) as error:
    sys.exit(f"FAILED: no report: {error}")
print(open(f"{folder}/report.txt").read())

check(f"the report is about job {job}", str(report["job"]["id"]) == job)
check("it is not partial", not report["partial"])
probes = {probe["name"]: probe for entry in report["coverage"] for probe in entry["probes"]}
for probe in probes.values():
    print("   ", probe["name"], probe["state"], probe["reason"])
for name in ("job_cgroup", "job_memory", "pressure"):
    check(f"{name} was measured", probes.get(name, {}).get("state") == "ok")
files = sorted(os.listdir(folder))
check(f"files: {', '.join(files)}", {"report.json", "report.txt", "report.html"} <= set(files))
closed = "guest.h5" in files
check("the trace was closed", closed)
check("they are the user's", all(os.stat(name).st_uid == 1500 for name in glob.glob(folder + "/*")))

try:
    import h5py
except ImportError:
    print("the numbers in the trace were not looked at: python3-h5py is not installed")
    sys.exit(failures > 0)

if closed:
    trace = h5py.File(f"{folder}/guest.h5", "r")
else:
    trace = h5py.File(f"{folder}/guest.h5.part", "r", libver="latest", swmr=True)
seen = {}
for name, family in trace["job"].items():
    if not name.startswith(("cgroup_", "memory")) or "stored" not in family.attrs:
        continue
    stored = family.attrs["stored"]
    increments = (stored.decode() if isinstance(stored, bytes) else stored) == "increments"
    for row, metric in enumerate(family.dims[0]["metric"].asstr()[:]):
        values = family[row, :]
        values = values[values != family.fillvalue]
        if len(values) == 0:
            print("   ", metric, "never")
            continue
        seen[metric] = int(values.sum()) if increments else int(values.max())
        print("   ", metric, "sum" if increments else "peak", seen[metric], f"({len(values)} of {family.shape[1]})")
check("the step's 75 s of cpu time were charged", seen.get("cgroup.cpu_usage", 0) > 40e9)
check("its 100 MB of memory were charged", 95e6 < seen.get("cgroup.memory_anon", 0) < 600 * 2**20)

channels = sum(len(family.dims[0]["metric"]) for group in trace.values() if isinstance(group, h5py.Group)
               for family in group.values() if "stored" in family.attrs)
fast = sum(len(family.dims[0]["metric"]) for group in trace.values() if isinstance(group, h5py.Group)
           for family in group.values() if "stored" in family.attrs and family.attrs["period"] < 0.11)
print(f"    {channels} channels, {fast} of them ten times a second")
times = trace["cpu/times"]
away = "cpu" + open(f"{result}/cpu-off").read().strip()
row = [i for i, (metric, instance) in enumerate(zip(times.dims[0]["metric"].asstr()[:],
                                                    times.dims[0]["instance"].asstr()[:]))
       if (metric, instance) == ("cpu.idle", away)][0]
idle = times[row, :]
missing = [i for i, value in enumerate(idle) if i > 0 and value == times.fillvalue]  # of the first, nobody knows
check(f"{away} was off line for {len(missing)} rows, and is not made up", 30 <= len(missing) <= 200)
check("what it did before and afterwards is there", missing[0] > 20 and missing[-1] < len(idle) - 10)
# Its counters stood still meanwhile: 20 s in one step would be a reset taken for work.
check("no step is longer than the absence", 0 <= max(v for v in idle if v != times.fillvalue) < 20e9)
sys.exit(failures > 0)
