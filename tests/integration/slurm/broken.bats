#!/usr/bin/env bats
# What can be broken about reveal itself: the job and the node do not notice. A cluster for each case, because the
# plugin's arguments differ.
load cases

cluster() { # cluster PREFIX [PLUGIN-ARGUMENT...]
  CLUSTER_NODES=1 cluster_start "$@"
}
# After the case's own teardown, which writes the row.
eval "row_$(declare -f teardown)"
teardown() {
  row_teardown
  [ -z "${DIR:-}" ] || cluster_stop
}

# run_job NODE [SECONDS]: srun --reveal with exit status 7; sets id, status, and checks what the user sees.
run_job() {
  status=0
  as_user srun -N1 -w "$1" --reveal sh -c 'echo $SLURM_JOB_ID >id; echo out; sleep $0; exit 7' "${2:-1}" >out 2>err || status=$?
  id=$(cat id)
  unchanged 7 $status
  says out out
  says err "srun: error: $1: task 0: Exited with exit code 7"
}
seconds_of_epilog() { # seconds_of_epilog JOB: until the node is free again
  local begin=$SECONDS
  until_true 30 job_ended "$1"
  echo $((SECONDS - begin))
}

@test "the plugin is not installed" {
  REVEAL_PLUGIN=none cluster h
  situation "plugin not installed: srun knows no --reveal"
  local status=0
  as_user srun -N1 --reveal true >out 2>err || status=$?
  grep -q "unrecognized option '--reveal'" err || problem "srun says: $(cat err)"
  note row_status "not started ($status: unrecognized option)"
  status=0
  as_user srun -N1 sh -c 'exit 7' 2>err || status=$?
  unchanged 7 $status
  note row_started none
  no_report
  verdict
}

@test "the plugin's file is missing" {
  REVEAL_PLUGIN=/nonexistent/spank_reveal.so cluster i
  situation "plugstack.conf names a missing file (optional)"
  local status=0
  as_user srun -N1 sh -c 'exit 7' >out 2>err || status=$?
  unchanged 7 $status
  note row_started none
  no_report
  verdict
}

# That of the package, or built as the README says.
install_stub() {
  local stub=${REVEAL_STUB:-$DIR/bin/spank_reveal_stub.so}
  [ -e "$stub" ] || gcc -shared -fPIC -o "$stub" "$here/../../../spank/stub/spank_reveal_stub.c" || return 1
  echo "optional $stub" >>"$DIR/plugstack.conf"
}

@test "the stub accepts --reveal while the plugin is away" {
  REVEAL_PLUGIN=none cluster w
  install_stub || skip "no gcc with Slurm's headers is here"
  situation "plugin not installed, the stub is: --reveal has no effect"
  local said="reveal: not installed on this cluster at the moment: --reveal has no effect" id status=0
  as_user srun -N1 --reveal=interval=1s sh -c 'echo out; exit 7' >out 2>err || status=$?
  unchanged 7 $status
  says out out
  says err "$said" "srun: error: w1: task 0: Exited with exit code 7"
  # Once for each submission, not for each srun of a job.
  id=$(as_user sbatch --parsable -N1 -o batch --reveal --wrap 'srun -N1 --reveal echo inside; exit 2' 2>err)
  batch_unchanged "$id" FAILED 2:0
  says batch inside
  says err "$said"
  # Where only the login node has it.
  : >"$DIR/plugstack.conf.nodes"
  sed "s|^PlugStackConfig=.*|PlugStackConfig=$DIR/plugstack.conf.nodes|" "$SLURM_CONF" >"$DIR/slurm-nodes.conf"
  bash "$here/cluster.sh" kill "$DIR" w1
  (env -i PATH="$PATH" SLURM_CONF="$DIR/slurm-nodes.conf" slurmd -N w1 -f "$DIR/slurm-nodes.conf" </dev/null >/dev/null 2>&1 3>&-)
  status=0
  as_user srun -N1 --reveal=off sh -c 'echo out; exit 7' >out 2>err || status=$?
  unchanged 7 $status
  says out out
  says err "srun: error: w1: task 0: Exited with exit code 7"
  note row_started none
  no_report
  verdict
}

