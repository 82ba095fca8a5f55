# Sourced by the scenario of a guest, which is its first and only program: /result/scenario.txt says what was found,
# /result/status is the number of failed checks, and is not there if the end was not reached. Sets `mine` first: the
# rules that are tested here, separated by "|". JOBS=NAME,NAME on the kernel's command line chooses some jobs; SEED draws
# when faults begin; NODE=NAME names the node. The jobs record below $jobs. /result/judged and NAME.fault are the truth for
# table.py.
set -u
export LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc && mount -t sysfs sys /sys && mount -t devtmpfs dev /dev && mkdir -p /dev/shm /dev/pts
mount -t tmpfs shm /dev/shm && mount -t tmpfs run /run && mount -t tmpfs tmp /tmp
cd /result || exit 1
exec > >(tee -a scenario.txt /dev/console) 2>&1
failures=0
hostname ${NODE:-guest}
jobs=/result
say() { printf '%4d s  %s\n' "$(cut -d. -f1 /proc/uptime)" "$*"; }
finish() { # finish STATUS: an error in the scenario itself ends it, too
  if [ $1 = 0 ]; then
    say "$failures checks failed"
    echo $failures >status
  else say "FAILED: the scenario ended with status $1"; fi
  sync
  sleep 1
  echo o >/proc/sysrq-trigger
  sleep 60
}
trap 'finish $?' EXIT

expected() { # expected WHAT COMMAND...
  if "${@:2}"; then say "ok: $1"; else
    say "FAILED: $1"
    failures=$((failures + 1))
  fi
}

chosen() { [[ -z ${JOBS:-} || ,$JOBS, == *,$1,* ]]; }
# For the commands of jobs.
export SEED=${SEED:-1}
drawn() { # drawn LEAST MOST: seconds, the same for a job and a seed
  RANDOM=$((SEED + $(cksum <<<"$JOB_NAME" | cut -d' ' -f1) % 100000))
  echo $(($1 + RANDOM % ($2 - $1 + 1)))
}
fault() { # fault begins|ends: now; a job without it is faulty from its begin to its end. Starts no program
  case $1 in
    begins) echo -n "$EPOCHREALTIME " ;;
    ends) echo "$EPOCHREALTIME" ;;
  esac >>/result/$JOB_NAME.fault
}
export -f drawn fault
record() { # record NAME COMMAND...
  local begin=$EPOCHREALTIME times
  JOB_NAME=$1 reveal-run --quiet --no-report --output $jobs/$1 -- "${@:2}" >>$1.log 2>&1 ||
    say "$1: its command failed: $(tail -n 1 $1.log)"
  times=($(cat $1.fault 2>/dev/null))
  case ${#times[@]} in
    0) echo "$begin $EPOCHREALTIME" >>$1.fault ;;
    1) echo "$EPOCHREALTIME" >>$1.fault ;; # it lasted
  esac
}
found() { # found NAME: the rules of the report's findings, first one first; a runner-up has no fingerprint, which follows
  grep -B1 '"fingerprint"' $jobs/$1/report.json | grep -oE '"id": *"[^"]*"' | sed 's/.*: *"//; s/"//'
}
judge() { # judge NAME RULE|-: the report must name the rule first of those tested here; with "-", none of them
  local name=$1 rule=$2 said
  echo "$name $rule $mine" >>/result/judged
  reveal report $jobs/$name >$name.txt 2>&1 || say "$name: no report: $(tail -n 1 $name.txt)"
  said=$(found $name | grep -xE "$mine" | head -n 1)
  said=${said:--}
  [ -s $jobs/$name/report.json ] || said="no report"
  ! grep -q '"status": *"insufficient_data"' $jobs/$name/report.json || said="too few samples"
  sync
  if [ "$said" = "$rule" ]; then say "ok: $name: $said"; else
    say "FAILED: $name: $said instead of $rule"
    failures=$((failures + 1))
  fi
}
job() { # job NAME RULE|- COMMAND...
  chosen $1 || return 0
  record $1 "${@:3}"
  judge $1 $2
}
job_of_ranks() { # job_of_ranks NAME RULE|- COMMAND...: each command, one argument, is a rank of one launch
  local name=$1 rule=$2 rank=0 command ranks=()
  shift 2
  chosen $name || return 0
  for command; do
    OMPI_MCA_ess_base_jobid=$name OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_LOCAL_SIZE=$# record $name $command &
    ranks+=($!)
    rank=$((rank + 1))
  done
  wait "${ranks[@]}"
  judge $name $rule
}
