#!/usr/bin/python3
"""What `reveal-run --stack` makes of input and of systems that it cannot choose: the job keeps its exit status, calls are
counted exactly or said not to be. Libraries without their symbol table, without sections, and replaced while they are
mapped; a rank that begins another program, and one that forks; a function that is called as often as a processor can; no
room for locked memory; and an ordinary user, or a seccomp filter, for whom the kernel refuses BPF. All jobs run side by
side, and most of them wait."""
import csv
import io
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import BUILD, check, end, failures, skip  # noqa: E402
from stack_runs import ATTACHED, DOUBLES, Job, coverage, of, totals, why_not_counted  # noqa: E402

CALLS = ATTACHED + """
null = ctypes.c_void_p()
def reduce(library, times):
    for _ in range(times):
        library.ncclAllReduce(null, null, ctypes.c_size_t(512), 7, 0, null, null)
def allocate(library, times):
    for _ in range(times):
        library.cudaMalloc(null, ctypes.c_size_t(4096))
def leave(status):
    time.sleep(2.5)  # an answer may come a row late
    sys.exit(status)
"""
# loads.py DOUBLES LIBRARY counted|not [OTHER]: the library is opened before the other one takes its place. Without calls
# that are counted there, those of CUDA show that the collector has looked at the process.
LOADS = CALLS + """
file = os.open(sys.argv[2], os.O_RDONLY)
if sys.argv[4:]:
    os.rename(sys.argv[4], sys.argv[2])
nccl, cuda = ctypes.CDLL(f"/proc/self/fd/{file}"), ctypes.CDLL(sys.argv[1] + "/libcudart.so.13")
if sys.argv[3] == "counted":
    attached(nccl, "ncclAllReduce")
attached(cuda, "cudaMalloc")
reduce(nccl, 300), allocate(cuda, 30)
leave(7)
"""
# The same process, and another program in it.
BEGINS = CALLS + """
nccl = ctypes.CDLL(sys.argv[1] + "/libnccl.so.2")
attached(nccl, "ncclAllReduce")
reduce(nccl, 100)
os.execv(sys.executable, [sys.executable, sys.argv[2], sys.argv[1]])
"""
GOES_ON = CALLS + """
nccl, cuda = ctypes.CDLL(sys.argv[1] + "/libnccl.so.2"), ctypes.CDLL(sys.argv[1] + "/libcudart.so.13")
attached(nccl, "ncclAllReduce"), attached(cuda, "cudaMalloc")
reduce(nccl, 50), allocate(cuda, 30)
leave(7)
"""
# The child has copies of its parent's breakpoints: it calls a library that only it has loaded.
FORKS = CALLS + """
nccl = ctypes.CDLL(sys.argv[1] + "/libnccl.so.2")
attached(nccl, "ncclAllReduce")
reduce(nccl, 100)
child = os.fork()
if child == 0:
    own = ctypes.CDLL(sys.argv[2])
    attached(own, "ncclAllReduce")
    reduce(own, 70)
    os._exit(5)
_, status = os.waitpid(child, 0)
reduce(nccl, 30)
leave(7 if os.waitstatus_to_exitcode(status) == 5 else 8)
"""
# Writes down how often it called cudaFree, a million times of which without a breakpoint, as the function's code shows.
OFTEN = CALLS + """
import collections, itertools
cuda = ctypes.CDLL(sys.argv[1] + "/libcudart.so.13")
attached(cuda, "cudaMalloc"), attached(cuda, "cudaFree")
allocate(cuda, 30)
code, made = ctypes.cast(cuda.cudaFree, ctypes.POINTER(ctypes.c_ubyte)), 0
def free(times):
    collections.deque(map(cuda.cudaFree, itertools.repeat(None, times)), maxlen=0)  # no line of Python between two calls
    return times
while code[0] == 0xcc and made < 50_000_000:
    made += free(100_000)
made += free(1_000_000)
with open(sys.argv[2], "w") as log:
    json.dump([made, code[0] == 0xcc], log)
leave(7)
"""
STANDS = """
import sys, time
def load_batch():
    time.sleep(6)
load_batch()
sys.exit(7)
"""
# Its command cannot call bpf(), nor can what that starts: as in containers.
WITHOUT_BPF = """
import ctypes, os, struct, sys
SECCOMP, FILTER, NO_NEW_PRIVS, BPF = 22, 2, 38, 321
LOAD, EQUAL, RETURN, REFUSED, ALLOWED = 0x20, 0x15, 0x06, 0x50001, 0x7fff0000  # REFUSED: with EPERM
words = [(LOAD, 0, 0, 0), (EQUAL, 0, 1, BPF), (RETURN, 0, 0, REFUSED), (RETURN, 0, 0, ALLOWED)]
code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *word) for word in words))
program = ctypes.create_string_buffer(struct.pack("@HP", len(words), ctypes.addressof(code)))
prctl, number = ctypes.CDLL(None).prctl, ctypes.c_ulong
if prctl(NO_NEW_PRIVS, number(1), number(0), number(0), number(0)) or prctl(SECCOMP, number(FILTER), program):
    sys.exit(9)
os.execv(sys.argv[1], sys.argv[1:])
"""
REFUSED = re.compile(r"(BPF|a BPF (map|program)|attaching to a function) is refused: it needs root, or CAP_BPF and "
                     "CAP_PERFMON")
AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
REPLACED = "libnccl.so.2 cannot be read (another file is at its path now)"
OPENS_ITS_MAPPINGS = (1 << 21) | (1 << 40)  # CAP_SYS_ADMIN, CAP_CHECKPOINT_RESTORE


def capabilities():
    return int(re.search(r"(?m)^CapEff:\s*([0-9a-f]+)", pathlib.Path("/proc/self/status").read_text())[1], 16)


def without_sections(source, target):
    """As tools make it that leave nothing but what the loader needs: there is no table of symbols that has a name."""
    image = bytearray(source.read_bytes())
    image[0x28:0x30] = bytes(8)  # e_shoff
    image[0x3a:0x40] = bytes(6)  # e_shentsize, e_shnum, e_shstrndx
    target.write_bytes(image)


def place_of_library(name):
    path = folder / name / "libnccl.so.2"
    path.parent.mkdir()
    shutil.copy(DOUBLES / "libnccl.so.2", path)
    return path


def start(name, script, *arguments, under=()):
    home = folder / f"{name}.home"  # its own: that of one user is refused by another one's
    home.mkdir()
    home.chmod(0o777)
    running[name] = Job(folder / f"{name}.trace", sys.executable, folder / script, *arguments, under=under,
                        variables={"HOME": str(home), "XDG_RUNTIME_DIR": str(home)})


def counted(name, status=7):
    """The trace, after the job's end."""
    print("==", name)
    job = running.pop(name)
    job.end(status)
    trace = h5py.File(job.folder / "here.h5")
    print(totals(trace, "calls", "stack.calls"), coverage(trace, "stack"))
    return trace


def expect_counts(name, reductions, allocations, note=""):
    """Calls by process; with the note, or none about the library, in the coverage."""
    with counted(name) as trace:
        calls, moved = totals(trace, "calls", "stack.calls"), totals(trace, "bytes", "stack.bytes")
        state, reason = coverage(trace, "stack")
        check(state == "ok", f"{name}: {state} {reason}")
        check(of(calls, "ncclAllReduce") == reductions, f"{name}: {reductions} all-reduces are {calls}")
        check(of(moved, "ncclAllReduce") == [each * 512 * 4 for each in reductions], f"{name}: {moved}")
        check(of(calls, "cudaMalloc") == allocations, f"{name}: {allocations} allocations are {calls}")
        check(note in reason if note else "libnccl" not in reason, f"{name}: {reason}")


def places(trace):
    told = subprocess.run([BUILD / "bin/reveal", "export", trace, "--format", "python"], capture_output=True, text=True,
                          check=False)
    check(told.returncode == 0, f"no places: {told.stderr}")
    return [row["place"] for row in csv.DictReader(io.StringIO(told.stdout))]


def expect_only_places(name):
    """One line says why no call is counted; where Python stands is read all the same."""
    with counted(name) as trace:
        state, reason = coverage(trace, "stack")
        check(state != "ok" and REFUSED.fullmatch(reason), f"{name}: {state} {reason!r}")
        check("stack" not in trace, f"{name}: there are counts")
        read_state, why = coverage(trace, "python")
    if "does not let reveal read" in why:
        print("not read:", why)
        return
    found = places(folder / f"{name}.trace")
    check(read_state == "ok", f"{name}: {read_state} {why}")
    check(any(place.startswith("load_batch (stands.py:") for place in found), f"{name}: {found}")


try:
    import h5py
except ImportError:
    skip("python3-h5py is not installed")
if platform.machine() != "x86_64":
    skip("calls are counted on x86-64")
