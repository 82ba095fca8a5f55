#!/usr/bin/env bash
# Jobs under Slurm while reveal is broken at random, in every process, program and file, and the machine below it is:
# clock, cpus, file system, node. Prints exit statuses, output, nodes, what stays behind. On the cluster of the
# integration tests (four nodes on one machine, as root). The first node's spool is a file system with room for one
# trace, the second's one with few inodes; one job in four has its results in a file system that a process serves
# (bindfs), and writes there itself; one in eight where its user may have 8 MB, by a quota where this kernel has them for
# ext4 (needs quota), else because the file system is full then. One in twelve is recorded for longer than the time
# between two flushes of a trace, on the other nodes, and met by its fault after the first.
#
#   REVEAL_BUILD=build/x JOBS=60 SEED=1 bash bench/slurm_faults.sh [FAULT...]
#
# One job in two meets a fault; FAULT chooses some of them (functions named fault_* below). SIGTERM or SIGINT ends the
# submissions: the table is that of the jobs until then. Exit status 0: each job ended with its own status and output,
# no node was drained, all traces can be read (but those that a fault damaged) and have the rows that were flushed before
# a fault ended their collector (flushed_rows.py), and no process of reveal is left.
#
# What a fault of the machine does:
#   clock_set_forward, clock_set_back  sets the wall clock of the programs of jobs that begin then, by hours, in the middle
#                                      of the recording (libfaketime: this machine's own clock stays; needs faketime)
#   cpu_taken_away                     takes cpu1 offline for a moment, for everything on this machine
#   file_system_hangs                  stops the process that serves it for 20 s: requests wait, as for an NFS server
#   file_system_lost                   kills it: requests fail (ENOTCONN); then it serves again
#   quota_used_up                      fills the place of limited size for 20 s
#   node_restarted                     ends all processes of a node at once, tells slurmctld that it is down, and starts
#                                      slurmd as after a boot; Slurm requeues the jobs
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cluster=$here/../tests/integration/slurm/cluster.sh
janitor=$here/../site-config/spool-janitor
: "${REVEAL_BUILD:?the build folder}"
jobs=${JOBS:-60} user=${REVEAL_TEST_USER:-games}
RANDOM=${SEED:-1}
moment=3  # seconds that a fault of a file or a program lasts
hang=20   # those of a file system
cpu=/sys/devices/system/cpu/cpu1/online
freezer=/sys/fs/cgroup/freezer
faketime=$(find /usr/lib /usr/lib64 -name libfaketime.so.1 2>/dev/null | head -n 1)

