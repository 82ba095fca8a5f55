"""Files made to break their reader, through the commands that read: no crash, no hang, no other file's bytes, one line.

    hostile_traces_test.py             each file through `report`, `merge --pack` and `export`; the first and the last as
                                       somebody else's where root runs it
    hostile_traces_test.py --table     every file through every command: result, seconds, megabytes
    hostile_traces_test.py --damage N TRACE    N random corruptions of it: how many are reported, with which verdict
"""
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import SOURCE, program, skip  # noqa: E402

try:
    import h5py
    import numpy as np
except ImportError:
    skip("h5py is not installed")

REVEAL = program("reveal")
BASE = str(SOURCE / "tests/data/traces/v1.h5")
SECRET = "TOP-SECRET-LINE-OF-SOMEBODY"
STRANGER = 54321
MOST_SECONDS = 60  # of a busy machine; without the mends these hang or take gigabytes
MOST_MEGABYTES = 900
FAMILY = "memory/vmstat"

work = tempfile.mkdtemp(prefix="reveal-hostile-")
secret_file = os.path.join(work, "secret")
fifo = os.path.join(work, "fifo")
KINDS = {}


def kind(make):
    """A file NODE.h5 of `directory`, a copy of a good trace, is made hostile."""
    KINDS[make.__name__] = make
    return make


def replaced(file, name, **how):
    """The dataset anew, with its attributes of plain types."""
    old = file[name]
    attributes = {key: value for key, value in old.attrs.items()
                  if key not in ("DIMENSION_LIST", "REFERENCE_LIST", "CLASS", "NAME")}
    how.setdefault("dtype", old.dtype)
    if "data" not in how:
        how.setdefault("shape", old.shape)
    del file[name]
    new = file.create_dataset(name, **how)
    for key, value in attributes.items():
        new.attrs[key] = value
    return new


@kind
def external_storage(trace):
    with h5py.File(trace, "r+") as file:
        size = os.path.getsize(secret_file)
        rows = size // file["coverage"].dtype.itemsize
        replaced(file, "coverage", shape=(rows,), external=[(secret_file, 0, size)])


@kind
def external_names(trace):
    with h5py.File(trace, "r+") as file:
        replaced(file, FAMILY + "_channels/metric", shape=(2,), external=[(secret_file, 0, 128)])


@kind
def external_fifo(trace):
    with h5py.File(trace, "r+") as file:
        replaced(file, FAMILY + "_channels/metric", external=[(fifo, 0, 128)])


@kind
def external_link_group(trace):
    with h5py.File(trace, "r+") as file:
        del file["memory"]
        file["memory"] = h5py.ExternalLink(os.path.join(work, "private.h5"), "/memory")


@kind
def external_link_table(trace):
    with h5py.File(trace, "r+") as file:
        del file["coverage"]
        file["coverage"] = h5py.ExternalLink(os.path.join(work, "private.h5"), "/coverage")


@kind
def soft_link_cycle(trace):
    with h5py.File(trace, "r+") as file:
        file["memory/again"] = h5py.SoftLink("/memory")
        file["around"] = h5py.SoftLink("/around")


@kind
def hard_link_cycle(trace):
    with h5py.File(trace, "r+") as file:
        file["memory/again"] = file["memory"]


@kind
def sixty_links_to_itself(trace):
    with h5py.File(trace, "r+") as file:
        for i in range(60):
            file[f"memory/again{i}"] = file["memory"]


@kind
def two_groups_in_each_other(trace):
    with h5py.File(trace, "r+") as file:
        file.create_group("a"), file.create_group("b")
        file["a/b"], file["b/a"] = file["b"], file["a"]


@kind
def virtual_of_itself(trace):
    with h5py.File(trace, "r+") as file:
        old = file[FAMILY]
        attributes = {k: v for k, v in old.attrs.items() if k != "DIMENSION_LIST"}
        shape, dtype = old.shape, old.dtype
        del file[FAMILY]
        layout = h5py.VirtualLayout(shape=shape, dtype=dtype)
        layout[...] = h5py.VirtualSource(".", FAMILY, shape=shape)
        new = file.create_virtual_dataset(FAMILY, layout)
        for key, value in attributes.items():
            new.attrs[key] = value


