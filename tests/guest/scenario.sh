#!/usr/bin/env bash
# Runs as a service in the guest of slurm_systemd.sh, once, as root. What it finds goes to /result/scenario.txt and to
# the console; /result/status is the number of failed checks, and is not there if the end was not reached.
set -u
export LC_ALL=C.UTF-8
cd /result || exit 1
failures=0

say() { printf '%4d s  %s\n' "$(cut -d. -f1 /proc/uptime)" "$*" | tee /dev/console; }
check() { # check WHAT COMMAND...
  local what=$1
  shift
  if "$@"; then
    say "ok: $what"
  else
    say "FAILED: $what"
    failures=$((failures + 1))
  fi
}
until_true() { # until_true SECONDS COMMAND...: polls
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -lt "$end" ] || return 1
    sleep 0.5
  done
}
finish() {
  journalctl --no-pager -o short-monotonic >journal.txt 2>&1
  cp /var/log/slurm/*.log /var/log/reveal-starts . 2>/dev/null
  say "reveal and errors in the logs:"
  # Not those of a first start, and not of a library for MPI that is not there.
  grep -hiE 'reveal|error|fatal' slurmd.log slurmctld.log | grep -vE 'pmix|MPI: |state file|NOTE: Trying|accounting info'
  grep -h 'reveal' journal.txt
  echo $failures >status
  say "$failures checks failed"
  sync
  exit 0
}

as_user() { (cd /home/alice/work && setpriv --reuid alice --regid alice --init-groups env -i PATH=/usr/bin:/bin HOME=/home/alice USER=alice "$@"); }
job_field() { scontrol show job -o "$1" 2>/dev/null | tr ' ' '\n' | sed -n "s/^$2=//p" | head -n 1; }
job_runs() { [ "$(job_field "$1" JobState)" = RUNNING ]; }
job_ended() {
  case $(job_field "$1" JobState) in
    PENDING | CONFIGURING | RUNNING | COMPLETING | '') return 1 ;;
  esac
}
ended_as() { # ended_as JOB STATE EXITCODE
  say "job $1: $(job_field "$1" JobState) $(job_field "$1" ExitCode)"
  [ "$(job_field "$1" JobState) $(job_field "$1" ExitCode)" = "$2 $3" ]
}
node_is() { # node_is STATE...
  local state
  state=$(sinfo -h -N -o %T)
  [[ " $* " = *" $state "* ]]
}
not_drained() {
  local reasons
  reasons=$(sinfo -h -R)
  [ -z "$reasons" ] || say "sinfo -R: $reasons"
  [ -z "$reasons" ]
}

# Processes of reveal that belong to a job; "broker" the one of root, "sampler" that of the user, without the helper that
# it asks what may block.
collectors() { # collectors JOB UID
  local process parent
  for process in $(grep -lsz -- "^slurm:$1\$" /proc/[0-9]*/cmdline); do
    process=${process%/cmdline}
    [ "$(stat -c %u "$process" 2>/dev/null)" = "$2" ] || continue
    parent=/proc/$(sed -n 's/^PPid:\t//p' "$process/status" 2>/dev/null)
    ! grep -qsz -- "^slurm:$1\$" "$parent/cmdline" || [ "$(stat -c %u "$parent" 2>/dev/null)" != "$2" ] || continue
    echo "${process#/proc/}"
  done
}
alive_since() { awk '{ sub(/.*\) /, ""); print $20 }' "/proc/$1/stat" 2>/dev/null; }
identity() { # identity JOB UID: process ids with their start times: the same text means the same processes
  local pid
  for pid in $(collectors "$1" "$2"); do echo -n "$pid@$(alive_since "$pid") "; done
}
# Before it is the user's, the sampler is a copy of the broker.
has_collector() { [ "$(collectors "$1" 0 | wc -l) $(collectors "$1" 1500 | wc -l)" = "1 1" ]; }
has_no_collector() { [ -z "$(grep -lsz -- "^slurm:$1\$" /proc/[0-9]*/cmdline)" ]; }
starts() { grep -c -- "--job slurm:$1 " /var/log/reveal-starts 2>/dev/null; }
started_times() { [ "$(starts "$1" || true)" = "$2" ]; }
same_collector() { # same_collector JOB BROKER SAMPLER
  [ "$(identity "$1" 0)" = "$2" ] && [ "$(identity "$1" 1500)" = "$3" ] && return
  say "now broker $(identity "$1" 0)sampler $(identity "$1" 1500)instead of broker $2 sampler $3"
  return 1
}
cgroup_of() { sed -n 's/^0:://p' "/proc/$1/cgroup" 2>/dev/null; }
say_places() { # say_places JOB
  local pid
  say "slurmd $(cgroup_of "$(systemctl show -P MainPID slurmd)")"
  for pid in $(pgrep -f '^/usr/sbin/slurmstepd infinity|^slurmstepd: \['); do
    say "$(tr '\0' ' ' <"/proc/$pid/cmdline" | cut -c 1-40): $(cgroup_of "$pid")"
  done
  for pid in $(collectors "$1" 0) $(collectors "$1" 1500); do
    say "collector $pid of uid $(stat -c %u "/proc/$pid"): cgroup $(cgroup_of "$pid"), cpus $(sed -n 's/^Cpus_allowed_list:\t//p' "/proc/$pid/status"), nice $(awk '{ sub(/.*\) /, ""); print $17 }' "/proc/$pid/stat"), oom_score_adj $(cat "/proc/$pid/oom_score_adj")"
  done
  find /sys/fs/cgroup -name "job_$1" | while read -r folder; do
    say "job's cgroup: ${folder#/sys/fs/cgroup} with $(cat "$folder/cgroup.controllers")"
    grep -H . "$folder"/{cgroup.procs,memory.max,cpuset.cpus} "$folder"/step_*/user/task_*/{cgroup.procs,cpuset.cpus} 2>/dev/null
  done
}
collectors_are_apart() { # collectors_are_apart JOB
  local pid
  for pid in $(collectors "$1" 0) $(collectors "$1" 1500); do
    case $(cgroup_of "$pid") in
      *slurmd.service* | *slurmstepd.scope* | *"job_$1"* | '') return 1 ;;
    esac
  done
}

