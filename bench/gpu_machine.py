#!/usr/bin/python3
"""reveal on a machine with NVIDIA GPUs, in ten minutes: does it measure, what does it cost, and what does it report?

  gpu_machine.py bundle --build BUILD OUT      where reveal was built: programs and libraries for a machine without them
  gpu_machine.py run --programs OUT/bin --out RESULTS [--minutes 10] [--steps STEP...]
  gpu_machine.py run --build BUILD --out RESULTS --double --minutes .5     the same steps without a GPU

Steps of a run, each with its share of the time, so that the whole ends in time:

  machine    GPUs, driver, PyTorch or not, probes that open
  calls      a collector beside a working GPU: cost of each call into NVML (gpu.call_us.*), metrics present and absent
  healthy    a training under reveal-run, and its report: no rule of GPUs
  starved    the same with a loader that is slower than the GPU, and its report: gpu.starved_input
  slow-down  steps of the training with a collector at 100 ms and 1 s, and without one, in turn; interval by bootstrap
  recording  seconds of the collector with --record, to be kept as a fixture

Further faults, each only where --steps names it, as long as its rule needs:

  reading    a loader that waits for storage: gpu.starved_io
  filling    tensors that are never returned: gpu.mem_pressure
  fault      a program beside the training that writes where it must not: gpu.xid
  unused     a program that never uses its GPU: gpu.allocated_unused
  small      kernels of a few microseconds: gpu.small_kernels

The training is PyTorch's where python3 can import it with a GPU; else a kernel in PTX that the driver compiles, by ctypes
and without the CUDA toolkit. RESULTS gets results.json, the reports, the traces and the recording. Needs no network.

--double: tests/doubles/nvml_double.so answers in place of the driver, and the training is a loop on a cpu; only the
steps are tried then, and no figure means anything."""
import argparse
import ctypes
import dataclasses
import functools
import json
import mmap
import mmap
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import time

PROGRAMS = ("reveal", "reveal-run", "reveal-collect")
# Shares of the time of a run; the rest is for starts and reports.
SHARES = {"calls": 0.08, "healthy": 0.18, "starved": 0.18, "slow-down": 0.36, "recording": 0.05}
MOST_ROUNDS = 8  # of the slow-down: each interval once
LOADING = 0.08  # seconds of the loader's work for a step of the starved training
LONG_ENOUGH = 75  # seconds from which a training that starves is to be explained
BLOCK = 1 << 20  # bytes of one read from storage
HEALTHY = ("gpus 1\nutilization 96\nmemory_used 9000000000\nmemory_total 80000000000\npower 400000\nsm_clock 1700\n"
           "reasons 0\ntemperature 60\nname Double\nminor 0\n")
STARVED = HEALTHY.replace("utilization 96", "utilization 95*3,3*4")
FAULTY_ADDRESS = 0x10
NOT_BUNDLED = re.compile(r"/(ld-linux|libc\.|libm\.|libpthread\.|libdl\.|librt\.|libresolv\.)")
TARGETS = (b"sm_50", b"sm_75", b"sm_90")  # later drivers may refuse the first
# Multiplies and adds in each thread for as long as it is told.
PTX = b"""
.version 6.0
.target TARGET
.address_size 64
.visible .entry spin(.param .u64 out, .param .u32 rounds)
{
  .reg .pred %p;
  .reg .f32 %f<2>;
  .reg .b32 %r<2>;
  .reg .b64 %d;
  ld.param.u32 %r0, [rounds];
  ld.param.u64 %d, [out];
  cvta.to.global.u64 %d, %d;
  mov.f32 %f0, 0f3F800000;
again:
  fma.rn.f32 %f0, %f0, 0f3F7FFFFE, 0f3A83126F;
  sub.u32 %r0, %r0, 1;
  setp.ne.u32 %p, %r0, 0;
  @%p bra again;
  st.global.f32 [%d], %f0;
  ret;
}
\0"""


@dataclasses.dataclass(frozen=True)
class Case:
    """A job under reveal-run."""
    rule: str  # "": no rule of GPUs
    answer: str  # of the double
    seconds: float | None = None  # none: a share of the run
    stack: bool = False


