#!/usr/bin/env bats
# `reveal drill` on a cluster: as a job of its own, and in an allocation, where the report comes at its end.
load cases

setup_file() { CLUSTER_NODES=2 cluster_start r; }
teardown_file() { cluster_stop; }

# passes FILE CHECK...: these checks passed, and no check failed.
passes() {
  local file=$1 check
  shift
  for check; do grep -q "^passed   $check " "$file" || problem "the drill did not pass $check: $(cat "$file")"; done
  ! grep -q '^failed' "$file" || problem "the drill failed: $(cat "$file")"
}

@test "a drill as a job of its own" {
  situation "reveal drill --srun"
  local status=0
  # For the drill alone: the cluster's jobs send no mail.
  printf '#!/bin/sh\ncat >>%s/mbox\n' "$work" >"$DIR/bin/sendmail"
  chmod 755 "$DIR/bin/sendmail"
  printf '[mail]\nenabled = true\nsendmail = "%s/bin/sendmail"\ndomain = "example.org"\n' "$DIR" >mail.conf
  as_user "$(reveal_program)" drill --seconds 20 --srun '-w r1' --config mail.conf --mail "$user@example.org" \
    --mailbox mbox >out 2>err || status=$?
  unchanged 0 $status
  passes out job trace report finding node interval mail
  grep -q '^passed   mail      arrived in mbox' out || problem "the drill does not find its mail: $(cat out)"
  rm -f out err mail.conf mbox
  [ -z "$(ls -A)" ] || problem "the drill left: $(ls -A)"
  verdict
}

@test "a drill in an allocation" {
  situation "reveal drill in salloc, then --finish"
  local status=0
  as_user salloc -N1 -w r2 "$(reveal_program)" drill --seconds 20 >out 2>err || status=$?
  unchanged 3 $status
  passes out job
  status=0
  as_user "$(reveal_program)" drill --finish reveal-drill-* >out 2>err || status=$?
  unchanged 0 $status
  passes out trace report finding node interval
  rm -f out err
  [ -z "$(ls -A)" ] || problem "the drill left: $(ls -A)"
  verdict
}