left_of() { # left_of JOB: processes, locks, files and control groups
  local process
  for process in $(grep -lsz -- "^slurm:$1\$" /proc/[0-9]*/cmdline); do echo "${process%/cmdline}"; done
  find /var/spool/reveal -regex ".*/$1\([^0-9].*\)?"
  find /sys/fs/cgroup -name "job_$1"
  pgrep -u alice -a
}
nothing_of() { [ -z "$(left_of "$1")" ]; }
nothing_left() { until_true 60 nothing_of "$1" || { say "left: $(left_of "$1" | xargs -d '\n')" && return 1; }; }
restart_slurmd() {
  local before=$SECONDS
  timeout 120 systemctl restart slurmd || return 1
  until_true 60 node_is idle mixed allocated completing || return 1
  say "restarted in $((SECONDS - before)) s, now pid $(systemctl show -P MainPID slurmd), node $(sinfo -h -N -o %T)"
}

say "$(uname -r), $(systemctl --version | head -n 1), $(slurmd -V), $(reveal --version 2>&1 | head -n 1)"
check "the control groups are version 2 alone" test "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs
say "slurmd.service: $(systemctl show slurmd -p Delegate -p KillMode -p ControlGroup | xargs), as shipped: $(grep -hE '^(KillMode|Delegate|Type|TasksMax)' /lib/systemd/system/slurmd.service | xargs)"
check "the node is idle" until_true 180 node_is idle || true
if ! node_is idle; then
  systemctl --no-pager status munge slurmctld slurmd
  finish
fi

# 1. A job with a step; slurmd is restarted under it.
cat >/home/alice/step.sh <<'STEP'
#!/bin/sh
cat /proc/self/cgroup
{ head -c 100M /dev/zero; sleep 75; } | tail -c 100M >/dev/null &
dd if=/dev/zero of=$HOME/work/written bs=1M count=20 conv=fsync 2>/dev/null
end=$(($(date +%s) + 75))
while [ "$(date +%s)" -lt $end ]; do
  i=0
  while [ $i -lt 5000 ]; do i=$((i + 1)); done