CASES = {"healthy": Case("", HEALTHY),
         "starved": Case("gpu.starved_input", STARVED),
         "reading": Case("gpu.starved_io", STARVED, 80),
         "filling": Case("gpu.mem_pressure", HEALTHY.replace("memory_used 9000000000", "memory_used 40000000000+500000000*80"), 80),
         "fault": Case("gpu.xid", HEALTHY + "xid 31\n", 30),
         "unused": Case("gpu.allocated_unused", HEALTHY.replace("utilization 96", "utilization 0"), 130),
         "small": Case("gpu.small_kernels", HEALTHY.replace("power 400000", "power 150000"), 80, stack=True)}


class Torch:
    """A step of a multi-layer perceptron with its backward pass."""

    def __init__(self):
        import torch
        if not torch.cuda.is_available():
            raise RuntimeError("PyTorch sees no GPU")
        self.torch = torch
        self.model = torch.nn.Sequential(*(torch.nn.Linear(4096, 4096) for _ in range(6))).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-6)
        self.batch = torch.randn(2048, 4096, device="cuda")
        self.name = f"PyTorch {torch.__version__} on {torch.cuda.get_device_name(0)}"

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.model(self.batch).square().mean().backward()
        self.optimizer.step()
        self.torch.cuda.synchronize()


