#!/usr/bin/env bats
# Every way to end: cancelled, crashed, the node's daemon killed, the collector killed.
load cases

setup_file() { cluster_start e; }
teardown_file() { cluster_stop; }

@test "scancel" {
  situation "scancel"
  local id
  id=$(as_user sbatch --parsable -N2 -w e1,e2 -o out --reveal --wrap 'srun -N2 sleep 100')
  until_true 20 has_started "$id" e1 e2
  sleep 4
  as_user scancel "$id"
  until_true 60 job_ended "$id" || problem "job $id does not end"
  # Whether Slurm's signal or the shell's own end comes first is theirs to settle.
  case "$(job_field "$id" JobState) $(job_field "$id" ExitCode)" in
    "CANCELLED 0:15" | "CANCELLED 143:0") note row_status "yes (CANCELLED)" ;;
    *) problem "the job ended as $(job_field "$id" JobState) $(job_field "$id" ExitCode)" ;;
  esac
  started "$id" e1 e2
  report "$work/reveal-$id" "$id" e1 e2
  nothing_left "$id"
  verdict
}

@test "a task crashes" {
  situation "task ends by SIGSEGV"
  local task='echo $SLURM_JOB_ID >id; sleep $0; kill -SEGV $$' status=0 id
  as_user srun -N1 -w e1 sh -c "$task" 0 >out.without 2>err.without || true
  as_user srun -N1 -w e1 --reveal sh -c "$task" 4 >out 2>err || status=$?
  unchanged 139 $status
  says_the_same err err.without
  id=$(cat id)
  started "$id" e1
  report "$work/reveal-$id" "$id" e1
  nothing_left "$id"
  verdict
}

@test "slurmd is killed and started again in mid-job" {
  situation "slurmd kill -9 in mid-job, started again"
  local id
  id=$(as_user sbatch --parsable -N2 -w e3,e4 -o out --reveal --wrap 'srun -N2 sleep 8; echo done; exit 2')
  until_true 20 has_started "$id" e3 e4
  sleep 2
  bash "$here/cluster.sh" kill "$DIR" e4
  sleep 2
  bash "$here/cluster.sh" slurmd "$DIR" e4
  batch_unchanged "$id" FAILED 2:0
  says out done
  started "$id" e3 e4
  report "$work/reveal-$id" "$id" e3 e4
  nothing_left "$id"
  verdict
}

@test "the job ends while slurmd is away" {
  situation "slurmd kill -9, back after the job's end"
  local id srun status=0
  as_user srun -N1 -w e4 --reveal sh -c 'echo $SLURM_JOB_ID >id; sleep 4; exit 2' >out 2>err &
  srun=$!
  until_true 20 test -s id
  id=$(cat id)
  until_true 20 has_started "$id" e4
  bash "$here/cluster.sh" kill "$DIR" e4
  wait $srun || status=$?
  unchanged 2 $status
  sleep 2
  # The extern step waits for slurmd, and so does the collector: on this node, the job has not ended.
  bash "$here/cluster.sh" slurmd "$DIR" e4
  until_true 60 job_ended "$id"
  unchanged 2:0 "$(job_field "$id" ExitCode)"
  started "$id" e4
  report "$work/reveal-$id" "$id" e4
  nothing_left "$id"
  verdict
}

@test "a node that is lost, and comes back after the report" {
  situation "node lost (slurmd, steps, collector kill -9); back after the report, which it then supersedes"
  local id
  id=$(as_user sbatch --parsable -N2 -w e1,e4 --no-kill -o out --reveal --wrap 'sleep 14; echo done; exit 2')
  until_true 20 has_started "$id" e1 e4
  sleep 12 # a flush
  bash "$here/cluster.sh" kill "$DIR" e4
  kill -9 $(collectors_of "$id" e4) $(pgrep -f "slurmstepd: \\[$id.extern") || problem "nothing was there to kill"
  partial_report "$work/reveal-$id" "$id" e1
  grep -q '"partial": true' "$work/reveal-$id/report.json" || problem "the report does not say that a node is missing"
  says out done
  started "$id" e1 e4
  bash "$here/cluster.sh" slurmd "$DIR" e4
  until_true 90 job_ended "$id"
  batch_unchanged "$id" FAILED 2:0
  partial_report "$work/reveal-$id" "$id" e1 e4
  only_left "$id" "/run/$id.e4\$" "lock of the crash"
  rm -f "$DIR"/spool/*/run/*
  verdict
}

@test "the sampler is killed" {
  situation "sampler kill -9"
  local id
  id=$(as_user sbatch --parsable -N1 -w e1 -o out --reveal --wrap 'sleep 9; echo done; exit 2')
  until_true 20 has_started "$id" e1
  sleep 4
  kill -9 $(collectors_of "$id" e1 "$(id -u "$user")") || problem "there is no sampler"
  batch_unchanged "$id" FAILED 2:0
  says out done
  started "$id" e1
  partial_report "$work/reveal-$id" "$id" e1
  nothing_left "$id"
  verdict
}

@test "the broker is killed" {
  situation "broker kill -9"
  local id
  id=$(as_user sbatch --parsable -N1 -w e2 -o out --reveal --wrap 'sleep 9; echo done; exit 2')
  until_true 20 has_started "$id" e2
  sleep 4
  kill -9 $(collectors_of "$id" e2 0) || problem "there is no broker"
  batch_unchanged "$id" FAILED 2:0
  says out done
  started "$id" e2
  partial_report "$work/reveal-$id" "$id" e2
  only_left "$id" "/run/$id.e2\$" "lock of the crash"
  rm -f "$DIR"/spool/*/run/* # the breaker would count them for the cases that follow
  verdict
}

@test "broker and sampler are killed" {
  situation "broker and sampler kill -9"
  local id
  id=$(as_user sbatch --parsable -N1 -w e3 -o out --reveal --wrap 'sleep 17; echo done; exit 2')
  until_true 20 has_started "$id" e3
  sleep 12 # two flushes
  kill -9 $(collectors_of "$id" e3) || problem "there are no collectors"
  batch_unchanged "$id" FAILED 2:0
  says out done
  started "$id" e3
  partial_report "$work/reveal-$id" "$id" e3
  only_left "$id" "/run/$id.e3\$" "lock of the crash"
  rm -f "$DIR"/spool/*/run/* # the breaker would count them for the cases that follow
  verdict
}

@test "the node goes down" {
  situation "node went down: all is killed, and the files are older than the boot"
  local id
  id=$(as_user sbatch --parsable -N1 -w e3 -o out --reveal --wrap 'sleep 17; echo done; exit 2')
  until_true 20 has_started "$id" e3
  sleep 12 # two flushes
  kill -9 $(collectors_of "$id" e3) || problem "there are no collectors"
  touch -d @0 "$DIR/spool/e3/run/$id.e3"
  batch_unchanged "$id" FAILED 2:0
  started "$id" e3
  partial_report "$work/reveal-$id" "$id" e3
  grep -q "$id: e3: the node went down while the collector ran" "$DIR"/slurmd-e3.log || problem "the log does not say so"
  nothing_left "$id" # no file counts for the breaker
  verdict
}
