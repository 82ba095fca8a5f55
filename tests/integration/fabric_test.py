"""Recorded nodes with four InfiniBand adapters, from the collector to the report: a fabric with faults, each told with
its port and its time, and a healthy one, whose counters move a little, of which nothing is told.

    fabric_test.py [--keep DIR]     makes the recordings, replays them, and compares the reports with what is in them
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import program  # noqa: E402

SECONDS = 120
UTC = 1_790_000_000  # a whole multiple of the longest period
ADAPTERS = 4
WORDS_PER_SECOND = 1_250_000_000  # 5 GB/s
TRAFFIC = ("port_rcv_data", "port_xmit_data", "port_rcv_packets", "port_xmit_packets", "port_xmit_wait")
TRANSPORT = ("local_ack_timeout_err", "out_of_sequence", "packet_seq_err", "rnr_nak_retry_err")
ERRORS = 12  # counters of a port; the first is link_downed, the third symbol_error


class Recording:
    """As reveal-collect --record writes it: texts of the kernel, and the ticks at which they were read."""

    def __init__(self):
        self.parts = [b"reveal recording 1\n"]
        self.numbers = {}

    def put(self, key, text):
        if key not in self.numbers:
            self.numbers[key] = len(self.numbers)
            self.parts.append(f"+ {self.numbers[key]} {key}\n".encode())
        text = text.encode()
        self.parts.append(f"$ {self.numbers[key]} {len(text)}\n".encode() + text + b"\n")

    def tick(self, tenths):
        self.parts.append(f"= {10**9 + tenths * 10**8} {UTC * 10**9 + tenths * 10**8}\n".encode())

    def write(self, folder):
        os.makedirs(folder)
        with open(os.path.join(folder, "ticks.rec"), "wb") as file:
            file.write(b"".join(self.parts))


def wobble(second, adapter):
    """A twentieth more or less, the same in every run of the test."""
    return 1 + 0.05 * (((second * 7 + adapter * 3) % 11) / 5 - 1)


class Adapter:
    def __init__(self, number, faulty):
        self.number = number
        self.faulty = faulty
        self.words = 10**12
        self.wait = 10**6
        self.downed = 3  # of earlier jobs
        self.symbols = 40
        self.transport = dict.fromkeys(TRANSPORT, 7)

    def second(self, second):
        congested = self.faulty and self.number == 1 and 30 <= second < 50
        self.words += int(WORDS_PER_SECOND * wobble(second, self.number) * (0.5 if congested else 1))
        self.wait += 800_000_000 if congested else int(100_000 * wobble(second, self.number))
        self.transport["out_of_sequence"] += 40  # several paths
        if second % 30 == self.number:
            self.transport["packet_seq_err"] += 1
        if self.faulty and self.number == 3 and 60 <= second < 75:
            self.transport["packet_seq_err"] += 200
        if self.faulty and self.number == 2 and second == 85:
            self.downed += 1
            self.symbols += 35
        if not self.faulty and second == 85:
            self.symbols += 2

    def answer(self, second):
        name = f"mlx5_{self.number}:1"
        lines = [f"names {name} " + " ".join(TRANSPORT)] if second == 1 else []
        packets = self.words // 1024
        lines.append(f"traffic {name} {self.words} {self.words + 5} {packets} {packets} {self.wait}")
        lines.append(f"transport {name} " + " ".join(str(self.transport[key]) for key in TRANSPORT))
        if second % 10 == 0:
            errors = [self.downed, 0, self.symbols] + [0] * (ERRORS - 3)
            lines.append(f"errors {name} " + " ".join(map(str, errors)))
        return "".join(line + "\n" for line in lines)


def cpu_times(tenths):
    ticks = 1000 + 5 * tenths
    return f"cpu  {2 * ticks} 0 0 {2 * ticks} 0 0 0 0 0 0\n" + "".join(
        f"cpu{cpu} {ticks} 0 0 {ticks} 0 0 0 0 0 0\n" for cpu in range(2))


def make(folder, faulty):
    recording = Recording()
    recording.put("F/sys/devices/system/cpu/online", "0-1\n")
    recording.put("D/sys/class/net", "eth0\n")
    recording.put("D/sys/class/net/eth0/device", "vendor\n")
    recording.put("D/sys/class/infiniband", "".join(f"mlx5_{i}\n" for i in range(ADAPTERS)))
    adapters = [Adapter(i, faulty) for i in range(ADAPTERS)]
    for i in range(ADAPTERS):
        ports = f"/sys/class/infiniband/mlx5_{i}/ports"
        recording.put("D" + ports, "1\n2\n")
        recording.put(f"D{ports}/1/hw_counters", "".join(f"{key}\n" for key in TRANSPORT))
        recording.put(f"F{ports}/1/link_layer", "InfiniBand\n")
        recording.put(f"F{ports}/1/rate", "400 Gb/sec (4X NDR)\n")
        recording.put(f"F{ports}/1/state", "4: ACTIVE\n")
        recording.put(f"F{ports}/2/rate", "10 Gb/sec (4X SDR)\n")  # has no cable
        recording.put(f"F{ports}/2/state", "1: DOWN\n")
    paused = frames = 0
    recording.put("F/proc/stat", cpu_times(0))
    for tenths in range(SECONDS * 10):
        second = tenths // 10
        recording.tick(tenths)
        recording.put("F/proc/stat", cpu_times(tenths))
        if tenths % 10:
            continue
        for adapter in adapters:
            adapter.second(second)
        recording.put("@@infiniband", "".join(adapter.answer(second) for adapter in adapters) if second else "")
        frames += 20
        paused += 300_000 if faulty and second >= 80 else 1000  # microseconds
        recording.put("@@network_link", f"eth0 100000 {frames} 0 {paused} 0 1\n" if second % 10 == 0 else "")
        if faulty and second == 86:
            recording.put("F/sys/class/infiniband/mlx5_2/ports/1/rate", "200 Gb/sec (2X NDR)\n")
    recording.write(folder)


def report_of(folder, faulty):
    make(os.path.join(folder, "recording"), faulty)
    job = os.path.join(folder, "job")
    os.makedirs(job)
    subprocess.run([program("reveal-collect"), "--root", os.path.join(folder, "recording"), "--output",
                    os.path.join(job, "n1.h5"), "--node", "n1"], check=True, timeout=120)
    subprocess.run([program("reveal"), "report", job], check=True, timeout=120, stdout=subprocess.DEVNULL)
    with open(os.path.join(job, "report.json"), encoding="utf-8") as file:
        return json.load(file)


def second_of(time, report):
    """Seconds of a time of the report since the recording began."""
    from datetime import datetime
    at = lambda text: datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    return at(time) - at(report["job"]["begin"])


def main(folder):
    failed = []

    def check(right, what):
        print(("ok    " if right else "WRONG ") + what)
        if not right:
            failed.append(what)

    healthy = report_of(os.path.join(folder, "healthy"), False)
    told = [finding["id"] for finding in healthy["findings"]]
    check(told == [], f"nothing is told of the healthy fabric: {told}")
    unchecked = {entry["rule"] for entry in healthy["not_checked"]}
    rules = {"ib.link_errors", "ib.link_degraded", "ib.congestion_xmit_wait", "rdma.retries", "net.pause_congestion"}
    check(not rules & unchecked, f"though all were looked for: {sorted(rules & unchecked)}")

    faulty = report_of(os.path.join(folder, "faulty"), True)
    found = {finding["id"]: finding for finding in faulty["findings"]}
    expected = {"ib.congestion_xmit_wait": ("mlx5_1:1", 30, 50), "rdma.retries": ("mlx5_3:1", 60, 75),
                "net.pause_congestion": ("eth0", 80, 120), "ib.link_errors": ("mlx5_2:1", 80, 90),
                "ib.link_degraded": ("mlx5_2:1", 80, 90)}
    check(set(found) == set(expected), f"the faults, and nothing else: {sorted(found)}")
    for rule, (instance, begin, end) in expected.items():
        if rule not in found:
            continue
        interval = found[rule]["intervals"][0]
        times = second_of(interval["begin"], faulty), second_of(interval["end"], faulty)
        close = abs(times[0] - begin) <= 11 and abs(times[1] - end) <= 11  # a row of the slow families
        check(found[rule]["instances"] == [instance] and close,
              f"{rule} at {found[rule]['instances']}, {times[0]:.1f} s to {times[1]:.1f} s")
    check(found.get("ib.link_degraded", {}).get("caused_by") == "ib.link_errors", "the slow link is its failure's effect")
    print(f"fabric_test: {'FAILED' if failed else 'passed'}")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--keep":
        sys.exit(main(sys.argv[2]))
    with tempfile.TemporaryDirectory(prefix="reveal-fabric-") as scratch:
        sys.exit(main(scratch))