class Driver:
    """A kernel of about 20 ms through the driver's own interface."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        device, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self.kernel, self.memory = ctypes.c_void_p(), ctypes.c_uint64()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
        for target in TARGETS:
            status = self.cuda.cuModuleLoadData(ctypes.byref(module), PTX.replace(b"TARGET", target))
            if status == 0:
                break
        else:
            raise RuntimeError(f"cuModuleLoadData returned {status}")
        self.call("cuModuleGetFunction", ctypes.byref(self.kernel), module, b"spin")
        self.call("cuMemAlloc_v2", ctypes.byref(self.memory), ctypes.c_size_t(4))
        name = ctypes.create_string_buffer(96)
        self.call("cuDeviceGetName", name, 96, device)
        self.name = f"a kernel in PTX on {name.value.decode()}"
        self.rounds = 1_000_000
        self.step()
        begin = time.monotonic()
        self.step()
        self.rounds = max(1000, int(self.rounds * 0.02 / max(time.monotonic() - begin, 1e-4)))

    def call(self, function, *arguments):
        status = getattr(self.cuda, function)(*arguments)
        if status != 0:
            raise RuntimeError(f"{function} returned {status}")

    def step(self):
        rounds = ctypes.c_uint(self.rounds)
        values = (ctypes.c_void_p * 2)(ctypes.cast(ctypes.byref(self.memory), ctypes.c_void_p),
                                       ctypes.cast(ctypes.byref(rounds), ctypes.c_void_p))
        self.call("cuLaunchKernel", self.kernel, 264, 1, 1, 256, 1, 1, 0, None, values, None)
        self.call("cuCtxSynchronize")


class Small:
    """Very many kernels on a thousand numbers."""

    def __init__(self):
        import torch
        self.torch, self.numbers = torch, torch.zeros(1024, device="cuda")
        self.name = f"small kernels of PyTorch {torch.__version__}"

    def step(self):
        for _ in range(500):
            self.numbers.add_(1)
        self.torch.cuda.synchronize()


class Loop:
    """On a cpu, beside a double, or of a program that does not use its GPU."""
    name = "a loop on a cpu"

    @staticmethod
    def step():
        sum(range(300_000))


def load_of(double):
    if double:
        return Loop()
    problems = []
    for kind in (Torch, Driver):
        try:
            load = kind()
            load.step()
            return load
        except (ImportError, OSError, RuntimeError, AttributeError) as error:
            problems.append(f"{kind.__name__}: {error}")
    sys.exit("gpu_machine: no work for a GPU: " + "; ".join(problems))


def prepare_batch(options, load, part):
    """A loader of one process that computes."""
    until = time.monotonic() + LOADING
    while time.monotonic() < until:
        sum(range(1000))


def read_batch(options, load, part):
    """A loader of one process that reads past the page cache; it begins again at the end of its file."""
    until = time.monotonic() + LOADING
    if not hasattr(load, "file"):
        path = options.folder / "batches"
        if not path.exists():
            with open(path, "wb") as file:
                for _ in range(1024):
                    file.write(os.urandom(BLOCK))
        load.file, load.block = os.open(path, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, BLOCK)
    while time.monotonic() < until:
        if os.preadv(load.file, [load.block], random.randrange(1024) * BLOCK) == 0:
            raise RuntimeError("the file of the loader is short")


def keep_more(options, load, part):
    """Keeps tensors so that the use of the memory rises from 55 to 98 % of all."""
    torch = load.torch
    free, total = torch.cuda.mem_get_info()
    more = int((0.55 + 0.43 * part) * total - (total - free))
    if more > 64 * BLOCK:
        load.kept = [*getattr(load, "kept", []), torch.empty(more, dtype=torch.uint8, device="cuda")]


def fail_beside(options, load, part):
    """Once, at half the time, in a program of its own: its context does not survive."""
    if part < 0.5 or hasattr(load, "failed"):
        return
    load.failed = subprocess.run([sys.executable, __file__, "fault"], capture_output=True, text=True, check=False)
    print("fault:", load.failed.stdout, load.failed.stderr[-500:], flush=True)


def fault(_):
    driver = Driver()
    driver.memory.value = FAULTY_ADDRESS
    try:
        driver.step()
    except RuntimeError as error:
        print(error)
        return 0
    print("it was allowed to write")
    return 1


BEFORE_STEP = {"starved": prepare_batch, "reading": read_batch, "filling": keep_more, "fault": fail_beside}


def train(options):
    """Steps until the time is over; prints the number of each ended second."""
    load = Loop() if options.case == "unused" else Small() if options.case == "small" and not options.double \
        else load_of(options.double)
    before = None if options.double and options.case != "starved" else BEFORE_STEP.get(options.case)
    print("work:", load.name, flush=True)
    begin, steps, second = time.monotonic(), 0, int(time.monotonic())
    while (passed := time.monotonic() - begin) < options.seconds:
        if before:
            before(options, load, passed / options.seconds)
        load.step()
        steps += 1
        if int(time.monotonic()) != second:
            second = int(time.monotonic())
            print(steps, flush=True)


class Machine:
    def __init__(self, options):
        self.options, self.out = options, options.out
        self.bin = options.programs or options.build / "bin"
        self.out.mkdir(parents=True, exist_ok=True)
        self.results = {"steps": {}, "problems": []}
        self.environment = dict(os.environ)
        self.environment |= {"HOME": str(self.out), "XDG_STATE_HOME": str(self.out / "state")}
        self.library = "libnvidia-ml.so.1"
        if options.double:
            self.library = str(options.build / "doubles/nvml_double.so")
            self.environment["NVML_DOUBLE"] = str(self.out / "gpus.txt")
            self.answer(HEALTHY)
        self.environment.setdefault("CUDA_VISIBLE_DEVICES", "0")

    def answer(self, lines):
        if self.options.double:
            (self.out / "gpus.new").write_text(lines)
            (self.out / "gpus.new").rename(self.out / "gpus.txt")

    def seconds(self, step):
        return self.options.minutes * 60 * SHARES[step]

    def call(self, *words):
        return subprocess.run([str(word) for word in words], env=self.environment, capture_output=True, text=True,
                              timeout=600, check=False)

    def training(self, seconds, case="healthy"):
        return [sys.executable, pathlib.Path(__file__).resolve(), "train", "--seconds", f"{seconds:.1f}", "--case", case,
                "--folder", self.out, *(["--double"] if self.options.double else [])]

    def start(self, words, log):
        with open(self.out / log, "w", encoding="utf-8") as file:
            return subprocess.Popen([str(word) for word in words], env=self.environment, stdout=file, stderr=file)

    def wait_for_steps(self, process, log):
        """PyTorch may need half a minute to start."""
        for _ in range(600):
            if counts_in(self.out / log) or process.poll() is not None:
                break
            time.sleep(0.1)
        if not counts_in(self.out / log):
            raise RuntimeError("the training made no step: " + (self.out / log).read_text()[-500:])

    @staticmethod
    def stop(process):
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def collect(self, trace, pid, *more):
        return [self.bin / "reveal-collect", "--output", trace, "--job", f"pid:{pid}", "--gpu-library", self.library, *more]

    def problem(self, text):
        self.results["problems"].append(text)
        print("PROBLEM:", text, flush=True)


def machine(self):
    checked = self.call(self.bin / "reveal-collect", "--check", "--json", "--gpu-library", self.library)
    smi = shutil.which("nvidia-smi")
    gpus = self.call(smi, "--query-gpu=name,driver_version,pstate", "--format=csv,noheader").stdout.strip() if smi else ""
    if checked.returncode != 0:
        self.problem("reveal-collect --check failed: " + checked.stderr[-500:])
        return {}
    (self.out / "check.json").write_text(checked.stdout)
    return {"gpus": gpus or "no nvidia-smi", "cpus": os.cpu_count(), "kernel": os.uname().release}


def calls(self):
    seconds = self.seconds("calls")
    job = self.start(self.training(seconds + 5), "calls.log")
    self.wait_for_steps(job, "calls.log")
    trace = self.out / "calls.h5"
    done = self.start(self.collect(trace, job.pid, "--duration", f"{seconds:.0f}s", "--verbose"), "collector.log")
    begin, cpu = time.monotonic(), {}
    while done.poll() is None:
        cpu |= cpu_of_workers(done.pid)
        time.sleep(0.2)
    passed = time.monotonic() - begin
    self.stop(job)
    if done.returncode != 0:
        self.problem("the collector failed: " + (self.out / "collector.log").read_text()[-500:])
        return {}
    work = [line.removeprefix("work: ") for line in (self.out / "calls.log").read_text().splitlines()
            if line.startswith("work: ")]
    return {"work": work, "cpu_percent": {name: round(100 * used / passed, 2) for name, used in cpu.items()},
            **facts_of(self, trace)}


def cpu_of_workers(collector):
    """Seconds of processor time of the collector and of each of its children, of which one asks the driver."""
    used = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
            if int(path.parent.name) == collector or int(words[1]) == collector:
                kind = "collector" if int(path.parent.name) == collector else f"worker {path.parent.name}"
                used[kind] = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, IndexError):
            continue  # it ended
    return used


def facts_of(self, trace):
    """By reveal itself, because the machine may lack h5py."""
    listed = json.loads(self.call(self.bin / "reveal-collect", "--list-probes", "--json").stdout)
    known = next(probe for probe in listed if probe["name"] == "gpu")
    metrics = sorted({metric["name"] for metric in known["metrics"]})
    folder = self.out / "calls"
    folder.mkdir(exist_ok=True)
    shutil.copy(trace, folder)
    header = self.call(self.bin / "reveal", "export", folder, "--format", "csv").stdout
    present = sorted(metric for metric in metrics if re.search(rf"\b{re.escape(metric)}\b", header))
    shown = self.call(self.bin / "reveal", "show", "--all", folder).stdout
    (self.out / "calls.txt").write_text(shown)
    if "gpu.utilization" not in present:
        self.problem("gpu.utilization was not recorded")
    return {"present": present, "absent": sorted(set(metrics) - set(present)), "call_us": call_times(trace)}


def call_times(trace):
    """gpu.call_us.* as the trace has them: texts of a table, which are stored as they are or deflated."""
    try:
        import h5py
    except ImportError:
        return "not read: python3-h5py is not installed; `reveal export` beside a build reads calls.h5"
    times = {}
    with h5py.File(trace) as file:
        for name in ("node/begin", "node/end"):
            for row in file[name][()] if name in file else []:
                key = row["key"].decode()
                if key.startswith("gpu.call_us."):
                    times[key.removeprefix("gpu.call_us.")] = int(row["value"])
    return dict(sorted(times.items(), key=lambda item: -item[1]))


def reported(self, name):
    case = CASES[name]
    seconds = case.seconds or self.seconds(name)
    self.answer(case.answer)
    folder = self.out / name
    words = [self.bin / "reveal-run", "--output", folder, "--node", "gpu", *(["--stack"] if case.stack else []), "--",
             *self.training(seconds, name)]
    with SiteFile(self):
        done = self.call(*words)
    (self.out / f"{name}.log").write_text(done.stdout + done.stderr)
    self.answer(HEALTHY)
    try:
        report = json.loads((folder / "report.json").read_text())
    except OSError as error:
        self.problem(f"{name}: no report: {error}: {done.stderr[-500:]}")
        return {}
    rules = [finding["id"] for finding in report["findings"] if finding["severity"] != "info"]
    long_enough = case.seconds is not None or seconds >= LONG_ENOUGH
    if case.rule and long_enough and case.rule not in rules:
        self.problem(f"{name} is not explained: {rules}")
    if not case.rule and any(rule.startswith("gpu.") for rule in rules):
        self.problem(f"the healthy training has findings: {rules}")
    return {"status": report["verdict"]["status"], "rules": rules, "long_enough": long_enough}


class SiteFile:
    """reveal-run finds the double by the site's file, beside the programs; without one nothing is changed."""

    def __init__(self, machine):
        self.machine = machine

    def __enter__(self):
        if not self.machine.options.double:
            return
        own = self.machine.out / "installed"
        (own / "etc/reveal").mkdir(parents=True, exist_ok=True)
        (own / "bin").mkdir(exist_ok=True)
        for name in PROGRAMS:
            if not (own / "bin" / name).exists():
                shutil.copy(self.machine.bin / name, own / "bin")
        (own / "etc/reveal/reveal.conf").write_text(f'[gpu]\nlibrary = "{self.machine.library}"\n')
        self.before, self.machine.bin = self.machine.bin, own / "bin"

    def __exit__(self, *_):
        if self.machine.options.double:
            self.machine.bin = self.before


