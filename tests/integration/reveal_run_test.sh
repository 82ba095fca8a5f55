#!/usr/bin/env bash
# reveal-run must be invisible to the command: status, streams, descriptors; and whatever fails in it costs only the
# profile. Signals and the terminal: reveal_run_signals_test.py.
set -u
exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- # of whoever runs the tests: limits of descriptors are tested below
bin="$REVEAL_BUILD/bin"
run="$bin/reveal-run"
tmp=$(mktemp -d)
trap 'chmod -R u+w "$tmp"; rm -rf "$tmp"' EXIT
chmod 755 "$tmp"
cd "$tmp" || exit 1
mkdir -m 700 "$tmp/run" "$tmp/home"
export XDG_RUNTIME_DIR="$tmp/run" HOME="$tmp/home"
unset XDG_CONFIG_HOME ${!SLURM_*} ${!OMPI_*} ${!PMI*} ${!REVEAL_RUN_*}
failures=0

fail() {
  echo "FAIL: $*"
  failures=$((failures + 1))
}
expect_status() { # WANTED WHAT: the status of the command before
  local got=$?
  [ "$got" = "$1" ] || fail "$2: status $got, expected $1"
}
until_true() { # WHAT CONDITION...: polls for at most 20 s
  local what="$1" i
  shift
  for i in $(seq 200); do
    "$@" 2>/dev/null && return 0
    sleep 0.1
  done
  fail "waited in vain for $what"
  return 1
}
recording() { [ -e "$1/here.h5.part" ] && [ -s "$(echo run/reveal/*/collector)" ]; } # DIRECTORY
lines_of() { grep -c '^reveal-run: ' "$1"; }
runs_left() { find "$tmp/run/reveal" -mindepth 1 2>/dev/null | wc -l; }

echo "== a report that takes too long"
mkdir slow
cp "$run" "$bin/reveal-collect" slow/
printf '#!/bin/sh\nexec sleep 60\n' >slow/reveal
chmod +x slow/reveal
slow/reveal-run --output "a b" --node here --report-limit 4s -- \
  sh -c 'date +%s.%N >began; sleep 1.5; date +%s.%N >ended; exit 3' 2>err
expect_status 3 "a report that takes too long"
later=$(sed -n 's/^reveal-run: no report: not finished in time; try: //p' err)
[ -n "$later" ] || fail "no line says how to get the report: $(cat err)"
(PATH=$bin:$PATH && eval "$later --no-history") >out || fail "cannot be typed: $later"
grep -q 'exit status 3' out && grep -qE '"exit_code": 3' "a b/report.json" || fail "another report than the one at the end: $(head -3 out)"
/usr/bin/python3 -c '
import json
least = float(open("ended").read()) - float(open("began").read())
assert least - .1 <= json.load(open("a b/report.json"))["job"]["ran_seconds"] < least + 4' ||
  fail "the time of the report counts as the command's"

printf '#!/bin/sh\necho "$@" >args\necho "{}" >"$2/report.json"\n' >slow/reveal
SLURM_CPUS_ON_NODE=1 slow/reveal-run --output own --node here -- sleep 1 2>err
grep -q -- '--threads 1' args || fail "the job's cpus are not used for its report: $(cat args err)"
slow/reveal-run --output any --node here -- sleep 1 2>err
grep -q -- '--threads' args && fail "cpus of others are used: $(cat args)"

echo "== exit status"
"$run" --quiet --no-report -- bash -c 'exit 7'
expect_status 7 "the command's own status"
"$run" --quiet --no-report -- bash -c 'kill -9 $$'
expect_status 137 "ended by a signal"
rm -rf reveal-2*
"$run" no-such-command 2>err
expect_status 127 "not found"
grep -q '^reveal-run: no-such-command: No such file' err || fail "no reason for 127: $(cat err)"
echo data >not-a-program
"$run" -- ./not-a-program 2>err
expect_status 126 "not executable"
ls -d reveal-2* 2>/dev/null | grep -q . && fail "a command that never ran left a directory: $(ls -d reveal-2*)"
"$run" --intervall 1s -- true 2>err
expect_status 125 "unknown option"
grep -q 'did you mean "--interval"' err || fail "no near option: $(cat err)"
[ "$(wc -l <err)" = 1 ] || fail "more than one line: $(cat err)"
for bad in "--interval abc" "--interval 1ms" "--tag x" "--output %z" "--probes cpuu" "--stack-budget 9" \
  "--stack-without c10d.wiat"; do
  # shellcheck disable=SC2086
  "$run" $bad -- touch started 2>err
  expect_status 125 "$bad"
  [ -e started ] && fail "$bad: the command was started"
