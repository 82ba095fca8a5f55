"""The scenarios of the laboratory: each fault and each look-alike with its amount, what a report is to say of it, and the
workloads it makes sense for."""
from dataclasses import dataclass
from typing import Callable

from faults import (away, beside, burst, busy, cold, congestion, environment, file_server, fill, flood, garbage,
                    huge_pages, huge_pages_in_use, huge_pages_on_one, imports, kill, leak, local_queue, loss,
                    loss_and_quota, mapped_file, memory_group, memory_limit, modules, mtu, nfs, no_answer, of_group,
                    on_all, one_cpu, outsider, outsider_on, overtaking, quota, receive_buffer, slow_all, slow_disk,
                    slow_imports, slow_input, slow_rank, small_disk, small_tmpdir, softirq, stat_storm, stop,
                    stop_inside, swap, swap_out, threads, to_the_end, wide_port, written_file)


@dataclass(frozen=True)
class Scenario:
    help: str
    fault: Callable | None = None  # while the job runs; with none, the setting is the fault
    amount: float = 0
    subsystem: str | None = None
    also: tuple[str, ...] = ()  # subsystems the mechanism truly touches
    rule: str | None = None     # what the knowledge base calls it; none: a look-alike, of which nothing is to be said
    everywhere: bool = False    # the nodes share a kernel: its counters move on all of them
    workloads: tuple[str, ...] = ("*-*", "compress")  # patterns, for others it makes no sense; these fill their cpus
    nodes: int = 2
    setting: Callable | None = None  # from before the job begins until it has ended
    setting_amount: float = 0
    least_seconds: float = 0         # what the product needs to see it
    lasting: bool = False            # once begun, until the job ends
    kills: bool = False              # the job does not end well
    stack: bool = False              # only calls into the software stack tell of it
    remark: bool = False             # the product's finding is one: nothing was slower for it
    outside: float = 0               # cpus that the fault itself takes: swapping and serving files are the kernel's work
    more_rules: tuple[str, ...] = ()  # of further faults at the same time
    or_rules: tuple[str, ...] = ()    # that name the same cause: one of them, or `rule`


NETWORKED = ("*-train", "mpi-solver")
FULL = ("*-train", "*-infer", "io-heavy", "compress")  # those that use all their cpus all the time
OBEDIENT = ("mlp-*", "cnn-*", "encoder-*", "lora-*", "decoder-*", "accelerator-*", "io-heavy")
TORCH = ("mlp-train", "cnn-train", "encoder-train", "lora-train", "accelerator-train")  # an all-reduce in each step
WORKING = (*TORCH, "*-infer", "io-heavy")  # of these, a slow rank is seen
COLD = ("mlp-train", "cnn-train", "io-heavy")  # those that read from the disk all the time
STEADY = ("blas", "stencil", "stream")         # one busy thread, always the same
STEPS = tuple(each for each in TORCH if each != "lora-train")  # all of its parameters are trained

