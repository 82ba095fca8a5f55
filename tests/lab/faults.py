"""What can be made to happen to a node, for a while or, as a setting, from before the job begins until it has ended.
Each is a context manager that yields its exact counters, filled when it ends; `Unavailable` says what this kernel does
not offer."""
import contextlib
import mmap
import multiprocessing
import os
import pathlib
import random
import shutil
import signal
import subprocess
import threading
import time
from typing import Any


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
def shaper(place: str, device: str, megabits: float, burst: str = "32kb", limit: str = "64kb"):
    tc = ["ip", "netns", "exec", place, "tc"]
    run(*tc, "qdisc", "replace", "dev", device, "root", "tbf", "rate", f"{megabits:g}mbit", "burst", burst, "limit",
        limit)
    counters: dict[str, Any] = {"megabits": megabits}
    try:
        yield counters
    finally:
        words = run(*tc, "-s", "qdisc", "show", "dev", device).replace(",", "").split()
        counters["packets_dropped"] = int(words[words.index("(dropped") + 1])
        run(*tc, "qdisc", "del", "dev", device, "root")


def congestion(lab, victim: int, megabits: float):
    """A switch port with little buffer and less rate than the job would like."""
    return shaper(lab.switch, f"p{victim}", megabits)


def wide_port(lab, victim: int, megabits: float):
    return shaper(lab.switch, f"p{victim}", megabits, "8mb", "64mb")


def local_queue(lab, victim: int, megabits: float):
    """The same in the sender: its own queue drops what TCP gives it, up to 64 KB at once. A smaller burst would let the
    queue cut it and drop a part, which TCP does not notice and sends again."""
    return shaper(lab.node(victim), "eth0", megabits, "128kb", "32kb")


@contextlib.contextmanager
def overtaking(lab, victim: int, percent: float):
    """Of the packets that a node sends, some go through a slower queue, where later ones overtake them: none is lost, as
    `packets_dropped` shows."""
    place = ["ip", "netns", "exec", lab.node(victim)]
    tc, table = [*place, "tc"], [*place, "iptables", "-w", "-t", "mangle"]
    run(*tc, "qdisc", "replace", "dev", "eth0", "root", "handle", "1:", "htb", "default", "1")
    for number, rate, more in (("1", "20gbit", ()), ("2", "500mbit", ("burst", "1600b", "cburst", "1600b"))):
        run(*tc, "class", "add", "dev", "eth0", "parent", "1:", "classid", f"1:{number}", "htb", "rate", rate, *more,
            "quantum", "1600")
    counters: dict[str, Any] = {"percent": percent}
    try:
        run(*table, "-A", "POSTROUTING", "-o", "eth0", "-p", "tcp", "-m", "statistic", "--mode", "random", "--probability",
            f"{percent / 100:.8f}", "-j", "CLASSIFY", "--set-class", "1:2")
        yield counters
    finally:
        for line in run(*table, "-L", "POSTROUTING", "-v", "-x", "-n").splitlines():
            if "CLASSIFY" in line:
                counters["packets_slower"] = int(line.split()[0])
        run(*table, "-F", "POSTROUTING")
        time.sleep(0.1)  # until both queues are empty
        words = run(*tc, "-s", "qdisc", "show", "dev", "eth0").replace(",", "").split()
        counters["packets_dropped"] = int(words[words.index("(dropped") + 1])
        run(*tc, "qdisc", "del", "dev", "eth0", "root")


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


def join_and_do(group, function, *arguments):
    """A process counts for its group from its first page on."""
    write(f"{group}/cgroup.procs", os.getpid())
    function(*arguments)


@contextlib.contextmanager
def process(function, *arguments, counter: str, into=None, **facts):
    """A process that belongs to no job, in a control group if one is named; it ends itself even if nobody ends it."""
    used = multiprocessing.Value("d", 0.0)
    target, first = (function, ()) if into is None else (join_and_do, (into, function))
    worker = multiprocessing.Process(target=target, args=(*first, *arguments, used), daemon=True)
    worker.start()
    counters: dict[str, Any] = dict(facts)
    try:
        yield counters
    finally:
        worker.terminate()
        worker.join()
        counters[counter] = round(used.value, 3)


