#!/usr/bin/env bats
# A file of its own because Slurm looks at time limits every half minute only.
load cases

setup_file() { CLUSTER_NODES=1 cluster_start t; }
teardown_file() { cluster_stop; }

@test "the time limit" {
  situation "time limit"
  local id
  id=$(as_user sbatch --parsable -N1 -t 1 -o out --reveal --wrap 'exec sleep 300')
  until_true 150 job_ended "$id"
  batch_unchanged "$id" TIMEOUT 0:15
  started "$id" t1
  report "$work/reveal-$id" "$id" t1
  nothing_left "$id"
  verdict
}
