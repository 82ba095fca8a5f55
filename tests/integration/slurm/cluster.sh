#!/usr/bin/env bash
# A real Slurm cluster for tests and measurements: munged, slurmctld and four slurmd of Debian's packages on loopback,
# everything in one directory. The nodes share one kernel: good for the life cycle, void for comparing nodes.
#
#   cluster.sh start DIR [PLUGIN-ARGUMENT...]  start it; an argument given here replaces the default of the same key
#   cluster.sh slurmd DIR NODE [OPTION...]     start one slurmd again, after a test has killed it
#   cluster.sh kill DIR NODE                   kill -9 the slurmd of a node
#   cluster.sh stop DIR                        stop it; exit status 1 and a list if anything of reveal was still running
#
# Environment of start, all optional:
#   REVEAL_BUILD            build folder with bin/reveal-collect and spank_reveal.so; its files are copied to DIR
#   REVEAL_PLUGIN           another plugin, used where it is; "none": no plugin; a missing file is allowed
#   REVEAL_BIN              another folder with the programs, used where it is
#   CLUSTER_PREFIX          names of the nodes, default n: n1 to n4. Clusters that run at the same time need
#                           different ones: the node's name is its folder in the freezer cgroup
#   CLUSTER_NODES           how many nodes, default 4
#   CLUSTER_PROLOG_FLAGS    default Contain; "none" leaves the line out
#   CLUSTER_EXTRA           more lines of slurm.conf
#   CLUSTER_CPUS            cpus of each node, default 16
#   CLUSTER_CORES           "yes": task/cgroup confines steps to their cpus (cpuset); the nodes then have the cpus of
#                           this machine
#   CLUSTER_MEMORY          MiB of each node, to which task/cgroup holds jobs; default 4096, held to nothing
#   CLUSTER_HOME            folder on the nodes that is DIR/home there: the home directory of passwd
#   CLUSTER_MIN_SECONDS     [slurm] min_seconds of the site file, default 2; "default" leaves it out
#   CLUSTER_RECORD          "no": start reveal-collect itself, do not record in DIR/started how it was started
set -euo pipefail
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8

die() {
  echo "cluster: $*" >&2
  exit 1
}
usage() {
  sed -n '5,8s/^# *//p' "$0" >&2
  exit 2
}
[ $# -ge 2 ] || usage
action=$1
mkdir -p "$2"
dir=$(cd "$2" && pwd -P)
shift 2
export SLURM_CONF=$dir/slurm.conf
freezer=/sys/fs/cgroup/freezer

# until_true SECONDS COMMAND...: polls.
until_true() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -lt "$end" ] || return 1
    sleep 0.05
  done
}

node_names() { for i in $(seq "$(cat "$dir/node_count")"); do echo "$(cat "$dir/prefix")$i"; done; }

# Ports outside of the ephemeral range, bound once to see that nobody has them.
free_ports() { # free_ports COUNT: the first of COUNT free ports in a row
  /usr/bin/python3 - "$1" <<'PYTHON'
import random, socket, sys
count = int(sys.argv[1])
for base in random.sample(range(20000, 30000, 10), 1000):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for i, s in enumerate(sockets):
            s.bind(("127.0.0.1", base + i))
        print(base)
        break
    except OSError:
        continue
    finally:
        for s in sockets:
            s.close()
PYTHON
}

install_programs() {
  mkdir -p "$dir/bin"
  bin=${REVEAL_BIN:-}
  plugin=${REVEAL_PLUGIN:-}
  # Copies, because the job's user must be able to reach them wherever the build folder is, and because a process that
  # runs from here is certainly one of this cluster.
  if [ -z "$bin" ] && [ -n "${REVEAL_BUILD:-}" ]; then
    bin=$dir/bin
    for program in reveal-collect reveal reveal-run; do
      [ ! -x "$REVEAL_BUILD/bin/$program" ] || cp "$REVEAL_BUILD/bin/$program" "$bin/"
    done
  fi
  if [ -z "$plugin" ]; then
    plugin=none
    for file in "${REVEAL_BUILD:-}"/{,lib/,spank/}spank_reveal.so; do
      [ ! -f "$file" ] || { cp "$file" "$dir/bin/" && plugin=$dir/bin/spank_reveal.so; }
    done
  fi
}