kernel = tuple(map(int, re.findall(r"\d+", platform.release())[:2]))
not_counted = why_not_counted()
root, with_setpriv = os.geteuid() == 0, shutil.which("setpriv") is not None

with tempfile.TemporaryDirectory() as name:
    folder, running = pathlib.Path(name), {}
    folder.chmod(0o777)
    for script, text in (("loads", LOADS), ("begins", BEGINS), ("goes_on", GOES_ON), ("forks", FORKS), ("often", OFTEN),
                         ("stands", STANDS), ("without_bpf", WITHOUT_BPF)):
        (folder / f"{script}.py").write_text(text)

    # --- for whom the kernel refuses
    nobody = False
    if root and with_setpriv:  # below a home of root's, nobody cannot start it
        nobody = subprocess.run([*AS_NOBODY, "test", "-x", BUILD / "bin/reveal-run"], check=False).returncode == 0
    if nobody:
        start("nobody", "stands.py", under=AS_NOBODY)
    start("filtered", "stands.py", under=[sys.executable, folder / "without_bpf.py"])

    # --- where calls are counted
    if not not_counted:
        stripped = place_of_library("stripped")
        if shutil.which("strip"):
            subprocess.run(["strip", "--strip-all", stripped], check=True)
            start("stripped", "loads.py", DOUBLES, stripped, "counted")
        headless = place_of_library("headless")
        without_sections(DOUBLES / "libnccl.so.2", headless)
        start("headless", "loads.py", DOUBLES, headless, "not")
        (folder / "no-library").write_text("no library\n" * 1000)
        shutil.copy(folder / "no-library", folder / "no-library.2")
        knows = capabilities() & OPENS_ITS_MAPPINGS != 0
        start("replaced", "loads.py", DOUBLES, place_of_library("replaced"), "counted" if knows else "not",
              folder / "no-library")
        if root and with_setpriv:
            start("replaced-unseen", "loads.py", DOUBLES, place_of_library("replaced-unseen"), "not",
                  folder / "no-library.2", under=["setpriv", "--bounding-set=-sys_admin,-cap_40"])
        start("begins", "begins.py", DOUBLES, folder / "goes_on.py")
        start("forks", "forks.py", DOUBLES, place_of_library("forks"))
        start("often", "often.py", DOUBLES, folder / "often.log")
        # BPF counted as locked memory before Linux 5.11. Root may lock what it wants, unless it lacks CAP_IPC_LOCK.
        if kernel >= (5, 11) and shutil.which("prlimit"):
            drop = ["setpriv", "--bounding-set=-ipc_lock"] if root and with_setpriv else []
            start("memlock", "loads.py", DOUBLES, DOUBLES / "libnccl.so.2", "counted",
                  under=["prlimit", "--memlock=0:0", *drop])

    if nobody:
        expect_only_places("nobody")
    else:
        print("== nobody\nskipped: needs root, setpriv, and a build that others can read")
    expect_only_places("filtered")
    if not_counted:
        if failures:
            end()
        skip(f"calls: {not_counted}")

    if "stripped" in running:
        expect_counts("stripped", [300], [30])
    expect_counts("headless", [], [30], "libnccl.so.2 is not measured: its headers have a size that no linker writes")
    if knows:
        expect_counts("replaced", [300], [30])
    else:
        expect_counts("replaced", [], [30], REPLACED)
    if "replaced-unseen" in running:
        expect_counts("replaced-unseen", [], [30], REPLACED)
    expect_counts("begins", [150], [30])
    expect_counts("forks", [70, 130], [])
    if "memlock" in running:
        expect_counts("memlock", [300], [30])

    with counted("often") as trace:
        calls, (state, reason) = totals(trace, "calls", "stack.calls"), coverage(trace, "stack")
        rests = [row["object"].decode() for row in trace["events"][:] if row["code"] == b"function_rests"]
    made, still_probed = json.loads((folder / "often.log").read_text())
    print(f"called {made} times; at rest: {rests}")
    check(not still_probed, "its code has a breakpoint when it was to be called a million times without one")
    check("cudaFree" in rests, f"no event of its rest: {rests}")
    check(re.search(r"cudaFree was counted in turns, .* of the time: counting \d+ calls took \d+ of \d+ ms of cpu ", reason),
          f"coverage: {reason}")
    check(all(each <= made - 1_000_000 for each in of(calls, "cudaFree")), f"{made} calls are {calls}")
    check(of(calls, "cudaMalloc") == [30], f"the others are counted: {calls}")

end()