def counts_in(log):
    """The number of steps at the end of each whole second; other lines are warnings."""
    return [int(line) for line in log.read_text().splitlines() if line.isdigit()]


def slow_down(self):
    """A long training, beside which collectors come and go."""
    rounds = max(1, min(MOST_ROUNDS, int(self.seconds("slow-down") / 12)))
    window = max(2, int(self.seconds("slow-down") / (3 * rounds) - 2))
    job = self.start(self.training(3 * rounds * (window + 3) + 20), "slow-down.log")
    log = self.out / "slow-down.log"
    rates = {"none": [], "100ms": [], "1s": []}
    self.wait_for_steps(job, "slow-down.log")
    for number in range(rounds):
        for interval in random.Random(number).sample(sorted(rates), len(rates)):
            collector = None
            if interval != "none":
                trace = self.out / f"slow-{interval}.h5"
                trace.unlink(missing_ok=True)
                collector = self.start(self.collect(trace, job.pid, "--interval", interval), "collector.log")
            time.sleep(1)
            begin = len(counts_in(log)) - 1
            time.sleep(window)
            counts = counts_in(log)
            if begin >= 0 and len(counts) - 1 > begin:
                rates[interval].append((counts[-1] - counts[begin]) / (len(counts) - 1 - begin))
            if collector:
                self.stop(collector)
    self.stop(job)
    return {"steps_per_second": rates, "slow_down_percent": {interval: compared(rates["none"], rates[interval])
                                                            for interval in ("100ms", "1s")}}


