#!/usr/bin/env bash
# What the programs say, and keep, when the disk fails under them: `fault_sweep` tries every call, this the exit status.
set -u
bin=$REVEAL_BUILD/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
export ASAN_OPTIONS=detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}  # which ptrace does not allow

fail() { echo "FAILED: $*"; failures=$((failures + 1)); }

strace -o /dev/null true 2>/dev/null || { echo "skipped: strace is not here, or may not trace"; exit 77; }

# failing CALL:FAULT PROGRAM ARGUMENTS...: exit status in $status, what it says in the file err.
failing() {
  local fault=$1
  shift
  strace -f -qq -o /dev/null -e "trace=${fault%%:*}" -e "inject=$fault" "$@" >out 2>err
  status=$?
}
one_line() {
  [ "$(wc -l <err)" = 1 ] || fail "$1: $(wc -l <err) lines: $(cat err)"
  grep -qF -- "$2" err || fail "$1: \"$2\" is not in: $(cat err)"
}

mkdir rec
/usr/bin/python3 - <<'END'
with open("rec/ticks.rec", "w") as recording:
    recording.write("reveal recording 1\n+ 0 F/proc/meminfo\n")
    for tick in range(1500):
        text = f"MemTotal: 1000000 kB\nMemFree: {tick * 7919 % 99991} kB\n"
        recording.write(f"$ 0 {len(text)}\n{text}\n= {(50000 + tick) * 10**8} {(17 * 10**9 + tick) * 10**8}\n")
END
record=("$bin/reveal-collect" --root rec --probes memory --node n1)

"${record[@]}" --output whole.h5 || fail "without a fault: status $?"

failing fdatasync:error=EDQUOT:when=1 "${record[@]}" --output unsynced.h5
[ $status = 1 ] || fail "the trace cannot be synced: status $status"
one_line "the trace cannot be synced" "Disk quota exceeded"
[ -f unsynced.h5.part ] && [ ! -e unsynced.h5 ] || fail "a trace that was not synced looks whole"

failing fdatasync:error=EDQUOT:when=2 "${record[@]}" --output larger.h5
[ $status = 0 ] || fail "the smaller trace cannot be synced: status $status"
one_line "the smaller trace cannot be synced" "the trace is complete but larger than necessary"
[ "$(stat -c %s larger.h5)" -gt "$(stat -c %s whole.h5)" ] || fail "the smaller trace was taken"
[ -z "$(ls -A | grep compact)" ] || fail "the smaller trace was left behind"

failing fallocate:error=ENOSPC "${record[@]}" --output full.h5
[ $status = 1 ] || fail "a full disk: status $status"
one_line "a full disk" "No space left on device"
[ ! -e full.h5 ] || fail "a trace that lost rows looks whole"

failing pwrite64:error=ENOSPC:when=5+ "${record[@]}" --output never.h5
[ $status = 1 ] || fail "a disk full from the beginning: status $status"
one_line "a disk full from the beginning" "never.h5.part: No space left on device"
[ -z "$(ls -A | grep never)" ] || fail "a trace without a row was left"

mkdir job
cp whole.h5 job/n1.h5
cp whole.h5 before.h5
failing fdatasync:error=EDQUOT "$bin/reveal" report job --retain summary --no-history
[ $status = 1 ] || fail "the thinned trace cannot be synced: status $status"
one_line "the thinned trace cannot be synced" "n1.h5 was not reduced"
cmp job/n1.h5 before.h5 || fail "the trace was replaced by one that was not synced"

[ $failures = 0 ] || exit 1
echo "a failing disk is told, and what was there stays"
