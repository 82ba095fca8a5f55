#!/usr/bin/env bats
# reveal watch JOB from a place that has none of the job's traces: one step with a watch on each node, one page here.
load cases

setup_file() {
  cluster_start w
  cp "$REVEAL_BUILD/bin/disturb" "$DIR/bin/"
}
teardown_file() { cluster_stop; }

# watching JOB WORDS...: in the background; its process is in the file pid, its output in out and err.
watching() {
  rm -f pid
  as_user sh -c 'echo $$ >pid; exec "$@" >out 2>err' sh "$(reveal_program)" watch "$@" &
  watch=$!
  until_true 10 test -s pid || problem "no watch: $(cat err)"
}
watch_ends() { # watch_ends STATUS
  local status=0
  wait $watch || status=$?
  [ $status = "$1" ] || problem "watch: exit status $status instead of $1: $(cat out err)"
}
said_in_out() { grep -q "$1" out; }
no_step_of_watch() { # no_step_of_watch JOB: no step, and no process of one
  ! squeue -h -s -j "$1" -o '%j' | grep -q reveal-watch && ! pgrep -f -- "$(reveal_program) watch $1 --step" >/dev/null
}
refused() { # refused TEXT WORDS...: one line of error with the text
  local text=$1 status=0
  shift
  # As from a shell inside of another allocation, with --reveal: none of it is meant for the step of the watch.
  as_user env SLURM_JOB_ID=1 SLURM_NTASKS=7 SRUN_CPUS_PER_TASK=9 _SLURM_SPANK_OPTION_reveal_reveal=interval=1s \
    SQUEUE_USERS=nobody timeout 60 "$(reveal_program)" watch "$@" >out.refused 2>err.refused || status=$?
  [ $status = 1 ] || problem "watch $*: exit status $status instead of 1"
  [ "$(wc -l <err.refused)" = 1 ] || problem "watch $*: $(wc -l <err.refused) lines: $(cat err.refused)"
  grep -qF -- "$text" err.refused || problem "watch $*: \"$text\" is not in: $(cat err.refused)"
  [ ! -s out.refused ] || problem "watch $*: $(cat out.refused)"
}

@test "a disturbance on one of two nodes, as JSON and on a terminal" {
  situation "reveal watch JOB from outside, 2 nodes, a disturbance on one"
  local id
  cat >job.sh <<'JOB'
#!/bin/sh
srun -N2 --overlap sleep 115 &
sleep 75
srun -N1 -n1 -w w1 --overlap "$1" --kind flood --rate 150 --dir . --seconds 15 --window 0:0
wait
JOB
  id=$(as_user sbatch --parsable -N2 -w w1,w2 -o out.job --reveal job.sh "$DIR/bin/disturb")
  until_true 20 has_started "$id" w1 w2 || problem "no collectors"
  watching "$id" --json --append alerts
  as_user env TERM=xterm LC_ALL=C.UTF-8 timeout 150 script -qec "stty cols 110 rows 60; '$(reveal_program)' watch $id" /dev/null >page 2>&1 &
  local page=$!
  until_true 90 said_in_out '"news":"watching"' || problem "nothing watched: $(cat out err)"
  until_true 150 job_ended "$id" || true
  batch_unchanged "$id" COMPLETED 0:0
  watch_ends 0
  wait $page || problem "the page: exit status $?"
  [ ! -s err ] || problem "watch --json: $(cat err)"
  /usr/bin/python3 - "$id" out alerts >flaws 2>&1 <<'PYTHON' || problem "watch --json: $(cat flaws) $(cat out)"
import json, sys
job, out, alerts = sys.argv[1:]
lines = [json.loads(line) for line in open(out)]
end = lines[-1]
assert end["schema"] == "reveal.watch/1" and end["news"] == "ended", end
assert end["text"] == f"the job has ended; its report: reveal show {job}", end["text"]
assert [node["node"] for node in end["nodes"]] == ["w1", "w2"], end["nodes"]
for node in end["nodes"]:
    assert node["channels"] > 100 and 80 < node["seconds"] < 200, node
    assert node["collector_cpu_percent_of_core"] > 0, node
assert end["runs"] > 10, end
published = [line for line in lines if line["schema"] == "reveal.alert/1"]
assert {line["node"] for line in published} <= {"w1", "w2"}, published
assert any(line["node"] == "w1" for line in published), "no alert of the disturbed node"
appended = [json.loads(line) for line in open(alerts)]
assert appended == published, "not each alert once"
PYTHON
  grep -q "reveal watch job $id on 2 nodes   job $id" page || problem "no page: $(head -c 300 page)"
  grep -q 'w1   live' page && grep -q 'w2   live' page || problem "the page shows no live nodes: $(tail -n 40 page)"
  grep -q 'memory available' page || problem "no numbers on the page"
  report "$work/reveal-$id" "$id" w1 w2
  nothing_left "$id"
  verdict
}

