#!/usr/bin/env bats
# Who builds the report: `report = lazy` and `report = job`. The default, epilog, is what all other files test. And the
# ledger that root keeps about reports of epilogs.
load cases

setup_file() { CLUSTER_NODES=2 cluster_start v; }
teardown_file() { cluster_stop; }

only_traces_of() { # only_traces_of FOLDER NODE...
  local folder=$1 node
  shift
  for node; do [ -s "$folder/$node.h5" ] || return 1; done
}

@test "report = lazy" {
  printf '[slurm]\nmin_seconds = 2\nreprot_limit = 1\nreport = "lazy"\n' >"$DIR/reveal.conf"
  situation "report = lazy: built by reveal show"
  local id
  id=$(as_user sbatch --parsable -N2 -o out --reveal --wrap 'sleep 4; exit 2')
  batch_unchanged "$id" FAILED 2:0
  started "$id" v1 v2
  nothing_left "$id"
  only_traces_of "reveal-$id" v1 v2 || problem "no traces: $(ls -A "reveal-$id")"
  [ ! -e "reveal-$id/report.json" ] || problem "somebody has built the report"
  as_user "$(reveal_program)" show "$work/reveal-$id" >shown || problem "reveal show: status $?"
  cmp <(head -n -2 shown) <(head -n -1 "reveal-$id/report.txt") || problem "reveal show does not print the report"
  report "$work/reveal-$id" "$id" v1 v2
  verdict
}

@test "report = job" {
  printf '[slurm]\nmin_seconds = 2\nreport = "job"\n' >"$DIR/reveal.conf"
  situation "report = job: built by a job after it"
  local id
  id=$(as_user sbatch --parsable -N2 -o out --reveal --wrap 'sleep 4; exit 2')
  batch_unchanged "$id" FAILED 2:0
  started "$id" v1 v2
  nothing_left "$id"
  report "$work/reveal-$id" "$id" v1 v2
  [ "$(scontrol show job -o | grep -c 'JobName=reveal-report UserId='"$user")" = 1 ] ||
    problem "jobs: $(squeue -h -t all -o '%A %j %u %T' | xargs)"
  started $((id + 1)) # no report of the report
  verdict
}

@test "ledger = true" {
  printf '[slurm]\nmin_seconds = 2\nledger = true\n' >"$DIR/reveal.conf"
  situation "ledger = true: a line for each node, on the node that built the report"
  local id kept
  id=$(as_user sbatch --parsable -N2 -o out --reveal --wrap 'sleep 4')
  batch_unchanged "$id" COMPLETED 0:0
  started "$id" v1 v2
  nothing_left "$id"
  report "$work/reveal-$id" "$id" v1 v2
  kept=$(compgen -G "$DIR/spool/*/nodes.jsonl") || problem "there is no ledger"
  [ "$(stat -c '%a %U' "$kept")" = "600 root" ] || problem "$(stat -c 'mode and owner of the ledger: %a %U' "$kept")"
  [ "$(grep -c "\"job\":\"$id\"" "$kept")" = 2 ] || problem "the ledger: $(cat "$kept")"
  "$(reveal_program)" nodes - --json <"$kept" | grep -q '"nodes_seen": 2' || problem "reveal nodes does not read it"
  verdict
}

# questions: how often somebody asked the controller about one job since `sdiag -r`.
questions() { sdiag | sed -n 's/^[[:space:]]*REQUEST_JOB_INFO_SINGLE[ (].*count:\([0-9]*\).*/\1/p' | head -n 1; }

@test "one question to the controller" {
  printf '[slurm]\nmin_seconds = 2\n' >"$DIR/reveal.conf"
  situation "2 nodes: one of them asks the controller about the job, once"
  local id asked
  sdiag -r >/dev/null
  id=$(as_user sbatch --parsable -N2 -o out --reveal --wrap 'sleep 4')
  # scontrol, by which other cases wait for the end of a job, asks the same.
  until_true 60 test -s "reveal-$id/report.json" || problem "there is no report"
  report "$work/reveal-$id" "$id" v1 v2
  nothing_left "$id"
  asked=$(questions)
  [ "${asked:-0}" = 1 ] || problem "the controller was asked ${asked:-0} times about the job"
  batch_unchanged "$id" COMPLETED 0:0
  started "$id" v1 v2
  verdict
}

same_report() { # same_report A.json B.json: but for the time at which they were made
  python3 - "$@" <<'EOF'
import json, sys
first, second = (json.load(open(path)) for path in sys.argv[1:])
for report in (first, second):
    for key in ("created", "report_id", "supersedes"):
        report.pop(key, None)
sys.exit(", ".join(key for key in first | second if first.get(key) != second.get(key)) or None)
EOF
}

@test "parts of a report by srun" {
  printf '[slurm]\nmin_seconds = 2\nreport = "lazy"\n' >"$DIR/reveal.conf"
  situation "srun reveal merge-part on 3 tasks of 2 nodes, then the report, in a job"
  local id later
  id=$(as_user sbatch --parsable -N2 -o out --reveal --wrap 'sleep 6')
  batch_unchanged "$id" COMPLETED 0:0
  nothing_left "$id"
  only_traces_of "reveal-$id" v1 v2 || problem "no traces: $(ls -A "reveal-$id")"
  local program directory=$work/reveal-$id
  program=$(reveal_program)
  as_user "$program" report --no-history --json "$directory" >serial.json || problem "serial report: status $?"
  later=$(as_user sbatch --parsable -N2 -n3 -o out.parts --reveal=off --wrap \
    "srun --mpi=none $program merge-part $directory; $program report --no-history --json $directory >parts.json")
  batch_unchanged "$later" COMPLETED 0:0
  [ "$(sort out.parts | sed 's/: . node.*//' | xargs)" = "part 1 of 3 part 2 of 3 part 3 of 3" ] ||
    problem "steps: $(cat out.parts)"
  same_report serial.json parts.json 2>differs || problem "the report from parts differs: $(cat differs)"
  started "$later" # nothing is recorded of it
  verdict
}