@kind
def virtual_of_another(trace):
    with h5py.File(trace, "r+") as file:
        shape, dtype = file["coverage"].shape, file["coverage"].dtype
        del file["coverage"]
        layout = h5py.VirtualLayout(shape=shape, dtype=dtype)
        layout[...] = h5py.VirtualSource(os.path.join(work, "private.h5"), "coverage", shape=shape)
        file.create_virtual_dataset("coverage", layout)


def with_chunk(trace, raw, **how):
    with h5py.File(trace, "r+") as file:
        rows = file[FAMILY].shape[1]
        new = replaced(file, FAMILY, chunks=(2, rows), maxshape=(None, None), compression="gzip", **how)
        new.id.write_direct_chunk((0, 0), zlib.compress(raw, 9))


@kind
def short_chunk(trace):
    with_chunk(trace, b"abc")


@kind
def short_chunk_with_a_checksum(trace):
    with_chunk(trace, b"abc", fletcher32=True)


@kind
def long_chunk(trace):
    with_chunk(trace, bytes(200 << 20))


@kind
def chunk_of_4_gigabytes(trace):
    with h5py.File(trace, "r+") as file:
        replaced(file, FAMILY, chunks=(2, 250_000_000), maxshape=(None, None), compression="gzip", fletcher32=True)


@kind
def zeroed_chunk_index(trace):
    content = bytearray(open(trace, "rb").read())
    at = content.find(b"TREE")
    while at >= 0:
        content[at + 24:at + 64] = bytes(40)
        at = content.find(b"TREE", at + 4)
    open(trace, "wb").write(content)


@kind
def coverage_of_33_million_rows(trace):
    with h5py.File(trace, "r+") as file:
        replaced(file, "coverage", shape=(1 << 25,), maxshape=(None,), chunks=(32,), compression="gzip")


@kind
def axis_of_two_billion_rows(trace):
    with h5py.File(trace, "r+") as file:
        replaced(file, "memory/time_100ms", shape=(1 << 31,), maxshape=(None,), chunks=(1024,), compression="gzip")


@kind
def billions_of_values(trace):
    with h5py.File(trace, "r+") as file:
        replaced(file, FAMILY, shape=(10**9, 10**9), maxshape=(None, None), chunks=(1, 100), compression="gzip",
                 fletcher32=True)


def with_rows(trace, channels, rows, **how):
    """The family with so many rows, one every microsecond, of which none is stored."""
    with h5py.File(trace, "r+", libver="latest") as file:
        file["memory"].create_dataset("time_of_many", data=np.arange(rows) * 1000 + 10**9, chunks=(8192,),
                                      compression="gzip", shuffle=True, fletcher32=True)
        new = replaced(file, FAMILY, shape=(channels, rows), maxshape=(None, None), compression="gzip",
                       fletcher32=True, fillvalue=-2**63, **how)
        new.attrs["time"] = np.bytes_("time_of_many")
        for name in ("metric", "instance", "role", "life"):
            path = f"{FAMILY}_channels/{name}"
            replaced(file, path, data=np.zeros(channels, file[path].dtype), chunks=(min(channels, 4096),),
                     compression="gzip", fletcher32=True)


@kind
def a_million_chunks_under_a_hundred_names(trace):
    with_rows(trace, 1, 1 << 20, chunks=(1, 1))
    with h5py.File(trace, "r+", libver="latest") as file:
        file[FAMILY][0, -1] = 5
        for i in range(100):
            for part in ("", "_base", "_channels"):
                file[f"memory/again{i}{part}"] = file[FAMILY + part]


@kind
def a_billion_values_in_a_minute(trace):
    with_rows(trace, 1 << 14, 1 << 16, chunks=(4096, 64))


@kind
def names_of_a_million_channels(trace):
    with h5py.File(trace, "r+") as file:
        for name in ("metric", "instance", "role", "life"):
            path = f"{FAMILY}_channels/{name}"
            data = np.zeros(1 << 20, file[path].dtype)
            replaced(file, path, data=data, chunks=(1 << 16,), compression="gzip", fletcher32=True)


@kind
def three_hundred_thousand_events(trace):
    with h5py.File(trace, "r+") as file:
        data = np.zeros(300_000, file["events"].dtype)
        data["time_ns"] = np.arange(300_000)
        replaced(file, "events", data=data, chunks=(2048,), compression="gzip", shuffle=True, fletcher32=True)