dir=$(mktemp -d /tmp/rfXXXXXX)
export SLURM_CONF=$dir/slurm.conf
server='' watcher=''
clean_up() {
  local mounted left
  cd /
  [ ! -w $cpu ] || echo 1 >$cpu || true
  [ -z "$watcher" ] || kill "$watcher" 2>/dev/null || true
  [ -z "$server" ] || kill -CONT "$server" 2>/dev/null || true
  bash "$cluster" stop "$dir" || true
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  umount -l "$dir/served" 2>/dev/null || true
  for mounted in "$dir/spool/f1" "$dir/spool/f2" "$dir/small" "$dir/limited"; do ! mountpoint -q "$mounted" || umount "$mounted"; done
  for left in /dev/shm/*faketime_*_[0-9]*; do # of programs that were killed
    [ ! -e "$left" ] || [ -d "/proc/${left##*_}" ] || rm -f "$left"
  done
  rm -rf --one-file-system "$dir"
}
trap clean_up EXIT
# The controller keeps what is known of a job until the end.
CLUSTER_EXTRA="MinJobAge=86400" CLUSTER_PREFIX=f CLUSTER_RECORD=no CLUSTER_MIN_SECONDS=1 bash "$cluster" start "$dir"
install -d -o "$user" "$dir/work" "$dir/home"
install -d "$dir/small"
mount -t tmpfs -o "size=64k,mode=777" small "$dir/small"
install -d -m 711 "$dir/spool/f1" "$dir/spool/f2"
mount -t tmpfs -o size=1m,mode=711 spool "$dir/spool/f1"
mount -t tmpfs -o size=64m,nr_inodes=24,mode=711 spool "$dir/spool/f2"
install -d "$dir/limited"
quota_for_user() {
  command -v setquota >/dev/null && truncate -s 64M "$dir/limited.image" &&
    mke2fs -q -t ext4 -O quota -E quotatype=usrquota "$dir/limited.image" &&
    mount -o loop,usrquota "$dir/limited.image" "$dir/limited" && setquota -u "$user" 0 8192 0 0 "$dir/limited" &&
    chmod 777 "$dir/limited"
}
if ! quota_for_user >/dev/null 2>&1; then
  echo "no quota: this kernel has none for ext4, or setquota is not installed; a file system of 8 MB instead" >&2
  ! mountpoint -q "$dir/limited" || umount "$dir/limited"
  mount -t tmpfs -o size=8m,mode=777 limited "$dir/limited"
fi
: >"$dir/hits"
install -d -o "$user" "$dir/store"
install -d "$dir/served"
serve() {
  setsid bindfs -f "$dir/store" "$dir/served" </dev/null >/dev/null 2>&1 &
  server=$!
  disown
  local try
  for try in $(seq 100); do
    ! grep -qs " $dir/served fuse" /proc/self/mounts || return 0
    sleep 0.1
  done
}
if command -v bindfs >/dev/null && [ -w /dev/fuse ]; then
  serve
else
  echo "no faults of a file system: no bindfs, or no /dev/fuse" >&2
fi
cd "$dir/work"
as_user=(setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups
  env -i PATH=/usr/bin:/bin "HOME=$dir/home" "USER=$user" LANG=C.UTF-8 "SLURM_CONF=$SLURM_CONF")
uid=$(id -u "$user")

processes() { # processes PROGRAM UID: of this cluster
  local process
  for process in $(ls -l /proc/[0-9]*/exe 2>/dev/null | grep -E -- "-> $dir/bin/$1( \(deleted\))?\$" |
    grep -oE '/proc/[0-9]+' || true); do
    [ "$(stat -c %u "$process" 2>/dev/null)" != "$2" ] || echo "${process#/proc/}"
  done
}
one_of() { shuf -n 1; }
spools() { find "$dir/spool" -maxdepth 1 -mindepth 1 -type d; }
# note_hit PID: a line for flushed_rows.py, if it is a collector on a node whose spool has room.
note_hit() {
  local word previous='' job='' node='' began
  while IFS= read -r -d '' word; do
    case $previous in
      --job) job=${word#slurm:} ;;
      --node) node=$word ;;
    esac
    previous=$word
  done 2>/dev/null <"/proc/$1/cmdline" || return 0
  case $node in f3 | f4) ;; *) return 0 ;; esac
  began=$(awk -v ticks="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print $20 / ticks }' "/proc/$1/stat" 2>/dev/null) || return 0
  [ -z "$job" ] || echo "$(cut -d' ' -f1 /proc/uptime) $began $job $node" >>"$dir/hits"
}
signal_one() { # signal_one SIGNAL PROGRAM UID
  local pid
  pid=$(processes "$2" "$3" | one_of) && [ -n "$pid" ] || return 1
  [ "$2" != reveal-collect ] || note_hit "$pid"
  kill "-$1" "$pid"
}
# What stood there comes back with the name it had: running programs keep theirs.
replaced() { # replaced FILE COMMAND...: COMMAND makes another one
  mv "$1" "$1.kept"
  "${@:2}"
  sleep "$moment"
  rm -rf "$1"
  mv "$1.kept" "$1"
}
script() { # script FILE LINE
  printf '#!/bin/sh\n%s\n' "$2" >"$1"
  chmod 755 "$1"
}
configured() { # configured LINE...: in the site's file for a moment
  printf '%s\n' "[slurm]" "min_seconds = 1" "$@" >"$dir/reveal.conf"
  sleep "$moment"
  printf '%s\n' "[slurm]" "min_seconds = 1" >"$dir/reveal.conf"
}
# a_file GLOB: one of those below the spools
# shellcheck disable=SC2086
a_file() { find "$dir"/spool/*/$1 -type f 2>/dev/null | one_of; }

fault_broker_killed() { signal_one KILL reveal-collect 0; }
fault_broker_ended() { signal_one TERM reveal-collect 0; }
fault_broker_stopped() { signal_one STOP reveal-collect 0; }
fault_broker_crashed() { signal_one SEGV reveal-collect 0; }
fault_sampler_killed() { signal_one KILL reveal-collect "$uid"; }
fault_sampler_ended() { signal_one TERM reveal-collect "$uid"; }
fault_sampler_stopped() { signal_one STOP reveal-collect "$uid"; }
fault_sampler_crashed() { signal_one SEGV reveal-collect "$uid"; }
fault_delivery_killed() { signal_one KILL reveal "$uid"; }
fault_delivery_stopped() { signal_one STOP reveal "$uid"; }
fault_collector_hangs() { replaced "$dir/bin/reveal-collect" script "$dir/bin/reveal-collect" "exec sleep 20"; }
fault_collector_fails() { replaced "$dir/bin/reveal-collect" script "$dir/bin/reveal-collect" "exit 1"; }
fault_collector_crashes() { replaced "$dir/bin/reveal-collect" script "$dir/bin/reveal-collect" 'kill -SEGV $$'; }
fault_collector_forks() {
  replaced "$dir/bin/reveal-collect" script "$dir/bin/reveal-collect" "trap '' TERM; sleep 20 & sleep 20 & wait"
}
fault_collector_empty() { replaced "$dir/bin/reveal-collect" install -m 755 /dev/null "$dir/bin/reveal-collect"; }
fault_report_hangs() { replaced "$dir/bin/reveal" script "$dir/bin/reveal" "exec sleep 20"; }
fault_report_fails() { replaced "$dir/bin/reveal" script "$dir/bin/reveal" "exit 1"; }
fault_report_crashes() { replaced "$dir/bin/reveal" script "$dir/bin/reveal" 'kill -SEGV $$'; }
fault_plugin_missing() { replaced "$dir/bin/spank_reveal.so" true; }
fault_plugin_empty() { replaced "$dir/bin/spank_reveal.so" touch "$dir/bin/spank_reveal.so"; }
fault_configuration_of_words() { configured "x = =" "[[["; }
fault_configuration_of_bytes() { replaced "$dir/reveal.conf" sh -c 'head -c 4096 /dev/urandom >$0' "$dir/reveal.conf"; }
fault_configuration_a_folder() { replaced "$dir/reveal.conf" mkdir "$dir/reveal.conf"; }
fault_mail_hangs() {
  script "$dir/bin/hangs" "exec sleep 120"
  configured "[mail]" "enabled = true" "sendmail = \"$dir/bin/hangs\"" 'domain = "hpc.example.org"'
}
fault_spool_limited() { configured 'spool_total_max = "1KB"'; }
fault_spool_open_to_all() {
  spools | xargs -r chmod 777
  sleep "$moment"
  spools | xargs -r chmod 711
}
fault_spool_closed() {
  spools | xargs -r chmod 000
  sleep "$moment"
  spools | xargs -r chmod 711
}
fault_run_file_of_bytes() { local file && file=$(a_file 'run/*') && [ -n "$file" ] && head -c 300 /dev/urandom >"$file"; }
fault_run_file_cut() { local file && file=$(a_file 'run/*') && [ -n "$file" ] && truncate -s 3 "$file"; }
fault_run_file_removed() { local file && file=$(a_file 'run/*') && [ -n "$file" ] && rm "$file"; }
fault_run_file_a_folder() { local file && file=$(a_file 'run/*') && [ -n "$file" ] && rm "$file" && mkdir "$file"; }
fault_trace_damaged() {
  local file
  file=$(a_file '[0-9]*/*.part') && [ -n "$file" ] &&
    dd if=/dev/urandom of="$file" bs=512 seek=$((RANDOM % 400)) count=4 conv=notrunc status=none
}
fault_trace_cut() { local file && file=$(a_file '[0-9]*/*.part') && [ -n "$file" ] && truncate -s 20000 "$file"; }
fault_trace_removed() { local file && file=$(a_file '[0-9]*/*.part') && [ -n "$file" ] && rm "$file"; }
fault_output_closed() {
  chmod 555 "$dir/work"
  sleep "$moment"
  chmod 755 "$dir/work"
}
fault_slurmd_restarted() {
  local node=f$((RANDOM % 4 + 1))
  bash "$cluster" kill "$dir" $node && bash "$cluster" slurmd "$dir" $node
}
fault_slurmctld_restarted() {
  kill "$(cat "$dir/slurmctld.pid")"
  sleep 1
  env -i PATH="$PATH" SLURM_CONF="$SLURM_CONF" slurmctld -f "$SLURM_CONF" </dev/null >>"$dir/daemons.out" 2>&1
  until timeout 5 squeue -h >/dev/null 2>&1; do sleep 0.5; done
}
stepped_clock() { # stepped_clock BY: "+3h"
  [ -n "$faketime" ] || return 1
  echo +0 >"$dir/clock"
  replaced "$dir/bin/reveal-collect" script "$dir/bin/reveal-collect" "exec env LD_PRELOAD=$faketime \
    FAKETIME_TIMESTAMP_FILE=$dir/clock FAKETIME_CACHE_DURATION=1 FAKETIME_DONT_FAKE_MONOTONIC=1 NO_FAKE_STAT=1 \
    $dir/bin/reveal-collect.kept \"\$@\""
  echo "$1" >"$dir/clock"
  grep -lqs "FAKETIME_TIMESTAMP_FILE=$dir/clock" /proc/[0-9]*/environ
}
fault_clock_set_forward() { stepped_clock +3h; }
fault_clock_set_back() { stepped_clock -2h; }
# By a process of its own, which gives the cpu back whatever happens to this one.
fault_cpu_taken_away() {
  [ -w $cpu ] && setsid -w sh -c "echo 0 >$cpu || exit 1; sleep $moment; echo 1 >$cpu" 2>/dev/null
}
is_served() { [ -n "$server" ] && [[ $where == "$dir/served/"* ]] && sleep $((RANDOM % 8)); }
fault_file_system_hangs() {
  is_served || return 1
  kill -STOP "$server"
  sleep $hang
  kill -CONT "$server"
}
fault_file_system_lost() {
  is_served || return 1
  kill -KILL "$server"
  sleep $moment
  umount -l "$dir/served"
  serve
}
node_processes() { # node_processes NODE: of its jobs, of Slurm beside slurmd, and of reveal
  {
    grep -lsE "^[0-9]+:freezer:/slurm_$1(/|\$)" /proc/[0-9]*/cgroup
    grep -lsz "^SLURMD_NODENAME=$1\$" /proc/[0-9]*/environ | xargs -r grep -lsF "=$dir/"
  } | grep -oE '^/proc/[0-9]+' | sort -u | cut -d/ -f3
}
fault_node_restarted() {
  local node
  sleep $((RANDOM % 4 + 1))
  for node in $(shuf -e f1 f2 f3 f4); do [ -z "$(node_processes "$node")" ] || break; done
  [ -d $freezer ] && [ -n "$(node_processes "$node")" ] || return 1
  local process
  for process in $(node_processes "$node"); do note_hit "$process"; done
  bash "$cluster" kill "$dir" "$node" && node_processes "$node" | xargs -r kill -9 2>/dev/null
  scontrol update nodename="$node" state=down reason=restart
  find "$freezer/slurm_$node" -mindepth 1 -depth -type d -exec rmdir {} + 2>/dev/null
  find "$dir/spool/$node/run" -type f -exec touch -d @0 {} + # older than the boot
  bash "$cluster" slurmd "$dir" "$node" -b
  local try
  for try in $(seq 60); do
    [ -n "$(sinfo -h -n "$node" -t down)" ] || return 0
    sleep 0.5
  done
}
fault_quota_used_up() {
  [[ $where == "$dir/limited/"* ]] || return 1
  "${as_user[@]}" sh -c "head -c 64M /dev/zero >$dir/limited/filler" 2>/dev/null || true
  sleep $hang
  rm -f "$dir/limited/filler"
}
fault_disable_file() { touch "$dir/disable" && sleep "$moment" && rm "$dir/disable"; }

