#!/bin/bash
# The spool janitor removes as root what users filled: nothing young, nothing in use, nothing behind a link.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
fail() { echo "FAILED: $*" >&2; failures=$((failures + 1)); }
janitor=$REVEAL_SOURCE/site-config/spool-janitor
export REVEAL_PROGRAM=$REVEAL_BUILD/bin/reveal
a_week_older() { find spool/.first-seen spool/run -type f -exec touch -d '-8 days' {} +; }
a_week_later() { # of daily runs
  a_week_older
  touch -d '-1 day' spool/.last-run
}

printf '[run]\nkeep_days = 99\n[slurm] # ours\nkeep_days = 2 # days\nspool_total_max = "1MB"\n[mail]\nkeep_days = 55\n' >conf
me=$(id -u) other=$(($(id -u) + 1))
mkdir -m 711 spool && mkdir -m 700 spool/run && mkdir -p spool/{100,101,102.2,103} spool/mail/{$me,$other} outside
chmod 711 spool/mail
echo precious >outside/file
ln -s "$work/outside" spool/100/folder
ln -s "$work/outside/file" spool/100/file
ln -s "$work/outside" spool/104
head -c 2000000 /dev/zero >spool/101/trace.h5
touch -d '-100 days' spool/100 spool/101/trace.h5

bash "$janitor" spool conf >out || fail "exit status $?"
[ "$(find spool -mindepth 1 -maxdepth 1 | wc -l)" = 9 ] || fail "something young was removed: $(cat out)"
grep -q 'more than spool_total_max = 1MB .*the oldest is 10' out || fail "a full spool was not reported: $(cat out)"