done
"$run" --probes cpuu -- true 2>err
grep -q 'did you mean "cpu"' err || fail "no near probe: $(cat err)"
REVEAL_PROBES=cpuu "$run" -- sh -c 'exit 7' 2>err
expect_status 7 "a mistake in the environment must not stop the job"
grep -q '^reveal-run: running without a profile: unknown probe "cpuu"; did you mean "cpu"' err || fail "REVEAL_PROBES: $(cat err)"
[ "$(wc -l <err)" = 1 ] || fail "REVEAL_PROBES, not one line: $(cat err)"
mkdir broken && cp "$run" broken/
for ending in 'error while loading shared libraries: libhdf5.so: cannot open shared object file" >&2; exit 127' 'warning: x" >&2; exit 0'; do
  printf '#!/bin/sh\necho "reveal-collect: %s\n' "$ending" >broken/reveal-collect
  chmod +x broken/reveal-collect
  broken/reveal-run --probes cpu -- sh -c 'exit 7' 2>err
  expect_status 7 "a collector that says: $ending"
done
"$run" 2>err
expect_status 125 "no command"

echo "== a short run leaves nothing"
mkdir short && cd short || exit 1
"$run" -- sh -c 'exit 7' 2>../err
expect_status 7 "a short command"
grep -q '^reveal-run: 0.[0-9]* s is too short to judge; reveal kept nothing' ../err || fail "a short run: $(cat ../err)"
[ "$(wc -l <../err)" = 1 ] || fail "a short run, not one line: $(cat ../err)"
[ -z "$(ls)" ] || fail "a short run left $(ls)"
mkdir of-job
"$run" --output of-job -- true 2>../err
[ -d of-job ] || fail "a directory that was there before is gone: $(cat ../err)"
cd ..

