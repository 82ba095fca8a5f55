#!/usr/bin/python3
"""The rules about how a Python program uses its stack, each on a real job with the cause and on one without it: garbage
collections, a data loader that is too slow, and many small collectives of gloo. Of the latter, so many that counting all
of them would cost too much, and they are counted in turns. The limits of time are shorter here."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import BUILD, GLOO_WORK, TWO_RANKS, check as expect, failures, skip  # noqa: E402
from stack_runs import need_counted_calls  # noqa: E402

SECONDS = 40  # of a job whose lines are sampled: a finding needs 30 samples, one a second
MESSAGES_SECONDS = 30
MOST_SECONDS = 200  # until collectives are counted again after a rest; decides nothing when all is well
NEVER_RESTED = 5  # exit status
LIMITS = "min_after = 8\nmin_seconds = 20\n"
# On a machine that is busy with other tests, a collective also waits for a cpu.
CONFIG = (f'[rule."stack.gc_pauses"]\n{LIMITS}[rule."stack.input_wait"]\n{LIMITS}'
          f'[rule."stack.small_messages"]\n{LIMITS}min_measured = 2\nmax_mean = 50\nmin_rate = 20\n')

COLLECTS = """
import gc, sys, time
kept = [[i, (i,)] for i in range(300000)]
if sys.argv[1] == "off":
    gc.disable()
end = time.time() + float(sys.argv[2])
while time.time() < end:
    some = [[i] for i in range(50000)]
"""
LOADS = """
import os, sys, time, torch
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 10**9
    def __getitem__(self, index):
        time.sleep(float(sys.argv[1]))
        return torch.randn(64)
torch.set_num_threads(1)
model = torch.nn.Linear(64, 256)
end = time.time() + float(sys.argv[3])
for batch in torch.utils.data.DataLoader(Data(), batch_size=8, num_workers=int(sys.argv[2])):
    model(batch).square().mean().backward()
    if time.time() > end:
        os._exit(0)
"""
# With a number of turns, it ends once counting its collectives has begun so often, as the function's own code shows.
EXCHANGES = """
import ctypes, os, sys, time, torch, torch.distributed as dist
work = getattr(ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")), sys.argv[4])
code = ctypes.cast(work, ctypes.POINTER(ctypes.c_ubyte))
turns, begun, counted = int(sys.argv[5]), 0, False
dist.init_process_group("gloo")
value, begin, steps = torch.ones(int(sys.argv[1])), time.time(), 0
end = begin + float(sys.argv[2])
while True:
    computed = time.perf_counter() + float(sys.argv[3])
    while time.perf_counter() < computed:
        pass
    dist.all_reduce(value)
    value.fill_(1)
    begun, counted = begun + (code[0] == 0xcc and not counted), code[0] == 0xcc
    if turns > 0 and begun == turns:
        end, turns = max(begin + 30, time.time() + 5), 0
    steps += 1
    if steps % 200 == 0:
        late = torch.tensor([float(time.time() > end), float(turns == 0)])
        dist.all_reduce(late)
        if late[0] > 0:
            break
time.sleep(2.5)  # an answer may come a row late
sys.exit(0 if late[1] > 0 else NEVER_RESTED)
""".replace("NEVER_RESTED", str(NEVER_RESTED))

need_counted_calls()
torch = subprocess.run([sys.executable, "-c", "import sys, torch.distributed as d; sys.exit(not d.is_available())"],
                       capture_output=True, check=False).returncode == 0
if not torch:
    skip("PyTorch is not installed")

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "REVEAL_RUN_"))}
    environment |= {"HOME": name, "XDG_RUNTIME_DIR": name}
    (folder / "reveal.conf").write_text(CONFIG)
    for script, text in (("collects.py", COLLECTS), ("loads.py", LOADS), ("exchanges.py", EXCHANGES), ("launch.py", TWO_RANKS)):
        (folder / script).write_text(text)
    rank = [sys.executable, folder / "launch.py", folder / "exchanges.py"]
    jobs = {
        "collects": ("stack.gc_pauses", [sys.executable, folder / "collects.py", "on", str(SECONDS)]),
        "does not collect": (None, [sys.executable, folder / "collects.py", "off", str(SECONDS)]),
        "waits for its loader": ("stack.input_wait", [sys.executable, folder / "loads.py", ".05", "1", str(SECONDS)]),
        "loads by itself": (None, [sys.executable, folder / "loads.py", ".001", "0", str(SECONDS)]),
        "small messages": ("stack.small_messages", [*rank, "250", str(MESSAGES_SECONDS), ".004", GLOO_WORK, "0"]),
        "large messages": (None, [*rank, "2000000", str(MESSAGES_SECONDS), "0", GLOO_WORK, "0"]),
        "too many messages": ("stack.small_messages", [*rank, "250", str(MOST_SECONDS), "0", GLOO_WORK, "2"]),
    }
    order = list(jobs)
    for together in (order[0:4], order[4:6], order[6:7]):  # ranks are not to wait for cpus that other jobs have
        running = {job: subprocess.Popen([BUILD / "bin/reveal-run", "--stack", "--no-report", "--node", "here", "--output",
                                          folder / job.replace(" ", "-"), "--", *jobs[job][1]], env=environment,
                                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for job in together}
        for job, process in running.items():
            _, said = process.communicate(timeout=300)
            rested = process.returncode != NEVER_RESTED
            expect(process.returncode == 0 or not rested, f"{job}: exit status {process.returncode} {said}")
            trace = folder / job.replace(" ", "-")
            told = subprocess.run([BUILD / "bin/reveal", "report", "--config", folder / "reveal.conf", trace],
                                  capture_output=True, text=True, check=False)
            expect(told.returncode == 0, f"{job}: no report: {told.stderr}")
            report = json.loads((trace / "report.json").read_text())
            found = {one["id"]: one["sentence"] for one in report["findings"]}
            ours = {rule: sentence for rule, sentence in found.items() if rule in (
                "stack.gc_pauses", "stack.input_wait", "stack.small_messages")}
            print(f"{job}: {ours}")
            wanted = jobs[job][0]
            expect(set(ours) == ({wanted} if wanted else set()), f"{job}: {ours} instead of {wanted}")
            if job != "too many messages":
                continue
            if not rested:
                print(f"{job}: not judged, because these ranks got too little cpu time to make too many")
                continue
            reason = next(each["reason"] for each in report["coverage"][0]["probes"] if each["name"] == "stack")
            print(f"{job}: {reason}")
            share = re.search(r"c10d\.work was counted in turns, (\d+) % of the time: counting \d+ calls took ", reason)
            expect(share is not None and 0 < int(share[1]) < 100, f"{job}: {reason}")
            expect(re.search(r"; measured in \d+ of \d+ s\.$", ours.get(wanted, "")), f"{job}: {ours}")

sys.exit(1 if failures else 0)
