#!/usr/bin/env bats
# A site without PrologFlags: Slurm runs job_prolog on the first node only, and only when the first step starts; the
# other nodes are reached through their steps.
load cases

setup_file() { CLUSTER_PROLOG_FLAGS=none cluster_start g; }
teardown_file() { cluster_stop; }

@test "srun without PrologFlags" {
  situation "no PrologFlags: srun, 2 nodes"
  local status=0 id
  as_user srun -N2 -w g1,g2 --reveal sh -c 'echo $SLURM_JOB_ID >id; sleep 4; exit 3' >out 2>err || status=$?
  unchanged 3 $status
  says out
  id=$(cat id)
  started "$id" g1 g2
  report "$work/reveal-$id" "$id" g1 g2
  nothing_left "$id"
  verdict
}

@test "sbatch with steps without PrologFlags" {
  situation "no PrologFlags: sbatch, 3 nodes, two steps"
  local id
  id=$(as_user sbatch --parsable -N3 -w g1,g2,g3 -o out --reveal --wrap 'srun -N3 sleep 4; srun -N3 true; echo done; exit 3')
  batch_unchanged "$id" FAILED 3:0
  says out done
  started "$id" g1 g2 g3
  report "$work/reveal-$id" "$id" g1 g2 g3
  nothing_left "$id"
  verdict
}

@test "sbatch without steps, without PrologFlags" {
  situation "no PrologFlags: sbatch, 3 nodes, no step"
  local id
  id=$(as_user sbatch --parsable -N3 -w g2,g3,g4 -o out --reveal --wrap 'sleep 4; echo done')
  batch_unchanged "$id" COMPLETED 0:0
  says out done
  # Nothing of the job ever runs on the other nodes.
  started "$id" g2
  partial_report "$work/reveal-$id" "$id" g2
  nothing_left "$id"
  verdict
}

@test "slurmd is away at the job's end, and no extern step waits" {
  situation "no PrologFlags: slurmd kill -9, back after the job's end"
  local id srun status=0
  as_user srun -N1 -w g4 --reveal sh -c 'echo $SLURM_JOB_ID >id; sleep 5; exit 2' >out 2>err &
  srun=$!
  until_true 20 test -s id
  id=$(cat id)
  until_true 20 has_started "$id" g4
  bash "$here/cluster.sh" kill "$DIR" g4
  wait $srun || status=$?
  unchanged 2 $status
  # Between two steps a node of the job is as empty as this one: without an epilog the collector waits for ten minutes.
  sleep 3
  bash "$here/cluster.sh" slurmd "$DIR" g4
  until_true 60 job_ended "$id"
  started "$id" g4
  report "$work/reveal-$id" "$id" g4
  nothing_left "$id"
  verdict
}
