#!/bin/bash
# The spool janitor removes as root what users filled: nothing young, nothing in use, nothing behind a link.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
fail() { echo "FAILED: $*" >&2; failures=$((failures + 1)); }
janitor=$REVEAL_SOURCE/site-config/spool-janitor
# Change times cannot be set: a copy that takes a day for nothing stands for the time that passes.
sed 's/days \* 1440/days * 0/' "$janitor" >days_later
! cmp -s "$janitor" days_later || fail "the janitor counts days in another way than this test knows"

printf '[run]\nkeep_days = 99\n[slurm] # ours\nkeep_days = 2 # days\nspool_max = "1MB"\n[mail]\nkeep_days = 55\n' >conf
mkdir -m 711 spool && mkdir -m 700 spool/run && mkdir spool/{100,101,102.2,103,mail} outside
echo precious >outside/file
ln -s "$work/outside" spool/100/folder
ln -s "$work/outside/file" spool/100/file
ln -s "$work/outside" spool/104
head -c 2000000 /dev/zero >spool/101/trace.h5

bash "$janitor" spool conf >out || fail "exit status $?"
[ "$(find spool -mindepth 1 -maxdepth 1 | wc -l)" = 7 ] || fail "something young was removed: $(cat out)"
grep -q 'more than spool_max = 1MB' out || fail "a full spool was not reported: $(cat out)"

bash days_later --dry-run spool conf >out || fail "exit status $?"
[ "$(grep -c 'would remove' out)" = 4 ] && [ -d spool/100 ] || fail "--dry-run: $(cat out)"

exec 8>spool/run/103.n1 && flock 8
bash days_later spool conf >out || fail "exit status $?"
[ "$(cd spool && echo *)" = "103 104 mail run" ] || fail "left are $(cd spool && echo *): $(cat out)"
[ "$(grep -c 'removed job .*not fetched within 2 days' out)" = 3 ] || fail "it did not say what it removed: $(cat out)"
[ -e spool/run/103.n1 ] || fail "the file of a running collector was removed"
[ "$(cat outside/file)" = precious ] || fail "it followed a link"
exec 8>&-
bash days_later spool conf >out
[ ! -e spool/103 ] && [ -L spool/104 ] || fail "after the collector: $(ls spool): $(cat out)"

mkdir spool/105
ln -s spool link
! bash days_later link conf >out || fail "a spool that is a link was taken"
chmod 777 spool
! bash days_later spool conf >out || fail "a spool that anybody can write was taken"
[ -d spool/105 ] || fail "it worked in a place that it refused"
chmod 711 spool
printf '[slurm]\nkeep_days = soon\nspool_max = lots\n' >conf
bash "$janitor" spool conf >out || fail "exit status $?"
grep -q 'keep_days = soon is not' out && grep -q 'spool_max = lots is not' out || fail "bad settings: $(cat out)"
bash "$janitor" "$work/nowhere" conf || fail "a node without a spool is none of its business"
[ $failures -eq 0 ]
