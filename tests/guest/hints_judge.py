#!/usr/bin/env python3
"""What the jobs of hints.sh did over NFS: the increments in their traces against the client's own texts, to the request."""
import os
import sys

try:
    import h5py
except ImportError:
    print("the numbers in the traces were not looked at: python3-h5py is not installed")
    sys.exit(0)

result = sys.argv[1]
point, size = "/mnt/files", 64 << 20
kinds = ("READ", "WRITE", "COMMIT", "GETATTR", "LOOKUP", "OPEN", "ACCESS", "CREATE", "REMOVE", "READDIR")
mount_metrics = ("read", "write", "direct_read", "direct_write", "server_read", "server_write")
failures = 0


def check(what, passed):
    global failures
    failures += not passed
    print("ok:" if passed else "FAILED:", what)


def moment(name):
    return float(open(f"{result}/{name}").read())


def counted(name):
    """{"bytes": [...], "READ": [...], ..., "rpc": [...]}"""
    numbers, ours = {}, False
    for line in open(f"{result}/{name}.mountstats"):
        key, *values = line.split() or [""]
        if key == "device":
            ours = f" mounted on {point} with fstype nfs4" in line
        elif ours and key.endswith(":") and (key == "bytes:" or key.isupper()):
            numbers[key[:-1]] = [int(value) for value in values]
    for line in open(f"{result}/{name}.rpc"):
        if line.startswith("rpc "):
            numbers["rpc"] = [int(value) for value in line.split()[1:]]
    return numbers


class Trace:
    def __init__(self, name):
        self.file = h5py.File(f"{result}/{name}/guest.h5", "r")

    def times(self, axis):
        return self.file[axis][:] / 1e9

    def rows(self, family, metric, instance=""):
        family = self.file[f"storage/{family}"]
        keys = list(zip(family.dims[0]["metric"].asstr()[:], family.dims[0]["instance"].asstr()[:]))
        if (metric, instance) not in keys:
            return []
        values = family[keys.index((metric, instance)), :]
        return [None if value == family.fillvalue else int(value) for value in values]

    def total(self, family, metric, instance=""):
        return sum(value or 0 for value in self.rows(family, metric, instance))


def compare(name):
    trace, before, after = Trace(name), counted(f"{name}-before"), counted(f"{name}-after")
    truth = {key: [b - a for a, b in zip(before[key], after[key])] for key in after}
    times = trace.times("storage/time_1s")
    begin, end = moment(f"{name}-before.uptime"), moment(f"{name}-after.uptime")
    check(f"{name}: counted at {begin} and {end}, rows from {times[0]:.2f} to {times[-1]:.2f}",
          times[0] < begin < end < times[-1])
    for metric, value in zip(mount_metrics, truth["bytes"]):
        found = trace.total("nfs_mount", f"nfs.{metric}_bytes", point)
        check(f"{name}: nfs.{metric}_bytes {found} of {value}", found == value)
    for kind in kinds:
        operations, sent_times, timeouts, sent, received, queue, round_trip, execute = truth[kind][:8]
        wanted = {("nfs", "requests"): operations, ("nfs", "retransmissions"): sent_times - operations,
                  ("nfs", "timeouts"): timeouts, ("nfs_bytes", "sent_bytes"): sent,
                  ("nfs_bytes", "received_bytes"): received, ("nfs_time", "queue_time"): queue * 10**6,
                  ("nfs_time", "round_trip_time"): round_trip * 10**6, ("nfs_time", "execute_time"): execute * 10**6}
        found = [trace.total(family, f"nfs.{metric}", f"{point}:{kind}") for family, metric in wanted]
        check(f"{name}: {kind} {found} of {list(wanted.values())}", found == list(wanted.values()))
    # The collector asks how full it is, and the client renews its lease, when they like.
    others = sum(values[0] for kind, values in truth.items() if kind.isupper() and kind not in kinds)
    found = trace.total("nfs", "nfs.requests", f"{point}:other")
    check(f"{name}: {found} other requests of {others}", abs(found - others) <= 2)
    for metric, value in zip(("calls", "retransmissions", "authentications"), truth["rpc"]):
        found = trace.total("nfs_rpc", f"nfs.rpc_{metric}")
        check(f"{name}: nfs.rpc_{metric} {found} of {value}", abs(found - value) <= 2)
    return trace


def check_rows(trace, begin, end):
    for axis, period in (("cpu/time_100ms", 0.1), ("storage/time_1s", 1)):
        times = [time for time in trace.times(axis) if begin < time < end]
        longest = max((b - a for a, b in zip(times, times[1:])), default=end - begin)
        check(f"{end - begin:.1f} s without a server: {len(times)} rows of {axis}, at most {longest:.2f} s apart",
              len(times) > 0.9 * (end - begin) / period and longest < period + 0.5)


work = compare("nfs-work")
for metric in ("write", "server_write", "direct_read", "server_read"):
    found = work.total("nfs_mount", f"nfs.{metric}_bytes", point)
    check(f"nfs.{metric}_bytes {found}: the file's", found == size)
for kind, metric in (("WRITE", "sent"), ("READ", "received")):
    requests = work.total("nfs", "nfs.requests", f"{point}:{kind}")
    moved = work.total("nfs_bytes", f"nfs.{metric}_bytes", f"{point}:{kind}")
    spent = work.total("nfs_time", "nfs.round_trip_time", f"{point}:{kind}")
    check(f"{kind}: the file's {size} bytes made {requests} requests of {moved} bytes, {spent / 1e9} s",
          requests >= 64 and size < moved < 1.01 * size and spent > 0)

away = compare("nfs-away")
begin, end = moment("nfs-away-from"), moment("nfs-away-until")
check_rows(away, begin, end)
written = away.rows("nfs_mount", "nfs.server_write_bytes", point)
meanwhile = [value for time, value in zip(away.times("storage/time_1s"), written) if begin + 2 < time < end]
check(f"nothing reached it in {len(meanwhile)} rows", len(meanwhile) > 15 and set(meanwhile) == {0})
for family, metric, instance in (("nfs", "retransmissions", f"{point}:WRITE"), ("nfs", "timeouts", f"{point}:WRITE"),
                                 ("nfs_rpc", "rpc_retransmissions", "")):
    found = away.total(family, f"nfs.{metric}", instance)
    check(f"nfs.{metric} {found}", found > 0)
answers = away.rows("file_system_answers", "fs.not_answering")
check(f"fs.not_answering {answers}", 1 in answers and answers[-1] == 0)

if os.path.exists(f"{result}/nfs-output/guest.h5"):  # if not, the scenario has failed
    output = Trace("nfs-output")
    check("the trace that was moved to the server is complete", output.file.attrs["complete"] == 1)
    check_rows(output, moment("nfs-output-from"), moment("nfs-output-until"))
    begin, last = moment("nfs-output-end-from"), max(output.times("cpu/time_100ms"))
    check(f"its last row is {last - begin:.1f} s after the server went away again", last > begin + 3)
sys.exit(failures > 0)
