"""What can be made to happen to a node, for a while. Each fault is a context manager that yields its exact counters,
filled when it ends; `Unavailable` says what this kernel does not offer."""
import contextlib
import multiprocessing
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import Any, Callable


class Unavailable(Exception):
    pass


def run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        why = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise Unavailable(f"{' '.join(words)}: {why[-1]}")
    return done.stdout


@contextlib.contextmanager
def loss(lab, victim: int, percent: float):
    """Drops arriving packets at random. The counter of the rule is the truth."""
    table = ["ip", "netns", "exec", lab.node(victim), "iptables", "-w", "-t", "raw"]
    rule = ["-i", "eth0", "-m", "statistic", "--mode", "random", "--probability", f"{percent / 100:.8f}", "-j", "DROP"]
    run(*table, "-F", "PREROUTING")
    run(*table, "-A", "PREROUTING", *rule)
    counters: dict[str, Any] = {"loss_percent": percent}
    try:
        yield counters
    finally:
        run(*table, "-I", "PREROUTING", "1", "-i", "eth0", "-j", "ACCEPT")  # the counter now stands still
        for line in run(*table, "-L", "PREROUTING", "-v", "-x", "-n").splitlines():
            if "DROP" in line and "statistic" in line:
                counters["packets_dropped"] = int(line.split()[0])
        run(*table, "-F", "PREROUTING")


@contextlib.contextmanager
def congestion(lab, victim: int, megabits: float):
    """A switch port with little buffer and less rate than the job would like."""
    port = ["ip", "netns", "exec", lab.switch, "tc"]
    run(*port, "qdisc", "replace", "dev", f"p{victim}", "root", "tbf", "rate", f"{megabits:g}mbit", "burst", "32kb",
        "limit", "64kb")
    counters: dict[str, Any] = {"port_megabits": megabits}
    try:
        yield counters
    finally:
        words = run(*port, "-s", "qdisc", "show", "dev", f"p{victim}").replace(",", "").split()
        counters["packets_dropped"] = int(words[words.index("(dropped") + 1])
        run(*port, "qdisc", "del", "dev", f"p{victim}", "root")


def softirqs() -> tuple[list[int], list[int]]:
    with open("/proc/softirqs") as file:
        received = next(line for line in file if "NET_RX:" in line).split()[1:]
    with open("/proc/net/softnet_stat") as file:
        dropped = [int(line.split()[1], 16) for line in file]
    return [int(word) for word in received], dropped


@contextlib.contextmanager
def softirq(lab, victim: int, _amount: float):
    """Packet steering sends the packets of every interface of the laboratory to one cpu."""
    cpu = min(lab.cpus(victim))

    def steer(mask: int):
        for place in [lab.switch] + [lab.node(i) for i in range(lab.count)]:
            run("ip", "netns", "exec", place, "sh", "-c",
                f"for f in /sys/class/net/[ep][t0-9]*/queues/rx-*/rps_cpus; do echo {mask:x} >$f; done")

    received, dropped = softirqs()
    steer(1 << cpu)
    counters: dict[str, Any] = {"cpu": cpu}
    try:
        yield counters
    finally:
        steer(0)
        after = softirqs()
        counters["net_rx_per_cpu"] = [b - a for a, b in zip(received, after[0])]
        counters["backlog_dropped"] = sum(after[1]) - sum(dropped)


def burn(cpu: int, share: float, end: float, used):
    os.sched_setaffinity(0, {cpu})
    period, start, next_period = 0.02, time.process_time(), time.monotonic()
    while time.monotonic() < end:
        next_period += period
        enough = time.process_time() + period * share / 100
        while time.process_time() < enough and time.monotonic() < end:
            pass
        used.value = time.process_time() - start
        time.sleep(max(0.0, min(next_period, end) - time.monotonic()) if share < 100 else 0)
        next_period = max(next_period, time.monotonic() - period)


def flow(path: str, rate: float, end: float, used):
    block, written = b"x" * (1 << 20), 0
    start = time.monotonic()
    with open(path, "wb", buffering=0) as file:
        os.unlink(path)
        while (now := time.monotonic()) < end:
            if file.tell() >= 1 << 30:  # dropped before the disk gets much of it: written over, no page becomes dirty
                file.seek(0)
                file.truncate()
            written += file.write(block)
            used.value = written
            time.sleep(max(0.0, min(end, start + written / (rate * 1e6)) - now))


