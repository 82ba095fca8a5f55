#!/usr/bin/python3
"""Calls of a real training on a GPU (PyTorch, DDP over NCCL, one rank), counted by reveal and by PyTorch's own profiler.

  gpu_stack.py run --programs BUNDLE/bin --out RESULTS      BUNDLE by gpu_machine.py bundle; root, PyTorch with a GPU

Steps of a run:

  profile    a few steps under PyTorch's profiler: calls into the CUDA runtime and the driver that each step makes
  counted    the same steps under `reveal-run --stack`, slowly enough that no function is switched off: calls per step
             against the profiler's, steps and their durations against the program's log, bytes of the all-reduces against
             the gradients
  slow-down  the same training at full speed, with and without a collector with --stack, in turn

RESULTS gets stack.json, the reports and the traces."""
import argparse
import collections
import ctypes
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import time

from gpu_machine import Machine, compared, counts_in

STEPS = 400  # of the counted training
PROFILED = 20
WARM_UP = 5
PAUSE = 0.04  # seconds after each counted step: the calls stay far below the budget of the probes
ROUNDS, WINDOW = 8, 4.0  # of the slow-down, seconds
WIDTH, LAYERS = 512, 12


def wait_for_probes():
    """Until the functions are probed, as their own code shows: what is called before that cannot be counted."""
    maps = pathlib.Path("/proc/self/maps").read_text(encoding="utf-8")
    for library, function in (("libnccl.so", "ncclAllReduce"), ("libcudart.so", "cudaLaunchKernel"),
                              ("libtorch_cpu.so", "_ZN5torch8autograd6Engine7executeE")):
        path = next((word for word in re.findall(r"(/\S+)$", maps, re.M) if library in word), None)
        if path is None:
            print(f"{library} is not loaded", flush=True)
            continue
        try:
            code = ctypes.cast(getattr(ctypes.CDLL(path), function), ctypes.POINTER(ctypes.c_ubyte))
        except AttributeError:
            continue  # a name with its arguments
        for _ in range(250):
            if 0xCC in code[:12]:
                break
            time.sleep(0.1)
        else:
            print(f"{function} was not probed", flush=True)
    time.sleep(2.5)


