#!/usr/bin/env python3
"""Writes what the kernel of a large machine would show: a tree for `reveal-collect --root DIR`, or, with --ticks, a
recording whose counters move (DIR/ticks.rec), which replays as fast as it can be read.

  bench/big_host.py DIR --cpus 1152 --nodes 8 --disks 8 --nics 2 --queues 64
  bench/big_host.py DIR --cpus 128 --ticks 600
  bench/big_host.py --measure build/gcc/bin/reveal-collect

The texts have the form and the length of real ones; what is in them is invented. What the kernel needs to make them is
therefore not measured here, only reading and what follows."""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

TICK = 100_000_000
BEGIN = 1_700_000_000_000_000_000
SOFTIRQS = ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"]
ARCHITECTURE = ["NMI", "LOC", "SPU", "PMI", "IWI", "RTR", "RES", "CAL", "TLB", "TRM", "THR", "DFR", "MCE", "MCP"]
MEMINFO = ["MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached", "SwapCached", "Active", "Inactive",
           "Active(anon)", "Inactive(anon)", "Active(file)", "Inactive(file)", "Unevictable", "Mlocked", "SwapTotal",
           "SwapFree", "Dirty", "Writeback", "AnonPages", "Mapped", "Shmem", "KReclaimable", "Slab", "SReclaimable",
           "SUnreclaim", "KernelStack", "PageTables", "Bounce", "CommitLimit", "Committed_AS", "AnonHugePages"]
VMSTAT = (["nr_free_pages", "nr_dirty", "nr_writeback", "nr_unevictable", "nr_dirty_threshold", "nr_dirtied",
           "nr_written", "pgpgin", "pgpgout", "pgfault", "pgmajfault", "compact_stall", "thp_fault_alloc",
           "numa_pages_migrated", "pgscan_direct", "pgsteal_kswapd"] + ["event_%d" % i for i in range(160)])


