#!/usr/bin/env bats
# A site that lets reveal act on jobs whose steps Slurm confines to their cpus (ConstrainCores): a crowd gets the idle cpus
# of its own step, and no others.
#
# In control groups of version 1 a step with all cpus of the machine looks like one that nothing confines. So that two
# cpus are enough for this test, the collector sees a third one that is on line.
load cases

setup_file() {
  [ "$(nproc --all)" -ge 2 ] || { leave_out "this machine has one cpu" && return; }
  [ -e /sys/fs/cgroup/cpuset/cpuset.cpus ] || { leave_out "control groups of version 1 have no cpusets here" && return; }
  CLUSTER_NODES=1 CLUSTER_CORES=yes cluster_start cs
  printf '[intervention]\nrules = ["cpu.affinity_too_narrow"]\n' >>"$DIR/reveal.conf"
  echo "0-$(nproc --all)" >"$DIR/online"
  cat >"$DIR/bin/one_cpu_more" <<SCRIPT
#!/bin/sh
exec /usr/bin/unshare --mount /bin/sh -c \
  '/bin/mount --bind "\$0" /sys/devices/system/cpu/online && exec "\$@"' $DIR/online $DIR/bin/recorder "\$@"
SCRIPT
  chmod 755 "$DIR/bin/one_cpu_more"
  sed -i "s| collector=[^ ]*| collector=$DIR/bin/one_cpu_more|" "$DIR/plugstack.conf"
  write_crowd >"$DIR/bin/crowd.py"
}
teardown_file() { cluster_stop; }

# Four processes on one cpu; prints the cpus of the step and all sets of cpus that they had, in their order.
write_crowd() {
  cat <<'PYTHON'
import os, sys, time
own = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, own[:1])
end = time.time() + float(sys.argv[1])
children = []
for number in range(4):
    output, inside = os.pipe()
    if os.fork() == 0:
        seen = []
        while time.time() < end:
            now = sorted(os.sched_getaffinity(0))
            if now not in seen[-1:]:
                seen.append(now)
        os.write(inside, repr(seen).encode())
        os._exit(0)
    os.close(inside)
    children.append(output)
open("id", "w").write(os.environ["SLURM_JOB_ID"] + "\n")
open("cpus", "w").write(f"{own}\n")
with open("masks", "w") as masks:
    for output in children:
        print(os.read(output, 4096).decode(), file=masks)
sys.exit(7)
PYTHON
}

refusals() { grep -o 'reveal changed nothing on cs1: [^"]*' "$1" || true; } # refusals REPORT

@test "a crowd on one of the cpus of its step" {
  situation "[intervention] rules, ConstrainCores, srun -c2 --reveal of a crowd on one cpu, exit 7"
  local status=0 id
  as_user srun -N1 -n1 -c2 --reveal /usr/bin/python3 "$DIR/bin/crowd.py" 34 >out 2>err || status=$?
  unchanged 7 $status
  id=$(cat id)
  report "$work/reveal-$id" "$id" cs1
  local step first
  step=$(cat cpus) first=$(sed 's/,.*/]/' cpus)
  echo "step $step, masks $(xargs -d '\n' <masks)" >&3
  [ "$step" != "$first" ] || problem "the step had one cpu: $step"
  if grep -q 'outcome": "\(kept\|undone\)"' "reveal-$id/report.json"; then
    [ "$(grep -cF "[$first, $step" masks)" = 4 ] || problem "not from $first to $step: $(cat masks)"
    grep -o '"sentence": "reveal [^"]*' "reveal-$id/report.json" >&3 || true
  else # others kept the second cpu busy, or the first one so busy that the crowd did not fill it
    [ "$(grep -cxF "[$first]" masks)" = 4 ] || problem "nothing is told, but changed: $(cat masks)"
    refusals "reveal-$id/report.json" >said
    [ ! -s said ] || grep -q 'were not idle' said || problem "not the reason: $(cat said)"
    echo "the other cpu was not idle: $(cat said)" >&3
  fi
  nothing_left "$id"
  verdict
}

@test "a crowd in a step with one cpu, in a job with two" {
  situation "[intervention] rules, ConstrainCores, a step with one cpu of a job with two, exit 7"
  local id
  id=$(as_user sbatch --parsable -N1 -n1 -c2 -o out --reveal --wrap \
    "srun -N1 -n1 -c1 --exact /usr/bin/python3 $DIR/bin/crowd.py 20")
  batch_unchanged "$id" FAILED 7:0
  report "$work/reveal-$id" "$id" cs1
  local first
  first=$(sed 's/,.*/]/' cpus)
  echo "step $(cat cpus), masks $(xargs -d '\n' <masks), $(refusals "reveal-$id/report.json")" >&3
  [ "$(cat cpus)" = "$first" ] || problem "the step had more than one cpu: $(cat cpus)"
  [ "$(grep -cxF "[$first]" masks)" = 4 ] || problem "its cpus were changed: $(cat masks)"
  ! grep -q 'outcome": "\(kept\|undone\)"' "reveal-$id/report.json" || problem "told that something was changed"
  nothing_left "$id"
  verdict
}
