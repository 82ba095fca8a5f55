#!/usr/bin/env bash
# Jobs under Slurm while reveal is broken at random, in every process, program and file: exit statuses, output, nodes,
# what stays behind. On the cluster of the integration tests (four nodes on one machine, as root). The first node's
# spool is a file system with room for one trace, the second's one with few inodes.
#
#   REVEAL_BUILD=build/x JOBS=60 SEED=1 bash bench/slurm_faults.sh [FAULT...]
#
# One job in two meets a fault; FAULT chooses some of them (functions named fault_* below). Exit status 0: each job ended
# with its own status and output, no node was drained, and no process of reveal is left.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cluster=$here/../tests/integration/slurm/cluster.sh
janitor=$here/../site-config/spool-janitor
: "${REVEAL_BUILD:?the build folder}"
jobs=${JOBS:-60} user=${REVEAL_TEST_USER:-games}
RANDOM=${SEED:-1}
moment=3 # seconds that a fault of a file or a program lasts

dir=$(mktemp -d /tmp/rfXXXXXX)
export SLURM_CONF=$dir/slurm.conf
clean_up() {
  local mounted
  cd /
  bash "$cluster" stop "$dir" || true
  for mounted in "$dir/spool/f1" "$dir/spool/f2" "$dir/small"; do ! mountpoint -q "$mounted" || umount "$mounted"; done
  rm -rf "$dir"
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
signal_one() { # signal_one SIGNAL PROGRAM UID
  local pid
  pid=$(processes "$2" "$3" | one_of) && [ -n "$pid" ] && kill "-$1" "$pid"
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
submit() { # submit NUMBER: its number at Slurm; what is expected of it goes to expected[]
  local number=$1 code=$(($1 % 7)) ending where=reveal-%j
  ending="exit $code"
  [ $((number % 11)) != 0 ] || ending='kill -SEGV $$'
  [ $((number % 9)) != 0 ] || where=$dir/small/%j
  id=$("${as_user[@]}" sbatch --parsable -N $((number % 3 + 1)) -o "$dir/home/out.$number" \
    "--reveal=output=$where$([ $((number % 5)) != 0 ] || echo ,mail=yes)" \
    --wrap "sleep $((number % 5 + 2)); echo done $number; $ending" </dev/null)
  expected[$id]=$([ $code = 0 ] && echo "0:0 COMPLETED" || echo "$code:0 FAILED")
  [ $((number % 11)) != 0 ] || expected[$id]="0:11 FAILED"
}
declare -A expected=()
began=$SECONDS
for number in $(seq "$jobs"); do
  submit "$number"
  [ $((number % 2)) = 0 ] || inject_some
  [ $((number % 10)) != 0 ] || for spool in $(spools); do bash "$janitor" --reset-breaker "$spool" /dev/null >/dev/null || true; done
  while [ "$(squeue -h | wc -l)" -gt 12 ]; do sleep 0.5; done
done
until [ -z "$(squeue -h)" ]; do sleep 0.5; done
lasted=$((SECONDS - began))

kept=0 reports=0
for id in "${!expected[@]}"; do
  got=$(state "$id")
  if [ "$got" = "${expected[$id]}" ]; then kept=$((kept + 1)); else echo "job $id: $got instead of ${expected[$id]}"; fi
  [ ! -e "reveal-$id/report.json" ] && [ ! -e "$dir/small/$id/report.json" ] || reports=$((reports + 1))
done
output=$(grep -lx 'done [0-9]*' "$dir"/home/out.* | wc -l)
drained=$(sinfo -h -N -o '%N %T' | grep -cE 'drain|down|fail' || true)
for fault in "${faults[@]}"; do echo "${fault//_/ }: ${injected[$fault]:-0} times"; done
stopped=$({ processes reveal-collect 0 && processes reveal-collect "$uid" && processes reveal "$uid"; } |
  xargs -r -I{} grep -l '^State:.T' /proc/{}/status 2>/dev/null | wc -l || true)
sleep 75 # a delivery that hangs is ended after 50 s
left=$({ processes reveal-collect 0 && processes reveal-collect "$uid" && processes reveal "$uid"; } | wc -l)
echo "$jobs jobs in $lasted s: status kept $kept, output kept $output, nodes drained $drained, reports delivered $reports," \
  "processes stopped at the end $stopped, left after 75 s $left," \
  "control groups left $(find /sys/fs/cgroup -path '*/reveal/*.f[1-4].*' -maxdepth 3 -type d | wc -l)"
[ "$kept" = "$jobs" ] && [ "$output" = "$jobs" ] && [ "$drained" = 0 ] && [ "$left" = 0 ]
