#!/usr/bin/env bash
# reveal-collect as a program: what it writes, when it ends, and how it refuses.
set -u
collect=$REVEAL_BUILD/bin/reveal-collect
[ -x "$collect" ] || collect=$REVEAL_BUILD/reveal-collect
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

fail() { echo "FAILED: $*"; failures=$((failures + 1)); }

until_true() { # WHAT CONDITION...: decides nothing when all is well
  local what=$1
  shift
  for _ in $(seq 600); do
    "$@" 2>/dev/null && return
    sleep 0.1
  done
  fail "waited in vain for $what"
  return 1
}

# expect_error STATUS 'TEXT' arguments...: one line with TEXT on stderr, nothing on stdout.
expect_error() {
  local status=$1 text=$2
  shift 2
  "$collect" "$@" >out 2>err
  local got=$?
  [ "$got" = "$status" ] || fail "$*: exit status $got instead of $status"
  [ "$(wc -l <err)" = 1 ] || fail "$*: $(wc -l <err) lines of error: $(cat err)"
  grep -qF -- "$text" err || fail "$*: \"$text\" is not in: $(cat err)"
  [ ! -s out ] || fail "$*: wrote to standard output"
}

expect_error 2 'did you mean "--interval"?' --intervall 100ms
expect_error 2 'did you mean "memory"?' --output x.h5 --probes memmory --duration 1s
expect_error 2 'did you mean "c10d.wait"?' --output x.h5 --stack-without c10d.wiat --duration 1s
expect_error 2 '--stack-budget is a number from 0.05 to 5, in percent, not "9"' --output x.h5 --stack-budget 9
expect_error 2 '--output FILE is missing'
expect_error 2 'expected a time' --output x.h5 --interval fast
expect_error 2 'expected key=value' --output x.h5 --tag nothing
expect_error 2 '--node a/b: expected a name' --output x.h5 --node a/b
expect_error 2 '--node ..: expected a name' --output x.h5 --node ..
expect_error 2 'pid:N, run:DIR or slurm:ID' --output x.h5 --job 4711
expect_error 1 'not a directory' --output x.h5 --root /does/not/exist
expect_error 1 'missing/x.h5' --output missing/x.h5 --duration 1s
expect_error 2 'expected full, summary, or rolling' --output x.h5 --retain rolling=5s
echo 'a gauge parsec /x' >metrics.conf
expect_error 1 'metrics.conf:1: "gauge parsec"' --output x.h5 --metrics metrics.conf --duration 1s
echo 'mem.dirty' >metrics.conf
echo 'cpu.usr' >>metrics.conf
expect_error 1 'metrics.conf:2: unknown metric "cpu.usr"; did you mean "cpu.user"?' --output x.h5 --metrics metrics.conf
[ -z "$(ls -- *.h5* 2>/dev/null)" ] || fail "a refusal left a file behind"

"$collect" --list-probes --json | /usr/bin/python3 -c '
import json, sys
probes = json.load(sys.stdin)
assert len(probes) >= 15, len(probes)
assert all(f["metrics"] for p in probes for f in p["families"])' || fail "--list-probes --json"
"$collect" --check --json | /usr/bin/python3 -c '
import json, sys
facts = json.load(sys.stdin)
assert all(f["state"] == "ok" or f["reason"] for f in facts)
assert any(f["name"] == "cpu" and f["state"] == "ok" for f in facts)' || fail "--check --json"
"$collect" --facts --json | /usr/bin/python3 -c '
import ipaddress, json, sys
facts = json.load(sys.stdin)
assert facts["kernel.release"] and facts["cpu.count"], facts
for name in (name for name in facts if name.startswith("address.")):
    for address in facts[name].split():
        ipaddress.ip_address(address)' || fail "--facts --json"

# A duration, silence on success, and no second trace over the first.
"$collect" --output a.h5 --duration 1s >out 2>err || fail "a duration: $(cat err)"
[ -f a.h5 ] && [ ! -e a.h5.part ] || fail "a duration left no closed trace"
[ ! -s out ] && [ ! -s err ] || fail "not silent: $(cat out err)"
expect_error 1 'a.h5' --output a.h5 --duration 1s

# Of two that start at once on one file, one records, and the other leaves its file alone.
for round in 1 2 3 4 5 6 7 8; do
  "$collect" --output "twin$round.h5" --probes memory --duration 200ms 2>twin1.err &
  first=$!
  "$collect" --output "twin$round.h5" --probes memory --duration 200ms 2>twin2.err
  second=$?
  wait $first
  first=$?
  [ $((first + second)) = 1 ] || fail "twins: status $first and $second: $(cat twin?.err)"
  [ -f "twin$round.h5" ] && [ ! -e "twin$round.h5.part" ] || fail "twins left $(echo twin$round.h5*)"