echo "== signals of reveal-run's own, and no room for it"
mkdir -m 700 starved  # what these cannot remove, a later run does
export XDG_RUNTIME_DIR="$tmp/starved"
# A line that nobody can read and a file that may not grow raise signals in the wrapper; they are not the command's.
broken_stderr() { /usr/bin/python3 -c '
import os, subprocess, sys
reader, writer = os.pipe()
os.close(reader)
sys.exit(subprocess.run(sys.argv[1:], stderr=writer).returncode)' "$@"; }
REVEAL_INTERVAL=soon broken_stderr "$run" --output pipe -- sh -c 'sleep 0.3; exit 7'
expect_status 7 "a warning that nobody can read"
# A reader that waits for the end before it reads.
full_stderr() { /usr/bin/python3 -c '
import os, subprocess, sys
reader, writer = os.pipe()
os.set_blocking(writer, False)
try:
    while True: os.write(writer, b"x" * 4096)
except BlockingIOError:
    os.set_blocking(writer, True)
sys.exit(subprocess.run(sys.argv[1:], stderr=writer, timeout=30).returncode)' "$@"; }
full_stderr "$run" -- sh -c 'exit 7'
expect_status 7 "a line that nobody reads"
(ulimit -f 0; exec "$run" --output fsize -- sh -c 'sleep 0.3; exit 7') 2>/dev/null
expect_status 7 "no file may grow"
for files in 4 5 6 8 10 12; do
  (ulimit -n $files; exec "$run" -- sh -c 'exit 7') 2>err
  expect_status 7 "$files descriptors"
  [ "$(wc -l <err)" -le 1 ] || fail "$files descriptors, not one line: $(cat err)"
done
for kib in 2000 4000 6000 9000; do
  (ulimit -v $kib; sh -c 'exit 7') 2>/dev/null || [ $? = 7 ] || continue
  (ulimit -v $kib; exec "$run" --quiet --no-report -- sh -c 'exit 7') 2>/dev/null
  expect_status 7 "$kib KiB of memory"
done
for kib in 32 64 128; do
  (ulimit -s $kib; exec "$run" --quiet --no-report -- sh -c 'exit 7')
  expect_status 7 "$kib KiB of stack"
done
rm -rf reveal-2* pipe fsize starved
export XDG_RUNTIME_DIR="$tmp/run"

echo "== streams"
head -c 3000000 /dev/urandom >bytes
"$run" --quiet --no-report --output streams -- cat <bytes >copy
expect_status 0 "cat"
cmp bytes copy || fail "stdin to stdout changed"
"$run" --output stderr -- bash -c 'sleep 1; echo to-stdout; echo to-stderr >&2' >out 2>err
[ "$(cat out)" = to-stdout ] || fail "stdout has more than the command wrote: $(cat out)"
grep -q '^to-stderr$' err || fail "stderr of the command is lost"
"$run" --quiet --no-report --output fds -- sh -c 'test ! -e /proc/$$/fd/0' <&-
expect_status 0 "a closed stdin stays closed"
list='import os; print(sorted(int(f) for f in os.listdir("/proc/self/fd")))'
/usr/bin/python3 -c "$list" </dev/null >without
"$run" --quiet --no-report --output fds2 -- /usr/bin/python3 -c "$list" </dev/null >with
cmp without with || fail "the command has other descriptors: $(cat with), without reveal-run $(cat without)"
(trap '' USR2; "$run" --quiet --no-report --output mask -- grep -E '^Sig(Ign|Blk)' /proc/self/status) >with
(trap '' USR2; grep -E '^Sig(Ign|Blk)' /proc/self/status) >without
cmp without with || fail "the command has other signal masks: $(cat with)"

# A lock that a launcher took before it became reveal-run lasts as long as the run.
/usr/bin/python3 - "$run" <<'END' || fail "a lock of the launcher does not last"
import fcntl, os, subprocess, sys, time

def lock():
    file = os.open("lockfile", os.O_RDWR | os.O_CREAT)
    fcntl.lockf(file, fcntl.LOCK_EX)
    os.set_inheritable(file, True)

run = subprocess.Popen([sys.argv[1], "--quiet", "--no-report", "--output", "lock", "--", "sh", "-c", "touch locked-run; sleep 2"],
                       preexec_fn=lock, close_fds=False)
while not os.path.exists("locked-run") and run.poll() is None:
    time.sleep(0.05)
time.sleep(0.5)
try:
    with open("lockfile", "r+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    held = False
except BlockingIOError:
    held = True
run.wait()
sys.exit(not held)
END

# While the command runs, its reader sees the end of a stream that the command closed, its writer that nobody reads.
wait_for() { echo "exec $1; for i in \$(seq 100); do [ -e $2 ] && exit 0; sleep 0.1; done; exit 1"; }
set -o pipefail
"$run" --quiet --no-report --output end1 -- sh -c "$(wait_for '>&-' end1-seen)" | { cat; touch end1-seen; }
expect_status 0 "the end of standard output is not passed on"
"$run" --quiet --no-report --output end3 -- sh -c "$(wait_for '3>&-' end3-seen)" 3>&1 >/dev/null | { cat; touch end3-seen; }
expect_status 0 "the end of descriptor 3 is not passed on"
set +o pipefail
{ yes; touch end0-seen; } | "$run" --quiet --no-report --output end0 -- sh -c "$(wait_for '<&-' end0-seen)"
expect_status 0 "the writer of standard input is not told that nobody reads"

echo "== one run, its directory and its report"
"$run" --output job --tag purpose=test -- sleep 2 2>err
expect_status 0 "sleep"
[ "$(stat -c %a job)" = 700 ] || fail "the job directory has mode $(stat -c %a job)"
ls job/*.h5 >/dev/null || fail "no trace"
ls job/*.part 2>/dev/null && fail "the trace was not closed"
[ -s job/report.json ] || fail "no report: $(cat err)"
[ "$(wc -l <err)" -ge 1 ] && grep -q 'reveal show job' err || fail "the report was not printed: $(cat err)"
/usr/bin/python3 -c 'import json; assert 1.9 < json.load(open("job/report.json"))["job"]["ran_seconds"] < 30' ||
  fail "the report does not know how long the command ran"
"$run" --output job --no-report -- sleep 1 2>err
grep -q "job has another run of this node; recording in .*/job-2" err || fail "job-2 was not told: $(cat err)"
ls job-2/*.h5 >/dev/null || fail "a second run did not get a directory of its own"
SLURM_JOB_ID=4711 SLURM_JOB_NAME='a/../b' "$run" --no-report --quiet --output 'out-%j-%x' -- sleep 1
ls out-4711-a_.._b/*.h5 >/dev/null || fail "patterns: $(ls -d out-*)"
[ "$(runs_left)" = 0 ] || fail "left behind: $(find "$tmp/run/reveal" | head -3)"

for number in 1 2; do
  "$run" --quiet --no-report --output both --node here -- sh -c 'sleep 1.5; exit 7' &
done
for number in 1 2; do
  wait -n
  expect_status 7 "one of two runs at once"
done
[ "$(ls both/here.h5 both-2/here.h5 | wc -l)" = 2 ] || fail "two runs at once: $(ls both*)"
[ "$(ls both both-2 | grep -c claim)" = 0 ] || fail "a claim was left: $(ls both*)"
mkdir $'line\nend' && cd $'line\nend' || exit 1
"$run" --no-report --output job --node here -- sh -c 'sleep 1.5; exit 7' 2>../err
expect_status 7 "a directory with a line end in its name"
[ -e job/here.h5 ] && grep -q '^reveal-run: recorded in' ../err || fail "a directory with a line end in its name: $(ls -R .) $(cat ../err)"
cd ..

echo "== short processes count in full"
"$run" --quiet --no-report --output short --node here -- sh -c \
  'sleep 1; dd if=/dev/zero of=big bs=1M count=64 2>dd.err; /usr/bin/python3 -c "
import time
while time.process_time() < .5: pass"; sleep .3'
/usr/bin/python3 - <<'END' || fail "what short processes did"
import h5py

def total(family, metric):
    rows = trace[family]
    named = [name.decode() == metric for name in rows.dims[0]["metric"][:]]
    increments = rows[:][named]
    return increments[increments != rows.fillvalue].sum()

with h5py.File("short/here.h5") as trace:
    written = total("process/io", "process.written_by_calls") / 2**20
    assert 64 <= written < 64 * 1.02, written
    used = total("job/cpu", "job.cpu_time") * 1e-9
    assert .48 <= used < 1.5, used  # with what dd and the interpreter's start took
END
rm -f big dd.err
echo "== nothing wakes it while the command runs"
"$run" --quiet --no-report --output still --node here -- sh -c 'touch begun; sleep 30' &
wrapper=$!
until_true "the command" test -e begun
until_true "the recording" recording still
sleep .5
switches() { awk '/^voluntary/ { print $2 }' /proc/$wrapper/status; }
before=$(switches)
sleep 2.2
[ "$(switches)" = "$before" ] || fail "reveal-run woke up $(($(switches) - before)) times in 2 s"
kill -TERM $wrapper
wait $wrapper
rm -rf still begun
echo "== settings"
mkdir -p home/.config/reveal
# Root reads no home directory's file, which may be somebody else's.
as_user=()
if [ "$(id -u)" = 0 ]; then
  printf '[run]\nnode = "fromfile"\n' >home/.config/reveal/reveal.conf
  "$run" --no-report --quiet --output rootconf -- sleep 1
  [ -e rootconf/fromfile.h5 ] && fail "root has read a file of a home directory"
  rm home/.config/reveal/reveal.conf
  chown -R nobody home
  as_user=(setpriv --reuid nobody --regid nogroup --clear-groups)
fi
printf '[run]\nintervall = "1s"\nnode = "fromfile"\n\n[rule."x.y"]\nenabled = false\n' >home/.config/reveal/reveal.conf
mkdir -p -m 777 conf-place
if "${as_user[@]}" test -x "$run"; then
  "${as_user[@]}" "$run" --no-report --output "$PWD/conf-place/conf" -- sleep 1 2>err
  expect_status 0 "a mistake in reveal.conf must not stop the job"
  grep -q 'reveal.conf:2: unknown key "intervall" in \[run\]; did you mean "interval"' err || fail "config: $(cat err)"
  [ -e conf-place/conf/fromfile.h5 ] || fail "reveal.conf was not read: $(ls conf-place/*)"
else
  echo "skipped: nobody may not execute $run"
fi
REVEAL_NODE=fromenv "$run" --no-report --quiet --output env -- sleep 1
[ -e env/fromenv.h5 ] || fail "the environment is not stronger than the file: $(ls env)"
REVEAL_NODE=fromenv "$run" --no-report --quiet --node fromline --output line -- sleep 1
[ -e line/fromline.h5 ] || fail "the command line is not stronger than the environment: $(ls line)"
rm home/.config/reveal/reveal.conf

echo "== four ranks, one collector, one report"
launch() {
  OMPI_MCA_ess_base_jobid=77 OMPI_COMM_WORLD_RANK=$1 OMPI_COMM_WORLD_LOCAL_SIZE=4 \
    "$run" --output ranks -- bash -c "until [ -e all-seen ]; do sleep 0.1; done; sleep $2; exit $1" 2>"err.$1"
  echo $? >"status.$1"
}
for rank in 0 1 2 3; do launch $rank $((1 + rank % 2)) & done
all_here() { [ "$(find run/reveal -name 'rank.*' | wc -l)" = 4 ]; }
until_true "four ranks" all_here
[ "$(find run/reveal -name collector | wc -l)" = 1 ] || fail "not one collector: $(find run/reveal | head)"
touch all-seen
wait
for rank in 0 1 2 3; do [ "$(cat status.$rank)" = $rank ] || fail "rank $rank: status $(cat status.$rank)"; done
[ "$(ls ranks/*.h5 | wc -l)" = 1 ] || fail "traces: $(ls ranks)"
[ "$(cat err.? | wc -l)" -gt 0 ] || fail "no report was printed"
[ "$(for rank in 0 1 2 3; do [ -s err.$rank ] && echo x; done | wc -l)" = 1 ] || fail "several ranks printed: $(head err.?)"
[ "$(runs_left)" = 0 ] || fail "left behind: $(find "$tmp/run/reveal" | head -3)"
/usr/bin/python3 -c 'import json, sys; sys.exit(json.load(open("ranks/report.json"))["job"]["exit_code"] in (0, None))' ||
  fail "the launch failed, the report says otherwise"
[ -d ranks-2 ] && fail "the launch was torn apart: $(ls -d ranks*)"

echo "== the collector is killed"
"$run" --output killed --node here -- bash -c 'until [ -e go ]; do sleep 0.1; done; exit 5' 2>err &
job=$!
if until_true "the trace" recording killed; then
  collector=$(cut -d' ' -f1 run/reveal/*/collector)
  kill -INT "$collector"  # as a program does that interrupts all processes below it
  sleep 1
  kill -9 "$collector" || fail "a signal for the job ended the collector"
fi
sleep 0.3
touch go
wait $job
expect_status 5 "the job of a killed collector"
[ "$(lines_of err)" -ge 1 ] || fail "nobody said that the collector was killed: $(cat err)"
[ -e killed/here.h5.part ] || fail "the cut-off trace is gone: $(ls killed)"
[ "$(runs_left)" = 0 ] || fail "left behind: $(find "$tmp/run/reveal" | head -3)"

echo "== its own directory takes no more files"
"$run" --output full --node here -- sh -c 'mkdir run/reveal/*/failed; sleep 1.5; exit 5' 2>err
expect_status 5 "the job of a run directory that takes no files"
grep -qE '"exit_code": 5' full/report.json || fail "a full run directory cost the report: $(cat err)"
rm -rf run/reveal

echo "== its own directory is removed"
"$run" --output swept --node here -- sh -c \
  'for i in $(seq 200); do [ ! -e swept/here.h5.part ] || break; sleep 0.1; done; rm -r run/reveal/*; exit 5' 2>err
expect_status 5 "the job of a removed run directory"
grep -q '^reveal-run: .*/run/reveal/.* was removed while the command ran; recorded in .*/swept; for the report: reveal report ' err ||
  fail "nobody said that the run directory was removed: $(cat err)"
[ "$(lines_of err)" = 1 ] || fail "a removed run directory, not one line: $(cat err)"
until_true "the end of its collector" test -e swept/here.h5
[ -e swept/here.h5.claimed ] && fail "a claim was left"

echo "== reveal-run is killed"
"$run" --output orphan --node here -- sleep 30 2>err &
job=$!
if until_true "the trace" recording orphan; then
  collector=$(cut -d' ' -f1 run/reveal/*/collector)
  command=$(pgrep -P $job -x sleep)
  kill -9 $job
  command_gone() { ! kill -0 "$command"; }
  until_true "the end of the command, as without reveal-run" command_gone || kill "$command"
  collector_gone() { ! kill -0 "$collector"; }
  until_true "the end of an orphaned collector" collector_gone || kill -9 "$collector"
  [ -e orphan/here.h5 ] || fail "the trace was not closed: $(ls orphan)"
fi
wait $job 2>/dev/null
rm -rf run/reveal

echo "== what the collector is told"
mkdir told && cp "$run" told/
printf '#!/bin/sh\nenv >%s/told/environment; printf "%%s\\n" "$@" >%s/told/words\n' "$tmp" "$tmp" >told/reveal-collect
chmod 755 told/reveal-collect
echo cpu.user >told/some.metrics
until_told='for i in $(seq 200); do [ ! -s told/words ] || break; sleep 0.1; done'
LD_LIBRARY_PATH=/of/the/job HDF5_VOL_CONNECTOR=async told/reveal-run --quiet --no-report --output told/out \
  --metrics told/some.metrics --retain rolling=5min --name nightly -- sh -c "$until_told; [ \$LD_LIBRARY_PATH = /of/the/job ]"
expect_status 0 "the command keeps its library path"
grep -E '^(LD_LIBRARY_PATH|HDF5_VOL_CONNECTOR)=' told/environment && fail "the collector has the job's libraries"
for words in "--metrics told/some.metrics" "--retain rolling=5min" "--run-key name:nightly" "--job-name nightly"; do
  grep -x -A1 -- "${words% *}" told/words | grep -qx -- "${words#* }" || fail "not told $words: $(cat told/words)"
done
rm told/words
told/reveal-run --quiet --no-report --output told/out2 -- sh -c "$until_told"
grep -x -A1 -- --run-key told/words | tail -1 | grep -qxE '[0-9a-f]{32}' || fail "no key of the run: $(cat told/words)"
grep -q 'told/words' told/words && fail "the collector was told the arguments"
"$run" --metrics nowhere -- true 2>err
expect_status 125 "a file of metrics that is not there"
"$run" --retain rolling=5s -- true 2>err
expect_status 125 "less than a minute to keep"

echo "== nothing to work with"
mkdir empty-bin && cp "$run" empty-bin/
PATH=/usr/bin:/bin empty-bin/reveal-run --output alone -- bash -c 'exit 3' 2>err
expect_status 3 "no collector"
[ "$(lines_of err)" = 1 ] || fail "no collector: $(cat err)"
[ -d alone ] && fail "an empty job directory was left"
mkdir of-job
(cd of-job && PATH=/usr/bin:/bin ../empty-bin/reveal-run --output . -- sh -c 'echo x >result; exit 3') 2>err
expect_status 3 "no collector for the directory of the job"
[ -s of-job/result ] || fail "the job's own directory was removed under it: $(cat err)"
XDG_RUNTIME_DIR=/nowhere "$run" --quiet --no-report --output nowhere -- sleep 1
expect_status 0 "no XDG_RUNTIME_DIR"
ls nowhere/*.h5 >/dev/null || fail "no trace without XDG_RUNTIME_DIR"

if [ "$(id -u)" != 0 ]; then
  echo "== skipped: running as another user (needs root)"
elif ! setpriv --reuid nobody --regid nogroup --clear-groups test -x "$run"; then
  echo "== skipped: running as another user ($run is not accessible to it)"
else
  echo "== unprivileged"
  mkdir locked mine
  chown nobody mine
  nobody() { (cd "$1" && shift && HOME=/nonexistent setpriv --reuid nobody --regid nogroup --clear-groups "$@"); }
  nobody locked "$run" -- bash -c 'exit 4' 2>err
  expect_status 4 "unwritable directory"
  [ "$(lines_of err)" = 1 ] && [ "$(wc -l <err)" = 1 ] || fail "unwritable directory, not one line: $(cat err)"
  nobody mine "$run" --output job -- sleep 2 2>err
  expect_status 0 "as nobody"
  ls mine/job/*.h5 >/dev/null || fail "no trace as nobody: $(cat err)"
  nobody mine "$run" --no-report --output nnp -- setpriv --no-new-privs sleep 1 2>err
  expect_status 0 "no new privileges"
  mkdir -m 777 squat
  for count in 1 2 3; do
    nobody mine bash -c "ulimit -u $count; exec '$run' --quiet -- sh -c 'exit 7'" 2>/dev/null
    expect_status 7 "$count processes"
  done
  # Somebody else was first in /tmp: their directory is never used, and the next name is.
  uid=$(id -u nobody)
  if [ ! -e "/tmp/reveal-$uid" ] || rmdir "/tmp/reveal-$uid" 2>/dev/null; then
    mkdir "/tmp/reveal-$uid"
    XDG_RUNTIME_DIR=/nowhere nobody mine "$run" --quiet --no-report --output squatted -- bash -c 'sleep 1; exit 6'
    expect_status 6 "a squatted run directory"
    ls mine/squatted/*.h5 >/dev/null || fail "no trace beside a squatted directory: $(ls mine/squatted)"
    [ -z "$(ls -A "/tmp/reveal-$uid")" ] || fail "wrote into somebody else's directory"
    rmdir "/tmp/reveal-$uid" "/tmp/reveal-$uid.1"
  fi
fi

[ $failures = 0 ] && echo "all as it should be"
exit $((failures > 0))
