#!/usr/bin/env bash
# Jobs under Slurm while reveal is broken at random: exit statuses, nodes, what stays behind. On the cluster of the
# integration tests (four nodes on one machine, as root).
#
#   REVEAL_BUILD=build/x JOBS=60 bash bench/slurm_faults.sh
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cluster=$here/../tests/integration/slurm/cluster.sh
janitor=$here/../site-config/spool-janitor
: "${REVEAL_BUILD:?the build folder}"
jobs=${JOBS:-60} user=${REVEAL_TEST_USER:-games}

dir=$(mktemp -d /tmp/rfXXXXXX)
export SLURM_CONF=$dir/slurm.conf
trap 'cd /; bash "$cluster" stop "$dir" && rm -rf "$dir"' EXIT
CLUSTER_PREFIX=f CLUSTER_RECORD=no CLUSTER_MIN_SECONDS=1 bash "$cluster" start "$dir"
install -d -o "$user" "$dir/work" "$dir/home"
cd "$dir/work"
as_user=(setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups
  env -i PATH=/usr/bin:/bin "HOME=$dir/home" "USER=$user" LANG=C.UTF-8 "SLURM_CONF=$SLURM_CONF")
collectors() { # collectors UID: of this cluster, of that user
  local process
  for process in $(ls -l /proc/[0-9]*/exe 2>/dev/null | grep -F "$dir/bin/" | grep -oE '/proc/[0-9]+' || true); do
    [ "$(stat -c %u "$process" 2>/dev/null)" != "$1" ] || echo "${process#/proc/}"
  done
}
one_of() { shuf -n 1; }
spools() { find "$dir/spool" -maxdepth 1 -mindepth 1 -type d; }

faults=("kill -9 of a broker" "kill -9 of a sampler" "SIGSTOP of a sampler" "spool full" "spool mode 777" "disable file")
declare -A injected=()
inject() {
  local fault=$1 spool pid
  case $fault in
    "kill -9 of a broker") pid=$(collectors 0 | one_of) && [ -n "$pid" ] && kill -9 "$pid" ;;
    "kill -9 of a sampler") pid=$(collectors "$(id -u "$user")" | one_of) && [ -n "$pid" ] && kill -9 "$pid" ;;
    "SIGSTOP of a sampler") pid=$(collectors "$(id -u "$user")" | one_of) && [ -n "$pid" ] && kill -STOP "$pid" ;;
    "spool full")
      printf '[slurm]\nmin_seconds = 1\nspool_total_max = "1KB"\n' >"$dir/reveal.conf"
      sleep 3
      printf '[slurm]\nmin_seconds = 1\n' >"$dir/reveal.conf"
      ;;
    "spool mode 777")
      spools | xargs -r chmod 777
      sleep 3
      spools | xargs -r chmod 711
      ;;
    "disable file") touch "$dir/disable" && sleep 3 && rm "$dir/disable" ;;
  esac && injected[$fault]=$((${injected[$fault]:-0} + 1))
}

state() { scontrol show job -o "$1" 2>/dev/null | grep -oE 'JobState=[A-Z_]+|ExitCode=[0-9:]+' | cut -d= -f2 | xargs; }
declare -A expected=()
for number in $(seq "$jobs"); do
  code=$((number % 7))
  id=$("${as_user[@]}" sbatch --parsable -N $((number % 3 + 1)) -o "out.$number" --reveal \
    --wrap "sleep $((number % 5 + 2)); echo done $number; exit $code" </dev/null)
  expected[$id]=$([ $code = 0 ] && echo "0:0 COMPLETED" || echo "$code:0 FAILED")
  [ $((number % 2)) = 0 ] || inject "${faults[$((number / 2 % ${#faults[@]}))]}" || true
  [ $((number % 10)) != 0 ] || for spool in $(spools); do bash "$janitor" --reset-breaker "$spool" /dev/null >/dev/null; done
  while [ "$(squeue -h | wc -l)" -gt 12 ]; do sleep 0.5; done
done
until [ -z "$(squeue -h)" ]; do sleep 0.5; done

kept=0 reports=0
for id in "${!expected[@]}"; do
  got=$(state "$id" | tr ' ' '\n' | sort | xargs)
  if [ "$got" = "${expected[$id]}" ]; then kept=$((kept + 1)); else echo "job $id: $got instead of ${expected[$id]}"; fi
  [ ! -e "reveal-$id/report.json" ] || reports=$((reports + 1))
done
output=$(grep -lx 'done [0-9]*' out.* | wc -l)
drained=$(sinfo -h -N -o '%N %T' | grep -cE 'drain|down|fail' || true)
for fault in "${faults[@]}"; do echo "$fault: ${injected[$fault]:-0} times"; done
sleep 15
echo "$jobs jobs: status kept $kept, output kept $output, nodes drained $drained, reports delivered $reports," \
  "collectors left after 15 s $(collectors 0 | wc -l) + $(collectors "$(id -u "$user")" | wc -l)," \
  "control groups left $(find /sys/fs/cgroup -path '*/reveal/*.f[1-4].*' -maxdepth 3 -type d | wc -l)"
[ "$kept" = "$jobs" ] && [ "$drained" = 0 ]