class Machine:
    """Counters grow by what each of them is given per tick, with some noise; files are asked for by path."""

    def __init__(self, options):
        self.cpus = options.cpus
        self.nodes = options.nodes
        self.disks = options.disks
        self.nics = options.nics
        self.queues = min(options.queues, options.cpus)
        self.random = random.Random(1)
        self.tick = 0
        self.busy = [self.random.random() for _ in range(self.cpus)]
        self.disk_queues = min(self.cpus, 128)  # what controllers offer
        vectors = self.nics * self.queues + self.disks * self.disk_queues
        self.vector_cpu = [self.random.randrange(self.cpus) for _ in range(vectors)]

    def counter(self, base, rate):
        return base + int(rate * self.tick)

    def cpu_list(self):
        return "0-%d\n" % (self.cpus - 1)

    def fixed(self):
        """Texts that do not move: path -> text."""
        texts = {"/sys/devices/system/cpu/online": self.cpu_list(), "/proc/sys/kernel/osrelease": "6.8.0-big\n",
                 "/sys/devices/system/node/online": "0-%d\n" % (self.nodes - 1),
                 "/proc/self/mountinfo": "22 1 8:1 / / rw - xfs /dev/sda1 rw\n",
                 "/proc/self/mountstats": "device proc mounted on /proc with fstype proc\n",
                 "/proc/cpuinfo": "processor : 0\nmodel name : Invented CPU\n"}
        for cpu in range(self.cpus):
            folder = "/sys/devices/system/cpu/cpu%d" % cpu
            sibling = cpu ^ 1
            texts[folder + "/topology/thread_siblings_list"] = "%d-%d\n" % (min(cpu, sibling), max(cpu, sibling))
            texts[folder + "/topology/physical_package_id"] = "%d\n" % (cpu * self.nodes // self.cpus)
            texts[folder + "/cpufreq/scaling_governor"] = "performance\n"
            texts[folder + "/cpufreq/scaling_min_freq"] = "800000\n"
            texts[folder + "/cpufreq/scaling_max_freq"] = "3500000\n"
        for chip in range(self.nodes):
            folder = "/sys/class/hwmon/hwmon%d" % chip
            texts[folder + "/name"] = "coretemp\n"
            texts[folder + "/temp1_label"] = "Package id %d\n" % chip
            for core in range(self.cpus // self.nodes // 2):
                texts[folder + "/temp%d_label" % (core + 2)] = "Core %d\n" % core
            zone = "/sys/class/powercap/intel-rapl:%d" % chip
            texts[zone + "/name"] = "package-%d\n" % chip
            texts[zone + "/max_energy_range_uj"] = "262143328850\n"
            controller = "/sys/devices/system/edac/mc/mc%d" % chip
            texts[controller + "/ce_count"] = texts[controller + "/ue_count"] = "0\n"
            for size in ("2048", "1048576"):
                for name in ("nr", "free", "surplus"):
                    texts["/sys/devices/system/node/node%d/hugepages/hugepages-%skB/%s_hugepages" % (chip, size, name)] = "0\n"
        for size in ("2048", "1048576"):
            for name in ("nr", "free", "resv", "surplus"):
                texts["/sys/kernel/mm/hugepages/hugepages-%skB/%s_hugepages" % (size, name)] = "0\n"
        return texts

    def moving(self):
        """Texts of this tick: path -> text."""
        texts = {"/proc/stat": self.stat(), "/proc/interrupts": self.interrupts(), "/proc/softirqs": self.softirqs(),
                 "/proc/net/softnet_stat": self.softnet(), "/proc/meminfo": self.meminfo("", 1),
                 "/proc/vmstat": self.vmstat(), "/proc/diskstats": self.diskstats(), "/proc/net/dev": self.net_dev(),
                 "/proc/net/snmp": self.snmp(), "/proc/net/snmp6": self.snmp6(), "/proc/net/sockstat": self.sockstat(),
                 "/proc/loadavg": "9.00 8.00 7.00 12/9000 %d\n" % (4000 + self.tick),
                 "/proc/buddyinfo": self.buddyinfo(), "/proc/zoneinfo": self.zoneinfo(),
                 "/proc/sys/fs/file-nr": "%d\t0\t99999999\n" % (90_000 + self.tick % 90),
                 "/proc/net/stat/arp_cache": self.arp_cache()}
        for name in ("cpu", "io", "memory"):
            total = self.counter(1000, 50)
            texts["/proc/pressure/" + name] = ("some avg10=0.00 avg60=0.00 avg300=0.00 total=%d\n"
                                               "full avg10=0.00 avg60=0.00 avg300=0.00 total=%d\n" % (total, total // 2))
        for node in range(self.nodes):
            folder = "/sys/devices/system/node/node%d" % node
            texts[folder + "/numastat"] = "".join("%s %d\n" % (key, self.counter(10, 900 * (i + 1))) for i, key in
                                                  enumerate(("numa_hit", "numa_miss", "numa_foreign", "interleave_hit",
                                                             "local_node", "other_node")))
            texts[folder + "/meminfo"] = self.meminfo("Node %d " % node, self.nodes)
            texts[folder + "/vmstat"] = self.vmstat()
            texts["/sys/class/hwmon/hwmon%d/temp1_input" % node] = "%d000\n" % (60 + self.tick % 5)
            texts["/sys/class/powercap/intel-rapl:%d/energy_uj" % node] = "%d\n" % self.counter(5, 30_000_000)
            for core in range(self.cpus // self.nodes // 2):
                texts["/sys/class/hwmon/hwmon%d/temp%d_input" % (node, core + 2)] = "%d000\n" % (55 + (core + self.tick) % 9)
        for cpu in range(self.cpus):
            folder = "/sys/devices/system/cpu/cpu%d" % cpu
            texts[folder + "/cpufreq/scaling_cur_freq"] = "%d\n" % (2_000_000 + (cpu * 7919 + self.tick * 104729) % 900_000)
            for what in ("core", "package"):
                texts[folder + "/thermal_throttle/%s_throttle_count" % what] = "%d\n" % (self.tick // 100)
                texts[folder + "/thermal_throttle/%s_throttle_total_time_ms" % what] = "%d\n" % (self.tick // 10)
        return texts

    def stat(self):
        rows = ["cpu  1 2 3 4 5 6 7 8 0 0"]
        for cpu in range(self.cpus):
            busy = self.busy[cpu]
            rows.append("cpu%d %d 0 %d %d %d 0 %d 0 0 0" % (
                cpu, self.counter(912_345_678, 8 * busy), self.counter(81_234_567, busy), self.counter(812_345_678, 9 - 9 * busy),
                self.counter(12_345, 0.1), self.counter(123_456, 0.2)))
        per_interrupt = " ".join(["0"] * 24 + [str(self.counter(9_999, 7))] * len(self.vector_cpu))
        rows += ["intr %d %s" % (self.counter(10**10, 90_000), per_interrupt), "ctxt %d" % self.counter(10**10, 50_000),
                 "btime 1700000000", "processes %d" % self.counter(10**6, 3), "procs_running 9", "procs_blocked 0",
                 "softirq %d" % self.counter(10**10, 40_000)]
        return "\n".join(rows) + "\n"

    def interrupts(self):
        cpus = range(self.cpus)
        rows = ["           " + " ".join("%10s" % ("CPU%d" % cpu) for cpu in cpus)]
        zero = " ".join(["%10d" % 0] * self.cpus)
        for number, owner in enumerate(self.vector_cpu):
            name = "mlx5_comp%d" % number
            if number >= self.nics * self.queues:
                name = "nvme%dq%d" % divmod(number - self.nics * self.queues, self.disk_queues)
            cells = zero[:11 * owner] + "%10d" % self.counter(1000, 3 + number % 11) + zero[11 * owner + 10:]
            rows.append("%4d: %s PCI-MSI %d-edge      %s" % (number + 24, cells, number, name))
        for place, name in enumerate(ARCHITECTURE):
            count = self.counter(10**6, 20 * (place + 1)) if place % 3 else 0
            rows.append("%4s: %s  %s" % (name, " ".join("%10d" % (count + cpu) if count else "%10d" % 0 for cpu in cpus),
                                         "interrupts of the architecture"))
        return "\n".join(rows) + "\n ERR:          0\n MIS:          0\n"

    def softirqs(self):
        cpus = range(self.cpus)
        rows = ["                    " + " ".join("%10s" % ("CPU%d" % cpu) for cpu in cpus)]
        for place, name in enumerate(SOFTIRQS):
            rows.append("%12s: %s" % (name, " ".join(
                "%10d" % self.counter(10**6 + cpu, (place + 1) * self.busy[cpu] * 5) for cpu in cpus)))
        return "\n".join(rows) + "\n"

    def softnet(self):
        rows = []
        for cpu in range(self.cpus):
            packets = self.counter(10**6, 900 * self.busy[cpu]) & 0xFFFFFFFF
            rows.append("%08x %08x %08x " % (packets, self.tick // 500, self.tick // 50) + "00000000 " * 6 +
                        "%08x 00000000 00000000 %08x 00000000 00000000" % (packets // 3, cpu))
        return "\n".join(rows) + "\n"

    def meminfo(self, prefix, share):
        rows = ["%s%s: %14d kB" % (prefix, key, (4 << 30) // share // (i + 1) - (self.tick * 4 * i) % 9999)
                for i, key in enumerate(MEMINFO)]
        return "\n".join(rows) + "\n%sHugePages_Total: 0\n%sHugePages_Free: 0\n" % (prefix, prefix)

    def vmstat(self):
        return "".join("%s %d\n" % (key, self.counter(10**6, i)) for i, key in enumerate(VMSTAT))

    def diskstats(self):
        return "".join(" 259 %d nvme%dn1 %s\n" % (disk, disk, " ".join(
            str(0 if column == 8 else self.counter(10**6, 13 * (column + disk + 1))) for column in range(17)))
            for disk in range(self.disks))

    def net_dev(self):
        rows = ["Inter-|   Receive", " face |bytes"]
        rows += [" eth%d: %s" % (nic, " ".join(str(self.counter(10**9, 10**6 // (column + 1))) for column in range(16)))
                 for nic in range(self.nics)]
        return "\n".join(rows) + "\n"

    def snmp(self):
        keys = ["Segs%d" % i for i in range(14)]
        return "Tcp: %s\nTcp: %s\n" % (" ".join(keys), " ".join(str(self.counter(10**6, i)) for i in range(len(keys))))

    def snmp6(self):
        return "".join("%-32s\t%d\n" % ("Ip6Out%d" % i, self.counter(10**5, i % 7)) for i in range(90))

    def buddyinfo(self):
        return "".join("Node %d, zone %8s %s \n" % (node, "Normal", " ".join(
            "%6d" % (4000 // (order + 1) + self.tick % (7 + order)) for order in range(11))) for node in range(self.nodes))

    def zoneinfo(self):
        rows = []
        for node in range(self.nodes):
            rows += ["Node %d, zone   Normal" % node, "  pages free     %d" % (10**7 - self.tick % 999), "        boost    0",
                     "        min      20000", "        low      30000", "        high     40000", "        managed  99999999"]
            rows += ["      nr_zone_%s %d" % (key, self.counter(10**6, i)) for i, key in
                     enumerate(("inactive_anon", "active_anon", "inactive_file", "active_file", "write_pending"))]
            rows.append("  pagesets")
            for cpu in range(self.cpus):
                rows += ["    cpu: %d" % cpu, "              count: %d" % ((cpu + self.tick) % 900), "              high:  9999",
                         "              batch: 63", "  vm stats threshold: 125"]
        return "\n".join(rows) + "\n"

    def arp_cache(self):
        return ("entries  allocs   destroys lookups  hits     forced_gc_runs table_fulls\n" +
                "".join("000007d0 %08x %08x %08x %08x 00000000 00000000\n" % (
                    self.tick // 10, self.tick // 10, self.tick * 9, self.tick * 8) for _ in range(self.cpus)))

    def sockstat(self):
        return ("sockets: used %d\nTCP: inuse 40 orphan 0 tw %d alloc 44 mem 70\nUDP: inuse 3 mem 2\n"
                % (500 + self.tick % 7, self.tick % 5))


def write_tree(folder, machine):
    for texts in (machine.fixed(), machine.moving()):
        for path, text in texts.items():
            os.makedirs(folder + os.path.dirname(path), exist_ok=True)
            with open(folder + path, "w", encoding="ascii") as file:
                file.write(text)


def folders_of(paths):
    """What a listing of each folder shows."""
    found = {}
    for path in paths:
        while path != "/":
            parent, name = os.path.split(path)
            found.setdefault(parent, set()).add(name)
            path = parent
    return found


class Recording:
    """core/kernel_text/recording.h says the format."""

    def __init__(self, folder):
        os.makedirs(folder, exist_ok=True)
        self.file = open(os.path.join(folder, "ticks.rec"), "w", encoding="ascii")
        self.file.write("reveal recording 1\n")
        self.known = {}

    def note(self, key, text):
        number, last = self.known.get(key, (len(self.known), None))
        if last is None:
            self.file.write("+ %d %s\n" % (number, key))
        if text != last:
            self.file.write("$ %d %d\n%s\n" % (number, len(text), text))
        self.known[key] = (number, text)

    def mark(self, tick):
        self.file.write("= %d %d\n" % (10**9 + tick * TICK, BEGIN + tick * TICK))


def write_recording(folder, machine, ticks):
    recording = Recording(folder)
    texts = {**machine.fixed(), **machine.moving()}
    for path, names in folders_of(texts).items():
        recording.note("D" + path, "".join(name + "\n" for name in sorted(names)))
    for path, text in texts.items():
        recording.note("F" + path, text)
    recording.note("@@sysconf", "100 4096")
    for tick in range(ticks):
        recording.mark(tick)
        machine.tick = tick
        for path, text in machine.moving().items():
            if path != "/proc/interrupts" or tick % 10 == 0:  # on large hosts nobody reads it more often
                recording.note("F" + path, text)
    recording.file.close()


def options_of(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", help="what to write")
    parser.add_argument("--cpus", type=int, default=128)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--disks", type=int, default=8)
    parser.add_argument("--nics", type=int, default=2)
    parser.add_argument("--queues", type=int, default=64, help="of each network card")
    parser.add_argument("--ticks", type=int, default=0, help="write a recording of so many tenths of a second")
    parser.add_argument("--measure", metavar="COLLECT", help="write some, run this collector on them, print its cost")
    parser.add_argument("--seconds", type=int, default=20, help="of each measurement")
    options = parser.parse_args(arguments)
    if not options.folder and not options.measure:
        parser.error("name a folder to write, or --measure")
    return options


def measure(options):
    print("%6s %6s %9s %9s %9s %7s" % ("cpus", "irqs", "channels", "cpu %", "rss MB", "files"))
    for cpus in (2, 96, 128, 256, 1152):
        options.cpus = cpus
        options.nodes = 1 if cpus == 2 else 8
        machine = Machine(options)
        folder = tempfile.mkdtemp(prefix="reveal-big-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        try:
            write_tree(folder, machine)
            print_cost(options, cpus, len(machine.vector_cpu), folder)
        finally:
            shutil.rmtree(folder)


def cpu_seconds(pid):
    with open("/proc/%d/stat" % pid, encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def print_cost(options, cpus, vectors, folder):
    """Without the start: that is read once."""
    trace = os.path.join(folder, "trace.h5")
    command = [options.measure, "--root", folder, "--output", trace, "--duration", "%ds" % (options.seconds + 10),
               "--verbose"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        time.sleep(6)
        before = cpu_seconds(child.pid)
        time.sleep(options.seconds)
        used = cpu_seconds(child.pid) - before
        with open("/proc/%d/status" % child.pid, encoding="ascii") as file:
            resident = int(next(line for line in file if line.startswith("VmRSS")).split()[1])
        files = len(os.listdir("/proc/%d/fd" % child.pid))
        said = child.communicate()[0]
    if child.returncode != 0:
        sys.exit("%s ended with %d" % (options.measure, child.returncode))
    channels = int(said.split(" channels")[0].split()[-1])
    print("%6d %6d %9d %9.2f %9.1f %7d" % (cpus, vectors, channels, 100 * used / options.seconds, resident / 1024,
                                           files), flush=True)


def main():
    options = options_of(sys.argv[1:])
    if options.measure:
        measure(options)
    elif options.ticks:
        write_recording(options.folder, Machine(options), options.ticks)
    else:
        write_tree(options.folder, Machine(options))


if __name__ == "__main__":
    main()