@kind
def attribute_of_20_megabytes(trace):
    with h5py.File(trace, "r+", libver="latest") as file:
        new = replaced(file, FAMILY, data=file[FAMILY][...], chunks=True, compression="gzip", fletcher32=True)
        del new.attrs["source"]
        new.attrs["source"] = np.bytes_(b"x" * (20 << 20))


@kind
def two_hundred_attributes(trace):
    with h5py.File(trace, "r+", libver="latest") as file:
        new = replaced(file, FAMILY, data=file[FAMILY][...], chunks=True, compression="gzip", fletcher32=True)
        for i in range(200):
            new.attrs[f"more{i}"] = "x" * 1000


@kind
def five_thousand_tags(trace):
    with h5py.File(trace, "r+", libver="latest") as file:
        for i in range(5000):
            file.attrs[f"tag.{i}"] = np.bytes_(b"x")


@kind
def attributes_of_variable_length(trace):
    with h5py.File(trace, "r+") as file:
        for name in ("kind", "units", "scope"):
            file[FAMILY].attrs[name] = "variable"


@kind
def values_of_four_bytes(trace):
    with h5py.File(trace, "r+") as file:
        replaced(file, FAMILY, data=file[FAMILY][...].astype("i4"), chunks=True, compression="gzip", fletcher32=True)


@kind
def values_of_one_dimension(trace):
    with h5py.File(trace, "r+") as file:
        replaced(file, FAMILY, shape=(1000,))


@kind
def scalar_values(trace):
    with h5py.File(trace, "r+") as file:
        replaced(file, FAMILY, shape=())


@kind
def texts_of_variable_length(trace):
    with h5py.File(trace, "r+") as file:
        replaced(file, FAMILY + "_channels/metric", data=["a", "b"], dtype=h5py.string_dtype())


@kind
def coverage_of_references(trace):
    with h5py.File(trace, "r+") as file:
        replaced(file, "coverage", shape=(4,), dtype=h5py.ref_dtype)


@kind
def filter_of_a_plugin(trace):
    with h5py.File(trace, "r+") as file:
        replaced(file, FAMILY, data=file[FAMILY][...], chunks=True, compression="lzf", fletcher32=True)


@kind
def symbolic_link(trace):
    os.remove(trace)
    os.symlink(os.path.join(work, "private.h5"), trace)


@kind
def fifo_as_trace(trace):
    os.remove(trace)
    os.mkfifo(trace)


@kind
def directory_as_trace(trace):
    os.remove(trace)
    os.mkdir(trace)


@kind
def empty_file(trace):
    open(trace, "wb").close()


