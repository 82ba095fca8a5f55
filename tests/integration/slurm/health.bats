#!/usr/bin/env bats
# `reveal check` as Slurm's HealthCheckProgram, as the README has it: Slurm runs it, node and jobs stay as they were.
load cases

setup_file() {
  health=$(mktemp -d /tmp/rhXXXXXX)
  export health
  health_script 'exec'
  CLUSTER_NODES=1 cluster_start h
}
teardown_file() {
  cluster_stop
  rm -rf "$health"
}

health_script() { # health_script WORDS-BEFORE [LINE-AFTER]
  printf '#!/bin/sh\n%s %s check --textfile %s/reveal.prom\n%s\n' "$1" "$REVEAL_BUILD/bin/reveal" "$health" "${2:-}" >"$health/new"
  chmod 755 "$health/new"
  mv "$health/new" "$health/script" # in one step: Slurm may start it at any time
  export CLUSTER_EXTRA="HealthCheckProgram=$health/script
HealthCheckInterval=2
HealthCheckNodeState=ANY"
}
checked_again() { # after the file that --textfile wrote was taken away
  rm -f "$health/reveal.prom"
  until_true 30 test -s "$health/reveal.prom"
}
node_state() { scontrol show node -o h1 | tr ' ' '\n' | sed -n 's/^State=//p'; }

@test "a health check by Slurm" {
  situation "HealthCheckProgram: reveal check, then one that exits with 2"
  local id
  checked_again || problem "Slurm did not run reveal check"
  grep -q '^reveal_check_status ' "$health/reveal.prom" || problem "not what a check writes: $(cat "$health/reveal.prom")"
  health_script '' "touch $health/ran; exit 2"
  id=$(as_user sbatch --parsable -N1 -o out --reveal --wrap 'sleep 6; echo done')
  until_true 30 test -e "$health/ran" || problem "Slurm did not run it again"
  batch_unchanged "$id" COMPLETED 0:0
  says out done
  started "$id" h1
  nothing_left "$id"
  [ "$(node_state)" = IDLE ] || problem "the node is $(node_state)"
  verdict
}