@contextlib.contextmanager
def process(function, *arguments, counter: str, **facts):
    """A process that belongs to no job; it ends itself even if nobody ends it."""
    used = multiprocessing.Value("d", 0.0)
    worker = multiprocessing.Process(target=function, args=(*arguments, used), daemon=True)
    worker.start()
    counters: dict[str, Any] = dict(facts)
    try:
        yield counters
    finally:
        worker.terminate()
        worker.join()
        counters[counter] = round(used.value, 3)


def outsider(lab, victim: int, share: float):
    cpu = lab.random.choice(sorted(lab.cpus(victim)))
    end = time.monotonic() + lab.longest
    return process(burn, cpu, share, end, counter="cpu_seconds", cpu=cpu, share_percent=share)


def flood(lab, _victim: int, rate: float):
    path = os.path.join(lab.scratch, "flood")
    return process(flow, path, rate, time.monotonic() + lab.longest, counter="bytes_written", megabytes_per_second=rate)


def resident(pids: list[int]) -> int:
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/statm") as file:
            total += int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return total


@contextlib.contextmanager
def ill(lab, victim: int, order: str):
    """Asks the victim's rank, which must be one of ddp.py, to behave badly."""
    if not lab.obeys:
        raise Unavailable("this workload cannot be made ill from outside")
    path, pids = os.path.join(lab.data(victim), f"ill.{victim}"), lab.ranks(victim)
    before = resident(pids)
    with open(path + ".part", "w") as file:
        file.write(order)
    os.rename(path + ".part", path)
    counters: dict[str, Any] = {"order": order}
    try:
        yield counters
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)
        counters["resident_bytes_more"] = resident(pids) - before


def slow_rank(lab, victim: int, factor: float):
    return ill(lab, victim, f"slow {factor:g}")


def leak(lab, victim: int, rate: float):
    """Slower where the fault would last so long that it took more than a quarter of what is free: this machine is to
    survive it."""
    with open("/proc/meminfo") as file:
        free = next(int(line.split()[1]) for line in file if line.startswith("MemAvailable")) / 1000
    rate = min(rate, free / 4 / lab.longest)
    return ill(lab, victim, f"leak {rate:g}")


def halt(pids: list[int], share: float, end: float, used):
    def send(what):
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, what)

    def leave(*_):
        send(signal.SIGCONT)
        os._exit(0)

    signal.signal(signal.SIGTERM, leave)
    while time.monotonic() < end:
        begin = time.monotonic()
        send(signal.SIGSTOP)
        time.sleep(0.2 * share / 100)
        send(signal.SIGCONT)
        used.value += time.monotonic() - begin
        time.sleep(0.2 * (1 - share / 100))


def stop(lab, victim: int, share: float):
    return process(halt, lab.ranks(victim), share, time.monotonic() + lab.longest, counter="stopped_seconds",
                   share_percent=share)


@contextlib.contextmanager
def control_group(lab, controller: str, victim: int, settings: list[tuple[str, str]], statistics: str):
    """The victim's ranks in a limited group of control groups v1; afterwards they are where they were."""
    root = f"/sys/fs/cgroup/{controller}"
    group, homes = f"{root}/{lab.name}", {}
    if not os.path.exists(f"{root}/cgroup.procs"):
        raise Unavailable(f"no {controller} controller of control groups v1")
    os.makedirs(group, exist_ok=True)
    counters: dict[str, Any] = dict(settings)

    def write(path, text):
        with open(path, "w") as file:
            file.write(text)

    try:
        for name, value in settings:
            write(f"{group}/{name}", value)
        for pid in lab.ranks(victim):
            with open(f"/proc/{pid}/cgroup") as file:
                homes[pid] = next(path for _, controllers, path in (line.strip().split(":", 2) for line in file)
                                  if controller in controllers.split(","))
            write(f"{group}/cgroup.procs", str(pid))
        yield counters
    finally:
        with contextlib.suppress(OSError), open(f"{group}/{statistics}") as file:
            counters[statistics] = file.read().strip()
        for pid, home in homes.items():
            with contextlib.suppress(OSError):
                write(f"{root}{home}/cgroup.procs", str(pid))
        with contextlib.suppress(OSError):
            os.rmdir(group)