# Stands before reveal-collect: writes down that, with which arguments, environment and descriptors it was started, and
# becomes it. Counting processes instead would miss collectors that lived between two looks.
write_recorder() {
  mkdir -p -m 700 "$dir/started"
  cat >"$dir/bin/recorder" <<RECORDER
#!/bin/sh
previous= job= node=
for word; do
  case \$previous in
    --job) job=\${word#slurm:} ;;
    --node) node=\$word ;;
  esac
  previous=\$word
done
# It only delivers what another one recorded.
[ "\$previous" != --orphan ] || exec $bin/reveal-collect "\$@"
record=$dir/started/\$job.\$node.\$\$
(ls -l /proc/\$\$/fd >\$record.fds)
tr '\\0' '\\n' </proc/\$\$/environ >\$record.environment
printf '%s\\n' "\$*" >\$record
exec $bin/reveal-collect "\$@"
RECORDER
  chmod 755 "$dir/bin/recorder"
}

# Of one node its spool is DIR/spool. Of several each has its own, as on machines of their own: DIR/spool/NODE.
write_plugstack() { # write_plugstack PLUGIN-ARGUMENT...
  local -A argument=([collector]=$bin/reveal-collect [spool]=$dir/spool [disable]=$dir/disable [config]=$dir/reveal.conf)
  if [ "${CLUSTER_RECORD:-yes}" = yes ]; then
    write_recorder
    argument[collector]=$dir/bin/recorder
  fi
  local word key
  for word; do argument[${word%%=*}]=${word#*=}; done
  : >"$dir/plugstack.conf"
  [ "$plugin" != none ] || return 0
  {
    printf 'optional %s' "$plugin"
    for key in $(printf '%s\n' "${!argument[@]}" | sort); do printf ' %s=%s' "$key" "${argument[$key]}"; done
    echo
  } >"$dir/plugstack.conf"
  [ "${CLUSTER_NODES:-4}" -gt 1 ] || return 0
  mkdir -m 711 "$dir/spool"
  local node
  for node in $(node_names); do sed "s| spool=$dir/spool|&/$node|" "$dir/plugstack.conf" >"$dir/plugstack-$node.conf"; done
}

# The freezer of a machine without cgroup v1, or inside a container that may not write there, cannot track processes.
tracking() {
  if mkdir "$freezer/reveal-test-$$" 2>/dev/null; then
    rmdir "$freezer/reveal-test-$$"
    echo proctrack/cgroup
  else
    echo "cluster: the freezer cgroup is not usable here: proctrack/linuxproc" >&2
    echo proctrack/linuxproc
  fi
}

write_configuration() {
  local host base count=${CLUSTER_NODES:-4} prefix=${CLUSTER_PREFIX:-n} flags=${CLUSTER_PROLOG_FLAGS:-Contain}
  host=$(hostname -s)
  base=$(free_ports $((count + 1)))
  [ -n "$base" ] || die "no free ports between 20000 and 30000"
  # Job numbers of their own: clusters that run at the same time share /sys/fs/cgroup/freezer/slurm_NODE.
  local first_job=$(((base - 20000) * 200 + 100000))
  echo "$first_job" >"$dir/first_job"
  local prolog_flags="PrologFlags=$flags"
  [ "$flags" != none ] || prolog_flags=
  local cpus=${CLUSTER_CPUS:-16} tasks=task/none
  [ "${CLUSTER_CORES:-no}" = no ] || cpus=$(nproc --all) tasks=task/cgroup
  [ -z "${CLUSTER_MEMORY:-}" ] || tasks=task/cgroup

  cat >"$dir/slurm.conf" <<CONF
ClusterName=reveal-test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$base
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
CredType=cred/munge
# A requeued job waits for the end of its credential: two minutes by default.
AuthInfo=socket=$dir/munge/socket,cred_expire=10
SlurmUser=root
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/slurmd/%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd-%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd-%n.log
SlurmctldDebug=info
DebugFlags=NO_CONF_HASH
SlurmdDebug=info
ProctrackType=$(tracking)
TaskPlugin=$tasks
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
# More cpus than there are, so that cases do not wait for each other.
SlurmdParameters=config_overrides
SchedulerParameters=bf_interval=1,sched_interval=2,sched_min_interval=0,batch_sched_delay=0
DefMemPerCPU=64
ReturnToService=2
KillWait=2
MailProg=/bin/true
FirstJobId=$first_job
PlugStackConfig=$dir/plugstack.conf
$prolog_flags
${CLUSTER_EXTRA:-}
NodeName=$prefix[1-$count] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((base + 1))-$((base + count))] CPUs=$cpus RealMemory=${CLUSTER_MEMORY:-4096}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
  cat >"$dir/cgroup.conf" <<CONF
CgroupPlugin=cgroup/v1
CgroupAutomount=no
CgroupMountpoint=/sys/fs/cgroup
ConstrainCores=${CLUSTER_CORES:-no}
ConstrainRAMSpace=$([ -z "${CLUSTER_MEMORY:-}" ] && echo no || echo yes)
CONF
  : >"$dir/reveal.conf"
  if [ "${CLUSTER_MIN_SECONDS:-2}" != default ]; then
    printf '[slurm]\nmin_seconds = %s\n' "${CLUSTER_MIN_SECONDS:-2}" >"$dir/reveal.conf"
  fi
}

