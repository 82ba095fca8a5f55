#!/usr/bin/env bash
# A job on GPUs, from reveal-run to the report, against a double of NVIDIA's library: what it measures, and that a
# library that hangs, crashes or loses a GPU costs the job nothing.
set -u
double="$REVEAL_BUILD/doubles/nvml_double.so"
[ -f "$double" ] || { echo "skipped: no double of NVML was built"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
mkdir -m 700 run home bin
mkdir -p etc/reveal
export XDG_RUNTIME_DIR="$tmp/run" HOME="$tmp/home"
unset XDG_CONFIG_HOME CUDA_VISIBLE_DEVICES ${!SLURM_*} ${!REVEAL_RUN_*}
# An installation of its own, because only the site's file says which library is loaded.
for program in reveal reveal-run reveal-collect; do
  ln "$REVEAL_BUILD/bin/$program" bin/ 2>/dev/null || cp "$REVEAL_BUILD/bin/$program" bin/
done
printf '[gpu]\nlibrary = "%s"\n' "$double" >etc/reveal/reveal.conf
failures=0
fail() {
  echo "FAIL: $*"
  failures=$((failures + 1))
}
# gpus LINES...: what the double answers from now on.
gpus() { printf '%s\n' "$@" "log $tmp/calls" >new && mv new gpus.txt; }
export NVML_DOUBLE="$tmp/gpus.txt"
# watched DIRECTORY COMMAND...: exit status 7 is the command's own.
watched() {
  local directory=$1
  shift
  bin/reveal-run --output "$directory" --node here -- "$@" >out 2>err
  [ $? = 7 ] || fail "$directory: the job's exit status was not kept: $(cat err)"
  [ -f "$directory/here.h5" ] || fail "$directory: no closed trace: $(cat err)"
}
coverage() { # DIRECTORY: the reason that the report gives for the GPU probe
  /usr/bin/python3 -c '
import json, sys
report = json.load(open(sys.argv[1] + "/report.json"))
print([p.get("reason") or "" for c in report["coverage"] for p in c["probes"] if p["name"] == "gpu"][0])' "$1"
}

# One call takes 30 seconds in the middle of this job, which runs beside the others.
printf '%s\n' "gpus 1" "utilization 90" "latency 0*4,30000*1.5,0*600" >pause.txt
NVML_DOUBLE="$tmp/pause.txt" bin/reveal-run --output pauses --node here -- bash -c 'sleep 40; exit 7' >pause.out 2>&1 &
pausing=$!

echo "== what a job on two GPUs leaves"
gpus "gpus 2" "utilization 90" "1.utilization 40" "memory_used 1000000" "memory_total 4000000" "power 300000" \
  "sm_clock 1400" "reasons 0" "temperature 55" "power_limit 400000" "name H100" "minor 0" "1.minor 1" "remap_pending 0" "1.remap_pending 1" "0.xid 79"
CUDA_VISIBLE_DEVICES=0,1 watched two bash -c 'sleep 6; exit 7'
[ "$(cat calls)" = "$(printf 'init\nshutdown')" ] || fail "the driver was not closed: $(cat calls)"
/usr/bin/python3 - two/here.h5 <<'PY' || fail "the trace lacks what the GPUs did"
import sys
try:
    import h5py
except ImportError:
    print("skipped: python3-h5py; the trace is not read")
    sys.exit(0)
with h5py.File(sys.argv[1]) as trace:
    for family in ("utilization", "memory", "power", "clocks", "reasons"):
        values = trace["gpu/" + family]
        assert len(values) > 0, family
    # Their second reading is that at the end: the others are ten seconds apart.
    assert all((gpu > 0).any() for gpu in trace["gpu/energy"][:]), trace["gpu/energy"][:]
PY
found() { # DIRECTORY RULE INSTANCE
  /usr/bin/python3 -c '
import json, sys
report = json.load(open(sys.argv[1] + "/report.json"))
sys.exit(not any(f["id"] == sys.argv[2] and sys.argv[3] in f["instances"] for f in report["findings"]))' "$@"
}
found two gpu.ecc_remap gpu1 || fail "the row of memory that waits for a reset is not found"
found two gpu.xid gpu0 || fail "the error of the driver is not found"
bin/reveal show two >page || fail "no report: $(cat page)"
[ -z "$(coverage two)" ] || fail "a caveat without a reason: $(coverage two)"

echo "== a library that hangs"
gpus "gpus 1" "utilization 90" "latency 60000"
watched hangs bash -c 'sleep 4; exit 7'
coverage hangs | grep -q "not answered yet" || fail "the hanging library is not named: $(coverage hangs)"

echo "== a library that crashes in the middle"
gpus "gpus 1" "utilization 90" "crash 0*3,1*600"
watched crashes bash -c 'sleep 6; exit 7'
coverage crashes | grep -q "crashed: there is no data after that" || fail "the crash is not named: $(coverage crashes)"

echo "== a GPU that falls off the bus"
gpus "gpus 2" "utilization 90" "1.utilization 90*3,!15*600"
watched lost bash -c 'sleep 6; exit 7'
coverage lost | grep -q "gpu1 was lost" || fail "the lost GPU is not named: $(coverage lost)"
found lost gpu.xid gpu1 || fail "the lost GPU is no finding"

echo "== a job that ends with the driver's error"
gpus "gpus 1" "utilization 90"
watched died bash -c 'sleep 3; printf "%s\n" "gpus 1" "utilization 90" "0.xid 79" >new && mv new gpus.txt; exit 7'
found died gpu.xid gpu0 || fail "the error at the end is not found"

echo "== a call that takes 30 seconds in the middle of the job"
wait $pausing
[ $? = 7 ] || fail "pauses: the job's exit status was not kept: $(cat pause.out)"
coverage pauses | grep -q "did not answer for a part of the time" || fail "the pause is not named: $(coverage pauses)"
/usr/bin/python3 - pauses/here.h5 <<'PY' || fail "the values before and after the pause are not those that were measured"
import sys
try:
    import h5py
except ImportError:
    print("skipped: python3-h5py is not installed, so the trace is not read")
    sys.exit(0)
with h5py.File(sys.argv[1]) as trace:
    values = trace["gpu/utilization"][0]
known = [second for second, value in enumerate(values) if value == 90]
gap = max(b - a for a, b in zip(known, known[1:]))
assert all(value == 90 or value != value for value in values), values
assert known[0] < 5 and known[-1] > 34 and gap > 25, known
PY

echo "== no library"
printf '[gpu]\nlibrary = "/nowhere/libnvidia-ml.so.1"\n' >etc/reveal/reveal.conf
watched without bash -c 'sleep 2; exit 7'
coverage without | grep -q "no NVIDIA driver here" || fail "no library: $(coverage without)"

[ $failures -eq 0 ] && echo "gpu: all passed"
exit $((failures > 0))