def compared(without, beside):
    """The difference of the means in percent, and its interval of 95 % by bootstrap."""
    if len(without) < 3 or len(beside) < 3:
        return "not measured: too few windows"
    lost = lambda a, b: 100 * (1 - statistics.mean(b) / statistics.mean(a))
    draw = random.Random(1)
    many = sorted(lost(draw.choices(without, k=len(without)), draw.choices(beside, k=len(beside))) for _ in range(2000))
    return {"mean": round(lost(without, beside), 3), "low": round(many[50], 3), "high": round(many[1949], 3)}


def recording(self):
    seconds = max(3, self.seconds("recording"))
    job = self.start(self.training(seconds + 5), "recording.log")
    self.wait_for_steps(job, "recording.log")
    folder = self.out / "recording"
    done = self.call(*self.collect(self.out / "recorded.h5", job.pid, "--duration", f"{seconds:.0f}s", "--record", folder,
                                   "--interval", "1s", "--probes", "gpu,job,process,cpu"))
    self.stop(job)
    again = self.out / "replayed"
    again.mkdir(exist_ok=True)
    replayed = self.call(self.bin / "reveal-collect", "--root", folder, "--output", again / "gpu.h5", "--interval", "1s",
                         "--probes", "gpu,job,process,cpu")
    if done.returncode != 0 or replayed.returncode != 0:
        self.problem("the recording cannot be replayed: " + (done.stderr + replayed.stderr)[-500:])
        return {}
    if "gpu.utilization" not in self.call(self.bin / "reveal", "export", again, "--format", "csv").stdout:
        self.problem("the replayed recording has no GPU")
    return {"bytes": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())}