# Without the caller's descriptors: a test runner waits for everybody who holds its pipes.
quietly() {
  local fd
  for fd in /proc/$BASHPID/fd/*; do
    fd=${fd##*/}
    [ "$fd" -le 2 ] || eval "exec $fd>&-"
  done
  exec env -i PATH="$PATH" SLURM_CONF="$SLURM_CONF" "$@" </dev/null >>"$dir/daemons.out" 2>&1
}

start_munged() {
  mkdir -p -m 711 "$dir/munge"
  (umask 077 && head -c 128 /dev/urandom >"$dir/munge/key")
  chown -R munge:munge "$dir/munge"
  (quietly setpriv --reuid munge --regid munge --clear-groups munged --socket="$dir/munge/socket" \
    --key-file="$dir/munge/key" --pid-file="$dir/munge/pid" --log-file="$dir/munge/log" --seed-file="$dir/munge/seed") ||
    die "munged does not start: $(tail -n 3 "$dir/munge/log" "$dir/daemons.out")"
}
start_slurmd() { # start_slurmd NODE [OPTION...]
  local conf=$SLURM_CONF node=$1
  shift
  if [ -e "$dir/plugstack-$node.conf" ]; then
    conf=$dir/slurm-$node.conf
    sed "s|^PlugStackConfig=.*|PlugStackConfig=$dir/plugstack-$node.conf|" "$SLURM_CONF" >"$conf"
  fi
  local with_home=()
  # shellcheck disable=SC2016
  [ -z "${CLUSTER_HOME:-}" ] ||
    with_home=(unshare --mount bash -c 'mount --bind "$0" "$1" && shift && exec "$@"' "$dir/home" "$CLUSTER_HOME")
  (quietly "${with_home[@]}" env SLURM_CONF="$conf" slurmd -N "$node" -f "$conf" "$@") || die "slurmd of $node does not start: $(tail -n 3 "$dir/daemons.out")"
}
all_idle() { [ "$(sinfo -h -N -o %t 2>/dev/null | sort -u)" = idle ]; }