done
wait
echo step done
STEP
cat >/home/alice/job.sh <<'JOB'
#!/bin/sh
srun -n1 -c2 /bin/sh $HOME/step.sh
echo "srun ended with $?"
sleep 5
echo job done
JOB
job=$(as_user sbatch --parsable -n1 -c2 --mem=600M -o out --reveal /home/alice/job.sh)
echo "$job" >job
say "job $job: a step of 75 s, sbatch --reveal"
check "job $job runs" until_true 60 job_runs "$job"
check "one broker and one sampler" until_true 60 has_collector "$job"
sleep 20
say_places "$job"
systemd-cgls --no-pager >cgroups-before.txt 2>&1
broker=$(identity "$job" 0) sampler=$(identity "$job" 1500)
say "broker $broker sampler $sampler lock: $(cat "/var/spool/reveal/run/$job".*)"
check "the collector is neither in slurmd's nor in the job's cgroup" collectors_are_apart "$job"
cpu=2
echo $cpu >cpu-off
echo 0 >"/sys/devices/system/cpu/cpu$cpu/online"
check "cpu$cpu is off line" test "$(cat "/sys/devices/system/cpu/cpu$cpu/online")" = 0
sleep 5
echo 1 >"/sys/devices/system/cpu/cpu$cpu/online"
check "it is back, and the same collector is running" same_collector "$job" "$broker" "$sampler"
say "systemctl restart slurmd (was pid $(systemctl show -P MainPID slurmd))"
check "slurmd is back" restart_slurmd
check "the job is still running" job_runs "$job"
check "the same collector is still running" same_collector "$job" "$broker" "$sampler"
sleep 10
check "and 10 s later" same_collector "$job" "$broker" "$sampler"
say_places "$job"
systemd-cgls --no-pager >cgroups-after.txt 2>&1
check "the job ends" until_true 180 job_ended "$job"
check "the job ended as it would have without us" ended_as "$job" COMPLETED 0:0
cp /home/alice/work/out out-1
check "its output is what it wrote" grep -qx "job done" out-1
sed 's/^/        | /' out-1
folder=/home/alice/work/reveal-$job
check "the report is there" until_true 120 test -s "$folder/report.json"
say "job ended $(job_field "$job" EndTime), report written $(stat -c %y "$folder/report.json" | cut -c 1-19)"
check "collectors started: $(starts "$job")" started_times "$job" 1
check "nothing is left of job $job" nothing_left "$job"
check "the node is idle again" until_true 30 node_is idle
check "the node is not drained" not_drained
ls -la "$folder" /var/spool/reveal /var/spool/reveal/run
cp -a "$folder" "reveal-$job"
say "queue: $(squeue -h | xargs)"