def anywhere(lab, victim: int) -> int:
    return lab.random.choice(sorted(lab.cpus(victim)))


def outsider_on(place):
    def on_cpu(lab, victim: int, share: float):
        cpu, end = place(lab, victim), time.monotonic() + lab.longest
        return process(burn, cpu, share, end, counter="cpu_seconds", cpu=cpu, share_percent=share)
    return on_cpu


outsider = outsider_on(anywhere)


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


@contextlib.contextmanager
def slow_all(lab, _victim: int, factor: float):
    with contextlib.ExitStack() as stack:
        yield {lab.node(i): stack.enter_context(slow_rank(lab, i, factor)) for i in range(lab.count)}


def away(lab, victim: int, _amount: float):
    return ill(lab, victim, "away 1")


def busy(lab, victim: int, _amount: float):
    return ill(lab, victim, "busy 1")


def garbage(lab, victim: int, millions: float):
    return ill(lab, victim, f"garbage {millions:g}")


def slow_input(lab, victim: int, milliseconds: float):
    return ill(lab, victim, f"input {milliseconds:g}")


@contextlib.contextmanager
def imports(lab, _victim: int, modules: float):
    """All ranks import so many modules of their own in each step."""
    with contextlib.ExitStack() as stack:
        yield {lab.node(i): stack.enter_context(ill(lab, i, f"import {modules:g}")) for i in range(lab.count)}


@contextlib.contextmanager
def slow_imports(lab, victim: int, requests: float):
    """The same, from a disk that answers so many requests a second of all ranks together: these share a group."""
    counters: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        limits = [stack.enter_context(disk_limit(lab, i, "iops", requests, "io_serviced")) for i in range(lab.count)]
        with imports(lab, victim, 40) as imported:
            yield counters
    counters |= imported | limits[0]


def send(what: signal.Signals, pids: list[int]):
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, what)


def to_the_end(fault):
    """The job is terminated before the fault ends, as Slurm does at a time limit: one that is stopped ends, too."""
    @contextlib.contextmanager
    def until_terminated(lab, victim: int, amount: float):
        with fault(lab, victim, amount) as counters:
            yield counters
            pids = [pid for i in range(lab.count) for pid in lab.ranks(i)]
            send(signal.SIGTERM, pids)
            send(signal.SIGCONT, pids)
            deadline = time.monotonic() + 10
            while any(job.poll() is None for job in lab.jobs) and time.monotonic() < deadline:
                time.sleep(0.1)
    return until_terminated


def leak(lab, victim: int, rate: float):
    """Slower where the fault would last so long that it took more than a quarter of what is free: this machine is to
    survive it."""
    with open("/proc/meminfo") as file:
        free = next(int(line.split()[1]) for line in file if line.startswith("MemAvailable")) / 1000
    rate = min(rate, free / 4 / lab.longest)
    return ill(lab, victim, f"leak {rate:g}")


@contextlib.contextmanager
def mapped_file(lab, victim: int, rate: float):
    """Its rank maps a file of 1 GB and reads so much of it in each second: its resident memory grows, and is no leak."""
    path = os.path.join(lab.data(victim), f"mapped.{victim}")
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, 1 << 30)
    with ill(lab, victim, f"map {rate:g}") as counters:
        yield counters
    os.unlink(path)


def stat_storm(lab, victim: int, _amount: float):
    """Its rank asks for the attributes of many files, several at a time, as long as the order stands."""
    folder = os.path.join(lab.data(victim), "many")
    os.makedirs(folder, exist_ok=True)
    for number in range(500):
        write(os.path.join(folder, str(number)), "")
    return ill(lab, victim, "stat 1")


def halt(pids: list[int], share: float, end: float, used):
    def leave(*_):
        send(signal.SIGCONT, pids)
        os._exit(0)

    signal.signal(signal.SIGTERM, leave)
    while time.monotonic() < end:
        begin = time.monotonic()
        send(signal.SIGSTOP, pids)
        time.sleep(0.2 * share / 100)
        send(signal.SIGCONT, pids)
        used.value += time.monotonic() - begin
        time.sleep(0.2 * (1 - share / 100))


