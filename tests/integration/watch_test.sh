#!/usr/bin/env bash
# reveal watch: a real job followed from its first second to its end, on a pipe, as JSON and on a terminal; how it ends,
# and what it leaves behind.
set -u
bin=$REVEAL_BUILD/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export XDG_CONFIG_HOME=$work/config
failures=0
fail() { echo "FAILED: $*"; failures=$((failures + 1)); }

# expect_error STATUS 'TEXT' arguments...: one line with TEXT on stderr, nothing on stdout.
expect_error() {
  local status=$1 text=$2
  shift 2
  "$bin/reveal" "$@" >out 2>err
  local got=$?
  [ "$got" = "$status" ] || fail "$*: exit status $got instead of $status"
  [ "$(wc -l <err)" = 1 ] || fail "$*: $(wc -l <err) lines of error: $(cat err)"
  grep -qF -- "$text" err || fail "$*: \"$text\" is not in: $(cat err)"
  [ ! -s out ] || fail "$*: wrote to standard output"
}
touch file
expect_error 2 'dir is required' watch
expect_error 2 'did you mean "--budget"?' watch . --budgte 5
expect_error 2 'watch' watch . --budget much
expect_error 1 'no directory nowhere or reveal-nowhere here' watch nowhere
expect_error 1 'not a directory' watch file
(
  PATH=/nowhere
  "$bin/reveal" watch 4711 >out 2>err
)
grep -qx 'reveal: no directory 4711 or reveal-4711 here, and squeue: squeue is not in PATH: Slurm is not installed here' err ||
  fail "watch 4711 without Slurm: $(cat err)"
expect_error 2 'command requires --on-alert' watch . -- cat
expect_error 2 '--on-alert requires command' watch . --on-alert
ln -s file link
mkdir -m 700 unwatched
expect_error 1 'link is a link: alerts are not written through one' watch unwatched --append link
expect_error 1 'link to one' watch unwatched --spool link
"$bin/reveal" watch --help | grep -q 'Examples:' || fail "--help has no examples"

if [ "$(id -u)" = 0 ]; then
  chmod 711 "$work"  # its owner reads it
  mkdir -m 755 foreign
  chown nobody foreign
  expect_error 1 'foreign belongs to another user: its alerts are printed, and not forwarded' watch foreign --append new
  [ ! -e new ] || fail "a file for the alerts of another user's job"
fi

# A job of two nodes by stand-ins for Slurm: one node is as it should be, the other one sends what it likes.
mkdir stand_in
cat >stand_in/squeue <<'PROGRAM'
#!/bin/sh
[ -e "$STATE" ] || echo RUNNING >"$STATE"
echo "4711|4711|$(cat "$STATE")|2|None"
PROGRAM
cat >stand_in/srun <<'PROGRAM'
#!/usr/bin/python3
import os, sys, time
open(os.environ["STATE"] + ".words", "w").write("\n".join(sys.argv[1:]) + "\n")
open(os.environ["STATE"] + ".variables", "w").write("\n".join(sorted(os.environ)))
def send(task, text):
    for at in range(0, max(1, len(text)), 900):
        print(task, ("+" if at + 900 < len(text) else ".") + text[at:at + 900], flush=True)
kind = os.environ["KIND"]
if kind == "refused":
    sys.exit("srun: error: Unable to create step for job 4711: \x1b[31mInvalid node count")
report = ('{"schema":"reveal.node/1","node":"%s","state":"live","seconds":90,"channels":700,'
          '"has_calls":true,"hang":"%s","heard":"2026-11-20T10:32:05.1Z","job":"4711","job_name":"%s","runs":7,"watching_cpu_percent_of_core":2}')
alert = ('{"schema":"reveal.alert/1","news":"opened","published":"2026-11-20T10:32:05Z","node":"%s","number":1,'
         '"state":"open","tier":"strong","begin":"2026-11-20T10:31:05Z","end":"2026-11-20T10:32:05Z",'
         '"subsystem":"cpu","score":9,"methods":[],"labels":[],"claim":"%s","reasons":[]}')
hang = "All ranks wait." if kind == "hangs" else ""
send(0, report % ("n01", "All ranks wait.", "job"))
if kind != "stays":
    time.sleep(1.5)  # the other node has not reported yet: no hang is known