# 2. The unit without KillMode=process: what a site has that wrote its own. Then the kill switch.
mkdir -p /run/systemd/system/slurmd.service.d
printf '[Service]\nKillMode=control-group\n' >/run/systemd/system/slurmd.service.d/killmode.conf
systemctl daemon-reload
rm -f /home/alice/work/go
job=$(as_user sbatch --parsable -n1 --mem=200M -o out --reveal --wrap 'until [ -e go ]; do sleep 1; done; exit 5')
say "job $job: exits with 5; slurmd has $(systemctl show slurmd -p KillMode)"
check "one broker and one sampler" until_true 60 has_collector "$job"
sleep 15
broker=$(identity "$job" 0) sampler=$(identity "$job" 1500)
check "slurmd is back" restart_slurmd
sleep 3
check "the job is still running" job_runs "$job"
check "the same collector is still running" same_collector "$job" "$broker" "$sampler"
before=$(cut -d. -f1 /proc/uptime)
touch /etc/reveal/disable
no_sampler() { ! kill -0 "${sampler%@*}" 2>/dev/null; }
check "touch /etc/reveal/disable ends the sampler" until_true 30 no_sampler
say "after $(($(cut -d. -f1 /proc/uptime) - before)) s"
check "and the broker, with the report delivered" until_true 60 has_no_collector "$job"
say "after $(($(cut -d. -f1 /proc/uptime) - before)) s; of the job there is $(compgen -G "/home/alice/work/reveal-$job/*" | xargs -n 1 basename 2>/dev/null | xargs)"
check "the job is still running" job_runs "$job"
as_user touch go
check "the job ends" until_true 60 job_ended "$job"
check "the job ended as it would have without us" ended_as "$job" FAILED 5:0
check "collectors started: $(starts "$job")" started_times "$job" 1
check "nothing is left of job $job" nothing_left "$job"
cp -a "/home/alice/work/reveal-$job" . 2>/dev/null

# 3. While the file is there, nothing starts.
job=$(as_user sbatch --parsable -n1 --mem=200M -o out --reveal --wrap 'sleep 3')
check "job $job ends" until_true 60 job_ended "$job"
check "the job ended as it would have without us" ended_as "$job" COMPLETED 0:0
check "no collector is started while /etc/reveal/disable is there" started_times "$job" 0
check "nothing is left of job $job" nothing_left "$job"
check "the node is idle again" until_true 30 node_is idle
check "the node is not drained" not_drained
say "left in the spool: $(find /var/spool/reveal -mindepth 1 | xargs)"

# 4. A job that asks for far more memory than it uses, and one that uses it, for as long as such a job is judged.
rm /etc/reveal/disable
reported() { grep -B1 '"fingerprint"' "/home/alice/work/reveal-$1/report.json" | grep -q "\"id\": *\"$2\""; }
not_reported() { test -s "/home/alice/work/reveal-$1/report.json" && ! reported "$@"; }
too_much=$(as_user sbatch --parsable -n1 -c1 --mem=5000M -o out --reveal --wrap 'sleep 660')
enough=$(as_user sbatch --parsable -n1 -c1 --mem=5000M -o out --reveal --wrap \
  '{ head -c 3000M /dev/zero; sleep 640; } | tail -c 3000M >/dev/null')
for job in $too_much $enough; do
  check "job $job ends" until_true 1000 job_ended "$job"
  check "the job ended as it would have without us" ended_as "$job" COMPLETED 0:0
  check "the report is there" until_true 120 test -s "/home/alice/work/reveal-$job/report.json"
  cp -a "/home/alice/work/reveal-$job" .
done
check "job $too_much requested too much: job.over_requested" reported "$too_much" job.over_requested
check "job $enough did not" not_reported "$enough" job.over_requested

# 5. A job that tries to trace the processes of reveal, with each setting of Yama: 0, processes of the same user may be
# traced; 1, children; 2, none. https://docs.kernel.org/admin-guide/LSM/Yama.html
cat >/home/alice/tracer.py <<'PY'
import ctypes, os, subprocess, time
seize, libc = 0x4206, ctypes.CDLL(None)
traced = lambda pid: libc.ptrace(seize, int(pid), None, None) == 0
tried, caught = set(), set()
own = subprocess.Popen(["sleep", "60"])
print("child", traced(own.pid))
end = time.monotonic() + 25
while time.monotonic() < end:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            program = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")[0]
        except OSError:
            continue
        if b"/reveal" not in program: continue
        tried.add(pid)
        if traced(pid): caught.add(pid)
print("tried", len(tried) >= 2, "caught", len(caught))
own.kill()
PY
yama=/proc/sys/kernel/yama/ptrace_scope
check "this kernel has Yama" test -w $yama
for scope in 0 1 2; do
  echo $scope >$yama
  job=$(as_user sbatch --parsable -n1 --mem=200M -o out --reveal --wrap 'python3 $HOME/tracer.py')
  check "job $job with ptrace_scope $scope ends" until_true 240 job_ended "$job"
  check "the job ended as it would have without us" ended_as "$job" COMPLETED 0:0
  say "$(xargs </home/alice/work/out)"
  check "its own child may be traced up to 1" grep -qx "child $([ $scope = 2 ] && echo False || echo True)" /home/alice/work/out
  check "no process of reveal was traced" grep -qx "tried True caught 0" /home/alice/work/out
  check "the report is there" until_true 120 test -s "/home/alice/work/reveal-$job/report.json"
  check "collectors started: $(starts "$job")" started_times "$job" 1
  check "nothing is left of job $job" nothing_left "$job"
done
check "the node is not drained" not_drained
finish
