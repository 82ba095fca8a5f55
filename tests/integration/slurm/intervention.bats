#!/usr/bin/env bats
# A site that lets reveal act on jobs, on nodes where no cpuset shows which cpus belong to a job: nothing is changed.
load cases

setup_file() {
  CLUSTER_NODES=1 cluster_start v
  printf '[intervention]\nrules = ["cpu.affinity_too_narrow"]\n' >>"$DIR/reveal.conf"
  write_crowd >"$DIR/bin/crowd.py"
}
teardown_file() { cluster_stop; }

# Four processes on one cpu for 16 s; prints all cpus that they had.
write_crowd() {
  cat <<'PYTHON'
import os, sys, time
cpu = min(os.sched_getaffinity(0))
os.sched_setaffinity(0, {cpu})
end = time.time() + 16
children = []
for number in range(4):
    child = os.fork()
    if child == 0:
        while time.time() < end:
            if os.sched_getaffinity(0) != {cpu}:
                os._exit(1)
        os._exit(0)
    children.append(child)
open("id", "w").write(os.environ["SLURM_JOB_ID"] + "\n")
changed = sum(os.waitpid(child, 0)[1] != 0 for child in children)
print(changed, "changed", flush=True)
sys.exit(7)
PYTHON
}

@test "an intervention that the site allows and no cpuset covers" {
  situation "[intervention] rules, srun --reveal of a crowd on one cpu, exit 7"
  local status=0 id
  as_user srun -N1 --reveal /usr/bin/python3 "$DIR/bin/crowd.py" >out 2>err || status=$?
  unchanged 7 $status
  says out "0 changed"
  id=$(cat id)
  report "$work/reveal-$id" "$id" v1
  ! grep -q '"outcome": "\(kept\|undone\)"' "$work/reveal-$id/report.json" || problem "its cpus were changed"
  # A node with other work than the job's shows no crowd.
  grep -o 'reveal changed nothing on v1: [^"]*' "$work/reveal-$id/report.json" >said || true
  [ ! -s said ] || grep -q 'no cpuset of its own confines the job' said || problem "not the reason: $(cat said)"
  nothing_left "$id"

  status=0
  as_user srun -N1 --reveal=intervene=off /usr/bin/python3 "$DIR/bin/crowd.py" >out 2>err || status=$?
  unchanged 7 $status
  says out "0 changed"
  ! grep -q 'unknown key' err || problem "$(cat err)"
  id=$(cat id)
  report "$work/reveal-$id" "$id" v1
  ! grep -q '"interventions"' "$work/reveal-$id/report.json" || problem "the user refused, and was not heard"
  nothing_left "$id"
  verdict
}
