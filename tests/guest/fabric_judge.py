#!/usr/bin/env python3
"""What the traces of fabric.sh say of queue pairs and packets, beside iproute2 and the kernel's own files."""
import json
import os
import subprocess
import sys

try:
    import h5py
except ImportError:
    print("the numbers in the traces were not looked at: python3-h5py is not installed")
    sys.exit(77)

result, collect = sys.argv[1:]
failures = 0


def check(what, passed):
    global failures
    failures += not passed
    print("ok:" if passed else "FAILED:", what)


class Trace:
    def __init__(self, path):
        self.file = h5py.File(path, "r")

    def rows(self, family):
        """{(metric, instance): values, None where there is none}"""
        if family not in self.file:
            return {}
        family = self.file[family]
        keys = zip(family.dims[0]["metric"].asstr()[:], family.dims[0]["instance"].asstr()[:])
        return {key: [None if value == family.fillvalue else int(value) for value in family[row, :]]
                for row, key in enumerate(keys)}


def most(values):
    return max((value for value in values if value is not None), default=None)


def of_iproute(name):
    """Connected queue pairs and used completion queues of each device, and queue pairs of each maker on it."""
    pairs, queues, makers = {}, {}, {}
    for pair in json.load(open(f"{result}/{name}.qp.json")):
        if pair.get("type") not in ("RC", "UC") or pair.get("state") not in ("RTR", "RTS") or "pid" not in pair:
            continue
        if pair["lqpn"] == pair.get("rqpn"):
            continue
        pairs[pair["ifname"]] = pairs.get(pair["ifname"], 0) + 1
        maker = pair["ifname"], pair["pid"]
        makers[maker] = makers.get(maker, 0) + 1
    for queue in json.load(open(f"{result}/{name}.cq.json")):
        if queue.get("users", 0) > 0 and "pid" in queue:
            queues[queue["ifname"]] = queues.get(queue["ifname"], 0) + 1
    return pairs, queues, makers


def of_files(name):
    """{(counter, "rxe0:1"): number}"""
    numbers = {}
    for line in open(f"{result}/{name}.counters"):
        path, number = line.strip().split(":")
        _, device, _, port, _, counter = path.split("/")
        if counter != "lifespan":
            numbers[counter, f"{device}:{port}"] = int(number)
    return numbers


def compare(name, trace):
    pairs, queues, makers = of_iproute(name)
    check(f"{name}: iproute2 knows {pairs} queue pairs", len(pairs) == 1)
    counted = trace.rows("network/rdma_queues")
    for metric, truth in (("rdma.qp.count", pairs), ("rdma.cq.count", queues)):
        found = {instance: most(values) for (each, instance), values in counted.items() if each == metric}
        check(f"{name}: {metric} {found}, iproute2 {truth}", found == truth)
    processes = sorted(most(values) or 0 for values in trace.rows("process/rdma_queues").values())
    check(f"{name}: queue pairs of each process {processes}, of each maker {sorted(makers.values())}",
          processes == sorted(makers.values()))

    before, after = of_files(f"{name}-before"), of_files(f"{name}-after")
    packets = trace.rows("network/rdma")
    wrong = []
    for (counter, port), number in sorted(after.items()):
        truth = number - before[counter, port]
        rows = packets.get((f"rdma.{counter}", port), [])
        found = sum(value or 0 for value in rows)
        if found != truth or not rows:
            wrong.append(f"{counter}/{port} {found} of {truth}")
    sent = sum(after[key] - before[key] for key in after if key[0] == "sent_pkts")
    check(f"{name}: {len(after) - len(wrong)} of {len(after)} counters to the last packet, {sent} packets sent"
          + "".join(f"; {each}" for each in wrong), not wrong and sent > 100)
    return [name, *(sum(each.values()) for each in (pairs, queues)),
            *(sum(most(values) or 0 for (each, _), values in counted.items() if each == metric)
              for metric in ("rdma.qp.count", "rdma.cq.count")), len(after), sent]


table = []
for name in ("pairs-1", "pairs-4", "set-in-vain", "one-path"):
    if os.path.exists(f"{result}/{name}/guest.h5"):
        table.append(compare(name, Trace(f"{result}/{name}/guest.h5")))
if os.path.exists(f"{result}/recording.h5"):
    live = Trace(f"{result}/recording.h5")
    table.append(compare("recording", live))
    replayed = f"{result}/replayed.h5"
    if os.path.exists(replayed):
        os.remove(replayed)
    subprocess.run([collect, "--root", f"{result}/recording", "--output", replayed, "--interval", "1s",
                    "--probes", "infiniband,rdma_queues,job"], check=True)
    again = Trace(replayed)
    for family in ("network/rdma_queues", "process/rdma_queues", "network/rdma", "job/cpu"):
        rows = live.rows(family)
        check(f"the replay has the same {sum(map(len, rows.values()))} values of {family}",
              rows and again.rows(family) == rows)

print(f"{'job':>12} {'iproute2 qp':>12} {'cq':>4} {'trace qp':>9} {'cq':>4} {'counters':>9} {'packets':>9}")
for name, *numbers in table:
    print(f"{name:>12}", " ".join(f"{number:>{width}}" for number, width in zip(numbers, (12, 4, 9, 4, 9, 9))))
sys.exit(failures > 0 or not table)
