#!/usr/bin/env bats
# Jobs that ask for far more memory than they use, and jobs that use it. Such a job is judged from ten minutes on, so this
# file runs only where REVEAL_LONG is set:
#
#   REVEAL_BUILD=build/gcc REVEAL_LONG=1 bash tests/integration/slurm_test.sh requests
load cases

setup_file() {
  [ -n "${REVEAL_LONG:-}" ] || { leave_out "eleven minutes: REVEAL_LONG=1 runs it" && return; }
  CLUSTER_NODES=3 CLUSTER_MEMORY=11000 cluster_start rq
}
teardown_file() { cluster_stop; }

names() { grep -qE '"id": *"job.over_requested"' "reveal-$1/report.json"; } # names JOB

@test "5000 MiB for less than 10, and for 3000" {
  situation "sbatch --mem=5000M --reveal of jobs of eleven minutes, three that need little of it and three that need it"
  local too_much=() enough=() id
  for _ in 1 2 3; do
    too_much+=("$(as_user sbatch --parsable -n1 --mem=5000M -o out --reveal --wrap 'sleep 660')")
    enough+=("$(as_user sbatch --parsable -n1 --mem=5000M -o out --reveal --wrap \
      '{ head -c 3000M /dev/zero; sleep 640; } | tail -c 3000M >/dev/null')")
  done
  for id in "${too_much[@]}" "${enough[@]}"; do
    until_true 1000 job_ended "$id" || problem "job $id does not end"
    batch_unchanged "$id" COMPLETED 0:0
    report "$work/reveal-$id" "$id" "$(job_field "$id" NodeList)"
    nothing_left "$id"
  done
  for id in "${too_much[@]}"; do names "$id" || problem "job $id used little: job.over_requested is not named"; done
  for id in "${enough[@]}"; do ! names "$id" || problem "job $id used it: job.over_requested is named"; done
  grep -ho '"sentence": "At its peak[^"]*' reveal-*/report.json >&3 || true
  verdict
}