@test "its end leaves nothing behind and the job alone" {
  situation "reveal watch JOB from outside: Ctrl-C, kill -9, a watch that dies on a node"
  local id
  id=$(as_user sbatch --parsable -N2 -w w1,w2 -o out.job --reveal --wrap 'srun -N2 sleep 300; exit 7')
  until_true 20 has_started "$id" w1 w2 || problem "no collectors"

  watching "$id"
  until_true 90 said_in_out "watching job $id on 2 nodes" || problem "nothing watched: $(cat out err)"
  until_true 15 compgen -G "$DIR/spool/w1/$id/*.watch" || problem "the collector is not asked for its rows"
  kill -INT "$(cat pid)"
  watch_ends 130
  grep -q 'stopped watching; this does not end the job; cost: collector' out || problem "Ctrl-C: $(cat out)"
  until_true 10 no_step_of_watch "$id" || problem "Ctrl-C: the step goes on: $(squeue -s -j "$id")"
  [ -z "$(find "$DIR/spool" -name '*.watch')" ] || problem "Ctrl-C: a marker was left"
  job_runs "$id" || problem "Ctrl-C ended the job"

  watching "$id"
  until_true 90 said_in_out "watching job $id on 2 nodes" || problem "nothing watched: $(cat out err)"
  kill -9 "$(cat pid)"
  wait $watch || true
  until_true 20 no_step_of_watch "$id" || problem "kill -9: the step goes on: $(squeue -s -j "$id")"
  job_runs "$id" || problem "kill -9 ended the job"

  watching "$id"
  until_true 90 said_in_out "watching job $id on 2 nodes" || problem "nothing watched: $(cat out err)"
  sleep 8 # with rows of both
  local victim
  victim=$(pgrep -f -- "^$(reveal_program) watch $id --step" | while read -r process; do
    ! tr '\0' '\n' <"/proc/$process/environ" | grep -qx SLURMD_NODENAME=w2 || echo "$process"
  done)
  [ "$(cat "/proc/$victim/oom_score_adj")" = 1000 ] || problem "the job is not the last to go without memory"
  [ "$(ps -o ni= -p "$victim")" -eq 10 ] || problem "the watch does not give way to the job"
  kill -9 $victim || problem "no watch on w2"
  until_true 90 said_in_out 'nothing heard of w2' || problem "w2 is not silent: $(cat out err)"
  ! grep -q 'nothing heard of w1' out || problem "w1 is silent, too: $(cat out)"
  kill -0 "$(cat pid)" || problem "the watch has ended with that of one node"
  as_user scancel "$id"
  until_true 60 job_ended "$id" || problem "job $id does not end"
  watch_ends 0
  grep -q "the job has ended.*its report: reveal show $id" out || problem "scancel: $(cat out)"
  note row_status "yes (cancelled)"
  nothing_left "$id"
  verdict
}

@test "jobs that cannot be watched" {
  situation "reveal watch of jobs that wait, have ended, are another user's or not recorded, of arrays and steps"
  local id waiting array het
  id=$(as_user sbatch --parsable -N2 -w w3,w4 -o out.job --wrap 'srun -N2 sleep 60')
  waiting=$(as_user sbatch --parsable -N1 -w w3 --exclusive -o out.waiting --wrap 'sleep 1')
  array=$(as_user sbatch --parsable --array=0-1 -w w1 -o out.array --reveal --wrap 'sleep 40')
  printf '#!/bin/sh\nsleep 40\n' >het.sh
  het=$(as_user sbatch --parsable -o out.het -N1 -w w1 --reveal : -N1 -w w2 --reveal het.sh)
  until_true 20 job_runs "$id" || problem "job $id does not start"
  refused "job $id: the job is not recorded on this node: no trace in $DIR/spool/" "$id"
  refused "job $waiting has not started (PENDING, " "$waiting"
  refused "$id.0 is a step, and only whole jobs are watched: reveal watch $id" "$id.0"
  refused "no directory 99 or reveal-99 here, and squeue: slurm_load_jobs error: Invalid job id specified" 99
  refused "$array has 2 jobs that run: ${array}_" "$array"
  refused "$het has 2 jobs that run: $het+0, $het+1; watch one of them" "$het"
  local status=0
  setpriv --reuid nobody --regid nogroup --clear-groups env -C / timeout 60 "$(reveal_program)" watch "$id" >out.other 2>err.other || status=$?
  [ $status = 1 ] || problem "another user's: exit status $status"
  grep -qx "reveal: job $id: srun did not start the watch on its nodes: error: Unable to create step for job $id: Access/permission denied" err.other ||
    problem "another user's: $(cat out.other err.other)"
  local number
  for number in "${array}_1" "$het+1"; do
    watching "$number" --json
    until_true 90 said_in_out '"news":"watching"' || problem "$number: $(cat out err)"
    kill -TERM "$(cat pid)"
    watch_ends 130
    grep -q '"news":"ended"' out || problem "$number: $(cat out err)"
  done
  as_user scancel "$id" "$array" "$het" "$waiting"
  until_true 60 job_ended "$id" || problem "job $id does not end"
  refused "job $id has ended (CANCELLED); its report: reveal show $id" "$id"
  nothing_left "$id"
  until_true 30 no_traces_of "$array"
  until_true 30 no_traces_of "$het"
  row_status=yes
  started "$id"
  verdict
}
