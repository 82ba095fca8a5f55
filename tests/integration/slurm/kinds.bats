#!/usr/bin/env bats
# Every way to start a job: one collector for each job and node, one directory for each job.
load cases

setup_file() { cluster_start n; }
teardown_file() { cluster_stop; }

@test "srun alone" {
  situation "srun alone, 2 nodes, exit 3"
  local task='echo $SLURM_JOB_ID >id; echo to-stdout; echo to-stderr >&2; sleep $0; exit 3' status=0
  as_user srun -N2 -n2 -w n1,n2 sh -c "$task" 0 >out.without 2>err.without || true
  as_user srun -N2 -n2 -w n1,n2 --reveal sh -c "$task" 4 >out 2>err || status=$?
  unchanged 3 $status
  says_the_same out out.without
  says_the_same err err.without
  local id
  id=$(cat id)
  started "$id" n1 n2
  started_cleanly "$id"
  report "$work/reveal-$id" "$id" n1 n2
  nothing_left "$id"
  verdict
}

@test "the line at the end of srun" {
  situation "srun of 11 s: one line at its end; not with --quiet, not inside of a job"
  local line='if it was recorded, its report is due a few seconds after its end: reveal show' status=0 id
  as_user srun -Q -N1 -w n3 --reveal sleep 11 >out.quiet 2>err.quiet &
  as_user srun -N1 -w n4 --reveal=output=here/it sh -c 'echo $SLURM_JOB_ID >id.named; sleep 11' >out.named 2>err.named &
  local inside
  inside=$(as_user sbatch --parsable -N1 -w n2 -o out.inside --reveal --wrap 'srun sleep 11')
  as_user srun -N1 -w n1 --reveal sh -c 'echo $SLURM_JOB_ID >id; sleep 11; exit 3' >out 2>err || status=$?
  wait
  unchanged 3 $status
  id=$(cat id)
  says out
  says err "srun: error: n1: task 0: Exited with exit code 3" "srun: reveal: job $id: $line $id"
  says err.quiet
  says err.named "srun: reveal: job $(cat id.named): $line here/it"
  batch_unchanged "$inside" COMPLETED 0:0
  says out.inside
  report "$work/reveal-$id" "$id" n1
  as_user "$(reveal_program)" show "$id" >shown || problem "reveal show $id, as the line has it: status $?"
  nothing_left "$id"
  verdict
}

@test "salloc" {
  situation "salloc, 2 nodes, a step on each, exit 5"
  local status=0 id
  as_user salloc -N2 -w n1,n2 --reveal sh -c 'echo $SLURM_JOB_ID >id; srun -N2 sleep 4; exit 5' >out 2>err || status=$?
  unchanged 5 $status
  says out
  says <(grep -v '^salloc: ' err)
  ! grep -qi reveal err || problem "salloc speaks of reveal: $(cat err)"
  id=$(cat id)
  started "$id" n1 n2
  report "$work/reveal-$id" "$id" n1 n2
  nothing_left "$id"
  verdict
}

@test "sbatch with several steps" {
  situation "sbatch, 3 nodes, three steps, exit 4"
  local id
  id=$(as_user sbatch --parsable -N3 -w n1,n2,n3 -o out --reveal \
    --wrap 'srun -N3 hostname >/dev/null; srun -N1 sleep 2; srun -N3 sleep 3; echo done; exit 4')
  batch_unchanged "$id" FAILED 4:0
  says out done
  started "$id" n1 n2 n3
  report "$work/reveal-$id" "$id" n1 n2 n3
  nothing_left "$id"
  verdict
}

@test "a typing error in --reveal" {
  situation "sbatch --reveal with a typing error: one line at the submission, none from its steps"
  local id
  id=$(as_user sbatch --parsable -N1 -w n1 -o out --reveal=intrval=1s --wrap 'srun -N1 sleep 1; srun -N1 sleep 4; echo done' 2>err)
  batch_unchanged "$id" COMPLETED 0:0
  says out done
  says err 'reveal: unknown key "intrval" in --reveal is ignored; did you mean "interval"?'
  started "$id" n1
  report "$work/reveal-$id" "$id" n1
  nothing_left "$id"
  verdict
}

@test "sbatch without any step" {
  situation "sbatch, 3 nodes, no step"
  local id
  id=$(as_user sbatch --parsable -N3 -w n2,n3,n4 -o out --reveal --wrap 'sleep 4; echo done')
  batch_unchanged "$id" COMPLETED 0:0
  says out done
  started "$id" n2 n3 n4
  report "$work/reveal-$id" "$id" n2 n3 n4
  nothing_left "$id"
  verdict
}