start() {
  [ "$(id -u)" -eq 0 ] || die "needs root: slurmd starts jobs as other users"
  local program
  for program in munged slurmctld slurmd srun setpriv; do
    command -v $program >/dev/null || die "$program is not installed"
  done
  [ ${#dir} -le 60 ] || die "$dir is too long: the names of sockets below it are limited to 108 bytes"
  [ ! -e "$dir/slurm.conf" ] || die "$dir already holds a cluster"
  chmod 755 "$dir"
  mkdir "$dir/state" "$dir/slurmd"
  install_programs
  echo "${CLUSTER_NODES:-4}" >"$dir/node_count"
  echo "${CLUSTER_PREFIX:-n}" >"$dir/prefix"
  write_plugstack "$@"

  # Another cluster that starts at this moment would find the same ports free.
  mkdir -p /run/lock
  exec 9>/run/lock/reveal-test-cluster
  flock 9
  write_configuration
  start_munged
  (quietly slurmctld -f "$SLURM_CONF") || die "slurmctld does not start: $(tail -n 3 "$dir/daemons.out" "$dir/slurmctld.log")"
  local node
  for node in $(node_names); do start_slurmd "$node"; done
  until_true 30 all_idle || die "the nodes are not idle: $(sinfo -h -N -o '%N %t %E' 2>&1 | xargs); see $dir/*.log"
  exec 9>&-
}

# daemon_pid FILE NAME: its process id, if that process is still what we started.
daemon_pid() {
  local pid
  pid=$(cat "$1" 2>/dev/null) && [ -n "$pid" ] || return 1
  [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$2" ] || return 1
  tr '\0' ' ' <"/proc/$pid/cmdline" | grep -qF "$dir/" || return 1
  echo "$pid"
}
# A zombie is gone too: the machine's init may take its time.
gone() { ! grep -qs '^State:[[:space:]][^ZX]' "/proc/$1/status"; }
stop_daemons() { # stop_daemons [FILE NAME]...: all of them at the same time, each needs seconds
  local pid pids=()
  while [ $# -gt 0 ]; do
    if pid=$(daemon_pid "$1" "$2") && kill "$pid" 2>/dev/null; then pids+=("$pid"); fi
    shift 2
  done
  for pid in "${pids[@]}"; do
    until_true 10 gone "$pid" || kill -9 "$pid" 2>/dev/null || true
  done
}
kill_slurmd() {
  local pid
  pid=$(daemon_pid "$dir/slurmd-$1.pid" slurmd) || die "no slurmd of $1"
  kill -9 "$pid"
  until_true 5 gone "$pid"
}

# Folders of this cluster's jobs in the freezer, deepest first.
job_cgroups() {
  local node path job first_job
  first_job=$(cat "$dir/first_job")
  for node in $(node_names); do
    for path in "$freezer/slurm_$node"/uid_*/job_*; do
      job=${path##*/job_}
      [ -d "$path" ] && [ "$job" -ge "$first_job" ] && [ "$job" -lt $((first_job + 2000)) ] || continue
      find "$path" -depth -type d
    done
  done
}
remove_job_cgroups() {
  local path node
  for path in $(job_cgroups); do
    [ ! -s "$path/cgroup.procs" ] || xargs -r kill -9 <"$path/cgroup.procs" 2>/dev/null || true
  done
  for path in $(job_cgroups); do rmdir "$path" 2>/dev/null || true; done
  for node in $(node_names); do
    rmdir "${freezer%/*}"/*/"slurm_$node"/{uid_*,system,} 2>/dev/null || true
    rmdir "${freezer%/*}"/*/reveal/*."$node".* 2>/dev/null || true # of brokers that were killed
  done
}

# Processes of reveal that this cluster has started: programs and scripts in DIR/bin, collectors with a spool below DIR.
reveal_processes() {
  local process words
  for process in $({
    grep -lsF "$dir/" /proc/[0-9]*/cmdline
    find /proc/[0-9]*/exe -maxdepth 0 -lname "$dir/bin/*" 2>/dev/null
  } | cut -d/ -f3 | sort -un); do
    words=$(tr '\0' ' ' 2>/dev/null <"/proc/$process/cmdline") || continue
    case "$(readlink "/proc/$process/exe") $words" in
      "$dir/bin/"* | *" $dir/bin/"* | *" --spool $dir/"*) echo "$process $words" ;;
    esac
  done
}

stop() {
  [ -e "$dir/slurm.conf" ] || return 0
  local node left= daemons=("$dir/slurmctld.pid" slurmctld)
  no_jobs() { [ -z "$(timeout 5 squeue -h 2>/dev/null)" ]; }
  if daemon_pid "$dir/slurmctld.pid" slurmctld >/dev/null; then
    timeout 5 squeue -h -o %A 2>/dev/null | sort -u | xargs -r timeout 5 scancel 2>/dev/null || true
    until_true 15 no_jobs || true
  fi
  # A collector that was only slow to leave is none that was left over.
  none_left() { [ -z "$(reveal_processes)" ]; }
  until_true 5 none_left || left=$(reveal_processes)
  for node in $(node_names); do daemons+=("$dir/slurmd-$node.pid" slurmd); done
  stop_daemons "${daemons[@]}"
  stop_daemons "$dir/munge/pid" munged
  reveal_processes | awk '{ print $1 }' | xargs -r kill -9 2>/dev/null || true
  remove_job_cgroups
  ! mountpoint -q "$dir/spool" || umount "$dir/spool"
  [ -z "$left" ] || {
    printf 'cluster: left over:\n%s\n' "$left" >&2
    return 1
  }
}

case $action in
  start) start "$@" ;;
  stop) stop ;;
  slurmd) start_slurmd "${1:?NODE}" "${@:2}" ;;
  kill) kill_slurmd "${1:?NODE}" ;;
  *) usage ;;
esac
