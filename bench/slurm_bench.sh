#!/usr/bin/env bash
# What reveal costs under Slurm, on the cluster of the integration tests (four nodes on one machine, as root).
#
#   REVEAL_BUILD=build/x bash bench/slurm_bench.sh startup   srun with and without --reveal, interleaved
#                                                  report    from the last step's end to the report, 4 nodes
#                                                  short     many short jobs in a row: what stays behind
#                                                  watch     reveal watch JOB from outside, 4 nodes
#   without an argument: the first three. RUNS=50 pairs of startup, SECONDS_OF_JOB=120 and REPEATS=1 of report, JOBS=200 of short.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cluster=$here/../tests/integration/slurm/cluster.sh
: "${REVEAL_BUILD:?the build folder}"
runs=${RUNS:-50} seconds_of_job=${SECONDS_OF_JOB:-120} repeats=${REPEATS:-1} jobs=${JOBS:-200}
user=${REVEAL_TEST_USER:-games}

dir=$(mktemp -d /tmp/rbXXXXXX)
export SLURM_CONF=$dir/slurm.conf
trap 'cd /; bash "$cluster" stop "$dir" && rm -rf "$dir"' EXIT
# As a site has it: the collector itself, and its default for jobs that are too short.
CLUSTER_PREFIX=b CLUSTER_RECORD=no CLUSTER_MIN_SECONDS=default bash "$cluster" start "$dir"
install -d -o "$user" "$dir/work" "$dir/home"
cd "$dir/work"
echo "$(slurmd -V), $(nproc) cpus, $(uname -r), load $(cut -d' ' -f1 /proc/loadavg)"

as_user=(setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups
  env -i PATH=/usr/bin:/bin "HOME=$dir/home" "USER=$user" LANG=C.UTF-8 "SLURM_CONF=$SLURM_CONF")