def stop(lab, victim: int, share: float):
    return process(halt, lab.ranks(victim), share, time.monotonic() + lab.longest, counter="stopped_seconds",
                   share_percent=share)


def threads_of(pids: list[int]) -> tuple[set[str], int]:
    """The states of all their threads, and the processor time that these have used, in clock ticks."""
    states, ticks = set(), 0
    for pid in pids:
        for stat in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"):
            with contextlib.suppress(OSError):
                fields = read(stat).rpartition(")")[2].split()
                states.add(fields[0])
                ticks += int(fields[11]) + int(fields[12])
    return states, ticks


def comes_to_rest(pids: list[int], patience: float, rest: float = 0.3) -> bool:
    """Whether all of their threads sleep for so long, within this time. A thread that waits for a disk does not sleep."""
    begin = since = time.monotonic()
    used = None
    while (now := time.monotonic()) < begin + patience:
        states, ticks = threads_of(pids)
        if states != {"S"} or ticks != used:
            since, used = now, ticks
        if now - since >= rest:
            return True
        time.sleep(0.02)
    return False


def stop_where_they_wait(own: list[int], others: list[int], draw: random.Random) -> int:
    """While the others stand still, a rank goes on to the collective in which it waits for them, and comes to rest nowhere
    else: there it is stopped, and they go on. How often that was tried: meanwhile it may save or validate. The others
    stand still too shortly, and too seldom, for a finding."""
    for attempt in range(1, 16):
        send(signal.SIGSTOP, others)
        try:
            if comes_to_rest(own, 0.8):
                send(signal.SIGSTOP, own)
                return attempt
        finally:
            send(signal.SIGCONT, others)
        time.sleep(draw.uniform(2, 3))
    raise RuntimeError("the rank never waited for the others")


@contextlib.contextmanager
def stop_inside(lab, victim: int, seconds: float):
    """One rank is stopped inside a collective, for so long; 0: as long as the fault lasts."""
    own = lab.ranks(victim)
    others = [pid for i in range(lab.count) if i != victim for pid in lab.ranks(i)]
    try:
        counters: dict[str, Any] = {"attempts": stop_where_they_wait(own, others, lab.random)}
        if seconds:
            time.sleep(seconds)
            send(signal.SIGCONT, own)
        yield counters
    finally:
        send(signal.SIGCONT, own)


def write(path, text):
    try:
        with open(path, "w") as file:
            file.write(str(text))
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror}") from error


def read(path) -> str:
    with open(path) as file:
        return file.read().strip()


@contextlib.contextmanager
def empty_group(controller: str, path: str):
    """A control group of version 1, and those above it where there are none; removed when its processes have ended."""
    root = pathlib.Path("/sys/fs/cgroup") / controller
    if not (root / "cgroup.procs").exists():
        raise Unavailable(f"no {controller} controller of control groups v1")
    made = [folder for folder in reversed([root / path, *(root / path).parents]) if not folder.exists()]
    (root / path).mkdir(parents=True, exist_ok=True)
    try:
        yield root / path
    finally:
        deadline = time.monotonic() + 5
        for folder in reversed(made):
            while folder.exists() and time.monotonic() < deadline:
                with contextlib.suppress(OSError):
                    folder.rmdir()
                    break
                time.sleep(0.05)


@contextlib.contextmanager
def control_group(lab, controller: str, victim: int, settings: list[tuple[str, str]], statistics: str):
    """The victim's ranks in a limited group of control groups v1; afterwards they are where they were."""
    homes = {}
    counters: dict[str, Any] = dict(settings)
    with empty_group(controller, lab.name) as group:
        try:
            for name, value in settings:
                write(group / name, value)
            for pid in lab.ranks(victim):
                homes[pid] = next(path for _, controllers, path in
                                  (line.split(":", 2) for line in read(f"/proc/{pid}/cgroup").splitlines())
                                  if controller in controllers.split(","))
                write(group / "cgroup.procs", pid)
            yield counters
        finally:
            with contextlib.suppress(OSError):
                counters[statistics] = read(group / statistics)
            for pid, home in homes.items():
                with contextlib.suppress(Unavailable):
                    write(f"/sys/fs/cgroup/{controller}{home}/cgroup.procs", pid)