# plugin_of_next_release FILE: the plugin as it would be after an upgrade of Slurm. Its loader compares two of the three
# numbers in this word: https://slurm.schedmd.com/plugins.html
plugin_of_next_release() {
  local plugin=${REVEAL_PLUGIN:-} built
  for built in "$REVEAL_BUILD"/{,lib/,spank/}spank_reveal.so; do
    [ -n "$plugin" ] || [ ! -f "$built" ] || plugin=$built
  done
  /usr/bin/python3 - "$plugin" "$1" "$(slurmd -V)" <<'PYTHON'
import re, struct, sys
plugin, changed, release = sys.argv[1:]
major, minor, micro = map(int, re.search(r"(\d+)\.(\d+)\.(\d+)", release).groups())
word = lambda first: struct.pack("<I", first << 16 | minor << 8 | micro)
content = open(plugin, "rb").read()
if content.count(word(major)) != 1:
    sys.exit(f"{plugin}: not one version word of {release}")
open(changed, "wb").write(content.replace(word(major), word(major + 1)))
PYTHON
}
# refused_by_loader FILE PROGRAM: its two lines about the plugin are there; FILE.rest is all but those.
refused_by_loader() {
  [ "$(grep spank_reveal.so "$1" | grep -c "^$2: .*ncompatible")" = 2 ] ||
    problem "$2 does not print two lines about the plugin: $(cat "$1")"
  grep -v "spank_reveal.so" "$1" >"$1.rest" || true
}

@test "the plugin is of another release of Slurm" {
  REVEAL_PLUGIN=none cluster z
  local plugin=$DIR/bin/spank_reveal.so id status=0
  install_stub || skip "no gcc with Slurm's headers is here"
  plugin_of_next_release "$plugin" || skip "the plugin was not built for $(slurmd -V)"
  echo "optional $plugin" >"$DIR/plugstack.conf"
  situation "plugin of another release of Slurm, without and with the stub"
  as_user srun -N1 sh -c 'echo out; exit 7' >out 2>err || status=$?
  unchanged 7 $status
  says out out
  refused_by_loader err srun
  says err.rest "srun: error: z1: task 0: Exited with exit code 7"
  status=0
  as_user srun -N1 --reveal true >out 2>err || status=$?
  [ $status != 0 ] || problem "srun --reveal runs"
  refused_by_loader err srun
  grep -q "unrecognized option '--reveal'" err.rest || problem "srun says: $(cat err)"
  # Login nodes that were upgraded last, or reveal that cannot be built for that release yet.
  install_stub
  local said="reveal: not installed on this cluster at the moment: --reveal has no effect"
  status=0
  as_user srun -N1 --reveal=interval=1s sh -c 'echo out; exit 7' >out 2>err || status=$?
  unchanged 7 $status
  says out out
  refused_by_loader err srun
  says err.rest "$said" "srun: error: z1: task 0: Exited with exit code 7"
  id=$(as_user sbatch --parsable -N1 -o batch --reveal --wrap 'exit 2' 2>err)
  batch_unchanged "$id" FAILED 2:0
  refused_by_loader err sbatch
  says err.rest "$said"
  note row_started none
  no_report
  verdict
}

@test "the stub does nothing beside the plugin" {
  cluster x
  install_stub || skip "no gcc with Slurm's headers is here"
  situation "plugin and stub"
  run_job x1 4
  started "$id" x1
  report "$work/reveal-$id" "$id" x1
  nothing_left "$id"
  verdict
}

@test "the collector is missing" {
  cluster j collector=/nonexistent/reveal-collect
  situation "collector missing"
  run_job j1
  nothing_left_but_locks "$id"
  note row_started none
  no_report
  verdict
}

@test "the collector is not executable" {
  cluster k collector=/etc/passwd
  situation "collector not executable"
  run_job k1
  nothing_left_but_locks "$id"
  note row_started none
  no_report
  verdict
}

@test "the collector hangs" {
  cluster l
  situation "collector hangs and ignores SIGTERM"
  # In place of the recorder, so that plugstack.conf and the running slurmd need not change.
  printf '%s\n' '#!/bin/sh' "trap '' TERM" "echo \$\$ >$DIR/started/hangs" 'while :; do sleep 1; done' >"$DIR/bin/recorder"
  run_job l1
  local seconds
  seconds=$(seconds_of_epilog "$id")
  [ "$seconds" -le 8 ] || problem "the epilog held the node for $seconds s"
  [ -s "$DIR/started/hangs" ] && note row_started l1 || problem "the case is void: it was not started"
  # It has not said who it is, so nobody may kill it but an admin, who finds it in the log.
  grep -q "$id: l1: the collector did not end within 5 s" "$DIR"/slurmd-l1.log || problem "the log does not say so"
  kill -9 "$(cat "$DIR/started/hangs")" && note row_left "the script, and a line in the log" || problem "it has ended"
  no_report
  verdict
}