STEPS = {"machine": machine, "calls": calls, **{name: functools.partial(reported, name=name) for name in CASES},
         "slow-down": slow_down, "recording": recording}
# Of a run that names none.
USUAL = [name for name in STEPS if name in SHARES or name == "machine"]


def run(options):
    options.out = options.out.resolve()
    for name in ("build", "programs"):
        if getattr(options, name):
            setattr(options, name, getattr(options, name).resolve())
    this = Machine(options)
    missing = [name for name in PROGRAMS if not os.access(this.bin / name, os.X_OK)]
    if missing:
        sys.exit(f"gpu_machine: {this.bin} lacks {', '.join(missing)}: build them, or bring a bundle")
    begin = time.monotonic()
    for name, step in STEPS.items():
        if name not in options.steps:
            continue
        at = time.monotonic()
        try:
            this.results[name] = step(this)
        except (OSError, ValueError, RuntimeError, subprocess.SubprocessError, StopIteration, KeyError) as error:
            this.problem(f"{name}: {type(error).__name__}: {error}")
        this.results["steps"][name] = round(time.monotonic() - at, 1)
        print(f"{name}: {this.results['steps'][name]} s", flush=True)
        (this.out / "results.json").write_text(json.dumps(this.results, indent=1))
    this.results["seconds"] = round(time.monotonic() - begin, 1)
    (this.out / "results.json").write_text(json.dumps(this.results, indent=1))
    print(json.dumps(this.results, indent=1))
    return 1 if this.results["problems"] else 0


def bundle(options):
    """Programs, and the libraries that ldd finds, without those of the C library. Needs strip and patchelf."""
    if missing := [tool for tool in ("strip", "patchelf") if not shutil.which(tool)]:
        sys.exit(f"gpu_machine: bundle needs {' and '.join(missing)}")
    for name in ("bin", "lib"):
        (options.out / name).mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        shutil.copy(options.build / "bin" / name, options.out / "bin")
        subprocess.run(["strip", options.out / "bin" / name], check=False)
        linked = subprocess.run(["ldd", options.build / "bin" / name], capture_output=True, text=True,
                                check=False).stdout  # nothing where it is linked statically
        if "=>" in linked:
            # In the old form, by which the libraries find theirs, too. LD_LIBRARY_PATH does not reach the report that
            # reveal-run starts.
            subprocess.run(["patchelf", "--force-rpath", "--set-rpath", "$ORIGIN/../lib", options.out / "bin" / name],
                           check=True)
        for path in re.findall(r"=> (/\S+)", linked):
            if not NOT_BUNDLED.search(path):
                shutil.copy(path, options.out / "lib")
    shutil.copy(__file__, options.out)
    size = sum(path.stat().st_size for path in options.out.rglob("*") if path.is_file())
    print(f"{options.out}: {size / 1e6:.1f} MB")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(dest="what", required=True)
    for name, function in (("run", run), ("bundle", bundle), ("train", train), ("fault", fault)):
        one = what.add_parser(name)
        one.set_defaults(function=function)
        if name in ("run", "bundle"):
            one.add_argument("--build", type=pathlib.Path, required=name == "bundle")
        if name == "run":
            one.add_argument("--programs", type=pathlib.Path, help="the folder bin of a bundle")
            one.add_argument("--out", type=pathlib.Path, required=True)
            one.add_argument("--minutes", type=float, default=10, help="of the steps that are usual")
            one.add_argument("--steps", nargs="+", choices=list(STEPS), default=USUAL)
        if name == "bundle":
            one.add_argument("out", type=pathlib.Path)
        if name == "train":
            one.add_argument("--seconds", type=float, required=True)
            one.add_argument("--case", choices=list(CASES), default="healthy")
            one.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("."), help="for the loader's file")
        if name in ("run", "train"):
            one.add_argument("--double", action="store_true")
    options = parser.parse_args()
    if options.what == "run" and not (options.programs or options.build):
        parser.error("run: name --programs or --build")
    if options.what == "run" and options.double and not options.build:
        parser.error("run: --double needs --build")
    sys.exit(options.function(options))


if __name__ == "__main__":
    main()