@test "sbatch with a script of its own" {
  situation "sbatch, a script file: what ran is known"
  local id
  printf '%s\n' '#!/bin/sh' 'sleep 4' 'echo "done $1"' >job.sh
  id=$(as_user sbatch --parsable -N1 -w n4 -o out --reveal job.sh argument)
  batch_unchanged "$id" COMPLETED 0:0
  says out "done argument"
  started "$id" n4
  report "$work/reveal-$id" "$id" n4
  # The script and its arguments, hashed: later runs of the same are compared with this one.
  grep -qE '"key": *"[0-9a-f]{16}' "reveal-$id/run.json" || problem "no identity: $(head -c 300 "reveal-$id/run.json" 2>&1)"
  nothing_left "$id"
  verdict
}

@test "a job array: a directory for each task" {
  situation "array of 3 tasks on 2 nodes"
  local task id node
  as_user sbatch --parsable --array=0-2 -N1 -o out.%a --reveal \
    --wrap 'echo "$SLURM_JOB_ID $SLURMD_NODENAME" >task.$SLURM_ARRAY_TASK_ID; sleep 4; exit $SLURM_ARRAY_TASK_ID' >submitted
  until_true 30 compgen -G task.2
  sleep 0.5
  for task in 0 1 2; do
    read -r id node <task.$task
    if [ $task = 0 ]; then batch_unchanged "$id" COMPLETED 0:0; else batch_unchanged "$id" FAILED $task:0; fi
    says out.$task
    started "$id" "$node"
    report "$work/reveal-$id" "$id" "$node"
    nothing_left "$id"
  done
  verdict
}

@test "a heterogeneous job" {
  situation "heterogeneous job, 2 components"
  local id
  printf '%s\n' '#!/bin/sh' 'srun --het-group=0,1 sleep 4' 'echo done' >job.sh
  id=$(as_user sbatch --parsable -o out -N1 -w n1 --reveal : -N2 -w n2,n3 --reveal job.sh)
  batch_unchanged "$id" COMPLETED 0:0
  says out done
  started "$id" n1
  started $((id + 1)) n2 n3
  report "$work/reveal-$id" "$id" n1
  report "$work/reveal-$((id + 1))" $((id + 1)) n2 n3
  nothing_left "$id"
  nothing_left $((id + 1))
  verdict
}

@test "an inner srun --reveal over a heterogeneous job" {
  situation "heterogeneous job, inner srun --reveal over both components"
  local id
  printf '%s\n' '#!/bin/sh' 'srun --het-group=0,1 --reveal sleep 4' >job.sh
  id=$(as_user sbatch --parsable -o out -N1 -w n1 : -N2 -w n2,n3 job.sh)
  batch_unchanged "$id" COMPLETED 0:0
  started "$id" n1
  started $((id + 1)) n2 n3
  report "$work/reveal-$id" "$id" n1
  report "$work/reveal-$((id + 1))" $((id + 1)) n2 n3
  nothing_left "$id"
  nothing_left $((id + 1))
  verdict
}

@test "requeue" {
  situation "requeued in mid-run, on 2 nodes and on 1"
  local id single
  local script='[ "${SLURM_RESTART_COUNT:-0}" = 0 ] && sleep 60; sleep 4; echo done'
  id=$(as_user sbatch --parsable --requeue -N2 -w n1,n2 -o out --reveal --wrap "$script")
  single=$(as_user sbatch --parsable --requeue -N1 -w n3 -o out.single --reveal --wrap "$script")
  until_true 20 has_started "$id" n1 n2
  until_true 20 has_started "$single" n3
  sleep 4
  as_user scontrol requeue "$id"
  as_user scontrol requeue "$single"
  batch_unchanged "$id" COMPLETED 0:0
  batch_unchanged "$single" COMPLETED 0:0
  # Two runs, two collectors on each node.
  started "$id" n1 n1 n2 n2
  started "$single" n3 n3
  report "$work/reveal-$id" "$id" n1 n2
  report "$work/reveal-$id-r1" "$id" n1 n2
  report "$work/reveal-$single" "$single" n3
  report "$work/reveal-$single-r1" "$single" n3
  grep -q '"state": "REQUEUED"' "$work/reveal-$single/report.json" || problem "the first run has the state of the next one"
  nothing_left "$id"
  nothing_left "$single"
  verdict
}

@test "two jobs on one node" {
  situation "two jobs share a node"
  local first second id
  first=$(as_user sbatch --parsable -N1 -w n1 -o out.1 --reveal --wrap 'sleep 5; exit 1')
  second=$(as_user sbatch --parsable -N1 -w n1 -o out.2 --reveal --wrap 'sleep 5; exit 2')
  batch_unchanged "$first" FAILED 1:0
  batch_unchanged "$second" FAILED 2:0
  for id in "$first" "$second"; do
    started "$id" n1
    report "$work/reveal-$id" "$id" n1
    nothing_left "$id"
  done
  verdict
}

