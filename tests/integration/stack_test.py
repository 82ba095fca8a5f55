#!/usr/bin/python3
"""What a whole run with --stack leaves in its trace, held against what the programs did: calls, bytes and errors of
doubles of NCCL and CUDA; of PyTorch over gloo, where it is installed, the steps that each rank logged, and the rank that
never entered a collective, which `reveal watch` reports meanwhile, as it does of ranks that are all inside one that does
not end; ranks that made a call with different sizes; and of MPI the calls that each rank logged, and the rank that came
late to them."""
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import BUILD, GLOO_WORK, TWO_RANKS, check as expect, failures, skip  # noqa: E402
from stack_runs import ATTACHED, DOUBLES, Job, need_counted_calls, of, totals  # noqa: E402

TOY = ATTACHED + """
nccl, cuda = ctypes.CDLL(sys.argv[1] + "/libnccl.so.2"), ctypes.CDLL(sys.argv[1] + "/libcudart.so.13")
attached(nccl, "ncclAllReduce"), attached(cuda, "cudaMalloc")
null = ctypes.c_void_p()
for i in range(1000):
    nccl.ncclAllReduce(null, null, ctypes.c_size_t(512), 7, 4 if i % 100 == 0 else 0, null, null)
for _ in range(30):
    cuda.cudaMalloc(null, ctypes.c_size_t(4096))
time.sleep(7.5)  # calls by duration are read every 5 s, and an answer may come a row late
sys.exit(7)
"""
SIZES = ATTACHED + """
nccl = ctypes.CDLL(sys.argv[1] + "/libnccl.so.2")
attached(nccl, "ncclCommInitRank"), attached(nccl, "ncclAllReduce")
class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 128)]
rank, comm, null = int(os.environ["RANK"]), ctypes.c_void_p(), ctypes.c_void_p()
nccl.ncclCommInitRank(ctypes.byref(comm), 2, UniqueId((ctypes.c_ubyte * 128)(9, *range(40))), rank)
for step in range(60):
    elements = int(sys.argv[2]) if rank == 1 and step == 59 else 512
    nccl.ncclAllReduce(null, null, ctypes.c_size_t(elements), 7, 0, comm, null)
    time.sleep(.1)
open(f"{sys.argv[3]}.{rank}", "w").close()  # the double waits for nobody: both stand still from here on
while not all(os.path.exists(f"{sys.argv[3]}.{each}") for each in range(2)):
    time.sleep(.05)
time.sleep(15)  # longer than reveal.conf asks for
sys.exit(3)
"""
# Ranks that meet before each call, the last one of which never returns: the double sleeps for so many nanoseconds as its
# communicator says.
INSIDE = ATTACHED + """
import socket
nccl, null = ctypes.CDLL(sys.argv[1] + "/libnccl.so.2"), ctypes.c_void_p()
attached(nccl, "ncclAllReduce")
rank, place = int(os.environ["RANK"]), ("127.0.0.1", int(os.environ["MASTER_PORT"]))
def connection():
    if rank == 0:
        return socket.create_server(place).accept()[0]
    for _ in range(600):
        try:
            return socket.create_connection(place)
        except OSError:
            time.sleep(.1)
    sys.exit(9)
def reduce_together(nanoseconds):
    other.sendall(b".")
    other.recv(1)
    nccl.ncclAllReduce(null, null, ctypes.c_size_t(512), 7, 0, ctypes.c_void_p(nanoseconds), null)
other, last, longest = connection(), time.monotonic(), 0
for step in range(200):
    reduce_together(1)
    longest, last = max(longest, time.monotonic() - last), time.monotonic()
    time.sleep(.1)
with open(f"{sys.argv[2]}.{rank}", "w") as log:
    log.write(str(longest))
reduce_together(3600 * 10**9)
"""
REAL = ATTACHED + """
cuda, nccl = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(sys.argv[2])
attached(cuda, "cudaMalloc"), attached(nccl, "ncclAllReduce")
class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 128)]
code = ctypes.cast(nccl.ncclCommInitRankConfig, ctypes.POINTER(ctypes.c_ubyte))
at = 10 if code[:2] == [0x48, 0xb8] else 0  # behind a mov that sets rax
made = 3 * (code[at] in (0xcc, 0x41, *range(0x50, 0x58)))  # else it would be single-stepped
if made:
    attached(nccl, "ncclCommInitRankConfig", at)
pointer, null = ctypes.c_void_p(), ctypes.c_void_p()
for _ in range(made):
    nccl.ncclCommInitRankConfig(ctypes.byref(pointer), 0, UniqueId(), 0, null)  # of no ranks: it fails
results = [cuda.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(4096)) for _ in range(500)]
refused = [nccl.ncclAllReduce(null, null, ctypes.c_size_t(100), 9, 0, null, null) for _ in range(300)]
with open(sys.argv[3], "w") as log:
    json.dump([sum(result != 0 for result in results), sum(result != 0 for result in refused), made], log)
time.sleep(2.5)  # an answer may come a row late
"""
RANK = ATTACHED + """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
steps = int(sys.argv[2])
folder = os.path.join(os.path.dirname(torch.__file__), "lib")
torch_cpu = ctypes.CDLL(os.path.join(folder, "libtorch_cpu.so"))
dist.init_process_group("gloo")
torch.set_num_threads(1)
model = DistributedDataParallel(torch.nn.Linear(64, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=.01)
attached(torch_cpu, sys.argv[1])
dist.barrier()
time.sleep(2.5)  # the preparation has a collective whose size is not known
done, around = 0, []  # when each backward pass was called, and when it was over
now = lambda: time.clock_gettime_ns(time.CLOCK_MONOTONIC)
for step in range(steps):
    optimizer.zero_grad()
    loss = model(torch.randn(16, 64)).square().mean()
    begin = now()
    loss.backward()
    around.append((begin, now()))
    optimizer.step()
    done += 1
class Bad(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()
    @staticmethod
    def backward(context, gradient):
        raise ValueError("no gradient")
try:
    Bad.apply(torch.ones(1, requires_grad=True)).backward()  # an exception that passes through the engine
except ValueError:
    done += 1
with open(f"{sys.argv[3]}/steps.{dist.get_rank()}", "w") as log:
    json.dump([done, around], log)
dist.barrier()
time.sleep(2.5)  # an answer may come a row late
"""
AWAY = ATTACHED + """
import torch, torch.distributed as dist
torch_cpu = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"))
dist.init_process_group("gloo")
attached(torch_cpu, sys.argv[1])
value, last, longest = torch.ones(8), time.monotonic(), 0
for step in range(200):
    (torch.ones(8, requires_grad=True) * value).sum().backward()
    dist.all_reduce(value)
    longest, last = max(longest, time.monotonic() - last), time.monotonic()
    time.sleep(.1)
with open(f"{sys.argv[3]}.{dist.get_rank()}", "w") as log:
    log.write(str(longest))
def load_data():
    time.sleep(600)
if dist.get_rank() == 1 and sys.argv[2] == "away":
    load_data()
dist.all_reduce(value)
time.sleep(15)  # of the others, where none is away: longer than reveal.conf asks for
sys.exit(3)
"""
MPI = ATTACHED + """
from array import array
from mpi4py import MPI
library = ctypes.CDLL(next(line.split()[-1] for line in open("/proc/self/maps") if "/libmpi.so" in line))
world, logged, measured = MPI.COMM_WORLD, {}, {}
def call(function, name, *arguments):
    if name not in measured:
        code = ctypes.cast(getattr(library, name), ctypes.POINTER(ctypes.c_ubyte))
        at = 7 if code[:3] == [0x48, 0x8b, 0x05] else 0  # behind a mov that sets rax
        measured[name] = code[at] in (0xcc, 0xf3, 0x41, *range(0x50, 0x58))  # else it would be single-stepped
        if measured[name]:
            attached(library, name, at)
    logged[name] = logged.get(name, 0) + 1
    return function(*arguments)
one, two, other = array("d", [1.0] * 64), array("d", [0.0] * 128), 1 - world.rank
for _ in range(200):
    call(world.Allreduce, "MPI_Allreduce", one, two[:64])
for _ in range(50):
    call(world.Bcast, "MPI_Bcast", one)
    call(world.Barrier, "MPI_Barrier")
for _ in range(20):
    call(world.Gather, "MPI_Gather", one, two)
    call(world.Scatter, "MPI_Scatter", two, one)
    call(world.Allgatherv, "MPI_Allgatherv", one, two)
for _ in range(30):
    call(call(world.Iallreduce, "MPI_Iallreduce", one, two[:64]).Wait, "MPI_Wait")
    requests = [call(world.Isend, "MPI_Isend", one, other), call(world.Irecv, "MPI_Irecv", two, other)]
    call(MPI.Request.Waitany, "MPI_Waitany", requests)
    call(MPI.Request.Waitall, "MPI_Waitall", requests)
for _ in range(25 * (world.rank == 0)):
    call(world.Send, "MPI_Send", one, other)
for _ in range(25 * (world.rank == 1)):
    call(world.Recv, "MPI_Recv", two, other)
file = MPI.File.Open(world, sys.argv[1] + "/shared", MPI.MODE_CREATE | MPI.MODE_WRONLY)
for step in range(5):
    call(file.Write, "MPI_File_write", one)
    call(file.Write_all, "MPI_File_write_all", one)
    call(file.Write_at, "MPI_File_write_at", 512 * step, one)
    call(file.Write_at_all, "MPI_File_write_at_all", 512 * step, one)
file.Close()
with open(f"{sys.argv[1]}/calls.{world.rank}", "w") as log:
    json.dump([logged, measured], log)
time.sleep(2.5)  # an answer may come a row late
"""
# Ranks that meet in each step; one of them comes later.
LATE = ATTACHED + """
from array import array
from mpi4py import MPI
library = ctypes.CDLL(next(line.split()[-1] for line in open("/proc/self/maps") if "/libmpi.so" in line))
attached(library, "MPI_Allreduce")
time.sleep(2)  # until the other functions are attached, too
world, one, two, entered = MPI.COMM_WORLD, array("d", [1.0] * 64), array("d", [0.0] * 64), []
pause = float(sys.argv[1]) + float(sys.argv[2]) * (world.rank == 1)
for step in range(400):
    time.sleep(pause)
    entered.append(time.clock_gettime_ns(time.CLOCK_MONOTONIC))
    world.Allreduce(one, two)
if world.rank == 1:
    with open(sys.argv[3], "w") as log:
        json.dump(entered, log)
time.sleep(2.5)  # an answer may come a row late
"""
BACKWARD = "_ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EERKS2_IN2at6TensorESaIS9_EEbbbS7_"