def train(options):
    import torch
    from torch import nn
    import torch.distributed as dist
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29517", "RANK": "0", "WORLD_SIZE": "1"}
    torch.cuda.set_device(0)
    dist.init_process_group("nccl")
    torch.manual_seed(1)
    layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.GELU())]
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    gradient = sum(4 * each.numel() for each in model.parameters())
    host = torch.randn(256, WIDTH).pin_memory()
    begins = []

    def step():
        batch = host.cuda(non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        loss = model(batch).square().mean()
        begins.append(time.clock_gettime_ns(time.CLOCK_MONOTONIC))
        loss.backward()
        optimizer.step()
        return loss.item()

    for _ in range(WARM_UP):  # DDP rebuilds its buckets after the first
        step()
    torch.cuda.synchronize()
    if options.wait:
        wait_for_probes()
    begins.clear()
    print("first", flush=True)
    if options.profile:
        from torch.profiler import ProfilerActivity, profile
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            for _ in range(PROFILED):
                step()
        calls = collections.Counter()
        for event in profiler.events():
            if re.match(r"(cuda|cu|nccl)[A-Z]", event.name) or "nccl" in event.name:
                calls[event.name] += 1
        options.log.write_text(json.dumps({name: count / PROFILED for name, count in calls.items()}))
    elif options.seconds:
        end, second = time.monotonic() + options.seconds, int(time.monotonic())
        while time.monotonic() < end:
            step()
            if int(time.monotonic()) != second:
                second = int(time.monotonic())
                print(len(begins), flush=True)
    else:
        for _ in range(STEPS):
            step()
            time.sleep(PAUSE)
        options.log.write_text(json.dumps({"begins": begins, "gradient_bytes": gradient,
                                           "torch": torch.__version__, "nccl": list(torch.cuda.nccl.version())}))
        time.sleep(2.5)  # an answer may come a row late
    dist.destroy_process_group()


def training(*words):
    return [sys.executable, str(pathlib.Path(__file__).resolve()), "train", *map(str, words)]


def profiled(this):
    done = this.call(*training("--profile", "--log", this.out / "profile.json"))
    if done.returncode != 0:
        this.problem("the profiled training failed: " + done.stderr[-800:])
        return {}
    return json.loads((this.out / "profile.json").read_text())


def totals(trace, table, metric):
    rows, values, base = trace[f"stack/{table}_channels"], trace[f"stack/{table}"], trace[f"stack/{table}_base"]
    found = {}
    for row, (name, instance) in enumerate(zip(rows["metric"].asstr()[:], rows["instance"].asstr()[:])):
        if name == metric:
            line, begins = values[row, :], base[row, :]
            known = begins[begins != base.fillvalue]
            found[instance] = (int(known[0]) if len(known) else 0) + int(line[line != values.fillvalue].sum())
    return found


def per_step(trace):
    """Calls of each function for each backward pass, in the rows of a second in which both are known; the smallest and
    the largest. A function that rests for its cost has no rows then."""
    rows, values = trace["stack/calls_channels"], trace["stack/calls"]
    lines = {name.rpartition("/")[2]: values[row, :].astype(float) for row, (metric, name) in
             enumerate(zip(rows["metric"].asstr()[:], rows["instance"].asstr()[:])) if metric == "stack.calls"}
    steps, ratios = lines.get("torch.backward"), {}
    for name, line in lines.items():
        known = [float(line[i] / steps[i]) for i in range(len(line))
                 if values.fillvalue not in (line[i], steps[i]) and steps[i] >= 1 / PAUSE / 2]
        if known:
            ratios[name] = [round(min(known), 2), round(max(known), 2), len(known)]
    return ratios


def counted(this):
    import h5py
    import numpy
    folder, log = this.out / "counted", this.out / "counted.json"
    done = this.call(this.bin / "reveal-run", "--stack", "--output", folder, "--node", "gpu", "--",
                     *training("--wait", "--log", log))
    (this.out / "counted.txt").write_text(done.stdout + done.stderr)
    if done.returncode != 0 or not log.exists():
        this.problem(f"the counted training failed ({done.returncode}): " + (done.stdout + done.stderr)[-1200:])
        return {}
    truth = json.loads(log.read_text())
    begins = numpy.array(truth.pop("begins"))
    with h5py.File(folder / "gpu.h5") as trace:
        calls, moved, errors = (totals(trace, table, f"stack.{table}") for table in ("calls", "bytes", "errors"))
        steps = trace["steps"][:] if "steps" in trace else numpy.zeros(0)
        rows_of_calls = per_step(trace)
    result = truth | {"steps_logged": len(begins), "steps_before": WARM_UP, "steps_listed": len(steps), "calls": calls,
                      "bytes": moved, "rows": rows_of_calls}
    result["errors"] = {name: total for name, total in errors.items() if total}
    total = next((count for name, count in calls.items() if name.endswith("/torch.backward")), 0)
    if total >= len(begins) and len(steps):
        rows = steps[steps["number"] > total - len(begins)]  # the first ones were made before the log
        place = rows["number"] - 1 - (total - len(begins))
        late = (rows["begin_ns"] - begins[place]) / 1e3
        known = (rows["duration_ns"] >= 0) & (place + 1 < len(begins))
        wrong = numpy.abs(rows["duration_ns"][known] - numpy.diff(begins)[place[known]]) / 1e3
        result["begin_us_behind_log"] = {"median": float(numpy.median(late)), "most": float(numpy.max(late))}
        result["duration_us_error"] = {"median": float(numpy.median(wrong)), "most": float(numpy.max(wrong))}
    return result


def slow_down(this):
    seconds = ROUNDS * 2 * (WINDOW + 4) + 10
    job = this.start(training("--seconds", seconds, "--log", this.out / "none"), "slow-stack.log")
    log = this.out / "slow-stack.log"
    for _ in range(600):
        if len(counts_in(log)) > 2 or job.poll() is not None:
            break
        time.sleep(0.1)
    rates = {"none": [], "stack": []}
    for number in range(ROUNDS):
        for kind in random.Random(number).sample(sorted(rates), len(rates)):
            collector = None
            if kind == "stack":
                trace = this.out / "slow-stack.h5"
                trace.unlink(missing_ok=True)
                collector = this.start(this.collect(trace, job.pid, "--stack"), "collector.log")
            time.sleep(3)
            begin = len(counts_in(log)) - 1
            time.sleep(WINDOW)
            done = counts_in(log)
            if len(done) - 1 > begin >= 0:
                rates[kind].append((done[-1] - done[begin]) / (len(done) - 1 - begin))
            if collector:
                this.stop(collector)
    this.stop(job)
    return {"steps_per_second": {kind: round(statistics.mean(each), 2) for kind, each in rates.items() if each},
            "windows": rates, "slow_down_percent": compared(rates["none"], rates["stack"])}


STEPS_OF_RUN = {"profile": profiled, "counted": counted, "slow-down": slow_down}


def run(options):
    options.out, options.programs = options.out.resolve(), options.programs.resolve()
    this, results = Machine(options), {}
    for name in options.steps:
        step = STEPS_OF_RUN[name]
        begin = time.monotonic()
        try:
            results[name] = step(this)
        except (OSError, ValueError, RuntimeError, subprocess.SubprocessError, KeyError) as error:
            this.problem(f"{name}: {type(error).__name__}: {error}")
        print(f"{name}: {time.monotonic() - begin:.1f} s", flush=True)
        (this.out / "stack.json").write_text(json.dumps(results, indent=1))
    print(json.dumps(results, indent=1))
    return 1 if this.results["problems"] else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(dest="what", required=True)
    one = what.add_parser("run")
    one.add_argument("--programs", type=pathlib.Path, required=True, help="the folder bin of a bundle")
    one.add_argument("--out", type=pathlib.Path, required=True)
    one.add_argument("--steps", nargs="+", choices=STEPS_OF_RUN, default=list(STEPS_OF_RUN))
    one.set_defaults(function=run, double=False, build=None)
    one = what.add_parser("train")
    one.add_argument("--log", type=pathlib.Path, required=True)
    one.add_argument("--profile", action="store_true")
    one.add_argument("--wait", action="store_true", help="for the probes, before the first step")
    one.add_argument("--seconds", type=float, default=0)
    one.set_defaults(function=train)
    options = parser.parse_args()
    sys.exit(options.function(options))


if __name__ == "__main__":
    main()