# Who is an outsider cannot be told where several nodes of a job share a kernel: there is one node in these.
SCENARIOS = {
    "healthy": Scenario("nothing", workloads=("*",)),
    "loss01": Scenario("0.1 % of the packets to one node are lost", loss, 0.1, "network", (), "net.tcp_retrans_fault",
                       workloads=NETWORKED),
    "loss02": Scenario("0.2 % of the packets to one node are lost", loss, 0.2, "network", (), "net.tcp_retrans_fault",
                       workloads=NETWORKED),
    "loss1": Scenario("1 % of the packets to one node are lost", loss, 1, "network", (), "net.tcp_retrans_fault",
                       workloads=NETWORKED),
    "congestion": Scenario("a switch port of 200 Mbit/s with a 64 KB buffer", congestion, 200, "network", (),
                           "net.congestion", workloads=("mlp-train", "encoder-train", "ring-train")),  # they send more
    "overtaking": Scenario("look-alike of loss: a tenth of the packets that one node sends are overtaken by others",
                           overtaking, 10, workloads=NETWORKED),
    "congestion_loose": Scenario("look-alike of congestion: a rate that the job does not reach", wide_port, 20000,
                                 workloads=NETWORKED),
    "local_queue": Scenario("look-alike of loss: the node's own queue passes on 100 Mbit/s and drops the rest",
                            local_queue, 100, "network", (), "net.tx_queue_drop",
                            workloads=("*-train",)),  # the solver sends less than that
    "softirq": Scenario("the packets of all interfaces on one cpu", softirq, 0, "network", ("interrupts", "cpu"),
                        "irq.softirq_saturation", True,
                        ("mlp-train", "ring-train")),  # the others send too little to fill a cpu with packets
    "softirq_idle": Scenario("look-alike of softirq: the same, while the job sends nothing", softirq, everywhere=True,
                             workloads=STEADY),
    "outsider100": Scenario("another process on a cpu of the job", outsider, 100, "cpu", ("process",), "cpu.outsider",
                            nodes=1, workloads=FULL),
    "outsider30": Scenario("30 % of a cpu of the job", outsider, 30, "cpu", ("process",), "cpu.outsider",
                           nodes=1, workloads=FULL),
    "outsider_beside": Scenario("look-alike of outsider100: another process on a cpu that the job does not use",
                                outsider_on(beside), 100, workloads=STEADY, nodes=1, setting=one_cpu),
    "slow_rank": Scenario("one rank has twice the work", slow_rank, 2, "process", ("cpu", "network"), "node.straggler",
                          workloads=WORKING, or_rules=("stack.slow_steps",)),
    "slow_all": Scenario("look-alike of slow_rank: all ranks have twice the work", slow_all, 2, everywhere=True,
                         workloads=OBEDIENT),
    "never_enters": Scenario("one rank goes to sleep before a collective, until the job is terminated",
                             to_the_end(away), 0, "process", ("network",), "stack.hang", workloads=TORCH,
                             least_seconds=50, kills=True, stack=True),
    # The report names the stop as its cause; `reveal watch` knows only that the ranks hang.
    "stopped_inside": Scenario("one rank is stopped inside a collective, until the job is terminated",
                               to_the_end(stop_inside), 0, "process", ("network",), "job.stopped", workloads=TORCH,
                               least_seconds=50, kills=True, stack=True, or_rules=("stack.hang",)),
    "stopped_briefly": Scenario("look-alike of stopped_inside: for a fifth of a second", stop_inside, 0.2,
                                workloads=TORCH, stack=True),
    "stall": Scenario("one rank sleeps before a collective", away, 0, "process", ("network",), "stack.stall",
                      workloads=TORCH, least_seconds=100, stack=True),
    "validation": Scenario("look-alike of stall: one rank computes while the others wait", busy, workloads=TORCH,
                           least_seconds=100, stack=True),
    "garbage": Scenario("one rank searches for garbage among a million objects in each step", garbage, 1, "process",
                        ("network", "cpu"), "stack.slow_steps", workloads=STEPS, least_seconds=100, stack=True,
                        or_rules=("stack.gc_pauses",)),
    "garbage_young": Scenario("look-alike of garbage: among the youngest objects only", garbage, 0, workloads=STEPS,
                              least_seconds=100, stack=True),
    "buckets": Scenario("an all-reduce for each of the model's 196 parameters", None, 0, "network", ("process",),
                        "stack.small_messages", True, ("deep-train",), 2, environment("BUCKET_MB", "0.00001"),
                        least_seconds=60, stack=True),
    "buckets_large": Scenario("look-alike of buckets: the usual size", None, 0, None, (), None, True, ("deep-train",),
                              2, environment("BUCKET_MB", "25"), least_seconds=60, stack=True),
    "slow_input": Scenario("the data loader of one rank takes longer than a step for each batch", slow_input, 150,
                           "process", ("network",), "stack.slow_steps", workloads=STEPS, stack=True),
    "slow_input_hidden": Scenario("look-alike of slow_input: as long as half a step, while the step is computed",
                                  slow_input, 30, workloads=("encoder-train", "accelerator-train"), stack=True),
    "import_storm": Scenario("all ranks import modules from a disk that answers 30 requests a second", slow_imports, 30,
                             "storage", ("process",), "stack.import_storm", True, STEPS, 2,
                             modules("VALUE = 1\n"), 1500, least_seconds=25, stack=True),
    "import_computing": Scenario("look-alike of import_storm: modules that compute while they are imported", imports,
                                 40, None, (), None, True, STEPS, 2, modules("VALUE = sum(range(2_000_000))\n"), 1500,
                                 least_seconds=25, stack=True),
    "stop": Scenario("one rank stands still 30 % of the time", stop, 30, "process", ("cpu", "network"), "job.stopped"),
    "quota": Scenario("one rank may use a quarter of a cpu", quota, 25, "cpu", ("process",), "cpu.cfs_throttled"),
    "quota_loose": Scenario("look-alike of quota: one rank may use two cpus", quota, 200),
    "two": Scenario("1 % of the packets to one node are lost, and the rank of the other may use a quarter of a cpu",
                    loss_and_quota, 1, "network", ("cpu", "process"), "net.tcp_retrans_fault", True, TORCH,
                    more_rules=("cpu.cfs_throttled",)),
    "flood": Scenario("200 MB/s of buffered writes", flood, 200, "storage", ("memory",), "mem.writeback_stall", True,
                      nodes=1),
    "flood_small": Scenario("look-alike of flood: 5 MB/s of buffered writes", flood, 5, everywhere=True, nodes=1),
    "leak": Scenario("one rank leaks 80 MB/s", leak, 80, "memory", ("process",), "mem.leak_oom_risk", True,
                     (*OBEDIENT, "blas", "stencil")),
    "mmap": Scenario("look-alike of leak: one rank maps a file and reads 80 MB/s of it", mapped_file, 80,
                     workloads=(*OBEDIENT, "blas", "stencil")),
    "slow_loading": Scenario("one rank reads its data at 4 MB/s", slow_disk, 4, "storage", ("process",),
                             "io.slow_reads", workloads=COLD),
    "slow_loading_loose": Scenario("look-alike of slow_loading: a limit of 1 GB/s that it does not meet", slow_disk,
                                   1000, workloads=COLD),
    # --- memory
    "swap": Scenario("half of the job's memory must go to a swap file and back", swap, 60, "memory",
                     ("storage", "process"), "mem.swap_activity", workloads=("stream",), nodes=1, setting=memory_group,
                     outside=0.8),
    "swap_out": Scenario("look-alike of swap: idle memory of others goes to swap and stays there", swap_out, 100,
                         workloads=STEADY, nodes=1, outside=0.5),
    "thrash": Scenario("the job's file no longer fits into its memory limit", memory_limit, 60, "memory",
                       ("storage", "process"), "mem.reclaim_thrash", workloads=("scan",), nodes=1, setting=memory_group),
    "thrash_cold": Scenario("look-alike of thrash: somebody drops the job's files from memory", cold,
                            workloads=("scan",), nodes=1),
    "oom": Scenario("the job leaks until its memory limit kills it", kill, 100, "memory", ("process",),
                    "mem.oom_killed", workloads=STEADY, nodes=1, setting=memory_group, lasting=True, kills=True),
    "oom_limit": Scenario("look-alike of oom: a limit that the job does not meet", memory_limit, 150,
                          workloads=STEADY, nodes=1, setting=memory_group),
    "huge_idle": Scenario("5 % of the memory set aside as huge pages", None, 0, "memory", (),
                          "mem.hugepages_reserved_idle", True, STEADY, 1, huge_pages, 5),
    "huge_used": Scenario("look-alike of huge_idle: the same, and in use", None, 0, None, (), None, True, STEADY, 1,
                          huge_pages_in_use, 5, outside=0.5),
    "huge_one": Scenario("1 % of the memory set aside as huge pages, on one of three nodes", None, 0, "memory", (),
                         "mem.hugepages_inconsistent", False, ("blas", "ring-train"), 3, huge_pages_on_one, 1),
    "huge_all": Scenario("look-alike of huge_one: on all three", None, 0, None, (), None, True, ("blas", "ring-train"),
                         3, huge_pages, 1),
    # --- settings
    "mtu": Scenario("smaller packets on one of three nodes", None, 0, "network", (), "net.mtu_mismatch", False,
                    ("ring-train", "flow", "blas"), 3, mtu, 1400),
    "mtu_all": Scenario("look-alike of mtu: on all three", None, 0, None, (), None, True,
                        ("ring-train", "flow", "blas"), 3, on_all(mtu), 1400),
    "drift": Scenario("less memory for sockets on one of three nodes", None, 0, "process", ("network",),
                      "node.config_drift", False, ("blas", "stencil"), 3, receive_buffer, 1 << 18, remark=True),
    "drift_all": Scenario("look-alike of drift: on all three", None, 0, None, (), None, True, ("blas", "stencil"), 3,
                          on_all(receive_buffer), 1 << 18, remark=True),
    "debug_env": Scenario("PyTorch's checks of collectives are left on", None, 0, "network", ("process",),
                          "nccl.debug_env_left", True, ("mlp-train", "cnn-train", "encoder-train"), 2,
                          environment("TORCH_DISTRIBUTED_DEBUG", "DETAIL")),
    "debug_off": Scenario("look-alike of debug_env: a value that costs nothing", None, 0, None, (), None, True,
                          ("mlp-train", "cnn-train", "encoder-train"), 2,
                          environment("TORCH_DISTRIBUTED_DEBUG", "OFF")),
    # --- cpu
    "crowd": Scenario("six threads for each cpu", None, 0, "cpu", ("process",), "cpu.oversubscribed", True,
                      ("compress",), 1, threads, 6),
    "crowd_fits": Scenario("look-alike of crowd: one thread for each cpu", None, 0, None, (), None, True,
                           ("compress",), 1, threads, 1),
    "narrow": Scenario("three processes on one of the node's cpus", None, 0, "cpu", ("process",),
                       "cpu.affinity_too_narrow", True, ("loader",), 1, one_cpu),
    "narrow_fits": Scenario("look-alike of narrow: one thread on one cpu", None, 0, None, (), None, True, STEADY, 1,
                            one_cpu),
    "service": Scenario("a service of the system takes 60 % of the job's cpu", of_group("system.slice/{lab}.service"),
                        60, "cpu", ("process",), "cpu.os_jitter", nodes=1),
    "neighbour": Scenario("another job takes 60 % of the job's cpu", of_group("slurm/uid_0/job_7/{lab}"), 60, "cpu",
                          ("process",), "node.noisy_neighbour", nodes=1),
    "service_small": Scenario("look-alike of service: it takes 2 % of the job's cpu",
                              of_group("system.slice/{lab}.service"), 2, nodes=1),
    "neighbour_beside": Scenario("look-alike of neighbour: another job on a cpu that this one does not use",
                                 of_group("slurm/uid_0/job_7/{lab}", beside), 100, workloads=STEADY, nodes=1,
                                 setting=one_cpu),
    # --- storage
    "full": Scenario("the job's file system is filled", fill, 99.9, "storage", (), "io.fs_full", workloads=("blas", "stream"),
                     nodes=1, setting=small_disk, setting_amount=600, lasting=True, least_seconds=25),
    "full_half": Scenario("look-alike of full: half of it", fill, 50, workloads=STEADY, nodes=1, setting=small_disk,
                          setting_amount=600, lasting=True),
    "full_tmpdir": Scenario("the file system of the job's TMPDIR is filled", fill, 99.9, "storage", (), "io.fs_full",
                            workloads=STEADY, nodes=1, setting=small_tmpdir, setting_amount=600, lasting=True,
                            least_seconds=25),
    "full_tmpdir_half": Scenario("look-alike of full_tmpdir: half of it", fill, 50, workloads=STEADY, nodes=1,
                                 setting=small_tmpdir, setting_amount=600, lasting=True),
    "burst": Scenario("others read from the disk, 128 requests at a time", burst, 128, "storage", ("process",),
                      "io.local_disk_saturated", everywhere=True, workloads=(*COLD, "copy", "sqlite", "checkpoint"),
                      nodes=1, setting=written_file, setting_amount=1000, least_seconds=15, outside=0.8),
    "metadata": Scenario("one rank asks an NFS server for the attributes of many files", stat_storm, 0, "storage",
                         ("process",), "io.metadata_storm", workloads=STEADY, nodes=1, setting=nfs, least_seconds=20,
                         outside=0.5),
    "metadata_local": Scenario("look-alike of metadata: the same files on a disk of the node", stat_storm,
                               workloads=STEADY, nodes=1, least_seconds=20),
    "hang": Scenario("the server of the job's files, a process that serves by FUSE, does not answer", no_answer, 0,
                     "storage", ("process",), "io.nfs_slow_server", workloads=("copy", "sort"), nodes=1,
                     setting=file_server, least_seconds=30, outside=0.5),
    "hang_served": Scenario("look-alike of hang: files of a server that answers", None, 0,
                            workloads=("copy", "service"), nodes=1, setting=file_server, outside=0.5),
}

# Named on the command line of bench/detection/lab.py.
GROUPS = {
    "named": ("outsider100", "flood", "loss1", "leak", "slow_rank"),
    # The faults that the software stack is to tell apart.
    "stack": ("slow_rank", "loss1", "buckets", "garbage", "import_storm", "never_enters", "stopped_inside",
              "slow_input"),
    "stack_alike": ("slow_all", "buckets_large", "garbage_young", "import_computing", "validation", "stopped_briefly",
                    "slow_input_hidden"),
}