class WatchedJob(Job, threading.Thread):
    """Also reads what `reveal watch` tells of it meanwhile. With `ends_it`, the job ends some seconds after a hang was
    told: its report is to have a hang that is longer than reveal.conf asks for."""

    def __init__(self, folder, ends_it, *command):
        threading.Thread.__init__(self)
        folder.mkdir(mode=0o700)
        self.ends_it, self.hangs = ends_it, []
        self.watch = subprocess.Popen([BUILD / "bin/reveal", "watch", "--json", folder], stdout=subprocess.PIPE, text=True)
        Job.__init__(self, folder, *command)
        self.start()

    def run(self):
        with self.watch:
            for line in map(json.loads, self.watch.stdout):
                if line.get("news") != "hang":
                    continue
                self.hangs.append(line["text"])
                if self.ends_it:
                    time.sleep(6)
                    self.process.terminate()


def expect_soon(job, longest):
    """What `reveal watch` told: once, and soon where no step before it took long. Only of ranks at a steady pace a hang is
    told sooner than after the report's 30 seconds."""
    lasted = [float(seconds) for text in job.hangs for seconds in re.findall(r"in the last ([0-9.]+) s ", text)]
    print(f"while it ran: {job.hangs}; the longest step before it took {longest:.1f} s")
    expect(len(lasted) == job.ends_it, f"live: {job.hangs}")
    expect(longest > 2 or all(seconds <= 25 for seconds in lasted), f"live: {job.hangs}")