@test "an inner srun --reveal only" {
  situation "sbatch without, inner srun with --reveal on 2 of 3 nodes"
  local id
  id=$(as_user sbatch --parsable -N3 -w n1,n2,n3 -o out \
    --wrap 'srun -N2 -n2 -w n2,n3 --reveal sleep 4; srun -N2 -n2 -w n2,n3 --reveal true; echo done; exit 6')
  batch_unchanged "$id" FAILED 6:0
  says out done
  started "$id" n2 n3
  report "$work/reveal-$id" "$id" n2 n3 # of the nodes that were asked for
  nothing_left "$id"
  verdict
}

@test "--reveal outside and inside" {
  situation "sbatch and its inner srun both with --reveal"
  local id
  id=$(as_user sbatch --parsable -N2 -w n1,n2 -o out --reveal --wrap 'srun --reveal -N2 sleep 4; echo done')
  batch_unchanged "$id" COMPLETED 0:0
  says out done
  started "$id" n1 n2
  report "$work/reveal-$id" "$id" n1 n2
  nothing_left "$id"
  verdict
}

@test "keys of the option" {
  situation "--reveal=interval=200ms,output=place-%j,probes=cpu+memory"
  local status=0 id
  as_user srun -N1 -w n4 --reveal=interval=200ms,output=place-%j,probes=cpu+memory sh -c 'echo $SLURM_JOB_ID >id; sleep 4' >out 2>err || status=$?
  unchanged 0 $status
  says out
  says err
  id=$(cat id)
  started "$id" n4
  report "$work/place-$id" "$id" n4
  nothing_left "$id"
  verdict
}

@test "names in output=" {
  situation "array of 2 tasks on 2 nodes each, output=%x-%A-%a-%u"
  local task id array
  array=$(as_user sbatch --parsable --array=3,7 -J 'na/me' -N2 -o out.%a --reveal=output=%x-%A-%a-%u \
    --wrap 'echo $SLURM_JOB_ID $(scontrol show hostnames | xargs) >task.$SLURM_ARRAY_TASK_ID; srun -N2 sleep 4')
  until_true 30 compgen -G task.7
  for task in 3 7; do
    until_true 20 test -s task.$task
    read -r id nodes <task.$task
    batch_unchanged "$id" COMPLETED 0:0
    started "$id" $nodes
    report "$work/na_me-$array-$task-$user" "$id" $nodes
    nothing_left "$id"
  done
  verdict
}

@test "parallel steps on one node each" {
  situation "sbatch, 4 nodes, srun -N1 --reveal on each at the same time"
  local id
  id=$(as_user sbatch --parsable -N4 -o out \
    --wrap 'for n in 1 2 3 4; do srun -N1 -n1 -w n$n --reveal=output=%x sleep 4 & done; wait; echo done' -J farm)
  batch_unchanged "$id" COMPLETED 0:0
  says out done
  started "$id" n1 n2 n3 n4
  report "$work/farm" "$id" n1 n2 n3 n4
  nothing_left "$id"
  verdict
}

@test "names in output=, where not every node can know them" {
  situation "sbatch -J job, 2 nodes: a step with a name of its own, none on one node, output=%x"
  local named lone
  named=$(as_user sbatch --parsable -J first -N2 -o out --reveal=output=%x --wrap 'srun -J other -N2 env -i /bin/sleep 4')
  lone=$(as_user sbatch --parsable -J second -N2 -o out --reveal=output=%x --wrap 'sleep 4')
  batch_unchanged "$named" COMPLETED 0:0
  batch_unchanged "$lone" COMPLETED 0:0
  report "$work/first" "$named" $(scontrol show hostnames "$(job_field "$named" NodeList)")
  report "$work/second" "$lone" $(scontrol show hostnames "$(job_field "$lone" NodeList)")
  nothing_left "$named"
  nothing_left "$lone"
  verdict
}

@test "a healthy short job leaves nothing" {
  situation "healthy job of less than min_seconds"
  local status=0 id
  as_user srun -N2 -w n1,n2 --reveal sh -c 'echo $SLURM_JOB_ID >id; exit 9' >out 2>err || status=$?
  unchanged 9 $status
  id=$(cat id)
  started "$id" n1 n2
  nothing_left "$id"
  no_report "too short"
  verdict
}

@test "without --reveal, and with --reveal=off" {
  situation "no --reveal; --reveal=off"
  local status=0 id
  as_user srun -N1 -w n1 sh -c 'echo $SLURM_JOB_ID >id; sleep 3; exit 1' || status=$?
  unchanged 1 $status
  as_user srun -N1 -w n1 --reveal=off sh -c 'echo $SLURM_JOB_ID >id.off; sleep 3; exit 1' >out 2>err || status=$?
  unchanged 1 $status
  for id in $(cat id id.off); do
    started "$id"
    nothing_left "$id"
  done
  no_report
  verdict
}
