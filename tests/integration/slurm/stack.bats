#!/usr/bin/env bats
# Calls of a job's processes, counted by a process of the broker's for a sampler that has no privilege.
load cases

setup_file() {
  CLUSTER_NODES=1 cluster_start k
  cp "$REVEAL_BUILD"/doubles/lib*.so* "$DIR/bin/"
  write_toy >"$DIR/bin/toy.py"
}
teardown_file() { cluster_stop; }

# toy.py blind: calls at once. toy.py: waits until its function is probed, as its code shows. toy.py FILE: then also for
# that file, and says whether the probe has gone meanwhile. It looks from the begin: another sampler takes the place of
# one that is killed, and probes the function again some seconds later.
write_toy() {
  cat <<'PYTHON'
import ctypes, os, sys, time
here = os.path.dirname(os.path.abspath(__file__))
open("id", "w").write(os.environ["SLURM_JOB_ID"] + "\n")
nccl = ctypes.CDLL(here + "/libnccl.so.2")
code = ctypes.cast(nccl.ncclAllReduce, ctypes.POINTER(ctypes.c_ubyte))
def until(condition, looks=300):
    for _ in range(looks):
        if condition():
            return True
        time.sleep(.1)
    return False
blind = sys.argv[1:] == ["blind"]
if not blind and not until(lambda: code[0] == 0xcc):
    sys.exit(9)
if sys.argv[1:] and not blind:
    open("probed", "w").close()
    gone = until(lambda: code[0] != 0xcc, 1200)
    if gone:
        open("gone", "w").close()
    until(lambda: os.path.exists(sys.argv[1]))
    print("not probed" if gone else "probed", flush=True)
null = ctypes.c_void_p()
for i in range(1000):
    nccl.ncclAllReduce(null, null, ctypes.c_size_t(512), 7, 4 if i % 100 == 0 else 0, null, null)
time.sleep(3)  # an answer may come a row late
sys.exit(7)
PYTHON
}

can_count() {
  grep -q 'ProctrackType=proctrack/cgroup' "$DIR/slurm.conf" || skip "Slurm keeps no control groups of jobs here"
  /usr/bin/python3 - "$REVEAL_BUILD/bin/reveal-collect" <<'PYTHON' || skip "no calls can be counted here: $(cat "$DIR/why")"
import json, os, subprocess, sys
def say(why):
    open(os.environ["DIR"] + "/why", "w").write(why)
    sys.exit(1)
try:
    import h5py
except ImportError:
    say("python3-h5py is not installed")
if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 6):
    say("Linux before 6.6")
if "Seccomp:\t0" not in open("/proc/self/status").read():
    say("a seccomp filter, under which nothing is timed")
check = subprocess.run([sys.argv[1], "--check", "--stack", "--job", f"pid:{os.getpid()}", "--json"], capture_output=True, text=True)
state = next(each for each in json.loads(check.stdout) if each["name"] == "stack")
if state["state"] != "ok":
    say(state["reason"])
PYTHON
}

counted() { # counted TRACE: calls, bytes and errors of ncclAllReduce, and what the coverage says
  /usr/bin/python3 - "$1" <<'PYTHON'
import sys, h5py
with h5py.File(sys.argv[1]) as trace:
    def total(family):
        if f"stack/{family}_channels" not in trace:
            return 0
        rows, values, base = (trace[f"stack/{family}{part}"] for part in ("_channels", "", "_base"))
        found = 0
        for row, (name, instance) in enumerate(zip(rows["metric"].asstr()[:], rows["instance"].asstr()[:])):
            if name == f"stack.{family}" and instance.endswith("/ncclAllReduce"):
                found += int(base[row, 0]) + int(values[row, :][values[row, :] != values.fillvalue].sum())
        return found
    print(total("calls"), total("bytes"), total("errors"))
    for row in trace["coverage"][:]:
        words = [word.decode() if isinstance(word, bytes) else str(word) for word in row]
        if "stack" in words:
            print(*words)
PYTHON
}
# The process that counts has the user's identity and two capabilities.
counting_process() {
  local process
  for process in $(collectors_of "$1" k1 "$(id -u "$user")"); do
    if grep -qs $'^CapEff:\t000000c000000000$' "/proc/$process/status"; then echo "$process"; fi
  done
}
counts_for() { [ -n "$(counting_process "$1")" ]; }