def quota(lab, victim: int, percent: float):
    return control_group(lab, "cpu", victim, [("cpu.cfs_quota_us", str(int(1000 * percent)))], "cpu.stat")


@contextlib.contextmanager
def loss_and_quota(lab, victim: int, percent: float):
    """Two faults at once that have nothing to do with each other, on two nodes."""
    counters: dict[str, Any] = {}
    with loss(lab, victim, percent) as lost, quota(lab, (victim + 1) % lab.count, 25) as throttled:
        yield counters
    counters |= lost | throttled


def disk_limit(lab, victim: int, what: str, most: float, statistics: str):
    device = os.stat(lab.scratch).st_dev
    place = os.path.realpath(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    if not os.path.isdir(place):
        raise Unavailable(f"{lab.scratch} is on no block device")
    if os.path.exists(f"{place}/partition"):
        place = os.path.dirname(place)
    with open(f"{place}/dev") as file:
        disk = file.read().strip()
    return control_group(lab, "blkio", victim, [(f"blkio.throttle.read_{what}_device", f"{disk} {int(most)}")],
                         f"blkio.throttle.{statistics}")


def slow_disk(lab, victim: int, megabytes: float):
    return disk_limit(lab, victim, "bps", megabytes * 1e6, "io_service_bytes")


# ------------------------------------------------------------------------------------------------- memory of the job

@contextlib.contextmanager
def memory_group(lab, victim: int, _amount: float):
    """A setting: the victim's job in a memory group of its own, without a limit yet. Memory that a process already has
    would not be counted if it were moved later."""
    with empty_group("memory", lab.name) as group:
        lab.group = group
        lab.wrap[victim] = ["sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$@"', "sh"]
        yield {}


def set_limit(group: pathlib.Path, size: int, patience: float = 10):
    """The kernel gives up when it cannot find so much at once."""
    end = time.monotonic() + patience
    while True:
        try:
            return write(group / "memory.limit_in_bytes", size)
        except Unavailable:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


@contextlib.contextmanager
def memory_limit(lab, _victim: int, percent: float):
    """So much of what its group has now."""
    group = lab.group
    used = int(read(group / "memory.usage_in_bytes"))
    counters: dict[str, Any] = {"used_before": used, "limit": int(used * percent / 100)}
    set_limit(group, counters["limit"])
    try:
        yield counters
    finally:
        with contextlib.suppress(Unavailable):
            write(group / "memory.limit_in_bytes", -1)
        with contextlib.suppress(OSError):
            counters["limit_met"] = int(read(group / "memory.failcnt"))
            counters["killed"] = int(read(group / "memory.oom_control").split()[-1])


@contextlib.contextmanager
def swap_file(lab, megabytes: int = 1024):
    path = os.path.join(lab.scratch, "swap")
    with open(path, "wb") as file:
        for _ in range(megabytes):
            file.write(bytes(1 << 20))
    os.chmod(path, 0o600)
    run("mkswap", path)
    run("swapon", path)
    try:
        yield
    finally:
        run("swapoff", path)


def swapped() -> dict[str, int]:
    return {key: int(value) for key, value in (line.split() for line in read("/proc/vmstat").splitlines())
            if key in ("pswpin", "pswpout")}


@contextlib.contextmanager
def swap(lab, victim: int, percent: float):
    """Room for so much of what its group has, and a swap file for the rest."""
    with swap_file(lab):
        before, counters = swapped(), {}
        with memory_limit(lab, victim, percent) as limit:
            try:
                yield counters
            finally:
                counters |= {key: value - before[key] for key, value in swapped().items()}
        counters |= limit


def hold(megabytes: float, end: float, used):
    memory = mmap.mmap(-1, int(megabytes * 1e6))
    for at in range(0, len(memory), mmap.PAGESIZE):
        memory[at] = 1
    used.value = len(memory)
    time.sleep(max(0.0, end - time.monotonic()))


@contextlib.contextmanager
def swap_out(lab, _victim: int, megabytes: float):
    """An outsider's memory goes to swap and stays there: nobody needs it back."""
    with swap_file(lab), empty_group("memory", f"{lab.name}-idle") as group:
        with process(hold, megabytes, time.monotonic() + lab.longest + 60, counter="held", into=group) as counters:
            time.sleep(1)
            before = swapped()
            set_limit(group, int(megabytes * 2e5))
            yield counters
            counters |= {key: value - before[key] for key, value in swapped().items()}


@contextlib.contextmanager
def kill(lab, victim: int, rate: float):
    """It leaks at a limit of half as much again as it has: the kernel kills it."""
    with memory_limit(lab, victim, 150) as limit:
        with ill(lab, victim, f"leak {rate:g}") as counters:
            yield counters
    counters |= limit


@contextlib.contextmanager
def cold(lab, victim: int, _amount: float):
    """Somebody drops the job's files from memory, twice a second; memory is not short."""
    with process(drop, lab.data(victim), time.monotonic() + lab.longest, counter="times") as counters:
        yield counters


def drop_once(folder: str):
    for path in pathlib.Path(folder).rglob("*"):
        with contextlib.suppress(OSError), open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def drop(folder: str, end: float, used):
    while time.monotonic() < end:
        drop_once(folder)
        used.value += 1
        time.sleep(0.5)


# --------------------------------------------------------------------------------------------------- huge pages, others

HUGE = pathlib.Path("/sys/kernel/mm/hugepages")
SIZE = 2 << 20


@contextlib.contextmanager
def huge_pages(_lab, _victim: int, percent: float):
    """Of the machine's memory, set aside."""
    total = next(int(line.split()[1]) << 10 for line in read("/proc/meminfo").splitlines() if "MemTotal" in line)
    path, wanted = HUGE / "hugepages-2048kB/nr_hugepages", int(total * percent / 100 / SIZE)
    if not path.exists():
        raise Unavailable("no huge pages of 2 MiB")
    before = int(read(path))
    write(path, before + wanted)
    try:
        if int(read(path)) < before + wanted:
            raise Unavailable("no memory in one piece for huge pages")
        yield {"huge_bytes": wanted * SIZE}
    finally:
        write(path, before)


@contextlib.contextmanager
def huge_pages_on_one(lab, victim: int, percent: float):
    """The nodes share a kernel: the others are shown what was there before."""
    view = os.path.join(lab.scratch, "hugepages")
    for path in HUGE.rglob("*"):
        copied = os.path.join(view, path.relative_to(HUGE))
        if path.is_file() and os.access(path, os.R_OK):
            with contextlib.suppress(OSError):  # "demote" can only be written
                text = path.read_text()
                os.makedirs(os.path.dirname(copied), exist_ok=True)
                write(copied, text)
    for node in range(lab.count):
        if node != victim:
            lab.within[node] = ["sh", "-c", f'mount --bind {view} {HUGE} && exec "$@"', "sh"]
    with huge_pages(lab, victim, percent) as counters:
        yield counters


def hold_huge(size: int, end: float, used):
    map_huge = 0x40000  # MAP_HUGETLB, which the module does not know
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | map_huge)
    for at in range(0, size, SIZE):
        memory[at] = 1
    used.value = size
    time.sleep(max(0.0, end - time.monotonic()))


@contextlib.contextmanager
def huge_pages_in_use(lab, victim: int, percent: float):
    with huge_pages(lab, victim, percent) as pages:
        end = time.monotonic() + 10 * lab.seconds + 600
        with process(hold_huge, pages["huge_bytes"], end, counter="held", **pages) as counters:
            deadline = time.monotonic() + 20
            while int(read(HUGE / "hugepages-2048kB/free_hugepages")) > 0 and time.monotonic() < deadline:
                time.sleep(0.1)
            yield counters


@contextlib.contextmanager
def mtu(lab, victim: int, size: float):
    run("ip", "-n", lab.node(victim), "link", "set", "eth0", "mtu", str(int(size)))
    yield {"mtu": int(size)}


@contextlib.contextmanager
def receive_buffer(lab, victim: int, size: float):
    """A kernel setting that each namespace has of its own."""
    value = f"4096 {int(size) // 2} {int(size)}"
    run("ip", "netns", "exec", lab.node(victim), "sysctl", "-qw", f"net.ipv4.tcp_rmem={value}")
    yield {"net.tcp_rmem": value}


def on_all(setting):
    """The same on every node: they do not differ."""
    @contextlib.contextmanager
    def everywhere(lab, _victim: int, amount: float):
        with contextlib.ExitStack() as stack:
            yield {lab.node(i): stack.enter_context(setting(lab, i, amount)) for i in range(lab.count)}
    return everywhere


def environment(name: str, value: str):
    @contextlib.contextmanager
    def set_for_all(lab, _victim: int, _amount: float):
        lab.environment[name] = value
        yield {name: value}
    return set_for_all


@contextlib.contextmanager
def threads(lab, victim: int, factor: float):
    """The job is told to start so many threads for each of its cpus."""
    lab.environment["OMP_NUM_THREADS"] = str(int(factor * len(lab.cpus(victim))))
    yield {"threads": lab.environment["OMP_NUM_THREADS"]}


@contextlib.contextmanager
def one_cpu(lab, victim: int, _amount: float):
    """The job itself may use one cpu of its node's."""
    cpu = lab.random.choice(sorted(lab.cpus(victim)))
    if len(lab.cpus(victim)) == 1:
        raise Unavailable("the node has but one cpu")
    lab.wrap[victim] = ["taskset", "-c", str(cpu)]
    lab.own_cpu = cpu
    yield {"cpu": cpu}


def beside(lab, victim: int) -> int:
    """A cpu of the node that `one_cpu` did not give to the job."""
    return lab.random.choice(sorted(lab.cpus(victim) - {lab.own_cpu}))


def of_group(path: str, place=anywhere):
    """An outsider of whom its control group tells what it is."""
    @contextlib.contextmanager
    def outsider_in_group(lab, victim: int, share: float):
        cpu, end = place(lab, victim), time.monotonic() + lab.longest
        with empty_group("cpu", path.format(lab=lab.name)) as group:
            with process(burn, cpu, share, end, counter="cpu_seconds", into=group, cpu=cpu,
                                      share_percent=share, group=str(group)) as counters:
                yield counters
    return outsider_in_group


# ---------------------------------------------------------------------------------------------------------- storage

@contextlib.contextmanager
def small_disk(lab, victim: int, megabytes: float):
    """A setting: the job works in a file system of its own."""
    os.makedirs(lab.data(victim), exist_ok=True)
    run("mount", "-t", "tmpfs", "-o", f"size={int(megabytes)}m", "tmpfs", lab.data(victim))
    try:
        yield {}
    finally:
        run("umount", "-l", lab.data(victim))


@contextlib.contextmanager
def small_tmpdir(lab, _victim: int, megabytes: float):
    """A setting: TMPDIR is a file system of its own, the job works elsewhere."""
    folder = os.path.join(lab.scratch, "tmpdir")
    os.makedirs(folder, exist_ok=True)
    run("mount", "-t", "tmpfs", "-o", f"size={int(megabytes)}m", "tmpfs", folder)
    lab.environment["TMPDIR"] = folder
    try:
        yield {"TMPDIR": folder}
    finally:
        run("umount", "-l", folder)


@contextlib.contextmanager
def fill(lab, victim: int, percent: float):
    folder = lab.environment.get("TMPDIR", lab.data(victim))
    path = os.path.join(folder, "filled")
    status = os.statvfs(folder)
    size = int(status.f_bavail * status.f_frsize * percent / 100)
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)
    yield {"bytes_filled": size, "bytes_left": os.statvfs(folder).f_bavail * status.f_frsize}
    with contextlib.suppress(OSError):
        os.unlink(path)