def findings(folder, *options):
    told = subprocess.run([BUILD / "bin/reveal", "report", *options, folder], capture_output=True, text=True, check=False)
    expect(told.returncode == 0, f"no report: {told.stderr}")
    return {finding["id"]: finding for finding in json.loads((folder / "report.json").read_text())["findings"]}


try:
    import h5py
except ImportError:
    skip("python3-h5py is not installed")
need_counted_calls()
torch_is_here = subprocess.run([sys.executable, "-c", "import sys, torch.distributed as d; sys.exit(not d.is_available())"],
                               capture_output=True, check=False).returncode == 0

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    os.environ |= {"HOME": name, "XDG_RUNTIME_DIR": name}
    for script, text in (("launch.py", TWO_RANKS), ("sizes.py", SIZES), ("away.py", AWAY), ("inside.py", INSIDE)):
        (folder / script).write_text(text)
    (folder / "reveal.conf").write_text('[rule."stack.hang"]\nmin_seconds = 10\n')
    ranks = [sys.executable, folder / "launch.py"]
    # Ranks that stand still need no cpu: all of them at the same time, beside the jobs that are looked at first.
    different = {elements: Job(folder / f"sizes-{elements}", *ranks, folder / "sizes.py", DOUBLES, str(elements),
                               folder / f"stands-{elements}") for elements in (256, 512)}
    apart = {rank_1: WatchedJob(folder / rank_1, rank_1 == "away", "timeout", "150", *ranks, folder / "away.py", GLOO_WORK,
                                rank_1, folder / f"longest-{rank_1}") for rank_1 in ("away", "there") if torch_is_here}
    inside = WatchedJob(folder / "inside", True, "timeout", "150", *ranks, folder / "inside.py", DOUBLES,
                        folder / "longest-inside")

    print("== doubles of NCCL and CUDA")
    (folder / "toy.py").write_text(TOY)
    Job(folder / "toy", sys.executable, folder / "toy.py", DOUBLES).end(7)
    with h5py.File(folder / "toy/here.h5") as trace:
        calls, moved = totals(trace, "calls", "stack.calls"), totals(trace, "bytes", "stack.bytes")
        errors = totals(trace, "errors", "stack.errors")
        print(calls, moved, errors)
        expect(of(calls, "ncclAllReduce") == [1000], f"1,000 all-reduces are {calls}")
        expect(of(moved, "ncclAllReduce") == [1000 * 512 * 4], f"2,048,000 bytes are {moved}")
        expect(of(errors, "ncclAllReduce") == [10], f"10 errors are {errors}")
        expect(of(calls, "cudaMalloc") == [30] and of(moved, "cudaMalloc") == [30 * 4096], f"{calls} {moved}")
        by_duration = totals(trace, "histogram", "stack.histogram")
        print(by_duration)
        for function, count in ("ncclAllReduce", 1000), ("cudaMalloc", 30):
            its = sum(each for instance, each in by_duration.items() if f"/{function}/2^" in instance)
            expect(its == count, f"{count} calls of {function} by duration are {by_duration}")
    failed = findings(folder / "toy").get("stack.errors", {}).get("sentence", "")
    print(failed)
    expect(failed.startswith("10 calls of ncclAllReduce") and "NCCL result 4, ncclInvalidArgument" in failed, f"10 errors are told as {failed!r}")

    print("== ranks whose last call has different sizes")
    for elements, job in different.items():
        job.end(3)
        with h5py.File(folder / f"sizes-{elements}/here.h5") as trace:
            events = trace["events"][:]
        texts = [row["text"].decode() for row in events if row["code"] == b"last_collectives"]
        print(texts)
        parts = [dict(word.split("=", 1) for word in text.split()) for text in texts]
        expect(sorted(part.get("rank", "") for part in parts) == ["0", "1"], f"ranks: {texts}")
        expect(all(part["ranks"] == "2" and part["calls"] == "60" for part in parts), f"calls: {texts}")
        expect(len({part.get("id") for part in parts}) == 1 and parts[0].get("id"), f"one communicator: {texts}")
        begun = [dict(word.split("=", 1) for word in row["text"].decode().split())
                 for row in events if row["code"] == b"communicator_begin"]
        expect(sorted((each["ranks"], each["rank"], each["id"]) for each in begun)
               == [("2", rank, parts[0]["id"]) for rank in "01"], f"begins of the communicator: {begun}")
        hang = findings(folder / f"sizes-{elements}", "--config", folder / "reveal.conf").get("stack.hang")
        print(hang and hang["sentence"])
        if elements == 512:
            expect(hang is None, f"the same size: {hang}")
            continue
        told = hang["sentence"] if hang else ""
        for size in 2048, 1024:
            expect(f"called ncclAllReduce ({size} bytes, call 60 on communicator 1 with 2 ranks)" in told, f"sizes: {told!r}")

    print("== the real libraries of CUDA and NCCL, with or without a driver")
    libraries = [sorted(glob.glob(f"/usr/local/cuda*/lib*/{name}") + glob.glob(f"/usr/lib/*/{name}"))
                 for name in ("libcudart.so.1*", "libnccl.so.2")]
    if not all(libraries):
        print("skipped: libcudart or libnccl is in none of the usual places")
    else:
        (folder / "real.py").write_text(REAL)
        Job(folder / "real", sys.executable, folder / "real.py", libraries[0][0], libraries[1][0], folder / "log").end(0)
        *refused, made = json.loads((folder / "log").read_text())
        with h5py.File(folder / "real/here.h5") as trace:
            calls, moved = totals(trace, "calls", "stack.calls"), totals(trace, "bytes", "stack.bytes")
            errors = totals(trace, "errors", "stack.errors")
            print(calls, moved, errors, "logged", refused)
            expect(of(calls, "cudaMalloc") == [500] and of(moved, "cudaMalloc") == [500 * 4096], f"{calls} {moved}")
            expect(of(calls, "ncclAllReduce") == [300] and of(moved, "ncclAllReduce") == [300 * 200], f"{calls} {moved}")
            expect(of(errors, "cudaMalloc") + of(errors, "ncclAllReduce") == refused, f"{refused} errors are {errors}")
            expect(of(calls, "ncclCommInitRankConfig") == [made] * (made > 0), f"{made} communicators are {calls}")
        failed = findings(folder / "real").get("stack.errors", {}).get("sentence", "")
        print(failed)
        expect(bool(failed) == any(refused), f"{refused} errors are told as {failed!r}")

    print("== a rank that never enters a collective")
    for rank_1, job in apart.items():
        job.end(128 + signal.SIGTERM if job.ends_it else 3)
        job.join()
        expect_soon(job, max(float((folder / f"longest-{rank_1}.{rank}").read_text()) for rank in range(2)))
        hang = findings(folder / rank_1, "--config", folder / "reveal.conf").get("stack.hang")
        if rank_1 == "there":
            expect(hang is None, f"all ranks were there: {hang}")
            continue
        expect(hang is not None, f"no hang in {os.listdir(folder / rank_1)}")
        if hang is not None:
            print(hang["sentence"], hang["main_threads"])
            expect(len(hang["instances"]) == 1, f"the rank that was away: {hang['instances']}")
            away = f"{hang['instances'][0]} on here"
            awaited = f"waited in gloo.allreduce (32 bytes, on communicator 1 with 2 ranks) for {away}, which did not enter it"
            expect(awaited in hang["sentence"], hang["sentence"])
            expect(any(away in place and "load_data" in place for place in hang["main_threads"]),
                   f"where it was: {hang['main_threads']}")

    print("== ranks that are all inside a collective that does not end")
    inside.end(128 + signal.SIGTERM)
    inside.join()
    expect_soon(inside, max(float((folder / f"longest-inside.{rank}").read_text()) for rank in range(2)))
    expect(all("all 2 ranks were in ncclAllReduce" in text for text in inside.hangs), f"live: {inside.hangs}")
    hang = findings(folder / "inside", "--config", folder / "reveal.conf").get("stack.hang")
    expect(hang is not None, f"no hang in {os.listdir(folder / 'inside')}")
    if hang is not None:
        places = hang.get("main_threads", [])
        print(hang["sentence"], places)
        awaited = "all 2 ranks were in ncclAllReduce (2048 bytes, on communicator 2), and it did not end"
        expect(awaited in hang["sentence"], hang["sentence"])
        expect(not hang["instances"], f"nobody is waited for: {hang['instances']}")
        expect(any("reduce_together (inside.py:" in place for place in places), f"where they were: {places}")

    print("== PyTorch over gloo")
    if not torch_is_here:
        print("skipped: PyTorch is not installed")
    else:
        (folder / "rank.py").write_text(RANK)
        Job(folder / "torch", *ranks, folder / "rank.py", BACKWARD, "200", folder).end(0)
        logs = [json.loads((folder / f"steps.{rank}").read_text()) for rank in range(2)]
        logged = [done for done, _ in logs]
        with h5py.File(folder / "torch/here.h5") as trace:
            calls, counted = totals(trace, "calls", "stack.calls"), totals(trace, "calls", "stack.steps")
            moved, together = totals(trace, "bytes", "stack.bytes"), totals(trace, "time", "stack.communication")
            spent = totals(trace, "time", "stack.time")
            print(calls, counted, "logged", logged)
            expect(of(calls, "torch.backward") == logged == [201, 201], f"{logged} steps are {calls}")
            expect(sorted(counted.values()) == [201, 201], f"{logged} steps are {counted}")
            products = of(calls, "torch.addmm")  # one in each forward pass of a linear layer
            expect(len(products) == 2 and min(products) >= 200, f"products of matrices: {calls}")
            expect(of(calls, "gloo.allreduce") != [], f"no all-reduce: {calls}")
            gradients = 4 * (64 * 8 + 8)  # bytes of each step
            print("bytes", moved, "together", together, "time", spent)
            expect(len(of(moved, "gloo.allreduce")) == 2, f"bytes of gloo: {moved}")
            expect(all(200 * gradients <= each <= 202 * gradients for each in of(moved, "gloo.allreduce")), f"{moved}")
            expect(len(together) == 2 and all(0 < each <= spent[f"{rank}/c10d.work"] for rank, each in together.items()),
                   f"time with a collective under way: {together}, of all threads: {spent}")
            table = trace["steps"][:]
        matched = {}
        for name in set(table["rank"]):
            rows = table[table["rank"] == name]
            expect(list(rows["number"]) == list(range(1, 201)), f"{name}: {list(rows['number'])}")
            expect((rows["begin_ns"][:-1] + rows["duration_ns"][:-1] == rows["begin_ns"][1:]).all(), "durations")
            expect((rows["waiting_ns"] == -2**63).all(), "gloo's waiting is not measured")
            collects = any(instance.endswith("/python.gc") for instance in calls)
            expect((rows["gc_ns"][1:] >= 0).all() if collects else (rows["gc_ns"] <= 0).all(),
                   f"time of the steps in the garbage collector: {list(rows['gc_ns'])}")
            expect((rows["bytes"][1:-1] == gradients).all(), f"bytes of the steps: {list(rows['bytes'])}")
            for rank, (_, around) in enumerate(logs):
                if all(begin <= row <= end for row, (begin, end) in zip(rows["begin_ns"], around)):
                    matched[rank] = [int(row - begin) / 1e3 for row, (begin, _) in zip(rows["begin_ns"], around)]
        expect(len(matched) == 2, f"steps that began when they were logged: of ranks {list(matched)}")
        for rank, late in matched.items():
            print(f"rank {rank}: steps begin {sorted(late)[len(late) // 2]:.0f} us (median) behind the call in Python")
        found = findings(folder / "torch")
        expect(not [one for one in found if one.startswith("stack.")], f"of a healthy training: {found}")
        report = json.loads((folder / "torch/report.json").read_text())
        expect(report["totals"][0]["steps"] == 201, f"the report counts {report['totals'][0]['steps']} steps")

    print("== MPI")
    found = subprocess.run([sys.executable, "-c", "import mpi4py.MPI"], capture_output=True, check=False)
    if found.returncode != 0 or shutil.which("mpirun") is None:
        print("skipped: mpi4py or OpenMPI is not installed")
    else:
        (folder / "mpi.py").write_text(MPI)
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        Job(folder / "mpi", "mpirun", *root, "--oversubscribe", "-n", "2", sys.executable, folder / "mpi.py", folder).end(0)
        logs = [json.loads((folder / f"calls.{rank}").read_text()) for rank in range(2)]
        with h5py.File(folder / "mpi/here.h5") as trace:
            calls = totals(trace, "calls", "stack.calls")
        print(calls)
        expect(sum(logs[0][1].values()) > 10, f"functions that can be probed: {logs[0][1]}")
        logged = [sorted((name, count) for name, count in names.items() if probed[name]) for names, probed in logs]
        counted = {}
        for process, name in (instance.split("/") for instance in calls):
            if name in logs[0][0] | logs[1][0]:
                counted.setdefault(process, []).append((name, calls[f"{process}/{name}"]))
        counted = sorted(sorted(names) for names in counted.values())
        expect(counted == sorted(logged), f"calls of MPI: counted {counted}, logged {logged}")

        print("== a rank of MPI for which the others wait")
        (folder / "late.py").write_text(LATE)
        for job, pauses in ("late", (".005", ".02")), ("in-time", (".025", "0")):
            Job(folder / job, "mpirun", *root, "--oversubscribe", "-n", "3", sys.executable, folder / "late.py", *pauses,
                folder / "entered").end(0)
            with h5py.File(folder / job / "here.h5") as trace:
                table = trace["collectives"][:]
            table = table[table["function"] == b"MPI_Allreduce"]
            entered = json.loads((folder / "entered").read_text())
            ranks = sorted(set(table["rank"]))
            apart = {name.decode(): statistics.median(int(row["begin_ns"]) - entered[row["number"] - 1]
                                                      for row in table[table["rank"] == name]) for name in ranks}
            its = [name for name, behind in apart.items() if 0 <= behind < 2e6]
            print(f"{len(table)} calls, which began so many ns behind those that rank 1 logged: {apart}")
            expect(len(ranks) == 3 and set(table[table["last"] == 1]["number"]) <= {400}, f"calls: {table}")
            late = findings(folder / job).get("stack.late_rank")
            print(late and late["sentence"])
            if job == "in-time":
                expect(late is None, f"no rank is late: {late}")
                continue
            expect(late is not None and late["instances"] == its, f"{its} is late: {late}")
            if late is not None:
                said = late["evidence"][0]["observed"]
                expect(16e6 <= said <= 25e6 and "entered MPI_Allreduce" in late["sentence"], f"20 ms late: {late}")

sys.exit(1 if failures else 0)