@test "the collector crashes at once, and the breaker opens" {
  cluster m
  situation "collector crashes at once; after 3 crashes none is started"
  # The epilog has whatever was recorded delivered: that is no start.
  printf '%s\n' '#!/bin/sh' 'case "$*" in *--orphan) exit ;; esac' "echo >>$DIR/started/crashes" 'kill -SEGV $$' >"$DIR/bin/recorder"
  local job
  for job in 1 2 3 4 5; do run_job m1 0.3; done
  [ "$(wc -l <"$DIR/started/crashes")" = 3 ] || problem "$(wc -l <"$DIR/started/crashes") starts instead of 3"
  note row_started "3 of 5"
  grep -q -- "spool-janitor --reset-breaker $DIR/spool" "$DIR"/slurmd-m1.log || problem "the log does not say how to reset it"
  touch -d '+2 hours' "$DIR"/spool/run/[0-9]* # the clock was set back since
  run_job m1 0.3
  [ "$(wc -l <"$DIR/started/crashes")" = 4 ] || problem "crashes of a time that has not come open the breaker"
  touch "$DIR"/spool/run/[0-9]*
  run_job m1 0.3
  [ "$(wc -l <"$DIR/started/crashes")" = 4 ] || problem "the breaker does not open again"
  bash "${REVEAL_JANITOR:-$here/../../../site-config/spool-janitor}" --reset-breaker "$DIR/spool" || problem "it cannot be reset"
  run_job m1 0.3
  [ "$(wc -l <"$DIR/started/crashes")" = 5 ] || problem "the breaker does not close again"
  nothing_left_but_locks "$id"
  no_report
  verdict
}

@test "the disable file" {
  cluster o
  situation "disable file, there before and made in mid-job"
  touch "$DIR/disable"
  run_job o1
  started "$id"
  nothing_left "$id"
  rm "$DIR/disable"
  as_user srun -N1 -w o1 --reveal sh -c 'echo $SLURM_JOB_ID >id; sleep 8; exit 7' >out 2>err &
  local srun=$! status=0
  rm -f id
  until_true 10 test -s id
  id=$(cat id)
  until_true 10 has_started "$id" o1
  sleep 1
  touch "$DIR/disable"
  none_runs() { [ -z "$(collectors_of "$id" o1)" ]; }
  until_true 4 none_runs || problem "the collector goes on: $(collectors_of "$id" o1)"
  job_runs "$id" || problem "the case is void: the job has ended"
  wait $srun || status=$?
  unchanged 7 $status
  started "$id" o1
  nothing_left "$id"
  note row_report "-"
  verdict
}

@test "default=on is limited, --reveal is not" {
  CLUSTER_PROLOG_FLAGS=none cluster p default=on account=bio percent=100
  situation "no PrologFlags, default=on account=bio: a step that claims the account; explicit --reveal"
  local id status=0
  id=$(as_user sbatch --parsable -N1 -o out --wrap 'export SLURM_JOB_ACCOUNT=bio; srun -N1 sleep 2; exit 2')
  batch_unchanged "$id" FAILED 2:0
  started "$id"
  nothing_left "$id"
  id=$(as_user sbatch --parsable -N1 -o out --reveal --wrap 'srun -N1 sleep 4; exit 2')
  batch_unchanged "$id" FAILED 2:0
  started "$id" p1
  report "$work/reveal-$id" "$id" p1
  nothing_left "$id"
  verdict
}

@test "the spool is a link" {
  local target
  target=$(mktemp -d /tmp/rvXXXXXX)
  chown "$user" "$target"
  cluster q
  situation "spool is a link to a directory of the user"
  rm -rf "$DIR/spool"
  ln -s "$target" "$DIR/spool"
  run_job q1
  started "$id"
  [ -z "$(ls -A "$target")" ] || problem "root wrote through the link: $(ls -lA "$target")"
  rm -rf "$DIR/spool" "$target"
  nothing_left "$id"
  no_report
  verdict
}

@test "the spool belongs to the user" {
  cluster r
  situation "spool writable by the user"
  rm -rf "$DIR/spool"
  install -d -m 777 "$DIR/spool"
  run_job r1
  started "$id"
  [ -z "$(ls -A "$DIR/spool")" ] || problem "root wrote there: $(ls -lA "$DIR/spool")"
  nothing_left "$id"
  no_report
  verdict
}

@test "the spool's disk is full" {
  cluster s
  situation "disk of the spool is full"
  rm -rf "$DIR/spool"
  mkdir -m 711 "$DIR/spool"
  mount -t tmpfs -o size=64k,mode=711 reveal-test "$DIR/spool" || skip "no tmpfs can be mounted here"
  run_job s1 5
  started "$id" s1 # by the prolog; the step does not try again
  head -c 200k /dev/zero >"$DIR/spool/filler" 2>/dev/null || true
  run_job s1 1
  nothing_left_but_locks "$id"
  note row_report "-"
  verdict
}