@contextlib.contextmanager
def file_server(lab, victim: int, _amount: float):
    """A setting: the job works in a file system that a process serves."""
    if not shutil.which("bindfs"):
        raise Unavailable("bindfs is not installed")
    served = os.path.join(lab.scratch, "served")
    for folder in (served, lab.data(victim)):
        os.makedirs(folder, exist_ok=True)
    lab.server = subprocess.Popen(["bindfs", "-f", served, lab.data(victim)], stdin=subprocess.DEVNULL,
                                  start_new_session=True)
    try:
        deadline = time.monotonic() + 10
        while not os.path.ismount(lab.data(victim)):
            if lab.server.poll() is not None or time.monotonic() > deadline:
                raise Unavailable("bindfs does not serve here")
            time.sleep(0.1)
        yield {}
    finally:
        lab.server.send_signal(signal.SIGCONT)
        lab.server.terminate()
        lab.server.wait()
        if os.path.ismount(lab.data(victim)):
            run("umount", "-l", lab.data(victim))


@contextlib.contextmanager
def nfs(lab, victim: int, _amount: float):
    """A setting: the job works in a directory of this kernel's own NFS server, over lo, and caches no attributes."""
    if "nfs4" not in read("/proc/filesystems") or not shutil.which("rpc.nfsd"):
        raise Unavailable("no NFS in this kernel, or no nfs-kernel-server")
    served = os.path.join(lab.scratch, "exported")
    for folder in (served, lab.data(victim)):
        os.makedirs(folder, exist_ok=True)
    with contextlib.ExitStack() as undo:
        if not os.path.ismount("/proc/fs/nfsd"):
            run("mount", "-t", "nfsd", "nfsd", "/proc/fs/nfsd")
        run("exportfs", "-o", "rw,fsid=0,no_root_squash,no_subtree_check", f"127.0.0.1:{served}")
        undo.callback(run, "exportfs", "-u", f"127.0.0.1:{served}")
        run("rpc.mountd", "--no-nfs-version", "3")
        run("rpc.nfsd", "--no-nfs-version", "3", "--grace-time", "10", "4")
        undo.callback(run, "rpc.nfsd", "0")
        run("mount", "-t", "nfs4", "-o", "vers=4.2,hard,noac", "127.0.0.1:/", lab.data(victim))
        undo.callback(run, "umount", "-l", lab.data(victim))
        yield {}