@test "srun --reveal=stack=on" {
  can_count
  situation "srun --reveal=stack=on, and REVEAL_STACK=on, exit 7"
  local status=0 id
  as_user srun -N1 --reveal=stack=on /usr/bin/python3 "$DIR/bin/toy.py" >out 2>err || status=$?
  unchanged 7 $status
  says out
  says err "srun: error: k1: task 0: Exited with exit code 7"
  id=$(cat id)
  report "$work/reveal-$id" "$id" k1
  counted "$work/reveal-$id/k1.h5" >counted
  [ "$(head -n 1 counted)" = "1000 2048000 10" ] || problem "not what was called: $(cat counted)"
  nothing_left "$id"

  status=0
  as_user env REVEAL_STACK=on srun -N1 --reveal /usr/bin/python3 "$DIR/bin/toy.py" >out 2>err || status=$?
  unchanged 7 $status
  id=$(cat id)
  report "$work/reveal-$id" "$id" k1
  counted "$work/reveal-$id/k1.h5" >counted
  [ "$(head -n 1 counted)" = "1000 2048000 10" ] || problem "not what was called: $(cat counted)"
  started_cleanly "$id"
  nothing_left "$id"
  verdict
}

@test "calls that nobody asked to count, or that the site does not allow to" {
  can_count
  situation "--reveal without stack; stack = \"never\""
  local status=0 id
  as_user srun -N1 --reveal /usr/bin/python3 "$DIR/bin/toy.py" blind >out 2>err || status=$?
  unchanged 7 $status
  id=$(cat id)
  report "$work/reveal-$id" "$id" k1
  counted "$work/reveal-$id/k1.h5" >counted
  grep -q 'off by default (reveal-run --stack, srun --reveal=stack=on)' counted || problem "coverage: $(cat counted)"
  nothing_left "$id"

  cp "$DIR/reveal.conf" "$DIR/reveal.conf.before"
  echo 'stack = "never"' >>"$DIR/reveal.conf"
  status=0
  as_user srun -N1 --reveal=stack=on /usr/bin/python3 "$DIR/bin/toy.py" blind >out 2>err || status=$?
  cp "$DIR/reveal.conf.before" "$DIR/reveal.conf"
  unchanged 7 $status
  id=$(cat id)
  report "$work/reveal-$id" "$id" k1
  counted "$work/reveal-$id/k1.h5" >counted
  grep -q 'stack in \[slurm\] must allow it' counted || problem "coverage: $(cat counted)"
  nothing_left "$id"
  verdict
}

# killed WHO: kills what the function WHO prints for the job, while a function of the job's is probed.
killed() {
  local status=0 id task
  as_user srun -N1 --reveal=stack=on /usr/bin/python3 "$DIR/bin/toy.py" killed >out 2>err &
  task=$!
  until_true 30 test -e probed || problem "nothing was probed"
  id=$(cat id)
  counts_for "$id" || problem "no process counts: $(collectors_of "$id" k1)"
  [ ! -e gone ] || problem "nothing was probed any more before the kill"
  kill -9 $($1 "$id") || problem "nobody to kill"
  as_user touch "$work/killed"
  wait $task || status=$?
  unchanged 7 $status
  says out "not probed"
  killed_job=$id
}
sampler_of() { # the process that has the trace
  local process
  for process in $(collectors_of "$1" k1 "$(id -u "$user")"); do
    if ls -l "/proc/$process/fd" 2>/dev/null | grep -q '\.h5\.part'; then echo "$process"; fi
  done
}
broker_of() { collectors_of "$1" k1 0; }

@test "the process that counts is killed" {
  can_count
  situation "--reveal=stack=on, kill -9 of the process that counts"
  killed counting_process
  report "$work/reveal-$killed_job" "$killed_job" k1
  counted "$work/reveal-$killed_job/k1.h5" >counted
  grep -q "the broker's counting process has ended" counted || problem "coverage: $(cat counted)"
  nothing_left "$killed_job"
  verdict
}

@test "the sampler of a job whose calls are counted is killed" {
  can_count
  situation "--reveal=stack=on, kill -9 of the sampler"
  killed sampler_of
  nothing_left "$killed_job"
  verdict
}

@test "the broker of a job whose calls are counted is killed" {
  can_count
  situation "--reveal=stack=on, kill -9 of the broker"
  killed broker_of
  nothing_left_but_locks "$killed_job"
  verdict
}