@kind
def half_a_file(trace):
    os.truncate(trace, os.path.getsize(trace) // 2)


@kind
def zero_page(trace):
    with open(trace, "r+b") as file:
        file.seek(8192)
        file.write(bytes(4096))


@kind
def noise_behind_the_signature(trace):
    noise = random.Random(1).randbytes(30_000)
    with open(trace, "r+b") as file:
        file.seek(60)
        file.write(noise)


@kind
def three_thousand_nested_groups(trace):
    with h5py.File(trace, "r+") as file:
        group = file["memory"]
        for _ in range(3000):
            group = group.create_group("g")


@kind
def twelve_thousand_groups(trace):
    with h5py.File(trace, "r+", libver="latest") as file:
        group = file.create_group("many")
        for i in range(12_000):
            group[str(i)] = file["memory"] if i % 2 else h5py.SoftLink("/nowhere")


@kind
def time_that_jumps(trace):
    with h5py.File(trace, "r+") as file:
        times = file["time_100ms"][...]
        times[1:] += 2**61
        file["time_100ms"][...] = times


@kind
def time_that_goes_back(trace):
    with h5py.File(trace, "r+") as file:
        file["time_100ms"][...] = file["time_100ms"][...][::-1]


@kind
def no_interval(trace):
    with h5py.File(trace, "r+") as file:
        file.attrs["interval"] = float("nan")


@kind
def node_list_bomb(trace):
    with h5py.File(trace, "r+") as file:
        width = 40_000
        dtype = np.dtype([("key", "S64"), ("value", f"S{width}")])
        data = np.array([(b"env.SLURM_JOB_NODELIST", b"a" * 30_000 + b"[00000-99999]"),
                         (b"kernel.release", b"6")], dtype)
        replaced(file, "node/begin", data=data, dtype=dtype)


def with_facts(trace, facts):
    with h5py.File(trace, "r+") as file:
        data = [(key.encode(), value.encode()) for key, value in sorted(facts.items())]
        dtype = np.dtype([("key", f"S{max(len(key) for key, _ in data)}"),
                          ("value", f"S{max(len(value) for _, value in data)}")])
        replaced(file, "node/begin", data=np.array(data, dtype), dtype=dtype)


@kind
def places_without_end(trace):
    facts = {"job.cpus_allowed": "0-65535", "cpu.online": "0-65535", "irq.irqbalance": "not running",
             "kernel.release": "6.1"}
    for i in range(1000):
        facts |= {f"numa.node{i}.cpus": "0-65535", f"numa.node{i}.distance": "10 " * 100}
    for i in range(2500):
        facts |= {f"irq.{i}.device": f"{i} net eth{i}", f"irq.{i}.effective": "0-65535", f"irq.{i}.numa_node": "1",
                  f"gpu.gpu{i}.address": f"{i}", f"net.eth{i}.numa_node": f"{i}"}
    with_facts(trace, facts)


@kind
def ports_without_end(trace):
    facts = {"kernel.release": "6.1"}
    for i in range(3000):
        facts |= {f"rdma.m{i}.1.state": "ACTIVE", f"rdma.m{i}.numa_node": "4294967297", f"pci.{i}.class": "network",
                  f"pci.{i}.width": "1", f"pci.{i}.max_width": "9" * 400}
    with_facts(trace, facts)


@kind
def lists_without_end(trace):
    endless = "0-65535," * 8000
    with_facts(trace, {"job.cpus_allowed": endless, "cpu.online": endless, "numa.node0.cpus": endless,
                       "numa.node1.cpus": endless, "cpu_threads.0": endless, "gpu.gpu0.local_cpus": endless})


@kind
def too_many_facts(trace):
    with_facts(trace, {f"k{i}": "v" for i in range(100_000)})


@kind
def node_name_with_escapes(trace):
    with h5py.File(trace, "r+") as file:
        file.attrs["node"] = np.bytes_(b"n\x1b]0;PWNED\x07\x1b[31m\xc2\x9bX")
        file.attrs["job_name"] = np.bytes_(b"\x1b[2J")


@kind
def file_name_with_escapes(trace):
    os.rename(trace, os.path.join(os.path.dirname(trace), "n\x1b]0;PWNED\x07\x1b[31m.h5"))


@kind
def earlier_segment_alone(trace):
    os.rename(trace, trace + ".earlier")


@kind
def nested_summary(trace):
    open(trace[:-3] + ".summary.json", "w").write("[" * 300_000)


@kind
def summary_that_expands(trace):
    open(trace[:-3] + ".summary.json", "wb").write(zlib.compress(b"[" * 100_000_000, 9))


@kind
def nested_report(trace):
    open(os.path.join(os.path.dirname(trace), "report.json"), "w").write('{"schema":' + "[" * 300_000)


@kind
def report_with_a_long_word(trace):
    path = os.path.join(os.path.dirname(trace), "report.json")
    open(path, "w").write(json.dumps({"schema": "reveal.report/1", "verdict": {"status": "A" * 5_000_000}}))


COMMANDS = {
    "report": lambda d: ["report", d],
    "show": lambda d: ["show", d],
    "export": lambda d: ["export", d, "--format", "csv"],
    "parquet": lambda d: ["export", d, "--format", "parquet"],
    "merge": lambda d: ["merge", d],
    "merge-part": lambda d: ["merge-part", d],
    "pack": lambda d: ["merge", d, "--pack"],
    "watch": lambda d: ["watch", d],
    "prune": lambda d: ["prune", d, "--out", os.path.join(work, "selected.metrics")],
    "score": lambda d: ["score", os.path.join(d, "n01.h5"), "--out", os.path.join(work, "scores.csv")],
}
ENDLESS = {"watch"}  # while no closed trace is there


def readable(output):
    """Of a Parquet file, the description of its columns: any byte may be in the rest."""
    if not output.startswith(b"PAR1"):
        return output
    about = output[output.rfind(b"reveal.columns"):]
    return about[about.find(b"["):about.rfind(b"]") + 1]


def run(arguments, uid=None, limit=MOST_SECONDS):
    """Exit status (-9: killed by us), output, seconds, megabytes."""
    begin = time.time()
    out = tempfile.TemporaryFile(dir=work)
    err = tempfile.TemporaryFile(dir=work)
    environment = dict(os.environ, HOME=work, XDG_STATE_HOME=os.path.join(work, "state"), XDG_CONFIG_HOME=work)

    def become():
        if uid is not None:
            os.setgroups([]), os.setgid(uid), os.setuid(uid)

    child = subprocess.Popen([REVEAL] + arguments, stdin=subprocess.DEVNULL, stdout=out, stderr=err, preexec_fn=become,
                             env=environment)
    while True:
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            break
        if time.time() - begin > limit:
            os.kill(child.pid, 9)
            _, status, usage = os.wait4(child.pid, 0)
            break
        time.sleep(0.01)
    child.returncode = os.waitstatus_to_exitcode(status)
    texts = []
    for stream in (out, err):
        stream.seek(0)
        texts.append(readable(stream.read()).decode(errors="replace"))
    return child.returncode, texts[0], texts[1], time.time() - begin, usage.ru_maxrss / 1024


def made(name):
    directory = os.path.join(work, name)
    shutil.rmtree(directory, ignore_errors=True)
    os.mkdir(directory)
    shutil.copy(BASE, os.path.join(directory, "n01.h5"))
    KINDS[name](os.path.join(directory, "n01.h5"))
    return directory


def files_of(directory):
    return {os.path.join(path, name) for path, _, names in os.walk(directory) for name in names}


def complaints(name, command, result, directory, before, foreign):
    status, out, err, seconds, megabytes = result
    found = []
    if status not in (0, 1):
        found.append(f"ended with {status}: {err[-300:]}")
    if status == 1 and not err.strip():
        found.append("failed without a line")
    if len(err.splitlines()) > 8 or any(len(line) > 1100 for line in err.splitlines()):
        found.append(f"says too much: {err[:300]}")
    if "\x1b" in out + err or "\x9b" in out + err:
        found.append("an escape sequence got through")
    if megabytes > MOST_MEGABYTES:
        found.append(f"took {megabytes:.0f} MB")
    after = files_of(directory)
    for path in after:
        if os.path.isfile(path) and not os.path.islink(path) and path not in before:
            if SECRET.encode() in open(path, "rb").read():
                found.append(f"the secret is in {path}")
    if SECRET in out + err:
        found.append("the secret was printed")
    if any(".tmp" in path for path in after):
        found.append("a temporary file stays")
    if foreign and after != before:
        found.append(f"wrote into a directory of somebody else's: {sorted(after - before)}")
    return [f"{name}, {command}: {complaint}" for complaint in found]


def prepare():
    open(secret_file, "w").write((SECRET + "\n") * 200)
    os.chmod(secret_file, 0o600)
    os.mkfifo(fifo)
    shutil.copy(BASE, os.path.join(work, "private.h5"))
    with h5py.File(os.path.join(work, "private.h5"), "r+") as file:
        coverage = file["coverage"][...]
        coverage["reason"] = SECRET.encode()
        coverage["state"] = b"failed"
        file["coverage"][...] = coverage
    os.chmod(work, 0o755)


def give_away(directory):
    for path, folders, names in os.walk(directory):
        for name in [""] + folders + names:
            os.chown(os.path.join(path, name), STRANGER, STRANGER, follow_symlinks=False)


def quick():
    prepare()
    failures = []
    root = os.geteuid() == 0
    for name in KINDS:
        for command in ("report", "pack", "parquet"):
            directory = made(name)
            foreign = root and command != "pack"
            if foreign:
                give_away(directory)
            before = files_of(directory)
            result = run(COMMANDS[command](directory))
            failures += complaints(name, command, result, directory, before, foreign)
    # While it seems to be recorded: memory is taken for rows that are not in the file.
    directory = made("a_billion_values_in_a_minute")
    os.rename(os.path.join(directory, "n01.h5"), os.path.join(directory, "n01.h5.part"))
    *_, megabytes = run(["watch", directory], limit=8)
    if megabytes > MOST_MEGABYTES:
        failures.append(f"a_billion_values_in_a_minute, watch: took {megabytes:.0f} MB")
    # A good trace of somebody else's is shown, and nothing is written.
    if root:
        directory = os.path.join(work, "good")
        os.mkdir(directory)
        shutil.copy(BASE, os.path.join(directory, "n01.h5"))
        give_away(directory)
        for command, expected in (("report", 1), ("show", 0), ("export", 0), ("parquet", 0), ("merge", 1),
                                  ("watch", 0)):
            before = files_of(directory)
            result = run(COMMANDS[command](directory))
            failures += complaints("good", command, result, directory, before, True)
            if result[0] != expected:
                failures.append(f"good, {command}: {result[0]} instead of {expected}: {result[2]}")
        status, _, err, _, _ = run(["score", os.path.join(directory, "n01.h5"), "--out", os.path.join(work, "s.csv")])
        if status != 1 or "values" not in err:
            failures.append(f"score of a trace: {status} {err}")
    print("\n".join(failures) or f"{len(KINDS)} hostile files: none crashed, hung, leaked or wrote")
    return 1 if failures else 0


def table():
    prepare()
    failures = []
    print(f"{'file':32} " + " ".join(f"{command:>16}" for command in COMMANDS))
    for name in KINDS:
        cells = []
        for command in COMMANDS:
            directory = made(name)
            before = files_of(directory)
            result = run(COMMANDS[command](directory), limit=8 if command in ENDLESS else MOST_SECONDS)
            status, _, _, seconds, megabytes = result
            waits = command in ENDLESS and status == -9
            if not waits:
                failures += complaints(name, command, result, directory, before, False)
            cells.append(f"{'waits' if waits else status} {seconds:5.1f}s {megabytes:4.0f}MB")
        print(f"{name:32} " + " ".join(f"{cell:>16}" for cell in cells), flush=True)
    print("\n".join(failures) or f"{len(KINDS)} files x {len(COMMANDS)} commands: nothing to complain about")
    return 1 if failures else 0


def corrupted(content, rng):
    changed = bytearray(content)
    if rng.random() < 0.7:
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        return "bit", bytes(changed)
    length = rng.choice((16, 64, 512, 4096))
    at = rng.randrange(len(changed))
    changed[at:at + length] = bytes(len(changed[at:at + length]))
    return "zeros", bytes(changed)


def damage(count, trace):
    prepare()
    content = open(trace, "rb").read()

    def verdict_of(data):
        directory = os.path.join(work, "damaged")
        shutil.rmtree(directory, ignore_errors=True)
        os.mkdir(directory)
        open(os.path.join(directory, os.path.basename(trace)), "wb").write(data)
        status, out, err, _, _ = run(["report", directory, "--json", "--no-history"])
        if status != 0:
            return status, None, err
        report = json.loads(out)
        notes = "".join(each.get("note") or "" for each in report["coverage"])
        return status, (report["verdict"]["status"], report["verdict"]["primary"]), notes

    expected = verdict_of(content)
    print("undamaged:", expected[:2])
    rng = random.Random(20261122)
    counts = {}
    for _ in range(count):
        form, data = corrupted(content, rng)
        status, verdict, words = verdict_of(data)
        if status not in (0, 1):
            outcome = "crashed"
        elif status == 1:
            outcome = "refused in one line" if len(words.splitlines()) == 1 else "refused in more lines"
        elif expected[1][0] == "finding" and verdict[0] in ("healthy", "notice"):
            outcome = "A FINDING IS LOST"
        elif "left out" in words:
            outcome = "report, with the gap named" + ("" if verdict == expected[1] else f", {verdict[0]}")
        else:
            outcome = "report as before" if verdict == expected[1] else "SILENTLY ANOTHER VERDICT"
        counts[(form, outcome)] = counts.get((form, outcome), 0) + 1
    for key in sorted(counts):
        print(f"{key[0]:6} {key[1]:45} {counts[key]}")
    bad = ("SILENTLY", "crashed", "IS LOST")
    return 1 if any(word in key[1] for key in counts for word in bad) else 0


try:
    if "--table" in sys.argv:
        code = table()
    elif "--damage" in sys.argv:
        code = damage(int(sys.argv[2]), sys.argv[3])
    else:
        code = quick()
finally:
    shutil.rmtree(work, ignore_errors=True)
sys.exit(code)
