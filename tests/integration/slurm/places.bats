#!/usr/bin/env bats
# Where the report lies when the working directory moves, vanishes or is not the user's, and what users can plant.
load cases

setup_file() { CLUSTER_NODES=2 cluster_start p; }
teardown_file() { cluster_stop; }

@test "the job changes its directory" {
  situation "job changes its working directory"
  local id
  id=$(as_user sbatch --parsable -N1 -w p1 -o out --reveal --wrap 'mkdir deep; cd deep; sleep 4; exit 2')
  batch_unchanged "$id" FAILED 2:0
  says out
  started "$id" p1
  report "$work/reveal-$id" "$id" p1
  nothing_left "$id"
  verdict
}

@test "the job deletes its directory" {
  situation "job deletes its working directory"
  local id
  as_user mkdir gone
  id=$(cd gone && as_user sbatch --parsable -N1 -w p1 -o /dev/null --reveal --wrap 'sleep 2; rm -rf "$PWD"; sleep 3; exit 2')
  batch_unchanged "$id" FAILED 2:0
  started "$id" p1
  kept_in_spool "$id" p1
  verdict
}

@test "a working directory in which the user may not write" {
  situation "no write permission in the working directory"
  local status=0 id
  mkdir -m 755 "$DIR/foreign"
  (cd "$DIR/foreign" && as_user srun -N1 -w p2 --reveal sh -c 'echo $SLURM_JOB_ID >$0; sleep 4; exit 2' "$work/id") >out 2>err || status=$?
  unchanged 2 $status
  says out
  id=$(cat id)
  started "$id" p2
  kept_in_spool "$id" p2
  [ -z "$(ls -A "$DIR/foreign")" ] || problem "somebody wrote as root: $(ls -lA "$DIR/foreign")"
  verdict
}

@test "links of the user into a directory of root" {
  situation "reveal-JOBID and output=DIR are links to a place of root"
  local id link
  mkdir -m 755 "$DIR/rootplace"
  id=$(as_user sbatch --parsable -N1 -w p1 -o out --reveal \
    --wrap "ln -s $DIR/rootplace reveal-\$SLURM_JOB_ID; sleep 4; exit 2")
  link=$(as_user sh -c "ln -s $DIR/rootplace link; sbatch --parsable -N1 -w p2 -o out.2 --reveal=output=link --wrap 'sleep 4; exit 3'")
  batch_unchanged "$id" FAILED 2:0
  batch_unchanged "$link" FAILED 3:0
  started "$id" p1
  started "$link" p2
  kept_in_spool "$id" p1
  report "$work/reveal-$link" "$link" p2 # the next best place
  nothing_left "$link"
  [ -z "$(ls -A "$DIR/rootplace")" ] || problem "somebody wrote as root: $(ls -lA "$DIR/rootplace")"
  verdict
}

@test "planted settings" {
  situation "REVEAL_*, LD_*, SPANK_*, PATH, SLURM_* planted by the user"
  local status=0 id
  chmod 755 .
  mkdir -m 777 log
  mkdir bin
  printf '#!/bin/sh\nid -u >>%s/log/planted\n' "$work" | tee bin/reveal >bin/reveal-collect
  chmod 755 bin bin/*
  cat >planted.c <<'SOURCE'
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void loaded(void) {
  char program[200] = "";
  FILE* file = fopen("WORK/log/loaded", "a");
  if (readlink("/proc/self/exe", program, sizeof program - 1) < 0 || file == NULL) return;
  fprintf(file, "%d %s\n", (int)geteuid(), program);
  fclose(file);
}
SOURCE
  sed -i "s|WORK|$work|" planted.c
  cc -shared -fPIC -o planted.so planted.c
  chmod 644 planted.so
  mkdir -m 755 "$DIR/elsewhere"
  as_user env PATH="$work/bin:/usr/bin:/bin" LD_PRELOAD="$work/planted.so" LD_LIBRARY_PATH="$work/bin" \
    REVEAL_SPOOL="$DIR/elsewhere" REVEAL_ROOT="$work" REVEAL_CONFIG="$work/planted.conf" REVEAL_OUTPUT="$DIR/elsewhere" \
    REVEAL_COLLECTOR="$work/bin/reveal-collect" SPANK_REVEAL_DIR="$DIR/elsewhere" SPANK_REVEAL="output=$DIR/elsewhere" \
    SPANK__SLURM_SPANK_OPTION_reveal_reveal="output=$DIR/elsewhere" \
    srun -N1 -w p1 --reveal sh -c 'echo $SLURM_JOB_ID >id; sleep 4; exit 2' >out 2>err || status=$?
  unchanged 2 $status
  says out
  id=$(cat id)
  started "$id" p1
  started_cleanly "$id"
  [ -s log/loaded ] || problem "the case is void: nothing was loaded"
  ! grep -E '^0 |reveal' log/loaded || problem "loaded into root or into reveal: $(grep -E '^0 |reveal' log/loaded)"
  [ ! -e log/planted ] || problem "planted programs were started: $(cat log/planted)"
  [ -z "$(ls -A "$DIR/elsewhere")" ] || problem "somebody wrote as root: $(ls -lA "$DIR/elsewhere")"
  nothing_left "$id"
  [ -d "reveal-$id" ] && note row_report yes || note row_report "none"
  verdict
}