no_jobs() { [ -z "$(squeue -h)" ]; }
no_collectors() { ! ls -l /proc/[0-9]*/exe 2>/dev/null | grep -qF "$dir/bin/"; }
settle() { until no_jobs && no_collectors; do sleep 0.02; done; }
median() { sort -n "$1" | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
quartiles() { sort -n "$1" | awk '{ v[NR] = $1 } END { printf "%.1f..%.1f", v[int(NR / 4) + 1], v[int(NR * 3 / 4) + 1] }'; }

startup() {
  local nodes run kind kinds begin end
  for nodes in 1 4; do
    rm -f "$dir"/ms.*
    for run in $(seq "$runs"); do
      # Who goes first changes, so that a slow drift of the machine costs both the same.
      kinds="without with"
      [ $((run % 2)) = 0 ] || kinds="with without"
      for kind in $kinds; do
        settle
        sleep 0.1
        local option=()
        [ $kind = without ] || option=(--reveal)
        begin=$EPOCHREALTIME
        "${as_user[@]}" srun -Q -N "$nodes" "${option[@]}" true </dev/null
        end=$EPOCHREALTIME
        awk -v b="$begin" -v e="$end" 'BEGIN { printf "%.2f\n", (e - b) * 1000 }' >>"$dir/ms.$kind"
      done
    done
    paste "$dir/ms.with" "$dir/ms.without" | awk '{ print $1 - $2 }' >"$dir/ms.difference"
    echo "startup, $nodes node(s), $runs pairs: without $(median "$dir/ms.without") ms ($(quartiles "$dir/ms.without"))," \
      "with $(median "$dir/ms.with") ms ($(quartiles "$dir/ms.with"))," \
      "median of the differences $(median "$dir/ms.difference") ms ($(quartiles "$dir/ms.difference"))"
  done
}

# Done when the report speaks of all four nodes: the first one may have come before the last node.
complete() {
  /usr/bin/python3 - "$1" 2>/dev/null <<'PYTHON'
import json, os, sys
report = json.load(open(sys.argv[1] + "/report.json"))
nodes = {node for entry in report["coverage"] for node in entry["nodes"]}
sys.exit(0 if len(nodes) == 4 and os.path.exists(sys.argv[1] + "/report.html") else 1)
PYTHON
}
report() {
  local repeat id folder limit
  for repeat in $(seq "$repeats"); do
    settle
    cat >job.sh <<JOB
#!/bin/sh
srun -N4 -n4 sh -c 'end=\$((\$(date +%s) + $seconds_of_job)); while [ \$(date +%s) -lt \$end ]; do i=0; while [ \$i -lt 20000 ]; do i=\$((i+1)); done; sleep 0.3; done'
date +%s.%N >ended
JOB
    rm -f ended
    sdiag -r >/dev/null
    id=$("${as_user[@]}" sbatch --parsable -N4 -o /dev/null --reveal job.sh </dev/null)
    folder=reveal-$id
    until [ -s ended ]; do sleep 0.2; done
    limit=$((SECONDS + 60))
    until complete "$folder"; do
      [ $SECONDS -lt $limit ] || { echo "report: no report of 4 nodes within 60 s: $(ls -A "$folder" 2>&1 | xargs)"; return 1; }
      sleep 0.05
    done
    settle
    local last
    last=$(stat -c %.9Y "$folder"/report.* "$folder"/*.summary.json | sort -n | tail -n 1)
    echo "report, 4 nodes x $seconds_of_job s: on disk $(awk -v b="$(cat ended)" -v e="$last" 'BEGIN { printf "%.2f", e - b }') s" \
      "after the last step's end; $(du -sk "$folder" | cut -f1) kB in $(ls "$folder" | wc -l) files;" \
      "questions to the controller about one job: $(rpcs | awk '$1 == "REQUEST_JOB_INFO_SINGLE" { n = $2 } END { print n + 0 }')"
  done
}

rpcs() { sdiag | sed -n '/by message type/,/by user/p' | sed -n 's/^[[:space:]]*\([A-Z_]*\)[[:space:]]*([ 0-9]*)[[:space:]]*count:\([0-9]*\).*/\1 \2/p' | sort; }
standing() { # what there is of reveal and of descriptors, one number each
  local node
  echo "processes $(ls -l /proc/[0-9]*/exe 2>/dev/null | grep -cF "$dir/bin/" || true)"
  echo "locks $(find "$dir/spool" -path "*/run/*" -type f 2>/dev/null | wc -l)"
  echo "files_in_spool $(find "$dir/spool" -mindepth 3 2>/dev/null | wc -l)"
  echo "directories_of_jobs $(find "$dir/work" -maxdepth 1 -name 'reveal-*' | wc -l)"
  echo "freezer_cgroups $(find /sys/fs/cgroup/freezer/slurm_b[1-4] -type d 2>/dev/null | wc -l)"
  for node in 1 2 3 4; do echo "descriptors_of_slurmd_b$node $(ls "/proc/$(cat "$dir/slurmd-b$node.pid")/fd" | wc -l)"; done
  echo "descriptors_of_slurmctld $(ls "/proc/$(cat "$dir/slurmctld.pid")/fd" | wc -l)"
}
short() {
  local kind i begin
  for kind in without with; do
    local option=()
    [ $kind = without ] || option=(--reveal)
    settle
    sleep 1
    standing >"$dir/before.$kind"
    sdiag -r >/dev/null
    begin=$SECONDS
    for i in $(seq "$jobs"); do "${as_user[@]}" srun -Q -N4 "${option[@]}" true </dev/null || echo "job $i: status $?"; done
    rpcs >"$dir/rpcs.$kind"
    local spent=$((SECONDS - begin))
    settle
    sleep 2
    standing >"$dir/after.$kind"
    echo "short, $jobs jobs on 4 nodes $kind --reveal, $spent s; changed afterwards:" \
      "$(join "$dir/before.$kind" "$dir/after.$kind" | awk '$2 != $3 { printf "%s %d -> %d; ", $1, $2, $3; n = 1 } END { if (!n) print "nothing" }')"
  done
  echo "short, requests to the controller with and without:"
  join -a 1 -a 2 -e 0 -o 0,1.2,2.2 "$dir/rpcs.with" "$dir/rpcs.without" | awk '{ printf "  %-45s %5d %5d%s\n", $1, $2, $3, $2 != $3 ? "  *" : "" }'
  sinfo -R -h
}

# cost_of SECONDS PROCESS...: percent of a core and largest memory of each, all together in this time
cost_of() {
  local seconds=$1 before
  shift
  before=$(cat $(printf '/proc/%s/stat ' "$@") | awk '{ n += $14 + $15 } END { print n }')
  sleep "$seconds"
  cat $(printf '/proc/%s/stat ' "$@") $(printf '/proc/%s/status ' "$@") | awk -v b="$before" -v s="$seconds" -v n=$# -v hz="$(getconf CLK_TCK)" '
    $1 == "VmHWM:" { if ($2 > most) most = $2; next }
    $1 ~ /^[0-9]+$/ { ticks += $14 + $15 }
    END { printf "%.2f %% of a core each, at most %.0f MiB", (ticks - b) / hz / s * 100 / n, most / 1024 }'
}
watch() {
  local id watch
  settle
  id=$("${as_user[@]}" sbatch --parsable -N4 -o /dev/null --reveal --wrap 'srun -N4 sleep 250' </dev/null)
  sleep 75 # until detection runs are due
  "${as_user[@]}" sh -c 'echo $$ >pid; exec "$0" watch "$1" --json >watched' "$dir/bin/reveal" "$id" </dev/null &
  sleep 10
  watch=$(cat pid)
  echo "watch, 4 nodes, in 60 s: on the login node $(cost_of 60 "$watch") " >"$dir/watch.1" &
  echo "srun and its shepherd $(cost_of 60 $(pgrep -f -- "^/usr/bin/srun --jobid=$id "))" >"$dir/watch.2" &
  echo "slurmstepd of the step $(cost_of 60 $(pgrep -f "^slurmstepd: \\[$id\\.1\\]"))" >"$dir/watch.3" &
  echo "the watch of a node $(cost_of 60 $(pgrep -f -- "^$dir/bin/reveal watch $id --step"))" >"$dir/watch.4"
  sleep 2
  cat "$dir"/watch.?
  kill -INT "$watch"
  scancel "$id"
}

for part in ${*:-startup report short}; do "$part"; done