a_week_later
touch spool/101/* spool/101 # as a user does who would keep it
mkdir spool/105             # and one that is new
bash "$janitor" --dry-run spool conf >out || fail "exit status $?"
[ "$(grep -c 'would remove' out)" = 6 ] && [ -d spool/100 ] || fail "--dry-run: $(cat out)"

exec 8>spool/run/103.n1 && flock 8
bash "$janitor" spool conf >out || fail "exit status $?"
[ "$(cd spool && echo *)" = "103 104 105 mail run" ] || fail "left are $(cd spool && echo *): $(cat out)"
[ "$(grep -c 'removed job .*undelivered for more than 2 days' out)" = 3 ] || fail "it did not say what it removed: $(cat out)"
[ ! -e spool/mail/$other ] || fail "old counters of mails stay"
[ -e spool/mail/$me ] || fail "the counters of mails of a user were removed while his job is recorded"
[ -e spool/run/103.n1 ] || fail "the file of a running collector was removed"
[ "$(cat outside/file)" = precious ] || fail "it followed a link"
exec 8>&-
bash "$janitor" spool conf >out
[ -e spool/103 ] || fail "what a collector has just left was removed"
a_week_later
bash "$janitor" spool conf >out
[ ! -e spool/103 ] && [ -L spool/104 ] || fail "after the collector: $(ls spool): $(cat out)"
[ ! -e spool/mail/$me ] || fail "the counters of mails stay after the collector: $(cat out)"
[ -z "$(ls -A spool/.first-seen)" ] || fail "notes of what is gone stay: $(ls -A spool/.first-seen)"

# The breaker: only files that no collector holds.
touch spool/run/{200,201}.n1 spool/run/breaker spool/run/failed.202.n1
exec 8>spool/run/203.n1 && flock 8
bash "$janitor" --reset-breaker spool conf >out || fail "exit status $?"
[ "$(ls spool/run)" = 203.n1 ] || fail "--reset-breaker leaves $(ls spool/run | xargs)"
grep -q 'deleted: 4 files' out || fail "--reset-breaker: $(cat out)"
exec 8>&-

# A ledger that root was replacing when it was interrupted; another one may be written just now.
touch -d '-2 hours' spool/.nodes.jsonl.17.tmp spool/nodes.jsonl
touch spool/.nodes.jsonl.18.tmp
bash "$janitor" --dry-run spool conf >out
[ -e spool/.nodes.jsonl.17.tmp ] || fail "--dry-run removed half a ledger"
grep -qF 'would remove .nodes.jsonl.17.tmp' out || fail "--dry-run about half a ledger: $(cat out)"
bash "$janitor" spool conf >out
grep -qF 'removed .nodes.jsonl.17.tmp' out || fail "half a ledger is removed without a word: $(cat out)"
[ "$(cd spool && ls -A -- .nodes* nodes*)" = ".nodes.jsonl.18.tmp
nodes.jsonl" ] || fail "halves of ledgers: $(ls -A spool)"
rm spool/.nodes.jsonl.18.tmp spool/nodes.jsonl

mkdir -p spool/105
ln -s spool link
! bash "$janitor" link conf >out || fail "a spool that is a link was taken"
a_week_later
chmod 777 spool
! bash "$janitor" spool conf >out || fail "a spool that anybody can write was taken"
[ -d spool/105 ] || fail "it worked in a place that it refused"
chmod 711 spool
printf '[slurm]\nkeep_days = soon\nspool_total_max = lots\n' >conf
bash "$janitor" spool conf >out 2>&1 || fail "exit status $?"
[ "$(grep -c '"keep_days" is a whole number .* 999 is used' out)" = 1 ] && [ "$(grep -c '"spool_total_max" is a size' out)" = 1 ] ||
  fail "bad settings: $(cat out)"
[ -d spool/105 ] || fail "a mistake in keep_days shortened it"
a_week_later
printf '[slurm]\nkeep_days = 2\n' >conf
! REVEAL_PROGRAM=/bin/false bash "$janitor" spool conf >out || fail "without reveal: exit status 0"
grep -q 'nothing was removed' out && [ -d spool/105 ] || fail "without reveal: $(cat out)"
REVEAL_PROGRAM=/bin/false bash "$janitor" --reset-breaker spool conf >out || fail "--reset-breaker without reveal: $(cat out)"
rm conf
bash "$janitor" spool conf >out 2>&1 || fail "without a configuration: $(cat out)"
[ ! -d spool/105 ] || fail "7 days are over: $(cat out)"
# A clock that was set.
mkdir spool/106
bash "$janitor" spool conf >out 2>&1
a_week_older
touch -d '-400 days' spool/.last-run
bash "$janitor" --dry-run spool conf >out 2>&1
grep -q 'days ago, or the clock was set' out && ! grep -q 'would remove' out || fail "--dry-run after a leap: $(cat out)"
bash "$janitor" spool conf >out 2>&1 || fail "after a leap to the future: exit status $?"
grep -q 'days ago, or the clock was set' out && [ -d spool/106 ] || fail "a leap of the clock removes a trace: $(cat out)"
touch -d '+30 days' spool/.last-run spool/.first-seen/.-106
bash "$janitor" spool conf >out 2>&1 || fail "after a leap back: exit status $?"
grep -q 'a later time than the clock has now' out && [ -d spool/106 ] || fail "the clock is behind: $(cat out)"
[ -z "$(find spool/.first-seen -newermt '+1 day')" ] || fail "a trace stays until the time that the clock had"
a_week_later
bash "$janitor" spool conf >out 2>&1
[ ! -d spool/106 ] || fail "the clock is right again: $(cat out)"

# A file system that a user mounted in his folder is not looked at.
if [ "$(id -u)" = 0 ] && mkdir -p spool/107/inner spool/108 && mount -t tmpfs tmpfs spool/107/inner 2>/dev/null; then
  bash "$janitor" spool conf >out 2>&1
  a_week_later
  bash "$janitor" spool conf >out 2>&1 || fail "beside a mount: exit status $?"
  grep -q 'a file system is mounted in ./107' out && [ -d spool/107 ] || fail "a mount in a folder: $(cat out)"
  [ ! -d spool/108 ] || fail "a folder beside one with a mount stays: $(cat out)"
  umount spool/107/inner
fi

bash "$janitor" "$work/nowhere" conf || fail "a node without a spool is none of its business"
[ $failures -eq 0 ]