mapfile -t faults < <(declare -F | sed -n 's/^declare -f fault_//p')
[ $# = 0 ] || faults=("$@")
declare -A injected=()
inject() { # inject FAULT: fails if nothing is there that it could break
  "fault_$1" && injected[$1]=$((${injected[$1]:-0} + 1))
}
inject_some() {
  local try
  for try in 1 2 3; do ! inject "${faults[$((RANDOM % ${#faults[@]}))]}" || return 0; done
}

state() { scontrol show job -o "$1" 2>/dev/null | grep -oE ' (JobState|ExitCode)=[A-Z0-9_:]+' | cut -d= -f2 | sort | xargs; }
is_long() { [ $(($1 % 12)) = 3 ]; }
submit() { # submit NUMBER: its number at Slurm; what is expected of it goes to expected[]
  local number=$1 code=$(($1 % 7)) ending beside='' seconds=$(($1 % 5 + 2)) nodes=(-N $(($1 % 3 + 1)))
  ! is_long "$number" || { seconds=25 && nodes=(-N2 -w 'f[3-4]'); }
  ending="exit $code"
  where=reveal-%j
  [ $((number % 11)) != 0 ] || ending='kill -SEGV $$'
  if [ $((number % 9)) = 0 ]; then
    where=$dir/small/%j
  elif [ $((number % 4)) = 1 ] && [ -n "$server" ]; then
    where=$dir/served/%j
    beside="while sleep 0.3; do date >>$dir/served/own.$number; done 2>/dev/null &"
  elif [ $((number % 8)) = 3 ]; then
    where=$dir/limited/%j
  fi
  local try
  for try in 1 2 3 4 5; do # slurmctld may be busy
    ! id=$("${as_user[@]}" sbatch --parsable "${nodes[@]}" -o "$dir/home/out.$number" \
      "--reveal=output=$where$([ $((number % 5)) != 0 ] || echo ,mail=yes)" \
      --wrap "$beside sleep $seconds; echo done $number; $ending" </dev/null) || break
    sleep 5
  done
  [ -n "$id" ] || return 1
  expected[$id]=$([ $code = 0 ] && echo "0:0 COMPLETED" || echo "$code:0 FAILED")
  [ $((number % 11)) != 0 ] || expected[$id]="0:11 FAILED"
}
declare -A expected=()
is_over=no where=
trap 'is_over=yes' INT TERM
# Jobs that end, each second: the epilog is a part of that.
setsid bash -c 'while sleep 1; do squeue -h -t CG -o %A 2>/dev/null; done' >"$dir/ending" &
watcher=$!
began=$SECONDS
for number in $(seq "$jobs"); do
  [ $is_over = no ] || break
  submit "$number" || { echo "job number $number was not submitted" && continue; }
  ! is_long "$number" || sleep 13
  [ $((number % 2)) = 0 ] || inject_some
  [ $((number % 10)) != 0 ] || for spool in $(spools); do bash "$janitor" --reset-breaker "$spool" /dev/null >/dev/null || true; done
  while [ "$(squeue -h | wc -l)" -gt 12 ]; do sleep 0.5; done
done
until queue=$(squeue -h) && [ -z "$queue" ]; do sleep 0.5; done
lasted=$((SECONDS - began)) jobs=${#expected[@]}
trap '' INT TERM # the results are not broken off

kept=0
for id in "${!expected[@]}"; do
  got=$(state "$id" || true)
  if [ "$got" = "${expected[$id]}" ]; then kept=$((kept + 1)); else echo "job $id: $got instead of ${expected[$id]}"; fi
done
output=$(find "$dir/home" -maxdepth 1 -name 'out.*' -exec grep -lx 'done [0-9]*' {} + | wc -l || true)
drained=$(sinfo -h -N -o '%N %T' | grep -cE 'drain|down|fail' || true)
longest=$(sort "$dir/ending" | uniq -c | sort -rn | awk 'NR == 1 { print $1 }' || true)
for fault in "${faults[@]}"; do echo "${fault//_/ }: ${injected[$fault]:-0} times"; done
stopped=$({ processes reveal-collect 0 && processes reveal-collect "$uid" && processes reveal "$uid"; } |
  xargs -r -I{} grep -l '^State:.T' /proc/{}/status 2>/dev/null | wc -l || true)
sleep 75 # a delivery that hangs is ended after 50 s
left=$({ processes reveal-collect 0 && processes reveal-collect "$uid" && processes reveal "$uid"; } | wc -l || true)
reports=$(find . "$dir/small" "$dir/store" "$dir/limited" "$dir/home" -name report.json | wc -l)
damaged=$((${injected[trace_damaged]:-0} + ${injected[trace_cut]:-0} + ${injected[trace_removed]:-0}))
flushed=kept
/usr/bin/python3 "$here/flushed_rows.py" --damaged $damaged "$dir/hits" "$dir"/{spool,work,small,limited,store,home} ||
  flushed=lost
traces=0 unreadable=0
for folder in "$dir"/store/[0-9]*; do
  [ -n "$(find "$folder" -name '*.h5' -o -name '*.h5.part' 2>/dev/null)" ] || continue
  traces=$((traces + 1))
  rm -f "$folder"/report.* "$folder"/*.summary.json # the traces themselves are to be read
  "$dir/bin/reveal" show "$folder" >"$dir/shown" 2>&1 && continue
  unreadable=$((unreadable + 1))
  echo "$folder: $(tail -n 1 "$dir/shown")"
done
echo "$jobs jobs in $lasted s: status kept $kept, output kept $output, nodes drained $drained, longest end of a job" \
  "${longest:-0} s, reports delivered $reports, served directories with traces $traces, unreadable $unreadable," \
  "flushed rows $flushed, processes stopped at the end $stopped, left after 75 s $left," \
  "control groups left $(find /sys/fs/cgroup -path '*/reveal/*.f[1-4].*' -maxdepth 3 -type d | wc -l)"
[ "$kept" = "$jobs" ] && [ "$output" = "$jobs" ] && [ "$drained" = 0 ] && [ "$unreadable" -le "$damaged" ] &&
  [ $flushed = kept ] && [ "$left" = 0 ]