def modules(text: str):
    """A setting: each rank has so many modules of this text on the disk, and not in memory."""
    @contextlib.contextmanager
    def on_the_disk(lab, _victim: int, count: float):
        for node in range(lab.count):
            folder = os.path.join(lab.data(node), "modules")
            os.makedirs(folder)
            for number in range(int(count)):
                write(os.path.join(folder, f"lazy_{number:04}.py"), text)
        os.sync()
        for node in range(lab.count):
            drop_once(lab.data(node))
        yield {}
    return on_the_disk


@contextlib.contextmanager
def written_file(lab, _victim: int, megabytes: float):
    """A setting: a file whose blocks are on the disk, and not in memory."""
    lab.on_disk = os.path.join(lab.scratch, "on_disk")
    with open(lab.on_disk, "wb") as file:
        for _ in range(int(megabytes)):
            file.write(os.urandom(1 << 20))
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    yield {}


def read_directly(path: str, readers: int, end: float, used):
    size = os.path.getsize(path)

    def loop(seed: int):
        draw, block = random.Random(seed), mmap.mmap(-1, 1 << 20)
        file = os.open(path, os.O_RDONLY | os.O_DIRECT)
        while time.monotonic() < end:
            got = os.preadv(file, [block], draw.randrange(size >> 20) << 20)
            with used.get_lock():
                used.value += got

    for seed in range(readers):
        threading.Thread(target=loop, args=(seed,), daemon=True).start()
    time.sleep(max(0.0, end - time.monotonic()))


def burst(lab, _victim: int, readers: float):
    """Others read from the disk, past the page cache, many requests at a time."""
    return process(read_directly, lab.on_disk, int(readers), time.monotonic() + lab.longest, counter="bytes_read",
                   readers=int(readers))


@contextlib.contextmanager
def no_answer(lab, _victim: int, _amount: float):
    lab.server.send_signal(signal.SIGSTOP)
    try:
        yield {}
    finally:
        lab.server.send_signal(signal.SIGCONT)
