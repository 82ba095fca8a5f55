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
  ROUGH=yes rough_report "$work/reveal-$id" "$id" g2
  nothing_left "$id"
  verdict
}