done

# The end of the job is the end of the trace; few open files are enough.
(ulimit -n 40; exec "$collect" --output few.h5 --duration 1s) || fail "with 40 files"
# It starts nothing and rests while the collector starts: of what is read several times before the first tick, a
# recording keeps the last.
mkfifo go
bash -c 'read -r _ <go; for i in 1 2 3 4 5 6; do (i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done); done; sleep 1' &
job=$!
until_true "a job that waits" grep -q '^State:.S' /proc/$job/status
"$collect" --output job.h5 --node n01 --job pid:$job --record rec &
collector=$!
until_true "the first tick" grep -aq '^= ' rec/ticks.rec
echo >go
wait $collector || fail "a job: status $?"
wait $job
[ -f job.h5 ] || fail "the trace of a job"

# Where the user may start no thread more, it says what is missing. (root has no such limit.)
if [ "$(id -u)" = 0 ] && setpriv --reuid 54399 --clear-groups true 2>/dev/null; then
  mkdir -m 777 limited && chmod 755 "$work"
  cp "$collect" theirs # root's own clone may be where nobody else can look
  setpriv --reuid 54399 --clear-groups bash -c "ulimit -u 1; exec ./theirs --output limited/x.h5 --duration 1s" 2>err
  [ $? = 1 ] || fail "without a thread: no failure"
  grep -q 'limited/x.h5.part: the writer thread cannot be started: .*ulimit -u' err || fail "without a thread: $(cat err)"
  [ -z "$(ls limited)" ] || fail "without a thread: left $(ls limited)"
fi

# The recording replays to the same numbers.
"$collect" --output replay.h5 --node n01 --root rec || fail "a replay: status $?"

# A signal closes the trace.
sleep 30 &
job=$!
"$collect" --output signal.h5 --job pid:$job &
collector=$!
until_true "a trace to close" test -s signal.h5.part
kill -TERM $collector
wait $collector || fail "SIGTERM: status $?"
kill $job
[ -f signal.h5 ] || fail "SIGTERM left no closed trace"

# Without standard streams, no message can get into the trace.
"$collect" --output streams.h5 --duration 60s <&- >&- 2>&- &
collector=$!
until_true "a trace without streams" test -e streams.h5.part
for stream in 0 1 2; do
  [ "$(readlink /proc/$collector/fd/$stream)" = /dev/null ] || fail "stream $stream: $(readlink /proc/$collector/fd/$stream)"
done
kill -TERM $collector
wait $collector || fail "without standard streams: status $?"

# The end comes too when the directory is gone, though only the job would have ended it.
mkdir gone
sleep 60 &
job=$!
"$collect" --output gone/x.h5 --job pid:$job 2>err &
collector=$!
until_true "a trace to lose" test -s gone/x.h5.part
rm -rf gone
ended() { ! kill -0 $collector; }
until_true "the end without its directory" ended || kill -9 $collector
wait $collector
[ $? = 1 ] || fail "no failure without its directory"
[ "$(wc -l <err)" = 1 ] || fail "without its directory: $(cat err)"
kill $job

/usr/bin/python3 - <<'END' || fail "the traces' content"
import h5py
import numpy as np

def channels(trace, path):
    group = trace[path + "_channels"]
    return list(zip([m.decode() for m in group["metric"][:]], [i.decode() for i in group["instance"][:]]))

def increments(trace, path, metric, instance=""):
    row = channels(trace, path).index((metric, instance))
    return trace[path][row, :]

MISSING = np.iinfo(np.int64).min
with h5py.File("job.h5") as job, h5py.File("signal.h5") as other, h5py.File("replay.h5") as replay:
    ids = {bytes(trace.attrs["trace_id"]) for trace in (job, other)}
    assert len(ids) == 2 and all(len(bytes.fromhex(one.decode())) == 16 for one in ids), ids
    assert "trace_id" not in replay.attrs, "a replay is the recording's run"
    used = increments(job, "job/cpu", "job.cpu_time")
    used = used[used != MISSING]
    assert (used >= 0).all(), "the job's CPU time fell"
    # Six short-lived children, each a quarter of a second or more: reaped, but not lost.
    assert used.sum() > 3e8, used.sum()
    for path in ("cpu/times", "memory/meminfo", "job/cpu", "job/processes", "network/netstat"):
        assert channels(job, path) == channels(replay, path), path
        assert np.array_equal(job[path][:], replay[path][:]), path + " differs in the replay"
    busy = sum(increments(job, "cpu/times", "cpu." + kind, instance)[1:].sum()
               for kind in ("user", "system") for _, instance in channels(job, "cpu/times")[::10])
    assert busy + 5e8 >= used.sum(), (busy, used.sum())
END

[ $failures = 0 ] || exit 1
echo "reveal-collect behaves"