send(1, report % ("n02\\u001b[2J", hang, "x" * 3000 + "\\u001b]0;x"))
send(0, alert % ("n01", "cpu.user rose"))
send(1, alert % ("n01", "\\u001b[31mred\\u009b" + "y" * 5000))
for i in range(3000):
    print("1 .{\x1b[2J" + "[" * 500)
print("7 .{}\n" + "z" * 10000000 + "\nno line of ours", flush=True)
if kind in ("ends", "hangs"):
    time.sleep(3)
    open(os.environ["STATE"], "w").write("COMPLETING")
else:
    sys.stdin.read()
    open(os.environ["STATE"] + ".closed", "w")
PROGRAM
chmod 755 stand_in/*
slurm() { env PATH="$work/stand_in:$PATH" STATE="$work/$1" KIND="$1" SLURM_JOB_ID=5 SLURM_CONF=/x SRUN_MEM=1 "$bin/reveal" watch "${@:2}"; }
slurm refused 4711 >out 2>err
[ $? = 1 ] || fail "srun refuses: no exit status 1"
grep -qx 'reveal: job 4711: srun did not start the watch on its nodes: error: Unable to create step for job 4711: Invalid node count' err ||
  fail "srun refuses: $(cat err)"
# A hang of the ranks of one node, while those of the other work, is none.
slurm hangs 4711 >lines 2>err || fail "a Slurm job that hangs: exit status $?: $(cat err)"
grep -q ' All ranks wait\.$' lines || fail "a hang on all nodes: $(cat lines)"
slurm ends 4711 --json --append slurm.alerts >slurm.json 2>err || fail "a Slurm job that ends: exit status $?: $(cat err)"
/usr/bin/python3 - slurm.json slurm.alerts <<'PYTHON' || fail "a Slurm job: $(cut -c1-500 slurm.json)"
import json, sys
text = open(sys.argv[1]).read()
assert "\x1b" not in text and "\\u001b" not in text and "\\u009b" not in text and "\x9b" not in text, "escapes"
lines = [json.loads(line) for line in text.splitlines()]
assert [line["news"] for line in lines] == ["watching", "opened", "opened", "problem", "ended"], [line["news"] for line in lines]
lines = lines[1:]
assert [line["node"] for line in lines[:2]] == ["n01", "n02"]
assert len(lines[1]["claim"]) <= 1003, len(lines[1]["claim"])
assert lines[2]["text"] == "n02 sends texts that are not those of a watch: they are left out", lines[2]
end = lines[-1]
assert end["text"] == "the job has ended; its report: reveal show 4711", end["text"]
assert [node["node"] for node in end["nodes"]] == ["n01", "n02"] and end["runs"] == 14, end
assert len(open(sys.argv[2]).read().splitlines()) == 2
PYTHON
grep -qx -- --jobid=4711 ends.words && grep -qx -- --nodes=2 ends.words && grep -qx -- --step ends.words ||
  fail "words of srun: $(xargs <ends.words)"
grep -qE '^(SLURM_JOB_ID|SRUN_MEM)$' ends.variables && fail "options of another job reach srun"
grep -qx SLURM_CONF ends.variables && grep -qx REVEAL_WATCH_STEP ends.variables || fail "srun lacks variables"
for signal in INT KILL; do
  rm -f stays stays.closed lines
  slurm stays 4711 >lines 2>err &
  for _ in $(seq 100); do
    grep -qs 'watching job 4711 on 2 nodes' lines && break
    sleep 0.1
  done
  kill -$signal "$(pgrep -f -- "^$bin/reveal watch 4711$")"
  wait $!
  status=$?
  [ $signal = KILL ] || [ $status = 130 ] || fail "a Slurm job, interrupted: exit status $status: $(cat err)"
  [ $signal = KILL ] || grep -q 'stopped watching; this does not end the job' lines || fail "interrupted: $(cat lines)"
  for _ in $(seq 300); do
    [ -e stays.closed ] && break
    sleep 0.1
  done
  [ -e stays.closed ] || fail "$signal: the standard input of srun is not closed"
done

# The watch may come before the job.
mkdir -m 700 job
timeout 100 "$bin/reveal" watch job --json >json 2>json.err &
watch_json=$!
REVEAL_ITERATIONS=3000 "$bin/reveal-run" --output job --node n01 --no-report --quiet -- sleep 22 &
run=$!
for _ in $(seq 100); do
  [ -e job/n01.h5.live ] && break
  sleep 0.1
done
[ -e job/n01.h5.live ] || fail "the collector does not answer to who watches: $(ls job)"
[ "$(stat -c %a job/n01.h5.live)" = 600 ] || fail "others can read the rows"

timeout 100 "$bin/reveal" watch job >lines 2>lines.err &
watch_lines=$!
if command -v script >/dev/null; then
  TERM=xterm LC_ALL=C.UTF-8 timeout 100 script -qec "stty cols 90 rows 30; '$bin/reveal' watch job" /dev/null >page 2>&1 </dev/null &
  watch_page=$!
fi
# Interrupted, it goes and the job goes on.
"$bin/reveal" watch job >stopped 2>&1 &
stopped=$!
sleep 2
kill -INT $stopped
wait $stopped
status=$?
[ $status = 130 ] || fail "interrupted: exit status $status instead of 130"
grep -q 'stopped watching; this does not end the job' stopped || fail "interrupted: $(cat stopped)"
kill -0 $run 2>/dev/null || fail "the job ended with who watched it"

wait $run || fail "the job's exit status"
wait $watch_json || fail "watch --json: exit status $?: $(cat json.err)"
wait $watch_lines || fail "watch: exit status $?: $(cat lines.err)"
[ ! -s json.err ] && [ ! -s lines.err ] || fail "not silent: $(cat json.err lines.err)"
/usr/bin/python3 - json <<'PYTHON' || fail "watch --json: $(cat json)"
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
end = lines[-1]
assert end["schema"] == "reveal.watch/1" and end["news"] == "ended", end
[node] = end["nodes"]
assert node["node"] == "n01" and node["state"] == "ended" and node["channels"] > 100, node
assert 15 < node["seconds"] < 60, node
assert node["iterations_planned"] == 3000 and "iteration" not in node, node  # a sleep has no rhythm
assert end["watching_cpu_percent_of_core"] > 0
own = [line["news"] for line in lines if line["schema"] == "reveal.watch/1"]
assert own in (["waiting", "watching", "ended"], ["watching", "ended"]), own  # it may come before the job
assert all(line["schema"] in ("reveal.alert/1", "reveal.watch/1") for line in lines)
PYTHON
head -n 1 lines | grep -q 'watching job: .*report at the end names the cause' || fail "watch: $(cat lines)"
tail -n 1 lines | grep -q 'the job has ended; its report: reveal show job; cost: collector' || fail "watch: $(cat lines)"
if [ -n "${watch_page:-}" ]; then
  wait $watch_page || fail "watch on a terminal: exit status $?"
  grep -q 'reveal watch job' page || fail "no page: $(head -c 300 page)"
  grep -q 'memory available' page || fail "no numbers on the page"
  grep -q 'no alerts yet' page || fail "the page does not say that little was looked at"
  grep -q 'report at the end names their cause' page || fail "the page does not say where causes are"
  grep -qF "$(printf '\033[?25h')" page || fail "the cursor is left hidden"
fi
left=$(ls -A job | grep -v '^n01\.h5$')
[ -z "$left" ] || fail "left behind: $left"

# A directory that is no run's, and one in which nothing begins.
mkdir other none
touch other/notes.txt
"$bin/reveal" watch other >out 2>err
status=$?
[ $status = 1 ] || fail "no run's directory: exit status $status"
grep -q 'no trace in other yet; waiting' out || fail "waits silently: $(cat out)"
grep -q 'other holds no run' err || fail "no run's directory: $(cat err)"
"$bin/reveal" watch none >out 2>err &
stopped=$!
for _ in $(seq 100); do
  grep -q 'waiting for a run' out && break
  sleep 0.1
done
kill -INT $stopped
wait $stopped
[ $? = 130 ] || fail "waiting, interrupted: not exit status 130"
grep -q 'stopped watching; no run has started in none' out || fail "waiting, interrupted: $(cat out)"

# What has ended is said at once.
"$bin/reveal" watch job >after 2>&1 || fail "an ended job: exit status $?"
grep -q 'reveal show job' after || fail "an ended job: $(cat after)"

[ $failures -gt 0 ] && exit 1
echo "watch: all good"