def quota(lab, victim: int, percent: float):
    return control_group(lab, "cpu", victim, [("cpu.cfs_quota_us", str(int(1000 * percent)))], "cpu.stat")


def slow_disk(lab, victim: int, megabytes: float):
    device = os.stat(lab.scratch).st_dev
    place = os.path.realpath(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    if not os.path.isdir(place):
        raise Unavailable(f"{lab.scratch} is on no block device")
    if os.path.exists(f"{place}/partition"):
        place = os.path.dirname(place)
    with open(f"{place}/dev") as file:
        disk = file.read().strip()
    return control_group(lab, "blkio", victim, [("blkio.throttle.read_bps_device", f"{disk} {int(megabytes * 1e6)}")],
                         "blkio.throttle.io_service_bytes")


@dataclass(frozen=True)
class Scenario:
    help: str
    fault: Callable | None = None
    amount: float = 0
    subsystem: str | None = None
    also: tuple[str, ...] = ()  # subsystems the mechanism truly touches
    rule: str | None = None     # what the knowledge base calls it
    everywhere: bool = False    # the nodes share a kernel: its counters move on all of them
    workloads: tuple[str, ...] = ("*",)  # patterns; for others it makes no sense. One run takes mlp-train
    nodes: int = 2


NETWORKED = ("*-train", "mpi-solver")
OBEDIENT = ("mlp-*", "cnn-*", "encoder-*", "lora-*", "decoder-*", "io-heavy")
COLD = ("mlp-train", "cnn-train", "io-heavy")  # those that read from the disk all the time

# Who is an outsider cannot be told where several nodes of a job share a kernel: there is one node in these.
SCENARIOS = {
    "healthy": Scenario("nothing"),
    "loss01": Scenario("0.1 % of the packets to one node are lost", loss, 0.1, "network", (), "net.tcp_retrans_fault",
                       workloads=NETWORKED),
    "loss02": Scenario("0.2 % of the packets to one node are lost", loss, 0.2, "network", (), "net.tcp_retrans_fault",
                       workloads=NETWORKED),
    "loss1": Scenario("1 % of the packets to one node are lost", loss, 1, "network", (), "net.tcp_retrans_fault",
                       workloads=NETWORKED),
    "congestion": Scenario("a switch port of 200 Mbit/s with a 64 KB buffer", congestion, 200, "network", (),
                           "net.congestion", workloads=NETWORKED),
    "softirq": Scenario("the packets of all interfaces on one cpu", softirq, 0, "network", ("interrupts", "cpu"),
                        "irq.softirq_saturation", True, NETWORKED),
    "outsider100": Scenario("another process on a cpu of the job", outsider, 100, "cpu", ("process",), "cpu.outsider",
                            nodes=1),
    "outsider30": Scenario("30 % of a cpu of the job", outsider, 30, "cpu", ("process",), "cpu.outsider",
                            nodes=1),
    "slow_rank": Scenario("one rank has twice the work", slow_rank, 2, "process", ("cpu", "network"), "node.straggler",
                          workloads=OBEDIENT),
    "stop": Scenario("one rank stands still 30 % of the time", stop, 30, "process", ("cpu", "network"), "job.stopped"),
    "quota": Scenario("one rank may use a quarter of a cpu", quota, 25, "cpu", ("process",), "cpu.cfs_throttled"),
    "flood": Scenario("200 MB/s of buffered writes", flood, 200, "storage", ("memory",), "mem.writeback_stall", True,
                      nodes=1),
    "leak": Scenario("one rank leaks 80 MB/s", leak, 80, "memory", ("process",), "mem.leak_oom_risk", True, OBEDIENT),
    "slow_loading": Scenario("one rank reads its data at 4 MB/s", slow_disk, 4, "storage", ("process",),
                             "io.slow_reads", workloads=COLD),
}
